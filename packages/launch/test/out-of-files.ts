/** @file Launches once this process may open only so many more files, as the first argument says; prints what became of it. */
import { closeSync, openSync } from 'node:fs';
import { launch } from '../src/index.ts';

const [free = '0', program = ''] = process.argv.slice(2);
const taken: number[] = [];
for (;;) {
  try {
    taken.push(openSync('/dev/null', 'r'));
  } catch {
    break;
  }
}
for (const file of taken.splice(0, Number(free))) closeSync(file);
const end = await launch({ program, processes: 16, native: true, stopGraceMs: 500 }).catch((error: unknown) => error);
for (const file of taken) closeSync(file);
console.log(JSON.stringify(end instanceof Error ? { thrown: end.message } : end));
