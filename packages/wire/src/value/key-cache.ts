/** @file Remembers short ASCII keys, so that the keys of similar objects are decoded once and are the same string. */

/** Slots; a key that meets another in its slot replaces it. */
const SLOTS = 512;
/** Longer keys are rare and dear to compare. */
export const MAX_CACHED_KEY_BYTES = 32;

/** A direct-mapped cache of strings by their bytes. Bounded: `SLOTS` strings of at most 32 bytes. */
export class KeyCache {
  private readonly slots: string[] = new Array<string>(SLOTS).fill('');

  /** The string of `bytes[start, start + length)`, which must be 1 to 32 bytes; undefined when it is not ASCII. */
  get(bytes: Uint8Array, start: number, length: number): string | undefined {
    const first = bytes[start] as number;
    const last = bytes[start + length - 1] as number;
    const middle = bytes[start + (length >> 1)] as number;
    const slot = ((first * 31 + last) * 31 + middle * 7 + length) & (SLOTS - 1);
    const known = this.slots[slot] as string;
    if (known.length === length) {
      let i = 0;
      while (i < length && known.charCodeAt(i) === bytes[start + i]) i++;
      if (i === length) return known;
    }
    const codes: number[] = [];
    for (let i = 0; i < length; i++) {
      const byte = bytes[start + i] as number;
      if (byte > 0x7f) return undefined;
      codes.push(byte);
    }
    return (this.slots[slot] = String.fromCharCode(...codes));
  }
}
