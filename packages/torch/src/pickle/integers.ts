/** @file Integers of any length as pickles have them: two's complement, the lowest byte first. */

/** Bytes of an integer that is read or written: what makes them a number takes longer than their length grows. */
export const MAX_INTEGER_BYTES = 65_536;
const MAX_INTEGER_BITS = MAX_INTEGER_BYTES * 8;

/** How many bytes hold an integer that four do not hold; Infinity for more than are written. */
export function integerLength(value: bigint): number {
  // Times and hashes have up to eight, and there may be very many of them.
  for (let bytes = 5; bytes <= 8; bytes++) if (BigInt.asIntN(bytes * 8, value) === value) return bytes;
  if (BigInt.asIntN(MAX_INTEGER_BITS, value) !== value) return Infinity;
  const bits = (value < 0n ? ~value : value).toString(2).length + 1;
  return Math.ceil(bits / 8);
}

/** Writes an integer of more than eight bytes as `length` bytes from `at` on. */
export function putInteger(bytes: Uint8Array, at: number, length: number, value: bigint): void {
  // By way of text: shifting a long integer byte by byte costs its length squared.
  const hex = BigInt.asUintN(length * 8, value)
    .toString(16)
    .padStart(length * 2, '0');
  for (let i = 0; i < length; i++) {
    const from = (length - 1 - i) * 2;
    bytes[at + i] = parseInt(hex.slice(from, from + 2), 16);
  }
}

/** The integer in the `length` bytes from `at` on: a number where one can hold it. */
export function integerAt(bytes: Uint8Array, at: number, length: number): number | bigint {
  if (length <= 6) return signed(bytes, at, length);
  if (length > 8) return narrowed(longAt(bytes, at, length));
  const high = signed(bytes, at + 4, length - 4);
  const low = signed(bytes, at, 4) >>> 0;
  const number = high * 0x1_0000_0000 + low;
  return Number.isSafeInteger(number) ? number : (BigInt(high) << 32n) | BigInt(low);
}

/** The same integer as a number where one can hold it. */
export function narrowed(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** The integer in up to six bytes. */
function signed(bytes: Uint8Array, at: number, length: number): number {
  // The highest byte has the sign.
  let value = length === 0 ? 0 : ((bytes[at + length - 1] as number) << 24) >> 24;
  for (let i = length - 2; i >= 0; i--) value = value * 0x100 + (bytes[at + i] as number);
  return value;
}

function longAt(bytes: Uint8Array, at: number, length: number): bigint {
  let hex = '0x';
  for (let i = length - 1; i >= 0; i--) hex += (bytes[at + i] as number).toString(16).padStart(2, '0');
  return BigInt.asIntN(length * 8, BigInt(hex));
}
