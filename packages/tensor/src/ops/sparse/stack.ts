/** @file Sparse tensors along a dimension of its own, and the parts of such a stack. */
import { sparseFromParts } from '../../creation.ts';
import { ShapeError } from '../../errors.ts';
import { fromArray, readArray } from '../../host.ts';
import type { SparseParts, Tensor } from '../../tensor.ts';
import { defineOp } from '../define.ts';
import { concat } from '../join.ts';
import { apply } from '../op.ts';
import { commonDType } from '../promotion.ts';
import { ALL, each, same } from '../takes.ts';
import { castSparse } from './arithmetic.ts';
import { partsOf } from './parts.ts';

/** One place along a sparse dimension, which an element of a stack takes. */
interface Place {
  readonly dim: number;
  readonly index: number;
}

const stackOp = defineOp<{ dim: number }>(['stackSparse', 'stack'], same(ALL), (inputs, { dim }) => {
  const parts = inputs.map((t) => partsOf(t, 'stack'));
  return sparseFromParts({
    indices: concat(
      parts.map(({ indices }, index) => withRow(indices, { dim, index })),
      1,
    ) as Tensor<'int64'>,
    values: concat(parts.map(({ values }) => values)),
    coalesced: false,
    shape: inputs[0].shape.toSpliced(dim, 0, inputs.length),
  });
});

const selectOp = defineOp<Place>(['selectSparse', 'select'], each(ALL), ([t], { dim, index }) => {
  const { indices, values, coalesced } = partsOf(t, 'select');
  const rows = rowsOf(indices);
  const [own] = rows.splice(dim, 1) as [BigInt64Array];
  const at = [...own.keys()].filter((entry) => own[entry] === BigInt(index));
  return sparseFromParts({
    indices: fromRows(rows.map((row) => BigInt64Array.from(at, (entry) => row[entry] as bigint))),
    values: values.indexSelect(0, fromArray(BigInt64Array.from(at, BigInt), 'int64', [at.length])),
    coalesced,
    shape: t.shape.toSpliced(dim, 1),
  });
});

const placeOp = defineOp<Place & { size: number }>(['placeSparse', 'select_backward'], each(ALL), ([t], attrs) => {
  const { indices, values, coalesced } = partsOf(t, 'select_backward');
  const shape = t.shape.toSpliced(attrs.dim, 0, attrs.size);
  return sparseFromParts({ indices: withRow(indices, attrs), values: values.clone(), coalesced, shape });
});

/** Sparse tensors of one shape along a new dimension, which stands among their sparse ones or right behind them. */
export function stackSparse(tensors: readonly Tensor[], dim: number): Tensor {
  const sparseDims = tensors.map((t) => partsOf(t, 'stack').indices.shape[0] as number);
  const [first = 0] = sparseDims;
  const odd = sparseDims.findIndex((dims) => dims !== first);
  if (odd !== -1) {
    throw new ShapeError(
      `stack expects sparse tensors of equally many sparse dimensions, but got ${first} at entry 0 and ${sparseDims[odd]} at entry ${odd}; use toDense()`,
    );
  }
  if (dim > first) {
    throw new ShapeError(
      `stack puts sparse tensors of ${first} sparse dimensions along dimension 0 to ${first}, not ${dim}; use toDense()`,
    );
  }
  const dtype = commonDType(tensors);
  return apply(
    stackOp,
    tensors.map((t) => castSparse(t, dtype)),
    { dim },
  );
}

/** What stands at one place along a sparse dimension of `t`: a copy. */
export function selectSparse(t: Tensor, dim: number, index: number): Tensor {
  return apply(selectOp, [t], { dim, index });
}

/** A sparse tensor that has `t` at one place along a new dimension, and nothing at the others. */
export function placeSparse(t: Tensor, dim: number, index: number, size: number): Tensor {
  return apply(placeOp, [t], { dim, index, size });
}

/** Indices with a row more, which says the same of every entry. */
function withRow(indices: SparseParts['indices'], { dim, index }: Place): Tensor<'int64'> {
  const count = indices.shape[1] as number;
  return fromRows(rowsOf(indices).toSpliced(dim, 0, new BigInt64Array(count).fill(BigInt(index))));
}

function rowsOf(indices: SparseParts['indices']): BigInt64Array[] {
  const [dims, count] = indices.shape as readonly [number, number];
  const all = readArray(indices);
  return Array.from({ length: dims }, (_, d) => all.subarray(d * count, (d + 1) * count));
}

function fromRows(rows: readonly BigInt64Array[]): Tensor<'int64'> {
  const count = rows[0]?.length ?? 0;
  const all = new BigInt64Array(rows.length * count);
  for (const [d, row] of rows.entries()) all.set(row, d * count);
  return fromArray(all, 'int64', [rows.length, count]);
}
