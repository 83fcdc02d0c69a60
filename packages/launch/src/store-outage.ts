/** @file What a launcher makes of a store that does not answer for a while, or has lost what it held. Pure: it is told the time. */
import { HOST_LEASE_MS } from './limits.ts';

/** An answer that took so long may be of a store that stood still, and has ended leases which nobody could renew. */
const STOOD_STILL_MS = HOST_LEASE_MS / 2;

/** All times are milliseconds on one clock. */
export class StoreOutage {
  private since: number | undefined;
  private lenientUntil = -Infinity;

  /** It did not answer. Returns for how long it has not. */
  failed(now: number): number {
    this.since ??= now;
    this.forgive(now);
    return now - this.since;
  }

  /** It answered what was asked `tookMs` ago. */
  answered(now: number, tookMs: number): void {
    this.since = undefined;
    if (tookMs > STOOD_STILL_MS) this.forgive(now);
  }

  /** Signs of life were lost: all hosts get the time of a lease to give another. */
  forgive(now: number): void {
    this.lenientUntil = now + HOST_LEASE_MS;
  }

  /** Whether a host without a sign of life is gone. */
  isJudge(now: number): boolean {
    return now >= this.lenientUntil;
  }
}
