/** @file Decides what of a list of tensors travels: whole storages, once each, or copies of small views of large ones. */
import { Parameter, type Device, type Tensor } from '@backwire/tensor';
import { type Storage, readBytes } from '@backwire/tensor/internal';
import { RECOPY_STORAGE_BYTES } from '../limits.ts';
import { bufferPool } from '../bytes/buffer-pool.ts';
import { Positions } from '../bytes/positions.ts';
import { type TensorDescriptor, contiguousStrides, dtypeBytes } from './descriptor.ts';
import { OutgoingStorage, type Pinned, TensorPlan } from './table.ts';
import { converterOf } from './received-storages.ts';

export interface PlanOptions {
  /** Where the receiver should put a tensor; by default where it is. */
  readonly mapDevice?: ((device: Device) => Device) | undefined;
}

/** Owns copies: nothing has to be told when they are written. */
const NOBODY: Pinned = Object.freeze({ unpinIo: () => undefined });
const NO_OPTIONS: PlanOptions = Object.freeze({});

/**
 * Pins what must travel of `tensors`; whoever gets the plan writes it or releases it. The tensors may be disposed and changed in
 * place afterwards. Storages that tensors share travel once, so that views stay views of each other.
 *
 * The re-copy rule (torch's): of a storage of 8 KiB or more, a view that needs at most half takes only its own bytes along, everything
 * else the whole storage.
 * @throws DisposedError for a disposed tensor, with nothing pinned.
 */
export function planTensors(tensors: readonly Tensor[], options: PlanOptions = NO_OPTIONS): TensorPlan {
  const [only] = tensors;
  if (tensors.length === 1 && only !== undefined && travelsWhole(only)) return planOne(only, options);
  const planner = new Planner(options);
  try {
    const descriptors: TensorDescriptor[] = [];
    for (const tensor of tensors) descriptors.push(planner.tensor(tensor));
    return new TensorPlan(planner.storages, descriptors);
  } catch (error) {
    for (const storage of planner.storages) storage.release();
    throw error;
  }
}

/** Whether a tensor is neither sparse, nor on a device, nor a small view of much more. */
function travelsWhole(tensor: Tensor): boolean {
  return tensor.sparse === undefined && tensor.device === 'cpu' && !wantsCopy(tensor);
}

/** What a `Planner` would make of it, with a tenth of the garbage: most messages with tensors have one. */
function planOne(tensor: Tensor, { mapDevice }: PlanOptions): TensorPlan {
  const { storage, strides } = tensor;
  const device = mapDevice === undefined ? 'cpu' : mapDevice('cpu');
  // Before it is pinned: there may be no memory for a copy.
  const bytes = storage.hostBytes(bufferPool);
  storage.pinIo();
  const outgoing = new OutgoingStorage(0, bytes, storage, storage.escaped);
  return new TensorPlan([outgoing], [described(tensor, device, 0, strides, offsetOf(tensor))]);
}

/** One literal for every case: descriptors are on the path of every call with a tensor. */
function described(
  tensor: Tensor,
  device: Device,
  storage: number,
  strides: readonly number[],
  offset: number,
  sparse?: TensorDescriptor['sparse'],
): TensorDescriptor {
  const { dtype, shape, requiresGrad } = tensor;
  const parameter = tensor instanceof Parameter;
  return { dtype, shape, strides, offset, storage, requiresGrad, device, parameter, sparse };
}

/** Views without elements may begin beyond their storage, which readers refuse. */
function offsetOf(tensor: Tensor): number {
  return tensor.size === 0 ? 0 : tensor.offset;
}

/** Whether the re-copy rule sends only this view's own bytes instead of its storage. */
export function wantsCopy(tensor: Tensor): boolean {
  const { nbytes } = tensor.storage;
  if (nbytes < RECOPY_STORAGE_BYTES) return false;
  return nbytes >= 2 * tensor.size * (dtypeBytes(tensor.dtype) ?? 1);
}

class Planner {
  readonly storages: OutgoingStorage[] = [];
  /** Whose bytes each storage has; `NOBODY` for parts and copies, which are not shared. */
  private readonly known: object[] = [];
  private readonly positions = new Positions<object>();
  private readonly options: PlanOptions;

  constructor(options: PlanOptions) {
    this.options = options;
  }

  tensor(tensor: Tensor): TensorDescriptor {
    const { sparse } = tensor;
    const { mapDevice } = this.options;
    const device = mapDevice === undefined ? tensor.device : mapDevice(tensor.device);
    if (sparse !== undefined) {
      const parts = {
        indices: this.tensor(sparse.indices),
        values: this.tensor(sparse.values),
        coalesced: sparse.coalesced,
      };
      return described(tensor, device, -1, [], 0, parts);
    }
    if (tensor.device === 'cpu' && wantsCopy(tensor))
      return described(tensor, device, this.copy(tensor), contiguousStrides(tensor.shape), 0);
    return described(tensor, device, this.share(tensor), tensor.strides, offsetOf(tensor));
  }

  private share(tensor: Tensor): number {
    const { storage } = tensor;
    const index = this.positions.of(this.known, storage);
    return index >= 0 ? index : this.pin(tensor, storage);
  }

  /** Only the bytes of this view travel: in place where they lie together, else as a copy. */
  private copy(tensor: Tensor): number {
    const index = this.storages.length;
    if (tensor.isContiguous) {
      const { storage } = tensor;
      const width = dtypeBytes(tensor.dtype) ?? 1;
      const bytes = storage
        .hostBytes(bufferPool)
        .subarray(tensor.offset * width, (tensor.offset + tensor.size) * width);
      storage.pinIo();
      this.storages.push(new OutgoingStorage(index, bytes, storage, storage.escaped));
    } else {
      this.storages.push(new OutgoingStorage(index, readBytes(tensor), NOBODY, false));
    }
    this.known.push(NOBODY);
    return index;
  }

  private pin(tensor: Tensor, storage: Storage): number {
    const index = this.storages.length;
    if (tensor.device !== 'cpu') {
      const converter = converterOf(tensor.device);
      if (converter !== undefined) {
        const prepared = converter.prepareTensorForSending(tensor);
        if (prepared.bytes.length !== storage.nbytes) {
          prepared.release();
          throw new TypeError(
            `the converter for ${tensor.device} gave ${prepared.bytes.length} bytes of a storage of ${storage.nbytes}`,
          );
        }
        this.add(new OutgoingStorage(index, prepared.bytes, { unpinIo: () => prepared.release() }, false), storage);
        return index;
      }
    }
    const bytes = storage.hostBytes(bufferPool);
    storage.pinIo();
    this.add(new OutgoingStorage(index, bytes, storage, storage.escaped), storage);
    return index;
  }

  private add(outgoing: OutgoingStorage, storage: Storage): void {
    this.storages.push(outgoing);
    this.known.push(storage);
  }
}
