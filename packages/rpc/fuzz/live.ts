/** @file Fuzzes the port of a running agent: `npm run fuzz -- --suite live [--frames N] [--seed S]`. */
import { parseArgs } from 'node:util';
import { fuzzLive } from './live-run.ts';

/** The process may grow by this much: the limits of the fuzzed agent are a fraction of it. */
const MAX_GROWTH_BYTES = 512 * 1024 * 1024;

const { values } = parseArgs({ options: { frames: { type: 'string' }, seed: { type: 'string' } } });
const began = performance.now();
const report = await fuzzLive(Number(values.frames ?? 1_000_000), Number(values.seed ?? 1));
const seconds = (performance.now() - began) / 1_000;
const { frames, connections, broken, strangers, answers, lives, grownBytes } = report;
console.log(
  `live port: ${frames} damaged frames over ${connections} connections (${broken} broken off, ${strangers} strangers, ${lives} lives), ${answers} frames back, ${Math.round(grownBytes / 2 ** 20)} MiB grown, in ${seconds.toFixed(1)} s`,
);
if (grownBytes > MAX_GROWTH_BYTES) {
  console.error(`the process grew by more than ${MAX_GROWTH_BYTES} bytes`);
  process.exitCode = 1;
}
process.exit();
