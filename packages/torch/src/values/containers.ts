/** @file Python's containers that JavaScript has no equal of. The others are arrays (list), Maps (dict), Sets and Uint8Arrays (bytes). */
import { setState, type PyName } from './name.ts';

/** A tuple: an array that Python takes as a tuple. Methods that make a new array make a plain one, a list. */
export class PyTuple<T = unknown> extends Array<T> {
  static override get [Symbol.species](): ArrayConstructor {
    return Array;
  }
}

/** A tuple of `items`; `new PyTuple(3)` would be an array of length 3. */
export function tupleOf<T>(items: readonly T[]): PyTuple<T> {
  return fill(new PyTuple<T>(), items);
}

/** Adds all items, which may be too many for one call of `push`. */
export function fill<T, A extends T[]>(into: A, items: readonly T[]): A {
  for (let i = 0; i < items.length; i++) into.push(items[i] as T);
  return into;
}

/** One that a program has made, and which stays a tuple wherever it travels: those that came from Python are lists to other workers. */
export class PyGivenTuple<T = unknown> extends PyTuple<T> {}

/** torch.Size. */
export class TorchSize extends PyTuple<number> {}

/** collections.deque; `maxLength` null is unbounded. */
export class PyDeque<T = unknown> extends Array<T> {
  maxLength: number | null = null;

  static override get [Symbol.species](): ArrayConstructor {
    return Array;
  }
}

/** A frozenset. */
export class PyFrozenSet<T = unknown> extends Set<T> {}

/** A bytearray. */
export class PyByteArray extends Uint8Array {}

/** collections.OrderedDict. `attributes` are what was set on the object itself, as `_metadata` of a module's state. */
export class PyOrderedDict<K = unknown, V = unknown> extends Map<K, V> {
  attributes: ReadonlyMap<unknown, unknown> | undefined = undefined;

  [setState](state: unknown): void {
    if (!(state instanceof Map)) throw new TypeError('the state of an OrderedDict is no dict');
    this.attributes = state;
  }
}

/** collections.defaultdict. The factory is a name: it is not called here. */
export class PyDefaultDict<K = unknown, V = unknown> extends Map<K, V> {
  factory: PyName | null = null;
}

/** List[T] of TorchScript, which knows the type of its elements: 'int', 'Tensor', 'List[int]', 'Any' … */
export class ScriptList<T = unknown> extends Array<T> {
  elementType = 'Any';

  static override get [Symbol.species](): ArrayConstructor {
    return Array;
  }
}

/** A ScriptList of `items`. */
export function scriptList<T>(elementType: string, items: readonly T[]): ScriptList<T> {
  const list = fill(new ScriptList<T>(), items);
  list.elementType = elementType;
  return list;
}

/** Dict[K, V] of TorchScript. */
export class ScriptDict<K = unknown, V = unknown> extends Map<K, V> {
  keyType = 'Any';
  valueType = 'Any';
}

/** A ScriptDict of `entries`. */
export function scriptDict<K, V>(keyType: string, valueType: string, entries: Iterable<[K, V]>): ScriptDict<K, V> {
  const dict = new ScriptDict<K, V>();
  for (const [key, value] of entries) dict.set(key, value);
  dict.keyType = keyType;
  dict.valueType = valueType;
  return dict;
}
