/** @file Integers of any length as pickles have them: two's complement, the lowest byte first. */

/** Bytes of an integer that is read or written: what makes them a number takes longer than their length grows. */
export const MAX_INTEGER_BYTES = 65_536;

/** How many bytes hold an integer. */
export function integerLength(value: bigint): number {
  const bits = (value < 0n ? ~value : value).toString(2).length + 1;
  return Math.ceil(bits / 8);
}

/** Writes an integer as `length` bytes from `at` on. */
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

/** The integer in the `length` bytes from `at` on. */
export function integerAt(bytes: Uint8Array, at: number, length: number): bigint {
  if (length === 0) return 0n;
  let hex = '0x';
  for (let i = length - 1; i >= 0; i--) hex += (bytes[at + i] as number).toString(16).padStart(2, '0');
  return BigInt.asIntN(length * 8, BigInt(hex));
}
