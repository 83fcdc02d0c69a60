/** @file Reads libnop out of untrusted bytes: every count is checked against a limit and against what is left. */
import { checkLimit, decodeError } from '@backwire/wire/internal';
import { Prefix } from './format.ts';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export interface NopLimits {
  readonly maxEntries: number;
  readonly maxStringBytes: number;
}

/** A cursor over one object. @throws WireError 'decode-error' or 'limit' for anything malformed. */
export class NopReader {
  private readonly bytes: Uint8Array;
  private readonly view: DataView;
  private readonly limits: NopLimits;
  private pos = 0;

  constructor(bytes: Uint8Array, limits: NopLimits) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.limits = limits;
  }

  /** An unsigned integer below 2^53. */
  uint(): number {
    const prefix = this.byte();
    if (prefix < 0x80) return prefix;
    switch (prefix) {
      case Prefix.U8:
        return this.byte();
      case Prefix.U16:
        return this.view.getUint16(this.take(2), true);
      case Prefix.U32:
        return this.view.getUint32(this.take(4), true);
      case Prefix.U64:
        return this.safe(this.view.getBigUint64(this.take(8), true));
      default:
        throw decodeError(`an unsigned integer begins with 0x${prefix.toString(16)}`);
    }
  }

  /** UTF-8 text. */
  string(): string {
    this.expect(Prefix.STRING, 'string');
    const length = this.uint();
    checkLimit('string of a handshake', length, this.limits.maxStringBytes);
    const from = this.take(length);
    if (length === 0) return '';
    if (length === 3 && this.isCpu(from)) return 'cpu';
    try {
      return decoder.decode(this.bytes.subarray(from, this.pos));
    } catch (cause) {
      throw decodeError('a string is not UTF-8', cause);
    }
  }

  /** The name of the one device that nearly all messages are for. */
  private isCpu(at: number): boolean {
    const { bytes } = this;
    return bytes[at] === 0x63 && bytes[at + 1] === 0x70 && bytes[at + 2] === 0x75;
  }

  /** The head of a structure, which has exactly `fields` fields. */
  structure(fields: number): void {
    this.expect(Prefix.STRUCTURE, 'structure');
    const count = this.uint();
    if (count !== fields) throw decodeError(`a structure of ${count} fields, not ${fields}`);
  }

  /** The head of a variant: which of its types follows. */
  variant(): number {
    this.expect(Prefix.VARIANT, 'variant');
    return this.uint();
  }

  /** An array, each element read by `item`. */
  array<T>(item: () => T): T[] {
    this.expect(Prefix.ARRAY, 'array');
    const count = this.count();
    const items: T[] = [];
    for (let i = 0; i < count; i++) items.push(item());
    return items;
  }

  /** A pair, which libnop writes as an array of two. */
  pair<A, B>(first: () => A, second: () => B): readonly [A, B] {
    this.expect(Prefix.ARRAY, 'pair');
    if (this.uint() !== 2) throw decodeError('a pair of other than two');
    return [first(), second()];
  }

  /** A map with keys read by `key`; of equal keys the last stays. */
  map<K, V>(key: () => K, value: () => V): Map<K, V> {
    this.expect(Prefix.MAP, 'map');
    const count = this.count();
    const map = new Map<K, V>();
    for (let i = 0; i < count; i++) {
      const name = key();
      map.set(name, value());
    }
    return map;
  }

  /** A vector of 64-bit numbers, each below 2^53. */
  vector(): number[] {
    this.expect(Prefix.BINARY, 'vector');
    const nbytes = this.uint();
    if (nbytes % 8 !== 0) throw decodeError(`a vector of ${nbytes} bytes`);
    checkLimit('entries of a vector', nbytes / 8, this.limits.maxEntries);
    const from = this.take(nbytes);
    return Array.from({ length: nbytes / 8 }, (_, i) => this.safe(this.view.getBigUint64(from + 8 * i, true)));
  }

  /** A value that may be missing. */
  optional<T>(value: () => T): T | undefined {
    if (this.bytes[this.pos] !== Prefix.NIL) return value();
    this.pos++;
    return undefined;
  }

  /** Nothing follows. */
  end(): void {
    if (this.pos !== this.bytes.length) throw decodeError(`${this.bytes.length - this.pos} bytes after the object`);
  }

  private count(): number {
    const count = this.uint();
    checkLimit('entries', count, this.limits.maxEntries);
    if (count > this.bytes.length - this.pos) throw decodeError(`${count} entries in fewer bytes`);
    return count;
  }

  private expect(prefix: number, what: string): void {
    const found = this.byte();
    if (found !== prefix) throw decodeError(`no ${what} but 0x${found.toString(16)}`);
  }

  private byte(): number {
    return this.bytes[this.take(1)] as number;
  }

  private take(count: number): number {
    const { pos } = this;
    if (count > this.bytes.length - pos) throw decodeError('an object is cut off');
    this.pos = pos + count;
    return pos;
  }

  private safe(value: bigint): number {
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw decodeError(`${value} is past 2^53`);
    return Number(value);
  }
}
