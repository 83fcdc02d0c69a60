/** @file Explores a pass with larger bounds than a unit test: `run.ts [--passes N] [--states N] [--die WORKER]`. */
import { parseArgs } from 'node:util';
import { explore, formatExploration } from '@backwire/testing';
import { passModel, TRIANGLE } from './pass-model.ts';

const { values } = parseArgs({
  options: { passes: { type: 'string' }, states: { type: 'string' }, die: { type: 'string' } },
});
const bounds = {
  graph: TRIANGLE,
  passes: Number(values.passes ?? 2),
  timeout: true,
  ...(values.die === undefined ? {} : { mayDie: Number(values.die) }),
};
const result = explore(passModel(bounds), { maxStates: Number(values.states ?? 2_000_000) });
console.log(formatExploration(result));
process.exitCode = result.violation === undefined ? 0 : 1;
