/** @file Derivatives of operations on sparse tensors. */
import { indexSelect } from '../../ops/indexing.ts';
import { where } from '../../ops/where.ts';
import { coalescedTensor, sparseCooTensor } from '../../ops/sparse/coo.ts';
import { gatherRows } from '../../ops/sparse/gather.ts';
import { placeSparse, selectSparse } from '../../ops/sparse/stack.ts';
import { stack } from '../../ops/stack.ts';
import { zerosLike } from '../../creation.ts';
import type { Tensor } from '../../tensor.ts';
import type { DType } from '../../dtype.ts';
import type { Shape } from '../../shape.ts';
import type { Derivative } from '../op-node.ts';
import { linear, rule } from './rule.ts';

/** The part of a gradient that belongs to the values at `indices`. */
function valuesOf(grad: Tensor, indices: Tensor<'int64'>): Tensor {
  return gatherRows(grad.toDense(), indices);
}

interface Place {
  readonly dim: number;
  readonly index: number;
}

/** The part of a gradient, sparse or dense, that belongs to one place along `dim`. */
function selected(grad: Tensor, dim: number, index: number): Tensor {
  return grad.sparse === undefined ? grad.select(dim, index) : selectSparse(grad, dim, index);
}

/** A gradient, sparse or dense, at one of `size` places along a new dimension, with zeros at the others. */
function placed(grad: Tensor, { dim, index }: Place, size: number): Tensor {
  if (grad.sparse !== undefined) return placeSparse(grad, dim, index, size);
  const all = Array.from({ length: size }, (_, i) => (i === index ? grad : zerosLike(grad)));
  return stack(all, dim);
}

export const sparse: Readonly<Record<string, Derivative>> = {
  sparseCooTensor: linear((grad, _saved, { indices }: { indices: Tensor<'int64'> }) => [valuesOf(grad, indices)]),
  sparseValues: rule([0], (grad, saved) => {
    const { shape, sparse: parts } = saved.input(0);
    return parts === undefined ? [null] : [coalescedTensor(parts.indices, grad, shape)];
  }),
  coalesce: linear((grad) => [grad]),
  toDense: linear((grad) => [grad]),
  gatherRows: linear((grad, saved, { indices }: { indices: Tensor<'int64'> }) => [
    sparseCooTensor(indices, grad, saved.shapes[0] as Shape).toDense(),
  ]),
  embedding: rule([1], (grad, saved) => {
    const ids = saved.input(1);
    const size = saved.shapes[0] as Shape;
    // A copy: the gradient outlives the pass, and the program may change its ids afterwards.
    const rows = ids.reshape([1, ids.size]).to('int64').clone();
    return [sparseCooTensor(rows, grad.reshape([ids.size, size[1] as number]), size), null];
  }),
  sparseEmbeddingBag: rule([1, 2], (grad, saved) => {
    const ids = saved.input(1);
    const rows = ids.reshape([1, ids.size]).to('int64').clone();
    return [sparseCooTensor(rows, indexSelect(grad, 0, saved.input(2)), saved.shapes[0] as Shape), null, null];
  }),
  // Elements that were left out have no slope, as in PyTorch.
  toSparse: rule([0], (grad, saved) => [where(saved.input(0).detach().ne(0), grad.toDense(), 0)]),
  addSparse: linear((grad, _saved, { alpha }: { alpha: number }) => [grad, alpha === 1 ? grad : grad.mul(alpha)]),
  stackSparse: linear((grad, { needs }, { dim }: { dim: number }) =>
    needs.map((needed, index) => (needed ? selected(grad, dim, index) : null)),
  ),
  selectSparse: linear((grad, { shapes }, place: Place) => [placed(grad, place, shapes[0]?.[place.dim] as number)]),
  placeSparse: linear((grad, _saved, { dim, index }: Place) => [selected(grad, dim, index)]),
  negSparse: linear((grad) => [grad.mul(-1)]),
  castSparse: linear((grad, saved) => [grad.to(saved.dtypes[0] as DType)]),
  scaleSparse: linear((grad, _saved, { value }: { value: number }) => [grad.mul(value)]),
  divideSparse: linear((grad, _saved, { value }: { value: number }) => [grad.div(value)]),
};
