/** @file scrypt (RFC 7914) with p = 1 for browsers, which have none that answers at once. */

/** A keyed digest of 32 bytes. */
type Hmac = (key: Uint8Array, ...parts: readonly Uint8Array[]) => Uint8Array;

const BLOCK_WORDS = 16;
const KEY_BYTES = 32;

/** 32 bytes; `hmac` is HMAC-SHA-256. */
export function portableScrypt(
  hmac: Hmac,
  secret: Uint8Array,
  salt: Uint8Array,
  { N: n, r }: { readonly N: number; readonly r: number },
): Uint8Array {
  const bytes = pbkdf2(hmac, secret, salt, 128 * r);
  const view = new DataView(bytes.buffer);
  const words = Uint32Array.from({ length: 32 * r }, (_, i) => view.getUint32(4 * i, true));
  mix(words, n, r);
  words.forEach((word, i) => view.setUint32(4 * i, word, true));
  return pbkdf2(hmac, secret, bytes, KEY_BYTES);
}

/** PBKDF2-HMAC-SHA-256 of one round. */
function pbkdf2(hmac: Hmac, secret: Uint8Array, salt: Uint8Array, length: number): Uint8Array {
  const out = new Uint8Array(length);
  for (let block = 0; block * 32 < length; block++) {
    const index = Uint8Array.of(0, 0, (block + 1) >> 8, (block + 1) & 0xff);
    out.set(hmac(secret, salt, index), block * 32);
  }
  return out;
}

/** ROMix: fills a table with what the blocks become, then walks it by what they say. */
function mix(x: Uint32Array, n: number, r: number): void {
  const size = 32 * r;
  const table = new Uint32Array(n * size);
  const spare = new Uint32Array(size);
  for (let i = 0; i < n; i++) {
    table.set(x, i * size);
    mixBlocks(x, spare, r);
  }
  for (let i = 0; i < n; i++) {
    const at = ((x[size - BLOCK_WORDS] as number) & (n - 1)) * size;
    for (let k = 0; k < size; k++) x[k] = (x[k] as number) ^ (table[at + k] as number);
    mixBlocks(x, spare, r);
  }
}

/** BlockMix: each block through Salsa20/8 with the one before, the even ones first. */
function mixBlocks(x: Uint32Array, out: Uint32Array, r: number): void {
  const block = x.slice((2 * r - 1) * BLOCK_WORDS);
  for (let i = 0; i < 2 * r; i++) {
    for (let k = 0; k < BLOCK_WORDS; k++) block[k] = (block[k] as number) ^ (x[i * BLOCK_WORDS + k] as number);
    salsa(block);
    out.set(block, ((i >> 1) + (i & 1) * r) * BLOCK_WORDS);
  }
  x.set(out);
}

/** Which words each quarter round takes: columns, then rows. */
const QUARTERS: readonly (readonly [number, number, number, number])[] = [
  [0, 4, 8, 12],
  [5, 9, 13, 1],
  [10, 14, 2, 6],
  [15, 3, 7, 11],
  [0, 1, 2, 3],
  [5, 6, 7, 4],
  [10, 11, 8, 9],
  [15, 12, 13, 14],
];
const state = new Uint32Array(BLOCK_WORDS);

/** Salsa20/8, in place. */
function salsa(block: Uint32Array): void {
  state.set(block);
  for (let round = 0; round < 4; round++) {
    for (const [a, b, c, d] of QUARTERS) {
      stir(b, a, d, 7);
      stir(c, b, a, 9);
      stir(d, c, b, 13);
      stir(a, d, c, 18);
    }
  }
  for (let i = 0; i < BLOCK_WORDS; i++) block[i] = (block[i] as number) + (state[i] as number);
}

function stir(to: number, one: number, other: number, by: number): void {
  const sum = ((state[one] as number) + (state[other] as number)) | 0;
  state[to] = (state[to] as number) ^ ((sum << by) | (sum >>> (32 - by)));
}
