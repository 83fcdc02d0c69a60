/** @file A set of texts that keeps only 64-bit fingerprints (hash compaction), in an open-addressed table. */
import { hashText } from './random.ts';

/** Tables grow when they are this full. */
const MOST_LOAD = 0.7;

/**
 * A set that stores 8 bytes per member instead of the text. Two texts may share a fingerprint: with n members the chance that
 * any did is about n² / 2⁶⁵ (10⁻⁶ at six million), in which case one state would be taken as seen.
 */
export class HashSet64 {
  #table: Uint32Array;
  #size = 0;

  /** @param capacity members expected; rounded up to a power of two. */
  constructor(capacity = 1 << 12) {
    this.#table = tableOf(2 ** Math.ceil(Math.log2(Math.max(16, capacity))));
  }

  /** Members added. */
  get size(): number {
    return this.#size;
  }

  /** Adds a text; false when it (or one with the same fingerprint) was there. */
  add(text: string): boolean {
    const [high, low] = hashText(text);
    return this.addHash(high, low);
  }

  /** The same for a state in another form, given as a fingerprint of two 32-bit words that spread well. */
  addHash(high: number, low: number): boolean {
    // A slot of two zeros is empty, so the one fingerprint that looks like it is moved.
    if (!insert(this.#table, high, high === 0 && low === 0 ? 1 : low)) return false;
    this.#size++;
    if (this.#size > (this.#table.length / 2) * MOST_LOAD) this.#grow();
    return true;
  }

  #grow(): void {
    const old = this.#table;
    const table = tableOf(old.length);
    for (let slot = 0; slot < old.length; slot += 2) {
      const high = old[slot] as number;
      const low = old[slot + 1] as number;
      if (high !== 0 || low !== 0) insert(table, high, low);
    }
    this.#table = table;
  }
}

/** Room for `slots` pairs: one 64-bit word each, used as its two halves because arithmetic on bigints allocates. */
function tableOf(slots: number): Uint32Array {
  return new Uint32Array(new BigUint64Array(slots).buffer);
}

function insert(table: Uint32Array, high: number, low: number): boolean {
  const mask = table.length / 2 - 1;
  for (let slot = (low ^ Math.imul(high, 0x9e3779b1)) & mask; ; slot = (slot + 1) & mask) {
    const at = 2 * slot;
    if (table[at] === 0 && table[at + 1] === 0) {
      table[at] = high;
      table[at + 1] = low;
      return true;
    }
    if (table[at] === high && table[at + 1] === low) return false;
  }
}
