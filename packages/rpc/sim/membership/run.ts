/** @file Runs the membership suite: `npm run sim -- --suite membership [--seeds N] [--first S] [--seed S] [--seconds T] [--workers N]`. */
import { parseArgs } from 'node:util';
import { formatTotals, runSeeds } from '@backwire/testing';
import type { MembershipCounts } from './oracle.ts';
import { FULL, membershipSuite, SOUND } from './suite.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    first: { type: 'string' },
    seed: { type: 'string' },
    seconds: { type: 'string' },
    workers: { type: 'string' },
  },
});
/** Seeds between two lines about how far it is. */
const PROGRESS = process.stderr.isTTY ? 10 : 20;

const counts: Record<string, number> = {};
const size = { ...FULL, workers: Number(values.workers ?? FULL.workers) };
const suite = membershipSuite(size, SOUND, (run) => {
  for (const kind of Object.keys(run.counts) as (keyof MembershipCounts)[])
    counts[kind] = (counts[kind] ?? 0) + run.counts[kind];
});
const totals = await runSeeds(suite, {
  count: values.seed === undefined ? Number(values.seeds ?? 20) : 1,
  first: Number(values.seed ?? values.first ?? 1),
  passed: (sofar) => void (sofar.seeds % PROGRESS === 0 && console.error(`  ${formatTotals(sofar)}`)),
  failed: (seed, error) =>
    console.error(
      `  seed ${seed} fails; looking for a smaller scenario. ${error instanceof Error ? error.message : String(error)}`,
    ),
  ...(values.seconds === undefined ? {} : { budgetMs: Number(values.seconds) * 1_000 }),
});
console.log(formatTotals(totals));
console.log(
  `  ${size.workers} workers; ${Object.entries(counts)
    .map(([kind, n]) => `${kind} ${n}`)
    .join(', ')}`,
);
