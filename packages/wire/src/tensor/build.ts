/** @file Makes tensors of received memory, after the last check that needs the bytes themselves. */
import { type Device, type DType, Tensor } from '@backwire/tensor';
import { type Storage, type StorageOptions, sparseFromParts, tensorFromParts } from '@backwire/tensor/internal';
import { decodeError } from '../errors.ts';
import { storageOn } from './received-storages.ts';
import { type TensorDescriptor } from './descriptor.ts';

/**
 * The tensors that checked descriptors describe, over `memory`, one storage an entry. The caller owns them; `optionsFor` says what
 * becomes of a storage's memory when its last tensor is gone, `devices` where each belongs.
 * @throws WireError 'decode-error' for sparse indices outside their shape, with nothing made.
 */
export function buildTensors(
  descriptors: readonly TensorDescriptor[],
  memory: readonly Uint8Array[],
  optionsFor: (nbytes: number) => StorageOptions,
  devices?: readonly (Device | undefined)[],
): Tensor[] {
  for (const { sparse, shape } of descriptors) if (sparse !== undefined) checkIndices(sparse.indices, shape, memory);
  // Of their final length: an array that grows takes room for seventeen.
  const storages = new Array<Storage>(memory.length);
  for (let i = 0; i < memory.length; i++) {
    const bytes = memory[i] as Uint8Array;
    storages[i] = storageOn(bytes, devices?.[i], optionsFor(bytes.length));
  }
  const tensors = new Array<Tensor>(descriptors.length);
  for (let i = 0; i < descriptors.length; i++) tensors[i] = buildTensor(descriptors[i] as TensorDescriptor, storages);
  return tensors;
}

function buildTensor(descriptor: TensorDescriptor, storages: readonly Storage[]): Tensor {
  const { sparse, requiresGrad } = descriptor;
  // Copies: other messages may have the same table.
  const shape = descriptor.shape.slice();
  const strides = descriptor.strides.slice();
  if (sparse !== undefined) {
    const indices = buildTensor(sparse.indices, storages) as Tensor<'int64'>;
    const values = buildTensor(sparse.values, storages);
    const tensor = sparseFromParts({ indices, values, shape, coalesced: sparse.coalesced, requiresGrad });
    indices.release();
    values.release();
    return tensor;
  }
  const storage = storages[descriptor.storage] as Storage;
  const dtype = descriptor.dtype as DType;
  // The table is checked: no second check on the path of every call with a tensor. Only bytes that are to be read as bool may hold
  // what no kernel expects.
  if (!requiresGrad && descriptor.parameter !== true && dtype !== 'bool')
    return new Tensor({ storage, dtype, shape, strides, offset: descriptor.offset });
  return tensorFromParts({
    storage,
    dtype,
    shape,
    strides,
    offset: descriptor.offset,
    requiresGrad,
    parameter: descriptor.parameter ?? false,
  });
}

/** Every index must lie inside the shape: kernels do not check them again. */
function checkIndices(indices: TensorDescriptor, shape: readonly number[], memory: readonly Uint8Array[]): void {
  const [dims = 0, count = 0] = indices.shape;
  const [down = 0, along = 0] = indices.strides;
  if (count === 0) return;
  let bytes = memory[indices.storage] as Uint8Array;
  if (bytes.byteOffset % 4 !== 0) bytes = new Uint8Array(bytes);
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >>> 2);
  // With a stride of zero one number stands for any count of them, of which the sender paid for one.
  const distinct = along === 0 ? 1 : count;
  for (let d = 0; d < dims; d++) {
    const size = shape[d] as number;
    let at = (indices.offset + d * down) * 2;
    for (let i = 0; i < distinct; i++, at += along * 2) {
      const value = (words[at + 1] as number) * 0x1_0000_0000 + (words[at] as number);
      if (value >= size) throw decodeError(`a sparse index is outside dimension ${d} of size ${size}`);
    }
  }
}
