/** @file The sum of a sparse tensor whose gradient is sparse, too. */
import { fromArray } from '../../host.ts';
import { named } from '../../named.ts';
import { normalizeDims } from '../../shape.ts';
import type { Tensor } from '../../tensor.ts';
import { coalesce, indices, sparseCooTensor, values } from './coo.ts';

/**
 * The sum of a sparse tensor over all its dimensions, or over some of them, as `torch.sparse.sum`: its gradient is sparse, of the entries
 * of `t` alone, where that of `t.sum()` is dense. Integers add up in int64.
 * @param t sparse; a dense one is a DTypeError
 * @param dim the dimensions that are summed up. @default all of them
 * @returns a sparse tensor where sparse dimensions of `t` are left, else a dense one
 * @example
 * ```ts
 * const t = sparseCooTensor(tensor([[0, 2]]), tensor([3, 4]), [5]);
 * t.requiresGrad = true;
 * const total = sparse.sum(t);
 * total.backward();
 * console.log(total.item(), t.grad?.layout, t.grad?.toArray()); // 7 sparse_coo [ 1, 0, 1, 0, 0 ]
 * ```
 */
export const sum = named('aten::_sparse_sum', (t: Tensor, dim?: number | readonly number[]): Tensor => {
  const own = coalesce(t);
  const [rows, entries] = [indices(own), values(own)];
  const sparseDims = rows.shape[0] as number;
  const dims = new Set(normalizeDims(dim, t.rank));
  const left = t.shape.map((_, d) => d).filter((d) => !dims.has(d));
  const kept = left.filter((d) => d < sparseDims);
  // Those of the entries, whose first dimension is one for all sparse ones.
  const dense = [...dims].filter((d) => d >= sparseDims).map((d) => d - sparseDims + 1);
  if (kept.length === 0) return entries.sum([0, ...dense]);
  const sums = dense.length === 0 ? entries.clone() : entries.sum(dense);
  const at = rows.indexSelect(0, fromArray(BigInt64Array.from(kept, BigInt), 'int64', [kept.length]));
  return sparseCooTensor(
    at,
    sums,
    left.map((d) => t.shape[d] as number),
  );
});
