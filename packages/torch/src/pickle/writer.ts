/** @file What all writers of pickles have: memory that grows, numbers, texts and names as protocol 2 has them, and counting what is remembered. */
import { ByteWriter, limitError } from '@backwire/wire/internal';
import { Op } from './opcode.ts';
import { encodeText } from './text.ts';

const MIN_I32 = -0x8000_0000;
const MAX_I32 = 0x7fff_ffff;
const MAX_I64 = 0x7fff_ffff_ffff_ffffn;

/** Whether a number travels as an int. -0, and what is past 2^53, is a float. */
export function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && !Object.is(value, -0);
}

const FIRST_BYTES = 1024;
/** Memory beyond this is not kept for the next pickle. */
const MAX_KEPT_BYTES = 64 * 1024;
/** Memory of a pickle that is written, for the next one: small ones cost more to get than to fill. */
let spare: ByteWriter | undefined;

function takeSpare(): ByteWriter {
  const out = spare ?? new ByteWriter(FIRST_BYTES);
  spare = undefined;
  out.pos = 0;
  return out;
}

/** Writes instructions. Objects are the subclasses' matter. */
export abstract class PickleWriter {
  /** Until `copied`. */
  readonly out = takeSpare();
  /** How many values have been remembered. */
  protected remembered = 0;
  protected readonly strings = new Map<string, number>();
  protected readonly globals = new Map<string, number>();
  private depth = 0;
  private readonly path: (string | number)[] = [];
  private readonly maxDepth: number;

  constructor(maxDepth: number) {
    this.maxDepth = maxDepth;
  }

  protected abstract object(value: object): void;
  protected abstract integer(value: bigint): void;
  /** A value that is no object and has no form. */
  protected abstract formless(value: unknown): void;

  /** @throws TypeError for a value that has no form, naming its place. */
  value(value: unknown): void {
    switch (typeof value) {
      case 'number':
        return isWhole(value) ? this.int(value) : this.float(value);
      case 'string':
        return this.string(value);
      case 'boolean':
        return this.bool(value);
      case 'bigint':
        return this.integer(value);
      case 'undefined':
        return this.op(Op.NONE);
      case 'object':
        return value === null ? this.op(Op.NONE) : this.object(value);
      default:
        return this.formless(value);
    }
  }

  /** Remembers what is on top; its number. */
  remember(): number {
    const index = this.remembered++;
    if (index < 0x100) this.out.pair(Op.BINPUT, index);
    else this.u32(Op.LONG_BINPUT, index);
    return index;
  }

  /** Strings are remembered by their content. */
  string(value: string): void {
    const known = this.strings.get(value);
    if (known !== undefined) return this.recall(known);
    this.unicode(encodeText(value));
    this.strings.set(value, this.remember());
  }

  protected unicode(bytes: Uint8Array): void {
    this.u32(Op.BINUNICODE, bytes.length);
    this.out.raw(bytes);
  }

  global(module: string, name: string): void {
    const key = `${module}\n${name}\n`;
    const known = this.globals.get(key);
    if (known !== undefined) return this.recall(known);
    this.op(Op.GLOBAL);
    this.out.raw(encodeText(key));
    this.globals.set(key, this.remember());
  }

  /** What was written from `start` on; the last thing that is asked of a writer. */
  protected copied(start: number): Uint8Array {
    const { out } = this;
    const bytes = out.bytes.slice(start, out.pos);
    if (out.bytes.length <= MAX_KEPT_BYTES) spare = out;
    return bytes;
  }

  protected op(code: number): void {
    this.out.u8(code);
  }

  protected bool(value: boolean): void {
    this.op(value ? Op.NEWTRUE : Op.NEWFALSE);
  }

  /** A whole number below 2^53 in its shortest form, larger ones by `long`. */
  protected int(value: number): void {
    const { out } = this;
    out.reserve(5);
    if (value >= 0 && value < 0x100) out.pair(Op.BININT1, value);
    else if (value >= 0 && value < 0x1_0000) {
      out.u8(Op.BININT2);
      out.view.setUint16(out.pos, value, true);
      out.pos += 2;
    } else if (value >= MIN_I32 && value <= MAX_I32) {
      out.u8(Op.BININT);
      out.view.setInt32(out.pos, value, true);
      out.pos += 4;
    } else this.long(BigInt(value));
  }

  /** An integer that four bytes do not hold. */
  protected long(value: bigint): void {
    this.eightBytes(value);
  }

  /** An integer of 64 bits: the only long that torch's C++ side reads. */
  protected eightBytes(value: bigint): void {
    if (value > MAX_I64 || value < -MAX_I64 - 1n) throw new RangeError(`${value}${this.place()} does not fit 64 bits`);
    const { out } = this;
    out.reserve(10);
    out.pair(Op.LONG1, 8);
    out.view.setBigInt64(out.pos, value, true);
    out.pos += 8;
  }

  protected float(value: number): void {
    const { out } = this;
    out.reserve(9);
    out.u8(Op.BINFLOAT);
    out.view.setFloat64(out.pos, value, false);
    out.pos += 8;
  }

  /** Refers to what was remembered as number `index`. */
  protected recall(index: number): void {
    const { out } = this;
    if (index < 0x100) return out.pair(Op.BINGET, index);
    this.u32(Op.LONG_BINGET, index);
  }

  /** An instruction with a number of four bytes. */
  protected u32(code: number, value: number): void {
    const { out } = this;
    out.reserve(5);
    out.u8(code);
    out.view.setUint32(out.pos, value, true);
    out.pos += 4;
  }

  // Where in the value the writer is, for errors.

  protected item(step: string | number, value: unknown): void {
    this.enter(step);
    this.value(value);
    this.leave();
  }

  protected enter(step: string | number): void {
    this.path.push(step);
    if (++this.depth > this.maxDepth)
      throw limitError(`containers in containers${this.place()}`, this.depth, this.maxDepth);
  }

  protected leave(): void {
    this.path.pop();
    this.depth--;
  }

  /** ' at [1].weights', or nothing at the top. */
  protected place(): string {
    if (this.path.length === 0) return '';
    const steps = this.path.slice(0, 8).map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`));
    return ` at ${steps.join('')}${this.path.length > 8 ? '…' : ''}`;
  }
}

/** What a value is called in an error. */
export function nameOf(value: unknown): string {
  if (value === null || value === undefined) return 'None';
  if (typeof value !== 'object') return `a ${typeof value}`;
  const { constructor } = value as { constructor?: unknown };
  if (typeof constructor === 'function' && constructor.name !== '') return `a ${constructor.name}`;
  // Generators have no constructor that is a function.
  const tag = Object.prototype.toString.call(value).slice('[object '.length, -1);
  return tag === 'Object' ? 'an object' : `a ${tag}`;
}
