/** @file What each instruction does, in groups that the dialects are made of. */
import { WireError, checkLimit } from '@backwire/wire/internal';
import { PyByteArray, PyDeque, PyFrozenSet, PyTuple, fill, tupleOf } from '../values/containers.ts';
import { PyCallable, PyClass, isStateful, setState } from '../values/name.ts';
import { RemoteException } from '../values/objects.ts';
import { MAX_INTEGER_BYTES, integerAt } from './integers.ts';
import { Op } from './opcode.ts';
import { Unbuilt, type Instruction, type Machine } from './machine.ts';
import { refuse } from './refusal.ts';

type Group = readonly (readonly [number, Instruction])[];

/** Constants and numbers, of all dialects. */
export const scalars: Group = [
  [Op.NONE, (m) => m.stack.push(null)],
  [Op.NEWTRUE, (m) => m.stack.push(true)],
  [Op.NEWFALSE, (m) => m.stack.push(false)],
  [Op.BININT, (m) => m.stack.push(m.i32())],
  [Op.BININT1, (m) => m.stack.push(m.u8())],
  [Op.BININT2, (m) => m.stack.push(m.u16())],
  [Op.BINFLOAT, (m) => m.stack.push(m.dialect.float(m.f64()))],
  [Op.LONG1, (m) => m.stack.push(long(m, m.u8()))],
  [Op.BINUNICODE, (m) => m.stack.push(m.dialect.text(m.input, m.need(m.u32())))],
];

/** Tuples, lists, dicts, the memo and names by lines, of all dialects. */
export const structures: Group = [
  [Op.MARK, (m) => m.mark()],
  [Op.EMPTY_TUPLE, (m) => tuple(m, [])],
  [Op.TUPLE, (m) => tuple(m, m.popMark())],
  [Op.TUPLE1, (m) => tuple(m, [m.pop()])],
  [Op.TUPLE2, (m) => tuple(m, popTwo(m))],
  [Op.TUPLE3, (m) => tuple(m, popThree(m))],
  [Op.EMPTY_LIST, (m) => pushContainer(m, m.dialect.list())],
  [Op.APPENDS, (m) => append(m, m.popMark())],
  [Op.EMPTY_DICT, (m) => pushContainer(m, m.dialect.dict())],
  [Op.SETITEMS, (m) => setItems(m, m.popMark())],
  [Op.BINPUT, (m) => m.put(m.u8())],
  [Op.LONG_BINPUT, (m) => m.put(m.u32())],
  [Op.BINGET, (m) => m.get(m.u8())],
  [Op.LONG_BINGET, (m) => m.get(m.u32())],
  [Op.GLOBAL, (m) => m.global(m.line(), m.line())],
  [Op.REDUCE, reduce],
];

/** What Python's own pickler writes beside: single items, objects, bytes, sets. */
export const pythonic: Group = [
  [Op.APPEND, (m) => append(m, [m.pop()])],
  [Op.SETITEM, (m) => setItems(m, popTwo(m))],
  [Op.LONG4, (m) => m.stack.push(long(m, m.u32()))],
  [Op.NEWOBJ, (m) => newObject(m, undefined)],
  [Op.BUILD, build],
];

/** What came with protocol 4. */
export const protocol4: Group = [
  [Op.FRAME, (m) => void m.need(m.length8())],
  [Op.MEMOIZE, (m) => m.memoize()],
  [Op.SHORT_BINUNICODE, (m) => m.stack.push(m.dialect.text(m.input, m.need(m.u8())))],
  [Op.SHORT_BINBYTES, (m) => m.stack.push(m.input.copy(m.need(m.u8())))],
  [Op.BINBYTES, (m) => m.stack.push(m.input.copy(m.need(m.u32())))],
  [Op.BINBYTES8, (m) => m.stack.push(m.input.copy(m.need(m.length8())))],
  [Op.BYTEARRAY8, (m) => m.stack.push(new PyByteArray(m.input.copy(m.need(m.length8())).buffer))],
  [Op.EMPTY_SET, (m) => pushContainer(m, new Set())],
  [Op.ADDITEMS, addItems],
  [Op.FROZENSET, (m) => pushContainer(m, new PyFrozenSet(m.popMark()))],
  [Op.STACK_GLOBAL, stackGlobal],
  [Op.NEWOBJ_EX, newObjectEx],
];

/** An id of something that is not in the pickle. */
export const persistent: Group = [[Op.BINPERSID, external]];

/** A two's complement integer; a bigint where a number cannot hold it. */
function long(m: Machine, nbytes: number): number | bigint {
  checkLimit('integer in a pickle', nbytes, MAX_INTEGER_BYTES);
  return integerAt(m.input.bytes, m.take(nbytes), nbytes);
}

function popTwo(m: Machine): [unknown, unknown] {
  const second = m.pop();
  return [m.pop(), second];
}

function popThree(m: Machine): [unknown, unknown, unknown] {
  const third = m.pop();
  const second = m.pop();
  return [m.pop(), second, third];
}

function pushContainer(m: Machine, container: object): void {
  m.object();
  m.stack.push(container);
}

function tuple(m: Machine, items: unknown[]): void {
  pushContainer(m, tupleOf(items));
}

function append(m: Machine, items: unknown[]): void {
  const list = m.top();
  if (m.isUnknown(list)) return;
  // A tuple is an array too, but not one that grows.
  if (!Array.isArray(list) || list instanceof PyTuple) throw refuse('a pickle appends to something that is no list');
  fill(list as unknown[], items);
  if (list instanceof PyDeque && list.maxLength !== null && list.length > list.maxLength)
    throw refuse('a pickle appends more to a deque than it holds');
}

function setItems(m: Machine, items: unknown[]): void {
  const dict = m.top();
  if (m.isUnknown(dict)) return;
  if (!(dict instanceof Map)) throw refuse('a pickle sets items of something that is no dict');
  if (items.length % 2 !== 0) throw refuse('a pickle sets a key without a value');
  for (let i = 0; i < items.length; i += 2) (dict as Map<unknown, unknown>).set(items[i], items[i + 1]);
}

function addItems(m: Machine): void {
  const items = m.popMark();
  const set = m.top();
  if (!(set instanceof Set) || set instanceof PyFrozenSet)
    throw refuse('a pickle adds items to something that is no set');
  for (const item of items) (set as Set<unknown>).add(item);
}

function stackGlobal(m: Machine): void {
  const [module, name] = popTwo(m);
  if (typeof module !== 'string' || typeof name !== 'string') throw refuse('a name in a pickle is no text');
  m.global(module, name);
}

function argumentsOf(args: unknown): unknown[] {
  if (!Array.isArray(args)) throw refuse('the arguments of a call in a pickle are no tuple');
  return args;
}

/** Runs what a name of the list, or an offered one, does; its errors are the pickle's. */
function guarded<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof WireError) throw error;
    throw refuse(error instanceof Error ? error.message : String(error), error);
  }
}

function external(m: Machine): void {
  const id = m.pop();
  m.stack.push(guarded(() => m.dialect.persistent(id)));
}

function pushMade(m: Machine, make: () => unknown): void {
  const value = guarded(make);
  if (value instanceof Unbuilt) m.awaitState();
  if (value instanceof RemoteException) m.admit(value.type);
  m.stack.push(value);
}

function reduce(m: Machine): void {
  const [callee, args] = popTwo(m);
  const list = argumentsOf(args);
  m.object();
  m.copies(list);
  if (m.callUnknown(callee)) return;
  if (callee instanceof PyCallable) pushMade(m, () => callee.call(list));
  else if (callee instanceof PyClass && callee.call !== undefined) pushMade(m, () => callee.call?.(list));
  else throw m.refuseCall(callee);
}

function newObject(m: Machine, kwargs: ReadonlyMap<unknown, unknown> | undefined): void {
  const [type, args] = popTwo(m);
  const list = argumentsOf(args);
  m.object();
  if (m.callUnknown(type)) return;
  if (!(type instanceof PyClass)) throw m.refuseCall(type);
  m.copies(list);
  pushMade(m, () => type.make(list, kwargs));
}

function newObjectEx(m: Machine): void {
  const kwargs = m.pop();
  if (!(kwargs instanceof Map)) throw refuse('the keyword arguments of an object in a pickle are no dict');
  newObject(m, kwargs as Map<unknown, unknown>);
}

function build(m: Machine): void {
  const state = m.pop();
  const object = m.top();
  m.copies(partsOfState(state));
  if (m.isUnknown(object)) return;
  if (object instanceof Unbuilt)
    m.built(
      object,
      guarded(() => object.build(state)),
    );
  else if (isStateful(object)) guarded(() => object[setState](state));
  else throw refuse('a pickle sets the state of something that has none');
}

/** What an object copies of its state: itself; the bytes and shape of an array, which are in a tuple; the dicts of a module in its dict. */
function partsOfState(state: unknown): unknown[] {
  if (state instanceof PyTuple) return [state, ...state];
  return state instanceof Map ? [state, ...[...state.values()].filter((value) => value instanceof Map)] : [];
}
