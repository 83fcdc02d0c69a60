/** @file A seeded random generator (sfc32) whose streams split by name, so that one more draw in a stream shifts no other. */

const TWO_POW_32 = 0x1_0000_0000;

/**
 * A deterministic stream of random numbers.
 *
 * `split(name)` depends only on the seed and the name, never on how much was drawn: give every concern (network, crashes,
 * workload …) a stream of its own and adding a draw to one leaves the others as they were.
 */
export class Random {
  /** What this stream was made from; printing it is enough to make the stream again. */
  readonly seed: string;
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  /** @param seed any number or text; equal seeds give equal streams on every machine. */
  constructor(seed: number | string) {
    this.seed = String(seed);
    [this.#a, this.#b, this.#c] = expand(this.seed);
    // The first outputs of sfc32 still show the seed; its author discards twelve.
    for (let i = 0; i < 12; i++) this.uint32();
  }

  /** The next 32 random bits as an unsigned integer. */
  uint32(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    this.#c |= 0;
    return sum >>> 0;
  }

  /** A number in [0, 1) with 32 bits of resolution. */
  float(): number {
    return this.uint32() / TWO_POW_32;
  }

  /** An integer in [low, high), `high` excluded; the span must fit 32 bits. */
  int(low: number, high: number): number {
    if (!(high > low) || high - low > TWO_POW_32) throw new RangeError(`no integer in [${low}, ${high})`);
    return low + Math.floor(this.float() * (high - low));
  }

  /** True with probability `p`. Draws even when the answer is certain, so that turning a fault off shifts nothing. */
  chance(p: number): boolean {
    return this.float() < p;
  }

  /** An exponentially distributed number with the given mean. */
  exponential(mean: number): number {
    return -Math.log(1 - this.float()) * mean;
  }

  /** One element of a non-empty list. */
  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new RangeError('nothing to pick from');
    return items[this.int(0, items.length)] as T;
  }

  /** One key of a table of relative weights. */
  weighted<K extends string>(weights: Readonly<Record<K, number>>): K {
    const entries = Object.entries<number>(weights) as [K, number][];
    const total = entries.reduce((sum, [, weight]) => sum + weight, 0);
    let left = this.float() * total;
    for (const [key, weight] of entries) {
      left -= weight;
      if (left < 0) return key;
    }
    const last = entries.at(-1);
    if (last === undefined) throw new RangeError('nothing to choose from');
    return last[0];
  }

  /** A shuffled copy (Fisher–Yates). */
  shuffle<T>(items: readonly T[]): T[] {
    const out = [...items];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.int(0, i + 1);
      [out[i], out[j]] = [out[j] as T, out[i] as T];
    }
    return out;
  }

  /** `length` random bytes. */
  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.uint32() & 0xff);
  }

  /** An independent stream for the concern `name`. */
  split(name: string | number): Random {
    return new Random(`${this.seed}/${name}`);
  }
}

/** Two independent 32-bit hashes of a text (cyrb53's mixing); together a 64-bit fingerprint. */
export function hashText(text: string, salt = 0): [high: number, low: number] {
  let h1 = 0xdeadbeef ^ salt;
  let h2 = 0x41c6ce57 ^ salt;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    h1 = Math.imul(h1 ^ unit, 0x9e3779b1);
    h2 = Math.imul(h2 ^ unit, 0x5f356495);
  }
  h1 = Math.imul(h1 ^ (h1 >>> 16), 0x85ebca6b) ^ Math.imul(h2 ^ (h2 >>> 13), 0xc2b2ae35);
  h2 = Math.imul(h2 ^ (h2 >>> 16), 0x85ebca6b) ^ Math.imul(h1 ^ (h1 >>> 13), 0xc2b2ae35);
  return [h2 >>> 0, h1 >>> 0];
}

function expand(seed: string): [number, number, number] {
  const [a, b] = hashText(seed);
  const [c] = hashText(seed, 0x5bd1e995);
  return [a | 0, b | 0, c | 0];
}
