/** @file Joining tensors along a dimension of its own. */
import { ShapeError } from '../errors.ts';
import { named } from '../named.ts';
import { normalizeDim } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { concat } from './join.ts';
import { stackSparse } from './sparse/stack.ts';

/**
 * The tensors, all of one shape, along a new dimension.
 * @param tensors at least one, all of one shape, dense, or all sparse, which gives a sparse one
 * @param dim where the new dimension stands in the result
 * @throws ShapeError when the shapes differ.
 * @example
 * ```ts
 * const rows = [tensor([1, 2]), tensor([3, 4])];
 * console.log(stack(rows).toArray(), stack(rows, 1).toArray()); // [ [ 1, 2 ], [ 3, 4 ] ] [ [ 1, 3 ], [ 2, 4 ] ]
 * ```
 */
export const stack = named('aten::stack', (tensors: readonly Tensor[], dim = 0): Tensor => {
  const first = tensors[0];
  if (first === undefined) throw new ShapeError('stack expects a non-empty list of tensors');
  const d = normalizeDim(dim, first.rank + 1);
  for (const [i, t] of tensors.entries()) {
    if (t.rank !== first.rank || t.shape.some((n, k) => n !== first.shape[k])) {
      throw new ShapeError(
        `stack expects each tensor to be equal size, but got [${first.shape.join(', ')}] at entry 0 and [${t.shape.join(', ')}] at entry ${i}`,
      );
    }
  }
  if (tensors.every((t) => t.sparse !== undefined)) return stackSparse(tensors, d);
  return concat(
    tensors.map((t) => t.unsqueeze(d)),
    d,
  );
});
