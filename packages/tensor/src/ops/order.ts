/** @file Order statistics and places among sorted values: median, quantile, kthValue, searchSorted, bucketize. */
import { tensor } from '../creation.ts';
import { decode, isDifferentiable } from '../dtype.ts';
import { DTypeError, ShapeError } from '../errors.ts';
import { fromArray, readArray } from '../host.ts';
import type { Interpolation } from '../arranging-methods.ts';
import { sweep } from '../scope.ts';
import { normalizeDim, sameShape } from '../shape.ts';
import { Tensor } from '../tensor.ts';
import { checkOptionNames } from '../option-names.ts';
import { defineFunction, defineOp } from './define.ts';
import { gather } from './indexing.ts';
import { concat } from './join.ts';
import { apply } from './op.ts';
import { scalar } from './promotion.ts';
import { where } from './where.ts';
import { argSort, type Picked } from './structure.ts';
import { ALL, each, PRECISE, REAL_NUMBER } from './takes.ts';

/** What stands at `rank` of the sorted line along `d`; NaN where there is one, if it counts so. */
function pickedAt(t: Tensor, d: number, rank: number, keepDim: boolean, spoils: boolean): Picked {
  if (t.rank === 0) return { values: t.clone(), indices: tensor(0n) };
  const order = argSort(t, d);
  let indices = order.narrow(d, rank, 1).contiguous();
  if (spoils && isDifferentiable(t.dtype)) {
    // NaN sorts last, and is the answer wherever there is one: the first of them.
    const nan = t.detach().isNaN();
    const bad = nan.any(d, true);
    if (bad.any().item() !== 0) indices = where(bad, nan.to('uint8').argMax(d, true), indices);
  }
  const values = gather(t, d, indices);
  return keepDim ? { values, indices } : { values: values.squeeze(d), indices: indices.squeeze(d) };
}

function lengthOf(t: Tensor, d: number, name: string): number {
  const n = t.rank === 0 ? 1 : (t.shape[d] as number);
  if (n === 0) throw new ShapeError(`${name}(): Expected reduction dim ${d} to have non-zero size.`);
  return n;
}

const medianOp = defineOp('median', each(REAL_NUMBER), ([t]) => {
  const flat = t.detach().reshape([t.size]);
  return sweep(() => pickedAt(flat, 0, Math.floor((flat.size - 1) / 2), false, true).values);
});

/** The median: of all elements, or with `dim` of each line along it, and where; of an even number the lower one. NaN counts as it. */
export const median = defineFunction('median', each(REAL_NUMBER), ((
  t: Tensor,
  dim?: number,
  keepDim?: boolean,
): Tensor | Picked => {
  if (dim === undefined) {
    if (t.size === 0) {
      if (isDifferentiable(t.dtype)) return sweep(() => t.sum().add(NaN));
      throw new ShapeError('median() of no elements has no value among integers');
    }
    return apply(medianOp, [t], undefined);
  }
  const d = normalizeDim(dim, t.rank);
  return sweep(() => pickedAt(t, d, Math.floor((lengthOf(t, d, 'median') - 1) / 2), keepDim === true, true));
}) as {
  (t: Tensor): Tensor;
  (t: Tensor, dim: number, keepDim?: boolean): Picked;
});

/** The `k`th smallest of each line along `dim`, counted from 1, and where. */
export const kthValue = defineFunction(
  ['kthValue', 'kthvalue'],
  each(REAL_NUMBER),
  (t: Tensor, k: number, dim = -1, keepDim = false): Picked => {
    const d = normalizeDim(dim, t.rank);
    const n = lengthOf(t, d, 'kthValue');
    if (!Number.isInteger(k) || k < 1 || k > n)
      throw new ShapeError(`kthValue(): selected number k out of range for dimension ${d}: ${k} of ${n}`);
    return sweep(() => pickedAt(t, d, k - 1, keepDim, false));
  },
);

const QUANTILE_OPTIONS: ReadonlySet<string> = new Set(['keepDim', 'interpolation']);

/** The value below which the part `q` of the elements lie, of all or along `dim`; several `q` add a leading dimension. */
export const quantile = defineFunction(
  'quantile',
  each(PRECISE),
  (
    t: Tensor,
    q: number | Tensor,
    dim?: number,
    options: { keepDim?: boolean; interpolation?: Interpolation } = {},
  ): Tensor => {
    checkOptionNames(options, QUANTILE_OPTIONS, 'quantile()');
    if (q instanceof Tensor && q.dtype !== t.dtype)
      throw new DTypeError(`quantile() q tensor must be same dtype as the input tensor: ${t.dtype}, not ${q.dtype}`);
    if (q instanceof Tensor && q.rank > 1) throw new ShapeError('quantile() q must be a scalar or 1D tensor');
    if (dim !== undefined) normalizeDim(dim, t.rank);
    if (t.size === 0) throw new ShapeError('quantile() input tensor must be non-empty');
    const parts = typeof q === 'number' ? [q] : [...(decode(readArray(q), q.dtype) as Float64Array)];
    const wrong = parts.find((p) => !(p >= 0 && p <= 1));
    if (wrong !== undefined) throw new RangeError(`quantile() q must be in the range [0, 1] but got ${wrong}`);
    return sweep(() => {
      const flat = dim === undefined;
      const line = flat ? t.reshape([t.size]) : t.rank === 0 ? t.reshape([1]) : t.movedim(dim, -1);
      const sorted = line.sort(-1).values;
      const spoiled = line.detach().isNaN().any(-1, true);
      const picked = parts.map((p) => quantileAt(sorted, p, options.interpolation ?? 'linear'));
      const whole = where(spoiled, NaN, picked.length === 0 ? sorted.narrow(-1, 0, 0) : concat(picked, -1));
      return arrange(whole, t, q, dim, options.keepDim ?? false);
    });
  },
);

/** One quantile of sorted lines, with a last dimension of 1. */
function quantileAt(sorted: Tensor, part: number, how: Interpolation): Tensor {
  const n = sorted.shape.at(-1) as number;
  // Computed in the dtype of the tensor, as PyTorch does.
  const rounded = sorted.dtype === 'float32' ? Math.fround : (v: number): number => v;
  const at = rounded(rounded(part) * (n - 1));
  const [low, high] = [Math.floor(at), Math.ceil(at)];
  const pick = (i: number): Tensor => sorted.narrow(-1, i, 1);
  if (how === 'lower') return pick(low);
  if (how === 'higher') return pick(high);
  if (how === 'nearest') return pick(nearestEven(at));
  const weight = how === 'midpoint' ? 0.5 : rounded(at - low);
  return pick(low).lerp(pick(high), weight);
}

function nearestEven(v: number): number {
  const low = Math.floor(v);
  if (v - low !== 0.5) return Math.round(v);
  return low % 2 === 0 ? low : low + 1;
}

/** Lines of quantiles in the shape that PyTorch gives them. */
function arrange(lines: Tensor, t: Tensor, q: number | Tensor, dim: number | undefined, keepDim: boolean): Tensor {
  const several = q instanceof Tensor && q.rank === 1;
  const front = lines.movedim(-1, 0);
  let rest: number[] = [];
  if (dim !== undefined && t.rank > 0) {
    const d = normalizeDim(dim, t.rank);
    rest = keepDim ? t.shape.map((n, k) => (k === d ? 1 : n)) : t.shape.filter((_, k) => k !== d);
  } else if (keepDim) rest = t.shape.map(() => 1);
  return front.reshape(several ? [lines.shape.at(-1) as number, ...rest] : rest);
}

const SEARCH_OPTIONS: ReadonlySet<string> = new Set(['right']);

/**
 * Where each value would go into sorted lines, the last dimension of `sorted`: before equal ones, or with `right` behind. A vector
 * `sorted` serves values of every shape.
 */
export const searchSorted = defineFunction(
  ['searchSorted', 'searchsorted'],
  each(REAL_NUMBER),
  (sorted: Tensor, values: Tensor | number, options: { right?: boolean } = {}): Tensor => {
    checkOptionNames(options, SEARCH_OPTIONS, 'searchSorted()');
    const given = typeof values === 'number' ? scalar(values, sorted.dtype) : values;
    if (sorted.rank === 0) throw new ShapeError('searchSorted(): boundaries must have at least 1 dimension');
    if (typeof values !== 'number' && given.dtype !== sorted.dtype)
      throw new DTypeError(
        `searchSorted(): boundary tensor and input value tensor should have same dtype, but got boundary tensor dtype ${sorted.dtype} and input value tensor dtype ${given.dtype}`,
      );
    if (sorted.rank > 1 && !sameShape(sorted.shape.slice(0, -1), given.shape.slice(0, -1)))
      throw new ShapeError(
        `searchSorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor [${sorted.shape.join(', ')}] and input value tensor [${given.shape.join(', ')}]`,
      );
    return fromArray(places(sorted, given, options.right === true), 'int64', given.shape);
  },
);

function places(sorted: Tensor, given: Tensor, right: boolean): BigInt64Array {
  const n = sorted.shape.at(-1) as number;
  const exact = sorted.dtype === 'int64';
  const line = exact ? (readArray(sorted) as BigInt64Array) : decode(readArray(sorted), sorted.dtype);
  const values = exact ? (readArray(given) as BigInt64Array) : decode(readArray(given), given.dtype);
  const perLine = sorted.rank === 1 ? given.size : (given.shape.at(-1) ?? 1);
  return BigInt64Array.from({ length: given.size }, (_, i) => {
    const start = sorted.rank === 1 ? 0 : Math.floor(i / perLine) * n;
    const v = values[i] as number;
    let [low, high] = [0, n];
    while (low < high) {
      const middle = (low + high) >> 1;
      const at = line[start + middle] as number;
      // Written so that NaN counts as larger than everything.
      const before = right ? !(at > v) : !(at >= v);
      if (before) low = middle + 1;
      else high = middle;
    }
    return BigInt(low);
  });
}

/** Between which of `boundaries`, a sorted vector, each value lies. */
export const bucketize = defineFunction(
  'bucketize',
  each(REAL_NUMBER),
  (values: Tensor, boundaries: Tensor, options: { right?: boolean } = {}): Tensor => {
    if (boundaries.rank !== 1)
      throw new ShapeError(`bucketize(): boundaries tensor must be 1 dimension, but got dim(${boundaries.rank})`);
    return sweep(() => searchSorted(boundaries, values, options));
  },
);

/** How many elements are not zero, of all or along dimensions. */
export const countNonzero = defineFunction(
  'countNonzero',
  each(ALL),
  (t: Tensor, dim?: number | readonly number[]): Tensor => sweep(() => t.detach().ne(0).to('int64').sum(dim)),
);
