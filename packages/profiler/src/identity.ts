/** @file Who this process is in its group, as far as a profile wants to know. */
import { currentAgent, getWorkerInfos, type RpcAgent } from '@backwire/rpc';
import { attempt } from '@backwire/rpc/internal';

/** The current agent; profiling needs none. */
export function agentHere(): RpcAgent | undefined {
  return attempt(currentAgent);
}

/** The names of the group's workers by id; empty without an agent. */
export function groupNames(): ReadonlyMap<number, string> {
  return new Map(attempt(getWorkerInfos)?.map(({ id, name }) => [id, name]));
}
