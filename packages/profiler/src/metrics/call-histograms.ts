/** @file How long calls take, in buckets, by function and outcome. */
import {
  errorName,
  MAX_METHODS,
  type CallObserver,
  type ObservedCall,
  type ObservedHandler,
} from '@backwire/rpc/internal';
import { MAX_OUTCOMES } from '../limits.ts';

/** The upper bounds of the buckets, in seconds: from a call inside a host to one that waits for its time limit. */
export const BUCKETS: readonly number[] = [
  0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
  10, 30, 60,
];

/** What functions beyond the bound are counted as. */
const OTHER = 'other';

/** The times of the calls of one function that ended one way. */
export interface Histogram {
  readonly method: string;
  /** The code or class of the failure; '' for success. */
  readonly error: string;
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

/** Histograms of one side. Bounded: so many functions, and so many outcomes of each, are kept apart. */
class Side {
  private readonly byMethod = new Map<string, Map<string, Open>>();

  add(method: string, error: string, seconds: number): void {
    const { outcomes, name } = this.outcomesOf(method);
    let found = outcomes.get(error);
    if (found === undefined) {
      const kept = outcomes.size < MAX_OUTCOMES ? error : OTHER;
      found = outcomes.get(kept) ?? open(name, kept);
      outcomes.set(kept, found);
    }
    found.count++;
    found.sumSeconds += seconds;
    const bucket = bucketOf(seconds);
    found.counts[bucket] = (found.counts[bucket] ?? 0) + 1;
  }

  all(): Histogram[] {
    return [...this.byMethod.values()].flatMap((outcomes) => [...outcomes.values()]);
  }

  private outcomesOf(method: string): { outcomes: Map<string, Open>; name: string } {
    const found = this.byMethod.get(method);
    if (found !== undefined) return { outcomes: found, name: method };
    const name = this.byMethod.size < MAX_METHODS ? method : OTHER;
    const outcomes = this.byMethod.get(name) ?? new Map<string, Open>();
    this.byMethod.set(name, outcomes);
    return { outcomes, name };
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

function open(method: string, error: string): Open {
  return { method, error, counts: new Array<number>(BUCKETS.length + 1).fill(0), count: 0, sumSeconds: 0 };
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
