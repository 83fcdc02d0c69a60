/** @file Learning-rate schedules, parameter groups, clipping. */
import type { Operation } from '../../draw/operation.ts';
import type { Arg, Ref } from '../../program.ts';
import { row } from './rows.ts';

const F32 = ['float32'] as const;

/** Rates of two groups over the first steps of a schedule. */
const schedule = (name: string, ts: string, py: string, draw: Operation['draw'] = () => []): Operation =>
  row(
    `optim.lrScheduler.${name}`,
    `rates((o) => new optim.lrScheduler.${name}(o${ts}))`,
    `rates(lambda o: lr_scheduler.${name}(o${py}))`,
    'sums',
    draw,
    F32,
  );

const schedules: readonly Operation[] = [
  schedule('StepLR', ', $0, { gamma: $1 }', ', $0, gamma=$1', (draw) => [
    draw.random.int(1, 5),
    draw.random.pick([0.1, 0.5]),
  ]),
  schedule('MultiStepLR', ', $0, { gamma: $1 }', ', $0, gamma=$1', (draw) => [
    draw.random.pick([
      [2, 5],
      [3, 3, 7],
    ]),
    draw.random.pick([0.1, 0.5]),
  ]),
  schedule('ExponentialLR', ', $0', ', $0', (draw) => [draw.random.pick([0.9, 0.5])]),
  schedule('ConstantLR', ', { factor: $0, totalIters: $1 }', ', factor=$0, total_iters=$1', (draw) => [
    draw.random.pick([0.25, 0.5]),
    draw.random.int(1, 6),
  ]),
  schedule('LinearLR', ', { startFactor: $0, totalIters: $1 }', ', start_factor=$0, total_iters=$1', (draw) => [
    draw.random.pick([0.1, 0.5]),
    draw.random.int(1, 9),
  ]),
  schedule('PolynomialLR', ', { totalIters: $0, power: $1 }', ', total_iters=$0, power=$1', (draw) => [
    draw.random.int(2, 9),
    draw.random.pick([1, 2]),
  ]),
  schedule('CosineAnnealingLR', ', $0, { etaMin: $1 }', ', $0, eta_min=$1', (draw) => [
    draw.random.int(2, 9),
    draw.random.pick([0, 0.01]),
  ]),
  schedule('CosineAnnealingWarmRestarts', ', $0, { tMult: $1 }', ', $0, T_mult=$1', (draw) => [
    draw.random.int(1, 5),
    draw.random.int(1, 3),
  ]),
  schedule('LambdaLR', ', (i) => $0 ** i', ', lambda i: $0 ** i', (draw) => [draw.random.pick([0.9, 0.5])]),
  schedule('MultiplicativeLR', ', () => $0', ', lambda i: $0', (draw) => [draw.random.pick([0.9, 0.5])]),
  schedule(
    'CyclicLR',
    ', { baseLr: 0.25, maxLr: $0, stepSizeUp: $1, stepSizeDown: $2, mode: $3, gamma: 0.9 }',
    ', 0.25, $0, step_size_up=$1, step_size_down=$2, mode=$3, gamma=0.9',
    ({ random }) => [
      random.pick([0.5, 1]),
      random.int(1, 5),
      random.int(1, 5),
      random.pick(['triangular', 'triangular2', 'exp_range']),
    ],
  ),
  schedule(
    'OneCycleLR',
    ', { maxLr: $0, totalSteps: 12, threePhase: $1, annealStrategy: $2 }',
    ', $0, total_steps=12, three_phase=$1, anneal_strategy=$2',
    (draw) => [draw.random.pick([0.5, 1]), draw.random.chance(0.5), draw.random.pick(['cos', 'linear'])],
  ),
  schedule(
    'SequentialLR',
    ', [new optim.lrScheduler.ConstantLR(o, { factor: 0.1 }), new optim.lrScheduler.ExponentialLR(o, 0.9)], [$0]',
    ', [lr_scheduler.ConstantLR(o, 0.1), lr_scheduler.ExponentialLR(o, 0.9)], [$0]',
    (draw) => [draw.random.int(1, 6)],
  ),
  row(
    'optim.lrScheduler.ReduceLROnPlateau',
    'plateau($0, { patience: $1, factor: 0.5, cooldown: $2 })',
    'plateau($0, patience=$1, factor=0.5, cooldown=$2)',
    'sums',
    (draw) => [
      Array.from({ length: 10 }, () => draw.random.pick([1, 2, 3, 0.5])),
      draw.random.int(0, 3),
      draw.random.int(0, 2),
    ],
    F32,
  ),
];

/** A leaf with a gradient. */
function withGradient(draw: Parameters<Operation['draw']>[0], shape: readonly number[]): Ref {
  const leaf = draw.leaf(shape, { grad: true, style: 'plain' });
  draw.call(
    'grad',
    '!$0.grad = $1',
    '!$0.grad = $1',
    [leaf, draw.leaf(shape, { grad: false, style: 'plain' })],
    'never',
  );
  return leaf;
}

const groups = (name: string, ts: string, py: string): Operation =>
  row(
    `optim.${name} groups`,
    '$0.step()',
    '$0.step()',
    'step',
    (draw) => {
      const params = [withGradient(draw, [3]), withGradient(draw, [2, 2]), withGradient(draw, [])];
      const made = draw.call(
        `optim.${name}`,
        `new optim.${name}([{ params: [$0, $1], ${ts} }, { params: $2 }], $3)`,
        `optim.${name}([{"params": [$0, $1], ${py}}, {"params": $2}], **$3)`,
        [
          ...params,
          {
            options: { lr: draw.random.pick([0.1, 0.01]), weightDecay: draw.random.pick([0, 0.1]) } satisfies Record<
              string,
              Arg
            >,
          },
        ],
        'never',
      );
      for (let i = draw.random.int(0, 3); i > 0; i--) draw.call('step', '$0.step()', '$0.step()', [made], 'step');
      return [made];
    },
    F32,
  );

export const optimising: readonly Operation[] = [
  ...schedules,
  groups('Adagrad', 'lrDecay: 0.1', '"lr_decay": 0.1'),
  groups('Adam', 'betas: [0.5, 0.9]', '"betas": (0.5, 0.9)'),
  groups('AdamW', 'weightDecay: 0.5', '"weight_decay": 0.5'),
  groups('RMSprop', 'centered: true', '"centered": True'),
  row(
    'nn.utils.clipGradNorm_',
    'nn.utils.clipGradNorm_([$0, $1], $2, { normType: $3 })',
    'nn.utils.clip_grad_norm_([$0, $1], $2, $3)',
    'sums',
    (draw) => [
      withGradient(draw, draw.shape(0, 2)),
      withGradient(draw, [3]),
      draw.random.pick([0.5, 1, 100]),
      draw.random.pick([2, 1, Infinity]),
    ],
    F32,
  ),
  row(
    'nn.utils.clipGradValue_',
    '!nn.utils.clipGradValue_([$0, $1], $2)',
    '!nn.utils.clip_grad_value_([$0, $1], $2)',
    'never',
    (draw) => [withGradient(draw, draw.shape(0, 2)), withGradient(draw, [3]), draw.random.pick([0.5, 1])],
    F32,
  ),
];
