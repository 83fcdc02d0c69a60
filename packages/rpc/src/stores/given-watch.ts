/** @file The watch of a store that a program gave: what comes of it is looked at, and one that ends by itself, or fails, begins again. */
import { unwatchAbort, watchAbort } from '../base/abort-signals.ts';
import { rpcInfo } from '../base/errors.ts';
import type { Logger } from '../base/options.ts';
import { unref } from '../base/platform.ts';
import type { StoreEvent } from './store.ts';

/** Between the end of a watch and the next: short at first. */
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;

const OVER: IteratorResult<StoreEvent> = Object.freeze({ value: undefined, done: true });

export interface GivenWatchOptions {
  readonly prefix: string;
  readonly signal: AbortSignal | undefined;
  readonly logger: Logger;
  /** Begins the watch, and does so again. @throws RpcError 'failed-precondition' for what is none. */
  readonly begin: () => AsyncIterator<unknown>;
  /** What came of it, checked. @throws RpcError 'failed-precondition' */
  readonly check: (result: unknown) => IteratorResult<StoreEvent>;
}

/** Ends with `signal` or by `return`, whatever the store's own does then, and with an error 'failed-precondition': the store is closed, or none. */
export class GivenWatch implements AsyncIterableIterator<StoreEvent> {
  private readonly options: GivenWatchOptions;
  private events: AsyncIterator<unknown>;
  private isOver = false;
  private pauseMs = FIRST_PAUSE_MS;
  private wake: (() => void) | undefined;

  /** The watch has begun when this returns. */
  constructor(options: GivenWatchOptions) {
    this.options = options;
    this.events = options.begin();
    const { signal } = options;
    if (signal?.aborted === true) this.end();
    else if (signal !== undefined) watchAbort(signal, this.end);
  }

  async next(): Promise<IteratorResult<StoreEvent>> {
    if (!this.isOver) {
      try {
        const result = await this.until(() => Promise.resolve(this.events.next()));
        if (result === undefined) return OVER;
        const checked = this.options.check(result);
        if (checked.done !== true) {
          this.pauseMs = FIRST_PAUSE_MS;
          return checked;
        }
      } catch (error) {
        this.note(error);
      }
      // Nobody has looked in between.
      if (await this.beginAgain()) return { value: { type: 'resync', key: this.options.prefix }, done: false };
    }
    return OVER;
  }

  /** False when it is over instead. */
  private async beginAgain(): Promise<boolean> {
    for (;;) {
      await this.until(() => new Promise<void>((resolve) => unref(setTimeout(resolve, this.pauseMs))));
      if (this.isOver) return false;
      this.pauseMs = Math.min(2 * this.pauseMs, LONGEST_PAUSE_MS);
      try {
        this.events = this.options.begin();
        return true;
      } catch (error) {
        this.note(error);
      }
    }
  }

  /** @throws the error of a store that is closed, or is none. */
  private note(error: unknown): void {
    if (rpcInfo(error)?.code === 'failed-precondition') {
      this.end();
      throw error;
    }
    this.options.logger.warn({ error }, 'the watch of the store that was given failed, and begins again');
  }

  return(): Promise<IteratorResult<StoreEvent>> {
    this.end();
    return Promise.resolve(OVER);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** What that comes to; undefined when the watch is over first. */
  private until<T>(ask: () => Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      this.wake = () => resolve(undefined);
      ask().then(resolve, reject);
    });
  }

  private readonly end = (): void => {
    if (this.isOver) return;
    this.isOver = true;
    if (this.options.signal !== undefined) unwatchAbort(this.options.signal, this.end);
    this.wake?.();
    // What it says to that is of no interest any more.
    const ending = async (): Promise<unknown> => this.events.return?.();
    ending().catch(() => undefined);
  };
}
