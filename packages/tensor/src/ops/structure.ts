/** @file Triangles, diagonals, flips and padding; sorting, searching, unique elements and their counts. */
import { decode, dtypes, encode, type DType, type TypedArrays } from '../dtype.ts';
import { ShapeError } from '../errors.ts';
import { fromArray, over, rawView, readArray, readBytes, readNumbers } from '../host.ts';
import { named } from '../named.ts';
import { checkDouble } from '../range.ts';
import {
  broadcastShapes,
  checkShape,
  contiguousStrides,
  normalizeDim,
  normalizeDims,
  sameShape,
  sizeOf,
} from '../shape.ts';
import { Storage } from '../storage.ts';
import { copyStrided } from '../strided.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import { defineFunction, defineOp } from './define.ts';
import { gather } from './indexing.ts';
import { apply } from './op.ts';
import { padWith, type PadMode } from './pad-modes.ts';
import { ALL, BOOL, each, NUMBER, operands, REAL, REAL_NUMBER } from './takes.ts';
import { applyView } from './views.ts';
import { full } from '../creation.ts';

/** Values that were picked out along a dimension, and where they stood. */
export interface Picked {
  values: Tensor;
  /** int64 positions along the dimension. */
  indices: Tensor;
}

const triangleOp = (
  name: string,
  keeps: (row: number, column: number, k: number) => boolean,
): ReturnType<typeof defineOp<{ k: number }>> =>
  defineOp<{ k: number }>([name, name], each(ALL), ([input], { k }) => {
    const [rows, columns] = input.shape.slice(-2) as [number, number];
    const width = dtypes[input.dtype].bytes;
    const bytes = readBytes(input).slice();
    const matrices = sizeOf(input.shape.slice(0, -2));
    for (let m = 0, at = 0; m < matrices; m++) {
      for (let r = 0; r < rows; r++)
        for (let c = 0; c < columns; c++, at += width) if (!keeps(r, c, k)) bytes.fill(0, at, at + width);
    }
    return over(new Storage(bytes), input.dtype, input.shape);
  });
const trilOp = triangleOp('tril', (r, c, k) => c - r <= k);
const triuOp = triangleOp('triu', (r, c, k) => c - r >= k);

function matrixRank(t: Tensor, name: string): void {
  if (t.rank < 2) throw new ShapeError(`${name}: input tensor must have at least 2 dimensions`);
}

/** The part on and below diagonal `k` of the last two dimensions; zero elsewhere. */
export const tril = named('aten::tril', (t: Tensor, k = 0): Tensor => {
  matrixRank(t, 'tril');
  return apply(trilOp, [t], { k });
});
/** The part on and above diagonal `k`. */
export const triu = named('aten::triu', (t: Tensor, k = 0): Tensor => {
  matrixRank(t, 'triu');
  return apply(triuOp, [t], { k });
});

const diagonalOp = defineOp('diagonal', each(ALL), ([t]) => {
  const { shape, strides, offset } = t;
  const [rows, columns] = shape.slice(-2) as [number, number];
  const [down, along] = strides.slice(-2) as [number, number];
  return rawView(t, [...shape.slice(0, -2), Math.min(rows, columns)], [...strides.slice(0, -2), down + along], offset);
});

/** The diagonal of the last two dimensions, as a view: [..., min(rows, columns)]. */
export const diagonal = named('aten::diagonal', (t: Tensor): Tensor => {
  matrixRank(t, 'diagonal');
  return applyView(diagonalOp, t, undefined);
});

/** The sum of the diagonal of a matrix. */
export const trace = defineFunction('trace', each(NUMBER), (t: Tensor): Tensor => {
  if (t.rank !== 2) throw new ShapeError(`trace: expected a matrix, but got a tensor of ${t.rank} dimensions`);
  return sweep(() => diagonal(t).sum());
});

const diagEmbedOp = defineOp('diagEmbed', each(ALL), ([input]) => {
  const n = input.shape.at(-1) as number;
  const shape = [...input.shape, n];
  checkShape(shape);
  const bytes = new Uint8Array(sizeOf(shape) * dtypes[input.dtype].bytes);
  const from = { bytes: readBytes(input), strides: contiguousStrides(input.shape), offset: 0 };
  const strides = [...contiguousStrides(shape).slice(0, -2), n + 1];
  copyStrided(from, { bytes, strides, offset: 0 }, input.shape, input.dtype);
  return over(new Storage(bytes), input.dtype, shape);
});

/** The square matrices with the given diagonals, and zero elsewhere: [..., n] to [..., n, n]. */
export const diagEmbed = named('aten::diag_embed', (t: Tensor): Tensor => {
  if (t.rank === 0) throw new ShapeError('diagEmbed: input tensor must have at least 1 dimension');
  return apply(diagEmbedOp, [t], undefined);
});

const flipOp = defineOp<{ dims: readonly number[] }>('flip', each(ALL), ([input], { dims }) => {
  const strides = contiguousStrides(input.shape);
  const bytes = new Uint8Array(input.size * dtypes[input.dtype].bytes);
  const from = {
    bytes: readBytes(input),
    strides: strides.map((s, d) => (dims.includes(d) ? -s : s)),
    offset: dims.reduce((at, d) => at + Math.max(0, (input.shape[d] as number) - 1) * (strides[d] as number), 0),
  };
  copyStrided(from, { bytes, strides, offset: 0 }, input.shape, input.dtype);
  return over(new Storage(bytes), input.dtype, input.shape);
});

/** The elements of `dims` in reverse order. */
export const flip = named('aten::flip', (t: Tensor, dims: readonly number[]): Tensor => {
  return apply(flipOp, [t], { dims: dims.length === 0 ? [] : normalizeDims(dims, t.rank) });
});

/** How much is added on which side, and what. */
export interface PadAttrs {
  /** Elements before and after, for each dimension. */
  readonly pads: readonly (readonly [number, number])[];
  readonly value: number;
}

const padOp = defineOp<PadAttrs>(['pad', 'constant_pad_nd'], each(ALL), ([input], { pads, value }) => {
  const shape = input.shape.map((n, d) => n + (pads[d]?.[0] ?? 0) + (pads[d]?.[1] ?? 0));
  if (shape.some((n) => n < 0)) throw new ShapeError('pad: the resulting size is negative');
  const out = full(shape, value, { dtype: input.dtype });
  const strides = contiguousStrides(shape);
  const inner = contiguousStrides(input.shape);
  const skip = input.shape.map((_, d) => Math.max(0, -(pads[d]?.[0] ?? 0)));
  const kept = input.shape.map((n, d) => n - (skip[d] as number) - Math.max(0, -(pads[d]?.[1] ?? 0)));
  if (kept.some((n) => n < 0)) throw new ShapeError('pad: negative padding crops more than there is');
  const offset = strides.reduce((at, s, d) => at + Math.max(0, pads[d]?.[0] ?? 0) * s, 0);
  const from = {
    bytes: readBytes(input),
    strides: inner,
    offset: inner.reduce((at, s, d) => at + (skip[d] as number) * s, 0),
  };
  if (kept.every((n) => n > 0)) copyStrided(from, { bytes: out.storage.peek(), strides, offset }, kept, input.dtype);
  return out;
});

/** Constant padding: `pads` are pairs [before, after] from the last dimension backwards, as in PyTorch; negative ones crop. */
export const pad = named('aten::pad', (t: Tensor, pads: readonly number[], value: number | PadMode = 0): Tensor => {
  if (typeof value === 'string') return padWith(t, pads, value);
  if (pads.length % 2 !== 0 || pads.length > 2 * t.rank)
    throw new ShapeError(`pad: ${pads.length} numbers do not fit rank ${t.rank}`);
  if (!pads.every(Number.isInteger)) throw new ShapeError(`pad: [${pads.join(', ')}] are not whole numbers`);
  const pairs = t.shape.map((_, d): [number, number] => {
    const at = 2 * (t.rank - 1 - d);
    return [pads[at] ?? 0, pads[at + 1] ?? 0];
  });
  const fills = pads.some((n) => n > 0);
  if (fills) checkDouble(value, t.dtype);
  return apply(padOp, [t], { pads: pairs, value: fills ? value : 0 });
});

/** For each line along `dim`, its positions in sorted order; stable, NaN counts as largest. */
function sortedPositions(
  t: Tensor,
  dim: number,
  descending: boolean,
): { positions: BigInt64Array; shape: readonly number[] } {
  const n = t.rank === 0 ? 1 : (t.shape[dim] as number);
  const stride = sizeOf(t.shape.slice(dim + 1));
  const outer = sizeOf(t.shape.slice(0, dim));
  const raw = readArray(t);
  const values = t.dtype === 'int64' ? (raw as BigInt64Array) : decode(raw, t.dtype);
  const positions = new BigInt64Array(t.size);
  const order = Array.from({ length: n }, (_, i) => i);
  for (let o = 0; o < outer; o++) {
    for (let k = 0; k < stride; k++) {
      const first = o * n * stride + k;
      const at = (i: number): number | bigint => values[first + i * stride] as number | bigint;
      const compare = (a: number, b: number): number => {
        const [x, y] = [at(a), at(b)];
        if (x === y) return a - b;
        if (x !== x || y !== y) return x !== x && y !== y ? a - b : (x !== x) === descending ? -1 : 1;
        return x < y === descending ? 1 : -1;
      };
      const line = order.slice().sort(compare);
      for (let i = 0; i < n; i++) positions[first + i * stride] = BigInt(line[i] as number);
    }
  }
  return { positions, shape: t.shape };
}

/** The positions that sort `t` along `dim`; equal elements keep their order. */
export const argSort = defineFunction(
  ['argSort', 'argsort'],
  each(REAL),
  (t: Tensor, dim = -1, descending = false): Tensor => {
    const { positions, shape } = sortedPositions(t, normalizeDim(dim, t.rank), descending);
    return fromArray(positions, 'int64', shape);
  },
);

/** Values in order along `dim`, and where they were. Differentiable in the values. */
export const sort = defineFunction('sort', each(REAL), (t: Tensor, dim = -1, descending = false): Picked => {
  const d = normalizeDim(dim, t.rank);
  const indices = argSort(t, d, descending);
  return { values: gather(t, d, indices), indices };
});

/** The `k` largest (or smallest) along `dim`, in order, and where they were. */
export const topK = defineFunction(
  ['topK', 'topk'],
  each(REAL_NUMBER),
  (t: Tensor, k: number, dim = -1, largest = true): Picked => {
    const d = normalizeDim(dim, t.rank);
    if (k < 0 || k > (t.shape[d] ?? 1)) throw new ShapeError('selected index k out of range');
    if (!Number.isInteger(k)) throw new ShapeError(`topK: k must be a whole number, but got ${k}`);
    // Without dimensions there is nothing to narrow: the element itself comes back, also for k = 0, as in PyTorch.
    const order = argSort(t, d, largest);
    const indices = t.rank === 0 ? order : order.narrow(d, 0, k).contiguous();
    return { values: gather(t, d, indices), indices };
  },
);

/** The largest along `dim`, and where: of equal ones the first. The largest of all is `amax()`, the larger of two tensors `maximum()`. */
export const max = defineFunction('max', each(REAL), (t: Tensor, dim: number, keepDim = false): Picked =>
  extreme(t, dim, keepDim, 'argMax'),
);
/** The smallest along `dim`, and where: of equal ones the first. The smallest of all is `amin()`, the smaller of two tensors `minimum()`. */
export const min = defineFunction('min', each(REAL), (t: Tensor, dim: number, keepDim = false): Picked =>
  extreme(t, dim, keepDim, 'argMin'),
);

function extreme(t: Tensor, dim: number, keepDim: boolean, which: 'argMax' | 'argMin'): Picked {
  // The positions alone are not asked of bool, as in PyTorch.
  const indices = (t.dtype === 'bool' ? t.to('uint8') : t)[which](dim, true);
  const values = gather(t, dim, indices);
  return keepDim ? { values, indices } : { values: values.squeeze(dim), indices: indices.squeeze(dim) };
}

/** The indices of the nonzero elements, int64 [count, rank]. */
export const nonzero = defineFunction('nonzero', each(ALL), (t: Tensor): Tensor => {
  if (t.dtype === 'complex64') return sweep(() => nonzero(t.detach().ne(0)));
  const values = readNumbers(t);
  const strides = contiguousStrides(t.shape);
  const out: bigint[] = [];
  let count = 0;
  for (let i = 0; i < values.length; i++) {
    if (values[i] === 0) continue;
    count++;
    for (let d = 0; d < t.rank; d++) out.push(BigInt(Math.floor(i / (strides[d] as number)) % (t.shape[d] as number)));
  }
  return fromArray(BigInt64Array.from(out), 'int64', [count, t.rank]);
});

/** The elements where `mask` (bool) holds, as a vector; both broadcast. */
export const maskedSelect = defineFunction('maskedSelect', operands(ALL, BOOL), (t: Tensor, mask: Tensor): Tensor =>
  sweep(() => {
    const shape = broadcastShapes(t.shape, mask.shape);
    const at = nonzero(mask.expand(shape).reshape([sizeOf(shape)])).reshape([-1]);
    return t
      .expand(shape)
      .reshape([sizeOf(shape)])
      .indexSelect(0, at);
  }),
);

const uniqueOp = defineOp<{ values: TypedArrays[DType]; n: number }>(
  ['unique', '_unique2'],
  each(REAL),
  ([t], { values, n }) => fromArray(values, t.dtype, [n]),
);

/** What `unique` finds. */
export interface Distinct {
  /** [n], in ascending order. */
  values: Tensor;
  /** int64, of the shape of what was given: where each element is among `values`. */
  inverse: Tensor;
  /** int64 [n]: how often each occurs. */
  counts: Tensor;
}

/** The distinct elements in ascending order, where each element of `t` is among them, and how often each occurs. Has no derivative. */
export const unique = defineFunction('unique', each(REAL), (t: Tensor): Distinct => {
  const raw = readArray(t);
  const keys: (number | bigint)[] = t.dtype === 'int64' ? [...(raw as BigInt64Array)] : [...decode(raw, t.dtype)];
  const distinct = [...new Set(keys)].filter((v) => v === v).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const place = new Map(distinct.map((v, i) => [v, i]));
  // NaN equals nothing, itself neither: each comes by itself, after the others.
  const inverse = BigInt64Array.from(keys, (v) => BigInt(place.get(v) ?? distinct.push(v) - 1));
  const counts = new BigInt64Array(distinct.length);
  for (const i of inverse) counts[Number(i)] = (counts[Number(i)] as bigint) + 1n;
  const values =
    t.dtype === 'int64'
      ? BigInt64Array.from(distinct as bigint[])
      : encode(Float64Array.from(distinct as number[]), t.dtype);
  const n = distinct.length;
  return {
    values: apply(uniqueOp, [t], { values, n }),
    inverse: fromArray(inverse, 'int64', t.shape),
    counts: fromArray(counts, 'int64', [n]),
  };
});

const bincountOp = defineOp<{ minLength: number }>(
  'bincount',
  operands(REAL_NUMBER, REAL),
  ([t, weights]: readonly [Tensor, Tensor | undefined, ...Tensor[]], { minLength }) => {
    const ids = readNumbers(t);
    let n = minLength;
    for (const v of ids) {
      if (v < 0 || !Number.isInteger(v))
        throw new ShapeError(`bincount only supports 1-d non-negative integral inputs: whole numbers, but got ${v}`);
      n = Math.max(n, v + 1);
    }
    checkShape([n]);
    const out = new Float64Array(n);
    const factors = weights === undefined ? undefined : readNumbers(weights);
    ids.forEach((v: number, i: number) => (out[v] = (out[v] as number) + (factors?.[i] ?? 1)));
    const dtype: DType = weights === undefined ? 'int64' : weights.dtype === 'float32' ? 'float32' : 'float64';
    return fromArray(encode(out, dtype), dtype, [n]);
  },
);

/**
 * How often each whole number occurs, at least up to `minLength`; with weights, their sums: float32 of that, else float64, and without a
 * derivative.
 */
export const bincount = named('aten::bincount', (t: Tensor, weights?: Tensor, minLength = 0): Tensor => {
  if (t.rank !== 1)
    throw new ShapeError(
      `bincount only supports 1-d non-negative integral inputs, but got shape [${t.shape.join(', ')}]`,
    );
  if (weights !== undefined && !sameShape(weights.shape, t.shape)) {
    throw new ShapeError(
      `bincount: weights should be 1-d and have the same length as input, but got shapes [${weights.shape.join(', ')}] and [${t.shape.join(', ')}]`,
    );
  }
  if (!Number.isInteger(minLength) || minLength < 0)
    throw new RangeError(`bincount: minLength is a whole number of at least 0, but got ${minLength}`);
  return apply(bincountOp, weights === undefined ? [t] : [t, weights], { minLength });
});
