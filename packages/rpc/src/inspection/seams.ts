/** @file What inspections read of the parts of an agent. */
import type { Agent } from '../agent.ts';
import type { CallLabel } from '../extension.ts';
import { Observers } from './observers.ts';

interface Read {
  readonly observers?: Observers;
  readonly queued?: number;
  readonly reconnects?: number;
  readonly label?: CallLabel;
  readonly startedAt?: number;
  readonly arrivedAt?: number;
  inspect?(): Record<string, Record<string, unknown>>;
}
const spare = new WeakMap<Agent, Observers>();

export function observersOf(agent: Agent): Observers {
  const own = (agent as Read).observers ?? spare.get(agent) ?? new Observers();
  spare.set(agent, own);
  return own;
}
export const read = (part: object): Read => part as Read;
