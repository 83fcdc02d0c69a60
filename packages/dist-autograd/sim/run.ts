/** @file Runs random distributed programs: `run.ts [--programs N] [--first SEED] [--seed SEED] [--seconds S]`. */
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { formatTotals, runSeeds } from '@backwire/testing';
import { nothingCovered, programSuite, type Covered } from './suite.ts';

const { values } = parseArgs({
  options: {
    programs: { type: 'string' },
    first: { type: 'string' },
    seed: { type: 'string' },
    seconds: { type: 'string' },
  },
});
const ends: Record<string, number> = {};
let messages = 0;
const covered = nothingCovered();
const suite = programSuite((outcome) => {
  ends[outcome.ended] = (ends[outcome.ended] ?? 0) + 1;
  messages += outcome.messages;
  const { deepest, ...sums } = outcome.covered;
  covered.deepest = Math.max(covered.deepest, deepest);
  for (const [what, count] of Object.entries(sums)) covered[what as keyof Covered] += count;
});
const totals = await runSeeds(suite, {
  count: values.seed === undefined ? Number(values.programs ?? 2_000) : 1,
  first: Number(values.seed ?? values.first ?? 1),
  rerun: (_, seed) =>
    `node --import tsx --conditions=@backwire/source packages/dist-autograd/sim/run.ts --seed ${seed}`,
  ...(values.seed === undefined ? { regressions: fileURLToPath(new URL('./seeds.txt', import.meta.url)) } : {}),
  ...(values.seconds === undefined ? {} : { budgetMs: Number(values.seconds) * 1_000 }),
});
console.log(formatTotals(totals));
const kinds = Object.entries(ends).sort();
console.log(`  ${messages} messages; programs: ${kinds.map(([kind, count]) => `${kind} ${count}`).join(', ')}`);
const { hops, deepest, sharedLeaves, unused, errors, asked, planned, aborts } = covered;
console.log(
  `  ${hops} hops, calls up to ${deepest} deep, ${sharedLeaves} shared leaves, ${unused} unused results and arguments, ` +
    `${errors} errors thrown, ${aborts} aborts, ${asked} programs asked what they reach, ${planned} knew`,
);
