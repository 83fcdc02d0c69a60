/** @file `npm run imports`: the numbers of the import graph. With `--list`, each arrow up and each circle; with `--json`, all of it as data. */
import { parseArgs } from 'node:util';
import { readGraph } from './graph.ts';
import { measure, type Numbers } from './measure.ts';
import { Workspace } from './workspace.ts';

const { values } = parseArgs({
  options: { list: { type: 'boolean', default: false }, json: { type: 'boolean', default: false } },
});

const rows = measure(readGraph(new Workspace()));
if (values.json) console.log(JSON.stringify(rows, undefined, 2));
else print(rows);
if (values.list && !values.json) for (const row of rows.slice(0, -1)) list(row);

function print(all: readonly Numbers[]): void {
  const titles = ['', 'files', 'arrows', 'up', 'circles', 'largest', 'at run time', 'largest'];
  const widths = titles.map((title, i) => (i === 0 ? 16 : Math.max(title.length, 6) + 2));
  const line = (cells: readonly (string | number)[]): string =>
    cells
      .map((cell, i) => (i === 0 ? String(cell).padEnd(widths[i] ?? 0) : String(cell).padStart(widths[i] ?? 0)))
      .join('');
  console.log(line(titles));
  for (const { name, files, arrows, up, circles, runtimeCircles } of all) {
    const of = (found: readonly (readonly string[])[]): number[] => [found.length, found[0]?.length ?? 0];
    console.log(line([name, files, arrows, up.length, ...of(circles), ...of(runtimeCircles)]));
  }
}

function list({ name, up, circles }: Numbers): void {
  if (up.length + circles.length === 0) return;
  console.log(`\n${name}`);
  for (const { from, to, line } of up) console.log(`  up: ${from}:${line} imports ${to}`);
  for (const circle of circles) console.log(`  circle of ${circle.length}: ${circle.join(' ')}`);
}
