/**
 * @file The long explorations of a backward pass: `npm run explore -- --suite autograd [--states N] [--only TEXT] [--large]`. Each world is
 * cut off at N states; `--only` takes the worlds whose name has TEXT in it.
 */
import { parseArgs } from 'node:util';
import { explore, formatExploration } from '@backwire/testing';
import { CHAIN, DETOUR, DETOUR_LATER, STAR, TRIANGLE, TWO_ORIGINS } from './graphs.ts';
import { passModel, type Bounds } from './pass-model.ts';

/** All of them can be searched to the end. */
const WORLDS: readonly (readonly [string, Bounds])[] = [
  ['one pass, given up at any time', { graph: TRIANGLE, timeout: true }],
  ['one pass, one worker dies', { graph: TRIANGLE, timeout: true, mayDie: 1 }],
  ['one pass, its origin dies', { graph: TRIANGLE, mayDie: 0 }],
  ['two passes', { graph: TRIANGLE, passes: 2 }],
  ['two passes, and one that cannot begin', { graph: TRIANGLE, passes: 2, refuses: true }],
  ['a pass that is given up, and one that cannot begin', { graph: CHAIN, refuses: true, timeout: true, mayDie: 2 }],
  ['two passes, one given up', { graph: CHAIN, passes: 2, timeout: true }],
  ['two passes, one given up, a worker dies', { graph: CHAIN, passes: 2, timeout: true, mayDie: 2 }],
  ['two passes in fast mode, the worker in the middle dies', { graph: CHAIN, fast: true, passes: 2, mayDie: 1 }],
  [
    'two passes over a chain, one given up, the worker in the middle dies',
    { graph: CHAIN, passes: 2, timeout: true, mayDie: 1 },
  ],
  [
    'two origins, two passes each, the worker between them dies',
    { graph: TWO_ORIGINS, origins: [0, 2], passes: 2, mayDie: 1 },
  ],
  ['two passes, the second over another way', { graph: DETOUR, later: DETOUR_LATER, passes: 2, timeout: true }],
  [
    'two passes over a star, given up, its middle dies',
    { graph: STAR, origins: [2], passes: 2, timeout: true, mayDie: 1 },
  ],
  ['two passes, planned, one given up', { graph: TRIANGLE, passes: 2, timeout: true, planned: true }],
  ['two passes, planned, a worker dies', { graph: TRIANGLE, passes: 2, planned: true, mayDie: 1 }],
  ['two origins, two passes each', { graph: TWO_ORIGINS, origins: [0, 2], passes: 2, planned: true }],
];

/** Not to be searched to the end in minutes: with `--large`, as far as the bound on states allows. */
const LARGE: readonly (readonly [string, Bounds])[] = [
  ['two passes over a triangle, one given up', { graph: TRIANGLE, passes: 2, timeout: true }],
];

const { values } = parseArgs({
  options: { states: { type: 'string' }, only: { type: 'string' }, large: { type: 'boolean' } },
});
const maxStates = Number(values.states ?? 5_000_000);
let wrong = false;
for (const [name, bounds] of values.large === true ? [...WORLDS, ...LARGE] : WORLDS) {
  if (values.only !== undefined && !name.includes(values.only)) continue;
  const result = explore(passModel(bounds), { maxStates });
  wrong ||= result.violation !== undefined || !result.complete;
  console.log(formatExploration({ ...result, model: name }));
}
process.exitCode = wrong ? 1 : 0;
