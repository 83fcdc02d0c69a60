/** @file `npm run fuzz -w @backwire/wire -- --frames 1000000 [--seed n]`. */
import { parseArgs } from 'node:util';
import { fuzz } from './run.ts';

const { values } = parseArgs({
  options: { frames: { type: 'string', default: '1000000' }, seed: { type: 'string', default: '1' } },
});
const began = performance.now();
const report = fuzz(Number(values.frames), Number(values.seed));
const seconds = (performance.now() - began) / 1000;
console.log(
  `${report.accepted} accepted, ${report.refused} refused in ${seconds.toFixed(1)} s; slowest ${report.slowestMs.toFixed(1)} ms; ${JSON.stringify(Object.fromEntries(report.codes))}`,
);
for (const { target, seed, hex, error } of report.failures) console.error(`${target}, seed ${seed}: ${hex}\n`, error);
if (report.failures.length > 0) process.exitCode = 1;
