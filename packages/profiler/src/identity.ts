/** @file Who this process is in its group, as far as a profile wants to know. */
import { currentAgent, getWorkerInfos, type RpcAgent } from '@backwire/rpc';

/** The current agent; profiling needs none. */
export function agentHere(): RpcAgent | undefined {
  try {
    return currentAgent();
  } catch {
    return undefined;
  }
}

/** The names of the group's workers by id; empty without an agent. */
export function groupNames(): ReadonlyMap<number, string> {
  try {
    return new Map(getWorkerInfos().map(({ id, name }) => [id, name]));
  } catch {
    return new Map();
  }
}
