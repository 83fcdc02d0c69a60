/** @file Schedules of learning rates with all their options, one after another and over one another, and their state dicts. */
import type { Random } from '@backwire/testing';
import { Draw } from '../draw/draw.ts';
import type { Arg } from '../program.ts';
import type { Suite } from './suite.ts';

/** The same schedule in both languages, of an optimiser `o`. */
interface Made {
  readonly ts: string;
  readonly py: string;
}

type Options = Readonly<Record<string, readonly Arg[]>>;

const SPELLED: Readonly<Record<string, string>> = { baseLr: 'base_lr', tMax: 'T_max', t0: 'T_0', tMult: 'T_mult' };
const snake = (name: string): string => SPELLED[name] ?? name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

const inTs = (value: Arg): string => JSON.stringify(value);
const inPy = (value: Arg): string => (value === true ? 'True' : value === false ? 'False' : JSON.stringify(value));

/** `new X(o, first, { options })`; `always` are options that are not left out. */
function schedule(name: string, first: string | undefined, always: Options, table: Options = {}): (r: Random) => Made {
  return (random) => {
    const given: [string, Arg][] = [];
    for (const [option, values] of Object.entries(always)) given.push([option, random.pick(values)]);
    for (const [option, values] of Object.entries(table))
      if (random.chance(0.5)) given.push([option, random.pick(values)]);
    const positional = given.filter(([option]) => option === first);
    const others = given.filter(([option]) => option !== first);
    const options = others.map(([option, value]) => `${option}: ${inTs(value)}`);
    const ts = [
      ...positional.map(([, value]) => inTs(value)),
      ...(others.length > 0 ? [`{ ${options.join(', ')} }`] : []),
    ];
    const py = given.map(([option, value]) => `${snake(option)}=${inPy(value)}`);
    return {
      ts: `new optim.lrScheduler.${name}(${['o', ...ts].join(', ')})`,
      py: `lr_scheduler.${name}(${['o', ...py].join(', ')})`,
    };
  };
}

/** A function of the count of steps, or one for each group. */
function byFunction(name: string, factors: readonly (readonly [ts: string, py: string])[]): (r: Random) => Made {
  return (random) => {
    const [[ts, py], [otherTs, otherPy]] = [random.pick(factors), random.pick(factors)];
    const each = random.chance(0.4);
    return {
      ts: `new optim.lrScheduler.${name}(o, ${each ? `[(i) => ${ts}, (i) => ${otherTs}]` : `(i) => ${ts}`})`,
      py: `lr_scheduler.${name}(o, ${each ? `[lambda i: ${py}, lambda i: ${otherPy}]` : `lambda i: ${py}`})`,
    };
  };
}

const FACTORS = [
  ['0.9 ** i', '0.9 ** i'],
  ['1 / (1 + i)', '1 / (1 + i)'],
  ['(i < 3 ? 0.5 : 1)', '0.5 if i < 3 else 1'],
  ['0.7', '0.7'],
] as const;

const gamma = [0.1, 0.5, 0.9, 1.1];
const counts = [1, 2, 3, 4, 7];

/** Those that follow from the count of steps. */
const BY_COUNT: readonly ((random: Random) => Made)[] = [
  schedule('StepLR', 'stepSize', { stepSize: counts }, { gamma }),
  schedule('MultiStepLR', 'milestones', { milestones: [[2, 5], [3, 3, 7], [1], [], [6, 2], [0, 4]] }, { gamma }),
  schedule('ExponentialLR', 'gamma', { gamma }),
  schedule('ConstantLR', undefined, {}, { factor: [0.25, 0.5, 1], totalIters: counts }),
  schedule('LinearLR', undefined, {}, { startFactor: [0.1, 0.5, 1], endFactor: [0, 0.5, 1], totalIters: counts }),
  schedule('PolynomialLR', undefined, {}, { totalIters: counts, power: [1, 2, 0.5] }),
  schedule('CosineAnnealingLR', 'tMax', { tMax: counts }, { etaMin: [0, 0.01] }),
  schedule('CosineAnnealingWarmRestarts', 't0', { t0: counts }, { tMult: [1, 2, 3], etaMin: [0, 0.01] }),
  byFunction('LambdaLR', FACTORS),
  byFunction('MultiplicativeLR', FACTORS),
];

/** Those that also set the momentum, or the range of the rates. */
const CYCLES: readonly ((random: Random) => Made)[] = [
  schedule(
    'CyclicLR',
    undefined,
    { baseLr: [0.01, 0.25, [0.01, 0.1]], maxLr: [0.5, 1, [0.5, 0.2]] },
    {
      stepSizeUp: counts,
      stepSizeDown: counts,
      mode: ['triangular', 'triangular2', 'exp_range'],
      gamma,
      cycleMomentum: [false, true],
      baseMomentum: [0.7, [0.7, 0.5]],
      maxMomentum: [0.95, [0.95, 0.9]],
    },
  ),
  schedule(
    'OneCycleLR',
    undefined,
    { maxLr: [0.5, 1, [0.5, 0.2]], totalSteps: [12, 20, 30] },
    {
      pctStart: [0.2, 0.5],
      annealStrategy: ['cos', 'linear'],
      cycleMomentum: [false, true],
      baseMomentum: [0.7],
      maxMomentum: [0.99],
      divFactor: [10],
      finalDivFactor: [100],
      threePhase: [true, false],
    },
  ),
];

/** One after another; one of them may be such a sequence itself. */
function sequence(random: Random, depth = 0): Made {
  const nested = depth === 0 && random.chance(0.25);
  const parts = Array.from({ length: random.int(1, 4) }, (_, i) =>
    nested && i === 0 ? sequence(random, 1) : random.pick(random.chance(0.9) ? BY_COUNT : CYCLES)(random),
  );
  const milestones = parts
    .slice(1)
    .map(() => random.int(0, 9))
    .sort((a, b) => a - b);
  const list = (of: 'ts' | 'py'): string => `[${parts.map((one) => one[of]).join(', ')}]`;
  return {
    ts: `new optim.lrScheduler.SequentialLR(o, ${list('ts')}, [${milestones.join(', ')}])`,
    py: `lr_scheduler.SequentialLR(o, ${list('py')}, [${milestones.join(', ')}])`,
  };
}

/** Several at once. */
function chain(random: Random): Made {
  const parts = Array.from({ length: random.int(1, 4) }, () => random.pick(BY_COUNT)(random));
  const list = (of: 'ts' | 'py'): string => `[${parts.map((one) => one[of]).join(', ')}]`;
  return {
    ts: `new optim.lrScheduler.ChainedScheduler(${list('ts')})`,
    py: `lr_scheduler.ChainedScheduler(${list('py')})`,
  };
}

const plateau = schedule(
  'ReduceLROnPlateau',
  undefined,
  {},
  {
    mode: ['min', 'max'],
    factor: [0.5, 0.1],
    patience: [0, 1, 2],
    threshold: [0, 0.1, 0.5],
    thresholdMode: ['rel', 'abs'],
    cooldown: [0, 1, 2],
    minLr: [0, 0.03, [0.01, 0.04]],
    eps: [0, 0.02],
  },
);

/** A kind of schedule, and what draws one of that kind. */
export function drawSchedule(random: Random): { readonly kind: string; readonly make: (random: Random) => Made } {
  const kind = random.weighted({ count: 4, cycle: 2, sequence: 4, chain: 3, plateau: 3 });
  if (kind === 'plateau') return { kind, make: plateau };
  if (kind === 'chain') return { kind, make: chain };
  return { kind, make: kind === 'sequence' ? sequence : random.pick(kind === 'cycle' ? CYCLES : BY_COUNT) };
}

export const scheduleSuite: Suite = {
  name: 'schedules',
  perSeed: 200,
  draw(random, seed) {
    const draw = new Draw(random, { dtype: 'float32', mishaps: 0, views: 0 });
    const { kind, make } = drawSchedule(random);
    const { ts, py } = make(random);
    // The options are in the state dict: a schedule that was made with others goes on by those that are loaded.
    const anew = kind === 'chain' || kind === 'sequence' ? { ts, py } : make(random);
    const metrics =
      kind === 'plateau' ? Array.from({ length: 14 }, () => random.pick([1, 2, 3, 0.5, -1, 0.9])) : undefined;
    const args = [random.pick(['SGD', 'Adam', 'RMSprop']), random.chance(0.5) ? random.int(0, 9) : undefined, metrics];
    draw.call(
      kind,
      `followed((o) => ${ts}, $0, $1, $2, (o) => ${anew.ts})`,
      `followed(lambda o: ${py}, $0, $1, $2, lambda o: ${anew.py})`,
      args,
      'sums',
    );
    return draw.program('schedules', seed);
  },
};
