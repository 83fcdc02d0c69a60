/** @file How many bytes of tensors a message carries, told without pinning any of them. */
import type { Tensor } from '@backwire/tensor';
import type { Storage } from '@backwire/tensor/internal';
import { dtypeBytes } from './descriptor.ts';
import { wantsCopy } from './plan.ts';

/**
 * The bytes that `planTensors` would send of `tensors`: of a small view of a large storage those of the view, of everything else whole
 * storages, which count once however many tensors share them; of a sparse tensor those of its indices and values.
 */
export function travellingBytes(tensors: readonly Tensor[]): number {
  const whole = new Set<Storage>();
  let views = 0;
  const take = (tensor: Tensor): void => {
    const { sparse } = tensor;
    if (sparse !== undefined) {
      take(sparse.indices);
      take(sparse.values);
    } else if (tensor.device === 'cpu' && wantsCopy(tensor)) views += tensor.size * (dtypeBytes(tensor.dtype) ?? 1);
    else whole.add(tensor.storage);
  };
  tensors.forEach(take);
  for (const { nbytes } of whole) views += nbytes;
  return views;
}
