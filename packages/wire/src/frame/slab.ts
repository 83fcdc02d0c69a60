/** @file Send slabs: reference-counted pieces of memory that hold the frames of several ticks until the peer has acknowledged them. */
import { FirstMemory } from '../bytes/first-memory.ts';
import { FIRST_SLAB_BYTES, MAX_FREE_SLABS, SLAB_BYTES } from '../limits.ts';

/**
 * Memory that frames are written into. Whoever needs the bytes calls `retain`, and `release` once for each; at zero the slab goes
 * back to its pool. `take` hands it out with one reference, the taker's.
 */
export class Slab {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** Bytes in use from the start. Only the writer that fills the slab changes it. */
  used = 0;
  private references = 0;
  private readonly pool: SlabPool;

  constructor(pool: SlabPool, bytes: Uint8Array) {
    this.pool = pool;
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  retain(): void {
    this.references++;
  }

  release(): void {
    this.references--;
    if (this.references === 0) this.pool.put(this);
    else if (this.references < 0) throw new Error('invariant: a slab was released more often than retained');
  }
}

const firstMemory = new FirstMemory();

/** Free slabs of one size and of that of first ones, up to `maxFree` of each; larger ones are made to measure and never kept. */
export class SlabPool {
  readonly slabBytes: number;
  private readonly maxFree: number;
  private readonly free: Slab[] = [];
  private readonly freeFirst: Slab[] = [];
  /** A slab without bytes, for those that have none: nobody's last reference ends it. */
  readonly none: Slab;
  /** Bytes handed out and not yet returned. */
  usedBytes = 0;

  constructor(slabBytes = SLAB_BYTES, maxFree = MAX_FREE_SLABS) {
    this.slabBytes = slabBytes;
    this.maxFree = maxFree;
    this.none = new Slab(this, new Uint8Array(0));
    this.none.retain();
  }

  /** A small slab with one reference, the caller's, for who may never need more. */
  takeFirst(minBytes: number): Slab {
    if (minBytes > FIRST_SLAB_BYTES || this.slabBytes <= FIRST_SLAB_BYTES) return this.take(minBytes);
    return this.handOut(this.freeFirst.pop() ?? new Slab(this, firstMemory.take()));
  }

  /** A slab of at least `minBytes` with one reference, the caller's. */
  take(minBytes = 0): Slab {
    if (minBytes > this.slabBytes) return this.handOut(new Slab(this, new Uint8Array(minBytes)));
    return this.handOut(this.free.pop() ?? new Slab(this, new Uint8Array(this.slabBytes)));
  }

  private handOut(slab: Slab): Slab {
    slab.used = 0;
    slab.retain();
    this.usedBytes += slab.bytes.length;
    return slab;
  }

  /** Called by a slab at its last release. */
  put(slab: Slab): void {
    this.usedBytes -= slab.bytes.length;
    const { length } = slab.bytes;
    const free = length === this.slabBytes ? this.free : length === FIRST_SLAB_BYTES ? this.freeFirst : undefined;
    if (free !== undefined && free.length < this.maxFree) free.push(slab);
  }
}
