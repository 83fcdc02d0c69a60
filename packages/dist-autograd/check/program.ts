/**
 * @file Distributed training programs as plain data, drawn from a seed: functions that call each other on any worker, RRefs that are
 * shared and fetched, layers behind RRefs, tables with sparse gradients, several roots and passes, and a DistributedOptimizer.
 */
import type { Random } from '@backwire/testing';
import type { Call, Step as PlainStep } from '../sim/program.ts';

/** What there is beyond the steps of simulated programs. Indices are taken modulo what is there. */
export type Step =
  | PlainStep
  | { readonly do: 'apply'; readonly op: Unary; readonly a: number }
  /** The sum of rows of a table, on the worker that has it. */
  | { readonly do: 'lookup'; readonly table: number; readonly rows: readonly number[] }
  /** Calls `forward` of a layer through its RRef, wherever it lives. */
  | { readonly do: 'layer'; readonly layer: number; readonly a: number }
  /** Leaves the results of a call on the other worker, as an RRef. */
  | { readonly do: 'remote'; readonly call: Call }
  /** An RRef of a value that is here. */
  | { readonly do: 'own'; readonly a: number }
  /** Fetches what an RRef refers to. */
  | { readonly do: 'fetch'; readonly rref: number }
  /** Calls a function with an RRef, which it may fetch. */
  | { readonly do: 'send'; readonly call: Call; readonly rref: number };

type Unary = 'tanh' | 'sigmoid' | 'sin' | 'relu';

interface Fn {
  readonly steps: readonly Step[];
  readonly out: readonly number[];
}

interface Optimizer {
  readonly name: 'SGD' | 'Adam' | 'Adagrad' | 'RMSprop' | 'AdamW' | 'RAdam';
  readonly options: Readonly<Record<string, number | boolean>>;
}

/** `new optim.lrScheduler[name](optimizer, ...args, options)`, which steps after each iteration. */
export interface Schedule {
  readonly name: 'ExponentialLR' | 'LinearLR' | 'StepLR' | 'CosineAnnealingLR';
  readonly args: readonly number[];
  readonly options: Readonly<Record<string, number>>;
}

export interface Program {
  readonly seed: string;
  readonly workers: number;
  readonly dtype: 'float32' | 'float64';
  /** Vectors of two that are learnt, each on one worker. */
  readonly leaves: readonly { readonly worker: number; readonly values: readonly number[] }[];
  /** Tables of ROWS rows. */
  readonly tables: readonly { readonly worker: number; readonly values: readonly number[]; readonly sparse: boolean }[];
  /** y = x·Wᵀ + b of two features, behind an RRef. */
  readonly layers: readonly {
    readonly worker: number;
    readonly weight: readonly number[];
    readonly bias: readonly number[];
  }[];
  readonly functions: readonly Fn[];
  readonly main: readonly Step[];
  /** Results of `main` whose sums are roots, by backward pass. */
  readonly passes: readonly (readonly number[])[];
  readonly iterations: number;
  readonly optimizer: Optimizer | undefined;
  /** Of the optimiser's rate. */
  readonly schedule: Schedule | undefined;
}

export const ROWS = 3;
const VALUES = [-2, -1, -0.5, 0.25, 0.5, 1, 1.5, 2];
const OPTIMIZERS: readonly Optimizer[] = [
  { name: 'SGD', options: { lr: 0.05 } },
  { name: 'SGD', options: { lr: 0.05, momentum: 0.9 } },
  { name: 'SGD', options: { lr: 0.05, momentum: 0.9, nesterov: true } },
  { name: 'Adagrad', options: { lr: 0.1, eps: 1e-3 } },
  { name: 'Adam', options: { lr: 0.05, eps: 1e-3 } },
  { name: 'AdamW', options: { lr: 0.05, eps: 1e-3, weightDecay: 0.1 } },
  { name: 'RMSprop', options: { lr: 0.05, eps: 1e-3, momentum: 0.5 } },
  { name: 'RAdam', options: { lr: 0.05, eps: 1e-3, weightDecay: 0.1 } },
];

const SCHEDULES: readonly Schedule[] = [
  { name: 'ExponentialLR', args: [0.5], options: {} },
  { name: 'StepLR', args: [2], options: { gamma: 0.5 } },
  { name: 'CosineAnnealingLR', args: [3], options: { etaMin: 0.01 } },
  // Down to nothing, where rounding must not lead below.
  { name: 'LinearLR', args: [], options: { endFactor: 0, totalIters: 4 } },
];

export function drawProgram(random: Random, seed: string, workers: number): Program {
  const owner = (): number => random.int(0, workers);
  const numbers = (count: number): number[] => Array.from({ length: count }, () => random.pick(VALUES));
  const optimizer = random.chance(0.7) ? random.pick(OPTIMIZERS) : undefined;
  const schedule = optimizer !== undefined && random.chance(0.4) ? random.pick(SCHEDULES) : undefined;
  const takesSparse = optimizer === undefined || optimizer.name === 'SGD' || optimizer.name === 'Adagrad';
  const leaves = Array.from({ length: random.int(1, 5) }, () => ({ worker: owner(), values: numbers(2) }));
  // The creator has something to differentiate by.
  leaves.unshift({ worker: 0, values: numbers(2) });
  const tables = Array.from({ length: random.int(0, 3) }, () => ({
    worker: owner(),
    values: numbers(2 * ROWS),
    sparse: takesSparse && random.chance(0.6),
  }));
  const layers = Array.from({ length: random.int(0, 3) }, () => ({
    worker: owner(),
    weight: numbers(4),
    bias: numbers(2),
  }));
  const count = random.int(1, 5);
  const drawSteps = (callable: number, length: number): Step[] => {
    const kinds = stepWeights({ callable, tables: tables.length, layers: layers.length });
    return Array.from({ length }, () => drawStep(random, random.weighted(kinds), workers));
  };
  return {
    seed,
    workers,
    dtype:
      optimizer === undefined || optimizer.name === 'SGD' ? random.pick(['float64', 'float64', 'float32']) : 'float64',
    leaves,
    tables,
    layers,
    functions: Array.from({ length: count }, (_, i) => ({
      steps: [...drawSteps(count - i - 1, random.int(1, 6)), ...(random.chance(0.05) ? [{ do: 'fail' } as const] : [])],
      out: Array.from({ length: random.int(1, 3) }, () => random.int(0, 64)),
    })),
    main: [...drawSteps(count, random.int(3, 9)), { do: 'call', calls: [drawCall(random, workers)], forget: false }],
    passes: Array.from({ length: random.int(1, 3) }, () => [
      63,
      ...Array.from({ length: random.int(0, 3) }, () => random.int(0, 64)),
    ]),
    iterations: schedule === undefined ? random.int(1, 4) : random.int(2, 7),
    optimizer,
    schedule,
  };
}

type Kind = Step['do'];

function stepWeights(has: { callable: number; tables: number; layers: number }): Record<Exclude<Kind, 'fail'>, number> {
  const calls = has.callable > 0 ? 1 : 0;
  return {
    ...{ leaf: 3, add: 2, sub: 1, mul: 2, scale: 1, apply: 2, own: 1, fetch: 2 },
    ...{ lookup: has.tables > 0 ? 2 : 0, layer: has.layers > 0 ? 2 : 0 },
    ...{ call: 3 * calls, remote: 1.5 * calls, send: calls },
  };
}

function drawStep(random: Random, kind: Exclude<Kind, 'fail'>, workers: number): Step {
  const any = (): number => random.int(0, 64);
  switch (kind) {
    case 'leaf':
      return { do: 'leaf', leaf: any() };
    case 'scale':
      return { do: 'scale', a: any(), by: random.pick(VALUES) };
    case 'apply':
      return { do: 'apply', op: random.pick(['tanh', 'sigmoid', 'sin', 'relu']), a: any() };
    case 'own':
      return { do: 'own', a: any() };
    case 'fetch':
      return { do: 'fetch', rref: any() };
    case 'lookup':
      return { do: 'lookup', table: any(), rows: Array.from({ length: random.int(1, 4) }, () => random.int(0, ROWS)) };
    case 'layer':
      return { do: 'layer', layer: any(), a: any() };
    case 'remote':
      return { do: 'remote', call: drawCall(random, workers) };
    case 'send':
      return { do: 'send', call: drawCall(random, workers), rref: any() };
    case 'call': {
      const width = random.chance(0.3) ? random.int(2, 4) : 1;
      const calls = Array.from({ length: width }, () => drawCall(random, workers));
      return { do: 'call', calls, forget: random.chance(0.1) };
    }
    default:
      return { do: kind, a: any(), b: any() };
  }
}

function drawCall(random: Random, workers: number): Call {
  const args = Array.from({ length: random.int(1, 4) }, () => random.int(0, 64));
  return { to: random.int(0, workers), fn: random.int(0, 64), args };
}
