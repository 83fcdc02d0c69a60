/** @file Memory that an operation in place writes and reads: PyTorch's rules of what may overlap. */
import { ShapeError } from '../errors.ts';
import { dtypes } from '../dtype.ts';
import { sameShape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';

/** Throws where two elements of `t` are one place in memory. */
export function checkDistinct(t: Tensor): void {
  const { shape, strides } = t;
  for (let i = 0; i < strides.length; i++) {
    if (strides[i] !== 0 || (shape[i] as number) < 2 || t.size === 0) continue;
    throw new ShapeError(
      'unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.',
    );
  }
}

/** Throws where `source` is read from part of the memory that `target` is written to. The same elements in the same order are fine. */
export function checkOverlap(target: Tensor, source: Tensor): void {
  if (source.sparse !== undefined || target.storage !== source.storage || target.size === 0 || source.size === 0)
    return;
  // As in PyTorch, tensors with gaps are taken to lie between each other's elements; what is read is copied before it is written to.
  if (!isDense(target) || !isDense(source)) return;
  const width = dtypes[target.dtype].bytes;
  const [from, to] = [target.offset * width, (target.offset + target.size) * width];
  const other = dtypes[source.dtype].bytes;
  const [first, end] = [source.offset * other, (source.offset + source.size) * other];
  if (first >= to || from >= end) return;
  if (from === first && to === end && sameShape(target.strides, source.strides)) return;
  throw new ShapeError(
    'unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. Please clone() the tensor before performing the operation.',
  );
}

/** The bytes of its storage between which the elements of `t` lie, some of others among them perhaps. A sparse tensor has none. */
export function spanOf(t: Tensor): { readonly from: number; readonly end: number } {
  const width = dtypes[t.dtype].bytes;
  const from = t.offset * width;
  if (t.size === 0 || t.sparse !== undefined) return { from, end: from };
  const last = t.shape.reduce((sum, n, i) => sum + (n - 1) * (t.strides[i] as number), t.offset);
  return { from, end: (last + 1) * width };
}

/** Whether the elements fill their memory, in any order of the dimensions. */
function isDense(t: Tensor): boolean {
  if (t.isContiguous) return true;
  const dims = t.shape.map((_, i) => i).filter((i) => t.shape[i] !== 1);
  dims.sort((a, b) => (t.strides[a] as number) - (t.strides[b] as number));
  let step = 1;
  for (const d of dims) {
    if (t.strides[d] !== step) return false;
    step *= t.shape[d] as number;
  }
  return true;
}
