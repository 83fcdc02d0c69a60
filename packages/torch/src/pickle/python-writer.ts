/** @file Writes pickles for Python, as CPython's pickler of protocol 4 writes them: what Python reads as its own. */
import { WorkerInfo } from '@backwire/rpc';
import { Parameter, Tensor } from '@backwire/tensor';
import { PyFrozenSet, PyTuple, ScriptDict, ScriptList, TorchSize } from '../values/containers.ts';
import { PyName } from '../values/name.ts';
import { PyFloat } from '../values/numbers.ts';
import { RRefFork } from '../values/objects.ts';
import { OpaqueTensor, ParameterData, type TensorLike, type TravellingTensor } from '../values/opaque-tensor.ts';
import { TorchDType } from '../values/torch-types.ts';
import { DEFAULT_TORCH_LIMITS } from '../limits.ts';
import { Op } from './opcode.ts';
import { reductionOf, type Reduction } from './reductions.ts';
import { nameOf } from './script-writer.ts';
import { encodeText } from './text.ts';
import { INTERNAL } from './torch-globals.ts';
import { PickleWriter, isWhole } from './writer.ts';

const PROTOCOL = 4;
const PROTO_BYTES = 2;
const FRAME_BYTES = 9;
/** Python frames no pickle that is shorter, and divides one that is longer. */
const MIN_FRAME = 4;
const MAX_FRAME = 0x1_0000;
/** Items that Python's pickler puts between a mark and APPENDS, SETITEMS or ADDITEMS. */
const BATCH = 1000;
const MAX_LONG_BYTES = 255;

export interface PythonWriterOptions {
  /**
   * What travels instead of an object that has no form here: an RRefFork for a handle on an RRef, a PyInstance for an instance of an
   * offered class. Undefined: it has none.
   */
  readonly replace?: ((value: object) => unknown) | undefined;
  /** Bytes to put before the pickle. */
  readonly prefix?: readonly number[] | undefined;
  readonly maxDepth?: number | undefined;
}

/** A pickle, and the tensors that it refers to, in order of their places. */
export interface WrittenPython {
  readonly bytes: Uint8Array;
  readonly tensors: readonly TravellingTensor[];
}

/**
 * Writes one value. Whole numbers are ints, others floats (PyFloat forces it); null and undefined None, arrays lists, Maps and plain
 * objects dicts, Sets sets, Uint8Arrays bytes. What is the same object twice stays so, cycles too.
 * @throws TypeError for a value that cannot travel, WireError 'limit' for one that is nested too deeply; both name its place.
 */
export function writePython(value: unknown, options: PythonWriterOptions = {}): WrittenPython {
  return new PythonWriter(options).write(value);
}

class PythonWriter extends PickleWriter {
  private readonly tensors: TravellingTensor[] = [];
  private readonly strings = new Map<string, number>();
  private readonly globals = new Map<string, number>();
  private readonly objects = new Map<object, number>();
  private readonly options: PythonWriterOptions;

  constructor(options: PythonWriterOptions) {
    super(options.maxDepth ?? DEFAULT_TORCH_LIMITS.maxWriteDepth);
    this.options = options;
  }

  write(value: unknown): WrittenPython {
    const { out } = this;
    const prefix = this.options.prefix ?? [];
    const room = prefix.length + PROTO_BYTES + FRAME_BYTES;
    out.reserve(room);
    out.pos = room;
    this.value(value);
    this.op(Op.STOP);
    return { bytes: this.headed(prefix, out.pos - room), tensors: this.tensors };
  }

  /** Puts the head before what was written: with a frame where Python's pickler would write one frame, else without. */
  private headed(prefix: readonly number[], length: number): Uint8Array {
    const { out } = this;
    const framed = length >= MIN_FRAME && length < MAX_FRAME;
    const start = framed ? 0 : FRAME_BYTES;
    let at = start;
    for (const byte of prefix) out.bytes[at++] = byte;
    out.bytes[at++] = Op.PROTO;
    out.bytes[at++] = PROTOCOL;
    if (framed) {
      out.bytes[at++] = Op.FRAME;
      out.view.setBigUint64(at, BigInt(length), true);
    }
    return out.bytes.slice(start, out.pos);
  }

  private value(value: unknown): void {
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
        return this.callable(value);
    }
  }

  private integer(value: bigint): void {
    const number = Number(value);
    if (Number.isSafeInteger(number)) this.int(number);
    else this.long(value);
  }

  /** Two's complement in as few bytes as hold it. */
  protected override long(value: bigint): void {
    let size = 5;
    while (BigInt.asIntN(size * 8, value) !== value) if (++size > MAX_LONG_BYTES) this.tooLong();
    const { out } = this;
    out.reserve(2 + size);
    out.pair(Op.LONG1, size);
    let rest = BigInt.asUintN(size * 8, value);
    for (let i = 0; i < size; i++, rest >>= 8n) out.bytes[out.pos++] = Number(rest & 0xffn);
  }

  private tooLong(): never {
    throw new RangeError(`an integer of more than ${MAX_LONG_BYTES} bytes${this.place()}`);
  }

  /** Remembers what is on top. */
  private memoize(): number {
    this.op(Op.MEMOIZE);
    return this.remembered++;
  }

  private string(value: string): void {
    const known = this.strings.get(value);
    if (known !== undefined) return this.recall(known);
    const bytes = encodeText(value);
    if (bytes.length < 0x100) this.out.pair(Op.SHORT_BINUNICODE, bytes.length);
    else this.u32(Op.BINUNICODE, bytes.length);
    this.out.raw(bytes);
    this.strings.set(value, this.memoize());
  }

  private callable(value: unknown): void {
    const other = typeof value === 'function' ? this.options.replace?.(value) : undefined;
    if (other !== undefined) return this.value(other);
    throw new TypeError(`Python has no form for a ${typeof value}${this.place()}`);
  }

  private object(value: object): void {
    const known = this.objects.get(value);
    if (known !== undefined) return this.recall(known);
    if (value instanceof Tensor || value instanceof OpaqueTensor) this.tensor(value);
    else if (value instanceof PyTuple && !(value instanceof TorchSize)) this.tuple(value);
    else if (value instanceof PyFloat) this.float(value.value);
    else if (value instanceof PyName) this.global(value.module, value.name);
    else if (value instanceof TorchDType) this.global('torch', value.name);
    else if (value instanceof RRefFork) this.rref(value, value);
    else if (isPlain(value)) this.dict(value, new Map(Object.entries(value)));
    else if (value.constructor === Array) this.list(value as unknown[]);
    else if (value.constructor === Map) this.dict(value, value as Map<unknown, unknown>);
    else this.special(value);
  }

  /** Objects of the other classes that have a form, from the special to the general. */
  private special(value: object): void {
    const reduction = value instanceof WorkerInfo ? workerInfo(value) : reductionOf(value);
    if (reduction !== undefined) this.reduction(value, reduction);
    else if (value instanceof Set) this.set(value);
    else if (value instanceof Uint8Array) this.bytes(value);
    else if (value instanceof ScriptList) this.list(value);
    else if (value instanceof ScriptDict) this.dict(value, value);
    else this.replaced(value);
  }

  private replaced(value: object): void {
    const other = this.options.replace?.(value);
    if (other instanceof RRefFork) return this.rref(value, other);
    if (other === undefined || other === value) throw this.noForm(value);
    const made = typeof other === 'object' && other !== null ? reductionOf(other) : undefined;
    if (made !== undefined) this.reduction(value, made);
    else this.value(other);
  }

  private noForm(value: object): TypeError {
    const hint = ArrayBuffer.isView(value)
      ? '; make a tensor of it'
      : value instanceof Date
        ? '; use PyDateTime.from'
        : '';
    return new TypeError(`Python has no form for ${nameOf(value)}${this.place()}${hint}`);
  }

  private keep(value: object): void {
    this.objects.set(value, this.memoize());
  }

  private list(list: readonly unknown[]): void {
    this.op(Op.EMPTY_LIST);
    this.keep(list);
    this.listItems(list);
  }

  private listItems(list: readonly unknown[]): void {
    if (list.length === 1) {
      this.item(0, list[0]);
      this.op(Op.APPEND);
      return;
    }
    for (let from = 0; from < list.length; from += BATCH) {
      this.op(Op.MARK);
      for (let i = from; i < Math.min(from + BATCH, list.length); i++) this.item(i, list[i]);
      this.op(Op.APPENDS);
    }
  }

  private item(step: string | number, value: unknown): void {
    this.enter(step);
    this.value(value);
    this.leave();
  }

  private tuple(items: readonly unknown[]): void {
    const { length } = items;
    if (length === 0) return this.op(Op.EMPTY_TUPLE);
    if (length > 3) this.op(Op.MARK);
    for (let i = 0; i < length; i++) this.item(i, items[i]);
    if (this.objects.has(items)) throw new TypeError(`a tuple that contains itself${this.place()}`);
    this.op(length === 1 ? Op.TUPLE1 : length === 2 ? Op.TUPLE2 : length === 3 ? Op.TUPLE3 : Op.TUPLE);
    this.keep(items);
  }

  private dict(identity: object, entries: ReadonlyMap<unknown, unknown>): void {
    this.op(Op.EMPTY_DICT);
    this.keep(identity);
    this.dictItems(entries);
  }

  private dictItems(entries: ReadonlyMap<unknown, unknown>): void {
    let count = 0;
    for (const [key, value] of entries) {
      if (entries.size > 1 && count % BATCH === 0) {
        if (count > 0) this.op(Op.SETITEMS);
        this.op(Op.MARK);
      }
      this.enter(shown(key));
      this.value(key);
      this.value(value);
      this.leave();
      count++;
    }
    if (count > 0) this.op(count === 1 ? Op.SETITEM : Op.SETITEMS);
  }

  private set(set: ReadonlySet<unknown>): void {
    const items = [...set];
    if (set instanceof PyFrozenSet) {
      this.op(Op.MARK);
      items.forEach((item, i) => this.item(i, item));
      this.op(Op.FROZENSET);
      this.keep(set);
      return;
    }
    this.op(Op.EMPTY_SET);
    this.keep(set);
    for (let from = 0; from < items.length; from += BATCH) {
      this.op(Op.MARK);
      for (let i = from; i < Math.min(from + BATCH, items.length); i++) this.item(i, items[i]);
      this.op(Op.ADDITEMS);
    }
  }

  private bytes(bytes: Uint8Array): void {
    if (bytes.length < 0x100) this.out.pair(Op.SHORT_BINBYTES, bytes.length);
    else if (bytes.length < 0x1_0000_0000) this.u32(Op.BINBYTES, bytes.length);
    else {
      this.op(Op.BINBYTES8);
      this.out.reserve(8);
      this.out.view.setBigUint64(this.out.pos, BigInt(bytes.length), true);
      this.out.pos += 8;
    }
    this.out.raw(bytes);
    this.keep(bytes);
  }

  private global(module: string, name: string): void {
    const key = `${module} ${name}`;
    const known = this.globals.get(key);
    if (known !== undefined) return this.recall(known);
    this.string(module);
    this.string(name);
    this.op(Op.STACK_GLOBAL);
    this.globals.set(key, this.memoize());
  }

  private tensor(tensor: TensorLike): void {
    if (tensor instanceof Parameter) {
      this.global('torch._utils', '_rebuild_parameter');
      this.receive('_tensor_receiver', this.tensors.push(new ParameterData(tensor)) - 1);
      this.bool(tensor.requiresGrad);
      this.global('collections', 'OrderedDict');
      this.op(Op.EMPTY_TUPLE);
      this.call();
      this.op(Op.TUPLE3);
      this.memoize();
      this.call();
    } else this.receive('_tensor_receiver', this.tensors.push(tensor) - 1);
    this.objects.set(tensor, this.remembered - 1);
  }

  /** Calls what lies below the arguments on top, and remembers the result. */
  private call(): void {
    this.op(Op.REDUCE);
    this.memoize();
  }

  /** `getattr(_InternalRPCPickler, receiver)(argument)`. */
  private receive(receiver: string, argument: unknown): void {
    this.global('builtins', 'getattr');
    this.global(INTERNAL, '_InternalRPCPickler');
    this.string(receiver);
    this.op(Op.TUPLE2);
    this.memoize();
    this.call();
    this.value(argument);
    this.op(Op.TUPLE1);
    this.memoize();
    this.call();
  }

  private rref(identity: object, fork: RRefFork): void {
    const { owner, rref, fork: child, parent, type } = fork;
    this.receive(
      '_py_rref_receiver',
      PyTuple.of<unknown>(owner, rref.worker, rref.local, child.worker, child.local, parent, type),
    );
    this.objects.set(identity, this.remembered - 1);
  }

  private reduction(identity: object, { how, callee, args, kwargs, list, dict, state }: Reduction): void {
    this.value(callee);
    this.tuple(args);
    if (kwargs !== undefined) this.value(kwargs);
    this.op(how === 'call' ? Op.REDUCE : kwargs === undefined ? Op.NEWOBJ : Op.NEWOBJ_EX);
    this.keep(identity);
    if (list !== undefined) this.listItems(list);
    if (dict !== undefined) this.dictItems(dict);
    if (state === undefined) return;
    this.item('state', state);
    this.op(Op.BUILD);
  }
}

const workerInfoClass = new PyName('torch._C._distributed_rpc', 'WorkerInfo');

function workerInfo(info: WorkerInfo): Reduction {
  return { how: 'new', callee: workerInfoClass, args: [], state: PyTuple.of<unknown>(info.name, info.id) };
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** A key as a step of a path. */
function shown(key: unknown): string {
  return typeof key === 'string' ? key.slice(0, 40) : typeof key === 'object' ? nameOf(key) : String(key);
}
