/** @file Writes the values that hold no others: bigints, strings without UTF-8, packed numbers; and what they are told by. */
import { type Tensor } from '@backwire/tensor';
import { storageFromBytes, tensorFromParts, untracked } from '@backwire/tensor/internal';
import { type ByteWriter } from '../bytes/byte-writer.ts';
import { FIELD_1, FIELD_1_VARINT, FIELD_2, ValueTag } from './format.ts';

/** A bigint: eight bytes when it fits, else sign and little-endian magnitude. */
export function writeBigInt(out: ByteWriter, value: bigint): void {
  if (BigInt.asIntN(64, value) === value) {
    out.u8(ValueTag.INT64);
    out.reserve(8);
    out.view.setBigInt64(out.pos, value, true);
    out.pos += 8;
    return;
  }
  const negative = value < 0n;
  const hex = (negative ? -value : value).toString(16);
  const size = (hex.length + 1) >> 1;
  out.u8(ValueTag.BIG);
  const mark = out.beginLength();
  if (negative) out.pair(FIELD_1_VARINT, 1);
  out.u8(FIELD_2);
  out.varint32(size);
  out.reserve(size);
  for (let i = 0, end = hex.length; i < size; i++, end -= 2)
    out.bytes[out.pos++] = parseInt(hex.slice(Math.max(0, end - 2), end), 16);
  out.endLength(mark);
}

/** A string with lone surrogates, which have no UTF-8: its units, little-endian. */
export function writeUtf16(out: ByteWriter, value: string): void {
  out.varint32(ValueTag.UTF16);
  out.varint32(value.length * 2);
  out.reserve(value.length * 2);
  for (let i = 0; i < value.length; i++) {
    out.view.setUint16(out.pos, value.charCodeAt(i), true);
    out.pos += 2;
  }
}

/** An array of numbers, packed. */
export function writeNumbers(out: ByteWriter, value: readonly number[]): void {
  out.varint32(ValueTag.NUMBERS);
  const mark = out.beginLength();
  out.u8(FIELD_1);
  out.varint32(value.length * 8);
  out.reserve(value.length * 8);
  const view = out.view;
  let pos = out.pos;
  for (let i = 0; i < value.length; i++, pos += 8) view.setFloat64(pos, value[i] as number, true);
  out.pos = pos;
  out.endLength(mark);
}

/** Whether every element is a number: no holes either. */
export function isNumbers(value: readonly unknown[]): value is readonly number[] {
  for (let i = 0; i < value.length; i++) if (typeof value[i] !== 'number') return false;
  return true;
}

export function isSharedBuffer(value: object): value is SharedArrayBuffer {
  return typeof SharedArrayBuffer !== 'undefined' && value instanceof SharedArrayBuffer;
}

/** A vector of bytes over memory of the program, which may still change it. */
export function tensorOver(bytes: Uint8Array): Tensor {
  const storage = storageFromBytes(bytes);
  storage.escaped = true;
  return untracked(() => tensorFromParts({ storage, dtype: 'uint8', shape: [bytes.length], strides: [1], offset: 0 }));
}

/** Whether a string has UTF-8. */
export function isWellFormed(value: string): boolean {
  return (value as string & { isWellFormed(): boolean }).isWellFormed();
}

/** The string with U+FFFD for what has no UTF-8. */
export function wellFormed(value: string): string {
  return (value as string & { toWellFormed(): string }).toWellFormed();
}
