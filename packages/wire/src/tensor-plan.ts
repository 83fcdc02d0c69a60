/** @file Decides what of a list of tensors travels: whole storages, once each, or copies of small views of large ones. */
import { Parameter, type Device, type Tensor } from '@backwire/tensor';
import { RECOPY_STORAGE_BYTES } from './limits.ts';
import { type TensorDescriptor, contiguousStrides, dtypeBytes } from './tensor-descriptor.ts';
import { OutgoingStorage, TensorPlan } from './tensor-table.ts';
import { getDeviceTypeConverter } from './device-converters.ts';

export interface PlanOptions {
  /** Where the receiver should put a tensor; by default where it is. */
  readonly mapDevice?: ((device: Device) => Device) | undefined;
}

type Storage = Tensor['storage'] & {
  readonly escaped: boolean;
  hostBytes(): Uint8Array;
  pinIo(): void;
  unpinIo(): void;
};

/**
 * Pins what must travel of `tensors`; whoever gets the plan writes it or releases it. The tensors may be disposed and changed in
 * place afterwards. Storages that tensors share travel once, so that views stay views of each other.
 *
 * The re-copy rule (torch's): a view of a storage of 8 KiB or more that needs at most half of it is copied, everything else takes its
 * whole storage along.
 * @throws DisposedError for a disposed tensor, with nothing pinned.
 */
export function planTensors(tensors: readonly Tensor[], options: PlanOptions = {}): TensorPlan {
  const planner = new Planner(options);
  try {
    const descriptors = tensors.map((tensor) => planner.tensor(tensor));
    return new TensorPlan(planner.storages, descriptors);
  } catch (error) {
    for (const storage of planner.storages) storage.release();
    throw error;
  }
}

/** Whether the re-copy rule copies this tensor instead of sending its storage. */
export function wantsCopy(tensor: Tensor): boolean {
  const { nbytes } = tensor.storage;
  return nbytes >= RECOPY_STORAGE_BYTES && nbytes >= 2 * tensor.size * (dtypeBytes(tensor.dtype) ?? 1);
}

class Planner {
  readonly storages: OutgoingStorage[] = [];
  private readonly known: Storage[] = [];
  private readonly options: PlanOptions;

  constructor(options: PlanOptions) {
    this.options = options;
  }

  tensor(tensor: Tensor): TensorDescriptor {
    const { dtype, shape, requiresGrad } = tensor;
    const device = this.options.mapDevice?.(tensor.device) ?? tensor.device;
    const { sparse } = tensor;
    if (sparse !== undefined) {
      const indices = this.tensor(sparse.indices);
      const values = this.tensor(sparse.values);
      return {
        dtype,
        shape,
        strides: [],
        offset: 0,
        storage: -1,
        requiresGrad,
        device,
        sparse: { indices, values, coalesced: sparse.coalesced },
      };
    }
    const base = { dtype, shape, requiresGrad, device, parameter: tensor instanceof Parameter };
    if (wantsCopy(tensor)) return { ...base, strides: contiguousStrides(shape), offset: 0, storage: this.copy(tensor) };
    return { ...base, strides: tensor.strides, offset: tensor.offset, storage: this.share(tensor) };
  }

  private share(tensor: Tensor): number {
    const storage = tensor.storage as Storage;
    const index = this.known.indexOf(storage);
    if (index >= 0) return index;
    return this.pin(tensor, storage);
  }

  private copy(tensor: Tensor): number {
    const handle = tensor.detach();
    try {
      const clone = handle.clone();
      try {
        return this.pin(clone, clone.storage as Storage);
      } finally {
        clone.dispose();
      }
    } finally {
      handle.dispose();
    }
  }

  private pin(tensor: Tensor, storage: Storage): number {
    const converter =
      tensor.device === 'cpu' ? undefined : getDeviceTypeConverter(tensor.device.slice(0, tensor.device.indexOf(':')));
    if (converter !== undefined) {
      const { bytes, release } = converter.prepareTensorForSending(tensor);
      this.storages.push(new OutgoingStorage(bytes, release));
    } else {
      storage.pinIo();
      this.storages.push(new OutgoingStorage(storage.hostBytes(), () => storage.unpinIo(), storage.escaped));
    }
    this.known.push(storage);
    return this.storages.length - 1;
  }
}

/** Whether reading the bytes of one of these would have to wait for a device: `await hostTensors(tensors)` first. */
export function needsHost(tensors: readonly Tensor[]): boolean {
  return tensors.some(
    (tensor) => !(tensor.storage as Storage & { readonly onHost: boolean }).onHost && tensor.device !== 'cpu',
  );
}

/** Brings the bytes of every tensor to the host. */
export async function hostTensors(tensors: readonly Tensor[]): Promise<void> {
  for (const tensor of tensors) await (tensor.storage as Storage & { toHost(): Promise<Uint8Array> }).toHost();
}
