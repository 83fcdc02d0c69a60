/** @file Makes a program that differs small: fewer lines, smaller tensors, plainer numbers, as long as it differs in the same way. */
import { isDifferentiable } from './dtypes.ts';
import { bytesOf } from './draw/elements.ts';
import type { Checker, Finding } from './checker.ts';
import { isTensor, type Outcome } from './outcome.ts';
import { isInput, isRef, mapRefs, refsOf, type Arg, type Input, type Line, type Program } from './program.ts';

/** For each candidate what it is found to be, or undefined where it does not differ. */
export type Judge = (candidates: readonly Program[]) => Promise<readonly (Finding | undefined)[]>;

/** The smallest program found that differs like `finding`, within a time: candidates that end a process take seconds. */
export async function shrink(finding: Finding, judge: Judge, budgetMs = 30_000): Promise<Finding> {
  const end = performance.now() + budgetMs;
  let current = finding;
  while (performance.now() < end) {
    const size = sizeOf(current.program);
    const candidates = smaller(current.program, current.torchs).filter((one) => sizeOf(one) < size);
    const next = await firstAlike(current, candidates, judge);
    if (next === undefined) return current;
    current = next;
  }
  return current;
}

/** Judges by running candidates on one backend. */
export function judgeWith(checker: Checker): Judge {
  return async (candidates) => {
    const { findings } = await checker.check(candidates);
    return candidates.map((program) => findings.find((one) => one.program === program));
  };
}

/** The first candidate that still differs likewise, looked for in chunks: those at the front are the smallest. */
async function firstAlike(
  current: Finding,
  candidates: readonly Program[],
  judge: Judge,
): Promise<Finding | undefined> {
  for (let at = 0; at < candidates.length; at += 24) {
    const judged = await judge(candidates.slice(at, at + 24));
    const alike = judged.find((one) => one !== undefined && sameFault(one, current));
    if (alike !== undefined) return alike;
  }
  return undefined;
}

/** Whether two findings look like one fault: of one kind, by the same operation, and what is refused for the same reason. */
function sameFault(a: Finding, b: Finding): boolean {
  return signature(a) === signature(b);
}

/** The names PyTorch has for dtypes in its messages. */
const NAMES =
  /c10::complex<float>|c10::BFloat16|c10::Half|\b(BFloat16|ComplexFloat|ComplexDouble|Half|Float|Double|Byte|Char|Short|Int|Long|Bool|unsigned char|signed char|short int|float|double|bool|int|long|u?int8|int16|int32|int64|float16|float32|float64|bfloat16|complex64)\b/g;

export function signature({ difference, program, explained }: Finding): string {
  const { kind, ours, torchs } = difference;
  const words = kind === 'accepts' ? torchs : kind === 'refuses' || kind === 'message' ? ours : '';
  // What is wrong with memory that is shared shows at whichever operation comes next.
  const anywhere = /inplace|in-place|memory location|setStorage/.test(words);
  const told = words
    .replace(NAMES, 'T')
    .replace(/[^A-Za-z ]/g, '')
    .replace(/of \w+ is a view/, '');
  return [kind, anywhere ? '' : faultyOp(program, difference.line), told.slice(0, 90), explained ?? ''].join(' | ');
}

/** The operation that a difference is laid to: that of its line, or for a gradient the last one before the backward pass. */
function faultyOp(program: Program, line: number): string {
  const at = program.lines[line];
  if (at !== undefined && !isInput(at) && at.op !== 'backward') return at.op;
  const last = program.lines.findLast((one) => !isInput(one) && one.op !== 'backward');
  return last === undefined || isInput(last) ? 'input' : last.op;
}

/** What shrinking makes smaller. */
export function sizeOf({ lines }: Program): number {
  return lines.reduce((sum, line) => sum + (isInput(line) ? inputSize(line) : 40 + argsSize(line.args)), 0);
}

function inputSize({ dtype, shape, data, requiresGrad }: Input): number {
  const count = shape.reduce((a, b) => a * b, 1);
  const plain = data === undefined ? 0 : new Set(data).size / 4 + (data.some((v) => v !== 0) ? 1 : 0);
  return 10 + 3 * shape.length + count + plain + (requiresGrad ? 2 : 0) + (dtype === 'float32' ? 0 : 2);
}

function argsSize(args: readonly Arg[]): number {
  return args.reduce<number>((sum, arg) => {
    if (arg === undefined || typeof arg === 'boolean') return sum;
    if (typeof arg === 'number') return sum + (arg === 0 ? 0.1 : Number.isInteger(arg) ? 0.5 : 1);
    if (typeof arg === 'string' || 'ref' in arg) return sum + 1;
    if ('dtype' in arg) return sum + (arg.dtype === 'float32' ? 1 : 2);
    if ('options' in arg) return sum + 3 * Object.keys(arg.options).length + argsSize(Object.values(arg.options));
    return sum + argsSize(arg);
  }, 0);
}

/** Candidates, the boldest first. */
function smaller(program: Program, torchs: Outcome): Program[] {
  const make = (lines: readonly Line[]): Program => ({ ...program, lines });
  return [
    ...beginnings(program.lines).map(make),
    ...withoutWhatFollows(program.lines).map(make),
    ...withoutLines(program.lines).map(make),
    ...settled(program.lines, torchs).map(make),
    ...resized(program.lines).map(make),
    ...inputs(program.lines).map(make),
    ...plainerArgs(program.lines).map(make),
  ];
}

/** The first lines only. */
function beginnings(lines: readonly Line[]): Line[][] {
  const lengths = new Set([0.25, 0.5, 0.75, 0.9].map((part) => Math.floor(lines.length * part)));
  return [...lengths, lines.length - 1].filter((length) => length > 0).map((length) => lines.slice(0, length));
}

/** Without a line and all that need it; of lists it is one item. */
function withoutWhatFollows(lines: readonly Line[]): Line[][] {
  return lines.map((_, at) => {
    const gone = new Set([at]);
    lines.forEach((line, i) => {
      if (!isInput(line) && line.args.some((arg) => needs(arg, gone))) gone.add(i);
    });
    const renumber = (ref: number): number => ref - [...gone].filter((one) => one < ref).length;
    const kept = lines.filter((_line, i) => !gone.has(i));
    return kept.map((line) =>
      isInput(line) ? line : { ...line, args: line.args.map((arg) => mapRefs(withoutItems(arg, gone), renumber)) },
    );
  });
}

/** Whether an argument is nothing without these lines. */
function needs(arg: Arg, gone: ReadonlySet<number>): boolean {
  if (typeof arg !== 'object' || 'dtype' in arg) return false;
  if ('ref' in arg) return gone.has(arg.ref);
  if ('options' in arg) return Object.values(arg.options).some((one) => needs(one, gone));
  return arg.length > 0 && arg.every((one) => needs(one, gone));
}

function withoutItems(arg: Arg, gone: ReadonlySet<number>): Arg {
  return Array.isArray(arg) ? arg.filter((one: Arg) => !needs(one, gone)) : arg;
}

/** Without one line that nothing refers to, or with its place taken by what it was made from. */
function withoutLines(lines: readonly Line[]): Line[][] {
  return lines
    .map((_, i) => lines.length - 1 - i)
    .flatMap((at) => {
      const line = lines[at] as Line;
      const used = lines.some((other) => refsOf(other).includes(at));
      if (!used) return [drop(lines, at, at)];
      if (isInput(line)) return [];
      return refsOf(line)
        .slice(0, 2)
        .map((source) => drop(lines, at, source));
    });
}

/** Leaves line `at` out; who referred to it refers to `instead`. */
function drop(lines: readonly Line[], at: number, instead: number): Line[] {
  const renumber = (ref: number): number => {
    const to = ref === at ? instead : ref;
    return to > at ? to - 1 : to;
  };
  return lines
    .filter((_, i) => i !== at)
    .map((line) => (isInput(line) ? line : { ...line, args: line.args.map((arg) => mapRefs(arg, renumber)) }));
}

/** With an operation's result given instead of computed. */
function settled(lines: readonly Line[], { seen }: Outcome): Line[][] {
  return lines.flatMap((line, at) => {
    const value = seen[String(at)];
    if (isInput(line) || !isTensor(value) || value.sparse || value.data.length > 4096) return [];
    const { dtype, shape, data, requiresGrad } = value;
    const input: Input = { dtype, shape, data, pattern: 0, requiresGrad };
    return [lines.map((one, i) => (i === at ? input : one))];
  });
}

/** With every dimension of one size made smaller. */
function resized(lines: readonly Line[]): Line[][] {
  const sizes = [...new Set(lines.flatMap((line) => (isInput(line) ? line.shape : [])))].sort((a, b) => b - a);
  const found: Line[][] = [];
  for (const n of sizes) {
    for (const m of new Set([1, 2, Math.floor(n / 2), n - 1]))
      if (m < n && m >= 1) found.push(lines.map((line) => resize(line, n, m)));
  }
  for (const [at, line] of lines.entries()) {
    if (!isInput(line)) continue;
    for (const [d, n] of line.shape.entries()) {
      if (n > 1)
        found.push(
          lines.map((one, i) =>
            i === at
              ? reshaped(
                  line,
                  line.shape.map((k, e) => (e === d ? 1 : k)),
                )
              : one,
          ),
        );
      if (n === 1)
        found.push(
          lines.map((one, i) =>
            i === at
              ? reshaped(
                  line,
                  line.shape.filter((_, e) => e !== d),
                )
              : one,
          ),
        );
    }
  }
  return found;
}

function resize(line: Line, n: number, m: number): Line {
  const swap = (k: number): number => (k === n ? m : k);
  if (isInput(line)) return reshaped(line, line.shape.map(swap));
  // Lists are shapes more often than not.
  return {
    ...line,
    args: line.args.map((arg) =>
      Array.isArray(arg) ? arg.map((one: Arg) => (typeof one === 'number' ? swap(one) : one)) : arg,
    ),
  };
}

/** The first elements, as many as the new shape holds. */
function reshaped(input: Input, shape: readonly number[]): Input {
  const count = (dims: readonly number[]): number => dims.reduce((a, b) => a * b, 1);
  const { data } = input;
  if (data === undefined) return { ...input, shape };
  const width = data.length / Math.max(1, count(input.shape));
  return { ...input, shape, data: new Uint8Array(data).slice(0, width * count(shape)) };
}

/** With plainer elements, another dtype, no gradient. */
function inputs(lines: readonly Line[]): Line[][] {
  const found: Line[][] = [];
  const put = (at: number, input: Input): void => void found.push(lines.map((one, i) => (i === at ? input : one)));
  const all = (change: (input: Input) => Input): void =>
    void found.push(lines.map((one) => (isInput(one) ? change(one) : one)));
  for (const dtype of ['float32', 'int64'] as const) {
    all((input) =>
      isDifferentiable(input.dtype) === isDifferentiable(dtype) && input.data !== undefined
        ? filledWith(input, dtype, (i) => i + 1)
        : input,
    );
  }
  for (const [at, line] of lines.entries()) {
    if (!isInput(line)) continue;
    if (line.requiresGrad) put(at, { ...line, requiresGrad: false });
    if (line.data === undefined) {
      if (line.shape.reduce((a, b) => a * b, 1) <= 4096)
        put(
          at,
          filledWith(line, line.dtype, (i) => (i % 5) + 1),
        );
      continue;
    }
    for (const element of [() => 1, () => 0, (i: number) => i + 1, (i: number) => i])
      put(at, filledWith(line, line.dtype, element));
    const width =
      line.data.length /
      Math.max(
        1,
        line.shape.reduce((a, b) => a * b, 1),
      );
    for (let i = 0; i < Math.min(line.data.length / width, 6); i++) put(at, withZero(line, i, width));
  }
  return found;
}

function filledWith(input: Input, dtype: Input['dtype'], element: (i: number) => number): Input {
  const count = input.shape.reduce((a, b) => a * b, 1);
  const data = bytesOf(
    Float64Array.from({ length: count }, (_, i) => element(i)),
    dtype,
  );
  return { ...input, dtype, data, requiresGrad: input.requiresGrad && isDifferentiable(dtype) };
}

function withZero(input: Input, at: number, width: number): Input {
  const data = new Uint8Array(input.data as Uint8Array);
  data.fill(0, at * width, (at + 1) * width);
  return { ...input, data };
}

/** With an argument left out, or a plainer number. */
function plainerArgs(lines: readonly Line[]): Line[][] {
  return lines.flatMap((line, at) => {
    if (isInput(line)) return [];
    return line.args.flatMap((arg, k) =>
      // Of nothing there is no method to call.
      (k === 0 && isRef(arg) ? [] : plainer(arg)).map((one) =>
        lines.map((other, i) =>
          i === at ? { ...line, args: line.args.map((old, j) => (j === k ? one : old)) } : other,
        ),
      ),
    );
  });
}

function plainer(arg: Arg): Arg[] {
  if (arg === undefined || typeof arg === 'string' || (typeof arg === 'object' && 'dtype' in arg)) return [];
  if (isRef(arg)) return [undefined];
  if (typeof arg === 'boolean') return arg ? [false] : [];
  if (typeof arg === 'number') return [0, 1, 2, Math.trunc(arg)].filter((n) => n !== arg);
  if ('options' in arg) {
    const names = Object.keys(arg.options);
    const without = (name: string): Arg => ({
      options: Object.fromEntries(Object.entries(arg.options).filter(([key]) => key !== name)),
    });
    return names.map(without);
  }
  return arg.map((_, i) => arg.filter((_one, k) => k !== i));
}
