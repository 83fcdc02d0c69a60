/** @file Sparse tensors and gradients to be checked against central differences. */
import { eye, nn, sparse, sparseCooTensor, stack, tensor, type Tensor } from '../../src/index.ts';
import { placeSparse, selectSparse } from '../../src/ops/sparse/stack.ts';
import type { Case } from './case.ts';

/** Rows of `table` by an embedding whose gradient is sparse, and dense again before it reaches `table`. */
function sparseRows(table: Tensor, ids: number[]): Tensor {
  const layer = new nn.Embedding(...(table.shape as [number, number]), { sparse: true });
  const weight = table.matmul(eye(2).to('float64'));
  return Object.assign(layer, { weight }).forward(tensor(ids, { dtype: 'int64' }));
}
/** Bags of rows of `table`, one of them empty. */
function bags(table: Tensor, isSparse: boolean): Tensor {
  const layer = new nn.EmbeddingBag(...(table.shape as [number, number]), { sparse: isSparse });
  const weight = table.matmul(eye(2).to('float64'));
  const [ids, offsets] = [tensor([2, 0, 2, 1], { dtype: 'int64' }), tensor([0, 3, 3], { dtype: 'int64' })];
  return Object.assign(layer, { weight }).forward(ids, offsets).square();
}

/** Duplicates, out of order. */
const coo = (values: Tensor): Tensor =>
  sparseCooTensor(
    tensor(
      [
        [2, 0, 2],
        [1, 0, 1],
      ],
      { dtype: 'int64' },
    ),
    values,
    [3, 2],
  );

export const SPARSE: readonly Case[] = [
  ['sparseCooTensor', (v) => coo(v).toDense(), [3]],
  ['coalesce', (v) => coo(v).coalesce().toDense(), [3]],
  ['sparse values', (v) => coo(v).coalesce().values().square(), [3]],
  ['sparse sum', (v, w) => coo(v).add(coo(w), { alpha: 0.5 }).toDense(), [3], [3]],
  ['sparse scaled', (v) => coo(v).mul(2.5).toDense(), [3]],
  ['sparse divided', (v) => coo(v).div(2.5).toDense(), [3]],
  ['sparse divided by a tensor', (v, by) => coo(v).div(by.square().add(1)).toDense(), [3], []],
  ['sparse in place', (v) => coo(v).mul(1).mul_(3).div_(2).toDense(), [3]],
  ['sparse.sum', (v) => sparse.sum(coo(v)), [3]],
  ['sparse.sum of a dimension', (v) => sparse.sum(coo(v), 0).toDense(), [3]],
  ['sparse stack', (v, w) => stack([coo(v), coo(w)], 1).toDense(), [3], [3]],
  ['sparse stack, of sparse gradients', (v, w) => sparse.sum(stack([coo(v), coo(w)]).mul(2)), [3], [3]],
  ['sparse row', (v) => selectSparse(coo(v), 0, 2).toDense(), [3]],
  ['sparse column, of a sparse gradient', (v) => sparse.sum(selectSparse(coo(v), 1, 1).mul(2)), [3]],
  ['sparse row of a matrix', (v) => placeSparse(coo(v), 0, 1, 2).toDense(), [3]],
  ['sparse times dense', (v, d) => coo(v).mul(d).toDense(), [3], [3, 2]],
  ['sparse times sparse', (v, w) => coo(v).mul(coo(w)).toDense(), [3], [3]],
  ['sparse matmul', (v, d) => coo(v).matmul(d), [3], [2, 2]],
  ['toSparse', (a) => a.toSparse().toDense(), [2, 3]],
  ['sparse negative', (v) => coo(v).neg().toDense(), [3]],
  ['sparse cast', (v) => coo(v).to('float32').toDense().to('float64'), [3]],
  ['embeddingBag', (table) => bags(table, false), [3, 2]],
  ['sparse embeddingBag', (table) => bags(table, true), [3, 2]],
  ['sparse embedding', (table) => sparseRows(table, [2, 0, 2]), [3, 2]],
];
