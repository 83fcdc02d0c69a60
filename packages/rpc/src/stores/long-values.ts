/** @file The latest long values that a client of a store knows, so that it reads and sends none of them twice. Pure. */
import { equalBytes } from '../base/platform.ts';

/** A value, and what a store numbers its changes by: equal numbers, equal value. */
export interface LongValue {
  readonly bytes: Uint8Array;
  /** Of the change that made it, counted over all keys; */
  readonly modified: number;
  /** of the one that made its key; */
  readonly created: number;
  /** and how many of this key have been made since. */
  readonly version: number;
}

/** Shorter ones are sent as they are: numbers and a question more cost as much. */
export const LONG_BYTES = 16 * 1024;
/** Keys of which the value is kept: a process has agents of one group, or of a few. */
const MAX_KEPT = 4;

/** Of each key the value of the latest change that was seen, in whatever order changes and answers come. */
export class LongValues {
  private readonly kept = new Map<string, LongValue>();

  /** An answer, a change that was told, or one that this client made. Its bytes are kept as they are: they are not to be changed. */
  saw(key: string, value: LongValue): void {
    const known = this.kept.get(key);
    if (known !== undefined && known.modified >= value.modified) return;
    this.kept.delete(key);
    if (value.bytes.byteLength < LONG_BYTES) return;
    this.kept.set(key, value);
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= MAX_KEPT) break;
      this.kept.delete(oldest);
    }
  }

  of(key: string): LongValue | undefined {
    return this.kept.get(key);
  }

  /** The value of a key if it is known, and is `bytes`. */
  known(key: string, bytes: Uint8Array): LongValue | undefined {
    const value = this.kept.get(key);
    return value !== undefined && equalBytes(value.bytes, bytes) ? value : undefined;
  }

  /** The store may have started anew, and count anew. */
  forget(): void {
    this.kept.clear();
  }
}
