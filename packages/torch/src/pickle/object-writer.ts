/** @file What Python's own pickler does in every protocol: containers, what is the same twice, objects made by calls. */
import { Tensor } from '@backwire/tensor';
import { PyTuple, TorchSize, tupleOf } from '../values/containers.ts';
import { PyName } from '../values/name.ts';
import { PyFloat } from '../values/numbers.ts';
import { OpaqueTensor, type TensorLike } from '../values/opaque-tensor.ts';
import { TorchDType } from '../values/torch-types.ts';
import { isPlain, unhashable } from './hashable.ts';
import { MAX_INTEGER_BYTES, integerLength, putInteger } from './integers.ts';
import { Op } from './opcode.ts';
import type { Reduction } from './reductions.ts';
import { PickleWriter, nameOf } from './writer.ts';

/** Items that Python's pickler puts between a mark and APPENDS, SETITEMS or ADDITEMS. */
export const BATCH = 1000;
/** Longer integers have a length of four bytes. */
const MAX_LONG1_BYTES = 255;

/** Writes values as CPython does. What differs from protocol to protocol is the subclasses' matter. */
export abstract class ObjectWriter extends PickleWriter {
  private readonly objects = new Map<object, number>();

  /** Remembers what is on top; its number. */
  protected abstract memoize(): number;
  protected abstract tensor(tensor: TensorLike): void;
  /** An object of a class that is not written the same way everywhere. */
  protected abstract special(value: object): void;

  protected override integer(value: bigint): void {
    const number = Number(value);
    if (Number.isSafeInteger(number)) this.int(number);
    else this.long(value);
  }

  /** Two's complement in as few bytes as hold it. */
  protected override long(value: bigint): void {
    const size = integerLength(value);
    if (size > MAX_INTEGER_BYTES)
      throw new RangeError(`an integer of more than ${MAX_INTEGER_BYTES} bytes${this.place()}`);
    const { out } = this;
    out.reserve(10 + size);
    if (size > MAX_LONG1_BYTES) this.u32(Op.LONG4, size);
    else out.pair(Op.LONG1, size);
    // What is above the highest byte that counts is written over.
    if (size <= 8) out.view.setBigInt64(out.pos, value, true);
    else putInteger(out.bytes, out.pos, size, value);
    out.pos += size;
  }

  protected override object(value: object): void {
    const known = this.objects.get(value);
    if (known !== undefined) return this.recall(known);
    if (value instanceof Tensor || value instanceof OpaqueTensor) {
      this.tensor(value);
      this.kept(value);
    } else if (value instanceof PyTuple && !(value instanceof TorchSize)) this.tuple(value);
    else if (value instanceof PyFloat) this.float(value.value);
    else if (value instanceof PyName) this.global(value.module, value.name);
    else if (value instanceof TorchDType) this.global('torch', value.name);
    else if (isPlain(value)) this.dict(value, new Map(Object.entries(value)));
    else if (value.constructor === Array) this.list(value as unknown[]);
    else if (value.constructor === Map) this.dict(value, value);
    else this.special(value);
  }

  /** Remembers what is on top as `value`. */
  protected keep(value: object): void {
    this.objects.set(value, this.memoize());
  }

  /** What is on top was remembered already, and is `value`. */
  protected kept(value: object): void {
    this.objects.set(value, this.remembered - 1);
  }

  protected list(list: readonly unknown[]): void {
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

  protected tuple(items: readonly unknown[]): void {
    const { length } = items;
    if (length === 0) return this.op(Op.EMPTY_TUPLE);
    if (length > 3) this.op(Op.MARK);
    for (let i = 0; i < length; i++) this.item(i, items[i]);
    if (this.objects.has(items)) throw new TypeError(`a tuple that contains itself${this.place()}`);
    this.op(length === 1 ? Op.TUPLE1 : length === 2 ? Op.TUPLE2 : length === 3 ? Op.TUPLE3 : Op.TUPLE);
    this.keep(items);
  }

  protected dict(identity: object, entries: ReadonlyMap<unknown, unknown>): void {
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
      this.checkHash(key, 'a key of a dict');
      this.enter(shown(key));
      this.value(key);
      this.value(value);
      this.leave();
      count++;
    }
    if (count > 0) this.op(count === 1 ? Op.SETITEM : Op.SETITEMS);
  }

  /** @throws TypeError for what Python cannot look for: it would refuse the whole message. */
  protected checkHash(value: unknown, as: string): void {
    if (typeof value !== 'object') return;
    const kind = unhashable(value);
    if (kind !== undefined) throw new TypeError(`Python takes no ${kind} as ${as}${this.place()}`);
  }

  /** Calls what lies below the arguments on top, and remembers the result. */
  protected call(): void {
    this.op(Op.REDUCE);
    this.memoize();
  }

  protected reduction(identity: object, { how, callee, args, kwargs, list, dict, state }: Reduction): void {
    this.value(callee);
    // A list that is given as arguments, too, stays a list where it stands elsewhere.
    this.tuple(args instanceof PyTuple ? args : tupleOf(args));
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

/** A key as a step of a path. */
function shown(key: unknown): string {
  if (typeof key === 'string') return key.slice(0, 40);
  return typeof key === 'number' || typeof key === 'bigint' ? String(key) : nameOf(key);
}
