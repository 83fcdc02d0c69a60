/** @file Memory on TensorFlow.js's WebAssembly heap: blocks of our own, which its kernels see as tensors when one of them reads them. */
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm';
import { InvariantError, TensorError } from '../errors.ts';
import { limits } from '../limits.ts';
import type { DeviceBuffer, DeviceDType } from './backend.ts';
import { forgetId } from './wasm-packing.ts';

/** What is used of the Emscripten module beside TensorFlow.js's own interface. */
interface Module {
  readonly HEAPU8: Uint8Array;
  readonly asm: { readonly memory: WebAssembly.Memory };
  _malloc(bytes: number): number;
  _free(at: number): void;
}

const BYTES: Readonly<Record<DeviceDType, number>> = { float32: 4, int32: 4, bool: 1 };
/** Blocks start and end at multiples of it: a cache line, and what TensorFlow reads in place. */
const GRAIN = 64;

/** Memory on the heap. */
export class Block implements DeviceBuffer {
  readonly dtype: DeviceDType;
  readonly nbytes: number;
  /** Where it starts. */
  readonly at: number;
  /** Under which TensorFlow.js knows it, once it does. */
  tfId: object | undefined;
  /** Whether TensorFlow.js made it: then it is no longer than its elements. */
  readonly exact: boolean;

  constructor(at: number, nbytes: number, dtype: DeviceDType, tfId?: object) {
    this.at = at;
    this.nbytes = nbytes;
    this.dtype = dtype;
    this.tfId = tfId;
    this.exact = tfId !== undefined;
  }

  get dataId(): object {
    return this;
  }
}

/** Allocates blocks; freed ones of the same size are used again first, because asking the allocator costs as much as a small kernel. */
export class Heap {
  readonly memory: WebAssembly.Memory;
  private readonly backend: BackendWasm;
  private readonly module: Module;
  /** Freed blocks by size. */
  private readonly spare = new Map<number, number[]>();
  private spareBytes = 0;
  /** What the allocator gave for each block, which starts at the next multiple of the grain. */
  private readonly given = new Map<number, number>();

  constructor(backend: BackendWasm) {
    this.backend = backend;
    this.module = backend.wasm as unknown as Module;
    this.memory = this.module.asm.memory;
  }

  /** A block of `count` elements that nobody has written. @throws TensorError when the heap is full. */
  make(count: number, dtype: DeviceDType): Block {
    const nbytes = count * BYTES[dtype];
    return new Block(this.allocate(nbytes), nbytes, dtype);
  }

  /** A block that `fill` writes; freed where that throws. */
  filled(count: number, fill: (at: number) => void): Block {
    const block = this.make(count, 'float32');
    try {
      fill(block.at);
      return block;
    } catch (error) {
      this.free(block);
      throw error;
    }
  }

  /** Room for `count` elements while `use` runs. */
  meanwhile(count: number, use: (at: number) => void): void {
    const block = this.make(count, 'float32');
    try {
      use(block.at);
    } finally {
      this.free(block);
    }
  }

  /** A result of TensorFlow.js. */
  adopt(tfId: object, nbytes: number, dtype: DeviceDType): Block {
    return new Block(this.backend.getMemoryOffset(tfId), nbytes, dtype, tfId);
  }

  free(block: Block): void {
    this.unpack(block);
    if (block.exact) {
      this.module._free(block.at);
      return;
    }
    const size = sizeOf(block.nbytes);
    if (size > limits.heapSpareBlockBytes || this.spareBytes + size > limits.heapSpareBytes) {
      this.giveBack(block.at);
      return;
    }
    const list = this.spare.get(size);
    if (list === undefined) this.spare.set(size, [block.at]);
    else list.push(block.at);
    this.spareBytes += size;
  }

  /** TensorFlow.js's id of a block. */
  idOf(block: Block): object {
    return (block.tfId ??= this.backend.makeOutput([block.nbytes / BYTES[block.dtype]], block.dtype, block.at).dataId);
  }

  /** Ends what XNNPACK has packed of a block's elements, which it finds by their id. */
  unpack(block: Block): void {
    const { tfId } = block;
    if (tfId === undefined) return;
    forgetId(this.backend, tfId);
    block.tfId = undefined;
  }

  /** The bytes of a block, valid until the heap grows. */
  view({ at, nbytes }: Block): Uint8Array {
    return new Uint8Array(this.memory.buffer, at, nbytes);
  }

  private allocate(nbytes: number): number {
    const size = sizeOf(nbytes);
    const spare = this.spare.get(size)?.pop();
    if (spare !== undefined) {
      this.spareBytes -= size;
      return spare;
    }
    let given = this.place(size + GRAIN);
    if (given === 0) {
      this.releaseSpare();
      given = this.place(size + GRAIN);
    }
    if (given === 0) throw new TensorError(`the WebAssembly heap has no place for ${nbytes} bytes`);
    const at = Math.ceil(given / GRAIN) * GRAIN;
    this.given.set(at, given);
    return at;
  }

  /** 0 where there is none. Near the last of 4 GiB the allocator has given what ends behind the memory: that is nobody's, and not given back. */
  private place(bytes: number): number {
    const given = this.module._malloc(bytes) >>> 0;
    return given + bytes > this.memory.buffer.byteLength ? 0 : given;
  }

  private giveBack(at: number): void {
    this.module._free(this.given.get(at) as number);
    this.given.delete(at);
  }

  private releaseSpare(): void {
    for (const list of this.spare.values()) for (const at of list) this.giveBack(at);
    this.spare.clear();
    this.spareBytes = 0;
  }
}

function sizeOf(nbytes: number): number {
  return Math.max(GRAIN, Math.ceil(nbytes / GRAIN) * GRAIN);
}

/** The block that a buffer of this heap is. */
export function blockOf(buffer: DeviceBuffer): Block {
  if (!(buffer instanceof Block))
    throw new InvariantError('memory of another device was given to the WebAssembly heap');
  return buffer;
}

/** Where a heap starts in this process, by what tells the address of memory: a heap that has grown may lie elsewhere. */
export function heapStarts(addressOf: (memory: ArrayBufferLike) => number): (heap: Heap) => number {
  let memory: ArrayBufferLike | undefined;
  let start = 0;
  return (heap) => {
    const { buffer } = heap.memory;
    if (buffer !== memory) {
      memory = buffer;
      start = addressOf(buffer);
    }
    return start;
  };
}
