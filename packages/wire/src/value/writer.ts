/** @file Writes JavaScript values as the protobuf `Value` message, straight into the frame, with no objects in between. */
import { type Tensor } from '@backwire/tensor';
import { type ByteWriter } from '../bytes/byte-writer.ts';
import { checkLimit } from '../errors.ts';
import { OUT_OF_BAND_BYTES, type WireLimits } from '../limits.ts';
import { Positions } from '../bytes/positions.ts';
import {
  ELEMENT_TYPES,
  FIELD_1,
  FIELD_1_VARINT,
  FIELD_2,
  FIELD_3,
  FIELD_3_VARINT,
  FIELD_4,
  Singleton,
  ValueTag,
  bitsOfDigits,
  elementTypeOf,
} from './format.ts';
import {
  isNumbers,
  isSharedBuffer,
  isWellFormed,
  tensorOver,
  wellFormed,
  writeBigInt,
  writeNumbers,
  writeUtf16,
} from './leaves.ts';
import { TaggedValue, type ValueExtension, valueTypeOf } from './types.ts';

const NO_TENSORS: Tensor[] = [];
/** Of buffers and typed arrays of which no class can be registered. */
const BINARY_PROTOTYPES: ReadonlySet<unknown> = new Set<unknown>([
  ArrayBuffer.prototype,
  ...ELEMENT_TYPES.flatMap(({ make }) => (make === undefined ? [] : [make.prototype as unknown])),
]);
/** Strings up to this length give a value shorter than 128 bytes whatever they hold. */
const SHORT_CHARS = 40;
/** UTF-8 bytes of one UTF-16 unit, at most. */
const MAX_BYTES_OF_UNIT = 3;
/** Arrays of numbers from this length on are packed. */
const PACK_FROM = 8;
/** Tensors say so themselves, so that those of a second installed copy of the tensor package are known too. */
const TENSOR = Symbol.for('backwire.isTensor');
/** Handles of packages above say by this, in words, what carries them: no class that can be registered. */
const CARRIED = Symbol.for('backwire.carried');

/** Writes one value at a time. Not reentrant: `ValueCodec` keeps one for each level of nesting. */
export class ValueWriter {
  private out!: ByteWriter;
  private tensors!: Tensor[];
  private readonly positions = new Positions<Tensor>();
  private ctx: unknown;
  private nodes = 0;
  private depth = 0;
  /** The containers around what is being written; undefined past `depth`, so that nothing is kept alive. */
  private readonly ancestors: (object | undefined)[] = [];
  private readonly path: (string | number)[] = [];
  private readonly extensions: readonly ValueExtension[];
  private readonly limits: WireLimits;
  private readonly opaque: boolean;

  constructor(extensions: readonly ValueExtension[], limits: WireLimits, opaque = false) {
    this.extensions = extensions;
    this.limits = limits;
    this.opaque = opaque;
  }

  /**
   * Writes `value` at the end of `out` and adds its tensors to `tensors`.
   * @throws TypeError for a value that cannot travel, WireError 'limit' for one that is too large; both name the place in the value.
   */
  write(out: ByteWriter, value: unknown, tensors: Tensor[], ctx: unknown): void {
    this.out = out;
    this.tensors = tensors;
    this.ctx = ctx;
    this.nodes = 0;
    this.depth = 0;
    try {
      this.value(value);
    } catch (error) {
      this.ancestors.fill(undefined);
      throw error;
    } finally {
      this.positions.reset();
      this.tensors = NO_TENSORS;
      this.ctx = undefined;
    }
  }

  private value(value: unknown): void {
    if (++this.nodes > this.limits.maxValues) this.tooMuch('values', this.nodes, this.limits.maxValues);
    switch (typeof value) {
      case 'number':
        this.number(value);
        return;
      case 'string':
        this.text(value);
        return;
      case 'boolean':
        this.small(ValueTag.BOOLEAN, value ? 1 : 0);
        return;
      case 'undefined':
        this.small(ValueTag.SINGLETON, Singleton.UNDEFINED);
        return;
      case 'bigint':
        this.bigint(value);
        return;
      case 'object':
        if (value === null) this.small(ValueTag.SINGLETON, Singleton.NULL);
        else this.object(value);
        return;
      case 'function':
        if (!this.extended(value))
          throw new TypeError(`cannot send a function${this.place()}; only definitions can be called by peers`);
        return;
      case 'symbol':
        throw new TypeError(`cannot send a symbol${this.place()}`);
    }
  }

  private small(tag: number, value: number): void {
    const out = this.out;
    if (out.pos + 2 > out.bytes.length) out.reserve(2);
    out.bytes[out.pos] = tag;
    out.bytes[out.pos + 1] = value;
    out.pos += 2;
  }

  private number(value: number): void {
    const out = this.out;
    if ((value | 0) === value && (value !== 0 || 1 / value > 0)) {
      out.u8(ValueTag.INTEGER);
      out.varint32(((value << 1) ^ (value >> 31)) >>> 0);
    } else {
      out.u8(ValueTag.NUMBER);
      out.double(value);
    }
  }

  private text(value: string): void {
    const out = this.out;
    if (value.length > SHORT_CHARS) {
      if (value.length > this.limits.maxStringBytes) this.tooMuch('string', value.length, this.limits.maxStringBytes);
    }
    if (!isWellFormed(value)) {
      if (value.length * 2 > this.limits.maxStringBytes)
        this.tooMuch('string', value.length * 2, this.limits.maxStringBytes);
      writeUtf16(this.out, value);
      return;
    }
    out.u8(ValueTag.TEXT);
    const bytes = out.string(value);
    if (bytes > this.limits.maxStringBytes) this.tooMuch('string', bytes, this.limits.maxStringBytes);
  }

  private bigint(value: bigint): void {
    const maxBits = bitsOfDigits(this.limits.maxBigIntDigits);
    if (BigInt.asIntN(64, value) !== value && BigInt.asIntN(maxBits + 1, value) !== value)
      this.tooMuch('bigint bits, at least', maxBits + 1, maxBits);
    writeBigInt(this.out, value);
  }

  private object(value: object): void {
    if (Array.isArray(value)) {
      // Plain ones are the rule; of the others a class may be registered.
      if (Object.getPrototypeOf(value) === Array.prototype || !this.custom(value)) this.list(value);
      return;
    }
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype === Object.prototype || prototype === null) {
      this.plain(value as Record<string, unknown>);
      return;
    }
    if ((value as { [TENSOR]?: unknown })[TENSOR] === true) this.tensor(value as Tensor);
    else if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer || isSharedBuffer(value)) {
      if (BINARY_PROTOTYPES.has(prototype) || !this.custom(value)) this.binary(value);
    } else if (value instanceof Date) {
      if (prototype === Date.prototype || !this.custom(value)) this.date(value);
    } else if (value instanceof Map) {
      if (prototype === Map.prototype || !this.custom(value)) this.map(value);
    } else if (value instanceof Set) {
      if (prototype === Set.prototype || !this.custom(value)) this.set(value);
    } else if (!this.extended(value) && !this.custom(value)) {
      if (value instanceof Error) this.error(value);
      else if (isForeignPlain(prototype)) this.plain(value as Record<string, unknown>);
      else if (typeof (value as { then?: unknown }).then === 'function')
        throw new TypeError(
          `cannot send an instance of ${className(value)}${this.place()}: await it, and send what it resolves with`,
        );
      else if (typeof (value as { [CARRIED]?: unknown })[CARRIED] === 'string')
        throw new TypeError(
          `cannot send an instance of ${className(value)}${this.place()}: ${(value as { [CARRIED]: string })[CARRIED]}`,
        );
      else if (isPlainClass(prototype))
        throw new TypeError(
          `cannot send an object that inherits from another${this.place()}: send a copy, { ...value }`,
        );
      else
        throw new TypeError(
          `cannot send an instance of ${className(value)}${this.place()}: register it with registerValueType`,
        );
    }
  }

  private tensor(value: Tensor): void {
    const tensors = this.tensors;
    let index = this.positions.of(tensors, value);
    if (index < 0) {
      index = tensors.length;
      checkLimit('tensors', index + 1, this.limits.maxTensors);
      tensors.push(value);
    }
    this.out.u8(ValueTag.TENSOR);
    this.out.varint32(index);
  }

  private list(value: readonly unknown[]): void {
    const length = value.length;
    if (length >= PACK_FROM && isNumbers(value)) {
      this.checkDepth();
      writeNumbers(this.out, value);
      return;
    }
    if (length > this.limits.maxValues - this.nodes) this.tooMuch('values', this.nodes + length, this.limits.maxValues);
    this.enter(value);
    const out = this.out;
    out.u8(ValueTag.LIST);
    const mark = out.beginLength();
    for (let i = 0; i < length; i++) this.item(FIELD_1, value[i], i);
    out.endLength(mark);
    this.leave();
  }

  private plain(value: Record<string, unknown>): void {
    this.enter(value);
    const out = this.out;
    out.u8(ValueTag.OBJECT);
    const mark = out.beginLength();
    for (const key of Object.keys(value)) {
      this.path[this.depth - 1] = key;
      this.key(key);
      this.item(FIELD_2, value[key], key);
    }
    out.endLength(mark);
    this.leave();
  }

  private key(key: string): void {
    if (!isWellFormed(key)) throw new TypeError(`cannot send a key that is not well-formed Unicode${this.place()}`);
    this.out.u8(FIELD_1);
    const bytes = this.out.string(key);
    if (bytes > this.limits.maxKeyBytes) this.tooMuch('key', bytes, this.limits.maxKeyBytes);
  }

  private map(value: ReadonlyMap<unknown, unknown>): void {
    this.enter(value);
    this.out.u8(ValueTag.MAP);
    const mark = this.out.beginLength();
    let i = 0;
    for (const [key, item] of value) {
      this.item(FIELD_1, key, `key(${i})`);
      this.item(FIELD_2, item, `value(${i++})`);
    }
    this.out.endLength(mark);
    this.leave();
  }

  private set(value: ReadonlySet<unknown>): void {
    this.enter(value);
    this.out.u8(ValueTag.SET);
    const mark = this.out.beginLength();
    let i = 0;
    for (const item of value) this.item(FIELD_1, item, i++);
    this.out.endLength(mark);
    this.leave();
  }

  private date(value: Date): void {
    this.out.u8(ValueTag.DATE);
    this.out.double(value.getTime());
  }

  private binary(value: ArrayBufferView | ArrayBufferLike): void {
    const out = this.out;
    const bytes = ArrayBuffer.isView(value)
      ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
      : new Uint8Array(value);
    if (bytes.length >= OUT_OF_BAND_BYTES) {
      this.outOfBand(value, bytes);
      return;
    }
    if (value instanceof Uint8Array) {
      out.u8(ValueTag.BYTES);
      out.varint32(bytes.length);
      out.raw(bytes);
      return;
    }
    const element = this.elementType(value);
    out.u8(ValueTag.TYPED_ARRAY);
    const mark = out.beginLength();
    this.small(FIELD_1_VARINT, element);
    out.u8(FIELD_2);
    out.varint32(bytes.length);
    out.raw(bytes);
    out.endLength(mark);
  }

  private elementType(value: ArrayBufferView | ArrayBufferLike): number {
    const tag = ArrayBuffer.isView(value) ? (value as Uint8Array | DataView)[Symbol.toStringTag] : 'ArrayBuffer';
    const element = elementTypeOf(tag);
    if (element === 0) throw new TypeError(`cannot send a ${tag}${this.place()}`);
    return element;
  }

  /** A large typed array: its bytes travel as a tensor of the message. */
  private outOfBand(value: ArrayBufferView | ArrayBufferLike, bytes: Uint8Array): void {
    const out = this.out;
    const element = this.elementType(value);
    const index = this.tensors.length;
    checkLimit('tensors', index + 1, this.limits.maxTensors);
    this.tensors.push(tensorOver(bytes));
    out.u8(ValueTag.TYPED_ARRAY);
    const mark = out.beginLength();
    this.small(FIELD_1_VARINT, element);
    out.u8(FIELD_3_VARINT);
    out.varint32(index);
    out.endLength(mark);
  }

  private error(value: Error): void {
    this.enter(value);
    const out = this.out;
    out.varint32(ValueTag.ERROR);
    const mark = out.beginLength();
    out.u8(FIELD_1);
    // A program may have put anything there; what a peer would refuse is shortened.
    out.string(wellFormed(String(value.name).slice(0, this.limits.maxKeyBytes / MAX_BYTES_OF_UNIT)) || 'Error');
    out.u8(FIELD_2);
    const bytes = out.string(wellFormed(String(value.message)));
    if (bytes > this.limits.maxStringBytes) this.tooMuch('string', bytes, this.limits.maxStringBytes);
    if (Object.hasOwn(value, 'cause')) this.item(FIELD_3, value.cause, 'cause');
    if (value instanceof AggregateError) this.item(FIELD_4, value.errors, 'errors');
    out.endLength(mark);
    this.leave();
  }

  private extended(value: object): boolean {
    for (const extension of this.extensions) {
      if (!extension.match(value)) continue;
      this.tagged(value, ValueTag.EXTENSION, extension.tag, extension.encode(value, this.ctx));
      return true;
    }
    if (!this.opaque || !(value instanceof TaggedValue)) return false;
    this.tagged(value, value.kind === 'type' ? ValueTag.CUSTOM : ValueTag.EXTENSION, value.tag, value.plain);
    return true;
  }

  private custom(value: object): boolean {
    const type = valueTypeOf(value);
    if (type === undefined) return false;
    this.tagged(value, ValueTag.CUSTOM, type.name, type.encode(value));
    return true;
  }

  private tagged(value: object, tag: number, name: string, plain: unknown): void {
    this.enter(value);
    this.out.varint32(tag);
    const mark = this.out.beginLength();
    this.out.u8(FIELD_1);
    this.out.string(name);
    this.item(FIELD_2, plain, `<${name}>`);
    this.out.endLength(mark);
    this.leave();
  }

  /** A nested `Value` as field `tag` of the message being written. */
  private item(tag: number, value: unknown, key: string | number): void {
    const out = this.out;
    const type = typeof value;
    if (
      type === 'number' ||
      type === 'boolean' ||
      value === null ||
      value === undefined ||
      (type === 'string' && (value as string).length <= SHORT_CHARS)
    ) {
      // Shorter than 128 bytes for certain: one length byte.
      out.reserve(2);
      out.bytes[out.pos] = tag;
      out.pos += 2;
      const mark = out.pos - out.start;
      this.path[this.depth - 1] = key;
      this.value(value);
      const from = out.start + mark;
      out.bytes[from - 1] = out.pos - from;
      return;
    }
    out.u8(tag);
    const mark = out.beginLength();
    this.path[this.depth - 1] = key;
    this.value(value);
    out.endLength(mark);
  }

  private enter(value: object): void {
    for (let i = this.depth - 1; i >= 0; i--)
      if (this.ancestors[i] === value) throw new TypeError(`cannot send a value that contains itself${this.place()}`);
    this.checkDepth();
    this.ancestors[this.depth++] = value;
  }

  private checkDepth(): void {
    if (this.depth >= this.limits.maxDepth) this.tooMuch('depth', this.depth + 1, this.limits.maxDepth);
  }

  private leave(): void {
    this.ancestors[--this.depth] = undefined;
  }

  private tooMuch(what: string, value: number, limit: number): never {
    checkLimit(what + this.place(), value, limit);
    throw new Error('invariant: a limit was reported that holds');
  }

  /** Where in the value we are, for messages. */
  private place(): string {
    if (this.depth === 0) return '';
    const keys = this.path.slice(0, this.depth);
    return ` at $${keys.map((key) => (typeof key === 'number' ? `[${key}]` : key.startsWith('<') ? key : `.${shortened(key)}`)).join('')}`;
  }
}

/** A key, short enough for a message. */
function shortened(key: string): string {
  return key.length > MAX_KEY_SHOWN ? `${key.slice(0, MAX_KEY_SHOWN)}…` : key;
}
const MAX_KEY_SHOWN = 40;

/** A plain object of another realm (an iframe, a vm context). */
function isForeignPlain(prototype: unknown): boolean {
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, 'isPrototypeOf');
}

/** Whether `Object.create` made what has this prototype: no class has. */
function isPlainClass(prototype: unknown): boolean {
  const { constructor } = prototype as { constructor?: unknown };
  return constructor === Object || constructor === undefined;
}

function className(value: object): string {
  const constructor: unknown = (value as { constructor?: unknown }).constructor;
  return typeof constructor === 'function' && constructor.name !== ''
    ? `class ${constructor.name}`
    : 'a nameless class';
}
