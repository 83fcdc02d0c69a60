/** @file Names of Python's standard library that a pickle may use, and what becomes of them. Looked up in a Map; nothing else exists. */
import { PyByteArray, PyDefaultDict, PyDeque, PyFrozenSet, PyOrderedDict, fill } from '../values/containers.ts';
import { PyCallable, PyName } from '../values/name.ts';
import { PyComplex, PyFloat, PyRange, PySlice } from '../values/numbers.ts';
import { PyDateTime, PyTimeDelta, PyTimeZone } from '../values/time.ts';
import { builtinExceptions } from './exceptions.ts';
import { refuse } from './refusal.ts';

/** A name that is called with arguments. */
export class PyFunction extends PyCallable {
  private readonly run: (...args: unknown[]) => unknown;

  constructor(module: string, name: string, run: (...args: unknown[]) => unknown) {
    super(module, name);
    this.run = run;
  }

  override call(args: readonly unknown[]): unknown {
    if (args.length > 8) throw refuse(`${args.length} arguments for ${this.path}`);
    return this.run(...args);
  }
}

/** A number in arguments, as a float or an int. */
export function numberIn(value: unknown, what: string): number {
  if (value instanceof PyFloat) return value.value;
  if (typeof value !== 'number') throw refuse(`${what} is no number`);
  return value;
}

/** A whole number from `low` to `high`. */
export function integerIn(value: unknown, low: number, high: number, what: string): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < low || value > high)
    throw refuse(`${what} is no whole number from ${low} to ${high}`);
  return value;
}

function listIn(value: unknown, what: string): readonly unknown[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw refuse(`${what} is made of something that is no list`);
  return value;
}

function bytesIn(value: unknown, what: string): Uint8Array<ArrayBuffer> {
  if (!(value instanceof Uint8Array)) throw refuse(`${what} is made of something that is no bytes`);
  return value as Uint8Array<ArrayBuffer>;
}

function complex(real: unknown, imag: unknown): PyComplex {
  return new PyComplex(numberIn(real, 'the real part'), numberIn(imag, 'the imaginary part'));
}

function byteArray(content: unknown, encoding: unknown): PyByteArray {
  if (content === undefined) return new PyByteArray(0);
  return new PyByteArray(encoding === undefined ? bytesIn(content, 'a bytearray') : latin1(content));
}

/** Protocol 2 has no bytes: it writes them as text of their code points. */
function latin1(text: unknown): Uint8Array<ArrayBuffer> {
  if (typeof text !== 'string') throw refuse('bytes are made of something that is no text');
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 255) throw refuse('bytes are made of text with larger characters');
    bytes[i] = code;
  }
  return bytes;
}

function range(start: unknown, stop: unknown, step: unknown): PyRange {
  return new PyRange(start as number, stop as number, step as number);
}

function orderedDict(entries: unknown): PyOrderedDict {
  const dict = new PyOrderedDict();
  for (const entry of listIn(entries, 'an OrderedDict')) {
    if (!Array.isArray(entry) || entry.length !== 2) throw refuse('an entry of an OrderedDict is no pair');
    dict.set(entry[0], entry[1]);
  }
  return dict;
}

function defaultDict(factory: unknown): PyDefaultDict {
  const dict = new PyDefaultDict();
  if (factory instanceof PyName) dict.factory = factory;
  else if (factory !== undefined && factory !== null) throw refuse('the factory of a defaultdict is no name');
  return dict;
}

function deque(items: unknown, maxLength: unknown): PyDeque {
  const made = fill(new PyDeque(), listIn(items, 'a deque'));
  if (maxLength !== undefined && maxLength !== null)
    made.maxLength = integerIn(maxLength, 0, Number.MAX_SAFE_INTEGER, 'the length of a deque');
  return made;
}

function timeDelta(days: unknown, seconds: unknown, microseconds: unknown): PyTimeDelta {
  return new PyTimeDelta(days as number, seconds as number, microseconds as number);
}

function timeZone(offset: unknown): PyTimeZone {
  return new PyTimeZone(offset as PyTimeDelta);
}

/** The ten bytes of a datetime's state; the month's highest bit is the fold. */
function dateTime(state: unknown, zone: unknown): PyDateTime {
  const b = bytesIn(state, 'a datetime');
  if (b.length !== 10) throw refuse(`a datetime of ${b.length} bytes`);
  const at = (i: number): number => b[i] as number;
  const parts = {
    year: at(0) * 256 + at(1),
    month: at(2) & 0x7f,
    day: at(3),
    hour: at(4),
    minute: at(5),
    second: at(6),
    microsecond: at(7) * 65_536 + at(8) * 256 + at(9),
    fold: at(2) >> 7,
  };
  return new PyDateTime(parts, zone as PyTimeZone | undefined);
}

/** Types that programs keep as values: what a defaultdict makes, or how a column is to be read. Nothing here calls them. */
const TYPES = ['int', 'float', 'str', 'bool', 'bytes', 'dict', 'tuple', 'object'];

const functions: readonly PyName[] = [
  new PyFunction('builtins', 'complex', complex),
  new PyFunction('builtins', 'bytearray', byteArray),
  new PyFunction('builtins', 'slice', (start, stop, step) => new PySlice(start, stop, step)),
  new PyFunction('builtins', 'range', range),
  new PyFunction('builtins', 'set', (items) => new Set(listIn(items, 'a set'))),
  new PyFunction('builtins', 'frozenset', (items) => new PyFrozenSet(listIn(items, 'a frozenset'))),
  new PyFunction('builtins', 'list', (items) => fill([], listIn(items, 'a list'))),
  ...TYPES.map((name) => new PyName('builtins', name)),
  new PyName('builtins', 'Ellipsis'),
  new PyName('builtins', 'NotImplemented'),
  new PyFunction('_codecs', 'encode', latin1),
  new PyFunction('collections', 'OrderedDict', orderedDict),
  new PyFunction('collections', 'defaultdict', defaultDict),
  new PyFunction('collections', 'deque', deque),
  new PyFunction('datetime', 'datetime', dateTime),
  new PyFunction('datetime', 'timedelta', timeDelta),
  new PyFunction('datetime', 'timezone', timeZone),
  new PyName('operator', 'methodcaller'),
  ...builtinExceptions.values(),
];

/** Adds names to a table under 'module name', the form in which `globalKey` looks them up. */
export function tableOf(names: Iterable<PyName>): Map<string, PyName> {
  const table = new Map<string, PyName>();
  for (const name of names) table.set(globalKey(name.module, name.name), name);
  return table;
}

/** Modules and names hold no spaces that matter: what has one is not in any table. */
export function globalKey(module: string, name: string): string {
  return `${module} ${name}`;
}

export const builtinGlobals: ReadonlyMap<string, PyName> = tableOf(functions);
