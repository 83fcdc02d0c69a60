/** @file Distributed programs as plain data: drawn from a seed, run over workers or in one place, shrunk when they fail. */
import type { Random } from '@backwire/testing';
import type { Tensor } from '@backwire/tensor';

/** Indices are taken modulo what is there, so that a shorter program is a program too. */
export type Step =
  | { readonly do: 'leaf'; readonly leaf: number }
  | { readonly do: 'add' | 'sub' | 'mul'; readonly a: number; readonly b: number }
  | { readonly do: 'scale'; readonly a: number; readonly by: number }
  | { readonly do: 'call'; readonly calls: readonly Call[]; readonly forget: boolean }
  | { readonly do: 'fail' };

export interface Call {
  readonly to: number;
  readonly fn: number;
  readonly args: readonly number[];
}

/** A function that every worker has. It may call those after it. */
export interface Fn {
  readonly steps: readonly Step[];
  readonly out: readonly number[];
}

export interface Program {
  readonly workers: number;
  /** Each lives on one worker; there a step may use it. */
  readonly leaves: readonly { readonly worker: number; readonly values: readonly number[] }[];
  readonly functions: readonly Fn[];
  readonly main: readonly Step[];
  /** Results of `main` whose sums are the roots. */
  readonly roots: readonly number[];
}

/** What a step has to know of its program. */
export interface Outline {
  readonly workers: number;
  readonly leaves: readonly { readonly worker: number }[];
  readonly functions: readonly unknown[];
}

/** Where a program runs: one worker's view of the others. */
export interface Place {
  readonly worker: number;
  leaf(index: number): Tensor;
  call(to: number, fn: number, args: Tensor[]): Promise<Tensor[]>;
}

const SHAPE = [2];

/** Small whole numbers, so that sums have one value in whatever order. */
const VALUES = [-2, -1, 1, 2, 3];

export function drawProgram(random: Random): Program {
  const workers = random.int(2, 6);
  const leaves = Array.from({ length: random.int(1, 7) }, () => ({
    worker: random.int(0, workers),
    values: SHAPE.flatMap((n) => Array.from({ length: n }, () => random.pick(VALUES))),
  }));
  // The creator has something to differentiate by.
  leaves.unshift({ worker: 0, values: [random.pick(VALUES), random.pick(VALUES)] });
  const count = random.int(1, 5);
  const functions = Array.from({ length: count }, (_, i) =>
    drawFunction(random, workers, leaves.length, count - i - 1),
  );
  const main = drawSteps(random, workers, leaves.length, count, random.int(3, 9));
  const roots = Array.from({ length: random.int(1, 4) }, () => random.int(0, 64));
  return {
    workers,
    leaves,
    functions,
    main: [...main, { do: 'call', calls: [drawCall(random, workers)], forget: false }],
    roots: [63, ...roots],
  };
}

function drawFunction(random: Random, workers: number, leaves: number, below: number): Fn {
  const steps = drawSteps(random, workers, leaves, below, random.int(1, 6));
  if (random.chance(0.05)) steps.push({ do: 'fail' });
  return { steps, out: Array.from({ length: random.int(1, 4) }, () => random.int(0, 64)) };
}

function drawSteps(random: Random, workers: number, leaves: number, callable: number, count: number): Step[] {
  let calls = 0;
  return Array.from({ length: count }, (): Step => {
    const kind = random.weighted({
      leaf: 3,
      add: 3,
      sub: 1,
      mul: 2,
      scale: 1,
      call: callable > 0 && calls < 2 ? 4 : 0,
    });
    switch (kind) {
      case 'leaf':
        return { do: 'leaf', leaf: random.int(0, leaves) };
      case 'scale':
        return { do: 'scale', a: random.int(0, 64), by: random.pick(VALUES) };
      case 'call': {
        calls++;
        const width = random.chance(0.3) ? random.int(2, 4) : 1;
        return {
          do: 'call',
          calls: Array.from({ length: width }, () => drawCall(random, workers)),
          forget: random.chance(0.15),
        };
      }
      default:
        return { do: kind, a: random.int(0, 64), b: random.int(0, 64) };
    }
  });
}

function drawCall(random: Random, workers: number): Call {
  const args = Array.from({ length: random.int(1, 4) }, () => random.int(0, 64));
  return { to: random.int(0, workers), fn: random.int(0, 64), args };
}

/** Runs function `fn` of the program (main: -1) at a place; resolves with its results. */
export async function runAt(program: Program, place: Place, fn: number, args: readonly Tensor[]): Promise<Tensor[]> {
  const body = fn < 0 ? { steps: program.main, out: [] } : (program.functions[fn] as Fn);
  const values = [...args];
  for (const step of body.steps) await runStep(program, place, fn, step, values);
  if (fn < 0) return values;
  return body.out.map((index) => at(values, index));
}

/** Does one step of function `fn`, which adds to the values. */
export async function runStep(program: Outline, place: Place, fn: number, step: Step, values: Tensor[]): Promise<void> {
  switch (step.do) {
    case 'leaf': {
      const index = step.leaf % program.leaves.length;
      values.push(program.leaves[index]?.worker === place.worker ? place.leaf(index) : at(values, index));
      return;
    }
    case 'fail':
      throw new RangeError('a step failed on purpose');
    case 'scale':
      values.push(at(values, step.a).mul(step.by));
      return;
    case 'call': {
      const before = [...values];
      const all = step.calls.map((call) => runCall(program, place, fn, call, before));
      if (step.forget) for (const one of all) one.catch(() => undefined);
      else for (const one of await Promise.all(all)) values.push(...one);
      return;
    }
    default:
      values.push(at(values, step.a)[step.do](at(values, step.b)));
  }
}

/** A call that fails gives its caller's first value back instead. */
async function runCall(
  program: Outline,
  place: Place,
  fn: number,
  call: Call,
  values: readonly Tensor[],
): Promise<Tensor[]> {
  const below = program.functions.length - fn - 1;
  if (below <= 0) return [];
  const callee = fn + 1 + (call.fn % below);
  try {
    return await place.call(
      call.to % program.workers,
      callee,
      call.args.map((index) => at(values, index)),
    );
  } catch (error) {
    if (error instanceof RangeError) return [at(values, 0)];
    throw error;
  }
}

function at(values: readonly Tensor[], index: number): Tensor {
  return values[index % values.length] as Tensor;
}
