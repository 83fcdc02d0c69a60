/** @file Runs random distributed programs: `run.ts [--programs N] [--first SEED] [--seed SEED] [--seconds S]`. */
import { parseArgs } from 'node:util';
import { formatTotals, runSeeds } from '@backwire/testing';
import { programSuite } from './suite.ts';

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
const suite = programSuite((outcome) => {
  ends[outcome.ended] = (ends[outcome.ended] ?? 0) + 1;
  messages += outcome.messages;
});
const totals = await runSeeds(suite, {
  count: values.seed === undefined ? Number(values.programs ?? 1_000) : 1,
  first: Number(values.seed ?? values.first ?? 1),
  rerun: (_, seed) =>
    `node --import tsx --conditions=@backwire/source packages/dist-autograd/sim/run.ts --seed ${seed}`,
  ...(values.seconds === undefined ? {} : { budgetMs: Number(values.seconds) * 1_000 }),
});
console.log(formatTotals(totals));
const kinds = Object.entries(ends).sort();
console.log(`  ${messages} messages; programs: ${kinds.map(([kind, count]) => `${kind} ${count}`).join(', ')}`);
