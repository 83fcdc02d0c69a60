/** @file A difference that was found, and what can be asked of it and of its program. */
import type { Difference } from './compare.ts';
import { elements, EPSILON } from './dtypes.ts';
import { isTensor, type Outcome, type Seen } from './outcome.ts';
import { isInput, type Arg, type Input, type Program, type Statement } from './program.ts';

/** What an explanation looks at. */
export interface Found {
  readonly program: Program;
  readonly difference: Difference;
  readonly backend: string;
  readonly torchs: Outcome;
  readonly ours: Outcome;
}

export interface Explanation {
  readonly name: string;
  readonly reason: string;
  readonly holds: (found: Found) => boolean;
}

/** Whether one of a program's inputs is such. */
export function someInput({ lines }: Program, holds: (line: Input) => boolean): boolean {
  return lines.some((line) => isInput(line) && holds(line));
}

/** Whether one of a program's statements is such. */
export function someStatement({ lines }: Program, holds: (line: Statement) => boolean): boolean {
  return lines.some((line) => !isInput(line) && holds(line));
}

/** The element that a difference shows is infinite or NaN. */
export function isOverflow(shown: string): boolean {
  return /(^|: )(NaN|-?Infinity)$/.test(shown);
}

/** Whether a backend's kernels work in single precision on the WebAssembly heap. */
export const onHeap = (backend: string): boolean => backend === 'wasm' || backend === 'blas';

/** Whether an input holds numbers near the largest. */
export function isExtreme({ data, dtype }: Input): boolean {
  if (data === undefined || data.length === 0) return false;
  const values = elements(data, dtype);
  for (let i = 0; i < values.length; i++) if (Math.abs(Number(values[i])) > 1e37) return true;
  return false;
}

/** Whether an input holds an infinite number. */
export function isInfinite({ data, dtype }: Input): boolean {
  return (
    data !== undefined && !/int|bool/.test(dtype) && numbers({ data, dtype }).some((v) => Math.abs(v) === Infinity)
  );
}

/** Whether an input holds a number that is infinite or NaN. */
export function isNotFinite({ data, dtype }: Input): boolean {
  return data !== undefined && !/int|bool/.test(dtype) && !numbers({ data, dtype }).every(Number.isFinite);
}

/** The smallest size of an input's elements; of those that are not zero, unless `zeros` count. 1 where there is none. */
export function smallestOf({ data, dtype }: Input, zeros = false): number {
  if (data === undefined) return zeros ? 0 : 1;
  const sizes = numbers({ data, dtype }).map(Math.abs);
  const found = sizes.filter((v) => Number.isFinite(v) && (zeros || v !== 0));
  return found.length === 0 ? 1 : Math.min(...found);
}

/** The largest finite size of an input's elements. */
export function largestOf({ data, dtype }: Input): number {
  if (data === undefined) return 2;
  return Math.max(0, ...numbers({ data, dtype }).map(Math.abs).filter(Number.isFinite));
}

function numbers({ data, dtype }: { readonly data: Uint8Array; readonly dtype: Input['dtype'] }): number[] {
  return Array.from(elements(data, dtype) as ArrayLike<number | bigint>, Number);
}

/** Whether a tensor without elements is among what is seen. */
export function isEmpty({ seen }: Outcome): boolean {
  return Object.values(seen).some((one) => isTensor(one) && one.shape.includes(0));
}

/** Whether an option is given and true. */
export function hasOption({ args }: Statement, name: string): boolean {
  return args.some((arg) => typeof arg === 'object' && 'options' in arg && arg.options[name] === true);
}

/** Whether an option is given and is this text. */
export function hasText({ args }: Statement, name: string, text: string): boolean {
  return args.some((arg) => typeof arg === 'object' && 'options' in arg && arg.options[name] === text);
}

/** A product to which nothing of the first operand is added. */
export function ignoresFirst({ op, args }: Statement): boolean {
  const none = args.some((arg) => typeof arg === 'object' && 'options' in arg && arg.options['beta'] === 0);
  return none && /^(add|badd)bmm|^addm[mv]/.test(op);
}

/** The operations of a program that only move elements. */
export function viewsOf({ lines }: Program): string[] {
  return lines.flatMap((line) => (isInput(line) || line.rounding !== 'never' ? [] : [line.op]));
}

/** The number of steps of a parameter that has taken none. */
export function isUntouched(seen: Seen | undefined): boolean {
  return seen !== undefined && 'plain' in seen && seen.plain === 0;
}

export function isComplex(seen: Seen | undefined): boolean {
  return isTensor(seen) && seen.dtype === 'complex64';
}

/** Whether a change in place reads what it writes to: some operand is made of another of its arguments. */
export function sharesMemory({ lines }: Program): boolean {
  return lines.some((line) => {
    if (isInput(line) || !isInPlace(line)) return false;
    const roots = line.args.flatMap((arg) => (isRef(arg) ? [rootOf(lines, arg.ref)] : []));
    return new Set(roots).size < roots.length;
  });
}

function isInPlace(line: Statement): boolean {
  return /_\(/.test(line.ts);
}

function rootOf(lines: Program['lines'], at: number): number {
  const line = lines[at];
  if (line === undefined || isInput(line)) return at;
  const first = line.args[0];
  const moves = line.rounding === 'never' || isInPlace(line);
  return moves && !line.ts.includes('clone()') && isRef(first) ? rootOf(lines, first.ref) : at;
}

function isRef(arg: Arg | undefined): arg is { readonly ref: number } {
  return typeof arg === 'object' && arg !== null && 'ref' in arg;
}

export function isNaNs(seen: Seen | undefined): boolean {
  if (!isTensor(seen)) return false;
  const values = elements(seen.data, seen.dtype);
  for (let i = 0; i < values.length; i++) if (Number.isNaN(Number(values[i]))) return true;
  return false;
}

export function isEmptyList(arg: Arg): boolean {
  return Array.isArray(arg) && arg.length === 0;
}

/** `4.0.exp_avg`: an accumulator of optimiser 4. */
export function isState(path: string): boolean {
  return /^\d+\.\d+\.[a-z_]+$/.test(path);
}

/** Whether gradients are differentiated in it. */
export function isSecond(program: Program): boolean {
  return someStatement(program, (line) => /createGraph|secondly/.test(line.ts));
}

/** Whether what differs is a gradient, be it one that is differentiated again. */
export function isSlope({ program, difference }: Found): boolean {
  return difference.kind === 'gradient' || (difference.kind === 'value' && isSecond(program));
}

export function isZero(seen: Seen | undefined): boolean {
  if (!isTensor(seen)) return false;
  const values = elements(seen.data, seen.dtype);
  // Terms that cancel leave their rounding.
  for (let i = 0; i < values.length; i++) if (!(Math.abs(Number(values[i])) <= 8 * EPSILON[seen.dtype])) return false;
  return true;
}

/** Options with a factor that may make a size twice as large without being 2. */
export function nearlyDoubles(arg: Arg): boolean {
  if (typeof arg !== 'object' || !('options' in arg)) return false;
  return [arg.options['scaleFactor']].flat().some((factor) => typeof factor === 'number' && factor > 2 && factor < 3);
}
