/**
 * @file Runs the membership suites, of many workers that come and go and of small groups in doubt: `npm run sim -- --suite membership [--seeds N] [--first S] [--seed S] [--seconds T] [--workers N]
 * [--only churn|doubt]`.
 */
import { parseArgs } from 'node:util';
import { formatTotals, runSeeds, type Suite } from '@backwire/testing';
import { doubtSuite } from '../doubt/suite.ts';
import { FULL, membershipSuite, SOUND } from './suite.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    first: { type: 'string' },
    seed: { type: 'string' },
    seconds: { type: 'string' },
    workers: { type: 'string' },
    only: { type: 'string' },
  },
});
/** Seeds between two lines about how far it is. */
const PROGRESS = process.stderr.isTTY ? 10 : 20;

const { only } = values;
if (only !== undefined && only !== 'churn' && only !== 'doubt') throw new Error(`no part '${only}': churn or doubt`);

async function run<S extends object>(
  make: (seen: (run: { counts: object }) => void) => Suite<S>,
  what: string,
): Promise<void> {
  const counts: Record<string, number> = {};
  const suite = make((done) => {
    for (const [kind, n] of Object.entries(done.counts) as [string, number][]) counts[kind] = (counts[kind] ?? 0) + n;
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
  const counted = Object.entries(counts).map(([kind, n]) => `${kind} ${n}`);
  console.log(`  ${what}; ${counted.join(', ')}`);
}

const { fewest, workers, forMs } = FULL;
const size = values.workers === undefined ? FULL : { workers: Number(values.workers), forMs };
const sizes = values.workers ?? `${fewest} to ${workers}`;
if (only !== 'doubt') await run((seen) => membershipSuite(size, SOUND, seen), `${sizes} workers`);
if (only !== 'churn') await run((seen) => doubtSuite(undefined, seen), '3 to 7 workers');
