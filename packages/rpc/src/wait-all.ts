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

  /**
   * Resolves with the result of `fn` once every call is over; rejects at the first call that fails. Where `fn` itself throws, that is what
   * it rejects with, once every call is over.
   */
  async run<T>(fn: () => T | Promise<T>): Promise<T> {
    let value: T;
    try {
      value = await fn();
    } catch (error) {
      await this.all((batch) => Promise.allSettled(batch));
      throw error;
    }
    await this.all((batch) => Promise.race([Promise.all(batch), this.failed]));
    return value;
  }

  /** Calls may lead to more calls: what was added meanwhile is waited for too. */
  private async all(over: (batch: readonly Promise<unknown>[]) => Promise<unknown>): Promise<void> {
    for (let seen = 0; seen < this.pending.length;) {
      const batch = this.pending.slice(seen);
      seen += batch.length;
      await over(batch);
    }
  }
}

function ignore(): void {}
