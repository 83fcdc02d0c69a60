/** @file Messages and their three stages: what the sender has to write, the memory the receiver makes for it, the message again. */
import { type Tensor } from '@backwire/tensor';
import { bufferPool } from '../bytes/buffer-pool.ts';
import { buildTensors } from '../tensor/build.ts';
import { checkLimit, decodeError } from '../errors.ts';
import { DEFAULT_WIRE_LIMITS } from '../limits.ts';
import { type MessageType } from './message-type.ts';
import { isPooled, receiveMemory, storageDevices } from '../tensor/received-storages.ts';
import { checkTensorTable } from '../tensor/checks.ts';
import { type TensorDescriptor } from '../tensor/descriptor.ts';
import { planTensors } from '../tensor/plan.ts';

/** One request or response. Immutable: retries send the same bytes. */
export interface Message {
  readonly type: MessageType;
  /** -1 until the sending agent assigns one; a response copies its request's. */
  readonly id: bigint;
  readonly payload: Uint8Array;
  readonly tensors: readonly Tensor[];
}

/** A message without its bytes: what the receiver needs to make room for them. */
export interface Descriptor {
  readonly type: MessageType;
  readonly id: bigint;
  readonly payloadBytes: number;
  readonly storageBytes: readonly number[];
  readonly tensors: readonly TensorDescriptor[];
}

/** `buffers[0]` is the payload, then the storages in order. They are pinned until release(), which must be called exactly once, when the last byte is written. */
export interface WriteBuffers {
  readonly descriptor: Descriptor;
  readonly buffers: readonly Uint8Array[];
  release(): void;
}

/** The receiver's memory for one message; release() returns it unused. */
export interface Allocation {
  readonly payload: Uint8Array;
  readonly storages: readonly Uint8Array[];
  release(): void;
}

/**
 * The first stage. Storages that tensors share are listed once; small views of large storages are copied (the re-copy rule), and so
 * is memory that the program could change through an alias. The tensors may be disposed afterwards.
 */
export function serializeMessage(message: Message): WriteBuffers {
  const plan = planTensors(message.tensors);
  plan.secure();
  const storages = plan.storages.map((storage) => storage.bytes);
  const descriptor: Descriptor = {
    type: message.type,
    id: message.id,
    payloadBytes: message.payload.length,
    storageBytes: storages.map((bytes) => bytes.length),
    tensors: plan.tensors,
  };
  return { descriptor, buffers: [message.payload, ...storages], release: () => plan.release() };
}

interface TrackedAllocation extends Allocation {
  /** Throws when the memory has gone elsewhere. */
  checkOpen(): void;
  /** Hands the memory to the message that is made of it. */
  take(): void;
}

/**
 * The second stage: memory for the payload and every storage, from the pool.
 * @throws WireError 'limit' or 'decode-error' before anything is allocated, when the descriptor is not one of a possible message.
 */
export function allocate(descriptor: Descriptor): Allocation {
  checkDescriptor(descriptor);
  const payload = new Uint8Array(descriptor.payloadBytes);
  const devices = storageDevices(descriptor.tensors);
  const storages = descriptor.storageBytes.map((nbytes, i) => receiveMemory(nbytes, devices?.[i], bufferPool));
  let open = true;
  const allocation: TrackedAllocation = {
    payload,
    storages,
    checkOpen() {
      if (!open) throw new Error('invariant: an allocation was used twice');
    },
    take() {
      open = false;
    },
    release() {
      if (!open) return;
      open = false;
      storages.forEach((storage, i) => {
        if (isPooled(devices?.[i])) bufferPool.give(storage);
      });
    },
  };
  return allocation;
}

/**
 * The third stage, once every byte is there. The allocation belongs to the message from then on; its tensors are the caller's.
 * @throws WireError when the allocation is not one for this descriptor; the allocation stays the caller's.
 */
export function deserializeMessage(descriptor: Descriptor, allocation: Allocation): Message {
  checkDescriptor(descriptor);
  const { storages, payload } = allocation;
  if (payload.length !== descriptor.payloadBytes || storages.length !== descriptor.storageBytes.length)
    throw decodeError('an allocation of another message');
  descriptor.storageBytes.forEach((nbytes, i) => {
    if (storages[i]?.length !== nbytes) throw decodeError(`storage ${i} has another size than described`);
  });
  const tracked = allocation as Partial<TrackedAllocation>;
  tracked.checkOpen?.();
  const devices = storageDevices(descriptor.tensors);
  const tensors = buildTensors(descriptor.tensors, storages, (nbytes) => bufferPool.optionsFor(nbytes), devices);
  tracked.take?.();
  return { type: descriptor.type, id: descriptor.id, payload, tensors };
}

function checkDescriptor(descriptor: Descriptor): void {
  const limits = DEFAULT_WIRE_LIMITS;
  checkLimit('payload', descriptor.payloadBytes, limits.maxFrameBytes);
  checkLimit('tensors', descriptor.tensors.length, limits.maxTensors);
  checkLimit('storages', descriptor.storageBytes.length, limits.maxTensors);
  for (const size of [descriptor.payloadBytes, ...descriptor.storageBytes])
    if (!Number.isSafeInteger(size) || size < 0) throw decodeError(`${size} is no size`);
  const storages = descriptor.storageBytes.map((nbytes) => ({ nbytes, placement: 'body' as const }));
  checkTensorTable({ storages, tensors: descriptor.tensors }, limits);
}
