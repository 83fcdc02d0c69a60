/** @file Everything the documentation is held to, and the line that sums it up. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type ts from 'typescript';
import type { DefaultTheme } from 'vitepress';
import { sidebar } from '../.vitepress/sidebar.ts';
import { blocksOf, modulesOf, type Fault, type Module } from './blocks.ts';
import { compile, programOf } from './compile.ts';
import { examplesOf } from './doc-examples.ts';
import { checkErrorPage } from './error-codes.ts';
import { checkLinks } from './links.ts';
import { publicNames, type PublicName } from './public-names.ts';
import { checkRegions } from './regions.ts';
import { documents, pageOf, publishedPackages, readDocument, root } from './repository.ts';
import { runBlocks } from './run-blocks.ts';

export interface Findings {
  readonly pages: number;
  readonly compiled: number;
  readonly run: number;
  /** In doc comments. */
  readonly examples: { readonly compiled: number; readonly run: number };
  readonly brokenLinks: number;
  readonly undocumented: number;
  /** One line for each thing that is wrong. */
  readonly faults: readonly string[];
}

/** What is checked: the documents with their blocks, and the packages. */
export interface Material {
  readonly modules: readonly Module[];
  /** The examples in doc comments. */
  readonly examples: readonly Module[];
  /** Mistakes in what comments say of blocks. */
  readonly faults: readonly Fault[];
  /** All blocks and all packages. */
  readonly program: ts.Program;
  readonly names: readonly PublicName[];
}

export function readMaterial(): Material {
  const packages = publishedPackages().map(({ name, entry }) => ({ name, entry: join(root, entry) }));
  const entries = packages.map(({ entry }) => entry);
  const alone = programOf([], entries);
  const names = packages.flatMap(({ name, entry }) => publicNames(alone, name, entry, root));
  const found = documents().map((document) => blocksOf(document, readDocument(document)));
  const known = new Map(
    names.flatMap((name) =>
      name.package === 'backwire' && !name.name.includes('.') ? [[name.name, importOf(name)]] : [],
    ),
  );
  const modules = found.flatMap(({ blocks }) => modulesOf(blocks, known));
  const seen = new Set<ts.Node>();
  const inComments = entries.map((entry) => examplesOf(alone, entry, root, seen));
  const examples = inComments.flatMap(({ blocks }) => blocks.flatMap((block) => modulesOf([block], known)));
  const program = programOf([...modules, ...examples], entries, alone);
  const faults = [...found, ...inComments].flatMap(({ faults }) => faults);
  return { modules, examples, faults, program, names };
}

function importOf({ name, isType, package: of }: PublicName): string {
  return `import { ${isType ? 'type ' : ''}${name} } from '${of}';`;
}

/** Checks the documents, the packages, and the site that was built of them into `built`, if it was. */
export async function check(
  { modules, examples, faults: mistakes, program, names }: Material,
  built: string | undefined,
): Promise<Findings> {
  const blocks = modules.map(({ block }) => block);
  const all = [...modules, ...examples];
  const ran = await runBlocks(all);
  const ranOf = (some: readonly Module[]): number => some.filter(({ block }) => block.run).length;
  const undocumented = names.filter(({ documented }) => !documented);
  const { pages, broken } = built === undefined ? { pages: [], broken: [] } : checkLinks(built);
  const faults: Fault[] = [
    ...mistakes,
    ...compile(program, all),
    ...checkRegions(blocks),
    ...ran,
    ...checkErrorPage(),
    ...unlisted(sidebar, documents()),
  ];
  return {
    pages: pages.length,
    compiled: modules.length,
    run: ranOf(modules) + blocks.filter(({ file }) => file !== undefined).length,
    examples: { compiled: examples.length, run: ranOf(examples) },
    brokenLinks: broken.length,
    undocumented: undocumented.length,
    faults: [
      ...faults.map(({ document, line, text }) => `${document}:${line}: ${text}`),
      ...broken.map(({ page, target, why }) => `${page}: ${target}: ${why}`),
      ...undocumented.map(({ package: of, name, place }) => `${place}: '${name}' of ${of} has no sentence`),
      ...(built === undefined ? [] : unreachable(built, names)).map(
        (name) => `api/index.html: '${name}' is not in the index`,
      ),
    ],
  };
}

/** Documents that no reader finds, because they are not in the sidebar. */
export function unlisted(items: readonly DefaultTheme.SidebarItem[], files: readonly string[]): Fault[] {
  const links = (item: DefaultTheme.SidebarItem): string[] => [
    ...(item.link === undefined ? [] : [item.link.slice(1).replace(/\/$/, '/index')]),
    ...(item.items ?? []).flatMap(links),
  ];
  const listed = new Set(['index', ...items.flatMap(links)]);
  return files
    .filter((document) => !listed.has(pageOf(document) ?? ''))
    .map((document) => ({ document, line: 1, text: 'is not in apps/site/.vitepress/sidebar.ts' }));
}

/** Names that the index of the reference does not have. That its links lead somewhere is what the check of links says. */
function unreachable(built: string, names: readonly PublicName[]): string[] {
  const file = join(built, 'api/index.html');
  const index = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const linked = new Set([...index.matchAll(/data-name="([^"]+)"/g)].map(([, name = '']) => name));
  return names.map(({ package: of, name }) => `${of} ${name}`).filter((name) => !linked.has(name));
}

/** `N pages, M code blocks compiled, K run, E examples in doc comments compiled, R run, …` */
export function summary({ pages, compiled, run, examples, brokenLinks, undocumented }: Findings): string {
  return [
    `${pages} pages`,
    `${compiled} code blocks compiled`,
    `${run} run`,
    `${examples.compiled} examples in doc comments compiled`,
    `${examples.run} run`,
    `${brokenLinks} broken links`,
    `${undocumented} public names without documentation`,
  ].join(', ');
}
