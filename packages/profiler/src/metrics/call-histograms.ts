/** @file How long calls take, in buckets, by function and outcome. */
import { errorName, type CallObserver, type ObservedCall, type ObservedHandler } from '@backwire/rpc/internal';
import { OTHER, Outcomes, type Counted } from './outcomes.ts';

/** The upper bounds of the buckets, in seconds: from a call inside a host to one that waits for its time limit. */
export const BUCKETS: readonly number[] = [
  0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
  10, 30, 60,
];

/** The times of the calls of one function that ended one way. */
export interface Histogram extends Counted {
  /** Calls by bucket, not added up; the last is for those longer than all bounds. */
  readonly counts: readonly number[];
  readonly count: number;
  readonly sumSeconds: number;
}

interface Open extends Histogram {
  readonly counts: number[];
  count: number;
  sumSeconds: number;
}

/** Histograms of one side, as many as there are outcomes. */
class Side {
  private readonly outcomes = new Outcomes();
  private readonly byMethod = new Map<string, Map<string, Open>>();

  add(method: string, error: string, seconds: number): void {
    const counted = this.outcomes.of(method, error);
    let ofMethod = this.byMethod.get(counted.method);
    if (ofMethod === undefined) this.byMethod.set(counted.method, (ofMethod = new Map<string, Open>()));
    let found = ofMethod.get(counted.error);
    if (found === undefined) ofMethod.set(counted.error, (found = open(counted)));
    found.count++;
    found.sumSeconds += seconds;
    const bucket = bucketOf(seconds);
    found.counts[bucket] = (found.counts[bucket] ?? 0) + 1;
  }

  all(): Histogram[] {
    return [...this.byMethod.values()].flatMap((outcomes) => [...outcomes.values()]);
  }
}

/** Counts the calls of an agent on both sides: what it calls, and what it handles. */
export class CallHistograms implements CallObserver {
  private readonly outgoing = new Side();
  private readonly incoming = new Side();

  get client(): readonly Histogram[] {
    return this.outgoing.all();
  }

  get server(): readonly Histogram[] {
    return this.incoming.all();
  }

  settled(call: ObservedCall, error: unknown): void {
    const seconds = (performance.now() - call.startedAt) / 1000;
    this.outgoing.add(call.label.name, error === undefined ? '' : errorName(error), seconds);
  }

  handled(call: ObservedHandler, error: unknown): void {
    const seconds = (performance.now() - call.arrivedAt) / 1000;
    this.incoming.add(call.definition?.name ?? OTHER, error === undefined ? '' : errorName(error), seconds);
  }
}

function open(counted: Counted): Open {
  return { ...counted, counts: new Array<number>(BUCKETS.length + 1).fill(0), count: 0, sumSeconds: 0 };
}

function bucketOf(seconds: number): number {
  let low = 0;
  let high = BUCKETS.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (seconds <= (BUCKETS[middle] as number)) high = middle;
    else low = middle + 1;
  }
  return low;
}
