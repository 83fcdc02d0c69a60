/** @file Writes pickles for torch's C++ side, with the instructions that it knows and in its own order. */
import { Tensor } from '@backwire/tensor';
import { PyTuple, ScriptDict, ScriptList } from '../values/containers.ts';
import { PyComplex, PyFloat } from '../values/numbers.ts';
import { RRefFork } from '../values/objects.ts';
import { OpaqueTensor, ParameterData, type TravellingTensor } from '../values/opaque-tensor.ts';
import { TorchDevice } from '../values/torch-types.ts';
import { DEFAULT_TORCH_LIMITS } from '../limits.ts';
import { Op } from './opcode.ts';
import { fieldsOf } from './rref-fields.ts';
import { PickleWriter, isWhole, nameOf } from './writer.ts';

const PROTOCOL = 2;
/** The lists that have builders of their own. */
const BUILDERS: ReadonlyMap<string, string> = new Map([
  ['int', 'build_intlist'],
  ['Tensor', 'build_tensorlist'],
  ['float', 'build_doublelist'],
  ['bool', 'build_boollist'],
]);

export interface ScriptWriterOptions {
  /** What travels instead of an object: a fork for a handle on an RRef. Undefined: the object has no form here. */
  readonly replace?: ((value: object) => unknown) | undefined;
  readonly maxDepth?: number | undefined;
  /** Whether lists, dicts and RRefs that are the same twice stay so. torch remembers those of programs, not its own. @default true */
  readonly aliases?: boolean | undefined;
}

/**
 * Writes one pickle: values one after another, then `finish`. Tensors are referred to by their place in `tensors`, each once.
 *
 * Whole numbers are ints, others floats (PyFloat forces it); strings are UTF-8, Uint8Arrays strings of any bytes; null is None.
 */
export class ScriptWriter extends PickleWriter {
  /** The tensors that were written, in order of their places. */
  readonly tensors: TravellingTensor[] = [];
  private readonly devices = new Map<string, number>();
  private readonly places = new Map<object, number>();
  private readonly replace: ((value: object) => unknown) | undefined;
  private readonly aliases: boolean;

  constructor(options: ScriptWriterOptions = {}) {
    super(options.maxDepth ?? DEFAULT_TORCH_LIMITS.maxWriteDepth);
    this.replace = options.replace;
    this.aliases = options.aliases ?? true;
    this.out.pair(Op.PROTO, PROTOCOL);
  }

  finish(): Uint8Array {
    this.op(Op.STOP);
    return this.copied(0);
  }

  protected override formless(value: unknown): never {
    throw new TypeError(`TorchScript has no form for a ${typeof value}${this.place()}`);
  }

  protected override integer(value: bigint): void {
    if (value >= -(2n ** 53n) && value <= 2n ** 53n) this.int(Number(value));
    else this.eightBytes(value);
  }

  protected override object(value: object): void {
    if (travels(value)) this.tensor(value);
    else if (value instanceof PyTuple) this.tuple(value);
    else if (value instanceof ScriptList) this.once(value, () => this.list(value));
    else if (value instanceof ScriptDict) this.once(value, () => this.dict(value));
    else if (value instanceof Uint8Array) this.bytes(value);
    else if (value instanceof PyFloat) this.float(value.value);
    else if (value instanceof TorchDevice) this.device(value);
    else if (value instanceof PyComplex) this.complex(value);
    else if (value instanceof RRefFork) this.once(value, () => this.rref(value));
    else this.replaced(value);
  }

  /** Writes a value that may be referred to again. */
  private once(value: object, write: () => void): void {
    const known = this.places.get(value);
    if (known !== undefined) return this.recall(known);
    write();
    if (this.aliases) this.places.set(value, this.remember());
  }

  private replaced(value: object): void {
    const known = this.places.get(value);
    if (known !== undefined) return this.recall(known);
    const other = this.replace?.(value);
    if (other instanceof RRefFork) return this.once(value, () => this.rref(other));
    if (other !== undefined) return this.value(other);
    const name = Array.isArray(value) ? 'an array without a type of elements; use scriptList' : nameOf(value);
    throw new TypeError(`TorchScript has no form for ${name}${this.place()}`);
  }

  /** A string of any bytes. */
  bytes(value: Uint8Array): void {
    this.unicode(value);
    this.remember();
  }

  /** Calls the global before with the values that `write` puts between. */
  reduce(write: () => void): void {
    this.marked(write);
    this.op(Op.REDUCE);
  }

  /** A tuple of any number of values with a mark, as arguments are written. */
  marked(write: () => void): void {
    this.op(Op.MARK);
    write();
    this.op(Op.TUPLE);
  }

  tensor(tensor: TravellingTensor): void {
    const known = this.places.get(tensor);
    if (known !== undefined) return this.recall(known);
    const place = this.tensors.push(tensor) - 1;
    this.global('torch.jit._pickle', 'build_tensor_from_id');
    this.reduce(() => this.int(place));
    this.places.set(tensor, this.remember());
  }

  tuple(items: readonly unknown[]): void {
    const { length } = items;
    if (length === 0) return this.op(Op.EMPTY_TUPLE);
    if (length > 3) this.op(Op.MARK);
    this.items(items);
    this.op(length === 1 ? Op.TUPLE1 : length === 2 ? Op.TUPLE2 : length === 3 ? Op.TUPLE3 : Op.TUPLE);
  }

  /** Makes a tuple of what is on top. */
  single(): void {
    this.op(Op.TUPLE1);
  }

  /** Makes a tuple of the two values on top. */
  pair(): void {
    this.op(Op.TUPLE2);
  }

  private items(items: readonly unknown[]): void {
    for (let i = 0; i < items.length; i++) this.item(i, items[i]);
  }

  /** A list, whose elements have to be of its type: torch's reader checks none. */
  list(list: ScriptList): void {
    const { elementType } = list;
    const builder = BUILDERS.get(elementType);
    if (builder === undefined) {
      this.global('torch.jit._pickle', 'restore_type_tag');
      this.appended(() => this.items(list));
      this.tag(`List[${elementType}]`);
      return;
    }
    this.global('torch.jit._pickle', builder);
    this.reduce(() => this.appended(() => this.elements(list, elementType)));
  }

  private appended(write: () => void): void {
    this.op(Op.EMPTY_LIST);
    this.op(Op.MARK);
    write();
    this.op(Op.APPENDS);
  }

  private elements(list: ScriptList, elementType: string): void {
    for (let i = 0; i < list.length; i++) {
      this.enter(i);
      this.element(list[i], elementType);
      this.leave();
    }
  }

  private element(value: unknown, elementType: string): void {
    if (elementType === 'float') {
      if (value instanceof PyFloat) return this.float(value.value);
      if (typeof value === 'number') return this.float(value);
    } else if (elementType === 'int') {
      if (typeof value === 'bigint' || isWhole(value)) return this.value(value);
    } else if (elementType === 'bool') {
      if (typeof value === 'boolean') return this.bool(value);
    } else if (travels(value)) return this.tensor(value);
    throw new TypeError(`a list of ${elementType} holds ${nameOf(value)}${this.place()}`);
  }

  dict(dict: ScriptDict): void {
    this.global('torch.jit._pickle', 'restore_type_tag');
    this.op(Op.EMPTY_DICT);
    this.op(Op.MARK);
    for (const [key, value] of dict) {
      this.enter(String(key));
      this.value(key);
      this.value(value);
      this.leave();
    }
    this.op(Op.SETITEMS);
    this.tag(`Dict[${dict.keyType}, ${dict.valueType}]`);
  }

  private tag(type: string): void {
    this.string(type);
    this.op(Op.TUPLE2);
    this.op(Op.REDUCE);
  }

  private device(device: TorchDevice): void {
    const text = device.toString();
    const known = this.devices.get(text);
    if (known !== undefined) return this.recall(known);
    this.global('torch', 'device');
    this.string(text);
    this.op(Op.TUPLE1);
    this.op(Op.REDUCE);
    this.devices.set(text, this.remember());
  }

  private complex(value: PyComplex): void {
    this.global('builtins', 'complex');
    this.float(value.real);
    this.float(value.imag);
    this.op(Op.TUPLE2);
    this.op(Op.REDUCE);
  }

  private rref(fork: RRefFork): void {
    this.global('torch.distributed.rpc', 'rref');
    this.reduce(() => {
      for (const field of fieldsOf(fork)) this.value(field);
    });
  }
}

function travels(value: unknown): value is TravellingTensor {
  return value instanceof Tensor || value instanceof OpaqueTensor || value instanceof ParameterData;
}
