/** @file What a program came to, on either side: what was refused, and everything that can be seen afterwards. */
import type { DType } from '../src/index.ts';

export interface SeenTensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** The elements as stored, row-major. */
  readonly data: Uint8Array;
  readonly requiresGrad: boolean;
  readonly sparse: boolean;
}
/** A number, a truth value or a text that an operation answered. */
interface SeenPlain {
  readonly plain: number | boolean | string;
}
/** No gradient, an optional that is absent. */
interface SeenNothing {
  readonly nothing: true;
}
export type Seen = SeenTensor | SeenPlain | SeenNothing;

export interface Refusal {
  /** The line that threw. */
  readonly at: number;
  /** The error's class. */
  readonly name: string;
  readonly message: string;
}

export interface Outcome {
  readonly refusal?: Refusal | undefined;
  /** By path: `3` is the value of line 3, `0.grad` the gradient of line 0, `4.weight` a parameter of module 4. */
  readonly seen: Readonly<Record<string, Seen>>;
}

/** How well the values of a program are determined: its results in double precision, and how far rounding on the way moves them. */
export interface Conditioning {
  /** By path: exact values (complex ones as pairs), and by how much they move at most. Of integers and truths: 1 where they move. */
  readonly exact: Readonly<Record<string, { readonly values: Uint8Array; readonly moved: Uint8Array }>>;
}

export function isTensor(seen: Seen | undefined): seen is SeenTensor {
  return seen !== undefined && 'data' in seen;
}

/** The line that a path belongs to. */
export function lineOf(path: string): number {
  return Number(path.split('.', 1)[0]);
}
