/** @file The calls of one `waitAll`. */

/** Collects promises while `run` runs, then waits for them. */
export class WaitAll {
  private readonly pending: Promise<unknown>[] = [];
  private readonly failed: Promise<never>;
  private fail!: (error: unknown) => void;

  constructor() {
    this.failed = new Promise<never>((_, reject) => {
      this.fail = reject;
    });
    this.failed.catch(ignore);
  }

  /** A call that has to be over in the end. Its failure is seen to here. */
  add(promise: Promise<unknown>): void {
    this.pending.push(promise);
    promise.catch((error: unknown) => this.fail(error));
  }

  /** Resolves with the result of `fn` once every call is over; rejects at the first failure of either. */
  async run<T>(fn: () => T | Promise<T>): Promise<T> {
    const value = await fn();
    // Calls may lead to more calls: what was added meanwhile is waited for too.
    for (let seen = 0; seen < this.pending.length;) {
      const batch = this.pending.slice(seen);
      seen += batch.length;
      await Promise.race([Promise.all(batch), this.failed]);
    }
    return value;
  }
}

function ignore(): void {}
