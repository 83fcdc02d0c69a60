/** @file The tensors of PyTorch's RPC tests, and the work that they do with them. */
import { shown } from '@backwire/testing';
import { sparseCooTensor, tensor, type Tensor } from '@backwire/tensor';

/** int64 [2, 3] of three entries, not coalesced. */
export function sparse(): Tensor {
  const rows = tensor([[0, 1, 1], [2, 0, 2]], { dtype: 'int64' }); // prettier-ignore
  return sparseCooTensor(rows, tensor([3, 4, 5], { dtype: 'int64' }), [2, 3]);
}

/** Float32 [4] in which two entries share an index. */
export function repeated(): Tensor {
  return sparseCooTensor(tensor([[2, 2, 0]], { dtype: 'int64' }), tensor([1, 3, 5]), [4]);
}

/** What makes two tensors the same; of sparse ones the entries too, in their order and with those that repeat an index. */
export function exactly(t: Tensor): unknown {
  const { sparse: entries } = t;
  if (entries === undefined) return shown(t);
  const { coalesced, indices, values } = entries;
  return { sum: shown(t), coalesced, indices: shown(indices), values: shown(values) };
}

/** The work that PyTorch's tests of load do: 99 multiplications and divisions in place, but for the divisions of a sparse tensor. */
export function workedOn(x: Tensor): Tensor {
  let y = x;
  for (let i = 1; i < 100; i++) y = y.layout === 'sparse_coo' ? y.mul_(i).div(i + 1) : y.mul_(i).div_(i + 1);
  return y;
}
