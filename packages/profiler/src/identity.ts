/** @file Who this process is in its group, as far as a profile wants to know. */
import { currentAgent, getWorkerInfos } from '@backwire/rpc';

/** The id of the current agent; 0 without one. */
export function selfNode(): number {
  try {
    return currentAgent().id;
  } catch {
    // Profiling needs no agent.
    return 0;
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
