/** @file Writes protobuf wire format and fixed-width fields into memory that grows. */

const TWO_32 = 0x1_0000_0000;
/** Up to this many UTF-16 units a loop beats the call into the encoder. */
const LOOP_CHARS = 48;
/** Above this many units the worst case of three bytes a unit is too much memory to reserve for nothing. */
const LARGE_CHARS = 32 * 1024;
const encoder = new TextEncoder();

/**
 * A cursor in a piece of memory. When the memory is full `onGrow` must give it more room: by default it doubles; a frame writer
 * moves the unfinished frame to another slab. Offsets kept by callers are relative to `start`, which may move.
 */
export class ByteWriter {
  bytes: Uint8Array;
  view: DataView;
  /** Next byte to write. */
  pos = 0;
  /** Where what is being written begins; `onGrow` keeps the bytes from here on. */
  start = 0;
  private readonly onGrow: ((writer: ByteWriter, bytes: number) => void) | undefined;

  constructor(bytes: Uint8Array | number = 256, onGrow?: (writer: ByteWriter, bytes: number) => void) {
    this.bytes = typeof bytes === 'number' ? new Uint8Array(bytes) : bytes;
    this.view = new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength);
    this.onGrow = onGrow;
  }

  /** Continues in other memory. */
  adopt(bytes: Uint8Array, view: DataView, start: number, pos: number): void {
    this.bytes = bytes;
    this.view = view;
    this.start = start;
    this.pos = pos;
  }

  /** Makes room for `count` more bytes. */
  reserve(count: number): void {
    if (this.pos + count > this.bytes.length) this.grow(count);
  }

  /** What was written since `start`, as a view. */
  written(): Uint8Array {
    return this.bytes.subarray(this.start, this.pos);
  }

  /** What was written since `start`, as a copy. */
  finish(): Uint8Array {
    return this.bytes.slice(this.start, this.pos);
  }

  u8(value: number): void {
    if (this.pos + 1 > this.bytes.length) this.grow(1);
    this.bytes[this.pos++] = value;
  }

  /** Two bytes: a tag below 128 and a value below 128. */
  pair(first: number, second: number): void {
    if (this.pos + 2 > this.bytes.length) this.grow(2);
    this.bytes[this.pos] = first;
    this.bytes[this.pos + 1] = second;
    this.pos += 2;
  }

  /** An unsigned varint below 2^32. */
  varint32(value: number): void {
    if (this.pos + 5 > this.bytes.length) this.grow(5);
    const bytes = this.bytes;
    let pos = this.pos;
    let rest = value >>> 0;
    while (rest > 0x7f) {
      bytes[pos++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    bytes[pos++] = rest;
    this.pos = pos;
  }

  /** An unsigned varint of a safe integer. */
  varint53(value: number): void {
    if (value < TWO_32) {
      this.varint32(value);
      return;
    }
    this.reserve(8);
    let rest = value;
    while (rest > 0x7f) {
      this.bytes[this.pos++] = (rest % 128) | 0x80;
      rest = Math.floor(rest / 128);
    }
    this.bytes[this.pos++] = rest;
  }

  double(value: number): void {
    if (this.pos + 8 > this.bytes.length) this.grow(8);
    this.view.setFloat64(this.pos, value, true);
    this.pos += 8;
  }

  /** Bytes as they are, without a length. */
  raw(value: Uint8Array): void {
    this.reserve(value.length);
    this.bytes.set(value, this.pos);
    this.pos += value.length;
  }

  /** A length and the UTF-8 of a well-formed string; returns the UTF-8 length. */
  string(value: string): number {
    const units = value.length;
    if (units <= LOOP_CHARS) {
      this.reserve(1 + units * 3);
      const bytes = this.bytes;
      const at = this.pos;
      let pos = at + 1;
      let i = 0;
      for (; i < units; i++) {
        const code = value.charCodeAt(i);
        if (code > 0x7f) break;
        bytes[pos++] = code;
      }
      if (i === units) {
        bytes[at] = units;
        this.pos = pos;
        return units;
      }
    }
    return this.longString(value);
  }

  private longString(value: string): number {
    if (value.length > LARGE_CHARS) {
      const bytes = encoder.encode(value);
      this.varint32(bytes.length);
      this.raw(bytes);
      return bytes.length;
    }
    this.reserve(5 + value.length * 3);
    const at = this.pos;
    const guess = varintBytes(value.length);
    const { written } = encoder.encodeInto(value, this.bytes.subarray(at + guess));
    const size = varintBytes(written);
    if (size !== guess) this.bytes.copyWithin(at + size, at + guess, at + guess + written);
    this.varint32(written);
    this.pos = at + size + written;
    return written;
  }

  /** Starts a length-delimited field whose length is not known yet; returns a mark for `endLength`. */
  beginLength(): number {
    if (this.pos + 2 > this.bytes.length) this.grow(2);
    this.pos += 2;
    return this.pos - this.start;
  }

  /** Fills in the length of what was written since `mark`. Two bytes are kept for it; a longer content moves up. */
  endLength(mark: number): void {
    const from = this.start + mark;
    const length = this.pos - from;
    if (length < 0x80) {
      // A padded varint: valid protobuf, and the content stays where it is.
      this.bytes[from - 2] = length | 0x80;
      this.bytes[from - 1] = 0;
      return;
    }
    if (length < 0x4000) {
      this.bytes[from - 2] = (length & 0x7f) | 0x80;
      this.bytes[from - 1] = length >>> 7;
      return;
    }
    this.endLongLength(mark, length);
  }

  private endLongLength(mark: number, length: number): void {
    const extra = varintBytes(length) - 2;
    this.reserve(extra);
    const from = this.start + mark;
    this.bytes.copyWithin(from + extra, from, from + length);
    this.pos = from - 2;
    this.varint32(length);
    this.pos = from + extra + length;
  }

  private grow(count: number): void {
    if (this.onGrow !== undefined) {
      this.onGrow(this, count);
      return;
    }
    const bytes = new Uint8Array(Math.max(this.bytes.length * 2, this.pos + count));
    bytes.set(this.bytes.subarray(0, this.pos));
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer);
  }
}

/** Bytes of the varint of a number below 2^32. */
function varintBytes(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : value < 0x1000_0000 ? 4 : 5;
}
