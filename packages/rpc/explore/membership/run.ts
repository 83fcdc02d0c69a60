/**
 * @file The explorations of the agreement of members: `npm run explore -- --suite membership [--states N] [--sizes 3,4] [--only TEXT]
 * [--slow]`. With `--slow` messages are as slow as all else; without it, what is under way arrives first.
 */
import { parseArgs } from 'node:util';
import { exploreRows, formatExploration } from '@backwire/testing';
import { scenarios } from './scenarios.ts';
import { Worlds } from './world.ts';

const { values } = parseArgs({
  options: {
    states: { type: 'string' },
    sizes: { type: 'string' },
    only: { type: 'string' },
    slow: { type: 'boolean' },
  },
});
const maxStates = Number(values.states ?? 100_000_000);
const sizes = (values.sizes ?? '3,4,5').split(',').map(Number);
for (const scenario of scenarios(sizes)) {
  if (values.only !== undefined && !scenario.name.includes(values.only)) continue;
  const worlds = new Worlds({ ...scenario, prompt: values.slow !== true });
  const result = exploreRows(worlds, { maxStates });
  const [workers, stores, packets] = worlds.told;
  console.log(formatExploration(result));
  console.log(`  of ${workers} states of workers, ${stores} of the store, ${packets} packets`);
  // A world that never comes to rest has not been looked at in the end.
  if (result.terminals === 0) console.log('  and never came to rest');
  if (result.violation !== undefined || !result.complete || result.terminals === 0) process.exitCode = 1;
}
