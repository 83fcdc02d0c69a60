/** @file The machine that runs a pickle: its stack, marks and memo, each bounded. What an instruction does is in `instructions.ts`. */
import { ByteReader, WireError, checkLimit } from '@backwire/wire/internal';
import type { TorchLimits } from '../limits.ts';
import { PyName } from '../values/name.ts';
import { Op, opName } from './opcode.ts';
import { NotOfferedError, quoted, refuse } from './refusal.ts';

/** One instruction: its code has been read. */
export type Instruction = (machine: Machine) => void;

/** Instructions by their codes. */
export type InstructionTable = readonly (Instruction | undefined)[];

/** The table of these instructions; whatever else comes is refused. */
export function instructionTable(...groups: (readonly (readonly [number, Instruction])[])[]): InstructionTable {
  const table = new Array<Instruction | undefined>(256).fill(undefined);
  for (const [code, instruction] of groups.flat()) table[code] = instruction;
  return table;
}

/** A language of pickles: what may stand in one. */
export interface Dialect {
  /** For errors: 'a pickle of a call'. */
  readonly name: string;
  readonly protocols: readonly number[];
  /** By code; what is missing is refused. */
  readonly instructions: InstructionTable;
  readonly list: () => unknown[];
  readonly dict: () => Map<unknown, unknown>;
  readonly float: (value: number) => unknown;
  /** Text of a BINUNICODE. */
  readonly text: (input: ByteReader, length: number) => unknown;
  /** What a name stands for; undefined: not on the list, and not offered. */
  readonly global: (module: string, name: string) => unknown;
  /** What the id of something outside of the pickle stands for. */
  readonly persistent: (id: unknown) => unknown;
}

/** A name that is not on the list. It may only stand where a name means nothing but itself: the class of a remote error. */
class UnknownName extends PyName {}

/** An object that another takes the place of when its state comes: what is built is what stays. */
export abstract class Unbuilt {
  /** Where the memo keeps it. */
  memoIndex = -1;
  abstract build(state: unknown): unknown;
}

/** Runs one pickle. */
export class Machine {
  readonly input: ByteReader;
  readonly dialect: Dialect;
  readonly stack: unknown[] = [];
  private readonly limits: TorchLimits;
  private readonly marks: number[] = [];
  private readonly memo: unknown[] = [];
  private objects = 0;
  /** Items, and bytes, that calls of names may have copied. */
  private copiedItems = 0;
  private copiedBytes = 0;
  /** Names that are not on the list and stand on the stack, or somewhere in a value. */
  private unknown = 0;
  private lastUnknown = '';
  /** The first of them that was called. */
  private calledUnknown: string | undefined;
  private unbuilt = 0;

  constructor(bytes: Uint8Array, dialect: Dialect, limits: TorchLimits) {
    this.input = new ByteReader(bytes);
    this.dialect = dialect;
    this.limits = limits;
  }

  /** @throws WireError 'decode-error' or 'limit'; NotOfferedError for a name that is not on the list. */
  run(): unknown {
    try {
      return this.read();
    } catch (error) {
      // What else does not fit may be for want of what that name would have made.
      if (this.calledUnknown === undefined || !(error instanceof WireError) || error.code === 'limit') throw error;
      throw new NotOfferedError(this.calledUnknown);
    }
  }

  private read(): unknown {
    const { input, stack } = this;
    const { instructions, name } = this.dialect;
    const { maxPickleOps, maxPickleStack } = this.limits;
    let left = maxPickleOps;
    this.proto();
    for (;;) {
      if (input.pos >= input.end) throw refuse(`${name} has no end`);
      const code = input.bytes[input.pos++] as number;
      if (code === Op.STOP) return this.result();
      const instruction = instructions[code];
      if (instruction === undefined) throw refuse(`${name} has the instruction ${opName(code)}`);
      instruction(this);
      if (--left < 0) checkLimit('instructions of a pickle', maxPickleOps + 1, maxPickleOps);
      if (stack.length > maxPickleStack) checkLimit('values on the stack of a pickle', stack.length, maxPickleStack);
    }
  }

  private proto(): void {
    const { name, protocols } = this.dialect;
    const code = this.u8();
    const protocol = this.u8();
    if (code !== Op.PROTO || !protocols.includes(protocol))
      throw refuse(`${name} begins with ${opName(code)} ${protocol}`);
  }

  private result(): unknown {
    const { input, stack, dialect } = this;
    if (input.pos !== input.end) throw refuse(`${input.end - input.pos} bytes after the end of ${dialect.name}`);
    if (stack.length !== 1 || this.marks.length > 0) throw refuse(`${dialect.name} ends with ${stack.length} values`);
    const unknown = this.calledUnknown ?? (this.unknown > 0 ? this.lastUnknown : undefined);
    if (unknown !== undefined) throw new NotOfferedError(unknown);
    if (this.unbuilt > 0) throw refuse(`${dialect.name} holds an object without its state`);
    return stack[0];
  }

  // What instructions read.

  u8(): number {
    return this.input.bytes[this.take(1)] as number;
  }

  u16(): number {
    return this.input.view.getUint16(this.take(2), true);
  }

  u32(): number {
    return this.input.view.getUint32(this.take(4), true);
  }

  i32(): number {
    return this.input.view.getInt32(this.take(4), true);
  }

  f64(): number {
    return this.input.view.getFloat64(this.take(8), false);
  }

  /** A length of eight bytes. */
  length8(): number {
    const length = this.input.view.getBigUint64(this.take(8), true);
    if (length > BigInt(this.input.end)) throw refuse('a length in a pickle runs past its end');
    return Number(length);
  }

  /** Says that `count` bytes are read; where they begin. */
  take(count: number): number {
    const { input } = this;
    const { pos } = input;
    if (count > input.end - pos) throw refuse('a pickle is cut off');
    input.pos = pos + count;
    return pos;
  }

  /** Says that `count` bytes follow. */
  need(count: number): number {
    const { input } = this;
    if (count > input.end - input.pos) throw refuse('a length in a pickle runs past its end');
    return count;
  }

  /** Text up to the end of the line: half of a GLOBAL. */
  line(): string {
    const { input } = this;
    const end = input.bytes.indexOf(0x0a, input.pos);
    if (end < 0 || end >= input.end) throw refuse('a name in a pickle has no end');
    const length = end - input.pos;
    checkLimit('name in a pickle', length, this.limits.maxNameBytes);
    const text = input.utf8(length);
    input.pos = end + 1;
    return text;
  }

  // What instructions do to the stack.

  pop(): unknown {
    const { stack, marks } = this;
    if (stack.length <= (marks.at(-1) ?? 0)) throw refuse('a pickle takes from an empty stack');
    return stack.pop();
  }

  top(): unknown {
    const { stack, marks } = this;
    if (stack.length <= (marks.at(-1) ?? 0)) throw refuse('a pickle looks at an empty stack');
    return stack[stack.length - 1];
  }

  mark(): void {
    const { marks, stack, limits } = this;
    if (marks.push(stack.length) > limits.maxPickleMarks)
      checkLimit('marks of a pickle', marks.length, limits.maxPickleMarks);
  }

  /** What was put on the stack since the last mark. */
  popMark(): unknown[] {
    const start = this.marks.pop();
    if (start === undefined) throw refuse('a pickle has no mark');
    return this.stack.splice(start);
  }

  /** Counts a container, a name or an object that is about to be made. */
  object(): void {
    const { maxPickleObjects } = this.limits;
    if (++this.objects > maxPickleObjects) checkLimit('objects of a pickle', this.objects, maxPickleObjects);
  }

  /**
   * Counts what a call may copy of its arguments. A few bytes of a pickle call once more with the arguments of before, which the memo has:
   * what is copied is bounded by what a pickle that names all of it anew may have, and not by the number of calls.
   */
  copies(args: readonly unknown[]): void {
    const { maxPickleOps, maxBodyBytes } = this.limits;
    this.copiedItems += args.length;
    for (const arg of args) {
      if (typeof arg === 'string' || arg instanceof Uint8Array) this.copiedBytes += arg.length;
      else if (Array.isArray(arg)) this.copiedItems += arg.length;
      else if (arg instanceof Map || arg instanceof Set) this.copiedItems += arg.size;
    }
    if (this.copiedItems > maxPickleOps) checkLimit('items of arguments in a pickle', this.copiedItems, maxPickleOps);
    if (this.copiedBytes > maxBodyBytes) checkLimit('bytes of arguments in a pickle', this.copiedBytes, maxBodyBytes);
  }

  // The memo, whose entries have to come in order.

  put(index: number): void {
    const { memo, limits } = this;
    const value = this.top();
    checkLimit('memo of a pickle', memo.length, limits.maxPickleMemo - 1);
    if (index > memo.length) throw refuse(`memo entry ${index} follows entry ${memo.length - 1}`);
    memo[index] = value;
    if (value instanceof Unbuilt) value.memoIndex = index;
  }

  memoize(): void {
    this.put(this.memo.length);
  }

  get(index: number): void {
    const { memo } = this;
    if (index >= memo.length) throw refuse(`memo entry ${index} of ${memo.length}`);
    const value = memo[index];
    if (value instanceof UnknownName) this.unknown++;
    if (value instanceof Unbuilt) throw refuse('a pickle uses an object before its state');
    this.stack.push(value);
  }

  // Names and objects.

  global(module: string, name: string): void {
    this.object();
    const found = this.dialect.global(module, name);
    if (found === undefined) {
      this.unknown++;
      this.lastUnknown = `${module}.${name}`;
      this.stack.push(new UnknownName(module, name));
    } else this.stack.push(found);
  }

  /** Lets a name that is not on the list be: its place is one where it only says what something is called. */
  admit(name: PyName): void {
    if (name instanceof UnknownName) this.unknown--;
  }

  /**
   * Calls a name that is not on the list: what it gives is as unknown as the name. The pickle is refused at its end, when all handles in it
   * have been seen, of which their owners have to hear. Whether it is such a name.
   */
  callUnknown(callee: unknown): boolean {
    if (!(callee instanceof UnknownName)) return false;
    this.calledUnknown ??= callee.path;
    this.stack.push(callee);
    return true;
  }

  /** Whether a thing is what an unknown name gave: what it is given is let be. */
  isUnknown(value: unknown): boolean {
    return this.calledUnknown !== undefined && value instanceof UnknownName;
  }

  /** Something is called or built that is neither a name on the list nor one that could be. */
  refuseCall(callee: unknown): WireError {
    const what = callee instanceof PyName ? quoted(callee.path) : 'a value';
    return refuse(`a pickle calls ${what}, which is not to be called`);
  }

  awaitState(): void {
    this.unbuilt++;
  }

  /** The object on top got its state: it is `value` from now on. */
  built(before: Unbuilt, value: unknown): void {
    this.unbuilt--;
    this.stack[this.stack.length - 1] = value;
    if (this.memo[before.memoIndex] === before) this.memo[before.memoIndex] = value;
  }
}
