/** @file Makes a public name in back quotes a link to its place in the reference. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { MarkdownRenderer } from 'vitepress';

const file = join(import.meta.dirname, '../out/places.json');
const places = new Map(
  Object.entries(existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>) : {}),
);

/** Names that are also words of the language or of prose: `data`, `all`. Only a call of one is a link. */
const WORD = /^(?!distAutograd|backwire)[a-z]{1,11}$/;

export function linkNames(md: MarkdownRenderer): void {
  const plain = md.renderer.rules.code_inline;
  if (plain === undefined) return;
  md.renderer.rules.code_inline = (tokens, at, options, env: { relativePath?: string }, self) => {
    const code = plain(tokens, at, options, env, self);
    const text = tokens[at]?.content ?? '';
    const name = /^([\w.]+)(\(.*\))?$/.exec(text);
    const place = places.get(name?.[1] ?? '');
    const inLink =
      tokens
        .slice(0, at)
        .reduce((depth, { type }) => depth + (type === 'link_open' ? 1 : type === 'link_close' ? -1 : 0), 0) > 0;
    if (place === undefined || inLink || env.relativePath?.startsWith('api/') === true) return code;
    if (name?.[2] === undefined && WORD.test(text)) return code;
    return `<a class="name" href="${place}">${code}</a>`;
  };
}
