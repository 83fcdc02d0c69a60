/** @file Code blocks that are a region of a file which is tested, so that they cannot rot. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Block, Fault } from './blocks.ts';
import { root } from './repository.ts';

/** What is wrong with the blocks that name a file: it is not there, nothing tests it, or it says something else by now. */
export function checkRegions(blocks: readonly Block[]): Fault[] {
  return blocks.flatMap((block) => {
    const text = block.file === undefined ? undefined : faultOf(block, block.file);
    return text === undefined ? [] : [{ document: block.document, line: block.line, text }];
  });
}

function faultOf(block: Block, reference: string): string | undefined {
  const found = regionOf(reference);
  if (found === undefined) return `there is no ${reference}`;
  if (!isTested(reference.replace(/#.*/, ''))) return `no test stands beside ${reference}`;
  return found === block.text.trimEnd()
    ? undefined
    : `${reference} says something else: npm run docs -- --update copies it`;
}

/** The lines between `// #region name` and `// #endregion name`, as far left as they go; without a name all of the file. */
function regionOf(reference: string): string | undefined {
  const [file = '', name] = reference.split('#');
  const path = join(root, file);
  if (!existsSync(path)) return undefined;
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  if (name === undefined) return lines.join('\n');
  const first = lines.findIndex((line) => line.trim() === `// #region ${name}`);
  const last = lines.findIndex((line) => line.trim() === `// #endregion ${name}`);
  if (first < 0 || last < first) return undefined;
  const region = lines.slice(first + 1, last).filter((line) => !/^\s*\/\/ #(end)?region\b/.test(line));
  const indent = Math.min(...region.filter((line) => line.trim() !== '').map((line) => line.search(/\S/)));
  return region.map((line) => line.slice(indent)).join('\n');
}

/** Whether a test stands in the folder of `file` or the one above, or it is one. */
function isTested(file: string): boolean {
  if (file.endsWith('.test.ts')) return true;
  const folders = [dirname(file), dirname(dirname(file))];
  return folders.some((folder) => readdirSync(join(root, folder)).some((name) => name.endsWith('.test.ts')));
}

/** `markdown` with the blocks that name a file as those files are now. */
export function updateRegions(markdown: string): string {
  return markdown.replace(
    /^(<!-- file: *(\S+) *-->\n+```\w*\n)([\s\S]*?)(\n```)$/gm,
    (whole, before: string, reference: string, _text: string, end: string) => {
      const found = regionOf(reference);
      return found === undefined ? whole : `${before}${found}${end}`;
    },
  );
}
