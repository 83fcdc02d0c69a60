/** @file Writes pickles for Python, as CPython's pickler of protocol 4 writes them: what Python reads as its own. */
import { WorkerInfo } from '@backwire/rpc';
import { nn } from '@backwire/tensor';
import { PyFrozenSet, PyTuple, ScriptDict, ScriptList } from '../values/containers.ts';
import { PyName } from '../values/name.ts';
import { RRefFork } from '../values/objects.ts';
import { ParameterData, isParameter, type TensorLike, type TravellingTensor } from '../values/opaque-tensor.ts';
import { DEFAULT_TORCH_LIMITS } from '../limits.ts';
import { BATCH, ObjectWriter } from './object-writer.ts';
import { Op } from './opcode.ts';
import { reductionOf, type Reduction } from './reductions.ts';
import { fieldsOf } from './rref-fields.ts';
import { nameOf } from './writer.ts';
import { encodeText } from './text.ts';
import { INTERNAL } from './torch-globals.ts';

const PROTOCOL = 4;
const PROTO_BYTES = 2;
const FRAME_BYTES = 9;
/** Python frames no pickle that is shorter, and divides one that is longer. */
const MIN_FRAME = 4;
const MAX_FRAME = 0x1_0000;

export interface PythonWriterOptions {
  /**
   * What travels instead of an object or function that has no form here: an RRefFork for a handle on an RRef, a SerializedRemoteModule
   * for a RemoteModule, a PyInstance for an instance of an offered class, a PyName for an offered function. Undefined: it has none.
   */
  readonly replace?: ((value: object) => unknown) | undefined;
  readonly maxDepth?: number | undefined;
}

/** A pickle, and the tensors that it refers to, in order of their places. */
export interface WrittenPython {
  readonly bytes: Uint8Array;
  readonly tensors: readonly TravellingTensor[];
}

/**
 * Writes one value. Whole numbers are ints, others floats (PyFloat forces it); null and undefined None, arrays lists, Maps and plain
 * objects dicts, Sets sets, Uint8Arrays bytes. What is the same object twice stays so, lists and dicts that contain themselves too.
 * @throws TypeError for a value that cannot travel, RangeError for an integer that is too long, WireError 'limit' for a value that is
 * nested too deeply; all name the place in the value.
 */
export function writePython(value: unknown, options: PythonWriterOptions = {}): WrittenPython {
  return new PythonWriter(options).write(value);
}

class PythonWriter extends ObjectWriter {
  private readonly tensors: TravellingTensor[] = [];
  private readonly options: PythonWriterOptions;

  constructor(options: PythonWriterOptions) {
    super(options.maxDepth ?? DEFAULT_TORCH_LIMITS.maxWriteDepth);
    this.options = options;
  }

  write(value: unknown): WrittenPython {
    const { out } = this;
    const room = PROTO_BYTES + FRAME_BYTES;
    out.reserve(room);
    out.pos = room;
    this.value(value);
    this.op(Op.STOP);
    return { bytes: this.headed(out.pos - room), tensors: this.tensors };
  }

  /** Puts the head before what was written: with a frame where Python's pickler would write one frame, else without. */
  private headed(length: number): Uint8Array {
    const { out } = this;
    const framed = length >= MIN_FRAME && length < MAX_FRAME;
    const start = framed ? 0 : FRAME_BYTES;
    out.bytes[start] = Op.PROTO;
    out.bytes[start + 1] = PROTOCOL;
    if (framed) {
      out.bytes[PROTO_BYTES] = Op.FRAME;
      out.view.setBigUint64(PROTO_BYTES + 1, BigInt(length), true);
    }
    return this.copied(start);
  }

  protected override memoize(): number {
    this.op(Op.MEMOIZE);
    return this.remembered++;
  }

  override string(value: string): void {
    const known = this.strings.get(value);
    if (known !== undefined) return this.recall(known);
    const bytes = encodeText(value);
    if (bytes.length < 0x100) this.out.pair(Op.SHORT_BINUNICODE, bytes.length);
    else this.u32(Op.BINUNICODE, bytes.length);
    this.out.raw(bytes);
    this.strings.set(value, this.memoize());
  }

  override global(module: string, name: string): void {
    const key = `${module} ${name}`;
    const known = this.globals.get(key);
    if (known !== undefined) return this.recall(known);
    this.string(module);
    this.string(name);
    this.op(Op.STACK_GLOBAL);
    this.globals.set(key, this.memoize());
  }

  protected override formless(value: unknown): void {
    const other = typeof value === 'function' ? this.options.replace?.(value) : undefined;
    if (other !== undefined) return this.value(other);
    throw new TypeError(`Python has no form for a ${typeof value}${this.place()}`);
  }

  /** Objects of the other classes that have a form, from the special to the general. */
  protected override special(value: object): void {
    if (value instanceof RRefFork) return this.rref(value, value);
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
    const tag = Object.prototype.toString.call(value);
    const hint = ArrayBuffer.isView(value)
      ? '; make a tensor of it'
      : tag === '[object Date]'
        ? '; use PyDateTime.from'
        : value instanceof nn.Module
          ? '; send its stateDict(), or an RRef to it'
          : /Generator\]$/.test(tag)
            ? '; send an array of what it yields'
            : '';
    return new TypeError(`Python has no form for ${nameOf(value)}${this.place()}${hint}`);
  }

  private set(set: ReadonlySet<unknown>): void {
    const items = [...set];
    for (const item of items) this.checkHash(item, 'an item of a set');
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

  protected override tensor(tensor: TensorLike): void {
    if (!isParameter(tensor)) return this.receive('_tensor_receiver', this.tensors.push(tensor) - 1);
    this.global('torch._utils', '_rebuild_parameter');
    this.receive('_tensor_receiver', this.tensors.push(new ParameterData(tensor)) - 1);
    this.bool(tensor.requiresGrad);
    this.global('collections', 'OrderedDict');
    this.op(Op.EMPTY_TUPLE);
    this.call();
    this.op(Op.TUPLE3);
    this.memoize();
    this.call();
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
    this.receive('_py_rref_receiver', fieldsOf(fork));
    this.kept(identity);
  }
}

const workerInfoClass = new PyName('torch._C._distributed_rpc', 'WorkerInfo');

function workerInfo(info: WorkerInfo): Reduction {
  return { how: 'new', callee: workerInfoClass, args: [], state: PyTuple.of<unknown>(info.name, info.id) };
}
