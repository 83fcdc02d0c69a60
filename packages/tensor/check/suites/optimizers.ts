/** @file Optimisers with all their options over several steps, their state, and gradients that are missing, sparse or of another dtype. */
import type { DType } from '../../src/index.ts';
import type { Random } from '@backwire/testing';
import { Draw } from '../draw/draw.ts';
import { sparse } from '../operations/others.ts';
import { some } from '../operations/ported/rows.ts';
import type { Arg, Ref } from '../program.ts';
import type { Suite } from './suite.ts';

type Options = (random: Random) => Record<string, Arg>;

/** Each option now and then. */
function options(
  table: Readonly<Record<string, readonly Arg[]>>,
  always: Readonly<Record<string, readonly Arg[]>> = {},
): Options {
  return (random) => {
    const found: Record<string, Arg> = {};
    for (const [name, values] of Object.entries(always)) found[name] = random.pick(values);
    for (const [name, values] of Object.entries({ ...table, maximize: [true] }))
      if (random.chance(0.35)) found[name] = random.pick(values);
    if (random.chance(0.06))
      Object.assign(
        found,
        random.pick(
          OUT_OF_RANGE.filter((wrong) => Object.keys(wrong).every((name) => name in table || name in always)),
        ),
      );
    return found;
  };
}

const OUT_OF_RANGE: readonly Readonly<Record<string, Arg>>[] = [
  ...[
    { lr: -1 },
    { weightDecay: -0.1 },
    { betas: [1.5, 0.5] },
    { eps: -1 },
    { momentum: -0.5 },
    { nesterov: true, dampening: 0.5 },
  ],
  ...[{ rho: 2 }, { initialAccumulatorValue: -1 }, { lrDecay: -1 }, { etas: [0.5, 0.5] }, { alpha: -0.5 }],
];

const lr = { lr: [0.1, 0.01, 0, 1] } as const;
const decay = { weightDecay: [0.1, 0.01, 0] } as const;
const moments = {
  ...lr,
  ...decay,
  betas: [
    [0.8, 0.95],
    [0.5, 0.5],
    [0.9, 0.1],
  ],
  eps: [1e-6, 1e-3, 0],
} as const;

const CLASSES: Readonly<Record<string, Options>> = {
  SGD: options(
    { ...decay, momentum: [0.9, 0.5, 0], dampening: [0.5, 0], nesterov: [false, false, true] },
    { lr: [0.1, 0.01, 0.5] },
  ),
  Adam: options({ ...moments, amsgrad: [true] }),
  AdamW: options({ ...moments, amsgrad: [true] }),
  Adamax: options(moments),
  Adagrad: options({ ...lr, ...decay, lrDecay: [0.1, 0], initialAccumulatorValue: [0.5, 0], eps: [1e-6] }),
  Adadelta: options({ ...lr, ...decay, rho: [0.5, 0.95], eps: [1e-4] }),
  RMSprop: options({ ...lr, ...decay, alpha: [0.5, 0.9], eps: [1e-4], momentum: [0.9, 0.5], centered: [true] }),
  RAdam: options({ ...moments, decoupledWeightDecay: [true] }),
  SparseAdam: options({ lr: lr.lr, betas: moments.betas, eps: moments.eps }),
  Rprop: options({ ...lr, etas: [[0.3, 1.5]], stepSizes: [[1e-4, 1]] }),
};

/** What may change between steps. */
const CHANGED: readonly (readonly [option: string, theirs: string, values: readonly Arg[]])[] = [
  ['weightDecay', 'weight_decay', [0, 0.1]],
  // Without any, PyTorch keeps the velocity in the state dict.
  ['momentum', 'momentum', [0.3, 0.7]],
  ['dampening', 'dampening', [0, 0.3]],
  ['maximize', 'maximize', [true, false]],
  [
    'betas',
    'betas',
    [
      [0.6, 0.9],
      [0, 0.5],
    ],
  ],
  ['eps', 'eps', [1e-2]],
  ['alpha', 'alpha', [0.7]],
  ['rho', 'rho', [0.7]],
  ['lrDecay', 'lr_decay', [0.2]],
];

/** What both sides can do between steps; `names` are the optimiser's options. */
function between(draw: Draw, optimiser: Ref, names: ReadonlySet<string>): void {
  const { random } = draw;
  if (random.chance(0.1)) {
    draw.call(
      'lr',
      '!$0.paramGroups[0].lr = $1',
      "!$0.param_groups[0]['lr'] = $1",
      [optimiser, random.pick([0.3, 0.001])],
      'never',
    );
  }
  const [option, theirs, values] = random.pick(CHANGED);
  if (random.chance(0.15) && names.has(option)) {
    const py = `!$0.param_groups[0]['${theirs}'] = $1`;
    draw.call('option', `!$0.paramGroups[0].${option} = $1`, py, [optimiser, random.pick(values)], 'never');
  }
  if (random.chance(0.08)) draw.call('zeroGrad', '$0.zeroGrad()', '$0.zero_grad()', [optimiser], 'never');
}

const ALL = ['lr', 'maximize'];
const ADAM = [...ALL, 'betas', 'eps', 'weightDecay'];
const OPTIONS_OF: Readonly<Record<string, ReadonlySet<string>>> = Object.fromEntries(
  Object.entries({
    SGD: [...ALL, 'momentum', 'dampening', 'weightDecay'],
    Adam: ADAM,
    AdamW: ADAM,
    Adamax: ADAM,
    RAdam: ADAM,
    Adagrad: [...ALL, 'lrDecay', 'weightDecay', 'eps'],
    Adadelta: [...ALL, 'rho', 'weightDecay', 'eps'],
    // Without momentum from the start, PyTorch has no velocity to go on with.
    RMSprop: [...ALL, 'alpha', 'weightDecay', 'eps'],
    SparseAdam: [...ALL, 'betas', 'eps'],
    Rprop: ALL,
  }).map(([name, options]) => [name, new Set(options)]),
);

function gradientFor(draw: Draw, shape: readonly number[], dtype: DType, sparseShare: number): Arg {
  const { random } = draw;
  if (random.chance(0.08)) return undefined;
  if (random.chance(sparseShare) && shape.length > 0 && !shape.includes(0)) {
    return draw.call('detach', '$0.detach()', '$0.detach()', [sparse(draw, [...shape], 1)], 'never');
  }
  return draw.leaf(shape, {
    dtype,
    grad: false,
    style: random.weighted({ plain: 8, whole: 2, zero: 0.3, special: dtype === 'complex64' ? 0 : 0.2 }),
  });
}

export const optimizerSuite: Suite = {
  name: 'optimizers',
  perSeed: 250,
  draw(random, seed) {
    const dtype = random.weighted({ float32: 8, float64: 2, float16: 0.4, bfloat16: 0.4, complex64: 0.6 });
    const draw = new Draw(random, { dtype, mishaps: 0.01, views: 0 });
    const params = Array.from({ length: random.int(1, 4) }, () => {
      const shape = random.chance(0.08) ? [random.pick([2047, 2048, 8192])] : draw.shape(0, 3);
      return {
        shape,
        ref: draw.leaf(shape, { grad: random.chance(0.97), style: random.pick(['plain', 'plain', 'whole']) }),
      };
    });
    const name = random.pick(Object.keys(CLASSES));
    const chosen = (CLASSES[name] as Options)(random);
    const args: Arg[] = [params.map(({ ref }) => ref), { options: chosen }];
    const make = (): Ref => draw.call(name, `new optim.${name}($0, $1)`, `optim.${name}($0, **$1)`, args, 'never');
    const sparseShare = name === 'SparseAdam' ? 0.97 : 0.03;
    let optimiser = make();
    let grown = false;
    for (let i = random.int(2, 6); i > 0; i--) {
      for (const { ref, shape } of params) {
        draw.call(
          'grad',
          '!$0.grad = $1 ?? null',
          '!$0.grad = $1',
          [ref, gradientFor(draw, shape, dtype, sparseShare)],
          'never',
        );
      }
      draw.call(name, '$0.step()', '$0.step()', [optimiser], 'step');
      between(draw, optimiser, OPTIONS_OF[name] as ReadonlySet<string>);
      if (random.chance(0.06)) {
        const shape = draw.shape(0, 2);
        const added = { shape, ref: draw.leaf(shape, { grad: true, style: 'plain' }) };
        params.push(added);
        const own = some(draw, { lr: [0.3, 0.01], ...(name === 'SGD' ? { momentum: [0.5] } : {}) });
        draw.call(
          'addParamGroup',
          '!$0.addParamGroup({ params: [$1], ...$2 })',
          "!$0.add_param_group({'params': [$1], **$2})",
          [optimiser, added.ref, own],
          'never',
        );
        grown = true;
      }
      if (!grown && random.chance(0.1)) {
        const next = make();
        draw.call(
          'loadStateDict',
          '!$0.loadStateDict($1.stateDict())',
          '!$0.load_state_dict(deepcopy($1.state_dict()))',
          [next, optimiser],
          'never',
        );
        optimiser = next;
      }
    }
    return draw.program('optimizers', seed);
  },
};
