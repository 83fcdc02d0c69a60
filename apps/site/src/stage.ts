/** @file Puts the documents where VitePress builds them from, with links that lead on the site where there is a page, and into the repository where there is none. */
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { documents, out, pageOf, readDocument, REPOSITORY, root, site } from './repository.ts';

export const pages = join(out, 'pages');
/** The folder of the reference in it, which is written by itself. */
export const REFERENCE = 'api';

/** Copies all documents, and the images of docs. The reference is not among them. */
export function stage(): void {
  // What an earlier build had and this one has not would stay a page.
  for (const name of existsSync(pages) ? readdirSync(pages) : [])
    if (name !== REFERENCE) rmSync(join(pages, name), { recursive: true });
  for (const document of documents()) {
    const page = pageOf(document);
    if (page === undefined) continue;
    const file = join(pages, `${page}.md`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, relinked(document, readDocument(document)));
  }
  cpSync(join(root, 'docs/images'), join(pages, 'images'), { recursive: true });
  cpSync(join(site, 'public'), join(pages, 'public'), { recursive: true });
}

/** The text of a document with its links as they are on the site. */
export function relinked(document: string, markdown: string): string {
  return outsideCode(markdown, (text) =>
    text
      .replace(/(\]\()([^)\s]+)(\))/g, (_, open: string, target: string, close: string) =>
        [open, onSite(document, target), close].join(''),
      )
      .replace(/(src=")([^"]+)(")/g, (_, open: string, target: string, close: string) =>
        [open, onSite(document, target), close].join(''),
      ),
  );
}

/** Applies `change` to what of `markdown` is neither in a code block nor in back quotes. */
function outsideCode(markdown: string, change: (text: string) => string): string {
  return markdown
    .split(/(^ *```[\s\S]*?^ *```$|`[^`\n]+`)/gm)
    .map((part, i) => (i % 2 === 0 ? change(part) : part))
    .join('');
}

/** What read-me files on npm write in place of a relative link. */
const ABSOLUTE =
  /^https:\/\/(?:github\.com\/backwire\/backwire\/(?:blob|tree)|raw\.githubusercontent\.com\/backwire\/backwire)\/main\//;

function onSite(document: string, target: string): string {
  const inRepository = ABSOLUTE.test(target);
  if (!inRepository && /^([a-z]+:|#|\/)/.test(target)) return target;
  const [path = '', anchor] = target.replace(ABSOLUTE, '').split('#');
  const found = normalize(join(inRepository ? '' : dirname(document), path)).replace(/\/$/, '');
  const hash = anchor === undefined ? '' : `#${anchor}`;
  const page = [found, `${found}/README.md`]
    .filter((file) => existsSync(join(root, file)))
    .map(pageOf)
    .find(Boolean);
  const own = pageOf(document) ?? '';
  if (page !== undefined) return `${relativeTo(own, page)}.md${hash}`;
  if (found.startsWith('docs/images/')) return relativeTo(own, found.slice('docs/'.length));
  // Relative, and so a broken link for the check.
  if (!existsSync(join(root, found))) return inRepository ? `./${found}` : target;
  const kind = statSync(join(root, found)).isDirectory() ? 'tree' : 'blob';
  return `${REPOSITORY}/${kind}/main/${found}${hash}`;
}

function relativeTo(page: string, target: string): string {
  const path = relative(dirname(page), target);
  return path.startsWith('.') ? path : `./${path}`;
}
