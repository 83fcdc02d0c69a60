/** @file Activations, normalisation, convolution, pooling and losses as functions. */
import { FLOATS, INTEGERS } from '../dtypes.ts';
import type { Arg, Ref } from '../program.ts';
import type { Draw } from '../draw/draw.ts';
import { type Form, type Operation } from '../draw/operation.ts';
import { snake } from '../program.ts';

const functional = (name: string, takes: number, py = snake(name)): Form[] => {
  const args = Array.from({ length: takes }, (_, i) => `$${i}`);
  const rest = args.slice(1).join(', ');
  return [`$0.${name}(${rest})`, `bw.${name}(${args.join(', ')})`].map((ts) => ({
    ts,
    py: `F.${py}(${args.join(', ')})`,
  }));
};

const plainActivations = ['silu', 'mish', 'selu', 'relu6', 'hardSigmoid', 'hardSwish', 'softsign'];

const activations: Operation[] = [
  ...plainActivations.map((name): Operation => ({
    name,
    forms: functional(name, 1),
    rounding: 'once',
    draw: (draw) => [draw.tensor(draw.shape())],
  })),
  {
    name: 'gelu',
    forms: functional('gelu', 1),
    rounding: 'once',
    draw: (draw) => [draw.tensor(draw.shape())],
    weight: 2,
  },
  {
    name: 'gelu tanh',
    forms: [{ ts: "$0.gelu('tanh')", py: "F.gelu($0, approximate='tanh')" }],
    rounding: 'once',
    draw: (draw) => [draw.tensor(draw.shape())],
  },
  {
    name: 'leakyRelu',
    forms: functional('leakyRelu', 2),
    rounding: 'once',
    draw: (draw) => [draw.tensor(draw.shape()), draw.random.pick([0.01, 0.2, 0, 1, -0.5])],
  },
  {
    name: 'elu',
    forms: functional('elu', 2),
    rounding: 'once',
    draw: (draw) => [draw.tensor(draw.shape()), draw.random.pick([1, 0.5, 2])],
  },
  {
    name: 'hardtanh',
    forms: functional('hardtanh', 3),
    rounding: 'never',
    draw: (draw) => [draw.tensor(draw.shape()), -1, draw.random.pick([1, 0.5, 2])],
  },
  {
    name: 'prelu',
    forms: [{ ts: 'bw.prelu($0, $1)', py: 'F.prelu($0, $1)' }],
    rounding: 'once',
    draw: (draw) => {
      const shape = draw.shape(1);
      const one = draw.random.chance(0.4) || shape.length < 2;
      return [draw.tensor(shape), draw.tensor([one ? 1 : draw.mishap() ? 7 : (shape[1] as number)])];
    },
    dtypes: [...FLOATS, 'float32'],
  },
  {
    name: 'dropout',
    forms: [{ ts: 'bw.dropout($0, $1, $2)', py: 'F.dropout($0, $1, $2)' }],
    rounding: 'once',
    draw: (draw) => {
      const [p, training] = draw.random.pick([
        [0, true],
        [1, true],
        [0.5, false],
        [0.5, false],
      ] as const);
      return [draw.tensor(draw.shape()), draw.mishap() ? 1.5 : p, training];
    },
  },
];

const optional = (draw: Draw, shape: readonly number[], chance = 0.7): Arg =>
  draw.random.chance(chance) ? draw.tensor(shape) : undefined;

const normalisation: Operation[] = [
  {
    name: 'layerNorm',
    forms: [{ ts: 'bw.layerNorm($0, $1, $2, $3)', py: 'F.layer_norm($0, $1, $2, $3)' }],
    rounding: 'sums',
    draw: (draw) => {
      const shape = draw.shape(1);
      const last = draw.mishap() ? [3, 3] : shape.slice(draw.random.int(0, shape.length));
      const part = (): Arg => optional(draw, draw.mishap() ? [...draw.shape(0, 1), ...last] : last);
      return [draw.tensor(shape), last, part(), part()];
    },
    dtypes: [...FLOATS, 'float32', 'float32', 'int64'],
    weight: 2,
  },
  {
    name: 'groupNorm',
    forms: [{ ts: 'bw.groupNorm($0, $1, $2, $3)', py: 'F.group_norm($0, $1, $2, $3)' }],
    rounding: 'sums',
    draw: (draw) => {
      const groups = draw.random.int(1, 4);
      const c = draw.mishap() ? groups + 1 : groups * draw.random.int(1, 3);
      const shape = [draw.size(), c, ...draw.shape(0, 2)];
      const part = (): Arg => optional(draw, draw.mishap() ? draw.shape(0, 2) : [c]);
      return [draw.tensor(shape), groups, part(), part()];
    },
    dtypes: [...FLOATS, 'float32'],
  },
  {
    name: 'batchNorm',
    forms: [
      {
        ts: 'bw.batchNorm($0, { runningMean: $1, runningVar: $2, weight: $3, bias: $4, training: $5, momentum: $6 })',
        py: 'F.batch_norm($0, $1, $2, $3, $4, $5, $6)',
      },
    ],
    rounding: 'sums',
    draw: (draw) => {
      const c = draw.size();
      const shape = draw.mishap() ? draw.shape() : [draw.size(), c, ...draw.shape(0, 2)];
      const training = draw.random.chance(0.6);
      const running = !training || draw.random.chance(0.6);
      const stats = (): Ref => draw.tensor([c], { style: 'positive', grad: false });
      const [mean, variance] = running ? [stats(), stats()] : [undefined, undefined];
      return [
        draw.tensor(shape),
        mean,
        variance,
        optional(draw, [c]),
        optional(draw, [c]),
        training,
        draw.random.pick([0.1, 0.5, 0]),
      ];
    },
    dtypes: ['float32', 'float32', 'float64'],
    weight: 2,
  },
];

const losses: Operation[] = (
  [
    ['mseLoss', []],
    ['l1Loss', []],
    ['smoothL1Loss', ['beta']],
    ['huberLoss', ['delta']],
    ['binaryCrossEntropy', []],
    ['binaryCrossEntropyWithLogits', []],
    ['klDiv', []],
  ] as const
).map(([name, extras]) => ({
  name,
  forms: [{ ts: `bw.${name}($0, $1, $2)`, py: `F.${snake(name)}($0, $1, **$2)` }],
  rounding: 'sums',
  draw: (draw) => {
    const shape = draw.shape();
    const unit = name === 'binaryCrossEntropy' || draw.random.chance(0.2);
    const target = draw.random.chance(0.06) ? (draw.broadcast(1)[0] as number[]) : shape;
    const options: Record<string, Arg> = draw.random.chance(0.7)
      ? { reduction: draw.random.pick(['mean', 'sum', 'none']) }
      : {};
    for (const extra of extras)
      if (draw.random.chance(0.6))
        options[extra] = draw.random.pick([0.5, 2, 1, 0.1, ...(extra === 'beta' ? [0] : [])]);
    const style = unit ? { style: 'unit' as const } : {};
    const other = draw.random.chance(0.05) ? { dtype: draw.random.pick(FLOATS) } : {};
    return [draw.tensor(shape, style), draw.tensor(target, { ...style, ...other }), { options }];
  },
  dtypes: [...FLOATS, 'float32', 'float32', 'float64', 'int64'],
  weight: 2,
}));

/** Log-probabilities or logits [N, C, ...] and classes [N, ...]. */
function classes(draw: Draw): { input: Ref; target: Ref; count: number; shape: number[] } {
  const count = draw.size(1);
  const lead = draw.random.chance(0.15) ? [] : [draw.size()];
  const rest = lead.length === 0 ? [] : draw.random.pick([[], [], [2], [2, 3]]);
  const shape = [...lead, count, ...rest];
  const target = draw.integers(draw.mishap() ? [...lead, 2, ...rest] : [...lead, ...rest], 0, count);
  return { input: draw.tensor(shape), target, count, shape };
}

function classOptions(draw: Draw, count: number): Record<string, Arg> {
  const options: Record<string, Arg> = {};
  if (draw.random.chance(0.6)) options['reduction'] = draw.random.pick(['mean', 'sum', 'none']);
  if (draw.random.chance(0.3)) options['weight'] = draw.tensor([count], { style: 'positive', grad: false });
  if (draw.random.chance(0.3)) options['ignoreIndex'] = draw.random.int(0, count);
  return options;
}

const classLosses: Operation[] = [
  {
    name: 'nllLoss',
    forms: [{ ts: 'bw.nllLoss($0, $1, $2)', py: 'F.nll_loss($0, $1, **$2)' }],
    rounding: 'sums',
    draw: (draw) => {
      const { input, target, count } = classes(draw);
      return [input, target, { options: classOptions(draw, count) }];
    },
    dtypes: [...FLOATS, 'float32'],
    weight: 2,
  },
  {
    name: 'crossEntropy',
    forms: [{ ts: 'bw.crossEntropy($0, $1, $2)', py: 'F.cross_entropy($0, $1, **$2)' }],
    rounding: 'sums',
    draw: (draw) => {
      const { input, target, count, shape } = classes(draw);
      const soft = draw.random.chance(0.25);
      const options = classOptions(draw, count);
      if (draw.random.chance(0.3)) options['labelSmoothing'] = draw.random.pick([0.1, 0.5, 1]);
      if (soft) delete options['ignoreIndex'];
      return [input, soft ? draw.tensor(shape, { style: 'unit' }) : target, { options }];
    },
    dtypes: [...FLOATS, 'float32', 'float32'],
    weight: 4,
  },
];

const CONV_DTYPES = [
  'float32',
  'float32',
  'float32',
  'float64',
  'float16',
  'bfloat16',
  INTEGERS[0],
  'complex64',
] as const;

interface Windows {
  readonly kernel: number[];
  readonly stride: number[];
  readonly padding: number[];
  readonly dilation: number[];
}

function windows(draw: Draw, rank: number): Windows {
  const each = (least: number, below: number): number[] =>
    Array.from({ length: rank }, () => draw.random.int(least, below));
  return { kernel: each(1, 4), stride: each(1, 4), padding: each(0, 3), dilation: each(1, 3) };
}

const image = (draw: Draw, c: number, rank: number): number[] => {
  const sides = Array.from({ length: rank }, () => draw.random.int(2, 8));
  if (draw.random.chance(0.06)) return [c, ...sides];
  return [draw.random.chance(0.05) ? 0 : draw.random.int(1, 3), c, ...sides];
};

function convolution(name: 'conv1d' | 'conv2d' | 'convTranspose2d', rank: number): Operation {
  const turned = name === 'convTranspose2d';
  return {
    name,
    forms: [{ ts: `bw.${name}($0, $1, $2)`, py: `F.${snake(name)}($0, $1, **$2)` }],
    rounding: 'sums',
    draw: (draw) => {
      const groups = draw.random.pick([1, 1, 1, 2, 3]);
      const [c, o] = [groups * draw.random.int(1, 3), groups * draw.random.int(1, 3)];
      const { kernel, stride, padding, dilation } = windows(draw, rank);
      const inner = draw.mishap() ? c + 1 : (turned ? o : c) / groups;
      const one = (list: number[]): Arg => (rank === 1 || draw.random.chance(0.4) ? list[0] : list);
      const options: Record<string, Arg> = {};
      if (draw.random.chance(0.6)) options['bias'] = draw.tensor([o]);
      if (draw.random.chance(0.6)) options['stride'] = one(stride);
      if (draw.random.chance(0.6)) options['padding'] = one(padding);
      if (draw.random.chance(0.4)) options['dilation'] = one(dilation);
      if (groups > 1) options['groups'] = groups;
      if (turned && draw.random.chance(0.4)) options['outputPadding'] = draw.random.int(0, 2);
      return [draw.tensor(image(draw, c, rank)), draw.tensor([turned ? c : o, inner, ...kernel]), { options }];
    },
    dtypes: CONV_DTYPES,
    weight: 3,
  };
}

function pooling(name: 'maxPool2d' | 'avgPool2d'): Operation {
  return {
    name,
    forms: [{ ts: `bw.${name}($0, $1, $2)`, py: `F.${snake(name)}($0, $1, **$2)` }],
    rounding: name === 'avgPool2d' ? 'sums' : 'never',
    draw: (draw) => {
      const { kernel, stride, padding } = windows(draw, 2);
      const options: Record<string, Arg> = {};
      if (draw.random.chance(0.6)) options['stride'] = draw.random.chance(0.5) ? stride : stride[0];
      if (draw.random.chance(0.4)) options['padding'] = draw.mishap() ? padding : 0;
      if (draw.random.chance(0.4)) options['padding'] = kernel.map((k) => Math.floor(k / 2));
      return [draw.tensor(image(draw, draw.size(), 2)), draw.random.chance(0.5) ? kernel : kernel[0], { options }];
    },
    dtypes: CONV_DTYPES,
    weight: 2,
  };
}

const images: Operation[] = [
  convolution('conv1d', 1),
  convolution('conv2d', 2),
  convolution('convTranspose2d', 2),
  pooling('maxPool2d'),
  pooling('avgPool2d'),
  {
    name: 'adaptiveAvgPool2d',
    forms: [{ ts: 'bw.adaptiveAvgPool2d($0, $1)', py: 'F.adaptive_avg_pool2d($0, $1)' }],
    rounding: 'sums',
    draw: (draw) => [
      draw.tensor(image(draw, draw.size(), 2)),
      draw.random.chance(0.5) ? draw.random.int(1, 4) : [draw.random.int(1, 4), draw.random.int(1, 4)],
    ],
    dtypes: CONV_DTYPES,
  },
];

export const neural: readonly Operation[] = [...activations, ...normalisation, ...losses, ...classLosses, ...images];
