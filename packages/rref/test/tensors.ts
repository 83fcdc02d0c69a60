/** @file The sparse tensor of PyTorch's RPC tests, and what is compared of one. */
import { shown } from '@backwire/testing';
import { sparseCooTensor, tensor, type Tensor } from '@backwire/tensor';

/** int64 [2, 3], not coalesced. */
export function sparse(): Tensor {
  const rows = tensor([[0, 1, 1], [2, 0, 2]], { dtype: 'int64' }); // prettier-ignore
  return sparseCooTensor(rows, tensor([3, 4, 5], { dtype: 'int64' }), [2, 3]);
}

/** All that makes two tensors equal; of a sparse one also whether it is coalesced. */
export function whole(t: Tensor): unknown {
  return t.layout === 'sparse_coo' ? [shown(t), t.isCoalesced] : shown(t);
}
