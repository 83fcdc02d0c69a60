/** @file Reads protobuf wire format out of untrusted bytes: every read is checked against the end, nothing is allocated for a length alone. */
import { decodeError } from '../errors.ts';

/** Protobuf wire types this format uses. */
export const WireType = { VARINT: 0, FIXED64: 1, LENGTH: 2, FIXED32: 5 } as const;

const TWO_32 = 0x1_0000_0000;
/** Up to this many bytes a loop over ASCII beats the call into the decoder. */
const LOOP_BYTES = 12;
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A cursor over bytes that came from a peer. Throws `decode-error` for anything malformed. */
export class ByteReader {
  bytes: Uint8Array;
  pos: number;
  /** First byte that must not be read; nested messages narrow it. */
  end: number;
  private shown: DataView | undefined;

  constructor(bytes: Uint8Array, start = 0, end = bytes.length) {
    this.bytes = bytes;
    this.shown = undefined;
    this.pos = start;
    this.end = end;
  }

  /** Continues with other bytes; cheap when they are the same array as before. */
  reset(bytes: Uint8Array, start: number, end: number): void {
    if (bytes !== this.bytes) {
      this.bytes = bytes;
      this.shown = undefined;
    }
    this.pos = start;
    this.end = end;
  }

  /** Made when it is first asked for: for a small array that gets its memory outside of the heap, which costs more than reading it. */
  get view(): DataView {
    return (this.shown ??= new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength));
  }

  /** A varint that must fit an unsigned 32-bit number. */
  varint32(): number {
    const pos = this.pos;
    if (pos < this.end) {
      const first = this.bytes[pos] as number;
      if (first < 0x80) {
        this.pos = pos + 1;
        return first;
      }
    }
    const value = this.varint53();
    if (value >= TWO_32) throw decodeError('a varint is past 2^32');
    return value;
  }

  /** A varint that must be a safe integer. */
  varint53(): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < 10; i++) {
      if (this.pos >= this.end) throw decodeError('a varint is cut off');
      const byte = this.bytes[this.pos++] as number;
      value += (byte & 0x7f) * scale;
      if (value > Number.MAX_SAFE_INTEGER) throw decodeError('a varint is past 2^53');
      if (byte < 0x80) return value;
      scale *= 128;
    }
    throw decodeError('a varint is longer than ten bytes');
  }

  /** A zigzag varint whose value must be a safe integer. */
  zigzag53(): number {
    const pos = this.pos;
    if (pos < this.end) {
      const first = this.bytes[pos] as number;
      if (first < 0x80) {
        this.pos = pos + 1;
        return (first >>> 1) ^ -(first & 1);
      }
    }
    const raw = this.varint64();
    const value = (raw >> 1n) ^ -(raw & 1n);
    if (value > Number.MAX_SAFE_INTEGER || value < -Number.MAX_SAFE_INTEGER)
      throw decodeError('an integer is past 2^53');
    return Number(value);
  }

  private varint64(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (this.pos >= this.end) throw decodeError('a varint is cut off');
      const byte = this.bytes[this.pos++] as number;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw decodeError('a varint is longer than ten bytes');
  }

  double(): number {
    const pos = this.take(8);
    return this.view.getFloat64(pos, true);
  }

  fixed64(): bigint {
    const pos = this.take(8);
    return this.view.getBigInt64(pos, true);
  }

  /** The length of a length-delimited field; that many bytes are there. */
  length(): number {
    const length = this.varint32();
    if (length > this.end - this.pos) throw decodeError('a length runs past the end');
    return length;
  }

  /** A length-delimited field as a view. */
  view8(): Uint8Array {
    const length = this.length();
    const pos = this.pos;
    this.pos += length;
    return this.bytes.subarray(pos, pos + length);
  }

  /** A length-delimited field as a copy, also out of a Buffer, whose `slice` is a view. */
  copy8(): Uint8Array<ArrayBuffer> {
    return this.copy(this.length());
  }

  /** A copy of the next `length` bytes, which `length()` has checked. */
  copy(length: number): Uint8Array<ArrayBuffer> {
    const copy = new Uint8Array(length);
    copy.set(this.bytes.subarray(this.pos, this.pos + length));
    this.pos += length;
    return copy;
  }

  /** UTF-8 of `length` bytes, which `length()` has checked. */
  utf8(length: number): string {
    const from = this.pos;
    const end = from + length;
    this.pos = end;
    if (length <= LOOP_BYTES) {
      let text = '';
      let i = from;
      for (; i < end; i++) {
        const byte = this.bytes[i] as number;
        if (byte > 0x7f) break;
        text += String.fromCharCode(byte);
      }
      if (i === end) return text;
    }
    try {
      return decoder.decode(this.bytes.subarray(from, end));
    } catch (cause) {
      throw decodeError('a string is not UTF-8', cause);
    }
  }

  /** Skips a field of an unknown number: old readers must accept what newer writers add. */
  skip(wireType: number): void {
    if (wireType === WireType.VARINT) this.varint64();
    else if (wireType === WireType.FIXED64) this.take(8);
    else if (wireType === WireType.LENGTH) {
      const length = this.length();
      this.pos += length;
    } else if (wireType === WireType.FIXED32) this.take(4);
    else throw decodeError(`unknown wire type ${wireType}`);
  }

  private take(count: number): number {
    const pos = this.pos;
    if (count > this.end - pos) throw decodeError('a field is cut off');
    this.pos = pos + count;
    return pos;
  }
}
