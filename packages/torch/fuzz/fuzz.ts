/** @file `npm run fuzz -w @backwire/torch -- --frames 2000000 [--seed n]`. */
import { parseArgs } from 'node:util';
import { printFuzzReport } from '@backwire/testing';
import { fuzz } from './run.ts';

const { values } = parseArgs({
  options: { frames: { type: 'string', default: '2000000' }, seed: { type: 'string', default: '1' } },
});
const began = performance.now();
const report = fuzz(Number(values.frames), Number(values.seed));
printFuzzReport(report, (performance.now() - began) / 1000);
