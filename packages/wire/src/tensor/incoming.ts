/** @file The receiver's memory for the tensors of one message, until they are complete and become tensors. */
import { type Device, type Tensor } from '@backwire/tensor';
import { type BufferPool, bufferPool } from '../bytes/buffer-pool.ts';
import { buildTensors } from './build.ts';
import { decodeError } from '../errors.ts';
import { FIRST_BODY_BYTES, LARGE_BODY_PART, WHOLE_BODY_BYTES } from '../limits.ts';
import { isPooled, receiveMemory, storageDevices } from './received-storages.ts';
import { type StorageDescriptor, type TensorTable } from './descriptor.ts';

/**
 * States: *open* (memory is being filled), then *taken* (`tensors()` made tensors of it) or *released*. While a part of it is landing
 * (`pin`), a release waits for the last `unpin`: the connection may still write there.
 */
export class IncomingTensors {
  readonly table: TensorTable;
  private readonly pool: BufferPool;
  private readonly memory: (Uint8Array | undefined)[];
  private readonly devices: readonly (Device | undefined)[] | undefined;
  private landing = 0;
  private state: 'open' | 'taken' | 'released' = 'open';

  /**
   * Copies the inline storages out of `bytes[start, end)`. Memory for those that come out of band is taken as they come; a device's,
   * which its converter gives as a whole, at once.
   * @param table has passed `checkTensorTable`.
   * @throws WireError 'decode-error', with no memory taken.
   */
  constructor(table: TensorTable, bytes: Uint8Array, start: number, end: number, pool: BufferPool = bufferPool) {
    const { storages } = table;
    checkInline(storages, end - start);
    this.devices = storageDevices(table.tensors);
    this.table = table;
    this.pool = pool;
    this.memory = new Array<Uint8Array | undefined>(storages.length);
    let at = start;
    for (let i = 0; i < storages.length; i++) {
      const { nbytes, placement } = storages[i] as StorageDescriptor;
      // What is only announced takes nothing yet.
      if (placement !== 'inline' && nbytes > 0 && this.isPooledAt(i)) continue;
      const memory = this.devices === undefined ? pool.take(nbytes) : this.room(i, nbytes);
      this.memory[i] = memory;
      if (placement !== 'inline') continue;
      copyInto(memory, bytes, at, nbytes);
      at += nbytes;
    }
  }

  /** Memory for one storage of a message with devices; where a converter fails, what the others got goes back. */
  private room(storage: number, nbytes: number): Uint8Array {
    try {
      return receiveMemory(nbytes, this.devices?.[storage], this.pool);
    } catch (error) {
      this.release();
      throw error;
    }
  }

  /** Bytes that come out of band. */
  get bodyBytes(): number {
    let total = 0;
    for (const { nbytes, placement } of this.table.storages) if (placement !== 'inline') total += nbytes;
    return total;
  }

  /** Indices of the storages that come out of band, in order. */
  outOfBand(): number[] {
    return this.table.storages.flatMap(({ placement, nbytes }, i) =>
      placement === 'inline' || nbytes === 0 ? [] : [i],
    );
  }

  /** Bytes of one storage, here or not. */
  bytesOf(storage: number): number {
    return this.table.storages[storage]?.nbytes ?? 0;
  }

  /**
   * Where the next bytes of a storage go, from `offset` on, those before being there. Memory is taken as they come: a warm buffer of the
   * pool at once, of fresh memory first a part. Throws 'decode-error' for a storage that is not there or no longer ours.
   */
  place(storage: number, offset: number, length: number): Uint8Array {
    const descriptor = this.state === 'open' ? this.table.storages[storage] : undefined;
    if (descriptor === undefined || offset + length > descriptor.nbytes)
      throw decodeError(`no memory for storage ${storage}`);
    const { nbytes } = descriptor;
    let memory = this.memory[storage];
    if (memory === undefined || memory.length < offset + length) {
      memory = this.grow(memory, offset, nbytes, offset + length);
      this.memory[storage] = memory;
    }
    return memory.subarray(offset, offset + length);
  }

  /** `got` bytes of a storage are in `small`; it gets room for `least`. */
  private grow(small: Uint8Array | undefined, got: number, nbytes: number, least: number): Uint8Array {
    const { pool } = this;
    const memory = pool.take(pool.has(nbytes) ? nbytes : Math.max(least, nextRoom(nbytes, small?.length ?? 0)));
    if (small === undefined) return memory;
    memory.set(small.subarray(0, got));
    pool.give(small);
    return memory;
  }

  private isPooledAt(storage: number): boolean {
    return this.devices === undefined || isPooled(this.devices[storage]);
  }

  /** Bytes are about to land in it. */
  pin(): void {
    this.landing++;
  }

  /** They have landed, or never will. */
  unpin(): void {
    this.landing--;
    if (this.landing === 0 && this.state === 'released') this.giveBack();
  }

  /**
   * The tensors, over the received memory; it returns to the pool when the last of them is gone and no alias was handed out. To be
   * called once, when every out-of-band storage is complete. The caller owns the tensors.
   * @throws WireError 'decode-error' for sparse indices outside their shape; the memory is still to be released then.
   */
  tensors(): Tensor[] {
    if (this.state !== 'open') throw new Error(`invariant: the tensors of a message are ${this.state}`);
    const { pool, table, memory } = this;
    for (let i = 0; i < memory.length; i++) memory[i] ??= pool.take(this.bytesOf(i));
    const tensors = buildTensors(
      table.tensors,
      memory as Uint8Array[],
      (nbytes) => pool.optionsFor(nbytes),
      this.devices,
    );
    this.state = 'taken';
    memory.length = 0;
    return tensors;
  }

  /** Gives the memory back unused. Harmless when repeated, and after `tensors`. */
  release(): void {
    if (this.state !== 'open') return;
    this.state = 'released';
    if (this.landing === 0) this.giveBack();
  }

  private giveBack(): void {
    this.memory.splice(0).forEach((memory, i) => {
      if (memory !== undefined && isPooled(this.devices?.[i])) this.pool.give(memory);
    });
  }
}

/** How much of a storage's memory is taken when the `had` bytes of it are full. */
function nextRoom(nbytes: number, had: number): number {
  if (had === 0) return Math.min(nbytes, FIRST_BODY_BYTES);
  const part = Math.ceil(nbytes * LARGE_BODY_PART);
  return nbytes <= WHOLE_BODY_BYTES || had >= part ? nbytes : part;
}

/** Up to this many bytes a loop beats a view and a call into the engine. */
const LOOP_BYTES = 64;

function copyInto(memory: Uint8Array, bytes: Uint8Array, at: number, count: number): void {
  if (count > LOOP_BYTES) memory.set(bytes.subarray(at, at + count));
  else for (let i = 0; i < count; i++) memory[i] = bytes[at + i] as number;
}

function checkInline(storages: readonly StorageDescriptor[], length: number): void {
  let inline = 0;
  for (const { nbytes, placement } of storages) if (placement === 'inline') inline += nbytes;
  if (inline !== length) throw decodeError(`${length} bytes of inline storages instead of ${inline}`);
}
