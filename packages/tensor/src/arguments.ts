/** @file Arguments of other kinds than the types of public functions and methods say, refused by name where programs without types give them. */
import { ARGUMENTS } from './gen/arguments.ts';
import { kindOf } from './given.ts';
import { Tensor } from './tensor.ts';

/** What does not fit: where it is inside of an argument, and what it should be. */
interface Misfit {
  readonly path: string;
  readonly words: string;
  readonly value: unknown;
}

/** Some values: which they are, and what they are called. */
interface Kind {
  readonly words: string;
  /** Of what is told by `typeof` and `instanceof` alone: all calls are checked, the smallest operations take a tenth of a microsecond. */
  readonly bits: number;
  fits(this: void, value: unknown): boolean;
  /** The part that does not fit of a value that would otherwise. */
  inside?(this: void, value: unknown): Misfit | undefined;
}

interface Parameter {
  readonly name: string;
  readonly kind: Kind;
}

/** One way of calling; `rest` is the kind of all further arguments. */
interface Way {
  readonly parameters: readonly Parameter[];
  readonly rest: Parameter | undefined;
}

/** `fn`, which refuses arguments that do not fit; itself where nothing is known of what it takes. */
export function checkedAs<F extends (...args: never[]) => unknown>(name: string, fn: F): F {
  const text = Object.hasOwn(ARGUMENTS, name) ? ARGUMENTS[name] : undefined;
  return text === undefined ? fn : (checkedBy(text, fn as unknown as Run, 0) as unknown as F);
}

/** As `checkedAs`, for the body of a method: what follows the tensor it is called on. Those that are functions too check themselves. */
export function checkedMethod<F extends (self: Tensor, ...args: never[]) => unknown>(method: string, body: F): F {
  const name = `#${method}`;
  const text = Object.hasOwn(ARGUMENTS, name) ? ARGUMENTS[name] : undefined;
  return text === undefined ? body : (checkedBy(text, body as unknown as Run, 1) as unknown as F);
}

type Run = (...args: unknown[]) => unknown;

/** `self` is 1 for methods, whose first argument is what they are called on. */
function checkedBy(text: string, run: Run, self: 0 | 1): Run {
  let ways: readonly Way[] | undefined;
  let bits: readonly [number, number, number] | undefined;
  const check = (args: readonly unknown[]): void => {
    if (ways === undefined) {
      ways = waysOf(text);
      bits = bitsOf(ways, self);
    }
    const own = self === 1 ? args.slice(1) : args;
    if (!fitsOne(ways, own)) throw refusal(text, ways, own);
  };
  // How many arguments came is told only where it matters.
  if (text.includes('...') || text.includes(')('))
    return (...args) => {
      check(args);
      return run(...args);
    };
  // Most calls have tensors, numbers and nothing else: of these no more than their kinds is looked at, and no list is made. Two functions
  // may share a name, and be told apart by what follows (softplus): it goes on as it came.
  switch (self + countOf(text)) {
    case 1:
      return (a, b, c, d, e) => {
        if (bits === undefined || (bitOf(a) & bits[0]) === 0) check([a]);
        return run(a, b, c, d, e);
      };
    case 2:
      return (a, b, c, d, e) => {
        if (bits === undefined || (bitOf(a) & bits[0]) === 0 || (bitOf(b) & bits[1]) === 0) check([a, b]);
        return run(a, b, c, d, e);
      };
    case 3:
      return (a, b, c, d, e) => {
        const quick =
          bits !== undefined && (bitOf(a) & bits[0]) !== 0 && (bitOf(b) & bits[1]) !== 0 && (bitOf(c) & bits[2]) !== 0;
        if (!quick) check([a, b, c]);
        return run(a, b, c, d, e);
      };
    default:
      return (...args) => {
        check(args);
        return run(...args);
      };
  }
}

/** How many parameters stand in the parentheses. */
function countOf(text: string): number {
  let depth = 0;
  let commas = 0;
  let some = false;
  for (const character of text.slice(text.indexOf('(') + 1, -1)) {
    if ('([{'.includes(character)) depth++;
    else if (')]}'.includes(character)) depth--;
    else if (character === ',' && depth === 0) commas++;
    some = true;
  }
  return some ? commas + 1 : 0;
}

/** What each of up to three arguments may be; nothing where there are more. */
function bitsOf([way, ...more]: readonly Way[], self: 0 | 1): readonly [number, number, number] | undefined {
  if (way === undefined || more.length > 0 || way.rest !== undefined || way.parameters.length + self > 3)
    return undefined;
  const own = way.parameters.map(({ kind }) => kind.bits);
  const [a = ANY, b = ANY, c = ANY] = self === 1 ? [BIT.tensor, ...own] : own;
  return [a, b, c];
}

const read = new Map<string, readonly Way[]>();

/** @throws TypeError naming the function or class, the argument, what it is and what it has to be. */
export function checkArguments(name: string, args: readonly unknown[]): void {
  const text = ARGUMENTS[name];
  if (text === undefined) return;
  let ways = read.get(name);
  if (ways === undefined) read.set(name, (ways = waysOf(text)));
  if (!fitsOne(ways, args)) throw refusal(text, ways, args);
}

/** As `checkArguments`, for the constructor of a class, or of one that a program derived from it. */
export function checkMade(made: object, args: readonly unknown[]): void {
  for (let at: object | null = made; at !== null; at = Object.getPrototypeOf(at) as object | null) {
    const name: unknown = Object.hasOwn(at, NAME) ? (at as Readonly<Record<symbol, unknown>>)[NAME] : undefined;
    if (typeof name === 'string' && Object.hasOwn(ARGUMENTS, name)) return checkArguments(name, args);
  }
}

/** As `rpcName` of named.ts, which this is part of. */
const NAME = Symbol.for('backwire.rpcName');

function fitsOne(ways: readonly Way[], args: readonly unknown[]): boolean {
  for (let i = 0; i < ways.length; i++) if (misfit(ways[i] as Way, args) === -1) return true;
  return false;
}

/** The position of the first argument that does not fit; -1 when all do. */
function misfit({ parameters, rest }: Way, args: readonly unknown[]): number {
  for (let i = 0; i < parameters.length; i++) if (!(parameters[i] as Parameter).kind.fits(args[i])) return i;
  if (rest === undefined) return -1;
  for (let i = parameters.length; i < args.length; i++) if (!rest.kind.fits(args[i])) return i;
  return -1;
}

/** Says what is wrong by the way of calling that fits the longest. */
function refusal(text: string, ways: readonly Way[], args: readonly unknown[]): TypeError {
  let at = -1;
  let by: Parameter | undefined;
  for (const way of ways) {
    const wrong = misfit(way, args);
    if (wrong > at) [at, by] = [wrong, way.parameters[wrong] ?? way.rest];
  }
  const { name, kind } = by as Parameter;
  const { path, words, value } = misfitOf(kind, args[at]);
  const what = text.slice(0, text.indexOf('('));
  const called = /\.[A-Z]/.test(what) ? what : `${what}()`;
  return new TypeError(`${called}: ${name}${path} is ${words}, got ${kindOf(value)}`);
}

function misfitOf(kind: Kind, value: unknown): Misfit {
  return kind.inside?.(value) ?? { path: '', words: kind.words, value };
}

function within(path: string, kind: Kind, value: unknown): Misfit {
  const inner = misfitOf(kind, value);
  return { ...inner, path: `${path}${inner.path}` };
}

const BIT = { tensor: 1, number: 2, boolean: 4, undefined: 8, other: 16 } as const;
/** Those of all values. */
const ANY = 31;

function bitOf(value: unknown): number {
  switch (typeof value) {
    case 'object':
      return value instanceof Tensor ? BIT.tensor : BIT.other;
    case 'number':
      return BIT.number;
    case 'undefined':
      return BIT.undefined;
    case 'boolean':
      return BIT.boolean;
    default:
      return BIT.other;
  }
}

function simple(words: string, fits: (value: unknown) => boolean, bits = 0): Kind {
  return { words, fits, bits };
}

/** The kinds that have names. */
const KINDS: Readonly<Record<string, Kind>> = {
  any: simple('anything', () => true, ANY),
  tensor: simple('a Tensor', (value) => value instanceof Tensor, BIT.tensor),
  number: simple('a number', (value) => typeof value === 'number', BIT.number),
  boolean: simple('true or false', (value) => typeof value === 'boolean', BIT.boolean),
  bigint: simple('a bigint', (value) => typeof value === 'bigint'),
  text: simple('a text', (value) => typeof value === 'string'),
  function: simple('a function', (value) => typeof value === 'function'),
  null: simple('null', (value) => value === null),
  undefined: simple('undefined', (value) => value === undefined, BIT.undefined),
  // Of texts the function says itself which dtype was probably meant.
  dtype: simple("a dtype, such as 'float32'", (value) => typeof value === 'string'),
};

function either(kinds: readonly Kind[]): Kind {
  const [first, second, ...more] = kinds as [Kind, Kind, ...Kind[]];
  const named = kinds.filter(({ words }) => words !== 'undefined').map(({ words }) => words);
  return {
    words: named.join(' or '),
    bits: kinds.reduce((bits, one) => bits | one.bits, 0),
    fits: (value) => first.fits(value) || second.fits(value) || more.some((one) => one.fits(value)),
    inside: (value) => kinds.map((one) => one.inside?.(value)).find((found) => found !== undefined),
  };
}

function list(of: Kind): Kind {
  const plural = PLURALS[of.words];
  return {
    words: plural === undefined ? 'a list' : `a list of ${plural}`,
    bits: 0,
    fits: (value) => {
      if (!Array.isArray(value)) return false;
      // Not `every`, which leaves out what an array has no element for.
      for (let i = 0; i < value.length; i++) if (!of.fits(value[i])) return false;
      return true;
    },
    inside: (value) => {
      if (!Array.isArray(value)) return undefined;
      const at = Array.from(value as unknown[]).findIndex((one) => !of.fits(one));
      return at === -1 ? undefined : within(`[${at}]`, of, value[at]);
    },
  };
}

const PLURALS: Readonly<Record<string, string>> = { 'a number': 'numbers', 'a Tensor': 'Tensors', 'a text': 'texts' };

function options(fields: readonly Parameter[]): Kind {
  // What only needs a length may be a list.
  const sized = fields.some(({ name }) => name === 'length');
  const isObject = (value: unknown): value is Record<string, unknown> =>
    typeof value === 'object' && value !== null && !(Array.isArray(value) && !sized) && !(value instanceof Tensor);
  const wrong = (value: Record<string, unknown>): Parameter | undefined =>
    fields.find(({ name, kind }) => !kind.fits(value[name]));
  return {
    words: `an object with ${fields.map(({ name }) => name).join(', ')}`,
    bits: 0,
    fits: (value) => isObject(value) && wrong(value) === undefined,
    inside: (value) => {
      if (!isObject(value)) return undefined;
      const field = wrong(value);
      return field && within(`.${field.name}`, field.kind, value[field.name]);
    },
  };
}

/** Reads 'repeat(t:tensor,counts:number[])'; several ways of calling stand one behind the other. */
function waysOf(text: string): Way[] {
  const reader = new Reader(text);
  reader.name();
  const ways: Way[] = [];
  while (reader.take('(')) ways.push(reader.way());
  return ways;
}

/** Reads kinds as TypeScript writes types. */
class Reader {
  private readonly text: string;
  private at = 0;

  constructor(text: string) {
    this.text = text;
  }

  take(token: string): boolean {
    if (!this.text.startsWith(token, this.at)) return false;
    this.at += token.length;
    return true;
  }

  name(): string {
    const start = this.at;
    while (/[\w.]/.test(this.text.charAt(this.at))) this.at++;
    return this.text.slice(start, this.at);
  }

  way(): Way {
    const parameters: Parameter[] = [];
    while (!this.take(')')) {
      this.take(',');
      if (!this.take('...')) parameters.push(this.parameter());
      else {
        const name = this.name();
        this.take(':');
        // Nothing is taken: what comes all the same is of no matter, as in any call.
        if (this.take('[]') && this.take(')')) return { parameters, rest: undefined };
        const rest = { name, kind: this.element() };
        this.take(')');
        return { parameters, rest };
      }
    }
    return { parameters, rest: undefined };
  }

  private parameter(): Parameter {
    const name = this.name();
    const optional = this.take('?');
    this.take(':');
    const kind = this.kind();
    return { name, kind: optional ? either([KINDS.undefined as Kind, kind]) : kind };
  }

  private kind(): Kind {
    const texts: string[] = [];
    const kinds: Kind[] = [];
    do {
      if (this.take("'")) texts.push(this.literal());
      else kinds.push(this.part());
    } while (this.take('|'));
    if (texts.length > 0) {
      const words = texts.map((one) => `'${one}'`).join(' or ');
      kinds.push(simple(words, (value) => typeof value === 'string' && texts.includes(value)));
    }
    return kinds.length === 1 ? (kinds[0] as Kind) : either(kinds);
  }

  private literal(): string {
    const end = this.text.indexOf("'", this.at);
    const literal = this.text.slice(this.at, end);
    this.at = end + 1;
    return literal;
  }

  private part(): Kind {
    let kind = this.element();
    while (this.take('[]')) kind = list(kind);
    return kind;
  }

  private known(): Kind {
    const name = this.name();
    const kind = KINDS[name];
    if (kind === undefined) throw new Error(`'${name}' is no kind: ${this.text}`);
    return kind;
  }

  private element(): Kind {
    if (this.take('(')) {
      const kind = this.kind();
      this.take(')');
      return kind;
    }
    if (!this.take('{')) return this.known();
    const fields: Parameter[] = [];
    while (!this.take('}')) {
      this.take(',');
      fields.push(this.parameter());
    }
    return options(fields);
  }
}
