/** @file Sums and products with sparse operands. */
import { DTypeError, ShapeError } from '../errors.ts';
import { sparseFromParts } from '../creation.ts';
import { promote } from '../dtype.ts';
import { fromArray, readArray } from '../host.ts';
import { apply } from '../ops/op.ts';
import { defineOp } from '../ops/define.ts';
import { concat } from '../ops/join.ts';
import { sameShape } from '../shape.ts';
import { Tensor } from '../tensor.ts';
import { sparseCooTensor, toDense } from './coo.ts';
import { gatherRows } from './gather.ts';
import { partsOf } from './parts.ts';

const addSparseOp = defineOp<{ alpha: number }>('addSparse', 'add', ([a, b], { alpha }) => {
  const [x, y] = [a as Tensor, b as Tensor];
  const [p, q] = [partsOf(x, 'add'), partsOf(y, 'add')];
  const dtype = promote(x.dtype, y.dtype);
  const right = alpha === 1 ? q.values : q.values.mul(alpha);
  const rows = concatRows(p.indices, q.indices);
  return sparseFromParts({
    indices: rows,
    values: concat([p.values.to(dtype), right.to(dtype)], 0),
    coalesced: false,
    shape: x.shape,
  });
});

function concatRows(a: Tensor<'int64'>, b: Tensor<'int64'>): Tensor<'int64'> {
  const [dims, n] = a.shape as [number, number];
  const m = b.shape[1] as number;
  const [x, y] = [readArray(a), readArray(b)];
  const out = new BigInt64Array(dims * (n + m));
  for (let d = 0; d < dims; d++) {
    out.set(x.subarray(d * n, (d + 1) * n), d * (n + m));
    out.set(y.subarray(d * m, (d + 1) * m), d * (n + m) + n);
  }
  return fromArray(out, 'int64', [dims, n + m]);
}

/** a + alpha b where at least one is sparse: sparse with sparse stays sparse (uncoalesced), with dense becomes dense. */
export function addSparse(a: Tensor, b: Tensor | number, alpha: number): Tensor {
  if (!(b instanceof Tensor)) throw new DTypeError('add(sparse, number) is not defined; use toDense()');
  if (a.sparse === undefined || b.sparse === undefined) return toDense(a).add(toDense(b).mul(alpha));
  if (!sameShape(a.shape, b.shape)) {
    throw new ShapeError(
      `add: expected sizes of 'self' and 'other' to match, but [${a.shape.join(', ')}] != [${b.shape.join(', ')}]`,
    );
  }
  if (a.sparse.indices.shape[0] !== b.sparse.indices.shape[0]) return toDense(a).add(toDense(b).mul(alpha)).toSparse();
  return apply(addSparseOp, [a, b], { alpha });
}

const scaleSparseOp = defineOp<{ factor: number }>('scaleSparse', 'mul', ([t], { factor }) => {
  const input = t as Tensor;
  const { indices, values, coalesced } = partsOf(input, 'mul');
  return sparseFromParts({ indices, values: values.mul(factor), coalesced, shape: input.shape });
});

/**
 * A sparse tensor times a number, or element by element times a dense or sparse tensor that broadcasts to its shape: sparse, at the
 * coalesced indices of `t`.
 */
export function mulSparse(t: Tensor, factor: Tensor | number): Tensor {
  if (typeof factor === 'number') return apply(scaleSparseOp, [t], { factor });
  if (factor.rank === 0 && !factor.requiresGrad) return apply(scaleSparseOp, [t], { factor: factor.item() });
  const own = t.coalesce();
  const at = own.indices();
  const other = toDense(factor).expand(t.shape);
  return sparseCooTensor(at, own.values().mul(gatherRows(other, at)), t.shape);
}
