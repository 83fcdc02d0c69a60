/** @file Bytes shared by the tensors that view them: on the host, on the device, or on both. */
import type { Backend, DeviceBuffer, DeviceDType } from './backends/backend.ts';
import { forgetDevice, trackDevice, touchedDevice, type Cell, type Ticket } from './device-memory.ts';
import { runAtRoot } from './ambient.ts';
import type { DType, TypedArrays } from './dtype.ts';
import { noteElsewhere, type Device } from './device.ts';
import { DisposedError, InvariantError } from './errors.ts';

/** Numbers of one dtype as they are computed. */
export type HostArray = TypedArrays[DType];

export interface StorageOptions {
  /** Called with the host bytes once nothing can reach them; never for memory that an alias escaped from. */
  readonly onFree?: ((bytes: Uint8Array) => void) | undefined;
}

/** Memory that is used again and again. */
export interface HostPool {
  take(nbytes: number): Uint8Array;
  /** Takes back what `take` gave and nothing can reach. */
  give(bytes: Uint8Array): void;
}

/** A cell with memory on the host or the device. */
class Memory implements Cell {
  readonly nbytes: number;
  device: DeviceBuffer | undefined;
  backend: Backend | undefined;
  ioRefs = 0;
  escaped = false;
  onFree: ((bytes: Uint8Array) => void) | undefined;
  orphans: (() => void)[] | undefined = undefined;
  freed = false;
  registered = false;
  readonly ticket: Ticket;
  /** What the host memory was made as, while it is that. */
  array: HostArray | undefined;
  /** Its bytes, once somebody asked: until then a small array has no buffer, which costs more to make than what most tensors compute. */
  private bytes: Uint8Array | undefined = undefined;

  constructor(
    memory: HostArray | { device: DeviceBuffer; backend: Backend },
    onFree: ((bytes: Uint8Array) => void) | undefined,
  ) {
    const onHost = ArrayBuffer.isView(memory);
    this.nbytes = onHost ? memory.byteLength : memory.device.nbytes;
    this.array = onHost ? memory : undefined;
    this.device = onHost ? undefined : memory.device;
    this.backend = onHost ? undefined : memory.backend;
    this.onFree = onFree;
    this.ticket = { nbytes: this.nbytes, refs: 0, cell: undefined };
  }

  get onHost(): boolean {
    return this.array !== undefined || this.bytes !== undefined;
  }

  get host(): Uint8Array | undefined {
    if (this.bytes !== undefined || this.array === undefined) return this.bytes;
    const { array } = this;
    // Also of a Buffer, whose slices are no copies.
    if (array.constructor === Uint8Array) return (this.bytes = array);
    return (this.bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  }

  set host(bytes: Uint8Array | undefined) {
    this.bytes = bytes;
    this.array = undefined;
  }
}

const counts = { storages: 0, bytes: 0, refs: 0 };

const collected = new FinalizationRegistry<Ticket>((ticket) => {
  counts.storages--;
  counts.bytes -= ticket.nbytes;
  counts.refs -= ticket.refs;
  if (ticket.cell !== undefined) freeCell(ticket.cell);
});

/**
 * What the finaliser has not been told of yet. Most memory is freed before it would have to be, and telling costs a tenth of a small call
 * and of a small kernel. Held until there are so many, or so many bytes, or for so long: in a loop that never yields, too, it is let go.
 */
const young: Storage[] = [];
const MAX_YOUNG = 1_024;
const MAX_YOUNG_BYTES = 2 ** 22;
/** The largest that is held. */
const LARGEST_YOUNG = 2 ** 16;
const YOUNG_MS = 50;
let youngBytes = 0;
let ageing = false;

function age(): void {
  youngBytes = 0;
  for (const storage of young.splice(0)) storage.register();
}

function ageSoon(): void {
  ageing = true;
  const timer: unknown = runAtRoot(() =>
    setTimeout(() => {
      ageing = false;
      age();
    }, YOUNG_MS),
  );
  // In browsers a timer is a number, and nothing waits for it.
  if (typeof timer === 'object') (timer as { unref(): void }).unref();
}

/**
 * Bytes with an owner count. Tensors and graphs `retain` and `release` it; messages `pinIo` and `unpinIo` it while its bytes are
 * being written. The memory is freed when both counts are zero; the garbage collector is the backstop.
 */
export class Storage {
  readonly nbytes: number;
  private changes = 0;
  private home: Device;
  private readonly cell: Memory;

  /** Starts with no owner: the first tensor retains it. An array is adopted without a copy; `held`: of how much memory it is a part, in bytes. */
  constructor(memory: HostArray | { device: DeviceBuffer; backend: Backend }, options: StorageOptions = {}, held = 0) {
    this.cell = new Memory(memory, options.onFree);
    this.nbytes = this.cell.nbytes;
    this.home = this.cell.backend?.device ?? 'cpu';
    if (this.home !== 'cpu') noteElsewhere();
    settle(this.cell);
    counts.storages++;
    counts.bytes += this.nbytes;
    if (this.cell.device !== undefined) trackDevice(this.cell);
    if (this.nbytes > LARGEST_YOUNG) this.register();
    else {
      youngBytes += Math.max(held, this.nbytes);
      if (young.push(this) >= MAX_YOUNG || youngBytes > MAX_YOUNG_BYTES) age();
      else if (!ageing) ageSoon();
    }
  }

  /** Tells the finaliser, unless there is nothing to tell any more. @internal */
  register(): void {
    const { cell } = this;
    if (cell.freed || cell.registered) return;
    cell.registered = true;
    collected.register(this, cell.ticket, cell.ticket);
  }

  /** Where its bytes belong. */
  get device(): Device {
    return this.home;
  }

  /** Belongs there from now on, in `memory` where that is not a backend's; before anybody else has it. */
  settleOn(device: Device, memory: Backend | undefined): void {
    if (device === this.home) return;
    this.home = device;
    if (device !== 'cpu') noteElsewhere();
    if (memory === undefined) return;
    const { cell } = this;
    const bytes = this.hostBytes();
    this.dropDevice();
    cell.device = memory.upload(bytes, 'bool');
    cell.backend = memory;
    trackDevice(cell);
    this.dropHost();
    settle(cell);
    this.register();
  }

  /** Counts in-place changes; saved values compare it. */
  get version(): number {
    return this.changes;
  }
  /** Owners: handles and saved values. */
  get refs(): number {
    return this.cell.ticket.refs;
  }
  get ioRefs(): number {
    return this.cell.ioRefs;
  }
  get freed(): boolean {
    return this.cell.freed;
  }
  /** Whether an alias of the host memory was handed out; such memory is never pooled. */
  get escaped(): boolean {
    return this.cell.escaped;
  }
  set escaped(value: true) {
    this.cell.escaped = value;
  }
  /** Whether the bytes can be read without asking the device. */
  get onHost(): boolean {
    return this.cell.onHost;
  }
  get onDevice(): boolean {
    return this.cell.device !== undefined;
  }

  retain(): void {
    if (this.cell.freed) throw new DisposedError('the storage was freed');
    this.cell.ticket.refs++;
    counts.refs++;
  }

  release(): void {
    const { cell } = this;
    if (cell.ticket.refs === 0) throw new InvariantError('storage released more often than retained');
    cell.ticket.refs--;
    counts.refs--;
    if (cell.ticket.refs === 0 && cell.ioRefs === 0) this.free();
  }

  /** Keeps the host bytes unchanged and unpooled until `unpinIo`: an in-place change meanwhile works on a copy. */
  pinIo(): void {
    if (this.cell.freed) throw new DisposedError('the storage was freed');
    this.cell.ioRefs++;
  }

  unpinIo(): void {
    const { cell } = this;
    if (cell.ioRefs === 0) throw new InvariantError('storage unpinned more often than pinned');
    if (--cell.ioRefs > 0) return;
    const orphans = cell.orphans;
    cell.orphans = undefined;
    if (orphans !== undefined) for (const give of orphans) give();
    if (cell.ticket.refs === 0) this.free();
    // A copy from the device was for the messages: it would be a second one of what lives on.
    else if (
      cell.host !== undefined &&
      cell.onFree !== undefined &&
      cell.backend?.downloadInto !== undefined &&
      !cell.escaped
    )
      this.dropHost();
  }

  /**
   * The bytes on the host, stable until the next in-place change (or, while pinned, for good). Copies from the device if need be, to memory
   * of `pool` where that is given and the device can.
   */
  hostBytes(pool?: HostPool): Uint8Array {
    const { cell } = this;
    if (cell.freed) throw new DisposedError('the storage was freed');
    return cell.host ?? this.download(pool);
  }

  private download(pool: HostPool | undefined): Uint8Array {
    const { cell } = this;
    const [backend, device] = [cell.backend as Backend, cell.device as DeviceBuffer];
    if (pool === undefined || backend.downloadInto === undefined) return (cell.host = backend.download(device));
    const bytes = pool.take(cell.nbytes);
    backend.downloadInto(device, bytes);
    cell.host = bytes;
    cell.onFree = (unused) => pool.give(unused);
    return bytes;
  }

  /** Makes `hostBytes()` free of waiting; on devices that read synchronously it resolves at once. They are valid as long as those of `hostBytes()` are. */
  toHost(): Promise<Uint8Array> {
    return Promise.resolve().then(() => this.hostBytes());
  }

  /** The bytes to read now: valid only until the next kernel, upload or in-place change. */
  peek(): Uint8Array {
    const { cell } = this;
    if (cell.host !== undefined && !cell.freed) return cell.host;
    const view = cell.device === undefined ? undefined : cell.backend?.view(cell.device);
    return view ?? this.hostBytes();
  }

  /** The array that the host memory was made as, while it is that: to read now, as `peek`'s bytes. */
  get array(): HostArray | undefined {
    return this.cell.array;
  }

  /** The bytes to change now, valid as `peek`'s. Counts a version. Aliases and messages that read the old bytes keep them. */
  mutate(): Uint8Array {
    const { cell } = this;
    if (cell.freed) throw new DisposedError('the storage was freed');
    this.changes++;
    if (cell.device !== undefined) {
      const backend = cell.backend as Backend;
      if (backend.view(cell.device) !== undefined) {
        cell.device = backend.renew(cell.device);
        this.dropHost();
        return backend.view(cell.device) as Uint8Array;
      }
      this.hostBytes();
      this.dropDevice();
    }
    const host = cell.host as Uint8Array;
    if (cell.ioRefs === 0 && !cell.escaped) return host;
    const copy = host.slice();
    this.dropHost();
    cell.host = copy;
    return copy;
  }

  /** The bytes on the device, uploaded if need be and kept there; owned by this storage. */
  toDevice(backend: Backend, dtype: DeviceDType): DeviceBuffer {
    const { cell } = this;
    if (cell.freed) throw new DisposedError('the storage was freed');
    if (cell.device !== undefined) {
      if (cell.backend === backend && cell.device.dtype === dtype) {
        touchedDevice(cell);
        return cell.device;
      }
      this.hostBytes();
      this.dropDevice();
    }
    const host = cell.host as Uint8Array;
    if (backend.aliasesUploads) cell.escaped = true;
    cell.device = backend.upload(host, dtype);
    cell.backend = backend;
    settle(cell);
    trackDevice(cell);
    return cell.device;
  }

  /** The device changed the bytes in what `toDevice` gave: counts a version, and what was on the host is old. */
  changedOnDevice(): void {
    this.changes++;
    this.dropHost();
  }

  private dropDevice(): void {
    const { cell } = this;
    if (cell.device === undefined) return;
    forgetDevice(cell);
    cell.backend?.free(cell.device);
    cell.device = undefined;
    cell.backend = undefined;
    settle(cell);
  }

  private dropHost(): void {
    const { cell } = this;
    const { onFree, escaped } = cell;
    const host = onFree === undefined || escaped ? undefined : cell.host;
    cell.host = undefined;
    cell.onFree = undefined;
    if (host !== undefined && onFree !== undefined) {
      if (cell.ioRefs === 0) onFree(host);
      else (cell.orphans ??= []).push(() => onFree(host));
    }
    cell.escaped = false;
    settle(cell);
  }

  private free(): void {
    const { cell } = this;
    if (cell.registered) collected.unregister(cell.ticket);
    counts.storages--;
    counts.bytes -= cell.nbytes;
    freeCell(cell);
  }
}

/** Lets the finaliser reach the cell exactly while there is something to give back. */
function settle(cell: Cell): void {
  cell.ticket.cell = cell.device !== undefined || cell.onFree !== undefined ? cell : undefined;
}

function freeCell(cell: Cell): void {
  if (cell.freed) return;
  cell.freed = true;
  const { device, onFree, escaped } = cell;
  const host = onFree === undefined || escaped ? undefined : cell.host;
  cell.host = undefined;
  if (device !== undefined) {
    forgetDevice(cell);
    cell.device = undefined;
    cell.backend?.free(device);
  }
  if (host !== undefined) onFree?.(host);
}

/** Adopts `bytes`, which may be a part of more memory, without copying; they must not change afterwards except through tensors. */
export function storageFromBytes(bytes: Uint8Array, options: StorageOptions = {}): Storage {
  return new Storage(bytes, options, bytes.buffer.byteLength);
}

/** What is alive: owners (handles and saved values), storages, and their bytes. */
export function storageCounts(): Readonly<typeof counts> {
  return { ...counts };
}
