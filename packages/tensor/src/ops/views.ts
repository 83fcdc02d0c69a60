/** @file Operations that give another view of the same storage. */
import { kindOf } from '../given.ts';
import { ambient } from '../ambient.ts';
import { shareHandle } from '../autograd/record.ts';
import { noteView } from '../autograd/views.ts';
import { isDifferentiable, type DType } from '../dtype.ts';
import { DTypeError, ShapeError } from '../errors.ts';
import { rawView } from '../host.ts';
import { sweep } from '../scope.ts';
import { checkList, checkShape, expandStrides, inferShape, normalizeDim, viewStrides, type Shape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { contiguous } from './copy.ts';
import { defineOp, type Op } from './define.ts';
import { apply } from './op.ts';
import { ALL, each } from './takes.ts';

/** Runs a view operation and notes what it is a view of, so that in-place changes reach the base's history. */
export function applyView<A, D extends DType>(
  op: Op<A>,
  t: Tensor<D>,
  attrs: A,
  origin: 'recorded' | 'several' = 'recorded',
): Tensor<D> {
  if (t.sparse !== undefined) throw new DTypeError(`${op.torch} has no view of a sparse tensor; use toDense()`);
  const out = apply(op, [t], attrs) as Tensor<D>;
  if (isDifferentiable(t.dtype)) noteView(out, t, ambient().gradMode ? origin : 'noGrad');
  return out;
}

const viewOp = defineOp<{ shape: Shape }>('view', each(ALL), ([input], { shape }) => {
  const strides = viewStrides(input.shape, input.strides, shape);
  if (strides === undefined) {
    throw new ShapeError(
      "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
    );
  }
  return rawView(input, shape, strides, input.offset);
});

/** The same elements in another shape, without copying; throws where that is impossible. One dimension may be -1. */
export function view<D extends DType>(t: Tensor<D>, shape: Shape): Tensor<D> {
  return applyView(viewOp, t, { shape: inferShape(shape, t.size) });
}

/** The same elements in another shape: a view where the strides allow it, else a copy. One dimension may be -1. */
export function reshape<D extends DType>(t: Tensor<D>, shape: Shape): Tensor<D> {
  const full = inferShape(shape, t.size);
  if (viewStrides(t.shape, t.strides, full) !== undefined) return applyView(viewOp, t, { shape: full });
  // Of a copy that nobody else sees, this is the tensor itself.
  return sweep(() => apply(viewOp, [contiguous(t)], { shape: full }) as Tensor<D>);
}

/** Dimensions `startDim` to `endDim` as one. */
export function flatten<D extends DType>(t: Tensor<D>, startDim = 0, endDim = -1): Tensor<D> {
  const from = normalizeDim(startDim, t.rank);
  const to = normalizeDim(endDim, t.rank);
  if (to < from) throw new ShapeError('flatten() has invalid args: startDim cannot come after endDim');
  if (t.rank === 0) return reshape(t, [1]);
  const merged = t.shape.slice(from, to + 1).reduce((a, b) => a * b, 1);
  return reshape(t, [...t.shape.slice(0, from), merged, ...t.shape.slice(to + 1)]);
}

const permuteOp = defineOp<{ dims: readonly number[] }>('permute', each(ALL), ([input], { dims }) => {
  return rawView(
    input,
    dims.map((d) => input.shape[d] as number),
    dims.map((d) => input.strides[d] as number),
    input.offset,
  );
});

/** Dimension i of the result is dimension dims[i] of `t`. */
export function permute<D extends DType>(t: Tensor<D>, dims: readonly number[]): Tensor<D> {
  checkList(dims, 'permute() takes the dimensions as a list of whole numbers, such as [1, 0]');
  const order = dims.map((d) => normalizeDim(d, t.rank));
  if (order.length !== t.rank || new Set(order).size !== order.length) {
    throw new ShapeError(`permute(): [${dims.join(', ')}] is not a permutation of ${t.rank} dimensions`);
  }
  return applyView(permuteOp, t, { dims: order });
}

/** Swaps two dimensions. */
export function transpose<D extends DType>(t: Tensor<D>, dim0: number, dim1: number): Tensor<D> {
  const dims = t.shape.map((_, i) => i);
  const a = normalizeDim(dim0, t.rank);
  const b = normalizeDim(dim1, t.rank);
  if (t.rank === 0) return alias(t);
  dims[a] = b;
  dims[b] = a;
  return applyView(permuteOp, t, { dims });
}

/** A matrix with its two dimensions swapped; what has fewer dimensions stays as it is. */
export function t<D extends DType>(matrix: Tensor<D>): Tensor<D> {
  if (matrix.rank > 2) throw new ShapeError(`t() expects a tensor with <= 2 dimensions, but self is ${matrix.rank}D`);
  return matrix.rank === 2 ? transpose(matrix, 0, 1) : alias(matrix);
}

/** Start, count and step of a slice; the derivative writes the gradient back there. */
export interface SliceAttrs {
  readonly dim: number;
  readonly start: number;
  readonly length: number;
  readonly step: number;
}

const sliceOp = defineOp<SliceAttrs>('slice', each(ALL), ([input], { dim, start, length, step }) => {
  const stride = input.strides[dim] as number;
  return rawView(
    input,
    input.shape.map((n, i) => (i === dim ? length : n)),
    input.strides.map((s, i) => (i === dim ? s * step : s)),
    input.offset + start * stride,
  );
});

/** `length` elements of dimension `dim` from `start`. */
export function narrow<D extends DType>(t: Tensor<D>, dim: number, start: number, length: number): Tensor<D> {
  const d = dimOf(t, dim, 'narrow');
  const n = t.shape[d] as number;
  const from = start < 0 ? start + n : start;
  if (!Number.isInteger(from) || !Number.isInteger(length) || from < 0 || length < 0 || from + length > n) {
    throw new ShapeError(`start (${start}) + length (${length}) exceeds dimension size (${n}).`);
  }
  return applyView(sliceOp, t, { dim: d, start: from, length, step: 1 });
}

/** Elements start, start + step, … before `end` of dimension `dim`; out-of-range ends are clamped. */
export function slice<D extends DType>(t: Tensor<D>, dim: number, start = 0, end?: number, step = 1): Tensor<D> {
  const d = dimOf(t, dim, 'slice');
  if (!Number.isInteger(step) || step <= 0)
    throw new ShapeError(`slice step must be a positive whole number, but got ${step}`);
  if (!Number.isInteger(start) || (end !== undefined && !Number.isInteger(end)))
    throw new ShapeError(`slice indices must be whole numbers, but got ${start} and ${end ?? 'the end'}`);
  const n = t.shape[d] as number;
  const clamp = (at: number): number => Math.min(Math.max(at < 0 ? at + n : at, 0), n);
  const from = clamp(start);
  const length = Math.max(0, Math.ceil((clamp(end ?? n) - from) / step));
  return applyView(sliceOp, t, { dim: d, start: from, length, step });
}

const selectOp = defineOp<{ dim: number; index: number }>('select', each(ALL), ([input], { dim, index }) => {
  return rawView(
    input,
    input.shape.filter((_, i) => i !== dim),
    input.strides.filter((_, i) => i !== dim),
    input.offset + index * (input.strides[dim] as number),
  );
});

/** The slice at `index` of dimension `dim`, without that dimension. */
export function select<D extends DType>(t: Tensor<D>, dim: number, index: number): Tensor<D> {
  const d = dimOf(t, dim, 'select');
  const n = t.shape[d] as number;
  if (!Number.isInteger(index) || index < -n || index >= n) {
    throw new ShapeError(
      `select(): index ${index} out of range for tensor of size [${t.shape.join(', ')}] at dimension ${d}`,
    );
  }
  return applyView(selectOp, t, { dim: d, index: index < 0 ? index + n : index });
}

const expandOp = defineOp<{ shape: Shape }>('expand', each(ALL), ([input], { shape }) => {
  return rawView(input, shape, expandStrides(input.shape, input.strides, shape), input.offset);
});

/** Repeats dimensions of one element without copying; -1 keeps a dimension as it is. */
export function expand<D extends DType>(t: Tensor<D>, shape: Shape): Tensor<D> {
  checkList(shape);
  const lead = shape.length - t.rank;
  const full = shape.map((n, i) => (n === -1 && i >= lead ? (t.shape[i - lead] as number) : n));
  checkShape(full);
  return applyView(expandOp, t, { shape: full });
}

/** Without dimensions of one element: all of them, or `dim` if it is one. */
export function squeeze<D extends DType>(t: Tensor<D>, dim?: number): Tensor<D> {
  if (dim === undefined)
    return reshape(
      t,
      t.shape.filter((n) => n !== 1),
    );
  const d = normalizeDim(dim, t.rank);
  return t.shape[d] === 1 ? select(t, d, 0) : alias(t);
}

/** With a dimension of one element at `dim`. */
export function unsqueeze<D extends DType>(t: Tensor<D>, dim: number): Tensor<D> {
  const d = normalizeDim(dim, t.rank + 1);
  return reshape(t, [...t.shape.slice(0, d), 1, ...t.shape.slice(d)]);
}

const aliasOp = defineOp('alias', each(ALL), ([input]) => {
  return rawView(input, input.shape, input.strides, input.offset);
});

/** A new tensor over the same storage with the same shape; of a sparse tensor, another handle of its parts. */
export function alias<D extends DType>(t: Tensor<D>): Tensor<D> {
  if (t.sparse !== undefined) return shareHandle(t);
  return applyView(aliasOp, t, undefined);
}

/** The parts of `sizes` elements each along `dim`, as views. */
export function split<D extends DType>(t: Tensor<D>, sizes: number | readonly number[], dim = 0): Tensor<D>[] {
  const d = dimOf(t, dim, 'split');
  const n = t.shape[d] as number;
  if (typeof sizes !== 'number' && !Array.isArray(sizes))
    throw new ShapeError(`split expects a size or a list of sizes, but got ${kindOf(sizes)}`);
  if (typeof sizes === 'number' && !(Number.isInteger(sizes) && (sizes > 0 || (sizes === 0 && n === 0))))
    throw new ShapeError(`split expects a positive whole size, but got ${sizes} for a dimension of ${n} elements`);
  const list: readonly number[] = typeof sizes === 'number' ? chunkSizes(n, sizes) : sizes;
  const odd = Array.from<unknown>(list).findIndex((length) => !Number.isInteger(length));
  if (odd !== -1) throw new ShapeError(`split expects whole sizes, but got ${kindOf(list[odd])}`);
  if (list.reduce((a, b) => a + b, 0) !== n) {
    throw new ShapeError(`split expects sizes that sum to ${n} along dimension ${d}, but got [${list.join(', ')}]`);
  }
  let start = 0;
  return list.map((length) => {
    const part = applyView(sliceOp, t, { dim: d, start, length, step: 1 }, 'several');
    start += length;
    return part;
  });
}

/** At most `count` parts of equal size (the last may be smaller) along `dim`, as views; exactly `count` of a dimension without elements. */
export function chunk<D extends DType>(t: Tensor<D>, count: number, dim = 0): Tensor<D>[] {
  if (!Number.isInteger(count) || count < 1) throw new ShapeError(`chunk expects at least 1 part, but got ${count}`);
  const n = t.shape[dimOf(t, dim, 'chunk')] as number;
  // Nothing can be shared out evenly: everybody gets none of it.
  if (n === 0) return split(t, Array<number>(count).fill(0), dim);
  return split(t, Math.ceil(n / count), dim);
}

/** The slices along `dim`, as views without it. */
export function unbind<D extends DType>(t: Tensor<D>, dim = 0): Tensor<D>[] {
  const d = dimOf(t, dim, 'unbind');
  return Array.from({ length: t.shape[d] as number }, (_, index) =>
    applyView(selectOp, t, { dim: d, index }, 'several'),
  );
}

function chunkSizes(n: number, size: number): number[] {
  const out: number[] = [];
  for (let at = 0; at < n; at += size) out.push(Math.min(size, n - at));
  return out.length === 0 ? [0] : out;
}

function dimOf(t: Tensor, dim: number, name: string): number {
  if (t.rank === 0) throw new ShapeError(`${name}() cannot be applied to a 0-dim tensor.`);
  return normalizeDim(dim, t.rank);
}
