/** @file Repeating, joining and arranging: repeat, repeatInterleave, meshgrid, hstack, vstack, movedim, unflatten. */
import { tensor } from '../creation.ts';
import { ShapeError } from '../errors.ts';
import { readNumbers } from '../host.ts';
import { named } from '../named.ts';
import { sweep } from '../scope.ts';
import { checkCount, checkShape, inferShape, normalizeDim } from '../shape.ts';
import { Tensor } from '../tensor.ts';
import { tile } from './composite.ts';
import { defineFunction } from './define.ts';
import { indexSelect } from './indexing.ts';
import { concat } from './join.ts';
import { ALL, each } from './takes.ts';

/** The tensor `counts` times along each dimension; more counts than dimensions add dimensions in front, fewer are refused. */
export const repeat = defineFunction('repeat', each(ALL), (t: Tensor, counts: readonly number[]): Tensor => {
  if (counts.length < t.rank) {
    throw new ShapeError(
      `repeat: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor, but got ${counts.length} for ${t.rank}`,
    );
  }
  return tile(t, counts);
});

/** Each slice of `dim` as often as `repeats` says, one number or one a slice; without `dim` each element. */
export const repeatInterleave = defineFunction(
  'repeatInterleave',
  each(ALL),
  (t: Tensor, repeats: number | readonly number[] | Tensor, dim?: number): Tensor =>
    sweep(() => {
      if (dim === undefined) return repeatInterleave(t.reshape([t.size]), repeats, 0);
      const d = normalizeDim(dim, t.rank);
      if (t.rank === 0) throw new ShapeError('repeatInterleave: a tensor without dimensions has none to repeat along');
      const n = t.shape[d] as number;
      if (repeats instanceof Tensor && repeats.rank > 1)
        throw new ShapeError('repeatInterleave: repeats has to be a number or a vector');
      const counts = countsOf(repeats, n);
      checkCount([counts.reduce((sum, count) => sum + count, 0)]);
      const at = counts.flatMap((count, i) => Array<bigint>(count).fill(BigInt(i)));
      return indexSelect(t, d, tensor(BigInt64Array.from(at), { dtype: 'int64', shape: [at.length] }));
    }),
);

function countsOf(repeats: number | readonly number[] | Tensor, n: number): number[] {
  const given =
    typeof repeats === 'number' ? [repeats] : repeats instanceof Tensor ? Array.from(readNumbers(repeats)) : repeats;
  const wrong = given.find((count) => !Number.isInteger(count) || count < 0);
  if (wrong !== undefined)
    throw new ShapeError(`repeatInterleave: repeats are whole numbers and not negative, but got ${wrong}`);
  if (given.length !== 1 && given.length !== n)
    throw new ShapeError(`repeatInterleave: repeats must have one number or ${n}, but has ${given.length}`);
  return given.length === n ? [...given] : Array<number>(n).fill(given[0] as number);
}

/**
 * Vectors as the coordinates of a grid: for each, its elements along its own dimension. 'xy' swaps the first two dimensions.
 */
export const meshgrid = defineFunction(
  'meshgrid',
  each(ALL),
  (tensors: readonly Tensor[], indexing: 'ij' | 'xy' = 'ij'): Tensor[] => {
    if (tensors.length === 0) throw new ShapeError('meshgrid expects a non-empty list of tensors');
    for (const t of tensors) {
      if (t.rank > 1) throw new ShapeError(`meshgrid: expected scalars or vectors, got [${t.shape.join(', ')}]`);
      if (t.dtype !== tensors[0]?.dtype) throw new ShapeError('meshgrid expects all tensors to have the same dtype');
    }
    const swap = indexing === 'xy' && tensors.length >= 2;
    const given = swap ? [tensors[1] as Tensor, tensors[0] as Tensor, ...tensors.slice(2)] : tensors;
    const shape = given.map((t) => t.size);
    const grids = given.map((t, i) => t.reshape(shape.map((n, d) => (d === i ? n : 1))).expand(shape));
    return swap ? [grids[1] as Tensor, grids[0] as Tensor, ...grids.slice(2)] : grids;
  },
);

/** Scalars and vectors as tensors of at least `rank` dimensions. */
function atLeast(t: Tensor, rank: 1 | 2 | 3): Tensor {
  if (t.rank >= rank) return t;
  if (t.rank === 0) return t.reshape(Array<number>(rank).fill(1));
  if (rank === 2) return t.unsqueeze(0);
  return t.rank === 1 ? t.unsqueeze(0).unsqueeze(-1) : t.unsqueeze(-1);
}

function joined(tensors: readonly Tensor[], shaped: (t: Tensor) => Tensor, dim: number): Tensor {
  return sweep(() => concat(tensors.map(shaped), dim));
}

/** One beside the other: vectors along their only dimension, others along the second. */
export const hstack = named('aten::hstack', (tensors: readonly Tensor[]): Tensor =>
  sweep(() => {
    const parts = tensors.map((t) => atLeast(t, 1));
    return concat(parts, parts[0]?.rank === 1 ? 0 : 1);
  }),
);

/** One below the other: vectors are rows. */
export const vstack = named('aten::vstack', (tensors: readonly Tensor[]): Tensor =>
  joined(tensors, (t) => atLeast(t, 2), 0),
);

/** One behind the other: along the third dimension. */
export const dstack = named('aten::dstack', (tensors: readonly Tensor[]): Tensor =>
  joined(tensors, (t) => atLeast(t, 3), 2),
);

/** Vectors as the columns of a matrix. */
export const columnStack = named('aten::column_stack', (tensors: readonly Tensor[]): Tensor =>
  joined(tensors, (t) => (t.rank <= 1 ? t.reshape([t.size, 1]) : t), 1),
);

/** A view with dimensions `from` at the places `to`, the others in their order. */
export const movedim = named(
  'aten::movedim',
  (t: Tensor, from: number | readonly number[], to: number | readonly number[]): Tensor => {
    const listOf = (dims: number | readonly number[]): number[] =>
      (typeof dims === 'number' ? [dims] : dims).map((d) => normalizeDim(d, t.rank));
    const [source, target] = [listOf(from), listOf(to)];
    if (new Set(source).size !== source.length || new Set(target).size !== target.length)
      throw new ShapeError('movedim: repeated dim in source or destination');
    if (source.length !== target.length)
      throw new ShapeError(
        `movedim: Invalid source or destination dims: source ([${source.join(', ')}] dims) should contain the same number of dims as destination ([${target.join(', ')}] dims)`,
      );
    if (t.rank === 0) return t.alias();
    const rest = t.shape.map((_, d) => d).filter((d) => !source.includes(d));
    const order = t.shape.map((_, d) => {
      const i = target.indexOf(d);
      return i === -1 ? -1 : (source[i] as number);
    });
    return t.permute(order.map((d) => (d === -1 ? (rest.shift() as number) : d)));
  },
);

/** A view with dimension `dim` as several of the given sizes, one of which may be -1. */
export const unflatten = named('aten::unflatten', (t: Tensor, dim: number, sizes: readonly number[]): Tensor => {
  const d = normalizeDim(dim, t.rank);
  if (t.rank === 0) throw new ShapeError('unflatten: a tensor without dimensions has none to unflatten');
  if (sizes.length === 0) throw new ShapeError('unflatten: sizes must be non-empty');
  if (!sizes.includes(-1)) checkShape(sizes);
  const own = inferShape(sizes, t.shape[d] as number);
  return t.view([...t.shape.slice(0, d), ...own, ...t.shape.slice(d + 1)]);
});

/** Fresh dimensions of one, and others repeated without copying, as `shape` says. */
export const broadcastTo = named('aten::broadcast_to', (t: Tensor, shape: readonly number[]): Tensor =>
  t.expand(shape),
);

/** Tensors as views of the shape that all broadcast to. */
export const broadcastTensors = named('aten::broadcast_tensors', (tensors: readonly Tensor[]): Tensor[] => {
  const shape = stackShape(tensors);
  return tensors.map((t) => t.expand(shape));
});

function stackShape(tensors: readonly Tensor[]): number[] {
  const rank = Math.max(0, ...tensors.map((t) => t.rank));
  return Array.from({ length: rank }, (_, i) => {
    const sizes = tensors.map((t) => t.shape[i - rank + t.rank] ?? 1);
    const wide = sizes.find((n) => n !== 1) ?? 1;
    const odd = sizes.find((n) => n !== 1 && n !== wide);
    if (odd !== undefined)
      throw new ShapeError(
        `The size of tensor a (${wide}) must match the size of tensor b (${odd}) at non-singleton dimension ${i}`,
      );
    return wide;
  });
}

/** The differences of neighbours along `dim`, `n` times. */
export const diff = defineFunction('diff', each(ALL), (t: Tensor, n = 1, dim = -1): Tensor =>
  sweep(() => {
    if (t.rank === 0) throw new ShapeError('diff expects input to be at least one-dimensional');
    if (!Number.isInteger(n) || n < 0) throw new RangeError(`diff: n is a whole number of at least 0, but got ${n}`);
    if (n === 0) return t.alias();
    const d = normalizeDim(dim, t.rank);
    let out = t.alias();
    for (let i = 0; i < n; i++) {
      const length = Math.max(0, (out.shape[d] as number) - 1);
      if ((out.shape[d] as number) === 0) break;
      const [high, low] = [out.narrow(d, 1, length), out.narrow(d, 0, length)];
      out = t.dtype === 'bool' ? high.logicalXor(low) : high.sub(low);
    }
    return out;
  }),
);
