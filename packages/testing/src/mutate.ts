/** @file Seeded damage to bytes: the kinds of mistake and malice a decoder meets. */

/** A small fast generator (mulberry32): the same seed gives the same run everywhere. */
export class Seeded {
  private state: number;

  constructor(seed: number) {
    this.state = seed >>> 0;
  }

  /** An integer in [0, bound). */
  below(bound: number): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000) * bound);
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }
}

const INTERESTING = [0, 1, 2, 0x7f, 0x80, 0xff, 0xfe, 0x20, 0x40, 0x0a, 0x12, 0x5a, 0x62];

/** A damaged copy of `bytes`; `other` is a second sample to splice with. One to four kinds of damage each. */
export function mutate(random: Seeded, bytes: Uint8Array, other: Uint8Array): Uint8Array {
  let out: Uint8Array = Uint8Array.from(bytes);
  for (let i = 1 + random.below(4); i > 0; i--) out = damage(random, out, other);
  return out;
}

function damage(random: Seeded, bytes: Uint8Array, other: Uint8Array): Uint8Array {
  if (bytes.length === 0) return Uint8Array.from(other.subarray(0, random.below(other.length + 1)));
  const at = random.below(bytes.length);
  const to = at + random.below(Math.min(64, bytes.length - at) + 1);
  switch (random.below(8)) {
    case 0:
      bytes[at] = (bytes[at] as number) ^ (1 << random.below(8));
      return bytes;
    case 1:
      bytes[at] = random.pick(INTERESTING);
      return bytes;
    case 2:
      return bytes.slice(0, at);
    case 3:
      return joined(bytes.subarray(0, at), bytes.subarray(to));
    case 4:
      return joined(bytes.subarray(0, to), bytes.subarray(at));
    case 5:
      return joined(bytes.subarray(0, at), other.subarray(random.below(other.length + 1)));
    case 6:
      if (bytes.length >= 4)
        new DataView(bytes.buffer).setUint32(
          Math.min(at, bytes.length - 4),
          random.pick([0, 1, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 20]),
          true,
        );
      return bytes;
    default:
      return joined(
        bytes.subarray(0, at),
        Uint8Array.from({ length: random.below(12) }, () => random.below(256)),
        bytes.subarray(at),
      );
  }
}

function joined(...parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
