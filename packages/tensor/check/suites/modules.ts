/** @file Layers: forward, backward, running statistics, modes, weights used twice, and a few steps of training. */
import type { Random } from '@backwire/testing';
import { Draw } from '../draw/draw.ts';
import type { Arg, Ref } from '../program.ts';
import type { Suite } from './suite.ts';

interface Layer {
  readonly name: string;
  readonly draw: (draw: Draw) => Drawn;
}

interface Form {
  readonly ts: string;
  readonly py: string;
}

interface Drawn {
  readonly ts: string;
  readonly py: string;
  readonly args: readonly Arg[];
  /** Another batch for the same layer. */
  readonly input: () => Ref;
  /** Further arguments of `forward`. */
  readonly more?: readonly Arg[];
  /** Ways to call it, where there are more than one. */
  readonly forms?: readonly Form[];
}

const plain = (name: string, args: readonly Arg[] = []): Layer => ({
  name,
  draw: (draw) => {
    const list = args.map((_, i) => `$${i}`).join(', ');
    return {
      ts: `new nn.${name}(${list})`,
      py: `nn.${name}(${list})`,
      args,
      input: () => draw.tensor(draw.shape(1, 3)),
    };
  },
});

/** A layer of images of so many dimensions, with and without a batch, now and then with other dimensions. */
const sized = (name: string, dims: number, args: (draw: Draw) => readonly Arg[]): Layer => ({
  name,
  draw: (draw) => {
    const { random } = draw;
    const given = args(draw);
    const list = given.map((_, i) => `$${i}`).join(', ');
    const others = name.startsWith('Dropout') ? {} : { [dims]: 0.5, [dims + 3]: 0.3 };
    const rank = random.weighted({ [dims + 1]: 4, [dims + 2]: 4, ...others });
    return {
      ts: `new nn.${name}(${list})`,
      py: `nn.${name}(${list})`,
      args: given,
      input: () => draw.tensor(Array.from({ length: Number(rank) }, () => random.int(1, 5))),
    };
  },
});

/** One number for all sides, or one for each. */
function paddingOf({ random }: Draw, dims: number, least: number): Arg {
  if (random.chance(0.4)) return random.int(least, 3);
  return Array.from({ length: 2 * dims }, () => random.int(least, 4));
}

const batch = (draw: Draw, ...rest: number[]): (() => Ref) => {
  const { random } = draw;
  return () => draw.tensor([random.pick([1, 2, 3, 0, 5, 128]), ...rest]);
};

/** One result of those of layers with one state, and of an LSTM. */
const ONE_STATE_FORMS: readonly Form[] = [
  { ts: '$0.forward($1)[0]', py: '$0($1)[0]' },
  // From where another call of it has ended.
  { ts: '$0.forward($1, $0.forward($1)[1])[0]', py: '$0($1, $0($1)[1])[0]' },
  { ts: '$0.forward($1)[1]', py: '$0($1)[1]' },
];
const LSTM_FORMS: readonly Form[] = [
  ...ONE_STATE_FORMS.slice(0, 2),
  { ts: '$0.forward($1)[1][0]', py: '$0($1)[1][0]' },
  { ts: '$0.forward($1)[1][1]', py: '$0($1)[1][1]' },
];

/** What is made with which further option. */
const RECURRENT = [
  ['LSTM', '', ''],
  ['LSTM', ', projSize: 2', ', proj_size=2'],
  ['GRU', '', ''],
  ['RNN', '', ''],
  ['RNN', ", nonlinearity: 'relu'", ", nonlinearity='relu'"],
] as const;

const layers: readonly Layer[] = [
  ...['ReLU', 'Sigmoid', 'Tanh', 'GELU', 'SiLU'].map((name) => plain(name)),
  plain('LeakyReLU', [0.2]),
  plain('Softmax', [-1]),
  plain('LogSoftmax', [0]),
  plain('Flatten'),
  plain('Dropout', [0]),
  ...[1, 2, 3].flatMap((dims): Layer[] => [
    // Of random numbers both sides have their own: none, or all, are dropped.
    sized(`Dropout${dims}d`, dims, (draw) => [draw.random.pick([0, 1])]),
    // Where more is wrapped or mirrored than cropping leaves, PyTorch has what memory holds.
    ...['ReflectionPad', 'ReplicationPad', 'CircularPad'].map((name) =>
      sized(`${name}${dims}d`, dims, (draw) => [paddingOf(draw, dims, 0)]),
    ),
    sized(`ZeroPad${dims}d`, dims, (draw) => [paddingOf(draw, dims, -1)]),
    sized(`ConstantPad${dims}d`, dims, (draw) => [paddingOf(draw, dims, -1), draw.random.pick([0, 1.5, -2])]),
  ]),
  {
    name: 'Linear',
    draw: (draw) => {
      const [n, m] = draw.random.pick([
        [3, 4],
        [2, 1],
        [128, 1],
        [64, 256],
        [1, 5],
        [256, 1],
      ] as const);
      const bias = draw.random.chance(0.7);
      return {
        ts: 'new nn.Linear($0, $1, { bias: $2 })',
        py: 'nn.Linear($0, $1, bias=$2)',
        args: [n, m, bias],
        input: batch(draw, n),
      };
    },
  },
  {
    name: 'Conv2d',
    draw: (draw) => {
      const groups = draw.random.pick([1, 1, 2]);
      const [c, o] = [groups * 2, groups * draw.random.int(1, 4)];
      const options: Record<string, Arg> = { groups };
      if (draw.random.chance(0.5)) options['stride'] = draw.random.int(1, 3);
      if (draw.random.chance(0.5)) options['padding'] = draw.random.int(0, 2);
      if (draw.random.chance(0.3)) options['bias'] = false;
      return {
        ts: 'new nn.Conv2d($0, $1, $2, $3)',
        py: 'nn.Conv2d($0, $1, $2, **$3)',
        args: [c, o, draw.random.int(1, 4), { options }],
        input: () => draw.tensor([draw.random.int(1, 3), c, draw.random.int(3, 10), draw.random.int(3, 10)]),
      };
    },
  },
  ...(['MaxPool2d', 'AvgPool2d'] as const).map((name): Layer => ({
    name,
    draw: (draw) => ({
      ts: `new nn.${name}($0, $1)`,
      py: `nn.${name}($0, **$1)`,
      args: [draw.random.int(1, 4), { options: draw.random.chance(0.5) ? { stride: draw.random.int(1, 3) } : {} }],
      input: () => draw.tensor([2, 2, draw.random.int(3, 7), draw.random.int(3, 7)]),
    }),
  })),
  {
    name: 'AdaptiveAvgPool2d',
    draw: (draw) => ({
      ts: 'new nn.AdaptiveAvgPool2d($0)',
      py: 'nn.AdaptiveAvgPool2d($0)',
      args: [draw.random.int(1, 4)],
      input: () => draw.tensor([2, 2, draw.random.int(3, 7), draw.random.int(3, 7)]),
    }),
  },
  {
    name: 'LayerNorm',
    draw: (draw) => ({
      ts: 'new nn.LayerNorm($0)',
      py: 'nn.LayerNorm($0)',
      args: [draw.random.pick([4, [4], [2, 4]] as const)],
      input: () => draw.tensor([draw.size(), 2, 4]),
    }),
  },
  {
    name: 'GroupNorm',
    draw: (draw) => ({
      ts: 'new nn.GroupNorm($0, $1)',
      py: 'nn.GroupNorm($0, $1)',
      args: [2, 4],
      input: () => draw.tensor([draw.size(), 4, ...draw.shape(0, 2)]),
    }),
  },
  {
    name: 'BatchNorm1d',
    draw: (draw) => ({
      ts: 'new nn.BatchNorm1d($0, $1)',
      py: 'nn.BatchNorm1d($0, **$1)',
      args: [3, { options: draw.random.chance(0.5) ? { momentum: 0.3 } : {} }],
      input: () => draw.tensor(draw.random.chance(0.5) ? [draw.size(), 3] : [draw.size(), 3, 2]),
    }),
  },
  {
    name: 'BatchNorm2d',
    draw: (draw) => ({
      ts: 'new nn.BatchNorm2d($0)',
      py: 'nn.BatchNorm2d($0)',
      args: [2],
      input: () => draw.tensor([draw.size(), 2, 3, draw.size()]),
    }),
  },
  {
    name: 'Embedding',
    draw: (draw) => {
      const sparse = draw.random.chance(0.4);
      return {
        ts: 'new nn.Embedding($0, $1, { sparse: $2 })',
        py: 'nn.Embedding($0, $1, sparse=$2)',
        args: [5, 3, sparse],
        input: () => draw.integers(draw.shape(0, 2), 0, 5, draw.random.pick(['int64', 'int32'])),
      };
    },
  },
  {
    name: 'EmbeddingBag',
    draw: (draw) => {
      const flat = draw.random.chance(0.5);
      const mode = draw.random.pick(['sum', 'mean', 'max']);
      const options: Record<string, Arg> = { mode, sparse: mode !== 'max' && draw.random.chance(0.4) };
      if (draw.random.chance(0.3)) options['paddingIdx'] = draw.random.int(-5, 5);
      // Where ids are left behind the last offset, PyTorch puts them into the last bag or leaves them out, by its other options.
      const closed = flat && draw.random.chance(0.3);
      if (closed) options['includeLastOffset'] = true;
      const startOf = ([i]: readonly number[]): number => (i === 0 ? 0 : i === 2 ? 4 : draw.random.int(0, 4));
      const more = flat ? [draw.index([closed ? 3 : 2], startOf)] : [];
      return {
        ts: 'new nn.EmbeddingBag($0, $1, $2)',
        py: 'nn.EmbeddingBag($0, $1, **$2)',
        args: [5, 3, { options }],
        input: () => draw.integers(flat ? [4] : [draw.size(), draw.size()], 0, 5),
        more,
      };
    },
  },
  ...RECURRENT.map(([name, ts, py]) => ({
    name,
    draw: (draw: Draw) => {
      const { random } = draw;
      const [input, hidden] = [random.pick([2, 1, 40]), random.pick([3, 1, 32, 32])];
      const given = [input, hidden, random.int(1, 3), random.chance(0.8), random.chance(0.2)];
      return {
        ts: `new nn.${name}($0, $1, { layers: $2, bias: $3, bidirectional: $4${ts} })`,
        py: `nn.${name}($0, $1, num_layers=$2, bias=$3, bidirectional=$4${py})`,
        args: given,
        input: () => draw.tensor([random.int(1, 4), random.pick([1, 1, 2, 0, 5]), input]),
        forms: name === 'LSTM' ? LSTM_FORMS : ONE_STATE_FORMS,
      };
    },
  })),
  {
    name: 'Sequential',
    draw: (draw) => {
      const [n, h, m] = draw.random.pick([
        [3, 4, 2],
        [64, 256, 1],
        [1, 64, 1],
        [8, 128, 10],
      ] as const);
      const [activation, called] = draw.random.pick([
        ['ReLU', 'ReLU'],
        ['Tanh', 'Tanh'],
        ['GELU', 'GELU'],
      ] as const);
      return {
        ts: `new nn.Sequential(new nn.Linear($0, $1), new nn.${activation}(), new nn.Linear($1, $2))`,
        py: `nn.Sequential(nn.Linear($0, $1), nn.${called}(), nn.Linear($1, $2))`,
        args: [n, h, m],
        input: batch(draw, n),
      };
    },
  },
];

/** Those that learn nothing. */
const PLAIN: ReadonlySet<string> = new Set([
  ...['ReLU', 'Sigmoid', 'Tanh', 'GELU', 'SiLU', 'LeakyReLU', 'Softmax', 'LogSoftmax', 'Flatten', 'Dropout'],
  ...['MaxPool2d', 'AvgPool2d', 'AdaptiveAvgPool2d'],
  ...layers.map(({ name }) => name).filter((name) => /^Dropout|Pad\dd$/.test(name)),
]);

function formOf(random: Random, { forms, more = [] }: Drawn): Form {
  if (forms !== undefined) return random.pick(forms);
  const rest = more.map((_, i) => `, $${i + 2}`).join('');
  return { ts: `$0.forward($1${rest})`, py: `$0($1${rest})` };
}

/** The gradient of a parameter in a pass that is recorded, which may go another way than one that is not. */
export const RECORDED = {
  ts: 'bw.grad([$0], [$1.parameters().at($2 % $1.parameters().length)], { gradOutputs: [weights($0)], createGraph: true, allowUnused: true })[0]',
  py: 'torch.autograd.grad($0, list($1.parameters())[$2 % len(list($1.parameters()))], weights($0), create_graph=True, allow_unused=True)[0]',
};

const OPTIMISERS = [
  ['new optim.SGD($0.parameters(), { lr: 0.01 })', 'optim.SGD($0.parameters(), lr=0.01)'],
  ['new optim.SGD($0.parameters(), { lr: 0.05, momentum: 0.9 })', 'optim.SGD($0.parameters(), lr=0.05, momentum=0.9)'],
  ['new optim.Adam($0.parameters(), { lr: 0.01 })', 'optim.Adam($0.parameters(), lr=0.01)'],
] as const;

/** A layer with weights that both sides know, now and then in the mode of evaluation. */
export function drawModule(draw: Draw): {
  readonly layer: string;
  readonly made: Ref;
  readonly run: (input: Ref) => Ref;
  readonly input: () => Ref;
} {
  const { random } = draw;
  const layer = random.pick(layers);
  const drawn = layer.draw(draw);
  const made = draw.call(
    layer.name,
    `filled(${drawn.ts}, ${random.int(0, 50)})`.replace(/, (\d+)\)$/, ', $7)'),
    `filled(${drawn.py}, $7)`,
    [...drawn.args, ...Array<undefined>(7 - drawn.args.length).fill(undefined), random.int(0, 50)],
    'sums',
  );
  if (random.chance(0.15)) draw.call('eval', '$0.eval()', '$0.eval()', [made], 'never');
  const run = (input: Ref): Ref => {
    const { ts, py } = formOf(random, drawn);
    return draw.call(layer.name, ts, py, [made, input, ...(drawn.more ?? [])], 'sums');
  };
  return { layer: layer.name, made, run, input: drawn.input };
}

export const moduleSuite: Suite = {
  name: 'modules',
  perSeed: 250,
  draw(random, seed) {
    const draw = new Draw(random, { dtype: 'float32', mishaps: 0.01, views: 0.15 });
    const { layer, made, run, input } = drawModule(draw);
    const trains = !PLAIN.has(layer) && random.chance(0.5);
    if (!trains) {
      for (let i = random.int(1, 4); i > 0; i--) {
        const result = run(input());
        if (PLAIN.has(layer) || random.chance(0.7)) draw.backward(result);
        else draw.call('grad', RECORDED.ts, RECORDED.py, [result, made, random.int(0, 3)], 'sums');
      }
    } else {
      const [ts, py] = random.pick(OPTIMISERS);
      const optimiser = draw.call('optimizer', ts, py, [made], 'never');
      const images = input();
      for (let i = 3; i > 0; i--) {
        const loss = draw.call('loss', '$0.square().mean()', '$0.square().mean()', [run(images)], 'sums');
        draw.call('zeroGrad', '$0.zeroGrad()', '$0.zero_grad()', [optimiser], 'never');
        draw.backward(loss);
        draw.call('step', '$0.step()', '$0.step()', [optimiser], 'step');
      }
    }
    return draw.program('modules', seed);
  },
};
