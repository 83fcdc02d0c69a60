/** @file Runs the suite of simulated groups: `npm run sim -- --suite rref [--seeds N] [--first S] [--seed S] [--seconds T] [--workers N]`. */
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { formatTotals, runSeeds } from '@backwire/testing';
import { rrefSuite } from './suite.ts';

/** Workers of the groups that are simulated, so many seeds each. */
const GROUP_SIZES = [5, 50];

const { values } = parseArgs({
  options: {
    suite: { type: 'string' },
    seeds: { type: 'string' },
    first: { type: 'string' },
    seed: { type: 'string' },
    seconds: { type: 'string' },
    workers: { type: 'string' },
  },
});
const sizes = values.workers === undefined ? GROUP_SIZES : [Number(values.workers)];
for (const workers of sizes) {
  const suite = rrefSuite({ workers });
  const totals = await runSeeds(suite, {
    count: values.seed === undefined ? Number(values.seeds ?? 2_000) : 1,
    first: Number(values.seed ?? values.first ?? 1),
    rerun: (name, seed) => `npm run sim -- --suite ${name} --workers ${workers} --seed ${seed}`,
    ...(values.seconds === undefined ? {} : { budgetMs: Number(values.seconds) * 1_000 }),
    ...(values.seed === undefined ? { regressions: fileURLToPath(new URL('./seeds.txt', import.meta.url)) } : {}),
  });
  const covered = Object.entries(suite.coverage).map(([what, count]) => `${count} ${what}`);
  console.log(`groups of ${workers}, ${formatTotals(totals)}\n  ${covered.join(', ')}`);
}
