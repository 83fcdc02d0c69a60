/** @file Where things are: the repository, its documents, its published packages. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const root = resolve(import.meta.dirname, '../../..');
export const site = join(root, 'apps/site');
/** What a build leaves; nothing in it is kept. */
export const out = join(site, 'out');
export const REPOSITORY = 'https://github.com/backwire/backwire';

export interface PublishedPackage {
  readonly name: string;
  /** Its folder, from the root: 'packages/rpc'. */
  readonly folder: string;
  /** The file that programs import, from the root. */
  readonly entry: string;
}

interface Manifest {
  readonly name: string;
  readonly private?: boolean;
}

/** The packages that are on npm, by name. */
export function publishedPackages(): PublishedPackage[] {
  return readdirSync(join(root, 'packages'))
    .map((name) => `packages/${name}`)
    .map((folder) => ({
      folder,
      manifest: JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as Manifest,
    }))
    .filter(({ manifest }) => manifest.private !== true)
    .map(({ folder, manifest }) => ({ name: manifest.name, folder, entry: `${folder}/src/index.ts` }))
    .sort((a, b) => a.name.localeCompare(b.name));
}

/** The Markdown that users read, as paths from the root: the pages in docs, the read-me files, the results. */
export function documents(): string[] {
  // Files that are new and not yet added count: who writes a page checks it before it is committed.
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'], {
    cwd: root,
    encoding: 'utf8',
  });
  return files
    .trim()
    .split('\n')
    .filter((file) => pageOf(file) !== undefined)
    .sort();
}

/** Where on the site a document is, without '.md'; undefined for one that is no page of it. */
export function pageOf(document: string): string | undefined {
  const inDocs = /^docs\/(.+)\.md$/.exec(document)?.[1];
  if (inDocs !== undefined) return inDocs;
  const ofPackage = /^packages\/([\w-]+)\/README\.md$/.exec(document)?.[1];
  if (ofPackage !== undefined && ofPackage !== 'testing') return `packages/${ofPackage}`;
  return OTHERS.get(document);
}

const OTHERS: ReadonlyMap<string, string> = new Map([
  ['README.md', 'project/readme'],
  ['CONTRIBUTING.md', 'project/contributing'],
  ['SECURITY.md', 'project/reporting'],
  ['CHANGELOG.md', 'project/changelog'],
  ['RELEASING.md', 'project/releasing'],
  ['CODE_OF_CONDUCT.md', 'project/conduct'],
  ['apps/examples/README.md', 'guides/examples'],
  ['benchmarks/RESULTS.md', 'project/results'],
]);

export function readDocument(document: string): string {
  return readFileSync(join(root, document), 'utf8');
}
