/** @file What values are encoded and decoded with, used again for the next message: most hold nothing of an extension. */
import type { HeaderEntry } from '@backwire/wire/internal';
import type { ValueContext } from './core.ts';
import { WorkerInfo } from './worker-info.ts';

const NONE: readonly Promise<unknown>[] = Object.freeze([]);
const NO_ENTRIES: HeaderEntry[] = [];

/** For values that nothing of an extension can be in: no arguments, no result. */
export const NOTHING_INSIDE: ValueContext = Object.freeze({
  worker: new WorkerInfo('', 0),
  header: NO_ENTRIES,
  pending: [],
});

/** One per place that decodes; `begin`, decode, `take`. Decoding does not nest there. */
export class DecodeContext implements ValueContext {
  worker!: WorkerInfo;
  /** Read values add no entries. */
  readonly header = NO_ENTRIES;
  private waiting: Promise<unknown>[] | undefined;

  get pending(): Promise<unknown>[] {
    return (this.waiting ??= []);
  }

  /** For a value of `worker`. */
  begin(worker: WorkerInfo): this {
    this.worker = worker;
    this.waiting = undefined;
    return this;
  }

  /** What has to settle before the values are used. */
  take(): readonly Promise<unknown>[] {
    const { waiting } = this;
    this.waiting = undefined;
    return waiting ?? NONE;
  }
}
