/** @file The causal path of a call, which orders gradients the same way on every run. */
import { MAX_PATH } from '@backwire/wire/internal';

/** The ordinals of the calls that led here, outermost first; empty in the creator's own code. */
export type Path = readonly number[];

/** Which of the two functions of a call: its request leaves the caller, its response leaves the callee. */
export type Direction = 'request' | 'response';

/** Where a send function stands: the call it belongs to and its direction. */
export interface OrderKey {
  readonly path: Path;
  readonly direction: Direction;
}

/** What a handler (or the creator's own code) has called so far within a context. */
export class Invocation {
  readonly path: Path;
  private ordinal = 0;

  constructor(path: Path) {
    this.path = path;
  }

  /** The path of the next call made from here. */
  next(): Path {
    if (this.path.length >= MAX_PATH) throw new RangeError(`calls of one context are nested deeper than ${MAX_PATH}`);
    return [...this.path, this.ordinal++];
  }
}

/** A total order: outer calls first, then by ordinal; of one call the request first. */
export function compareKeys(a: OrderKey, b: OrderKey): number {
  const shared = Math.min(a.path.length, b.path.length);
  for (let i = 0; i < shared; i++) {
    const order = (a.path[i] as number) - (b.path[i] as number);
    if (order !== 0) return order;
  }
  if (a.path.length !== b.path.length) return a.path.length - b.path.length;
  return a.direction === b.direction ? 0 : a.direction === 'request' ? -1 : 1;
}
