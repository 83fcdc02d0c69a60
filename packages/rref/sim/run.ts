/** @file Runs the suite of simulated groups: `npm run sim -- --suite rref [--seeds N] [--first S] [--seed S] [--seconds T]`. */
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { formatTotals, runSeeds } from '@backwire/testing';
import { rrefSuite } from './suite.ts';

const { values } = parseArgs({
  options: {
    suite: { type: 'string' },
    seeds: { type: 'string' },
    first: { type: 'string' },
    seed: { type: 'string' },
    seconds: { type: 'string' },
  },
});
const totals = await runSeeds(rrefSuite(), {
  count: values.seed === undefined ? Number(values.seeds ?? 2_000) : 1,
  first: Number(values.seed ?? values.first ?? 1),
  ...(values.seconds === undefined ? {} : { budgetMs: Number(values.seconds) * 1_000 }),
  ...(values.seed === undefined ? { regressions: fileURLToPath(new URL('./seeds.txt', import.meta.url)) } : {}),
});
console.log(formatTotals(totals));
