/** @file `npm run bench [-- --suite NAME … --quick --profile --json FILE]`: every suite of `suites/`, its rows in one table. */
import { readdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import type { Row, Suite, SuiteContext } from './suite.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean' },
    profile: { type: 'boolean' },
    json: { type: 'string' },
    suite: { type: 'string', multiple: true },
  },
});
const python = process.env['BACKWIRE_TORCH_PYTHON'];
const context: SuiteContext = {
  quick: values.quick === true,
  profile: values.profile === true,
  torchPython: python === '' ? undefined : python,
  log: (line) => console.log(line),
};
console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}`);
const rows: (Row & { readonly suite: string })[] = [];
for (const name of values.suite ?? found()) {
  const suite = (await import(`./suites/${name}.ts`)) as Suite;
  console.log(`\nsuite ${suite.name}`);
  const own = (await suite.run(context)).map((row) => ({ suite: suite.name, ...row }));
  print(own);
  rows.push(...own);
}
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(rows, null, 2)}\n`);

/** Modules of `suites/`, but the programs they start, whose names have a dash or an underscore. */
function found(): string[] {
  const files = readdirSync(new URL('./suites/', import.meta.url));
  return files
    .filter((file) => /^[a-z]+\.ts$/.test(file))
    .map((file) => file.slice(0, -'.ts'.length))
    .sort();
}

function print(own: readonly Row[]): void {
  const cells = own.map((row) => [
    `${row.name} (${row.unit})`,
    row.against,
    figure(row.ours),
    figure(row.peer),
    `${row.ratio.toFixed(2)} (${row.better} is better)`,
  ]);
  const table = [['what', 'against', 'Backwire', 'peer', 'ratio'], ...cells];
  const widths = [0, 1, 2, 3, 4].map((column) => Math.max(...table.map((line) => line[column]?.length ?? 0)));
  for (const [i, line] of table.entries()) {
    console.log(`| ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`);
    if (i === 0) console.log(`|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`);
  }
}

function figure(value: number): string {
  if (value >= 10_000) return `${Math.round(value / 1_000)} k`;
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
