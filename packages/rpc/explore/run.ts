/** @file The long explorations of the session: `npm run explore -- --suite session [--states N]`. */
import { parseArgs } from 'node:util';
import { explore, formatExploration } from '@backwire/testing';
import { sessionModel } from './session-model.ts';

const { values } = parseArgs({ options: { states: { type: 'string' } } });
const maxStates = Number(values.states ?? 2_000_000);
for (const bounds of [
  { frames: 2, breaks: 1 },
  { frames: 2, breaks: 2 },
  { frames: 3, breaks: 1 },
  { frames: 3, breaks: 2 },
  { frames: 2, breaks: 1, restarts: 1 },
  { frames: 2, breaks: 1, restarts: 2 },
]) {
  const result = explore(sessionModel(bounds), { maxStates });
  console.log(formatExploration(result));
  if (result.violation !== undefined) process.exitCode = 1;
}
