/** @file Sparse COO tensors: making them, coalescing, and dense forms. */
import { checkArguments } from '../../arguments.ts';
import { detach } from '../copy.ts';
import { apply } from '../op.ts';
import { ALL, check, each, REAL_NUMBER } from '../takes.ts';
import { defineOp } from '../define.ts';
import { sparseFromParts } from '../../creation.ts';
import { allocate, decode, dtypes, encode, type DType, type NumberArray } from '../../dtype.ts';
import { DTypeError, ShapeError } from '../../errors.ts';
import { fromArray, over, readArray, readNumbers } from '../../host.ts';
import { shareHandle } from '../../autograd/record.ts';
import { untracked } from '../../scope.ts';
import { sizeOf, type Shape } from '../../shape.ts';
import type { Tensor } from '../../tensor.ts';
import { linearIndices, planUnique, unravel } from './plan.ts';
import { partsOf } from './parts.ts';

const sparseOp = defineOp<{ indices: Tensor<'int64'>; size: Shape; coalesced: boolean }>(
  'sparseCooTensor',
  each(ALL),
  ([values], { indices, size, coalesced }) => sparseFromParts({ indices, values: values, coalesced, shape: size }),
);

/**
 * A sparse tensor of `size`: `indices` [sparseDims, nnz] of any integer type, `values` [nnz, ...denseDims]. Duplicate indices mean the
 * sum of their values. Gradients flow to `values`.
 */
export function sparseCooTensor(indices: Tensor, values: Tensor, size: Shape): Tensor {
  checkArguments('sparseCooTensor', [indices, values, size]);
  check('sparseCooTensor', each(REAL_NUMBER, 'indices are of integers, int64 as a rule'), [indices]);
  const kind = dtypes[indices.dtype].kind;
  // Index lists written as plain numbers are float32: accept those that are whole.
  if (kind === 'float' && readNumbers(indices).some((v) => !Number.isInteger(v))) {
    throw new DTypeError('indices must be an integer tensor');
  }
  const rows = (indices.rank === 1 ? indices.reshape([1, indices.size]) : indices).to('int64').contiguous();
  if (rows.rank !== 2) throw new ShapeError('indices must have shape [sparseDims, nnz]');
  linearIndices(rows, size);
  return apply(sparseOp, [values], { indices: heldIndices(rows), size: [...size], coalesced: false });
}

/** A sparse tensor of indices that are in order and all different, as those of a coalesced one. */
export function coalescedTensor(indices: Tensor<'int64'>, values: Tensor, size: Shape): Tensor {
  return apply(sparseOp, [values], { indices: heldIndices(indices), size: [...size], coalesced: true });
}

/** A handle that a recorded operation may hold: no sweep or scope frees it. The collector does. */
export function heldIndices(rows: Tensor<'int64'>): Tensor<'int64'> {
  return untracked(() => shareHandle(rows));
}

/** The index rows of a coalesced tensor. */
export function indices(t: Tensor): Tensor<'int64'> {
  const parts = partsOf(t, 'indices');
  requireCoalesced(parts.coalesced, 'indices');
  return shareHandle(parts.indices);
}

const valuesOp = defineOp(['sparseValues', 'values'], each(ALL), ([t]) => detach(partsOf(t, 'values').values));

/** The values of a coalesced tensor. */
export function values<D extends DType>(t: Tensor<D>): Tensor<D> {
  requireCoalesced(partsOf(t, 'values').coalesced, 'values');
  return apply(valuesOp, [t], undefined) as Tensor<D>;
}

function requireCoalesced(coalesced: boolean, name: string): void {
  if (!coalesced) {
    throw new ShapeError(`Cannot get ${name} on an uncoalesced tensor, please call .coalesce() first`);
  }
}

/** Whether the indices are sorted and unique. */
export function isCoalesced(t: Tensor): boolean {
  return t.sparse?.coalesced ?? false;
}

const coalesceOp = defineOp('coalesce', each(ALL), ([input]) => {
  const { indices: rows, values: entries } = partsOf(input, 'coalesce');
  const sparseDims = rows.shape[0] as number;
  const size = input.shape.slice(0, sparseDims);
  const { unique, position } = planUnique(linearIndices(rows, size));
  const summed = segmentSum(entries, position, unique.length);
  const sorted = fromArray(unravel(unique, size), 'int64', [sparseDims, unique.length]);
  return sparseFromParts({ indices: sorted, values: summed, coalesced: true, shape: input.shape });
});

/** The same tensor with sorted, unique indices; values of equal indices are summed in order. */
export function coalesce<D extends DType>(t: Tensor<D>): Tensor<D> {
  if (partsOf(t, 'coalesce').coalesced) return shareHandle(t);
  return apply(coalesceOp, [t], undefined) as Tensor<D>;
}

/** Adds row i of `entries` into row position[i] of a zero tensor of `rows` rows. */
function segmentSum(entries: Tensor, position: Int32Array | Float64Array, rows: number): Tensor {
  const { dtype, shape } = entries;
  const step = sizeOf(shape.slice(1)) * dtypes[dtype].lanes;
  const size = [rows, ...shape.slice(1)];
  if (dtype === 'int64') {
    const source = readArray(entries) as BigInt64Array;
    const out = allocate('int64', rows * step);
    for (let i = 0, from = 0; i < position.length; i++)
      for (let k = 0, to = position[i]! * step; k < step; k++) out[to++]! += source[from++]!;
    return fromArray(out, 'int64', size);
  }
  const source = decode(readArray(entries), dtype);
  const out = new (source.constructor as new (n: number) => NumberArray)(rows * step);
  for (let i = 0, from = 0; i < position.length; i++)
    for (let k = 0, to = position[i]! * step; k < step; k++) out[to++]! += source[from++]!;
  // Complex values are already in their stored form.
  return fromArray(dtype === 'complex64' ? (out as Float32Array) : encode(out, dtype), dtype, size);
}

const toDenseOp = defineOp('toDense', each(ALL), ([input]) => {
  const { indices: rows, values: entries } = partsOf(input, 'toDense');
  const size = input.shape.slice(0, rows.shape[0]);
  const summed = segmentSum(entries, linearIndices(rows, size), sizeOf(size));
  const dense = over(summed.storage, input.dtype, input.shape);
  summed.release();
  return dense;
});

/** The dense form; a strided tensor comes back as a second handle. */
export function toDense<D extends DType>(t: Tensor<D>): Tensor<D> {
  if (t.sparse === undefined) return shareHandle(t);
  return apply(toDenseOp, [t], undefined) as Tensor<D>;
}

const toSparseOp = defineOp('toSparse', each(ALL), ([input]) => {
  const stored = readArray(input);
  const { lanes } = dtypes[input.dtype];
  const numbers = decode(stored, input.dtype);
  const at: number[] = [];
  for (let i = 0; i < input.size; i++) {
    if (numbers[i * lanes] !== 0 || (lanes === 2 && numbers[i * lanes + 1] !== 0)) at.push(i);
  }
  // As stored: a number in between would round int64.
  const picked = allocate(input.dtype, at.length);
  for (let k = 0; k < picked.length; k++) {
    picked[k] = stored[(at[Math.floor(k / lanes)] as number) * lanes + (k % lanes)] as never;
  }
  return sparseFromParts({
    indices: fromArray(unravel(Float64Array.from(at), input.shape), 'int64', [input.rank, at.length]),
    values: fromArray(picked, input.dtype, [at.length]),
    coalesced: true,
    shape: input.shape,
  });
});

/** The nonzero elements as a coalesced sparse tensor. */
export function toSparse(t: Tensor): Tensor {
  return t.sparse === undefined ? apply(toSparseOp, [t], undefined) : shareHandle(t);
}
