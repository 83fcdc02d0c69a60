/** @file What travels about a tensor beside its bytes: the types, and the numbers of dtypes on the wire. */
import { type Device } from '@backwire/tensor';

/** A tensor without its bytes. */
export interface TensorDescriptor {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** In elements, never negative. Empty for sparse tensors. */
  readonly strides: readonly number[];
  /** First element, in elements. */
  readonly offset: number;
  /** Index of its storage in the message; -1 for sparse tensors, whose parts have their own. */
  readonly storage: number;
  readonly requiresGrad: boolean;
  readonly device: Device;
  /** Whether it is rebuilt as a Parameter. */
  readonly parameter?: boolean | undefined;
  /** Present for the layout 'sparse_coo'. */
  readonly sparse?: SparseDescriptor | undefined;
}

/** The parts of a sparse tensor. */
export interface SparseDescriptor {
  readonly indices: TensorDescriptor;
  readonly values: TensorDescriptor;
  readonly coalesced: boolean;
}

/** How the bytes of a storage reach the receiver. */
export interface StorageDescriptor {
  readonly nbytes: number;
  /** In the frame itself, as BODY frames, or fetched by the receiver through a channel. */
  readonly placement: 'inline' | 'body' | 'channel';
  /** Which channel, and what it needs to find the bytes; for 'channel'. */
  readonly channel?: string | undefined;
  readonly locator?: Uint8Array | undefined;
}

/** What a call frame says about its tensors. */
export interface TensorTable {
  readonly storages: readonly StorageDescriptor[];
  readonly tensors: readonly TensorDescriptor[];
}

/** dtypes by their number on the wire, 0 unused; and bytes of an element. */
export const DTYPES: readonly (readonly [string, number])[] = [
  ['', 0],
  ['float32', 4],
  ['float64', 8],
  ['float16', 2],
  ['bfloat16', 2],
  ['int64', 8],
  ['int32', 4],
  ['int16', 2],
  ['int8', 1],
  ['uint8', 1],
  ['bool', 1],
  ['complex64', 8],
];

/** The number of each dtype. */
export const dtypeNumbers: ReadonlyMap<string, number> = new Map(DTYPES.map(([name], i) => [name, i]));

/** Bytes of one element, or undefined for an unknown dtype. */
export function dtypeBytes(dtype: string): number | undefined {
  const number = dtypeNumbers.get(dtype);
  return number === undefined || number === 0 ? undefined : DTYPES[number]?.[1];
}

/** Row-major strides of a shape. */
export function contiguousStrides(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = step;
    step *= shape[i] as number;
  }
  return strides;
}
