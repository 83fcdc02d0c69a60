/** @file The index of all public names, each a link to its place in the reference. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { publishedPackages } from './repository.ts';
import type { PublicName } from './public-names.ts';

/** Where the reference has a name: '/api/rpc#rpcsync', by 'package name'. */
export type Places = ReadonlyMap<string, string>;

/** Reads where each name is off the pages in `folder`, which TypeDoc wrote. */
export function placesOf(folder: string, names: readonly PublicName[]): Places {
  const places = new Map<string, string>();
  const pages = new Map<string, ReadonlyMap<string, string>>();
  for (const { package: of, name } of names) {
    const namespaces = name.split('.').slice(0, -1);
    const own = name.split('.').at(-1) ?? name;
    const page = pageOf(folder, of, namespaces);
    const nested = pageOf(folder, of, [...namespaces, own]);
    if (page === undefined) continue;
    if (nested !== undefined && nested !== page) {
      places.set(`${of} ${name}`, urlOf(nested));
      continue;
    }
    let anchors = pages.get(page);
    if (anchors === undefined) pages.set(page, (anchors = anchorsOf(readFileSync(join(folder, page), 'utf8'))));
    const anchor = anchors.get(own);
    if (anchor !== undefined) places.set(`${of} ${name}`, `${urlOf(page)}#${anchor}`);
  }
  // What a package exports again, under a namespace of its own perhaps, is where the other package has it.
  const declared = new Map<string, string>();
  for (const { package: of, name, place } of names) {
    const found = places.get(`${of} ${name}`);
    if (found !== undefined) declared.set(place, found);
  }
  for (const { package: of, name, place } of names) {
    const elsewhere = declared.get(place);
    if (!places.has(`${of} ${name}`) && elsewhere !== undefined) places.set(`${of} ${name}`, elsewhere);
  }
  return places;
}

/** The page of a package, or of a namespace in it. */
function pageOf(folder: string, packageName: string, namespaces: readonly string[]): string | undefined {
  const base = packageName.replace('@backwire/', '');
  const path = [base, ...namespaces.map((name) => `namespaces/${name}`)].join('/');
  return [`${path}.md`, `${path}/index.md`].find((file) => existsSync(join(folder, file)));
}

function urlOf(page: string): string {
  return `/api/${page.replace(/\.md$/, '').replace(/(^|\/)index$/, '$1')}`;
}

/** '### rpcSync() {#rpcsync}' by name. */
function anchorsOf(markdown: string): Map<string, string> {
  return new Map(
    [...markdown.matchAll(/^### ~*(?:`?[Aa]bstract`? )?`?([\w$\\]+)[^\n{]*\{#([^}]+)\}/gm)].map(
      ([, name = '', anchor = '']) => [name.replaceAll('\\', ''), anchor],
    ),
  );
}

/** Writes the first page of the reference: every name of every package. */
export function writeIndex(folder: string, names: readonly PublicName[], places: Places): void {
  const sections = publishedPackages().map(({ name: of }) => {
    const links = names
      .filter((name) => name.package === of)
      .sort((a, b) => a.name.localeCompare(b.name))
      .flatMap(({ name }) => {
        const place = places.get(`${of} ${name}`);
        return place === undefined ? [] : [`<a href="${place}" data-name="${of} ${name}">${name}</a>`];
      });
    return `## ${of}\n\n<p class="names">\n${links.join('\n')}\n</p>\n`;
  });
  const text = `# API reference\n\nEvery public name of every package. \`backwire\` has all of them but those of \`@backwire/torch\`; those of \`@backwire/dist-autograd\` and\n\`@backwire/profiler\` as \`distAutograd.…\` and \`profiler.…\`.\n\n${sections.join('\n')}`;
  writeFileSync(join(folder, 'index.md'), text);
}

/** What a name in back quotes on any page leads to: names that mean one thing. */
export function writePlaces(file: string, places: Places): void {
  const byName = new Map<string, string>();
  for (const [key, place] of places) {
    const name = key.slice(key.indexOf(' ') + 1);
    // The umbrella package has what the others have.
    if (!byName.has(name) || !key.startsWith('backwire ')) byName.set(name, place);
  }
  writeFileSync(file, JSON.stringify(Object.fromEntries(byName)));
}
