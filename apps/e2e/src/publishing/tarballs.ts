/** @file What was published, taken from the registry and unpacked. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../workspace.ts';
import { must } from './clone.ts';

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description?: string;
  readonly keywords?: readonly string[];
  readonly homepage?: string;
  readonly bugs?: { readonly url?: string };
  readonly repository?: { readonly url?: string; readonly directory?: string };
  readonly license?: string;
  readonly engines?: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, unknown>>;
  readonly bin?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

export interface Tarball {
  readonly file: string;
  /** Where it is unpacked. */
  readonly folder: string;
  readonly manifest: Manifest;
  /** Its files, from its root. */
  readonly files: readonly string[];
  readonly bytes: number;
}

/** Takes the version of a package that `tag` names, and unpacks it into `folder`. */
export async function fetchTarball(registry: string, name: string, version: string, folder: string): Promise<Tarball> {
  const document = (await (await fetch(`${registry}${name.replace('/', '%2f')}`)).json()) as {
    'dist-tags': Record<string, string>;
    versions: Record<string, { dist: { tarball: string } }>;
  };
  const found = document.versions[document['dist-tags'][version] ?? version];
  if (found === undefined) throw new Error(`${name}@${version} is not in the registry`);
  const bytes = Buffer.from(await (await fetch(found.dist.tarball)).arrayBuffer());
  const unpacked = join(folder, name.replace('/', '-'));
  mkdirSync(unpacked, { recursive: true });
  const file = `${unpacked}.tgz`;
  writeFileSync(file, bytes);
  await must(run('tar', ['-xzf', file, '-C', unpacked, '--strip-components=1']));
  const files = readdirSync(unpacked, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(unpacked.length + 1));
  const manifest = JSON.parse(readFileSync(join(unpacked, 'package.json'), 'utf8')) as Manifest;
  return { file, folder: unpacked, manifest, files: files.sort(), bytes: bytes.byteLength };
}

/** Every version of a package that the registry has. */
export async function versionsOf(registry: string, name: string): Promise<string[]> {
  const document = (await (await fetch(`${registry}${name.replace('/', '%2f')}`)).json()) as { versions: object };
  return Object.keys(document.versions);
}
