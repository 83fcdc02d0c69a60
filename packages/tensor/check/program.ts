/** @file A case as plain data: lines that make values, each operation written once for this package and once for PyTorch. */
import type { DType } from '../src/index.ts';

/** An earlier line's value. */
export interface Ref {
  readonly ref: number;
}
/** A dtype, which the two libraries write differently. */
interface DTypeArg {
  readonly dtype: DType;
}
/** Named options: an object here, keyword arguments there. */
interface OptionsArg {
  readonly options: Readonly<Record<string, Arg>>;
}

/** An argument. `undefined` is an argument that is left out, None in Python. */
export type Arg = Ref | DTypeArg | OptionsArg | number | boolean | string | undefined | readonly Arg[];

/** A tensor given: `data` are its bytes; a large one is a `pattern` instead, a number both sides make the same elements from. */
export interface Input {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly data: Uint8Array | undefined;
  readonly pattern: number;
  readonly requiresGrad: boolean;
}

/**
 * How the elements of a result are rounded, which decides by how much two right answers may differ: `once` each for itself, `sums` as
 * sums of rounded terms, `inPlace` as once, into memory that others may share, `step` where an optimiser writes its parameters, `never`
 * where elements are only moved.
 */
export type Rounding = 'once' | 'sums' | 'inPlace' | 'step' | 'never';

/** One operation. In both texts `$0`, `$1` … stand for the arguments; a leading `!` marks a statement without a value. */
export interface Statement {
  /** The operation's name in the tables. */
  readonly op: string;
  readonly ts: string;
  readonly py: string;
  readonly args: readonly Arg[];
  readonly rounding: Rounding;
}

/** Values are known by the number of the line that made them. */
export type Line = Input | Statement;

export interface Program {
  /** The part of the checker that drew it. */
  readonly suite: string;
  /** What it was drawn from: `suite/seed/number`. */
  readonly seed: string;
  readonly lines: readonly Line[];
}

export function isInput(line: Line): line is Input {
  return 'shape' in line;
}

export function isRef(arg: Arg): arg is Ref {
  return typeof arg === 'object' && 'ref' in arg;
}

/** The lines that an argument refers to, in order, wherever they are in it. */
function refsIn(arg: Arg): number[] {
  if (typeof arg !== 'object') return [];
  if ('ref' in arg) return [arg.ref];
  if ('dtype' in arg) return [];
  if ('options' in arg) return Object.values(arg.options).flatMap(refsIn);
  return arg.flatMap(refsIn);
}

/** The argument with every reference passed through `fn`. */
export function mapRefs(arg: Arg, fn: (ref: number) => number): Arg {
  if (typeof arg !== 'object' || 'dtype' in arg) return arg;
  if ('ref' in arg) return { ref: fn(arg.ref) };
  if ('options' in arg) {
    return { options: Object.fromEntries(Object.entries(arg.options).map(([k, v]) => [k, mapRefs(v, fn)])) };
  }
  return arg.map((one) => mapRefs(one, fn));
}

/** The lines a statement refers to, in order. */
export function refsOf(line: Line): number[] {
  return isInput(line) ? [] : line.args.flatMap(refsIn);
}

/** `logSoftmax` as PyTorch writes it. */
export function snake(name: string): string {
  return SPELLED[name] ?? name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Names that are not those here in other letters. */
const SPELLED: Readonly<Record<string, string>> = {
  keepDim: 'keepdim',
  kthValue: 'kthvalue',
  searchSorted: 'searchsorted',
  argMax: 'argmax',
  argMin: 'argmin',
  argSort: 'argsort',
  topK: 'topk',
  isNaN: 'isnan',
  isInf: 'isinf',
  isFinite: 'isfinite',
  logSumExp: 'logsumexp',
  variance: 'var',
  concat: 'cat',
  allClose: 'allclose',
  leakyRelu: 'leaky_relu',
  hardSigmoid: 'hardsigmoid',
  hardSwish: 'hardswish',
  causal: 'is_causal',
  mask: 'attn_mask',
  layers: 'num_layers',
};
