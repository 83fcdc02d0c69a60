/** @file The calls that ended lately, kept while somebody watches. */
import { errorName } from '../base/error-name.ts';
import { MAX_RECENT_CALLS, MAX_RECENT_PER_REPORT, MAX_TEXT } from './limits.ts';
import type { CallObserver, ObservedCall } from '../base/observed-call.ts';

/** A call that is over, as its caller saw it. */
export interface RecentCall {
  /** Counts up; a later report goes on after it. */
  readonly n: number;
  readonly to: string;
  readonly method: string;
  readonly kind: string;
  /** Milliseconds since the epoch, on the caller's clock. */
  readonly startedAt: number;
  readonly durationMs: number;
  /** The code of the failure, or the class of what the handler threw; undefined for success. Never its text: that may hold values. */
  readonly error?: string;
}

/** What went to one worker, in its present life, since the watching began. */
export interface PeerCalls {
  readonly calls: number;
  readonly errors: number;
  readonly totalMs: number;
}

export class CallLog implements CallObserver {
  private readonly ring: RecentCall[] = [];
  private last = 0;
  /** By session: a worker that comes back begins anew, and nothing stays of those who are gone. */
  private readonly byPeer = new WeakMap<object, { calls: number; errors: number; totalMs: number }>();

  settled(call: ObservedCall, error: unknown): void {
    const durationMs = performance.now() - call.startedAt;
    const to = call.peer.worker.name;
    const n = ++this.last;
    this.ring[(n - 1) % MAX_RECENT_CALLS] = {
      n,
      to,
      method: call.label.name.slice(0, MAX_TEXT),
      kind: call.label.kind,
      startedAt: performance.timeOrigin + call.startedAt,
      durationMs,
      ...(error === undefined ? {} : { error: errorName(error) }),
    };
    let sums = this.byPeer.get(call.peer);
    if (sums === undefined) this.byPeer.set(call.peer, (sums = { calls: 0, errors: 0, totalMs: 0 }));
    sums.calls++;
    if (error !== undefined) sums.errors++;
    sums.totalMs += durationMs;
  }

  /** The calls after number `after`, oldest first; the newest when there are more than fit. */
  after(after: number): RecentCall[] {
    const from = Math.max(after, this.last - MAX_RECENT_PER_REPORT, this.last - MAX_RECENT_CALLS, 0);
    const found: RecentCall[] = [];
    for (let n = from + 1; n <= this.last; n++) {
      const call = this.ring[(n - 1) % MAX_RECENT_CALLS];
      if (call !== undefined) found.push(call);
    }
    return found;
  }

  sums(peer: ObservedCall['peer']): PeerCalls | undefined {
    return this.byPeer.get(peer);
  }
}
