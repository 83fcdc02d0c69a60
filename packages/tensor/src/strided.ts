/** @file Copies between strided layouts on the host, bit for bit. */
import { merged, type Step } from './broadcast-steps.ts';
import { dtypes, type DType } from './dtype.ts';
import { sizeOf, type Shape } from './shape.ts';

type Words = Uint8Array | Uint16Array | Uint32Array;

/** One side of a copy: strides and offset are in elements. */
export interface StridedBytes {
  readonly bytes: Uint8Array;
  readonly strides: Shape;
  readonly offset: number;
}

/** Copies `shape` elements from one layout to another. Overlapping memory must be the caller's concern. */
export function copyStrided(from: StridedBytes, to: StridedBytes, shape: Shape, dtype: DType): void {
  if (sizeOf(shape) === 0) return;
  const { bytes: width } = dtypes[dtype];
  const plan = merged(shape, from.strides, to.strides);
  // Eight-byte elements move as two words: a float64 read as a number could lose the bits of a NaN.
  const lanes = width === 8 ? 2 : 1;
  const source = words(from.bytes, width);
  const target = words(to.bytes, width);
  const scaled = plan.map(({ n, a, b }) => ({ n, a: a * lanes, b: b * lanes }));
  if (lanes === 2) scaled.push({ n: 2, a: 1, b: 1 });
  const last = scaled.at(-1);
  if (last !== undefined && last.a === 1 && last.b === 1)
    copyRows(source, target, scaled, from.offset * lanes, to.offset * lanes);
  else copyElements(source, target, scaled, from.offset * lanes, to.offset * lanes);
}

function words(bytes: Uint8Array, width: number): Words {
  const { buffer, byteOffset, byteLength } = bytes;
  if (width === 1) return bytes;
  return width === 2
    ? new Uint16Array(buffer, byteOffset, byteLength >> 1)
    : new Uint32Array(buffer, byteOffset, byteLength >>> 2);
}

function copyRows(source: Words, target: Words, dims: readonly Step[], sourceAt: number, targetAt: number): void {
  const row = dims[dims.length - 1] as Step;
  const outer = dims.slice(0, -1);
  walk(outer, sourceAt, targetAt, (s, t) => {
    if (row.n < 16) for (let i = 0; i < row.n; i++) target[t + i] = source[s + i] as number;
    else target.set(source.subarray(s, s + row.n), t);
  });
}

function copyElements(source: Words, target: Words, dims: readonly Step[], sourceAt: number, targetAt: number): void {
  const inner = dims.at(-1);
  if (inner === undefined) {
    target[targetAt] = source[sourceAt] as number;
    return;
  }
  const { n, a: ds, b: dt } = inner;
  walk(dims.slice(0, -1), sourceAt, targetAt, (s, t) => {
    for (let i = 0; i < n; i++) {
      target[t] = source[s] as number;
      s += ds;
      t += dt;
    }
  });
}

/** Calls `visit` with both offsets for every index of the outer dimensions, in row-major order. */
function walk(dims: readonly Step[], s: number, t: number, visit: (s: number, t: number) => void): void {
  const rank = dims.length;
  if (rank === 0) {
    visit(s, t);
    return;
  }
  const index = new Array<number>(rank).fill(0);
  for (;;) {
    visit(s, t);
    let d = rank - 1;
    for (; d >= 0; d--) {
      const dim = dims[d] as Step;
      const next = (index[d] as number) + 1;
      s += dim.a;
      t += dim.b;
      if (next < dim.n) {
        index[d] = next;
        break;
      }
      s -= dim.a * dim.n;
      t -= dim.b * dim.n;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}
