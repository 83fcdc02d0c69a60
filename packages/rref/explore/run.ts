/** @file The long explorations of the RRef protocol: `npm run explore -- --suite rref [--states N]`; each world is cut off at N. */
import { parseArgs } from 'node:util';
import { explore, formatExploration } from '@backwire/testing';
import { rrefModel, type Bounds } from './model.ts';

const WORLDS: readonly Bounds[] = [
  { users: 2, forks: 3 },
  { users: 2, forks: 3, creator: 'user', losses: 1 },
  { users: 2, forks: 3, crashes: 1 },
  { users: 2, forks: 3, network: 'any order', duplicates: 1 },
  { users: 3, forks: 2, crashes: 1 },
  { users: 3, forks: 2, crashes: 2 },
  { users: 3, forks: 3, crashes: 1 },
  { users: 3, forks: 3, crashes: 1, creator: 'user' },
  { users: 3, forks: 3, crashes: 2 },
  { users: 2, forks: 4, crashes: 1 },
  { users: 3, forks: 4, crashes: 1 },
  { users: 3, forks: 4, crashes: 2 },
];

/** Without the second half of R3', the run that `rules.explore.test.ts` keeps. */
const WEAK: Bounds = { users: 3, forks: 3, crashes: 2, rules: { deathExtendsFence: false } };

const { values } = parseArgs({ options: { states: { type: 'string' } } });
const maxStates = Number(values.states ?? 10_000_000);
let wrong = false;
for (const bounds of WORLDS) {
  const result = explore(rrefModel(bounds), { maxStates });
  wrong ||= result.violation !== undefined;
  console.log(formatExploration(result));
}
const weak = explore(rrefModel(WEAK), { maxStates });
console.log(formatExploration(weak));
wrong ||= weak.complete;
process.exitCode = wrong ? 1 : 0;
