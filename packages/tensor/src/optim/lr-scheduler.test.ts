/** @file Learning-rate schedules as programs handle them: options left out or wrong, groups that come later, state that is refused. */
import { describe, expect, it } from 'vitest';
import { optim, tensor, type Tensor } from '../index.ts';

const L = optim.lrScheduler;
type Given = Record<string, unknown>;
interface Schedule {
  step(metric: number): void;
  stateDict(): Given;
  loadStateDict(saved: Given): void;
}
type Make = (o: optim.Optimizer, options: Given) => Schedule;

const leaf = (): Tensor => tensor([1], { requiresGrad: true });
const sgd = (): optim.SGD => new optim.SGD([leaf()], { lr: 1, momentum: 0.9 });
const ratesOf = (o: optim.Optimizer): number[] => o.paramGroups.map(({ lr }) => lr);

/** How each is made, with a value for each of its numbers. */
const schedules: Readonly<Record<string, readonly [make: Make, numbers: Given]>> = {
  StepLR: [(o, { stepSize, ...rest }) => new L.StepLR(o, stepSize as number, rest), { stepSize: 2, gamma: 0.1 }],
  MultiStepLR: [
    (o, { milestone, ...rest }) => new L.MultiStepLR(o, [1, milestone as number], rest),
    { milestone: 3, gamma: 0.1 },
  ],
  ExponentialLR: [(o, { gamma }) => new L.ExponentialLR(o, gamma as number), { gamma: 0.5 }],
  ConstantLR: [(o, given) => new L.ConstantLR(o, given), { factor: 1 / 3, totalIters: 5 }],
  LinearLR: [(o, given) => new L.LinearLR(o, given), { startFactor: 1 / 3, endFactor: 1, totalIters: 5 }],
  PolynomialLR: [(o, given) => new L.PolynomialLR(o, given), { totalIters: 5, power: 1 }],
  CosineAnnealingLR: [
    (o, { tMax, ...rest }) => new L.CosineAnnealingLR(o, tMax as number, rest),
    { tMax: 3, etaMin: 0 },
  ],
  CosineAnnealingWarmRestarts: [
    (o, { t0, ...rest }) => new L.CosineAnnealingWarmRestarts(o, t0 as number, rest),
    { t0: 2, tMult: 1, etaMin: 0 },
  ],
  LambdaLR: [(o, { by }) => new L.LambdaLR(o, () => by as number), { by: 0.5 }],
  MultiplicativeLR: [(o, { by }) => new L.MultiplicativeLR(o, () => by as number), { by: 0.5 }],
  OneCycleLR: [
    (o, given) => new L.OneCycleLR(o, given as unknown as optim.lrScheduler.OneCycleOptions),
    {
      maxLr: 2,
      totalSteps: 9,
      pctStart: 0.3,
      divFactor: 25,
      finalDivFactor: 1e4,
      baseMomentum: 0.85,
      maxMomentum: 0.95,
    },
  ],
  CyclicLR: [
    (o, given) => new L.CyclicLR(o, { mode: 'exp_range', ...given } as unknown as optim.lrScheduler.CyclicOptions),
    { baseLr: 0.1, maxLr: 1, stepSizeUp: 2000, stepSizeDown: 2000, gamma: 1, baseMomentum: 0.8, maxMomentum: 0.9 },
  ],
  ReduceLROnPlateau: [
    (o, given) => new L.ReduceLROnPlateau(o, given),
    { factor: 0.1, patience: 10, threshold: 1e-4, cooldown: 0, minLr: 0, eps: 1e-8 },
  ],
};
/** Options that a state dict holds, other than above. */
const OTHERS: Readonly<Record<string, Given>> = {
  StepLR: { stepSize: 3, gamma: 0.5 },
  MultiStepLR: { gamma: 0.5 },
  ExponentialLR: { gamma: 0.25 },
  ConstantLR: { factor: 0.5, totalIters: 3 },
  LinearLR: { startFactor: 0.5, endFactor: 0.75, totalIters: 3 },
  PolynomialLR: { totalIters: 7, power: 2 },
  CosineAnnealingLR: { tMax: 4, etaMin: 0.5 },
  CosineAnnealingWarmRestarts: { t0: 3, tMult: 2, etaMin: 0.25 },
  OneCycleLR: { totalSteps: 12, pctStart: 0.5 },
  CyclicLR: { stepSizeUp: 2, stepSizeDown: 1, gamma: 0.5 },
  ReduceLROnPlateau: { factor: 0.5, patience: 1, threshold: 0.5, cooldown: 1, minLr: 0.01, eps: 1e-6 },
};
/** What has to be given. */
const NEEDED = new Set(['stepSize', 'milestone', 'tMax', 't0', 'by', 'maxLr', 'baseLr', 'totalSteps']);
const STEPS = 9;

/** The rates of all steps. */
function walk(o: optim.Optimizer, schedule: Schedule): number[][] {
  const seen = [ratesOf(o)];
  for (let i = 0; i < STEPS; i++) {
    schedule.step(1);
    seen.push(ratesOf(o));
  }
  return seen;
}
/** The rates, or what it says instead. */
function outcome(run: () => number[][]): number[][] | string {
  try {
    return run();
  } catch (error) {
    return (error as Error).message;
  }
}
const numbersOnly = (found: number[][] | string): void => {
  if (typeof found !== 'string') expect(found.flat().filter((rate) => !Number.isFinite(rate))).toEqual([]);
};

it('are all tried here, but those made of others', () => {
  const all = Object.keys(L).filter((name) => !['LRScheduler', 'SequentialLR', 'ChainedScheduler'].includes(name));
  expect(Object.keys(schedules).sort()).toEqual(all.sort());
});

describe.each(Object.entries(schedules))('%s', (name, [make, numbers]) => {
  const rates = (given: Given): number[][] => {
    const o = sgd();
    return walk(o, make(o, given));
  };

  it('has its defaults where an option is undefined', () => {
    const optional = Object.keys(numbers).filter((option) => name !== 'ExponentialLR' && !NEEDED.has(option));
    for (const option of optional) expect([option, rates({ ...numbers, [option]: undefined })]).toEqual([option, rates(numbers)]); // prettier-ignore
  });

  it('makes no rate that is no number, and says so by its name', () => {
    for (const option of Object.keys(numbers)) {
      for (const wrong of [NaN, '1']) {
        const found = outcome(() => rates({ ...numbers, [option]: wrong }));
        expect([option, wrong, found]).toEqual([option, wrong, expect.stringContaining(name === 'OneCycleLR' && option === 'totalSteps' ? 'totalSteps' : name)]); // prettier-ignore
      }
      for (const odd of [0, 1]) numbersOnly(outcome(() => rates({ ...numbers, [option]: odd })));
    }
  });

  it('goes on by the options that are loaded, whatever it was made with', () => {
    const other = OTHERS[name] ?? {};
    const [from, to] = [sgd(), sgd()];
    const saved = make(from, { ...numbers, ...other });
    saved.step(1);
    const loaded = make(to, numbers);
    to.loadStateDict(from.stateDict());
    loaded.loadStateDict(JSON.parse(JSON.stringify(saved.stateDict())) as Given);
    expect(loaded.stateDict()).toEqual(saved.stateDict());
    expect(walk(to, loaded)).toEqual(walk(from, saved));
  });

  it('refuses options that make no schedule when they are loaded, and stays as it is; those of earlier versions are without', () => {
    const o = sgd();
    const schedule = make(o, numbers);
    const before = schedule.stateDict();
    for (const option of Object.keys(OTHERS[name] ?? {}))
      expect(() => schedule.loadStateDict({ ...before, [option]: 'none' })).toThrow(Error);
    expect(schedule.stateDict()).toEqual(before);
    const counts = Object.entries(before).filter(([option]) => !(option in (OTHERS[name] ?? {})));
    schedule.loadStateDict(Object.fromEntries(counts));
    expect(schedule.stateDict()).toEqual(before);
  });

  it('goes on with a group that was added later, or says what it lacks', () => {
    const added = (notes: Given): number[][] => {
      const o = sgd();
      const schedule = make(o, numbers);
      o.addParamGroup({ params: [leaf()], lr: 0.5, ...notes });
      return walk(o, schedule);
    };
    const found = outcome(() => added({}));
    numbersOnly(found);
    if (typeof found === 'string') expect(found).toMatch(new RegExp(`^${name}: group 1 came after the schedule and has no initialLr; `)); // prettier-ignore
    const notes = { initialLr: 0.5, maxLr: 1, minLr: 0.01, maxMomentum: 0.9, baseMomentum: 0.8 };
    numbersOnly(added(notes));
  });
});

describe('schedules', () => {
  it('that are cyclic go as often as they are asked, momenta the other way', () => {
    const o = new optim.Adam([leaf()], { lr: 7 });
    const schedule = new L.CyclicLR(o, { baseLr: 1, maxLr: 3, stepSizeUp: 2, stepSizeDown: 1, mode: 'triangular2' });
    // PyTorch 2.13's.
    const expected = [[1, 0.9], [2, 0.85], [3, 0.8], [1, 0.9], [1.5, 0.875], [2, 0.85], [1, 0.9], [1.25, 0.8875]]; // prettier-ignore
    for (const [lr, momentum] of expected as [number, number][]) {
      expect(o.paramGroups[0].lr).toBeCloseTo(lr, 12);
      expect((o.paramGroups[0]['betas'] as number[])[0]).toBeCloseTo(momentum, 12);
      expect((o.paramGroups[0]['betas'] as number[])[1]).toBe(0.999);
      schedule.step();
    }
    const seen: number[] = [];
    const scaleFn = (x: number): number => {
      seen.push(x);
      return 0.5;
    };
    const own = { baseLr: [1], maxLr: [3], stepSizeUp: 1, scaleFn, cycleMomentum: false };
    for (const scaleMode of ['cycle', 'iterations'] as const) {
      const other = new L.CyclicLR(o, { ...own, scaleMode });
      for (let i = 0; i < 3; i++) other.step();
      expect(other.getLastLr()).toEqual([2]);
    }
    expect(seen).toEqual([1, 1, 2, 2, 0, 1, 2, 3]);
  });

  it('that are cyclic begin at their least rate, also for what comes after them', () => {
    const o = new optim.SGD([leaf()], { lr: 0.5, momentum: 0.9 });
    const first = new L.CyclicLR(o, { baseLr: 0.01, maxLr: 0.1, stepSizeUp: 2 });
    const both = new L.SequentialLR(o, [first, new L.LambdaLR(o, () => 1)], [2]);
    const seen = [ratesOf(o)[0]];
    for (let i = 0; i < 4; i++) {
      both.step();
      seen.push(ratesOf(o)[0]);
    }
    // PyTorch 2.13's.
    for (const [i, rate] of [0.01, 0.055, 0.01, 0.01, 0.01].entries()) expect(seen[i]).toBeCloseTo(rate, 12);
  });

  it('that end at nothing end there, whose state can be loaded', () => {
    for (let totalIters = 1; totalIters < 40; totalIters++) {
      const o = sgd();
      const schedule = new L.LinearLR(o, { endFactor: 0, totalIters });
      for (let i = 0; i < totalIters; i++) schedule.step();
      // Rounding led to -7e-18.
      expect(ratesOf(o)[0]).toBeGreaterThanOrEqual(0);
      expect(ratesOf(o)[0]).toBeLessThan(1e-12);
      sgd().loadStateDict(o.stateDict());
    }
  });

  it('that are cyclic go on between the rates of a loaded state', () => {
    const made = (maxLr: number): optim.lrScheduler.CyclicLR =>
      new L.CyclicLR(sgd(), { baseLr: 1, maxLr, stepSizeUp: 1 });
    const [schedule, saved] = [made(2), made(3).stateDict()];
    for (const wrong of [{ maxLr: 3 }, { maxLr: [1, 2] }, { maxMomentum: ['0.9'] }])
      expect(() => schedule.loadStateDict({ ...saved, lastEpoch: 7, ...wrong })).toThrow(/CyclicLR: max/);
    expect(schedule.lastEpoch).toBe(0);
    schedule.loadStateDict(saved);
    schedule.step();
    expect(schedule.getLastLr()).toEqual([3]);
  });

  it('say which setting makes none', () => {
    const o = sgd();
    const cyclic = (more: object) => () => new L.CyclicLR(o, { baseLr: 1, maxLr: 2, ...more });
    expect(cyclic({ stepSizeUp: 0 })).toThrow('CyclicLR: stepSizeUp is above 0, but got 0');
    expect(cyclic({ stepSizeDown: -1 })).toThrow('CyclicLR: stepSizeDown is not below 0, but got -1');
    expect(cyclic({ mode: 'square' })).toThrow("CyclicLR: mode is 'triangular', 'triangular2' or 'exp_range', got the text 'square'"); // prettier-ignore
    expect(cyclic({ scaleMode: 'steps' })).toThrow("scaleMode is 'cycle' or 'iterations', got the text 'steps'");
    expect(cyclic({ scaleFn: 2 })).toThrow('CyclicLR: scaleFn is a function, got 2');
    expect(cyclic({ maxMomentum: [1, 2] })).toThrow('CyclicLR: maxMomentum has 2 values for 1 groups');
    expect(() => new L.CyclicLR(new optim.Rprop([leaf()]), { baseLr: 1, maxLr: 2 })).toThrow(
      'optimizer must support momentum or beta1 with cycleMomentum: true',
    );
    expect(() => new L.CosineAnnealingLR(o, 0)).toThrow('CosineAnnealingLR: tMax is above 0, but got 0');
    expect(() => new L.OneCycleLR(o, { maxLr: 1, totalSteps: 10, pctStart: 0.1 })).toThrow(
      'OneCycleLR: with pctStart 0.1 of 10 steps a phase has no length',
    );
    expect(() => new L.OneCycleLR(o, { maxLr: 1, totalSteps: 10, annealStrategy: 'cosine' as never })).toThrow(
      "OneCycleLR: annealStrategy is 'cos' or 'linear', got the text 'cosine'",
    );
    expect(() => new L.OneCycleLR(o, { maxLr: [1, 2], totalSteps: 10 })).toThrow('OneCycleLR: maxLr has 2 values for 1 groups'); // prettier-ignore
    expect(() => new L.LambdaLR(o, 0.5 as never)).toThrow('LambdaLR takes functions, got 0.5');
    expect(() => new L.StepLR(o, 1, 0.5 as never)).toThrow('StepLR takes its options as an object { gamma }, got 0.5');
    const blocked = new L.ConstantLR(o, { factor: 0, totalIters: 1 });
    expect(() => blocked.step()).toThrow('ConstantLR: a factor of 0 cannot be taken back at step 1');
  });

  it('stay where they are at a step that is refused', () => {
    const o = new optim.SGD([leaf()], { lr: 1 });
    let factor = NaN;
    const schedule = new L.LambdaLR(o, (epoch) => (epoch === 0 ? 1 : factor));
    expect(() => schedule.step()).toThrow('LambdaLR at step 1: factor is a number, got NaN');
    expect([schedule.lastEpoch, ratesOf(o)]).toEqual([0, [1]]);
    factor = 0.5;
    schedule.step();
    expect([schedule.lastEpoch, ratesOf(o)]).toEqual([1, [0.5]]);
  });

  it('leave groups alone that came later where PyTorch does', () => {
    const o = sgd();
    const schedule = new L.LambdaLR(o, (epoch) => 0.5 ** epoch);
    o.addParamGroup({ params: [leaf()], lr: 0.3 });
    schedule.step();
    expect(ratesOf(o)).toEqual([0.5, 0.3]);
  });
});

describe('ReduceLROnPlateau', () => {
  it('refuses modes that there are not, in PyTorch’s words', () => {
    expect(() => new L.ReduceLROnPlateau(sgd(), { mode: 'mni' as never })).toThrow('mode mni is unknown!');
    const thresholdMode = 'relative' as never;
    expect(() => new L.ReduceLROnPlateau(sgd(), { thresholdMode })).toThrow('threshold mode relative is unknown!');
  });

  it('has a least rate for each group, of those that came later, too', () => {
    expect(() => new L.ReduceLROnPlateau(sgd(), { minLr: [0, 0] })).toThrow('minLr has 2 values for 1 groups');
    const o = sgd();
    const [each, all] = [[0.5], 0.5].map((minLr) => new L.ReduceLROnPlateau(o, { minLr, patience: 0 }));
    o.addParamGroup({ params: [leaf()], lr: 1 });
    for (let i = 0; i < 2; i++) all?.step(1);
    expect(ratesOf(o)).toEqual([0.5, 0.5]);
    each?.step(1);
    expect(() => each?.step(1)).toThrow('minLr has 1 values for 2 groups');
  });
});

describe('schedules of schedules', () => {
  const parts = (o: optim.Optimizer): optim.lrScheduler.LRScheduler[] => [new L.LinearLR(o), new L.StepLR(o, 2)];

  it.each<[string, (o: optim.Optimizer) => optim.lrScheduler.SequentialLR | optim.lrScheduler.ChainedScheduler]>([
    ['SequentialLR', (o) => new L.SequentialLR(o, parts(o), [3])],
    ['ChainedScheduler', (o) => new L.ChainedScheduler(parts(o))],
  ])('%s is what it was after a state that is refused', (_, make) => {
    const schedule = make(sgd());
    schedule.step();
    const before = schedule.stateDict();
    const [first] = before['schedulers'] as Given[];
    for (const second of [{}, undefined])
      expect(() => schedule.loadStateDict({ ...before, lastEpoch: 9, schedulers: [{ ...first, lastEpoch: 7 }, second] })).toThrow(); // prettier-ignore
    if (schedule instanceof L.SequentialLR)
      expect(() => schedule.loadStateDict({ ...before, lastEpoch: 'x', schedulers: [{ ...first, lastEpoch: 7 }, first] })).toThrow(); // prettier-ignore
    expect(schedule.stateDict()).toEqual(before);
  });

  // What PyTorch 2.13 sets, of 1 with a milestone at 3.
  it.each<[string, (o: optim.Optimizer) => optim.lrScheduler.LRScheduler, readonly number[]]>([
    ['LinearLR', (o) => new L.LinearLR(o, { startFactor: 0.5, totalIters: 3 }), [0.5, 2 / 3, 2.5 / 3, 0.75, 0.675]],
    ['itself', (o) => new L.MultiplicativeLR(o, () => 0.8), [1, 0.8, 0.64, 0.576, 0.5184]],
  ])('MultiplicativeLR goes on after %s in a SequentialLR', (_, first, rates) => {
    const o = sgd();
    const schedule = new L.SequentialLR(o, [first(o), new L.MultiplicativeLR(o, () => 0.9)], [3]);
    for (const [step, rate] of rates.entries()) {
      if (step > 0) schedule.step();
      expect(schedule.getLastLr()[0]).toBeCloseTo(rate, 12);
    }
  });

  type Sequence = (o: optim.Optimizer) => optim.lrScheduler.SequentialLR;
  // What PyTorch 2.13 sets, but for the last: its sequences are not made to be in others.
  it.each<[string, Sequence, readonly number[]]>([
    [
      'with a milestone at the beginning begins with the second',
      (o) => new L.SequentialLR(o, [new L.ConstantLR(o, { factor: 0.1 }), new L.ExponentialLR(o, 0.5)], [0]),
      [1, 0.5, 0.25, 0.125],
    ],
    [
      'of cycles leaves each between its own rates',
      (o) => {
        const first = new L.CyclicLR(o, { baseLr: 0.1, maxLr: 0.5, stepSizeUp: 2 });
        return new L.SequentialLR(o, [first, new L.CyclicLR(o, { baseLr: 0.2, maxLr: 2, stepSizeUp: 1 })], [2]);
      },
      [0.1, 0.3, 0.2, 2, 0.2],
    ],
    [
      'leaves OneCycleLR the largest rate that it was given',
      (o) => {
        const first = new L.OneCycleLR(o, { maxLr: 2, totalSteps: 9 });
        return new L.SequentialLR(o, [first, new L.CyclicLR(o, { baseLr: 0.2, maxLr: 1, stepSizeUp: 1 })], [3]);
      },
      [0.08, 1.3027164704691998, 1.9888308709018234, 0.2, 1],
    ],
    [
      'begins each with the rates with which that was made',
      (o) => {
        const parts = [new L.LinearLR(o, { startFactor: 0.5, totalIters: 2 }), new L.StepLR(o, 2)];
        return new L.SequentialLR(o, [...parts, new L.OneCycleLR(o, { maxLr: 2, totalSteps: 9 })], [2, 4]);
      },
      [0.04, 0.06, 1, 1, 0.08],
    ],
    [
      'may be in another, and begins where its turn begins',
      (o) => {
        const inner = (): optim.lrScheduler.SequentialLR =>
          new L.SequentialLR(o, [new L.ConstantLR(o, { factor: 0.5 }), new L.ExponentialLR(o, 0.9)], [2]);
        return new L.SequentialLR(o, [inner(), inner()], [4]);
      },
      [0.5, 0.5, 1, 0.9, 0.5, 0.5, 1, 0.9, 0.81],
    ],
  ])('SequentialLR %s', (_, make, rates) => {
    const o = sgd();
    const schedule = make(o);
    for (const [step, rate] of rates.entries()) {
      if (step > 0) schedule.step();
      expect([step, ratesOf(o)[0]]).toEqual([step, expect.closeTo(rate, 12)]);
    }
  });

  it('SequentialLR needs the rate that a group began with at a milestone', () => {
    const o = sgd();
    const schedule = new L.SequentialLR(o, parts(o), [2]);
    o.addParamGroup({ params: [leaf()], lr: 0.5 });
    schedule.step();
    const before = ratesOf(o);
    expect(() => schedule.step()).toThrow('SequentialLR: group 1 came after the schedule and has no initialLr');
    expect([schedule.lastEpoch, ratesOf(o)]).toEqual([1, before]);
  });
});

describe('steps of an optimizer', () => {
  it.each([NaN, '0.1', undefined])('are not made with the rate %o', (lr) => {
    const p = leaf();
    const o = new optim.SGD([p], { lr: 1 });
    o.paramGroups[0].lr = lr as number;
    expect(() => o.step([tensor([1])])).toThrow('optim.SGD: lr of group 0 is a number, got ');
    expect(p.toArray()).toEqual([1]);
  });
});

describe('ReduceLROnPlateau', () => {
  it('gives the rates back to an optimiser without a state dict of its own, as those of other processes are', () => {
    const from = sgd();
    const saved = new L.ReduceLROnPlateau(from, { patience: 0, factor: 0.5 });
    for (const metric of [1, 1, 1]) saved.step(metric);
    const elsewhere = { paramGroups: [{ lr: 1 }] };
    new L.ReduceLROnPlateau(elsewhere, { patience: 0, factor: 0.5 }).loadStateDict(saved.stateDict());
    expect(elsewhere.paramGroups[0]?.lr).toBe(0.25);
  });

  it.each(['min', 'max'])('has a state that JSON keeps before there is a best metric: of mode %s', (mode) => {
    const saved = new L.ReduceLROnPlateau(sgd(), { mode } as Given).stateDict();
    const loaded = new L.ReduceLROnPlateau(sgd());
    loaded.loadStateDict(JSON.parse(JSON.stringify(saved)) as Given);
    expect(loaded.stateDict()).toEqual(saved);
    expect(() => loaded.loadStateDict({ ...saved, best: undefined })).toThrow('has no best');
    expect(() => loaded.loadStateDict({ ...saved, numBadEpochs: null })).toThrow('has no numBadEpochs');
  });

  it('has the rates of its last step, whatever was set since', () => {
    const o = sgd();
    const schedule = new L.ReduceLROnPlateau(o);
    o.paramGroups[0].lr = 0.5;
    expect(schedule.getLastLr()).toEqual([1]);
    schedule.step(1);
    expect(schedule.getLastLr()).toEqual([0.5]);
  });
});

it('a cycle whose momentum is loaded without the state of the optimiser, which has its limits, says so', () => {
  const saved = new L.OneCycleLR(sgd(), { maxLr: 1, totalSteps: 9 });
  const loaded = new L.OneCycleLR(sgd(), { maxLr: 1, totalSteps: 9, cycleMomentum: false });
  loaded.loadStateDict(saved.stateDict());
  expect(() => loaded.step()).toThrow('group 0 has no maxMomentum; load the state of the optimizer as well');
});

it('a sequence goes on with the milestones that are loaded', () => {
  const make = (o: optim.Optimizer, at: number): optim.lrScheduler.SequentialLR =>
    new L.SequentialLR(o, [new L.ConstantLR(o), new L.ExponentialLR(o, 0.5)], [at]);
  const [from, to] = [sgd(), sgd()];
  const saved = make(from, 3);
  const loaded = make(to, 5);
  to.loadStateDict(from.stateDict());
  loaded.loadStateDict(saved.stateDict());
  expect(walk(to, loaded)).toEqual(walk(from, saved));
  expect(() => loaded.loadStateDict({ ...saved.stateDict(), milestones: [1, 2] })).toThrow('has no 1 milestones');
});
