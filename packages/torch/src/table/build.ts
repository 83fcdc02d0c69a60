/** @file Makes tensors of a table that was read and of the storages that came. */
import type { Tensor } from '@backwire/tensor';
import type { StorageOptions } from '@backwire/tensor/internal';
import { buildTensors } from '@backwire/wire/internal';
import { OpaqueTensor, type TensorLike } from '../values/opaque-tensor.ts';
import type { TableEntry } from './entries.ts';
import { resolved } from './parts.ts';

/**
 * The tensors of `entries` over `storages`, which have the sizes that the table was read with. The caller owns them; `optionsFor` says
 * what becomes of a storage's memory when its last tensor is gone. Conjugated and negated views are computed.
 * @throws WireError 'decode-error' for sparse indices outside of their shape, with nothing made.
 */
export function buildEntries(
  entries: readonly TableEntry[],
  storages: readonly Uint8Array[],
  optionsFor: (nbytes: number) => StorageOptions = () => ({}),
): TensorLike[] {
  const descriptors = entries.map(({ descriptor, conjugate, negative }) =>
    conjugate || negative ? { ...descriptor, requiresGrad: false } : descriptor,
  );
  const tensors = buildTensors(descriptors, storages, optionsFor);
  return entries.map((entry, i) => finished(entry, tensors[i] as Tensor));
}

function finished(entry: TableEntry, tensor: Tensor): TensorLike {
  const { opaque, conjugate, negative, requiresGrad } = entry;
  if (opaque !== undefined) return new OpaqueTensor(opaque.name, tensor as Tensor<'uint8'>, requiresGrad);
  if (!conjugate && !negative) return tensor;
  const computed = resolved(tensor, entry);
  if (requiresGrad) computed.requiresGrad = true;
  return computed;
}
