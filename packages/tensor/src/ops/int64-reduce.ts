/** @file Exact reductions, scans and products of 64-bit integers; what overflows wraps modulo 2^64. */
import type { NumberArray } from '../dtype.ts';
import { multiply } from './gemm.ts';

/** Elements as [before, reduced, after]. */
export interface Int64Blocks {
  readonly array: BigInt64Array;
  readonly pre: number;
  readonly red: number;
  readonly post: number;
}

/** The sum of each block. */
export function sumInt64({ array, pre, red, post }: Int64Blocks): BigInt64Array {
  const out = new BigInt64Array(pre * post);
  for (let p = 0, at = 0; p < pre; p++)
    for (let r = 0; r < red; r++) for (let q = 0; q < post; q++) out[p * post + q]! += array[at++]!;
  return out;
}

/** The product of each block. */
export function prodInt64({ array, pre, red, post }: Int64Blocks): BigInt64Array {
  const out = new BigInt64Array(pre * post).fill(1n);
  for (let p = 0, at = 0; p < pre; p++) {
    // Each store wraps, so that no number grows.
    for (let r = 0; r < red; r++) for (let q = 0; q < post; q++) out[p * post + q]! *= array[at++]!;
  }
  return out;
}

/** Running sums (or products) of each block. */
export function scanInt64({ array, pre, red, post }: Int64Blocks, product: boolean): BigInt64Array {
  const out = array.slice();
  for (let p = 0; p < pre; p++) {
    const first = p * red * post;
    for (let at = first + post; at < first + red * post; at++) {
      if (product) out[at]! *= out[at - post]!;
      else out[at]! += out[at - post]!;
    }
  }
  return out;
}

/** Where in each block its first largest (or smallest) element is. */
export function extremeInt64({ array, pre, red, post }: Int64Blocks, sign: 1 | -1): BigInt64Array {
  const out = new BigInt64Array(pre * post);
  for (let p = 0; p < pre; p++) {
    for (let q = 0; q < post; q++) {
      const first = p * red * post + q;
      let best = array[first]!;
      let found = 0;
      for (let r = 1; r < red; r++) {
        const v = array[first + r * post]!;
        if (sign === 1 ? v > best : v < best) {
          best = v;
          found = r;
        }
      }
      out[p * post + q] = BigInt(found);
    }
  }
  return out;
}

/** The elements at positions that `extremeInt64` found. */
export function takeInt64({ array, red, post }: Int64Blocks, positions: BigInt64Array): BigInt64Array {
  const take = (at: bigint, i: number): bigint =>
    array[(Math.floor(i / post) * red + Number(at)) * post + (i % post)] as bigint;
  return positions.map(take);
}

function largestMagnitude(values: NumberArray): number {
  let largest = 0;
  for (let i = 0; i < values.length; i++) largest = Math.max(largest, Math.abs(values[i]!));
  return largest;
}

/** Whether sums of `k` products of these numbers stay exact in double precision. */
export function fitsDoubles(a: NumberArray, b: NumberArray, k: number): boolean {
  return largestMagnitude(a) * largestMagnitude(b) * k <= Number.MAX_SAFE_INTEGER;
}

/** out[m, n] = a[m, k] b[k, n], row-major. */
export function multiplyInt64(
  a: BigInt64Array,
  b: BigInt64Array,
  out: BigInt64Array,
  m: number,
  k: number,
  n: number,
): void {
  for (let i = 0; i < m; i++) {
    for (let p = 0; p < k; p++) {
      const x = a[i * k + p]!;
      if (x !== 0n) for (let j = 0; j < n; j++) out[i * n + j]! += x * b[p * n + j]!;
    }
  }
}

/** As `multiply`, wrapping modulo 2^32: for all integers up to 32 bits. */
export function multiplyInt32(a: NumberArray, b: NumberArray, out: NumberArray, m: number, k: number, n: number): void {
  if (fitsDoubles(a, b, k)) return multiply(a, b, out, m, k, n);
  for (let i = 0; i < m; i++) {
    for (let p = 0; p < k; p++) {
      const x = a[i * k + p]!;
      for (let j = 0; j < n; j++) out[i * n + j] = out[i * n + j]! + Math.imul(x, b[p * n + j]!);
    }
  }
}
