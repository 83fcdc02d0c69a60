/** @file Runs the session suite: `npm run sim -- --suite session [--seeds N] [--first S] [--seed S]`. */
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import { formatTotals, runSeeds } from '@backwire/testing';
import { sessionSuite } from './suite.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    first: { type: 'string' },
    seed: { type: 'string' },
    seconds: { type: 'string' },
  },
});
const outcomes: Record<string, number> = {};
let frames = 0;
const suite = sessionSuite(undefined, (run) => {
  frames += run.frames;
  for (const [kind, count] of Object.entries(run.outcomes)) outcomes[kind] = (outcomes[kind] ?? 0) + count;
});
const totals = await runSeeds(suite, {
  count: values.seed === undefined ? Number(values.seeds ?? 2_000) : 1,
  first: Number(values.seed ?? values.first ?? 1),
  ...(values.seconds === undefined ? {} : { budgetMs: Number(values.seconds) * 1_000 }),
  ...(values.seed === undefined ? { regressions: fileURLToPath(new URL('./seeds.txt', import.meta.url)) } : {}),
});
console.log(formatTotals(totals));
console.log(
  `  ${frames} numbered frames delivered; calls: ${Object.entries(outcomes)
    .sort()
    .map(([kind, n]) => `${kind} ${n}`)
    .join(', ')}`,
);
