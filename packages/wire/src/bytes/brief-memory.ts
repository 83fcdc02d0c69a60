/** @file Memory shared by small payloads that live until they have been copied into a frame: to own some costs more than the copy. */
import { BRIEF_SLAB_BYTES, MAX_BRIEF_BYTES } from '../limits.ts';

/** Hands out each byte once; a slab is the collector's when nothing that was made in it is left. */
export class BriefMemory {
  private slab = new Uint8Array(BRIEF_SLAB_BYTES);
  private used = 0;

  /** That many bytes, all zero. Larger payloads get memory of their own. */
  take(length: number): Uint8Array {
    if (length > MAX_BRIEF_BYTES) return new Uint8Array(length);
    if (this.used + length > BRIEF_SLAB_BYTES) {
      this.slab = new Uint8Array(BRIEF_SLAB_BYTES);
      this.used = 0;
    }
    return this.slab.subarray(this.used, (this.used += length));
  }

  copy(bytes: Uint8Array): Uint8Array {
    if (bytes.length > MAX_BRIEF_BYTES) return bytes.slice();
    const out = this.take(bytes.length);
    out.set(bytes);
    return out;
  }
}
