/** @file Linear indices of sparse tensors, and the sorted order that makes them unique. */
import { decode, encode } from '../../dtype.ts';
import { ShapeError } from '../../errors.ts';
import { readArray } from '../../host.ts';
import type { Shape } from '../../shape.ts';
import type { Tensor } from '../../tensor.ts';

/** Row-major linear indices of each entry over the sparse dimensions; throws for indices outside `size`. */
export function linearIndices(indices: Tensor<'int64'>, size: Shape): Float64Array {
  const [dims, nnz] = indices.shape as readonly [number, number];
  // Decoded into an array of its own: one dimension is its own linear index.
  const array = decode(readArray(indices), 'int64');
  const out = dims === 1 ? (array as Float64Array) : new Float64Array(nnz);
  for (let d = 0; d < dims; d++) {
    const n = size[d] as number;
    for (let i = 0; i < nnz; i++) {
      const index = array[d * nnz + i]!;
      if (index < 0 || index >= n) {
        throw new ShapeError(`size is inconsistent with indices: for dim ${d}, size is ${n} but found index ${index}`);
      }
      if (dims > 1) out[i] = out[i]! * n + index;
    }
  }
  return out;
}

/** Unique linear indices in ascending order, and for each entry the position of its index among them. */
export interface Plan {
  readonly unique: Float64Array;
  readonly position: Int32Array;
}

/** Sorts once; entries with the same index keep their order, so that sums have a fixed order. */
export function planUnique(linear: Float64Array): Plan {
  const order = Uint32Array.from(linear, (_, i) => i);
  order.sort((a, b) => (linear[a] as number) - (linear[b] as number) || a - b);
  const unique = new Float64Array(linear.length);
  const position = new Int32Array(linear.length);
  let count = 0;
  for (const i of order) {
    const index = linear[i] as number;
    if (count === 0 || unique[count - 1] !== index) unique[count++] = index;
    position[i] = count - 1;
  }
  return { unique: unique.slice(0, count), position };
}

/** Linear indices back to int64 rows [dims, n]. */
export function unravel(linear: Float64Array, size: Shape): BigInt64Array {
  const n = linear.length;
  if (size.length === 1) return encode(linear, 'int64');
  // In doubles, which hold every linear index: a bigint made for each would cost ten times as much.
  const out = new Float64Array(size.length * n);
  const rest = linear.slice();
  for (let d = size.length - 1; d >= 0; d--) {
    const extent = size[d] as number;
    for (let i = 0; i < n; i++) {
      const v = rest[i]!;
      out[d * n + i] = v % extent;
      rest[i] = Math.floor(v / extent);
    }
  }
  return encode(out, 'int64');
}
