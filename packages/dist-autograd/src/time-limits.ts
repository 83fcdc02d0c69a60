/** @file Time limits that are seldom reached: one timer for all, which is not set anew for each. */
import { runAtRoot } from '@backwire/tensor/internal';

interface Limit {
  readonly at: number;
  readonly reached: () => void;
}

/** Holds one limit for each pass in progress that began here. */
export class TimeLimits {
  private readonly limits = new Set<Limit>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private timerAt = Infinity;

  /** Calls `reached` after `ms`, outside of all contexts, unless what this returns is called before. */
  add(ms: number, reached: () => void): () => void {
    const limit: Limit = { at: performance.now() + ms, reached };
    if (this.limits.size === 0) keep(this.timer, true);
    this.limits.add(limit);
    if (limit.at < this.timerAt) this.arm(limit.at);
    return () => {
      this.limits.delete(limit);
      // A program that has nothing else to do may end.
      if (this.limits.size === 0) keep(this.timer, false);
    };
  }

  private arm(at: number): void {
    clearTimeout(this.timer);
    this.timerAt = at;
    const wait = Math.max(1, Math.ceil(at - performance.now()));
    this.timer = runAtRoot(() => setTimeout(this.sweep, wait));
  }

  private readonly sweep = (): void => {
    this.timer = undefined;
    this.timerAt = Infinity;
    const now = performance.now();
    let next = Infinity;
    for (const limit of [...this.limits]) {
      if (limit.at > now) next = Math.min(next, limit.at);
      else if (this.limits.delete(limit)) limit.reached();
    }
    if (next < this.timerAt) this.arm(next);
  };
}

function keep(timer: ReturnType<typeof setTimeout> | undefined, alive: boolean): void {
  if (typeof timer !== 'object') return;
  if (alive) timer.ref();
  else timer.unref();
}
