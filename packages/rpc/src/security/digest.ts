/** @file SHA-256, HMAC and HKDF: Node's where they are, written out where a browser has none that answers at once. */
import { nodeCrypto } from '../base/platform.ts';
import { portableScrypt } from './scrypt.ts';

/** The digest of the parts, one after the other: 32 bytes. */
export function sha256(...parts: readonly Uint8Array[]): Uint8Array {
  if (nodeCrypto === undefined) return digest(join(parts));
  const hash = nodeCrypto.createHash('sha256');
  for (const part of parts) hash.update(part);
  return new Uint8Array(hash.digest());
}

/** HMAC-SHA-256 (RFC 2104): 32 bytes. */
export function hmacSha256(key: Uint8Array, ...parts: readonly Uint8Array[]): Uint8Array {
  if (nodeCrypto === undefined) return portable.hmacSha256(key, ...parts);
  const hmac = nodeCrypto.createHmac('sha256', key);
  for (const part of parts) hmac.update(part);
  return new Uint8Array(hmac.digest());
}

/** HKDF-SHA-256 (RFC 5869): 32 bytes, which is one block of it. */
export function hkdfSha256(secret: Uint8Array, salt: Uint8Array, info: Uint8Array): Uint8Array {
  if (nodeCrypto === undefined) return portable.hkdfSha256(secret, salt, info);
  return new Uint8Array(nodeCrypto.hkdfSync('sha256', secret, salt, info, 32));
}

/** What scrypt (RFC 7914) costs: 16 MiB, and about a twentieth of a second. */
const SCRYPT = { N: 16_384, r: 8, p: 1 } as const;

/** scrypt: 32 bytes that take time and memory to work out. */
export function scrypt(secret: Uint8Array, salt: Uint8Array): Uint8Array {
  if (nodeCrypto === undefined) return portableScrypt(portable.hmacSha256, secret, salt, SCRYPT);
  return new Uint8Array(nodeCrypto.scryptSync(secret, salt, 32, SCRYPT));
}

/** Whether the bytes are the same, in the same time wherever they differ. */
export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.byteLength !== b.byteLength) return false;
  if (nodeCrypto !== undefined) return nodeCrypto.timingSafeEqual(a, b);
  return portable.sameBytes(a, b);
}

/** The same without Node: what browsers run. WebCrypto's answers come later, and only on pages served over TLS. */
export const portable = {
  sha256: (...parts: readonly Uint8Array[]): Uint8Array => digest(join(parts)),
  hmacSha256: (key: Uint8Array, ...parts: readonly Uint8Array[]): Uint8Array => {
    const block = new Uint8Array(BLOCK_BYTES);
    block.set(key.byteLength > BLOCK_BYTES ? digest(key) : key);
    const inner = digest(join([block.map((byte) => byte ^ 0x36), ...parts]));
    return digest(join([block.map((byte) => byte ^ 0x5c), inner]));
  },
  hkdfSha256(secret: Uint8Array, salt: Uint8Array, info: Uint8Array): Uint8Array {
    return portable.hmacSha256(portable.hmacSha256(salt, secret), info, Uint8Array.of(1));
  },
  sameBytes(a: Uint8Array, b: Uint8Array): boolean {
    let differ = a.byteLength ^ b.byteLength;
    for (let i = 0; i < a.byteLength; i++) differ |= (a[i] as number) ^ (b[i % b.byteLength] ?? 0);
    return differ === 0;
  },
};

const BLOCK_BYTES = 64;

/** Fractional parts of the cube and square roots of the first primes (FIPS 180-4, 4.2.2 and 5.3.3). */
interface Constants {
  readonly rounds: Uint32Array;
  readonly start: Uint32Array;
}

/** Not before they are needed: Node never does, and a thread would start later. */
let known: Constants | undefined;

/** FIPS 180-4, section 6.2. */
function digest(message: Uint8Array): Uint8Array {
  const length = message.byteLength;
  const padded = new Uint8Array(Math.ceil((length + 9) / BLOCK_BYTES) * BLOCK_BYTES);
  padded.set(message);
  padded[length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.byteLength - 8, Math.floor(length / 2 ** 29));
  view.setUint32(padded.byteLength - 4, (length << 3) >>> 0);
  const { rounds, start } = (known ??= constants());
  const state = start.slice();
  const words = new Uint32Array(64);
  for (let at = 0; at < padded.byteLength; at += BLOCK_BYTES) compress(state, rounds, words, view, at);
  const out = new DataView(new ArrayBuffer(32));
  for (const [i, word] of state.entries()) out.setUint32(i * 4, word);
  return new Uint8Array(out.buffer);
}

function compress(state: Uint32Array, rounds: Uint32Array, words: Uint32Array, view: DataView, at: number): void {
  for (let i = 0; i < 16; i++) words[i] = view.getUint32(at + i * 4);
  for (let i = 16; i < 64; i++) {
    const early = words[i - 15] as number;
    const late = words[i - 2] as number;
    const s0 = turn(early, 7) ^ turn(early, 18) ^ (early >>> 3);
    const s1 = turn(late, 17) ^ turn(late, 19) ^ (late >>> 10);
    words[i] = (words[i - 16] as number) + s0 + (words[i - 7] as number) + s1;
  }
  let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
  for (let i = 0; i < 64; i++) {
    const s1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
    const one = (h + s1 + ((e & f) ^ (~e & g)) + (rounds[i] as number) + (words[i] as number)) | 0;
    const s0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
    const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) state[i] = (state[i] as number) + word;
}

function turn(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by));
}

/** The roots by whole numbers: floating point would do for these, and proves less. */
function constants(): Constants {
  const primes: bigint[] = [];
  for (let n = 2n; primes.length < 64; n++) if (primes.every((prime) => n % prime !== 0n)) primes.push(n);
  const root = (value: bigint, power: bigint): bigint => {
    let low = 0n;
    for (let bit = 1n << 40n; bit > 0n; bit >>= 1n) if ((low + bit) ** power <= value) low += bit;
    return low;
  };
  const part = (value: bigint, power: bigint): number => Number(root(value << (32n * power), power) & 0xffff_ffffn);
  return {
    rounds: Uint32Array.from(primes, (prime) => part(prime, 3n)),
    start: Uint32Array.from(primes.slice(0, 8), (prime) => part(prime, 2n)),
  };
}

function join(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.byteLength;
  }
  return bytes;
}
