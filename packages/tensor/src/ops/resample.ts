/** @file Weighted sums of the elements along a dimension, which interpolation is made of; the adjoint is another of the same. */
import { decode, encode, type NumberArray } from '../dtype.ts';
import { fromArray, readArray } from '../host.ts';
import { sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { apply } from './op.ts';
import { each, FLOAT, setOf, union } from './takes.ts';

/** For each place of the result, in order, the places it is a sum of and by what these count. */
export interface Taps {
  /** How long the dimension is before. */
  readonly length: number;
  /** Where the taps of a place begin; one entry more than places. */
  readonly starts: Int32Array;
  readonly from: Int32Array;
  readonly weights: Float64Array;
}

/** Of lists: `taps(o)` are the places and weights of place `o`. */
export function tapsOf(
  length: number,
  count: number,
  taps: (o: number) => readonly (readonly [from: number, weight: number])[],
): Taps {
  const all = Array.from({ length: count }, (_, o) => taps(o));
  const starts = new Int32Array(count + 1);
  all.forEach((list, o) => (starts[o + 1] = (starts[o] as number) + list.length));
  const flat = all.flat();
  return {
    length,
    starts,
    from: Int32Array.from(flat, ([from]) => from),
    weights: Float64Array.from(flat, ([, weight]) => weight),
  };
}

/** What each place gives, where before it was what each takes. */
function transposed({ length, starts, from, weights }: Taps): Taps {
  const given: [number, number][][] = Array.from({ length }, () => []);
  for (let o = 0; o + 1 < starts.length; o++)
    for (let k = starts[o]!; k < starts[o + 1]!; k++) given[from[k]!]?.push([o, weights[k]!]);
  return tapsOf(starts.length - 1, length, (at) => given[at] ?? []);
}

export interface ResampleAttrs {
  readonly dim: number;
  readonly taps: Taps;
}

const resampleOp = defineOp<ResampleAttrs>(
  ['resample', 'upsample'],
  each(union(FLOAT, setOf('uint8'))),
  ([t], attrs) => {
    const { dim, taps } = attrs;
    const x = t;
    const [outer, inner] = [sizeOf(x.shape.slice(0, dim)), sizeOf(x.shape.slice(dim + 1))];
    const count = taps.starts.length - 1;
    const values = decode(readArray(x), x.dtype);
    const out = new (values.constructor as new (n: number) => NumberArray)(outer * count * inner);
    sums(values, out, outer, inner, taps);
    const shape = x.shape.map((n, d) => (d === dim ? count : n));
    return fromArray(encode(out, x.dtype), x.dtype, shape);
  },
);

/** Added up in doubles, rounded once. */
function sums(values: NumberArray, out: NumberArray, outer: number, inner: number, taps: Taps): void {
  const { length, starts, from, weights } = taps;
  const count = starts.length - 1;
  for (let n = 0, to = 0; n < outer; n++) {
    const base = n * length * inner;
    for (let o = 0; o < count; o++) {
      const [first, last] = [starts[o]!, starts[o + 1]!];
      for (let i = 0; i < inner; i++, to++) {
        let sum = 0;
        for (let k = first; k < last; k++) sum += weights[k]! * values[base + from[k]! * inner + i]!;
        out[to] = sum;
      }
    }
  }
}

/** `t` with dimension `dim` as `taps` says. */
export function resample(t: Tensor, dim: number, taps: Taps): Tensor {
  return apply(resampleOp, [t], { dim, taps });
}

/** The derivative of `resample`. */
export function resampleGradient(grad: Tensor, { dim, taps }: ResampleAttrs): Tensor {
  return resample(grad, dim, transposed(taps));
}
