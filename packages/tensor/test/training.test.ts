/** @file Training on this backend against training on the cpu backend: every layer, loss, product and optimiser, 20 steps of each. */
import { describe, expect, it } from 'vitest';
import * as bw from '../src/index.ts';
import {
  backendName,
  manualSeed,
  nn,
  optim,
  randint,
  randn,
  scope,
  setBackend,
  tensor,
  type Tensor,
} from '../src/index.ts';
import type * as losses from '../src/ops/losses.ts';
import type * as products from '../src/ops/matmul.ts';

/** What is trained: parameters, and the loss of a step. */
interface Trial {
  readonly params: Tensor[];
  readonly loss: (step: number) => Tensor;
}
/** Builds a trial of so many rows of so many features; both backends build the same, from one seed. */
type Make = (rows: number, width: number) => Trial;

/** Just below and at the sizes from which products (rows width² = 16,384) and other kernels (rows width = 2,048) pay; batches of one. */
const SIZES: readonly (readonly [rows: number, width: number])[] = [
  [1, 127],
  [1, 128],
  [16, 127],
  [16, 128],
];

const leaf = (shape: number[], scale = 0.1): Tensor => {
  const t = randn(shape).mul(scale).detach();
  t.requiresGrad = true;
  return t;
};

/** A module trained to give fixed random numbers for fixed random inputs. */
function regression(module: nn.Module & { forward(x: Tensor): Tensor }, shape: number[]): Trial {
  const x = randn(shape);
  const y = bw.noGrad(() => module.eval().forward(x)).shape;
  const target = randn(y);
  module.train();
  return { params: module.parameters(), loss: () => bw.mseLoss(module.forward(x), target) };
}

/** The layer between two others: what it gets and gives is made by products. */
const between =
  (make: (width: number) => nn.Module & { forward(x: Tensor): Tensor }): Make =>
  (rows, width) =>
    regression(new nn.Sequential(new nn.Linear(width, width), make(width), new nn.Linear(width, 3)), [rows, width]);

/** A layer of images, after a convolution, with images of 3·3 for a narrow one and larger ones for a wide one. */
const ofImages =
  (make: (channels: number) => nn.Module & { forward(x: Tensor): Tensor }): Make =>
  (rows, width) => {
    const side = width >= 128 ? 12 : 6;
    return regression(new nn.Sequential(new nn.Conv2d(2, 8, 3, { padding: 1 }), make(8)), [rows, 2, side, side]);
  };

/** A layer of sequences, after a convolution. */
const ofSequences =
  (make: () => nn.Module & { forward(x: Tensor): Tensor }): Make =>
  (rows, width) =>
    regression(new nn.Sequential(new nn.Conv1d(2, 8, 3, { padding: 1 }), make()), [rows, 2, width >= 128 ? 24 : 8]);

/** A layer of small volumes. */
const ofVolumes =
  (make: () => nn.Module & { forward(x: Tensor): Tensor }): Make =>
  (rows, width) =>
    regression(make(), [rows, 2, 3, 4, width >= 128 ? 6 : 4]);

/** A recurrent layer or cell, of which the first result counts. */
const recurrent =
  (make: (width: number) => nn.Module & { forward(x: Tensor): unknown }, steps = 3): Make =>
  (rows, width) => {
    const layer = make(width);
    const shape = steps === 0 ? [rows, width] : [steps, rows, width];
    const [x, y] = [randn(shape), randn(shape)];
    const first = (out: unknown): Tensor => (Array.isArray(out) ? (out[0] as Tensor) : (out as Tensor));
    return { params: layer.parameters(), loss: () => bw.mseLoss(first(layer.forward(x)), y) };
  };

/** A layer of one head over sequences. */
const attending =
  (make: (width: number) => nn.Module, run: (layer: never, x: Tensor) => Tensor): Make =>
  (rows, width) => {
    const layer = make(width);
    const [x, y] = [randn([3, rows, width]), randn([3, rows, width])];
    return { params: layer.parameters(), loss: () => bw.mseLoss(run(layer as never, x), y) };
  };
const SMALL = { dimFeedforward: 8, dropout: 0 };

/** Functions of each element, and what learns a number or nothing. */
const POINTWISE = [
  ...([
    'Identity',
    'ELU',
    'SELU',
    'CELU',
    'Mish',
    'ReLU6',
    'Hardtanh',
    'Hardsigmoid',
    'Hardswish',
    'Hardshrink',
  ] as const),
  ...(['Softshrink', 'Tanhshrink', 'Softsign', 'LogSigmoid', 'Softplus', 'PReLU'] as const),
] as const;

const layers: Readonly<Record<string, Make>> = {
  ...Object.fromEntries(POINTWISE.map((name): [string, Make] => [name, between(() => new nn[name]())])),
  Threshold: between(() => new nn.Threshold(0.1, 0.2)),
  Softmin: between(() => new nn.Softmin(1)),
  RMSNorm: between((n) => new nn.RMSNorm(n)),
  InstanceNorm2d: ofImages((channels) => new nn.InstanceNorm2d(channels, { affine: true })),
  GRU: recurrent((n) => new nn.GRU(n, n, { numLayers: 2 })),
  RNN: recurrent((n) => new nn.RNN(n, n)),
  'LSTM both ways': attending(
    (n) => new nn.LSTM(n, n, { bidirectional: true }),
    (layer: nn.LSTM, x) => layer.forward(x)[0].narrow(2, 0, x.shape[2] as number),
  ),
  LSTMCell: recurrent((n) => new nn.LSTMCell(n, n), 0),
  GRUCell: recurrent((n) => new nn.GRUCell(n, n), 0),
  RNNCell: recurrent((n) => new nn.RNNCell(n, n), 0),
  MultiheadAttention: attending(
    (n) => new nn.MultiheadAttention(n, 1),
    (layer: nn.MultiheadAttention, x) => layer.forward(x, x, x)[0],
  ),
  TransformerEncoderLayer: attending(
    (n) => new nn.TransformerEncoderLayer(n, 1, SMALL),
    (layer: nn.TransformerEncoderLayer, x) => layer.forward(x),
  ),
  TransformerDecoderLayer: attending(
    (n) => new nn.TransformerDecoderLayer(n, 1, SMALL),
    (layer: nn.TransformerDecoderLayer, x) => layer.forward(x, x),
  ),
  Linear: between((n) => new nn.Linear(n, n)),
  'Linear to one': (rows, width) => regression(new nn.Linear(width * width, 1), [rows, width * width]),
  'Linear from one': (rows, width) => regression(new nn.Linear(1, width * width), [rows, 1]),
  'Linear without bias': between((n) => new nn.Linear(n, n, { bias: false })),
  Sequential: between((n) => new nn.Sequential(new nn.Linear(n, 2 * n), new nn.ReLU(), new nn.Linear(2 * n, n))),
  ReLU: between(() => new nn.ReLU()),
  LeakyReLU: between(() => new nn.LeakyReLU(0.1)),
  Sigmoid: between(() => new nn.Sigmoid()),
  Tanh: between(() => new nn.Tanh()),
  GELU: between(() => new nn.GELU()),
  SiLU: between(() => new nn.SiLU()),
  Softmax: between(() => new nn.Softmax(1)),
  LogSoftmax: between(() => new nn.LogSoftmax(1)),
  Dropout: between(() => new nn.Dropout(0.3)),
  LayerNorm: between((n) => new nn.LayerNorm(n)),
  BatchNorm1d: (rows, width) => between((n) => new nn.BatchNorm1d(n))(rows + 1, width),
  GroupNorm: ofImages((channels) => new nn.GroupNorm(2, channels)),
  BatchNorm2d: ofImages((channels) => new nn.BatchNorm2d(channels)),
  Conv1d: ofSequences(() => new nn.Conv1d(8, 4, 3, { stride: 2, padding: 1 })),
  ConvTranspose1d: ofSequences(() => new nn.ConvTranspose1d(8, 4, 3, { stride: 2 })),
  MaxPool1d: ofSequences(() => new nn.MaxPool1d(2)),
  AvgPool1d: ofSequences(() => new nn.AvgPool1d(2)),
  AdaptiveAvgPool1d: ofSequences(() => new nn.AdaptiveAvgPool1d(2)),
  Conv3d: ofVolumes(() => new nn.Conv3d(2, 4, 3, { padding: 1 })),
  ConvTranspose3d: ofVolumes(() => new nn.ConvTranspose3d(2, 4, 2)),
  ConvTranspose2d: ofImages((channels) => new nn.ConvTranspose2d(channels, 4, 3, { stride: 2 })),
  Conv2d: ofImages((channels) => new nn.Conv2d(channels, 4, 3, { stride: 2, padding: 1 })),
  'Conv2d to one channel': ofImages((channels) => new nn.Conv2d(channels, 1, 1)),
  'Conv2d in groups': ofImages((channels) => new nn.Conv2d(channels, channels, 3, { groups: channels })),
  MaxPool2d: ofImages(() => new nn.MaxPool2d(2)),
  AvgPool2d: ofImages(() => new nn.AvgPool2d(2)),
  AdaptiveAvgPool2d: ofImages(() => new nn.AdaptiveAvgPool2d(2)),
  Flatten: ofImages(() => new nn.Flatten()),
  Dropout1d: ofSequences(() => new nn.Dropout1d(0.3)),
  ZeroPad1d: ofSequences(() => new nn.ZeroPad1d(1)),
  ConstantPad1d: ofSequences(() => new nn.ConstantPad1d(1, 0.5)),
  ReflectionPad1d: ofSequences(() => new nn.ReflectionPad1d(1)),
  ReplicationPad1d: ofSequences(() => new nn.ReplicationPad1d(1)),
  CircularPad1d: ofSequences(() => new nn.CircularPad1d(1)),
  Dropout2d: ofImages(() => new nn.Dropout2d(0.3)),
  ZeroPad2d: ofImages(() => new nn.ZeroPad2d(1)),
  ConstantPad2d: ofImages(() => new nn.ConstantPad2d(1, 0.5)),
  ReflectionPad2d: ofImages(() => new nn.ReflectionPad2d(1)),
  ReplicationPad2d: ofImages(() => new nn.ReplicationPad2d(1)),
  CircularPad2d: ofImages(() => new nn.CircularPad2d(1)),
  Dropout3d: ofVolumes(() => new nn.Sequential(new nn.Conv3d(2, 2, 1), new nn.Dropout3d(0.3))),
  ZeroPad3d: ofVolumes(() => new nn.Sequential(new nn.Conv3d(2, 2, 1), new nn.ZeroPad3d(1))),
  ConstantPad3d: ofVolumes(() => new nn.Sequential(new nn.Conv3d(2, 2, 1), new nn.ConstantPad3d(1, 0.5))),
  ReflectionPad3d: ofVolumes(() => new nn.Sequential(new nn.Conv3d(2, 2, 1), new nn.ReflectionPad3d(1))),
  ReplicationPad3d: ofVolumes(() => new nn.Sequential(new nn.Conv3d(2, 2, 1), new nn.ReplicationPad3d(1))),
  CircularPad3d: ofVolumes(() => new nn.Sequential(new nn.Conv3d(2, 2, 1), new nn.CircularPad3d(1))),
  LSTM: (rows, width) => {
    const layer = new nn.LSTM(width, width, { layers: 2 });
    const [x, y] = [randn([3, rows, width]), randn([3, rows, width])];
    return { params: layer.parameters(), loss: () => bw.mseLoss(layer.forward(x)[0], y) };
  },
  Embedding: (rows, width) => {
    const [table, head] = [new nn.Embedding(width, width), new nn.Linear(width, width)];
    const [ids, y] = [randint(0, width, [rows]), randn([rows, width])];
    const params = [...table.parameters(), ...head.parameters()];
    return { params, loss: () => bw.mseLoss(head.forward(table.forward(ids)), y) };
  },
  EmbeddingBag: (rows, width) => {
    const [table, head] = [new nn.EmbeddingBag(width, width, { mode: 'mean' }), new nn.Linear(width, 1)];
    const [ids, y] = [randint(0, width, [2 * rows]), randn([rows, 1])];
    const offsets = bw.arange(0, 2 * rows, 2);
    const params = [...table.parameters(), ...head.parameters()];
    return { params, loss: () => bw.mseLoss(head.forward(table.forward(ids, offsets)), y) };
  },
};

/** What is no layer: bases and what wraps a model of the user's. */
const NO_LAYERS = new Set([
  ...[
    'Module',
    'LayersModule',
    'DistributedDataParallel',
    'ModuleList',
    'ModuleDict',
    'ParameterList',
    'ParameterDict',
  ],
  // Stacks of layers above, and arrangements without arithmetic of their own: test/ported.test.ts runs them on every backend.
  ...['Transformer', 'TransformerEncoder', 'TransformerDecoder', 'PositionalEncoding', 'Unflatten', 'PixelShuffle'],
  ...['Upsample', 'UpsamplingNearest2d', 'UpsamplingBilinear2d'],
  ...[
    'PixelUnshuffle',
    'GLU',
    'CosineSimilarity',
    'PairwiseDistance',
    'BatchNorm3d',
    'InstanceNorm1d',
    'InstanceNorm3d',
  ],
]);

/** A loss of what a small network says of fixed inputs. */
const lossOf =
  (loss: (out: Tensor, draw: () => Tensor) => Tensor): Make =>
  (rows, width) => {
    const model = new nn.Linear(width, width);
    const [x, drawn] = [randn([rows, width]), randn([rows, width])];
    return { params: model.parameters(), loss: () => loss(model.forward(x), () => drawn) };
  };
const classes = (t: Tensor): Tensor => t.argMax(1);

const lossTrials: Readonly<Record<Exclude<keyof typeof losses, 'reduce'>, Make>> = {
  mseLoss: lossOf((out, y) => bw.mseLoss(out, y())),
  l1Loss: lossOf((out, y) => bw.l1Loss(out, y())),
  smoothL1Loss: lossOf((out, y) => bw.smoothL1Loss(out, y(), { beta: 0.5 })),
  huberLoss: lossOf((out, y) => bw.huberLoss(out, y(), { delta: 0.5 })),
  binaryCrossEntropy: lossOf((out, y) => bw.binaryCrossEntropy(out.sigmoid(), y().sigmoid())),
  binaryCrossEntropyWithLogits: lossOf((out, y) => bw.binaryCrossEntropyWithLogits(out, y().sigmoid())),
  klDiv: lossOf((out, y) => bw.klDiv(out.logSoftmax(1), y().softmax(1), { reduction: 'sum' }).mul(0.1)),
  nllLoss: lossOf((out, y) => bw.nllLoss(out.logSoftmax(1), classes(y()))),
  crossEntropy: lossOf((out, y) => bw.crossEntropy(out, classes(y()), { labelSmoothing: 0.1 })),
};

/** A product of two parameters, brought to fixed numbers. */
const productOf =
  (a: (rows: number, width: number) => number[], b: typeof a, run: (a: Tensor, b: Tensor) => Tensor): Make =>
  (rows, width) => {
    const params = [leaf(a(rows, width)), leaf(b(rows, width))];
    const [x, y] = params as [Tensor, Tensor];
    const target = randn(bw.noGrad(() => run(x, y)).shape);
    return { params, loss: () => bw.mseLoss(run(x, y), target) };
  };
const wide = (rows: number, width: number): number[] => [rows, width];
const square = (_rows: number, width: number): number[] => [width, width];

const productTrials: Readonly<Record<keyof typeof products, Make>> = {
  matmul: productOf(wide, square, (a, b) => bw.matmul(a, b).add(bw.matmul(a, b.transpose(0, 1)))),
  mm: productOf(wide, square, (a, b) => bw.mm(b, a.transpose(0, 1))),
  bmm: productOf(
    (m, n) => [2, m, n],
    (_m, n) => [2, n, n],
    (a, b) => bw.bmm(a, b),
  ),
  dot: productOf(
    (_m, n) => [n * n],
    (_m, n) => [n * n],
    (a, b) => bw.dot(a, b),
  ),
  addmm: productOf(wide, square, (a, b) => bw.addmm(a, a, b, { alpha: 0.5, beta: 2 })),
};

/** One memory as the right operand in several shapes. */
const shared: Readonly<Record<string, Make>> = {
  'a weight tied to its transpose': (rows, width) => {
    const [x, w] = [randn([rows, width]), leaf([width, width])];
    return { params: [w], loss: () => bw.mseLoss(x.matmul(w).tanh().matmul(w.transpose(0, 1)), x) };
  },
  'a weight in two shapes': (rows, width) => {
    const [x, y, w] = [randn([rows, width]), randn([rows, 2 * width]), leaf([width, 2 * width])];
    return {
      params: [w],
      loss: () => {
        const narrow = y.matmul(w.reshape([2 * width, width]));
        return x.matmul(w).square().mean().add(narrow.sub(1).square().mean());
      },
    };
  },
  'parts of one weight': (rows, width) => {
    const [x, w] = [randn([rows, width]), leaf([2 * width, width])];
    const [first, second] = [w.narrow(0, 0, width), w.narrow(0, width, width)];
    return { params: [w], loss: () => bw.mseLoss(x.matmul(first).relu().matmul(second), x) };
  },
  'a column and a row': (rows, width) => {
    const [x, w] = [randn([width * rows, width]), leaf([width, 1])];
    return { params: [w], loss: () => bw.mseLoss(x.matmul(w).matmul(w.transpose(0, 1)), x) };
  },
  attention: (rows, width) => {
    const [x, w] = [randn([2, rows, width]), leaf([3, width, width])];
    return {
      params: [w],
      loss: () => {
        const [q, k, v] = w.unbind(0).map((p) => x.matmul(p)) as [Tensor, Tensor, Tensor];
        return bw.mseLoss(bw.scaledDotProductAttention(q, k, v, { causal: true }), x);
      },
    };
  },
  'transposed convolution': (rows, width) => {
    const [x, w] = [randn([rows, 4, width >> 4, 4]), leaf([4, 3, 3, 3])];
    return { params: [w], loss: () => bw.convTranspose2d(x, w, { stride: 2 }).sub(1).square().mean() };
  },
};

type Rule = (params: Tensor[]) => optim.Optimizer;
/** Those that take dense gradients. */
const optimizers: Readonly<Record<Exclude<keyof typeof optim, 'Optimizer' | 'lrScheduler' | 'SparseAdam'>, Rule>> = {
  SGD: (p) => new optim.SGD(p, { lr: 0.05, momentum: 0.9, weightDecay: 0.01 }),
  Adam: (p) => new optim.Adam(p, { lr: 1e-3, eps: 1e-4 }),
  AdamW: (p) => new optim.AdamW(p, { lr: 1e-3, eps: 1e-4 }),
  Adamax: (p) => new optim.Adamax(p, { lr: 1e-3, eps: 1e-4 }),
  Adagrad: (p) => new optim.Adagrad(p, { lr: 1e-2, eps: 1e-3 }),
  Adadelta: (p) => new optim.Adadelta(p, { lr: 0.1, eps: 1e-2 }),
  RMSprop: (p) => new optim.RMSprop(p, { lr: 1e-3, eps: 1e-3 }),
  Rprop: (p) => new optim.Rprop(p, { lr: 1e-4 }),
  RAdam: (p) => new optim.RAdam(p, { lr: 1e-3, eps: 1e-4 }),
};
/** A sparse table, and what its rows are to be. */
const tabled = (rows: number, width: number): Trial => {
  const table = new nn.Embedding(width, width, { sparse: true });
  const [ids, targets] = [bw.arange(rows).mul(7).remainder(width).to('int64'), randn([rows, width])];
  return { params: table.parameters(), loss: () => bw.mseLoss(table.forward(ids), targets) };
};

const STEPS = 20;
/** Whose gradients are so large that usual steps would lead away. */
const STEEP = new Set(['Linear to one', 'LogSoftmax', 'dot']);
const plain =
  (name: string): Rule =>
  (params) =>
    new optim.SGD(params, { lr: STEEP.has(name) ? 1e-6 : 2e-3 });

/** The losses of the steps, and where the parameters end. */
async function train(
  backend: 'cpu' | 'wasm' | 'blas' | 'tensorflow' | 'webgpu',
  make: () => Trial,
  rule: Rule,
): Promise<Tensor[]> {
  await setBackend(backend);
  manualSeed(11);
  const { params, loss } = make();
  const optimizer = rule(params);
  const curve: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    scope(() => {
      optimizer.zeroGrad();
      const value = loss(step);
      value.backward();
      optimizer.step();
      curve.push(value.item());
    });
  }
  return [tensor(curve, { dtype: 'float64' }), ...params.map((p) => p.detach())];
}

async function expectSameTraining(make: () => Trial, rule: Rule): Promise<void> {
  const here = backendName() as 'wasm';
  try {
    const [curve, ...params] = (await train(here, make, rule)) as [Tensor, ...Tensor[]];
    const [wanted, ...ends] = (await train('cpu', make, rule)) as [Tensor, ...Tensor[]];
    const [got, want] = [[...curve.dataSync()], [...wanted.dataSync()]] as number[][] as [number[], number[]];
    expect(want.every(Number.isFinite), `the losses on cpu: ${want.join(' ')}`).toBe(true);
    expect(new Set(want).size, 'something is learnt').toBeGreaterThan(STEPS / 2);
    want.forEach((v, i) =>
      expect(Math.abs((got[i] as number) - v), `step ${i}: ${got[i]} for ${v}`).toBeLessThan(
        2e-5 * Math.max(1, Math.abs(v)),
      ),
    );
    ends.forEach((end, i) =>
      expect((params[i] as Tensor).allClose(end, { rtol: 1e-3, atol: 1e-4 }), `parameter ${i}`).toBe(true),
    );
  } finally {
    await setBackend(here);
  }
}

// On cpu this would compare the host with itself.
describe.skipIf(backendName() === 'cpu')(`20 steps on ${backendName()} and on cpu`, { timeout: 120_000 }, () => {
  describe.each(SIZES.map(([rows, width]) => ({ rows, width })))('$rows rows of $width', ({ rows, width }) => {
    it.each(Object.entries({ ...layers, ...lossTrials, ...productTrials, ...shared }))('%s', async (name, make) => {
      await expectSameTraining(() => make(rows, width), plain(name));
    });
    it.each(Object.entries(optimizers))('%s', async (_name, rule) => {
      await expectSameTraining(() => between(() => new nn.Tanh())(rows, width), rule);
    });
    it('SparseAdam', async () => {
      const rule: Rule = (p) => new optim.SparseAdam(p, { lr: 1e-2 });
      await expectSameTraining(() => tabled(rows, width), rule);
    });
  });

  it.each([
    [1, 16_383],
    [1, 16_384],
    [127, 129],
    [128, 128],
    [129, 128],
  ])('Linear of %i rows from %i features to one', async (rows, width) => {
    await expectSameTraining(
      () => regression(new nn.Linear(width, 1), [rows, width]),
      (p) => new optim.SGD(p, { lr: 1e-5 }),
    );
  });
});

describe('the trials', () => {
  it('have every layer', () => {
    const names = Object.entries(nn)
      .filter(([, value]) => typeof value === 'function' && value.prototype instanceof nn.Module)
      .map(([name]) => name);
    expect(
      names.filter((name) => !NO_LAYERS.has(name) && !name.endsWith('Loss') && layers[name] === undefined),
    ).toEqual([]);
  });
});
