/** @file What callers have had done at one worker: each number once, and in order. */

/** Numbers of one caller that are remembered; what is asked about is younger than that. */
const MAX_REMEMBERED = 20_000;

export class Ledger {
  private readonly callers = new Map<string, { last: number; readonly ran: Set<number> }>();
  private violations: string[] = [];

  /** Runs call `n` of a caller's life, and says so. */
  count(life: string, n: number): number {
    let caller = this.callers.get(life);
    if (caller === undefined) this.callers.set(life, (caller = { last: -1, ran: new Set() }));
    if (caller.ran.has(n)) this.violations.push(`call ${n} of ${life} ran twice`);
    else if (n < caller.last) this.violations.push(`call ${n} of ${life} ran after call ${caller.last}`);
    caller.last = n;
    caller.ran.add(n);
    if (caller.ran.size > MAX_REMEMBERED)
      for (const oldest of caller.ran) {
        caller.ran.delete(oldest);
        break;
      }
    return n;
  }

  ran(life: string, n: number): boolean {
    return this.callers.get(life)?.ran.has(n) === true;
  }

  note(violation: string): void {
    this.violations.push(violation);
  }

  /** What has been broken since this was asked last. */
  take(): string[] {
    return this.violations.splice(0);
  }
}
