/** @file Sparse tensors as three plain parts, for functions that take or give them apart themselves. */
import { sparseCooTensor, Tensor } from '@backwire/tensor';

/**
 * `[indices, values, shape]` of a sparse tensor: indices int64 [sparse dimensions, nonzeros], values [nonzeros, …dense dimensions].
 * Entries of equal indices are one entry, as `coalesce()` makes them. The parts of a tensor that is coalesced share its memory. They are
 * the caller's to dispose.
 * @throws TypeError for a tensor that is not sparse.
 */
export function sparseTensorToRpcFormat(t: Tensor): [Tensor, Tensor, readonly number[]] {
  if ((t as Tensor | null | undefined)?.layout !== 'sparse_coo')
    throw new TypeError('sparseTensorToRpcFormat needs a sparse tensor');
  const tidy = t.coalesce();
  try {
    return [tidy.indices(), tidy.values(), tidy.shape];
  } finally {
    tidy.dispose();
  }
}

/**
 * The sparse tensor that `sparseTensorToRpcFormat` took apart, coalesced whatever the order and number of its entries.
 * @throws when the parts do not fit each other.
 */
export function sparseRpcFormatToTensor(parts: readonly [Tensor, Tensor, readonly number[]]): Tensor {
  if (!Array.isArray(parts) || !(parts[0] instanceof Tensor && parts[1] instanceof Tensor && Array.isArray(parts[2])))
    throw new TypeError('sparseRpcFormatToTensor takes [indices, values, shape]: two tensors and a list of sizes');
  const [indices, values, shape] = parts;
  const raw = sparseCooTensor(indices, values, shape);
  try {
    return raw.coalesce();
  } finally {
    raw.dispose();
  }
}
