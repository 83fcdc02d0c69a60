/** @file The clock of events. */
import type { RpcAgent } from '@backwire/rpc';

/** The clock of a worker: a monotonic time in microseconds, and the same moment in microseconds since the epoch. */
export interface WorkerClock {
  readonly nowUs: () => number;
  readonly epochUs: (us: number) => number;
}

/** This process's. Processes of one host share it, to within what the system says of the time of day. */
const PROCESS_CLOCK: WorkerClock = Object.freeze({
  nowUs: () => performance.now() * 1000,
  epochUs: (us: number) => performance.timeOrigin * 1000 + us,
});

const clocks = new WeakMap<RpcAgent, WorkerClock>();

/** Gives an agent a clock of its own; for simulations. */
export function setClock(agent: RpcAgent, clock: WorkerClock): void {
  clocks.set(agent, clock);
}

export function clockOf(agent: RpcAgent | undefined): WorkerClock {
  return (agent === undefined ? undefined : clocks.get(agent)) ?? PROCESS_CLOCK;
}
