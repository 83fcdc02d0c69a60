/** @file Steps of joining that go on where a store was away, or refused for a while. */
import { bareText, RpcError } from '../base/errors.ts';
import { sleep } from '../base/within.ts';

/** Between two tries of a step that the store was away for. */
const RETRY_MS = 200;

export interface OutagesOptions {
  /** When no step is tried again. */
  readonly deadline: number;
  /** Nobody waits any more. */
  readonly signal: AbortSignal;
  readonly now: () => number;
}

/**
 * A store that is not there yet is waited for; so is one that goes away while a worker joins, starts anew, or takes no changes while a
 * replica of it takes over. A step must be one that may be done twice: nobody knows whether it was.
 */
export class Outages {
  /** What the store said last, while it is waited for; undefined while it answers. */
  trouble: string | undefined;
  private readonly options: OutagesOptions;

  constructor(options: OutagesOptions) {
    this.options = options;
  }

  /** What `step` comes to, tried again while the store is away. @throws RpcError what the store said last, once the time is up; all else at once. */
  async past<T>(step: () => Promise<T>): Promise<T> {
    const { deadline, signal, now } = this.options;
    for (;;) {
      try {
        const done = await step();
        this.trouble = undefined;
        return done;
      } catch (error) {
        const { code, message } = RpcError.from(error);
        if (code !== 'unavailable' || signal.aborted || now() + RETRY_MS >= deadline) throw error;
        this.trouble = bareText(code, message);
      }
      await sleep(RETRY_MS);
    }
  }
}
