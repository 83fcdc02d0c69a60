/** @file Times all cases on the backend of this process (BACKWIRE_BACKEND): started by main.ts, which reads its rows from stdout. */
import { backendName } from '../src/index.ts';
import { cases } from './cases.ts';
import { efforts, measure } from './measure.ts';
import { Torch } from './torch.ts';

const [effort, python, only] = process.argv.slice(2) as ['full' | 'quick', string, string];
const torch = python === '' ? undefined : await Torch.start(python);
const backend = backendName();
for (const one of cases) {
  if (one.except?.includes(backend) === true || !one.name.includes(only)) continue;
  console.log(JSON.stringify(await measure(backend, one, torch, efforts[effort])));
}
await torch?.stop();
