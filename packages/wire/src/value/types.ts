/** @file Which classes travel by value: the append-only table of registered types, and the extensions a caller passes to the codec. */
import { unknownOption } from '@backwire/tensor/internal';

/** How instances of a class travel by value. */
export interface ValueType<T = unknown> {
  /** The same on every worker. */
  readonly name: string;
  readonly match: abstract new (...args: never[]) => T;
  /** Gives something that can be encoded in its place; it may contain tensors and other registered types. */
  encode(value: T): unknown;
  decode(plain: unknown): T;
}

/**
 * Values that only the caller understands (an RRef, a WorkerInfo). `ctx` is whatever the caller handed to the codec. They are asked
 * for objects that are neither tensors, arrays, plain objects nor built-in containers, and for functions, in the order given.
 */
export interface ValueExtension<C = unknown> {
  /** Names the extension on the wire. */
  readonly tag: string;
  match(value: unknown): boolean;
  encode(value: unknown, ctx: C): unknown;
  decode(plain: unknown, ctx: C): unknown;
}

/** Where tensors and handles are noted that a registered type has found when it was decoded: they neither came in the message nor were made of it. */
export interface Findings {
  found: Set<unknown> | undefined;
}

/** A value that only an extension or a class of the other side understands, as it is on the wire. */
export class TaggedValue {
  /** Whose it is: an extension's, or a class's that is registered with `registerValueType`. */
  readonly kind: 'extension' | 'type';
  readonly tag: string;
  /** What travels in its place. */
  readonly plain: unknown;

  constructor(kind: 'extension' | 'type', tag: string, plain: unknown) {
    this.kind = kind;
    this.tag = tag;
    this.plain = plain;
  }
}

interface Table {
  readonly byName: Map<string, ValueType>;
  readonly byPrototype: Map<object, ValueType>;
}

// On a well-known global symbol, so that two installed copies of this package agree.
const KEY = Symbol.for('backwire.valueTypes');
const holder = globalThis as { [KEY]?: Table };
const table: Table = (holder[KEY] ??= { byName: new Map(), byPrototype: new Map() });

const NAMES: ReadonlySet<string> = new Set(['name', 'match', 'encode', 'decode']);
const EXAMPLE = "{ name: 'Point', match: Point, encode: (point) => [point.x], decode: ([x]) => new Point(x) }";

/**
 * Lets instances of `type.match`, and of its subclasses that are not registered themselves, travel by value in arguments and results.
 * The table is process-wide and append-only: a name means one class. Registering the same class again under its name does nothing.
 * @param type `name`, the same on all workers; `match`, the class; `encode`, which gives a value that travels; `decode`, which takes it
 * @throws TypeError when the name or the class is taken; the message names both.
 * @example
 * ```ts workers=worker1
 * class Point {
 *   readonly x: number;
 *   readonly y: number;
 *   constructor(x: number, y: number) {
 *     this.x = x;
 *     this.y = y;
 *   }
 * }
 * registerValueType({
 *   name: 'example/Point',
 *   match: Point,
 *   encode: ({ x, y }) => [x, y],
 *   decode: (plain) => new Point(...(plain as [number, number])),
 * });
 * const mirrored = rpcFunction('example/mirrored', ({ x, y }: Point) => new Point(y, x));
 * console.log(await rpcSync('worker1', mirrored, [new Point(1, 2)])); // Point { x: 2, y: 1 }
 * ```
 */
export function registerValueType<T>(type: {
  name: string;
  // `any`: the constructor's arguments are of no interest, and only `any` accepts every constructor.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  match: abstract new (...args: any[]) => T;
  encode(value: T): unknown;
  decode(plain: unknown): T;
}): void {
  if (typeof type !== 'object' || type === null) throw new TypeError(`registerValueType() takes ${EXAMPLE}`);
  if (typeof type.name !== 'string' || type.name === '') throw new TypeError(`a value type needs a name: ${EXAMPLE}`);
  if (typeof type.match !== 'function')
    throw new TypeError(`value type '${type.name}' needs a class to match: ${EXAMPLE}`);
  for (const method of ['encode', 'decode'] as const)
    if (typeof type[method] !== 'function')
      throw new TypeError(`value type '${type.name}' needs a function ${method}: ${EXAMPLE}`);
  const wrong = unknownOption(type, NAMES, 'registerValueType()');
  if (wrong !== undefined) throw new TypeError(wrong);
  const entry = type as unknown as ValueType;
  const prototype = type.match.prototype as object;
  const sameName = table.byName.get(type.name);
  if (sameName !== undefined) {
    if (sameName.match === entry.match) return;
    throw new TypeError(
      `value type '${type.name}' is class ${sameName.match.name} already; class ${entry.match.name} needs another name`,
    );
  }
  const sameClass = table.byPrototype.get(prototype);
  if (sameClass !== undefined)
    throw new TypeError(
      `class ${entry.match.name} is value type '${sameClass.name}' already; it cannot be '${type.name}' too`,
    );
  table.byName.set(type.name, entry);
  table.byPrototype.set(prototype, entry);
}

/** The registered type of an object: its own class or the nearest registered base class. */
export function valueTypeOf(value: object): ValueType | undefined {
  if (table.byPrototype.size === 0) return undefined;
  for (let p: unknown = Object.getPrototypeOf(value); p !== null && p !== undefined; p = Object.getPrototypeOf(p)) {
    const type = table.byPrototype.get(p);
    if (type !== undefined) return type;
  }
  return undefined;
}

/** The type registered under this name. */
export function valueTypeNamed(name: string): ValueType | undefined {
  return table.byName.get(name);
}
