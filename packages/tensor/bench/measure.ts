/** @file Times one case in turns with PyTorch, so that what else the machine does meets both alike. */
import { collectGarbage } from '../src/device-memory.ts';
import type { Case } from './cases.ts';
import type { Torch } from './torch.ts';

/** One line of the table; `peer` and `ratio` are null where PyTorch is absent. */
export interface Row {
  readonly name: string;
  readonly backend: string;
  readonly unit: 'ms';
  readonly better: 'lower';
  readonly against: string;
  readonly ours: number;
  readonly peer: number | null;
  readonly ratio: number | null;
  /** The ratio it may have, where one is set. */
  readonly goal: number | null;
}

interface Effort {
  readonly rounds: number;
  /** How long each side is timed in a round. */
  readonly roundMs: number;
}

export const efforts = { full: { rounds: 11, roundMs: 100 }, quick: { rounds: 3, roundMs: 30 } } as const;

/** Runs a case for several rounds, each timing us and then PyTorch. */
export async function measure(backend: string, one: Case, torch: Torch | undefined, effort: Effort): Promise<Row> {
  // What the cases before left must not be paid for here.
  collectGarbage();
  await new Promise((resolve) => setImmediate(resolve));
  const run = one.make();
  const time = (calls: number): Promise<number> => timeCalls(run, calls);
  await torch?.prepare(one.name);
  const calls = await callsFor(time, effort.roundMs);
  const peerCalls = torch === undefined ? 0 : await callsFor((n) => torch.time(n), effort.roundMs);
  const ours: number[] = [];
  const peer: number[] = [];
  for (let round = 0; round < effort.rounds; round++) {
    ours.push(await time(calls));
    if (torch !== undefined) peer.push(await torch.time(peerCalls));
  }
  return {
    ...{ name: one.name, backend, unit: 'ms', better: 'lower', against: `torch ${torch?.version ?? ''}`.trim() },
    ours: median(ours),
    peer: torch === undefined ? null : median(peer),
    ratio: torch === undefined ? null : median(ours.map((ms, round) => ms / (peer[round] as number))),
    goal: one.goals?.[backend] ?? null,
  };
}

/** Milliseconds a call. A turn of the event loop is part of the time: in it, finalisers free what the calls left unreachable. */
async function timeCalls(run: () => void, calls: number): Promise<number> {
  const start = performance.now();
  for (let i = 0; i < calls; i++) run();
  await new Promise((resolve) => setImmediate(resolve));
  return (performance.now() - start) / calls;
}

/** How many calls fill `ms`; finding out warms the case up. The very first call starts threads and loads code: it counts for nothing. */
async function callsFor(time: (calls: number) => Promise<number>, ms: number): Promise<number> {
  await time(1);
  let calls = 1;
  for (let spent = 0; ;) {
    const each = await time(calls);
    spent += each * calls;
    if (spent > 4 * ms && each * calls > ms / 8) return Math.max(1, Math.round(ms / each));
    calls = Math.max(calls, Math.ceil(ms / 4 / each));
  }
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}
