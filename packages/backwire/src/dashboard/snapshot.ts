/** @file What the live page is told after each look at the group. */
import type { ContextRow, OwnedRRef } from '../inspect/details.ts';

/** One worker as the page draws it. Rates are per second, over the time since the look before. */
export interface WorkerSnapshot {
  readonly name: string;
  readonly id: number;
  /** 'up', 'draining', 'fenced', 'silent' (a member that does not answer), 'dead', 'left'. */
  readonly state: string;
  readonly pid: number | undefined;
  readonly upMs: number;
  readonly made: number;
  readonly handled: number;
  readonly failed: number;
  readonly sent: number;
  readonly received: number;
  readonly open: number;
  readonly handlers: number;
  readonly queued: number;
  readonly pendingBytes: number;
  readonly reconnects: number;
  readonly rrefs: number;
  readonly contexts: number;
  readonly rssBytes: number;
  readonly error: string | undefined;
}

/** The traffic from one worker to another, per second. */
export interface LinkSnapshot {
  readonly from: string;
  readonly to: string;
  readonly up: boolean;
  readonly calls: number;
  readonly errors: number;
  readonly bytes: number;
  /** The mean time of the calls that ended; 0 without any. */
  readonly meanMs: number;
}

/** A call that ended. */
export interface CallSnapshot {
  readonly from: string;
  readonly to: string;
  readonly method: string;
  /** Milliseconds since the epoch, on the clock of whoever looks. */
  readonly at: number;
  readonly ms: number;
  readonly error: string | undefined;
}

/** A call that is not over. */
export interface OpenSnapshot {
  readonly from: string;
  readonly to: string;
  readonly method: string;
  readonly ageMs: number;
}

/** Something that went wrong, or changed. */
export interface Note {
  readonly at: number;
  readonly kind: 'error' | 'lost' | 'change';
  readonly text: string;
}

/** Sums over the group, for the charts. */
export interface TotalsSnapshot {
  readonly at: number;
  readonly calls: number;
  readonly errors: number;
  readonly bytes: number;
  readonly rrefs: number;
  readonly contexts: number;
  readonly open: number;
}

export interface Snapshot {
  readonly group: string;
  readonly at: number;
  readonly epoch: number;
  readonly size: number | undefined;
  readonly intervalMs: number;
  readonly workers: readonly WorkerSnapshot[];
  /** The busiest ways between workers. */
  readonly links: readonly LinkSnapshot[];
  /** How many there are, with those that are left out. */
  readonly linkCount: number;
  readonly totals: TotalsSnapshot;
  readonly calls: readonly CallSnapshot[];
  /** Whether more calls ended than are in `calls`, which are spread over all of the time. */
  readonly callsLeftOut: boolean;
  readonly open: readonly OpenSnapshot[];
  readonly rrefs: readonly OwnedRRef[];
  readonly contexts: readonly ContextRow[];
  /** New since the snapshot before. */
  readonly notes: readonly Note[];
}
