/** @file Random numbers that are the same wherever the seed is the same. */

/** Numbers in [0, 1): the generator sfc32, seeded by any whole numbers. */
export function generator(...seeds: readonly number[]): () => number {
  let a = 0x9e3779b9;
  let b = 0x243f6a88;
  let c = 0xb7e15162;
  let counter = 1;
  const next = (): number => {
    const t = (a + b + counter++) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + t;
    return (t >>> 0) / 2 ** 32;
  };
  for (const seed of seeds) {
    a ^= seed | 0;
    for (let i = 0; i < 12; i++) next();
  }
  return next;
}

/** The numbers 0 … count - 1 in an order drawn from `random`. */
export function permutation(count: number, random: () => number): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    const kept = order[i] ?? 0;
    order[i] = order[j] ?? 0;
    order[j] = kept;
  }
  return order;
}
