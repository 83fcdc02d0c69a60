/** @file float16 and bfloat16 bit patterns to and from float32, rounding to nearest even. */

const scratch = new Float32Array(1);
const scratchBits = new Uint32Array(scratch.buffer);

/** The 65 536 float16 values, made at first use. */
let halfTable: Float32Array | undefined;

function halfValue(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** float16 bits as float32: exact. */
export function decodeFloat16(bits: Uint16Array): Float32Array {
  const table = (halfTable ??= Float32Array.from({ length: 65_536 }, (_, i) => halfValue(i)));
  const out = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) out[i] = table[bits[i] as number] as number;
  return out;
}

/** float32 to float16 bits. */
export function encodeFloat16(values: Float32Array): Uint16Array {
  const out = new Uint16Array(values.length);
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < out.length; i++) out[i] = halfBits(words[i] as number);
  return out;
}

function halfBits(word: number): number {
  const sign = (word >>> 16) & 0x8000;
  const magnitude = word & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  // 65520 and above round to infinity.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x38800000) {
    // Subnormal: adding 0.5 aligns the fraction so that the hardware's own rounding does the work.
    scratchBits[0] = magnitude;
    scratch[0] = (scratch[0] as number) + 0.5;
    return sign | (scratchBits[0] - 0x3f000000);
  }
  const odd = (magnitude >>> 13) & 1;
  return sign | ((magnitude - 0x38000000 + 0xfff + odd) >>> 13);
}

/** bfloat16 bits as float32: exact. */
export function decodeBfloat16(bits: Uint16Array): Float32Array {
  const words = new Uint32Array(bits.length);
  for (let i = 0; i < bits.length; i++) words[i] = ((bits[i] as number) << 16) >>> 0;
  return new Float32Array(words.buffer);
}

/** float32 to bfloat16 bits. */
export function encodeBfloat16(values: Float32Array): Uint16Array {
  const out = new Uint16Array(values.length);
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < out.length; i++) {
    const word = words[i] as number;
    const isNaNPattern = (word & 0x7fffffff) > 0x7f800000;
    out[i] = isNaNPattern ? ((word >>> 16) & 0x8000) | 0x7fc0 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
  return out;
}
