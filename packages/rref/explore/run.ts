/**
 * @file The long explorations of the RRef protocol: `npm run explore -- --suite rref [--states N] [--only TEXT]`. Each world is cut off
 * at N states; `--only` takes the worlds whose name has TEXT in it.
 */
import { parseArgs } from 'node:util';
import { formatExploration } from '@backwire/testing';
import { describe, type Bounds } from './bounds.ts';
import { exploreRRefs } from './search.ts';

/** What must be clean. */
const WORLDS: readonly Bounds[] = [
  { users: 2, forks: 3 },
  { users: 2, forks: 3, crashes: 1 },
  { users: 2, forks: 3, crashes: 2 },
  { users: 2, forks: 3, network: 'any order', duplicates: 1 },
  { users: 2, forks: 3, creator: 'user', losses: 1 },
  { users: 2, forks: 3, creator: 'user', crashes: 1 },
  { users: 3, forks: 3 },
  { users: 3, forks: 3, crashes: 1 },
  { users: 3, forks: 3, crashes: 2 },
  { users: 3, forks: 2, creator: 'user', crashes: 1 },
  { users: 2, forks: 4 },
  { users: 2, forks: 4, crashes: 1 },
  { users: 3, forks: 4 },
];

/** What must go wrong: one rule taken away. */
const WEAK: readonly Bounds[] = [
  { users: 2, forks: 2, network: 'any order', duplicates: 1, rules: { tombstones: false } },
  { users: 3, forks: 3, crashes: 1, rules: { childrenWaitForFence: false } },
  { users: 2, forks: 3, crashes: 1, rules: { forksWaitForFence: false } },
  { users: 3, forks: 3, crashes: 2, rules: { deathExtendsFence: false } },
];

const { values } = parseArgs({ options: { states: { type: 'string' }, only: { type: 'string' } } });
const maxStates = Number(values.states ?? 40_000_000);
let wrong = false;
for (const bounds of [...WORLDS, ...WEAK]) {
  if (values.only !== undefined && !describe(bounds).includes(values.only)) continue;
  const result = exploreRRefs(bounds, { maxStates });
  const shouldFail = WEAK.includes(bounds);
  wrong ||= shouldFail ? result.violation === undefined : result.violation !== undefined;
  console.log(formatExploration(result));
}
process.exitCode = wrong ? 1 : 0;
