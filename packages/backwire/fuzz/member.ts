/** @file A hostile member against a running agent: `npm run fuzz -- --suite member [--frames N] [--seed S]`. */
import { parseArgs } from 'node:util';
import { fuzzMember } from './member-run.ts';

const { values } = parseArgs({ options: { frames: { type: 'string' }, seed: { type: 'string' } } });
const seed = Number(values.seed ?? 1);
const began = performance.now();
const { calls, names, outcomes, ran, unheard } = await fuzzMember(Number(values.frames ?? 100_000), seed);
const seconds = (performance.now() - began) / 1_000;
console.log(
  `member, seed ${seed}: ${calls} calls of ${names} names in ${seconds.toFixed(1)} s; ${JSON.stringify(Object.fromEntries(outcomes))}`,
);
if (ran.length > 0) console.error(`what is not served ran: ${[...new Set(ran)].join(', ')}`);
for (const reason of unheard) console.error('a promise was rejected with nobody to hear of it:', reason);
process.exit(ran.length + unheard.length > 0 ? 1 : 0);
