/** @file The long explorations of the RRef protocol: `npm run explore`, or a selection by number of states at most. */
import { explore, formatExploration } from '@backwire/testing';
import { rrefModel, type Bounds } from './model.ts';

const WORLDS: readonly Bounds[] = [
  { users: 2, forks: 3 },
  { users: 2, forks: 3, creator: 'user', losses: 1 },
  { users: 2, forks: 3, crashes: 1 },
  { users: 2, forks: 3, network: 'any order', duplicates: 1 },
  { users: 3, forks: 3, crashes: 1 },
  { users: 3, forks: 3, crashes: 1, creator: 'user' },
  { users: 3, forks: 3, crashes: 2 },
  { users: 2, forks: 4, crashes: 1 },
  { users: 3, forks: 4, crashes: 1 },
  { users: 3, forks: 4, crashes: 2 },
];

const maxStates = Number(process.argv[2] ?? 10_000_000);
let wrong = false;
for (const bounds of WORLDS) {
  const result = explore(rrefModel(bounds), { maxStates });
  wrong ||= result.violation !== undefined;
  console.log(formatExploration(result));
}
process.exitCode = wrong ? 1 : 0;
