/**
 * @file Training of 30 steps: optimisers of two groups by schedules, gradients that add up and are clipped, scaled losses, autocast, and a
 * checkpoint in the middle from which another model, optimiser, schedule and scaler go on.
 */
import type { Random } from '@backwire/testing';
import { Draw } from '../draw/draw.ts';
import { some } from '../operations/ported/rows.ts';
import type { Arg, Ref } from '../program.ts';
import { drawSchedule } from './schedules.ts';
import type { Suite } from './suite.ts';

const STEPS = 30;
const CLASSES = 4;

interface Net {
  readonly ts: string;
  readonly py: string;
  /** Of one row of a batch. */
  readonly shape: readonly number[];
}

/** Layers without bends, and without biases that a normalisation takes off again: of their slopes only the rounding is left. */
const NETS: readonly Net[] = [
  {
    ts: 'new nn.Linear(5, 6), new nn.Tanh(), new nn.Linear(6, 4)',
    py: 'nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4)',
    shape: [5],
  },
  {
    ts: 'new nn.Linear(5, 8), new nn.LayerNorm(8), new nn.GELU(), new nn.Linear(8, 4)',
    py: 'nn.Linear(5, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4)',
    shape: [5],
  },
  {
    ts: 'new nn.Linear(5, 8, { bias: false }), new nn.BatchNorm1d(8), new nn.SiLU(), new nn.Linear(8, 4)',
    py: 'nn.Linear(5, 8, bias=False), nn.BatchNorm1d(8), nn.SiLU(), nn.Linear(8, 4)',
    shape: [5],
  },
  {
    ts: 'new nn.Conv2d(2, 3, 3, { bias: false }), new nn.GroupNorm(1, 3), new nn.Tanh(), new nn.Flatten(), new nn.Linear(12, 4)',
    py: 'nn.Conv2d(2, 3, 3, bias=False), nn.GroupNorm(1, 3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 4)',
    shape: [2, 4, 4],
  },
  {
    ts: 'new nn.Conv1d(2, 3, 2, { padding: 1 }), new nn.Softplus(), new nn.AvgPool1d(2), new nn.Flatten(), new nn.Linear(9, 4)',
    py: 'nn.Conv1d(2, 3, 2, padding=1), nn.Softplus(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(9, 4)',
    shape: [2, 5],
  },
];

type Table = Readonly<Record<string, readonly Arg[]>>;

const moments: Table = { weightDecay: [0.1, 0.01], betas: [[0.8, 0.95]], eps: [1e-6, 1e-3], maximize: [true] };

/** The rate is small: where training runs away, nothing can be compared. */
const OPTIMISERS: Readonly<Record<string, Table>> = {
  SGD: { weightDecay: [0.1, 0.01], momentum: [0.9, 0.5], dampening: [0.5], maximize: [true] },
  Adam: { ...moments, amsgrad: [true] },
  AdamW: { ...moments, amsgrad: [true] },
  Adamax: moments,
  RAdam: { ...moments, decoupledWeightDecay: [true] },
  Adagrad: { weightDecay: [0.1], lrDecay: [0.1], initialAccumulatorValue: [0.5], eps: [1e-6] },
  Adadelta: { weightDecay: [0.1], rho: [0.5, 0.95], eps: [1e-4] },
  RMSprop: { weightDecay: [0.1], alpha: [0.5, 0.9], eps: [1e-4], momentum: [0.9, 0.5], centered: [true] },
};

/** What one life of a training has. */
interface Life {
  readonly net: Ref;
  readonly optimiser: Ref;
  readonly schedule: Ref | undefined;
  readonly scaler: Ref | undefined;
}

/** What begins lives that can go on from one another. */
function drawLives(
  draw: Draw,
  net: Net,
): {
  readonly name: string;
  readonly begin: () => Life;
  readonly metric: boolean;
} {
  const { random } = draw;
  const name = random.pick(Object.keys(OPTIMISERS));
  const { options } = some(draw, OPTIMISERS[name] as Table, 0.35);
  options['lr'] = random.pick([0.02, 0.005]);
  if (name === 'SGD' && options['momentum'] !== undefined && options['dampening'] === undefined && random.chance(0.4))
    options['nesterov'] = true;
  const own = { options: { lr: 0.01, ...some(draw, { weightDecay: [0, 0.05] }, 0.4).options } };
  const drawn = random.chance(0.8) ? drawSchedule(random) : undefined;
  const schedule = drawn?.make(random);
  const scaling = random.chance(0.4)
    ? some(
        draw,
        { initScale: [2 ** 10, 2 ** 24], growthFactor: [4], backoffFactor: [0.25], growthInterval: [3, 7] },
        0.5,
      )
    : undefined;
  const begin = (): Life => {
    const made = draw.call(
      'net',
      `filled(new nn.Sequential(${net.ts}), $0)`,
      `filled(nn.Sequential(${net.py}), $0)`,
      [random.int(0, 50)],
      'sums',
    );
    const optimiser = draw.call(
      name,
      `new optim.${name}([{ params: $0.parameters().slice(0, 2) }, { params: $0.parameters().slice(2), ...$2 }], $1)`,
      `optim.${name}([{'params': list($0.parameters())[:2]}, {'params': list($0.parameters())[2:], **$2}], **$1)`,
      [made, { options }, own],
      'never',
    );
    return {
      net: made,
      optimiser,
      schedule:
        schedule === undefined
          ? undefined
          : draw.call(
              'schedule',
              `((o) => ${schedule.ts})($0)`,
              `(lambda o: ${schedule.py})($0)`,
              [optimiser],
              'never',
            ),
      scaler:
        scaling === undefined
          ? undefined
          : draw.call('scaler', 'new bw.GradScaler($0)', "torch.amp.GradScaler('cpu', **$0)", [scaling], 'never'),
    };
  };
  return { name, begin, metric: drawn?.kind === 'plateau' };
}

/** Another life goes on from a checkpoint of this one. */
function resume(draw: Draw, old: Life, begin: () => Life): Life {
  const next = begin();
  draw.call(
    'load',
    '!$1.loadStateDict(bw.loadSafetensors(bw.saveSafetensors($0.stateDict())).tensors)',
    '!$1.load_state_dict(deepcopy($0.state_dict()))',
    [old.net, next.net],
    'never',
  );
  for (const part of ['optimiser', 'schedule', 'scaler'] as const) {
    const [from, to] = [old[part], next[part]];
    if (from === undefined) continue;
    draw.call(
      'load',
      '!$1.loadStateDict(carried($0.stateDict()))',
      '!$1.load_state_dict(deepcopy($0.state_dict()))',
      [from, to],
      'never',
    );
  }
  return next;
}

const LOSSES = [
  ['bw.crossEntropy($0.forward($1), $3)', 'F.cross_entropy($0($1), $3)'],
  ['bw.crossEntropy($0.forward($1), $3, { labelSmoothing: 0.1 })', 'F.cross_entropy($0($1), $3, label_smoothing=0.1)'],
  ['bw.mseLoss($0.forward($1), $2)', 'F.mse_loss($0($1), $2)'],
  ['bw.huberLoss($0.forward($1), $2)', 'F.huber_loss($0($1), $2)'],
  [
    'bw.binaryCrossEntropyWithLogits($0.forward($1), $2.sigmoid())',
    'F.binary_cross_entropy_with_logits($0($1), $2.sigmoid())',
  ],
] as const;

/** What is done to the gradients of a life before its step. */
type Clip = (draw: Draw, life: Life) => void;

function drawClip(random: Random): Clip | undefined {
  if (random.chance(0.4)) return undefined;
  const most = random.pick([0.05, 0.5, 5]);
  if (random.chance(0.3))
    return (draw, { net }) =>
      draw.call(
        'clip',
        '!nn.utils.clipGradValue_($0.parameters(), $1)',
        '!nn.utils.clip_grad_value_($0.parameters(), $1)',
        [net, most],
        'never',
      );
  const normType = random.pick([2, 2, 1, Infinity]);
  return (draw, { net }) =>
    draw.call(
      'clip',
      'nn.utils.clipGradNorm_($0.parameters(), $1, { normType: $2 })',
      'nn.utils.clip_grad_norm_($0.parameters(), $1, $2)',
      [net, most, normType],
      'sums',
    );
}

export const trainingSuite: Suite = {
  name: 'training',
  perSeed: 40,
  draw(random, seed) {
    const draw = new Draw(random, { dtype: 'float32', mishaps: 0, views: 0 });
    const net = random.pick(NETS);
    const { name, begin, metric } = drawLives(draw, net);
    const rows = random.int(2, 6);
    const batches = Array.from({ length: random.int(1, 4) }, () => [
      draw.leaf([rows, ...net.shape], { style: 'plain', grad: false }),
      draw.leaf([rows, CLASSES], { style: 'plain', grad: false }),
      draw.integers([rows], 0, CLASSES),
    ]);
    const [ts, py] = random.pick(LOSSES);
    // Others divide by the size of gradients, of small ones as of large ones: of what is rounded to bfloat16 little is left.
    const lower = random.chance(0.7) && name === 'SGD';
    const [lossTs, lossPy] = lower
      ? [`bw.autocast(() => ${ts})`, `torch.autocast('cpu', dtype=torch.bfloat16)(lambda: ${py})()`]
      : [ts, py];
    const clip = drawClip(random);
    const parts = random.pick([1, 1, 2, 3]);
    const epoch = random.pick([2, 3, 5]);
    const reload = random.chance(0.7) ? random.int(1, STEPS) : undefined;
    let life = begin();
    // Of a scaled loss that is infinite no step is taken.
    const overflow = life.scaler !== undefined && random.chance(0.6) ? random.int(0, STEPS) : undefined;
    for (let step = 0; step < STEPS; step++) {
      if (step === reload) life = resume(draw, life, begin);
      const { optimiser, schedule, scaler } = life;
      for (let part = 0; part < parts; part++) {
        const batch = batches[(step * parts + part) % batches.length] as Ref[];
        const factor = step === overflow ? Infinity : 1 / parts;
        const args = [life.net, ...batch, factor];
        const loss = draw.call('loss', `${lossTs}.mul($4)`, `${lossPy} * $4`, args, 'sums');
        if (scaler === undefined) draw.call('backward', '!$0.backward()', '!$0.backward()', [loss], 'never');
        else draw.call('backward', '!$1.scale($0).backward()', '!$1.scale($0).backward()', [loss, scaler], 'never');
      }
      if (clip !== undefined) {
        if (scaler !== undefined)
          draw.call('unscale_', '!$1.unscale_($0)', '!$1.unscale_($0)', [optimiser, scaler], 'never');
        clip(draw, life);
      }
      if (scaler === undefined) draw.call('step', '$0.step()', '$0.step()', [optimiser], 'step');
      else {
        draw.call('step', '!$1.step($0)', '!$1.step($0)', [optimiser, scaler], 'step');
        draw.call('update', '!$0.update()', '!$0.update()', [scaler], 'never');
      }
      draw.call('zeroGrad', '$0.zeroGrad()', '$0.zero_grad()', [optimiser], 'never');
      if (schedule !== undefined && step % epoch === epoch - 1) {
        const args = metric ? [schedule, random.pick([1, 2, 0.5, 0.9])] : [schedule];
        const call = metric ? 'step($1)' : 'step()';
        draw.call('schedule', `!$0.${call}`, `!$0.${call}`, args, 'never');
      }
    }
    return draw.program('training', seed);
  },
};
