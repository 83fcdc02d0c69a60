/** @file The table of docs/porting.md: what each function that models are ported with is called here and in PyTorch. */
import { readFileSync, writeFileSync } from 'node:fs';
import { ported } from './operations/ported/table.ts';

const PAGE = new URL('../../../docs/porting.md', import.meta.url);
const ROW = /^\| (.+?) +\| (`.+?`) +\| (`.+?`) +\|$/gm;
const HEAD = '| test | here | PyTorch |\n| --- | --- | --- |\n';

/** Its rows, one for each function. */
export function rowsWanted(): string[][] {
  return ported.map(({ name, forms }) => {
    const [{ ts, py } = { ts: '', py: '' }] = forms;
    return [name, `\`${shown(ts)}\``, `\`${shown(py)}\``];
  });
}

/** Without what only the checker needs: the mark of statements, and null for what a program says by leaving it out. */
function shown(text: string): string {
  return text.replace(/^!/, '').replaceAll('.map((i) => i ?? null)', '');
}

/** The rows it has. */
export function rowsOnPage(): string[][] {
  return [...tableOf(readFileSync(PAGE, 'utf8')).matchAll(ROW)].map(([, ...cells]) => cells);
}

/** Where the table begins: it is the last of the page. */
const startOf = (page: string): number => page.search(/^\| test +\| here +\| PyTorch +\|$/m);
const tableOf = (page: string): string => page.slice(startOf(page));

/** Writes the table anew. Prettier lays it out. */
export function writePage(): void {
  const page = readFileSync(PAGE, 'utf8');
  const rows = rowsWanted().map((cells) => `| ${cells.join(' | ')} |\n`);
  writeFileSync(PAGE, page.slice(0, startOf(page)) + HEAD + rows.join(''));
}
