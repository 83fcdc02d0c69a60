/** @file scatterReduce: what is written to one place is summed, multiplied, averaged, or the largest or smallest of it kept. */
import { onesLike } from '../creation.ts';
import { decode, encode, isDifferentiable, type NumberArray } from '../dtype.ts';
import { fromArray, readArray } from '../host.ts';
import type { ScatterReduction } from '../arranging-methods.ts';
import { named } from '../named.ts';
import { checkOptionNames } from '../option-names.ts';
import { sweep } from '../scope.ts';
import { normalizeDim } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { checkGather, gatherPositions, leading, scatter, scatterAdd } from './indexing.ts';
import { apply } from './op.ts';
import { where } from './where.ts';
import { ALL, check, indexed, NUMBER, REAL, same, type DTypes } from './takes.ts';

export interface ScatterReduceAttrs {
  readonly dim: number;
  readonly reduce: 'prod' | 'amax' | 'amin';
  readonly includeSelf: boolean;
}

const OPTIONS: ReadonlySet<string> = new Set(['includeSelf']);

const TAKES: Readonly<Partial<Record<ScatterReduction, DTypes>>> = {
  mean: NUMBER,
  amax: REAL,
  amin: REAL,
};

type Combine = (a: number, b: number) => number;

const COMBINE: Readonly<Record<ScatterReduceAttrs['reduce'], Combine>> = {
  prod: (a, b) => a * b,
  amax: (a, b) => (a !== a || a > b ? a : b),
  amin: (a, b) => (a !== a || a < b ? a : b),
};

const BIG: Readonly<Record<ScatterReduceAttrs['reduce'], (a: bigint, b: bigint) => bigint>> = {
  prod: (a, b) => BigInt.asIntN(64, a * b),
  amax: (a, b) => (a > b ? a : b),
  amin: (a, b) => (a < b ? a : b),
};

const op = defineOp<ScatterReduceAttrs>(
  'scatterReduce',
  indexed(same(ALL)),
  ([input, index, source], { dim, reduce, includeSelf }) => {
    const positions = gatherPositions(input.shape, index, dim);
    const seen = new Uint8Array(input.size).fill(includeSelf ? 1 : 0);
    if (input.dtype === 'complex64') {
      const out = readArray(input).slice() as Float32Array<ArrayBuffer>;
      multiplyPairs(out, readArray(source) as Float32Array, positions, seen);
      return fromArray(out, 'complex64', input.shape);
    }
    if (input.dtype === 'int64') {
      const out = (readArray(input) as BigInt64Array).slice();
      const values = readArray(source) as BigInt64Array;
      positions.forEach((at, i) => {
        out[at] = seen[at] === 0 ? (values[i] as bigint) : BIG[reduce](out[at] as bigint, values[i] as bigint);
        seen[at] = 1;
      });
      return fromArray(out, 'int64', input.shape);
    }
    const out = decode(readArray(input), input.dtype).slice() as NumberArray;
    const values = decode(readArray(source), input.dtype);
    positions.forEach((at, i) => {
      const next = seen[at] === 0 ? values[i]! : COMBINE[reduce](out[at]!, values[i]!);
      out[at] = input.dtype === 'int32' && reduce === 'prod' && seen[at] !== 0 ? Math.imul(out[at]!, values[i]!) : next;
      seen[at] = 1;
    });
    return fromArray(encode(out, input.dtype), input.dtype, input.shape);
  },
);

/** Products of complex numbers, the only reduction of theirs that is no sum; `seen` are places in which there is a factor already. */
function multiplyPairs(out: Float32Array, values: Float32Array, positions: Float64Array, seen: Uint8Array): void {
  for (let i = 0; i < positions.length; i++) {
    const at = positions[i]!;
    const [a, b] = seen[at] === 0 ? [1, 0] : [out[2 * at]!, out[2 * at + 1]!];
    const [c, d] = [values[2 * i]!, values[2 * i + 1]!];
    out[2 * at] = seen[at] === 0 ? c : a * c - b * d;
    out[2 * at + 1] = seen[at] === 0 ? d : a * d + b * c;
    seen[at] = 1;
  }
}

/**
 * `t` with source[i][j]… combined into [i][index[i][j]…]… along `dim`. Without `includeSelf` (default true) what was there before does
 * not count, where there is something to combine.
 */
export const scatterReduce = named(
  'aten::scatter_reduce',
  (
    t: Tensor,
    dim: number,
    index: Tensor,
    source: Tensor,
    reduce: ScatterReduction,
    options: { includeSelf?: boolean } = {},
  ): Tensor => {
    checkOptionNames(options, OPTIONS, 'scatterReduce()');
    check('scatterReduce', indexed(same(TAKES[reduce] ?? ALL)), [t, index, source]);
    const includeSelf = options.includeSelf ?? true;
    const d = normalizeDim(dim, t.rank);
    checkGather(t, index, d, 'scatterReduce');
    return sweep(() => {
      const from = leading(source, index, 'scatterReduce');
      if (reduce !== 'sum' && reduce !== 'mean') {
        if (!(reduce in COMBINE))
          throw new RangeError(`reduce argument must be either sum, prod, mean, amax or amin, got ${String(reduce)}`);
        return apply(op, [t, index, from], { dim: d, reduce, includeSelf });
      }
      const start = includeSelf ? t : scatter(t, d, index, 0);
      const sums = scatterAdd(start, d, index, from);
      if (reduce === 'sum') return sums;
      const named = scatterAdd(onesLike(t).mul(includeSelf ? 1 : 0), d, index, onesLike(from));
      const counts = where(named.eq(0), 1, named);
      return isDifferentiable(t.dtype) ? sums.div(counts) : wholeQuotient(sums, counts);
    });
  },
);

/** Quotients of integers, rounded down. */
function wholeQuotient(sums: Tensor, counts: Tensor): Tensor {
  return sums.floorDivide(counts).to(sums.dtype);
}
