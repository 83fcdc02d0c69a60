/** @file Writes libnop as TensorPipe reads it. */
import { ByteWriter } from '@backwire/wire/internal';
import { Prefix } from './format.ts';

const encoder = new TextEncoder();

/** Writes one object; the mirror of `NopReader`. */
export class NopWriter {
  private readonly out = new ByteWriter(256);

  /** An integer from 0 to 2^53 in its shortest form. */
  uint(value: number): this {
    const { out } = this;
    if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${value} is no natural number below 2^53`);
    out.reserve(9);
    if (value < 0x80) out.u8(value);
    else if (value < 0x100) out.pair(Prefix.U8, value);
    else if (value < 0x1_0000) {
      out.u8(Prefix.U16);
      out.view.setUint16(out.pos, value, true);
      out.pos += 2;
    } else if (value < 0x1_0000_0000) {
      out.u8(Prefix.U32);
      out.view.setUint32(out.pos, value, true);
      out.pos += 4;
    } else {
      out.u8(Prefix.U64);
      out.view.setBigUint64(out.pos, BigInt(value), true);
      out.pos += 8;
    }
    return this;
  }

  string(value: string): this {
    this.out.u8(Prefix.STRING);
    if (value === '') return this.uint(0);
    const bytes = encoder.encode(value);
    this.uint(bytes.length);
    this.out.raw(bytes);
    return this;
  }

  structure(fields: number): this {
    this.out.u8(Prefix.STRUCTURE);
    return this.uint(fields);
  }

  variant(index: number): this {
    this.out.u8(Prefix.VARIANT);
    return this.uint(index);
  }

  array<T>(items: readonly T[], item: (value: T) => void): this {
    this.out.u8(Prefix.ARRAY);
    this.uint(items.length);
    for (const value of items) item(value);
    return this;
  }

  /** The head of a pair; its two values follow. */
  pair(): this {
    this.out.u8(Prefix.ARRAY);
    return this.uint(2);
  }

  map<K, V>(entries: ReadonlyMap<K, V>, key: (value: K) => void, value: (value: V) => void): this {
    this.out.u8(Prefix.MAP);
    this.uint(entries.size);
    for (const [name, content] of entries) {
      key(name);
      value(content);
    }
    return this;
  }

  vector(values: readonly number[]): this {
    const { out } = this;
    out.u8(Prefix.BINARY);
    this.uint(values.length * 8);
    out.reserve(values.length * 8);
    for (const value of values) {
      out.view.setBigUint64(out.pos, BigInt(value), true);
      out.pos += 8;
    }
    return this;
  }

  finish(): Uint8Array {
    return this.out.finish();
  }
}
