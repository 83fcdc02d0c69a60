/** @file Runs a program on this package. */
import { compileFunction } from 'node:vm';
import * as bw from '../src/index.ts';
import type { Outcome, Refusal, Seen } from './outcome.ts';
import { isInput, type Arg, type Line, type Program, type Statement } from './program.ts';
import { backward, carried, filled, followed, makeInput, plateau, rates, secondly, weights } from './values.ts';

type Body = (...args: unknown[]) => unknown;

/** What the texts of statements may call. */
const SCOPE = {
  bw,
  nn: bw.nn,
  optim: bw.optim,
  backward,
  carried,
  weights,
  filled,
  secondly,
  rates,
  plateau,
  followed,
};
const bodies = new Map<string, { readonly run: Body; readonly takes: number }>();

/** The text of a statement as a function of its arguments: what is printed is what runs. */
function bodyOf(ts: string): { readonly run: Body; readonly takes: number } {
  let body = bodies.get(ts);
  if (body === undefined) {
    const takes = Math.max(0, ...[...ts.matchAll(/\$(\d)/g)].map(([, digit]) => Number(digit) + 1));
    const names = [...Object.keys(SCOPE), ...Array.from({ length: takes }, (_, i) => `$${i}`)];
    // The texts are those of the tables in draw/.
    const made = compileFunction(ts.startsWith('!') ? ts.slice(1) : `return (${ts});`, names) as Body;
    body = { run: (...args) => made(...Object.values(SCOPE), ...args), takes };
    bodies.set(ts, body);
  }
  return body;
}

function valueOf(arg: Arg, values: readonly unknown[]): unknown {
  if (typeof arg !== 'object') return arg;
  if ('ref' in arg) return values[arg.ref];
  if ('dtype' in arg) return arg.dtype;
  if ('options' in arg) {
    return Object.fromEntries(Object.entries(arg.options).map(([name, one]) => [name, valueOf(one, values)]));
  }
  return arg.map((one) => valueOf(one, values));
}

function runStatement({ ts, args }: Statement, values: readonly unknown[]): unknown {
  const { run, takes } = bodyOf(ts);
  return run(...args.slice(0, takes).map((arg) => valueOf(arg, values)));
}

function runLine(line: Line, values: readonly unknown[]): unknown {
  return isInput(line) ? makeInput(line) : runStatement(line, values);
}

/** Runs the lines up to the first that throws, and tells everything that can be seen then. */
export function execute(program: Program): Outcome {
  const values: unknown[] = [];
  let refusal: Refusal | undefined;
  for (const [at, line] of program.lines.entries()) {
    try {
      values.push(runLine(line, values));
    } catch (error) {
      refusal = { at, ...describe(error) };
      break;
    }
  }
  const seen: Record<string, Seen> = {};
  values.forEach((value, at) => {
    observe(String(at), value, seen);
    const line = program.lines[at];
    if (line !== undefined && isInput(line) && line.requiresGrad) seen[`${at}.grad`] = look((value as bw.Tensor).grad);
  });
  return { refusal, seen };
}

function describe(error: unknown): { name: string; message: string } {
  return error instanceof Error
    ? { name: error.name, message: error.message.slice(0, 400) }
    : { name: typeof error, message: String(error) };
}

function observe(path: string, value: unknown, seen: Record<string, Seen>): void {
  if (value instanceof bw.nn.Module) {
    for (const [name, t] of value.stateDict()) {
      seen[`${path}.${name}`] = look(t);
      if (t instanceof bw.Parameter) seen[`${path}.${name}.grad`] = look(t.grad);
    }
  } else if (value instanceof bw.optim.Optimizer) {
    for (const [i, state] of Object.entries(value.stateDict().state)) {
      for (const [name, one] of Object.entries(state)) seen[`${path}.${i}.${name}`] = look(one);
    }
  } else if (isSchedule(value)) {
    seen[`${path}.rates`] = look(bw.tensor([...value.getLastLr()], { dtype: 'float64' }));
  } else if (value instanceof bw.GradScaler) {
    seen[`${path}.scale`] = look(value.getScale());
  } else if (Array.isArray(value)) {
    seen[`${path}.length`] = look(value.length);
    value.forEach((one, i) => observe(`${path}.${i}`, one, seen));
  } else seen[path] = look(value);
}

function isSchedule(value: unknown): value is { getLastLr(): readonly number[] } {
  return typeof value === 'object' && value !== null && 'getLastLr' in value;
}

/** `instanceof` alone would infer a tensor of any dtype. */
function isTensorValue(value: unknown): value is bw.Tensor {
  return value instanceof bw.Tensor;
}

function look(value: unknown): Seen {
  if (value === undefined || value === null) return { nothing: true };
  if (typeof value === 'number' || typeof value === 'boolean') return { plain: value };
  if (!isTensorValue(value)) return { plain: typeof value === 'string' ? value : typeof value };
  const { dtype, shape, requiresGrad, layout } = value;
  const stored = bw.noGrad(() => value.detach().toDense().contiguous().dataSync());
  const data = new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength).slice();
  return { dtype, shape: [...shape], data, requiresGrad, sparse: layout === 'sparse_coo' };
}
