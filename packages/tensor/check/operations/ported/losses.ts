/** @file Losses as modules and as functions, with the options that losses.ts of neural.ts does not draw; factorisations. */
import type { Operation } from '../../draw/operation.ts';
import type { Draw } from '../../draw/draw.ts';
import { snake, type Arg } from '../../program.ts';
import { row, some } from './rows.ts';

const FLOATS = ['float32', 'float32', 'float64'] as const;
const REDUCTION = ['mean', 'sum', 'none'] as const;

type Inputs = (draw: Draw) => readonly Arg[];

/** A loss as a module and, where it has a name here, as a function. */
function loss(
  module: string,
  fn: string | undefined,
  count: number,
  inputs: Inputs,
  table: Readonly<Record<string, readonly Arg[]>> = {},
): Operation[] {
  const options = `$${count}`;
  const args = Array.from({ length: count }, (_, i) => `$${i}`).join(', ');
  const draw: Operation['draw'] = (d) => [...inputs(d), some(d, { reduction: REDUCTION, ...table }, 0.6)];
  const asModule = row(
    `nn.${module}`,
    `new nn.${module}(${options}).forward(${args})`,
    `nn.${module}(**${options})(${args})`,
    'sums',
    draw,
    FLOATS,
  );
  if (fn === undefined) return [asModule];
  return [
    asModule,
    row(fn, `bw.${fn}(${args}, ${options})`, `F.${snake(fn)}(${args}, **${options})`, 'sums', draw, FLOATS),
  ];
}

const two: Inputs = (draw) => {
  const shape = draw.shape(1, 3);
  return [draw.tensor(shape), draw.tensor(shape)];
};
const signs = (draw: Draw, shape: readonly number[]): Arg =>
  draw.call(
    'signs',
    '$0.mul(2).sub(1).to($1)',
    '$0.mul(2).sub(1).to($1)',
    [draw.index(shape, () => draw.random.int(0, 2)), { dtype: draw.dtype }],
    'never',
  );
const units: Inputs = (draw) => {
  const shape = draw.shape(1, 3);
  return [draw.tensor(shape, { style: 'unit' }), draw.tensor(shape, { style: 'unit', grad: false })];
};

export const lossRows: readonly Operation[] = [
  ...loss('MSELoss', undefined, 2, two),
  ...loss('L1Loss', undefined, 2, two),
  ...loss('SmoothL1Loss', undefined, 2, two, { beta: [0.5, 2] }),
  ...loss('HuberLoss', undefined, 2, two, { delta: [0.5, 2] }),
  ...loss('BCELoss', undefined, 2, units),
  ...loss('BCEWithLogitsLoss', undefined, 2, two),
  ...loss('KLDivLoss', undefined, 2, units, { reduction: ['batchmean', 'sum', 'none'], logTarget: [true] }),
  ...loss('SoftMarginLoss', 'softMarginLoss', 2, (draw) => {
    const shape = draw.shape(1, 3);
    return [draw.tensor(shape, { style: 'plain' }), signs(draw, shape)];
  }),
  ...loss('MultiLabelSoftMarginLoss', 'multilabelSoftMarginLoss', 2, (draw) => {
    const shape = [draw.size(), draw.size(1)];
    return [draw.tensor(shape, { style: 'plain' }), draw.tensor(shape, { style: 'unit', grad: false })];
  }),
  ...loss(
    'HingeEmbeddingLoss',
    'hingeEmbeddingLoss',
    2,
    (draw) => {
      const shape = draw.shape(1, 3);
      return [draw.tensor(shape, { style: 'plain' }), signs(draw, shape)];
    },
    { margin: [0.5, 2] },
  ),
  ...loss(
    'PoissonNLLLoss',
    'poissonNllLoss',
    2,
    (draw) => {
      const shape = draw.shape(1, 3);
      return [draw.tensor(shape, { style: 'unit' }), draw.tensor(shape, { style: 'positive', grad: false })];
    },
    { logInput: [false, true], full: [true] },
  ),
  ...loss(
    'GaussianNLLLoss',
    'gaussianNllLoss',
    3,
    (draw) => {
      const shape = draw.shape(1, 3);
      return [
        draw.tensor(shape, { style: 'plain' }),
        draw.tensor(shape, { style: 'plain' }),
        draw.tensor(shape, { style: 'positive' }),
      ];
    },
    { full: [true], eps: [1e-3] },
  ),
  ...loss(
    'MarginRankingLoss',
    'marginRankingLoss',
    3,
    (draw) => {
      const shape = draw.shape(1, 2);
      return [draw.tensor(shape), draw.tensor(shape), signs(draw, shape)];
    },
    { margin: [0.5] },
  ),
  ...loss(
    'CosineEmbeddingLoss',
    'cosineEmbeddingLoss',
    3,
    (draw) => {
      const n = draw.size(1);
      const c = draw.size(1);
      return [draw.tensor([n, c], { style: 'plain' }), draw.tensor([n, c], { style: 'plain' }), signs(draw, [n])];
    },
    { margin: [0.5] },
  ),
  ...loss(
    'TripletMarginLoss',
    'tripletMarginLoss',
    3,
    (draw) => {
      const shape = [draw.size(1), draw.size(1)];
      return [
        draw.tensor(shape, { style: 'plain' }),
        draw.tensor(shape, { style: 'plain' }),
        draw.tensor(shape, { style: 'plain' }),
      ];
    },
    { margin: [0.5, 2], p: [2, 1], swap: [true] },
  ),
  row(
    'binaryCrossEntropy weight',
    'bw.binaryCrossEntropy($0, $1, { weight: $2, reduction: $3 })',
    'F.binary_cross_entropy($0, $1, $2, reduction=$3)',
    'sums',
    (draw) => {
      const shape = draw.shape(1, 3);
      return [
        draw.tensor(shape, { style: 'unit' }),
        draw.tensor(shape, { style: 'unit', grad: false }),
        draw.tensor(shape.slice(-1), { grad: false }),
        draw.random.pick(REDUCTION),
      ];
    },
    FLOATS,
  ),
  row(
    'binaryCrossEntropyWithLogits weight',
    'bw.binaryCrossEntropyWithLogits($0, $1, { weight: $2, posWeight: $3, reduction: $4 })',
    'F.binary_cross_entropy_with_logits($0, $1, $2, pos_weight=$3, reduction=$4)',
    'sums',
    (draw) => {
      const shape = draw.shape(1, 3);
      const weight = (): Arg =>
        draw.random.chance(0.6) ? draw.tensor(shape.slice(-1), { style: 'positive', grad: false }) : undefined;
      return [
        draw.tensor(shape),
        draw.tensor(shape, { style: 'unit', grad: false }),
        weight(),
        weight(),
        draw.random.pick(REDUCTION),
      ];
    },
    FLOATS,
  ),
  row(
    'klDiv batchmean',
    'bw.klDiv($0, $1, $2)',
    'F.kl_div($0, $1, **$2)',
    'sums',
    (draw) => [...units(draw), some(draw, { reduction: ['batchmean', 'sum'], logTarget: [true, false] }, 0.8)],
    FLOATS,
  ),
];

const matrix = (draw: Draw, tall?: boolean): Arg => {
  const [m, n] = [draw.random.int(1, 5), draw.random.int(1, 5)];
  const [a, b] = tall === undefined ? [m, n] : [Math.max(m, n), Math.min(m, n)];
  return draw.leaf([...draw.random.pick([[], [], [2], [0]]), a, b], { style: 'plain' });
};
const square = (draw: Draw): Arg => {
  const n = draw.random.int(1, 5);
  return draw.leaf([...draw.random.pick([[], [], [2]]), n, n], { style: 'plain' });
};

/** What does not depend on the signs of vectors, which are open. */
export const factorRows: readonly Operation[] = [
  row('qr', 'bw.qr($0).q', 'torch.linalg.qr($0).Q', 'sums', (draw) => [matrix(draw, true)], FLOATS),
  row('qr r', 'bw.qr($0).r', 'torch.linalg.qr($0).R', 'sums', (draw) => [matrix(draw)], ['float64']),
  row('svdvals', 'bw.svdvals($0)', 'torch.linalg.svdvals($0)', 'sums', (draw) => [matrix(draw)], FLOATS),
  row(
    'svd',
    '((d) => d.u.mul(d.s.square().unsqueeze(-2)).matmul(d.vh))(bw.svd($0))',
    '(lambda d: (d.U * d.S.square().unsqueeze(-2)) @ d.Vh)(torch.linalg.svd($0, full_matrices=False))',
    'sums',
    (draw) => [matrix(draw)],
    FLOATS,
  ),
  row('eigvalsh', 'bw.eigvalsh($0)', 'torch.linalg.eigvalsh($0)', 'sums', (draw) => [square(draw)], FLOATS),
  row(
    'eigh',
    '((d) => d.eigenvectors.mul(d.eigenvalues.exp().unsqueeze(-2)).matmul(d.eigenvectors.transpose(-1, -2)))(bw.eigh($0))',
    '(lambda d: (d.eigenvectors * d.eigenvalues.exp().unsqueeze(-2)) @ d.eigenvectors.transpose(-1, -2))(torch.linalg.eigh($0))',
    'sums',
    (draw) => [square(draw)],
    FLOATS,
  ),
  row(
    'slogdet',
    'bw.slogdet($0).logabsdet',
    'torch.linalg.slogdet($0).logabsdet',
    'sums',
    (draw) => [square(draw)],
    FLOATS,
  ),
  row(
    'slogdet sign',
    'bw.slogdet($0.detach()).sign',
    'torch.linalg.slogdet($0.detach()).sign',
    'never',
    (draw) => [square(draw)],
    FLOATS,
  ),
  row('logdet', 'bw.logdet($0)', 'torch.logdet($0)', 'sums', (draw) => [square(draw)], FLOATS),
];

export const activationRows: readonly Operation[] = [
  row('pixelShuffle', 'bw.pixelShuffle($0, 2)', 'F.pixel_shuffle($0, 2)', 'never', (draw) => [
    draw.tensor([...draw.shape(0, 2), draw.mishap() ? 3 : 4, draw.random.int(1, 4), 2]),
  ]),
  row('pixelUnshuffle', 'bw.pixelUnshuffle($0, 2)', 'F.pixel_unshuffle($0, 2)', 'never', (draw) => [
    draw.tensor([...draw.shape(0, 2).map((n) => Math.max(1, n)), 2, draw.mishap() ? 3 : 4, 2]),
  ]),

  ...['celu', 'hardshrink', 'softshrink'].map((name) =>
    row(
      name,
      `bw.${name}($0, $1)`,
      `F.${name}($0, $1)`,
      'once',
      (draw) => [draw.tensor(draw.shape()), draw.random.pick([0.5, 1])],
      [...FLOATS, 'float16', 'bfloat16'],
    ),
  ),
  row(
    'glu',
    'bw.glu($0, $1)',
    'F.glu($0, $1)',
    'once',
    (draw) => [draw.tensor([draw.size(), draw.mishap() ? 3 : 4]), draw.random.pick([1, -1])],
    FLOATS,
  ),
  row('tanhshrink', 'bw.tanhshrink($0)', 'F.tanhshrink($0)', 'sums', (draw) => [draw.tensor(draw.shape())], FLOATS),
  row(
    'threshold',
    'bw.threshold($0, $1, $2)',
    'F.threshold($0, $1, $2)',
    'never',
    (draw) => [draw.tensor(draw.shape()), draw.random.pick([0, 1]), draw.random.pick([0, 3])],
    [...FLOATS, 'int64', 'float16'],
  ),
  row(
    'softmin',
    'bw.softmin($0, $1)',
    'F.softmin($0, $1)',
    'sums',
    (draw) => {
      const shape = draw.shape(1);
      return [draw.tensor(shape), draw.dim(shape)];
    },
    FLOATS,
  ),
  row(
    'pairwiseDistance',
    'bw.pairwiseDistance($0, $1, $2)',
    'F.pairwise_distance($0, $1, $2)',
    'sums',
    (draw) => {
      const shape = draw.shape(1, 3);
      return [draw.tensor(shape), draw.tensor(shape), draw.random.pick([2, 1, 3])];
    },
    FLOATS,
  ),
  row(
    'rmsNorm',
    'bw.rmsNorm($0, $1, $2, $3)',
    'F.rms_norm($0, $1, $2, $3)',
    'sums',
    (draw) => {
      const shape = draw.shape(1, 3);
      const last = shape.slice(draw.random.int(0, shape.length));
      return [
        draw.tensor(shape),
        last,
        draw.random.chance(0.5) ? draw.tensor(last) : undefined,
        draw.random.pick([undefined, 1e-5]),
      ];
    },
    [...FLOATS, 'float16', 'bfloat16'],
  ),
  row(
    'instanceNorm',
    'bw.instanceNorm($0, { weight: $1, bias: $2 })',
    'F.instance_norm($0, weight=$1, bias=$2)',
    'sums',
    (draw) => {
      const c = draw.random.int(1, 4);
      return [
        draw.tensor([draw.random.int(1, 4), c, ...draw.shape(1, 2)]),
        draw.random.chance(0.5) ? draw.tensor([c], { style: 'plain' }) : undefined,
        draw.random.chance(0.5) ? draw.tensor([c]) : undefined,
      ];
    },
    FLOATS,
  ),
];
