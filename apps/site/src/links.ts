/** @file The links of the built site: every one leads to a page, a file or an anchor that is there. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

interface BrokenLink {
  /** The built page it is on: 'concepts/calls.html'. */
  readonly page: string;
  readonly target: string;
  readonly why: string;
}

export interface Links {
  readonly pages: readonly string[];
  readonly broken: readonly BrokenLink[];
}

/** Follows every link of every page in `folder` that does not leave the site. */
export function checkLinks(folder: string): Links {
  const pages = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.html') && file !== '404.html',
  );
  const read = new Map(pages.map((page) => [page, readFileSync(join(folder, page), 'utf8')]));
  const anchors = new Map([...read].map(([page, html]) => [page, anchorsOf(html)]));
  const broken: BrokenLink[] = [];
  for (const [page, html] of read)
    for (const target of new Set(targetsOf(html))) {
      const why = fault(folder, anchors, page, target);
      if (why !== undefined) broken.push({ page, target, why });
    }
  return { pages, broken };
}

function anchorsOf(html: string): ReadonlySet<string> {
  return new Set([...html.matchAll(/\sid="([^"]+)"/g)].map(([, id = '']) => unescaped(id)));
}

function targetsOf(html: string): string[] {
  return [...html.matchAll(/<(?:a|img|link)\s[^>]*?(?:href|src)="([^"]+)"/g)]
    .map(([, target = '']) => unescaped(target))
    .filter((target) => !/^([a-z][a-z+.-]*:|\/\/)/i.test(target));
}

function fault(
  folder: string,
  anchors: ReadonlyMap<string, ReadonlySet<string>>,
  page: string,
  target: string,
): string | undefined {
  const [path = '', hash] = target.split('#');
  const file = path === '' ? page : fileOf(folder, page, path.replace(/\?.*/, ''));
  if (file === undefined) return 'no such page';
  if (hash === undefined || hash === '' || !file.endsWith('.html')) return undefined;
  return anchors.get(file)?.has(decodeURIComponent(hash)) === true ? undefined : 'no such anchor';
}

/** The file that a server gives for `path`: links are written without '.html'. */
function fileOf(folder: string, page: string, path: string): string | undefined {
  const whole = decodeURIComponent(path.startsWith('/') ? path.slice(1) : normalize(join(dirname(page), path))).replace(
    /^\.\//,
    '',
  );
  const candidates = whole === '' || whole.endsWith('/') ? [`${whole}index.html`] : [whole, `${whole}.html`];
  return candidates.find((file) => /\.\w+$/.test(file) && existsSync(join(folder, file)));
}

function unescaped(text: string): string {
  return text
    .replace(/&amp;/g, '&')
    .replace(/&quot;/g, '"')
    .replace(/&#39;/g, "'")
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>');
}
