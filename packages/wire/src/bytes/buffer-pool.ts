/** @file Receive memory in size classes: on a warm page the kernel's copy is three times as fast as on a fresh one. */
import { MAX_POOLED_BYTES, MAX_POOLED_PER_CLASS, MIN_POOLED_BYTES } from '../limits.ts';

const MIB = 1024 * 1024;

/** What a pool holds and did. */
export interface BufferPoolStats {
  readonly freeBytes: number;
  readonly freeBuffers: number;
  /** Requests served from the pool, and with fresh memory. */
  readonly hits: number;
  readonly misses: number;
  /** Buffers let go because the pool was full. */
  readonly dropped: number;
}

const UNPOOLED = Object.freeze({});

/**
 * Free buffers by size class: powers of two to 1 MiB, whole MiB above. It holds at most `maxBytes`; past that the class that was
 * unused for longest loses its buffers first. A buffer must only be given back when nothing can reach its memory any more.
 */
export class BufferPool {
  private readonly maxBytes: number;
  /** In order of use, the least recent first. */
  private readonly classes = new Map<number, ArrayBuffer[]>();
  /** What is free: giving a buffer back twice would hand it to two messages. */
  private readonly inside = new WeakSet<ArrayBuffer>();
  /** Classes used since the last sweep. */
  private readonly used = new Set<number>();
  private freeBytes = 0;
  private hits = 0;
  private misses = 0;
  private dropped = 0;

  constructor(maxBytes: number = MAX_POOLED_BYTES) {
    this.maxBytes = maxBytes;
  }

  private readonly pooled = { onFree: (bytes: Uint8Array): void => this.give(bytes) };

  /** What a storage over memory of this pool is made with, so that the memory comes back. */
  optionsFor(nbytes: number): { readonly onFree?: (bytes: Uint8Array) => void } {
    return nbytes < MIN_POOLED_BYTES ? UNPOOLED : this.pooled;
  }

  /** `nbytes` bytes at the front of a buffer of their class. What is in them is arbitrary: the caller overwrites all of it. */
  take(nbytes: number): Uint8Array<ArrayBuffer> {
    if (nbytes < MIN_POOLED_BYTES) return new Uint8Array(nbytes);
    const size = sizeClass(nbytes);
    const list = this.classes.get(size);
    const buffer = list?.pop();
    if (list === undefined || buffer === undefined) {
      this.misses++;
      return new Uint8Array(new ArrayBuffer(size), 0, nbytes);
    }
    this.hits++;
    this.inside.delete(buffer);
    this.used.add(size);
    this.freeBytes -= size;
    this.classes.delete(size);
    if (list.length > 0) this.classes.set(size, list);
    return new Uint8Array(buffer, 0, nbytes);
  }

  /** Whether a free buffer of the class of `nbytes` is here: taking it costs no fresh memory. */
  has(nbytes: number): boolean {
    return this.classes.has(sizeClass(nbytes));
  }

  /**
   * Takes back what `take` gave. Other memory (not at the front of a whole class, shared) is left to the collector.
   * @throws Error for a buffer that is in the pool already.
   */
  give(bytes: Uint8Array): void {
    const { buffer } = bytes;
    const size = buffer.byteLength;
    if (
      bytes.byteOffset !== 0 ||
      size < MIN_POOLED_BYTES ||
      !(buffer instanceof ArrayBuffer) ||
      sizeClass(size) !== size
    )
      return;
    if (this.inside.has(buffer)) throw new Error('invariant: a buffer was given back twice');
    const list = this.classes.get(size) ?? [];
    if (size > this.maxBytes || list.length >= MAX_POOLED_PER_CLASS) {
      this.dropped++;
      return;
    }
    list.push(buffer);
    this.inside.add(buffer);
    this.used.add(size);
    this.classes.delete(size);
    this.classes.set(size, list);
    this.freeBytes += size;
    this.trim(this.maxBytes);
  }

  /** Lets go of free buffers until at most `maxBytes` are held. */
  trim(maxBytes: number): void {
    for (const [size, list] of this.classes) {
      while (this.freeBytes > maxBytes && list.length > 0) this.drop(size, list);
      if (list.length === 0) this.classes.delete(size);
      if (this.freeBytes <= maxBytes) return;
    }
  }

  /** Lets go of the classes that nobody used since the last sweep: called now and then, an idle process gives its memory back. */
  sweep(): void {
    for (const [size, list] of this.classes) {
      if (this.used.has(size)) continue;
      while (list.length > 0) this.drop(size, list);
      this.classes.delete(size);
    }
    this.used.clear();
  }

  private drop(size: number, list: ArrayBuffer[]): void {
    list.pop();
    this.freeBytes -= size;
    this.dropped++;
  }

  stats(): BufferPoolStats {
    let freeBuffers = 0;
    for (const list of this.classes.values()) freeBuffers += list.length;
    return { freeBytes: this.freeBytes, freeBuffers, hits: this.hits, misses: this.misses, dropped: this.dropped };
  }
}

/** Bytes of the buffers that serve requests of `nbytes`. */
function sizeClass(nbytes: number): number {
  if (nbytes > MIB) return Math.ceil(nbytes / MIB) * MIB;
  let size = MIN_POOLED_BYTES;
  while (size < nbytes) size *= 2;
  return size;
}

/** The pool of this process: memory warms up once for all agents in it. */
export const bufferPool = new BufferPool();
