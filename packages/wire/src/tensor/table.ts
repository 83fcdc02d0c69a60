/** @file The tensors of one outgoing message: which storages travel, where, and who lets go of them when. */
import { bufferPool } from '../bytes/buffer-pool.ts';
import { type ByteWriter } from '../bytes/byte-writer.ts';
import { checkLimit } from '../errors.ts';
import { INLINE_MESSAGE_BYTES, INLINE_STORAGE_BYTES, type WireLimits } from '../limits.ts';
import { type TensorDescriptor } from './descriptor.ts';
import { writeStorage, writeTensor } from './table-codec.ts';

/** Who keeps the bytes of a storage in place until they are written. */
export interface Pinned {
  unpinIo(): void;
}

/** A storage that travels. Its bytes are pinned until `release`. */
export class OutgoingStorage implements OutgoingBody {
  /** Index in the message. */
  readonly storage: number;
  private current: Uint8Array;
  private owner: Pinned | undefined;
  private shared: boolean;

  /** `shared`: the program holds an alias of the bytes, through which it could change them under way. */
  constructor(storage: number, bytes: Uint8Array, owner: Pinned, shared: boolean) {
    this.storage = storage;
    this.current = bytes;
    this.owner = owner;
    this.shared = shared;
  }

  /** Stable until `release`, or until `secure` copies them. */
  get bytes(): Uint8Array {
    return this.current;
  }

  /** Copies bytes that the program could change through an alias; for storages that are not written at once. */
  secure(): void {
    const { owner } = this;
    if (!this.shared || owner === undefined) return;
    const copy = bufferPool.take(this.current.length);
    copy.set(this.current);
    owner.unpinIo();
    this.owner = { unpinIo: () => bufferPool.give(copy) };
    this.current = copy;
    this.shared = false;
  }

  /** Lets go of the bytes; harmless when repeated. */
  release(): void {
    const { owner } = this;
    this.owner = undefined;
    owner?.unpinIo();
  }
}

/** A storage that follows its frame out of band. */
export interface OutgoingBody {
  /** Index in the message. */
  readonly storage: number;
  readonly bytes: Uint8Array;
  /** To be called when the peer has all of it, or never will. Harmless when repeated. */
  release(): void;
}

/** What `planTensors` decided. Whoever holds a plan writes it with `endCall` or calls `release`. */
export class TensorPlan {
  readonly storages: readonly OutgoingStorage[];
  readonly tensors: readonly TensorDescriptor[];
  /** Set for storages that a channel carries: their bytes are in neither frame nor BODY frames. Index = storage. */
  channels: ReadonlyMap<number, { readonly channel: string; readonly locator: Uint8Array }> | undefined;

  constructor(storages: readonly OutgoingStorage[], tensors: readonly TensorDescriptor[]) {
    this.storages = storages;
    this.tensors = tensors;
  }

  get tensorCount(): number {
    return this.tensors.length;
  }

  /** Makes the plan safe to keep for later: see `OutgoingStorage.secure`. */
  secure(): void {
    for (const storage of this.storages) storage.secure();
  }

  /** Lets go of every storage. */
  release(): void {
    for (const storage of this.storages) storage.release();
  }
}

/** What `writeTensorPlan` put into the frame, and what is to follow. */
export interface WrittenPlan {
  readonly descriptorLength: number;
  readonly inlineLength: number;
  readonly bodies: readonly OutgoingBody[];
}

const NONE: readonly OutgoingBody[] = Object.freeze([]);

/**
 * Appends the tensor table and the inline storages, which are released here since their bytes are copied; the others come back as
 * bodies, or stay with the plan when a channel carries them.
 * @throws WireError 'limit', with nothing released.
 */
export function writeTensorPlan(out: ByteWriter, plan: TensorPlan, limits: WireLimits): WrittenPlan {
  const { storages, tensors } = plan;
  checkLimit('tensors', tensors.length, limits.maxTensors);
  checkLimit('storages', storages.length, limits.maxTensors);
  let total = 0;
  for (let i = 0; i < storages.length; i++) total += (storages[i] as OutgoingStorage).bytes.length;
  checkLimit('message', total, limits.maxMessageBytes);

  const before = out.pos - out.start;
  let bodies: OutgoingBody[] | undefined;
  let inline = 0;
  for (let i = 0; i < storages.length; i++) {
    const storage = storages[i] as OutgoingStorage;
    const nbytes = storage.bytes.length;
    const via = plan.channels?.get(i);
    if (via !== undefined) {
      writeStorage(out, { nbytes, placement: 'channel', channel: via.channel, locator: via.locator });
    } else if (isInline(nbytes, inline)) {
      inline += nbytes;
      writeStorage(out, { nbytes, placement: 'inline' });
    } else {
      storage.secure();
      (bodies ??= []).push(storage);
      writeStorage(out, { nbytes, placement: 'body' });
    }
  }
  for (let i = 0; i < tensors.length; i++) writeTensor(out, tensors[i] as TensorDescriptor);
  const descriptorLength = out.pos - out.start - before;
  let copied = 0;
  for (let i = 0; i < storages.length; i++) {
    const storage = storages[i] as OutgoingStorage;
    const nbytes = storage.bytes.length;
    if (plan.channels?.has(i) === true || !isInline(nbytes, copied)) continue;
    out.raw(storage.bytes);
    copied += nbytes;
    storage.release();
  }
  return { descriptorLength, inlineLength: inline, bodies: bodies ?? NONE };
}

/** Whether a storage of `nbytes` still fits behind `before` inline bytes. */
function isInline(nbytes: number, before: number): boolean {
  return nbytes <= INLINE_STORAGE_BYTES && before + nbytes <= INLINE_MESSAGE_BYTES;
}
