/** @file The changes on their way to one watcher: bounded, and honest about what it dropped. */
import { unwatchAbort, watchAbort } from '../base/abort-signals.ts';
import { MAX_WATCH_BACKLOG } from './limits.ts';
import type { StoreEvent } from './store.ts';

/**
 * An async iterable that is fed by `push` and ended by `end`. When the reader falls behind, what waits is replaced by one `resync`.
 * Leaving the loop, `signal` and `end` all call `stop` once.
 */
export class WatchQueue implements AsyncIterableIterator<StoreEvent> {
  private readonly prefix: string;
  private readonly stop: () => void;
  private readonly signal: AbortSignal | undefined;
  private events: StoreEvent[] = [];
  private readonly readers: ((result: IteratorResult<StoreEvent> | Promise<never>) => void)[] = [];
  private failure: Error | undefined;
  private ended = false;

  constructor(prefix: string, stop: () => void, signal: AbortSignal | undefined) {
    this.prefix = prefix;
    this.stop = stop;
    this.signal = signal;
    // Over before anything began: there is nothing to stop.
    if (signal?.aborted) this.ended = true;
    else if (signal) watchAbort(signal, this.onAbort);
  }

  push(event: StoreEvent): void {
    if (this.ended) return;
    const reader = this.readers.shift();
    if (reader !== undefined) {
      reader({ value: event, done: false });
      return;
    }
    if (event.type === 'resync' || this.events.length >= MAX_WATCH_BACKLOG) {
      this.events = [{ type: 'resync', key: this.prefix }];
    } else {
      this.events.push(event);
    }
  }

  /** What has been pushed is still read; then the iteration is over. */
  end(): void {
    if (this.ended) return;
    this.ended = true;
    if (this.signal) unwatchAbort(this.signal, this.onAbort);
    for (const reader of this.readers.splice(0)) reader({ value: undefined, done: true });
    this.stop();
  }

  /** The store refuses it: whoever follows it is told, once. */
  fail(error: Error): void {
    if (this.ended) return;
    const reader = this.readers.shift();
    if (reader === undefined) this.failure = error;
    else reader(Promise.reject(error));
    this.end();
  }

  next(): Promise<IteratorResult<StoreEvent>> {
    const event = this.events.shift();
    if (event !== undefined) return Promise.resolve({ value: event, done: false });
    const { failure } = this;
    if (failure !== undefined) {
      this.failure = undefined;
      return Promise.reject(failure);
    }
    if (this.ended) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve) => this.readers.push(resolve));
  }

  return(): Promise<IteratorResult<StoreEvent>> {
    this.events = [];
    this.end();
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  private readonly onAbort = (): void => {
    this.events = [];
    this.end();
  };
}
