/** @file How long a server is waited for: slow is not gone. */
import { limited } from './limited.ts';

/** A timer that is later shows that this process stood still, and has not read what came meanwhile. */
const STANDSTILL_MS = 200;
/** A request that takes so many times its time is lost, whatever else is heard. */
const MOST_TIMES = 12;

/** The limit of requests to one server: what each may take counts from the last time that any was answered. */
export class Patience {
  private readonly ms: number;
  private readonly mostTimes: number;
  private heardAt = -Infinity;

  /** `mostTimes`: 1 = no request gets more time, whatever is answered. */
  constructor(ms: number, mostTimes = MOST_TIMES) {
    this.ms = ms;
    this.mostTimes = mostTimes;
  }

  /** Something was answered. */
  heard(): void {
    this.heardAt = performance.now();
  }

  /** For how long nothing has been answered. */
  get quietMs(): number {
    return performance.now() - this.heardAt;
  }

  /** As `limited`. */
  limit<T>(signals: readonly (AbortSignal | undefined)[], fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const until = performance.now() + this.mostTimes * this.ms;
    return limited(this.ms, signals, fn, (lateMs) => {
      const now = performance.now();
      if (now >= until) return 0;
      if (lateMs > STANDSTILL_MS) return Math.min(lateMs, this.ms);
      return Math.max(0, this.heardAt + this.ms - now);
    });
  }
}
