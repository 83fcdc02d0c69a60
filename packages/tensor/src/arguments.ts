/** @file Arguments of other kinds than the types of public functions and methods say, refused by name where programs without types give them. */
import { reword } from './called-as.ts';
import { DTypeError, ShapeError } from './errors.ts';
import { ARGUMENTS } from './gen/arguments.ts';
import { kindOf } from './given.ts';
import type { Tensor } from './tensor.ts';
import { ANY, BIT, bitOf, misfitOf, waysOf, type Parameter, type Way } from './argument-kinds.ts';

/** `fn`, which refuses arguments that do not fit; itself where nothing is known of what it takes. */
export function checkedAs<F extends (...args: never[]) => unknown>(name: string, fn: F): F {
  const text = textOf(name);
  return text === undefined ? fn : (checkedBy(text, fn as unknown as Run, 0) as unknown as F);
}

/** As `checkedAs`, for the body of a method: what follows the tensor it is called on. Those that are functions too check themselves. */
export function checkedMethod<F extends (self: Tensor, ...args: never[]) => unknown>(method: string, body: F): F {
  const text = textOf(`#${method}`);
  return text === undefined ? body : (checkedBy(text, body as unknown as Run, 1) as unknown as F);
}

function textOf(name: string): string | undefined {
  return Object.hasOwn(ARGUMENTS, name) ? ARGUMENTS[name] : undefined;
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
  if (text.includes('...') || text.includes(')(') || self + countOf(text) > 3)
    return (...args) => {
      check(args);
      try {
        return run(...args);
      } catch (error) {
        throw named(error, text);
      }
    };
  // Most calls have tensors, numbers and nothing else: of these no more than their kinds is looked at, and no list is made. Two functions
  // may share a name, and be told apart by what follows (softplus): it goes on as it came.
  return (a, b, c, d, e) => {
    const quick =
      bits !== undefined && (bitOf(a) & bits[0]) !== 0 && (bitOf(b) & bits[1]) !== 0 && (bitOf(c) & bits[2]) !== 0;
    if (!quick) check([a, b, c]);
    try {
      return run(a, b, c, d, e);
    } catch (error) {
      throw named(error, text);
    }
  };
}

/** How messages begin that name an operation: those of the innermost, which threw. */
const NAMED = /^[\w.]+(\(\))?: /;

/** What an operation threw about shapes or dtypes, with the operation's name before it; many checks are of several operations. */
function named(error: unknown, text: string): unknown {
  if (!(error instanceof ShapeError || error instanceof DTypeError)) return error;
  const { message } = error;
  const what = text.slice(0, text.indexOf('('));
  if (NAMED.test(message) || message.startsWith(what.slice(what.lastIndexOf('.') + 1))) return error;
  reword(error, `${what}(): ${message}`);
  return error;
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
  let ways = read.get(name);
  if (ways === undefined) {
    const text = textOf(name);
    if (text === undefined) return;
    read.set(name, (ways = waysOf(text)));
  }
  if (!fitsOne(ways, args)) throw refusal(textOf(name) as string, ways, args);
}

/** As `checkArguments`, for the constructor of a class, or of one that a program derived from it. */
export function checkMade(made: object, args: readonly unknown[]): void {
  for (let at: object | null = made; at !== null; at = Object.getPrototypeOf(at) as object | null) {
    const name: unknown = Object.hasOwn(at, NAME) ? (at as Readonly<Record<symbol, unknown>>)[NAME] : undefined;
    if (typeof name === 'string' && textOf(name) !== undefined) return checkArguments(name, args);
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

/** What programs of PyTorch may mean by a name that does less here. */
const INSTEAD: Readonly<Record<string, string>> = {
  max: '; amax() is the largest of all elements, maximum() the larger of two tensors',
  min: '; amin() is the smallest of all elements, minimum() the smaller of two tensors',
};

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
  const instead = name === 'dim' ? (INSTEAD[what] ?? '') : '';
  return new TypeError(`${called}: ${name}${path} is ${words}, got ${kindOf(value)}${instead}`);
}
