/** @file Reads the protobuf `Value` message into JavaScript values. Every key of the wire becomes an own property, whatever its name. */
import { type Tensor } from '@backwire/tensor';
import { noteFound, readBytes } from '@backwire/tensor/internal';
import { ByteReader, WireType } from '../bytes/byte-reader.ts';
import { checkLimit, decodeError } from '../errors.ts';
import { KeyCache, MAX_CACHED_KEY_BYTES } from './key-cache.ts';
import { mapOf, setOf } from './keyed.ts';
import { type WireLimits } from '../limits.ts';
import {
  ELEMENT_TYPES,
  ERROR_CLASSES,
  FIELD_1,
  FIELD_1_VARINT,
  FIELD_2,
  FIELD_3,
  FIELD_3_VARINT,
  FIELD_4,
  Singleton,
  ValueTag,
  bitsOfDigits,
} from './format.ts';
import { type Findings, TaggedValue, type ValueExtension, valueTypeNamed } from './types.ts';

const NO_TENSORS: readonly Tensor[] = [];

/** UTF-16 units that are made a string at once: they are arguments of one call. */
const UNITS_AT_ONCE = 4096;
/** Marks an absent field: `undefined` is a value. */
const ABSENT = Symbol('absent');

/** Reads one value at a time. Not reentrant: `ValueCodec` keeps one for each level of nesting. */
export class ValueReader {
  private readonly reader = new ByteReader(new Uint8Array(0));
  private readonly keys = new KeyCache();
  private tensors: readonly Tensor[] = NO_TENSORS;
  /** Storages that have been read as typed arrays. */
  private carriers: Set<Tensor['storage']> | undefined;
  private ctx: unknown;
  private findings: Findings | undefined;
  private nodes = 0;
  private depth = 0;
  private readonly extensions: ReadonlyMap<string, ValueExtension>;
  private readonly limits: WireLimits;
  private readonly opaque: boolean;

  constructor(extensions: readonly ValueExtension[], limits: WireLimits, opaque = false) {
    this.extensions = new Map(extensions.map((extension) => [extension.tag, extension]));
    this.limits = limits;
    this.opaque = opaque;
  }

  /** Reads the value in `bytes[start, end)`. Throws WireError 'decode-error' or 'limit'; nothing of the value refers to `bytes`. */
  read(
    bytes: Uint8Array,
    start: number,
    end: number,
    tensors: readonly Tensor[],
    ctx: unknown,
    findings?: Findings,
  ): unknown {
    this.reader.reset(bytes, start, end);
    this.tensors = tensors;
    this.ctx = ctx;
    this.findings = findings;
    this.nodes = 0;
    this.depth = 0;
    try {
      return this.value();
    } finally {
      this.tensors = NO_TENSORS;
      this.carriers = undefined;
      this.ctx = undefined;
      this.findings = undefined;
    }
  }

  /** The fields of one `Value`, up to the reader's end. The last one counts, as in any protobuf reader. */
  private value(): unknown {
    if (++this.nodes > this.limits.maxValues) checkLimit('values', this.nodes, this.limits.maxValues);
    const reader = this.reader;
    let value: unknown = undefined;
    while (reader.pos < reader.end) value = this.field(reader.varint32(), value);
    return value;
  }

  private field(tag: number, before: unknown): unknown {
    const reader = this.reader;
    switch (tag) {
      case ValueTag.SINGLETON:
        return singleton(reader.varint32());
      case ValueTag.BOOLEAN:
        return reader.varint32() !== 0;
      case ValueTag.INTEGER:
        return reader.zigzag53();
      case ValueTag.NUMBER:
        return reader.double();
      case ValueTag.TEXT:
        return this.text();
      case ValueTag.BYTES:
        return reader.copy8();
      case ValueTag.INT64:
        return reader.fixed64();
      case ValueTag.DATE:
        return new Date(reader.double());
      case ValueTag.TENSOR:
        return this.tensor(reader.varint32());
      case ValueTag.UTF16:
        return this.utf16();
      case ValueTag.LIST:
      case ValueTag.OBJECT:
      case ValueTag.MAP:
      case ValueTag.SET:
      case ValueTag.ERROR:
      case ValueTag.CUSTOM:
      case ValueTag.EXTENSION:
      case ValueTag.NUMBERS:
        return this.container(tag);
      case ValueTag.BIG:
      case ValueTag.TYPED_ARRAY:
        return this.delimited(tag);
      default:
        // A field of a newer writer.
        reader.skip(tag & 7);
        return before;
    }
  }

  private container(tag: number): unknown {
    if (this.depth >= this.limits.maxDepth) checkLimit('depth', this.depth + 1, this.limits.maxDepth);
    this.depth++;
    const value = this.delimited(tag);
    this.depth--;
    return value;
  }

  private delimited(tag: number): unknown {
    const reader = this.reader;
    const outer = reader.end;
    const length = reader.length();
    reader.end = reader.pos + length;
    const value = this.contents(tag);
    reader.end = outer;
    return value;
  }

  private contents(tag: number): unknown {
    switch (tag) {
      case ValueTag.LIST:
        return this.items();
      case ValueTag.OBJECT:
        return this.plain();
      case ValueTag.MAP:
        return this.map();
      case ValueTag.SET:
        return setOf(this.items());
      case ValueTag.ERROR:
        return this.error();
      case ValueTag.BIG:
        return this.big();
      case ValueTag.TYPED_ARRAY:
        return this.typedArray();
      case ValueTag.NUMBERS:
        return this.numbers();
      case ValueTag.CUSTOM:
      case ValueTag.EXTENSION:
        return this.tagged(tag === ValueTag.EXTENSION);
      default:
        throw decodeError(`unknown container ${tag}`);
    }
  }

  private text(): string {
    const length = this.reader.length();
    if (length > this.limits.maxStringBytes) checkLimit('string', length, this.limits.maxStringBytes);
    return this.reader.utf8(length);
  }

  private utf16(): string {
    const { reader } = this;
    const length = reader.length();
    checkLimit('string', length, this.limits.maxStringBytes);
    if (length % 2 !== 0) throw decodeError('a UTF-16 string of odd length');
    const units = new Uint16Array(reader.copy(length).buffer);
    let text = '';
    for (let i = 0; i < units.length; i += UNITS_AT_ONCE)
      text += String.fromCharCode(...units.subarray(i, i + UNITS_AT_ONCE));
    return text;
  }

  private tensor(index: number): Tensor {
    const tensor = this.tensors[index];
    if (tensor === undefined) throw decodeError(`tensor ${index} of ${this.tensors.length}`);
    return tensor;
  }

  /** A nested `Value`, whose tag has been read. */
  private nested(): unknown {
    const reader = this.reader;
    const outer = reader.end;
    const length = reader.length();
    const end = reader.pos + length;
    reader.end = end;
    const value = this.value();
    reader.pos = end;
    reader.end = outer;
    return value;
  }

  private items(): unknown[] {
    const reader = this.reader;
    let items: unknown[] | undefined;
    while (reader.pos < reader.end) {
      const tag = reader.varint32();
      if (tag !== FIELD_1) reader.skip(tag & 7);
      // A literal: the first push onto an empty array takes room for seventeen, and most calls have one argument.
      else if (items === undefined) items = [this.nested()];
      else items.push(this.nested());
    }
    return items ?? [];
  }

  private key(): string {
    const reader = this.reader;
    const length = reader.length();
    if (length > this.limits.maxKeyBytes) checkLimit('key', length, this.limits.maxKeyBytes);
    if (length > 0 && length <= MAX_CACHED_KEY_BYTES) {
      const known = this.keys.get(reader.bytes, reader.pos, length);
      if (known !== undefined) {
        reader.pos += length;
        return known;
      }
    }
    return reader.utf8(length);
  }

  /** Keys and values alternate when this library wrote them; other writers may group them. */
  private plain(): object {
    const reader = this.reader;
    const object: Record<string, unknown> = {};
    while (reader.pos < reader.end) {
      const at = reader.pos;
      if (reader.varint32() === FIELD_1) {
        const key = this.key();
        if (reader.pos < reader.end && reader.bytes[reader.pos] === FIELD_2) {
          reader.pos++;
          put(object, key, this.nested());
          continue;
        }
      }
      reader.pos = at;
      this.grouped(object);
    }
    return object;
  }

  /** The rest of an object whose keys and values do not alternate. */
  private grouped(object: Record<string, unknown>): void {
    const reader = this.reader;
    const keys: string[] = [];
    const values: unknown[] = [];
    while (reader.pos < reader.end) {
      const tag = reader.varint32();
      if (tag === FIELD_1) keys.push(this.key());
      else if (tag === FIELD_2) values.push(this.nested());
      else reader.skip(tag & 7);
    }
    if (keys.length !== values.length)
      throw decodeError(`an object of ${keys.length} more keys and ${values.length} values`);
    for (let i = 0; i < keys.length; i++) put(object, keys[i] as string, values[i]);
  }

  private map(): Map<unknown, unknown> {
    const reader = this.reader;
    const keys: unknown[] = [];
    const values: unknown[] = [];
    while (reader.pos < reader.end) {
      const tag = reader.varint32();
      if (tag === FIELD_1) keys.push(this.nested());
      else if (tag === FIELD_2) values.push(this.nested());
      else reader.skip(tag & 7);
    }
    if (keys.length !== values.length) throw decodeError(`a map of ${keys.length} keys and ${values.length} values`);
    return mapOf(keys, values);
  }

  private big(): bigint {
    const reader = this.reader;
    let negative = false;
    let hex = '';
    while (reader.pos < reader.end) {
      const tag = reader.varint32();
      if (tag === FIELD_1_VARINT) negative = reader.varint32() !== 0;
      else if (tag === FIELD_2) {
        const magnitude = reader.view8();
        checkLimit('bigint bytes', magnitude.length, Math.ceil(bitsOfDigits(this.limits.maxBigIntDigits) / 8));
        hex = '';
        for (let i = magnitude.length - 1; i >= 0; i--) hex += (magnitude[i] as number).toString(16).padStart(2, '0');
      } else reader.skip(tag & 7);
    }
    const value = hex === '' ? 0n : BigInt(`0x${hex}`);
    const maxBits = bitsOfDigits(this.limits.maxBigIntDigits);
    if (BigInt.asUintN(maxBits, value) !== value) checkLimit('bigint bits, at least', maxBits + 1, maxBits);
    return negative ? -value : value;
  }

  private typedArray(): unknown {
    const reader = this.reader;
    let element = 0;
    let data: Uint8Array | undefined;
    while (reader.pos < reader.end) {
      const tag = reader.varint32();
      if (tag === FIELD_1_VARINT) element = reader.varint32();
      else if (tag === FIELD_2) data = reader.view8();
      else if (tag === FIELD_3_VARINT) data = this.carried(reader.varint32());
      else reader.skip(tag & 7);
    }
    const type = ELEMENT_TYPES[element];
    if (type === undefined || element === 0) throw decodeError(`unknown element type ${element}`);
    const length = data?.length ?? 0;
    if (length % type.bytes !== 0) throw decodeError(`${length} bytes are no ${type.name}`);
    const copy = new Uint8Array(length);
    if (data !== undefined) copy.set(data);
    return type.make === undefined ? copy.buffer : new type.make(copy.buffer);
  }

  /** The bytes of a tensor that carries a typed array; each storage carries one, or a small message could ask for any amount of memory. */
  private carried(index: number): Uint8Array {
    const tensor = this.tensor(index);
    if (tensor.dtype !== 'uint8' || tensor.rank !== 1 || tensor.strides[0] !== 1)
      throw decodeError('a typed array in a tensor that is no vector of bytes');
    const carriers = (this.carriers ??= new Set());
    if (carriers.has(tensor.storage)) throw decodeError(`the storage of tensor ${index} carries two typed arrays`);
    carriers.add(tensor.storage);
    return readBytes(tensor);
  }

  /** Packed numbers count as one value: they take no more memory than they had bytes. */
  private numbers(): number[] {
    const reader = this.reader;
    const numbers: number[] = [];
    while (reader.pos < reader.end) {
      const tag = reader.varint32();
      if (tag === FIELD_1) {
        const length = reader.length();
        if (length % 8 !== 0) throw decodeError('packed numbers of a broken length');
        for (let i = 0; i < length; i += 8) numbers.push(reader.view.getFloat64(reader.pos + i, true));
        reader.pos += length;
      } else if (tag === ((1 << 3) | WireType.FIXED64)) numbers.push(reader.double());
      else reader.skip(tag & 7);
    }
    return numbers;
  }

  private error(): Error {
    const reader = this.reader;
    let name = 'Error';
    let message = '';
    let cause: unknown = ABSENT;
    let errors: unknown = ABSENT;
    while (reader.pos < reader.end) {
      const tag = reader.varint32();
      if (tag === FIELD_1) name = this.key();
      else if (tag === FIELD_2) message = this.text();
      else if (tag === FIELD_3) cause = this.nested();
      else if (tag === FIELD_4) errors = this.nested();
      else reader.skip(tag & 7);
    }
    const error =
      errors === ABSENT
        ? new (ERROR_CLASSES.get(name) ?? Error)(message)
        : new AggregateError(Array.isArray(errors) ? errors : [], message);
    if (error.name !== name) Object.defineProperty(error, 'name', { value: name, configurable: true, writable: true });
    if (cause !== ABSENT) Object.defineProperty(error, 'cause', { value: cause, configurable: true, writable: true });
    // Our own stack would point into this reader, which says nothing.
    Object.defineProperty(error, 'stack', { value: `${name}: ${message}`, configurable: true, writable: true });
    return error;
  }

  private tagged(extension: boolean): unknown {
    const reader = this.reader;
    let name: string | undefined;
    let plain: unknown = ABSENT;
    while (reader.pos < reader.end) {
      const tag = reader.varint32();
      if (tag === FIELD_1) name = this.key();
      else if (tag === FIELD_2) plain = this.nested();
      else reader.skip(tag & 7);
    }
    if (name === undefined || plain === ABSENT) throw decodeError('a tagged value without a tag or a value');
    if (extension) {
      const known = this.extensions.get(name);
      if (known === undefined && this.opaque) return new TaggedValue('extension', name, plain);
      if (known === undefined) throw decodeError(`no extension for values of kind '${name}'`);
      return known.decode(plain, this.ctx);
    }
    const type = valueTypeNamed(name);
    if (type === undefined && this.opaque) return new TaggedValue('type', name, plain);
    if (type === undefined) throw decodeError(`no value type is registered as '${name}'`);
    const { findings } = this;
    if (findings === undefined) return type.decode(plain);
    return noteFound(
      plain,
      () => type.decode(plain),
      (handle) => (findings.found ??= new Set()).add(handle),
    );
  }
}

/** Adds an own property. One that the prototype has, '__proto__' first of all, is not assigned to: that could call a setter, or be refused. */
function put(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key in object)
    Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true });
  else object[key] = value;
}

function singleton(value: number): null | undefined {
  if (value === Singleton.NULL) return null;
  if (value === Singleton.UNDEFINED) return undefined;
  throw decodeError(`unknown singleton ${value}`);
}
