/** @file First memory of writers and readers, many to one allocation: a large group makes thousands of sessions at once, and most stay small. */
import { FIRST_CHUNK_BYTES, FIRST_SLAB_BYTES } from '../limits.ts';

/** Hands out each byte once; a chunk is the collector's when nothing that was made in it is left. */
export class FirstMemory {
  private chunk = new Uint8Array(0);
  private used = 0;

  /** `FIRST_SLAB_BYTES`, all zero. */
  take(): Uint8Array {
    if (this.used === this.chunk.length) {
      this.chunk = new Uint8Array(FIRST_CHUNK_BYTES);
      this.used = 0;
    }
    return this.chunk.subarray(this.used, (this.used += FIRST_SLAB_BYTES));
  }
}
