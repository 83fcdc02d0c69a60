/** @file Reads a dense tensor at sparse indices. */
import { apply } from '../op.ts';
import { ALL, each } from '../takes.ts';
import { defineOp } from '../define.ts';
import { dtypes } from '../../dtype.ts';
import { over, readBytes } from '../../host.ts';
import { Storage } from '../../storage.ts';
import { sizeOf } from '../../shape.ts';
import type { Tensor } from '../../tensor.ts';
import { heldIndices } from './coo.ts';
import { linearIndices } from './plan.ts';

const gatherOp = defineOp<{ indices: Tensor<'int64'> }>('gatherRows', each(ALL), ([dense], { indices }) => {
  const sparseDims = indices.shape[0] as number;
  const tail = dense.shape.slice(sparseDims);
  const width = sizeOf(tail) * dtypes[dense.dtype].bytes;
  const linear = linearIndices(indices, dense.shape.slice(0, sparseDims));
  const source = readBytes(dense);
  const out = new Uint8Array(linear.length * width);
  linear.forEach((row, i) => out.set(source.subarray(row * width, (row + 1) * width), i * width));
  return over(new Storage(out), dense.dtype, [linear.length, ...tail]);
});

/** The rows of `dense` at `indices` [sparseDims, nnz]: [nnz, ...rest]. */
export function gatherRows(dense: Tensor, indices: Tensor<'int64'>): Tensor {
  return apply(gatherOp, [dense], { indices: heldIndices(indices) });
}
