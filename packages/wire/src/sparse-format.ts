/** @file Sparse tensors as three plain parts, for functions that take or give them apart themselves. */
import { type Tensor, sparseCooTensor } from '@backwire/tensor';

/**
 * `[indices, values, shape]` of a sparse tensor: indices int64 [sparse dimensions, nonzeros], values [nonzeros, …dense dimensions].
 * The parts share the tensor's memory and are the caller's to dispose.
 * @throws TypeError for a tensor that is not sparse.
 */
export function sparseTensorToRpcFormat(t: Tensor): [Tensor, Tensor, readonly number[]] {
  if (t.layout !== 'sparse_coo') throw new TypeError('sparseTensorToRpcFormat needs a sparse tensor');
  const parts = t.sparse;
  if (parts === undefined) throw new TypeError('sparseTensorToRpcFormat needs a sparse tensor');
  return [parts.indices.alias(), parts.values.alias(), t.shape];
}

/** The sparse tensor that `sparseTensorToRpcFormat` took apart. @throws when the parts do not fit each other. */
export function sparseRpcFormatToTensor(parts: readonly [Tensor, Tensor, readonly number[]]): Tensor {
  const [indices, values, shape] = parts;
  return sparseCooTensor(indices, values, shape);
}
