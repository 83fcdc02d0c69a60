/** @file What values are encoded and decoded with, used again for the next message: most hold nothing of an extension. */
import type { Tensor } from '@backwire/tensor';
import type { Findings, HeaderEntry, ValueCodec } from '@backwire/wire/internal';
import type { ValueContext } from '../base/environment.ts';
import { WorkerInfo } from '../base/worker-info.ts';

/** Gives back the references in values that nobody gets. */
export type Unclaimed = readonly (() => void)[];

/** Frees what is in a value that nobody gets; undefined when there is nothing to free. */
export function freeing(unclaimed: Unclaimed | undefined, tensors: readonly Tensor[]): (() => void) | undefined {
  if (unclaimed === undefined && tensors.length === 0) return undefined;
  return () => {
    for (const give of unclaimed ?? []) give();
    for (const tensor of tensors) tensor.dispose();
  };
}

const NONE: readonly Promise<unknown>[] = Object.freeze([]);
const NO_ENTRIES: HeaderEntry[] = [];

/** For values that nothing of an extension can be in: no arguments, no result. */
export const NOTHING_INSIDE: ValueContext = Object.freeze({
  worker: new WorkerInfo('nobody', 0),
  header: NO_ENTRIES,
  pending: [],
  unclaimed: [],
});

/** What one value is written with: the entries that its references add to the message's header table. */
export class WriteContext implements ValueContext {
  readonly worker: WorkerInfo;
  readonly header: HeaderEntry[] = [];
  readonly pending = NOTHING_INSIDE.pending;
  readonly unclaimed = NOTHING_INSIDE.unclaimed;

  constructor(worker: WorkerInfo) {
    this.worker = worker;
  }
}

/** One per place that decodes; `read`, then `take` and `takeUnclaimed`. Decoding does not nest there. */
export class DecodeContext implements ValueContext, Findings {
  worker!: WorkerInfo;
  /** Read values add no entries. */
  readonly header = NO_ENTRIES;
  found: Set<unknown> | undefined;
  /** Whether a scope may come to free what is in the value that is read next. */
  scoped = false;
  private waiting: Promise<unknown>[] | undefined;
  private givenBack: (() => void)[] | undefined;

  get pending(): Promise<unknown>[] {
    return (this.waiting ??= []);
  }
  get unclaimed(): (() => void)[] {
    return (this.givenBack ??= []);
  }

  /** A value of `from`. @throws what is malformed; the references before it are given back then. */
  read(
    codec: ValueCodec<ValueContext>,
    from: WorkerInfo,
    bytes: Uint8Array,
    start: number,
    end: number,
    tensors: readonly Tensor[],
  ): unknown {
    this.worker = from;
    this.found = undefined;
    this.waiting = undefined;
    this.givenBack = undefined;
    try {
      return codec.read(bytes, start, end, tensors, this, this.scoped ? this : undefined);
    } catch (error) {
      this.discard();
      throw error;
    }
  }

  /** What has to settle before the values are used. */
  take(): readonly Promise<unknown>[] {
    const { waiting } = this;
    this.waiting = undefined;
    return waiting ?? NONE;
  }

  /** What of the values was here before they came. */
  takeFound(): ReadonlySet<unknown> | undefined {
    const { found } = this;
    this.found = undefined;
    return found;
  }

  /** For whoever keeps the values until somebody gets them. */
  takeUnclaimed(): Unclaimed | undefined {
    const { givenBack } = this;
    this.givenBack = undefined;
    return givenBack;
  }

  /** Nobody gets the values. */
  discard(): void {
    for (const give of this.takeUnclaimed() ?? []) give();
  }
}
