/** @file Every differentiable operation against central differences, in float64; twice for second derivatives. */
import { afterAll, describe, expect, it } from 'vitest';
import {
  addmm,
  cdist,
  celu,
  eigh,
  einsum,
  qr,
  rmsNorm,
  slogdet,
  svd,
  backendName,
  angle,
  bmm,
  complex,
  conj,
  imag,
  real,
  adaptiveAvgPool2d,
  avgPool2d,
  batchNorm,
  binaryCrossEntropy,
  binaryCrossEntropyWithLogits,
  conv1d,
  conv2d,
  convTranspose2d,
  cosineSimilarity,
  eye,
  groupNorm,
  klDiv,
  l1Loss,
  layerNorm,
  linear,
  maxPool2d,
  mseLoss,
  nllLoss,
  nn,
  normalize,
  outer,
  prelu,
  scaledDotProductAttention,
  solve,
  sparseCooTensor,
  concat,
  crossEntropy,
  enableGrad,
  grad,
  gradcheck,
  huberLoss,
  manualSeed,
  matmul,
  openHostDevice,
  rand,
  smoothL1Loss,
  stack,
  tensor,
  where,
  type GradFn,
  type Tensor,
} from '../src/index.ts';
import { derivatives } from '../src/autograd/registry.ts';
import { asStrided, asStridedAdd, asStridedScatter } from '../src/ops/as-strided.ts';
import { putAt } from '../src/ops/indexing.ts';

openHostDevice('host:0');

/** Rows of `table` by an embedding whose gradient is sparse, and dense again before it reaches `table`. */
function sparseRows(table: Tensor, ids: number[]): Tensor {
  const layer = new nn.Embedding(...(table.shape as [number, number]), { sparse: true });
  const weight = table.matmul(eye(2).to('float64'));
  return Object.assign(layer, { weight }).forward(tensor(ids, { dtype: 'int64' }));
}
/** Bags of rows of `table`, one of them empty. */
function bags(table: Tensor, sparse: boolean): Tensor {
  const layer = new nn.EmbeddingBag(...(table.shape as [number, number]), { sparse });
  const weight = table.matmul(eye(2).to('float64'));
  const [ids, offsets] = [tensor([2, 0, 2, 1], { dtype: 'int64' }), tensor([0, 3, 3], { dtype: 'int64' })];
  return Object.assign(layer, { weight }).forward(ids, offsets).square();
}
/** Duplicates, out of order. */
const coo = (values: Tensor): Tensor =>
  sparseCooTensor(
    tensor(
      [
        [2, 0, 2],
        [1, 0, 1],
      ],
      { dtype: 'int64' },
    ),
    values,
    [3, 2],
  );

type Case = [name: string, fn: (...t: Tensor[]) => Tensor, ...shapes: number[][]];

/** Values in ±[0.3, 1.3]: away from the kinks at 0, 1 and 2. */
function input(shape: number[], positive: boolean): Tensor {
  const magnitude = rand(shape, { dtype: 'float64' }).mul(0.6).add(0.3);
  const signed = positive ? magnitude : magnitude.mul(rand(shape).gt(0.5).to('float64').mul(2).sub(1));
  const t = signed.detach();
  t.requiresGrad = true;
  return t;
}

/** Fixed and all different. */
function weightsLike(t: Tensor): Tensor {
  return tensor(
    Float64Array.from({ length: t.size }, (_, i) => Math.cos(i * 1.3) + 0.2),
    { shape: t.shape },
  );
}

const index = tensor([2, 0, 2], { dtype: 'int64' });
const table = tensor(
  [
    [0, 1, 1],
    [2, 0, 1],
  ],
  { dtype: 'int64' },
);
const mask = tensor([
  [true, false, true],
  [false, true, true],
]);

const positiveOnly = new Set(['log', 'log2', 'sqrt', 'rsqrt', 'pow', 'prod', 'cumprod', 'binaryPow']);
const shifted: Record<string, (t: Tensor) => Tensor> = { acosh: (t) => t.abs().add(1.5) };

const unaries = [
  'neg',
  'abs',
  'exp',
  'expm1',
  'log',
  'log1p',
  'log2',
  'sqrt',
  'rsqrt',
  'square',
  'reciprocal',
  'relu',
  'sigmoid',
  'tanh',
  'sin',
  'cos',
  'tan',
  'asin',
  'acos',
  'atan',
  'sinh',
  'cosh',
  'asinh',
  'acosh',
  'atanh',
  'erf',
  'softplus',
  'logSigmoid',
  'sign',
  'floor',
  'ceil',
  'round',
  'trunc',
] as const;

const square = (t: Tensor): Tensor => t.add(t.transpose(-1, -2)).mul(0.5);
const spread = (t: Tensor): Tensor =>
  t.add(
    tensor(
      [
        [0.5, 0, 0],
        [0, 2, 0],
        [0, 0, 4],
      ],
      { dtype: 'float64' },
    ),
  );

const cases: Case[] = [
  ['indexCopy', (t, s) => t.indexCopy(0, tensor([2n, 0n]), s), [3, 2], [2, 2]],
  ['index', (t) => t.index([':', tensor([2n, 0n, -1n])]), [2, 3]],
  ['indexPut', (t, s) => t.indexPut([tensor([true, false, true])], s), [3, 2], [2, 2]],
  ...(['sum', 'mean', 'prod', 'amax', 'amin'] as const).map((how): Case => [
    `scatterReduce ${how}`,
    (t, s) =>
      t.scatterReduce(
        1,
        tensor([
          [0n, 2n, 0n],
          [1n, 1n, 1n],
        ]),
        s,
        how,
      ),
    [2, 3],
    [2, 3],
  ]),
  ['median', (t) => t.median(), [2, 4]],
  ['median of lines', (t) => t.median(1).values, [2, 4]],
  ['quantile', (t) => t.quantile(0.4, 1), [2, 4]],
  ['einsum', (a, b) => einsum('bij,bkj->bik', a, b), [2, 3, 2], [2, 2, 2]],
  ['cdist', (a, b) => cdist(a, b), [3, 2], [2, 2]],
  ['addcmul', (t, a, b) => t.addcmul(a, b, { value: 0.5 }), [2, 3], [3], [2, 1]],
  ['addcdiv', (t, a, b) => t.addcdiv(a, b, { value: 0.5 }), [2, 3], [3], [2, 1]],
  ['qr', (t) => qr(spread(t)).q, [3, 3]],
  ['qr, wide', (t) => qr(t).r, [2, 3]],
  ['svd', (t) => svd(spread(t)).s, [3, 3]],
  ['svd, vectors', (t) => svd(t).u.square().sum(-1).add(svd(t).vh.abs().sum()), [2, 3]],
  ['eigh', (t) => eigh(square(spread(t))).eigenvectors.abs(), [3, 3]],
  ['logAbsDet', (t) => slogdet(spread(t)).logabsdet, [3, 3]],
  ['celu', (t) => celu(t, 0.5), [2, 3]],
  ['rmsNorm', (t, w) => rmsNorm(t, [3], w), [2, 3], [3]],

  ...unaries.map((name): Case => [name, (t) => (shifted[name]?.(t) ?? t)[name](), [2, 3]]),
  ...(['add', 'sub', 'mul', 'div', 'maximum', 'minimum', 'atan2'] as const).flatMap((name): Case[] => [
    [name, (a, b) => a[name](b), [2, 3], [2, 3]],
    [`${name} broadcast`, (a, b) => a[name](b), [2, 1, 3], [4, 1]],
    [`${name} scalar`, (a) => a[name](1.7), [3]],
  ]),
  ['pow', (a) => a.pow(2.5), [4]],
  ['binaryPow', (a, b) => a.pow(b), [2, 3], [3]],
  ['remainder', (a) => a.remainder(0.7), [4]],
  ['clamp', (a) => a.clamp(-0.5, 0.6), [6]],
  ['where', (a, b) => where(mask, a, b), [2, 3], [3]],
  ['maskedFill', (a) => a.maskedFill(mask, 2), [2, 3]],
  ['sum', (a) => a.sum(), [2, 3]],
  ['sum dim', (a) => a.sum([0, 2]), [2, 3, 2]],
  ['mean', (a) => a.mean(1, true), [2, 3]],
  ['prod', (a) => a.prod(1), [2, 3]],
  ['prod signed', (a) => a.prod(), [2, 2]],
  ['amax', (a) => a.amax(1), [2, 3]],
  ['amin', (a) => a.amin([0, 1]), [2, 3]],
  ['cumsum', (a) => a.cumsum(0), [3, 2]],
  ['cumprod', (a) => a.cumprod(1), [2, 3]],
  ['softmax', (a) => a.softmax(1), [2, 3]],
  ['logSoftmax', (a) => a.logSoftmax(0), [3, 2]],
  ['logSumExp', (a) => a.logSumExp(1), [2, 3]],
  ['matmul', (a, b) => matmul(a, b), [2, 3], [3, 4]],
  ['matmul vector', (a, b) => matmul(a, b), [3], [3, 4]],
  ['matmul broadcast', (a, b) => matmul(a, b), [2, 1, 2, 3], [2, 3, 2]],
  ['bmm', (a, b) => bmm(a, b), [2, 2, 3], [2, 3, 2]],
  ['reshape', (a) => a.reshape([3, -1]), [2, 3]],
  ['permute', (a) => a.permute([2, 0, 1]), [2, 3, 2]],
  ['transpose', (a) => a.transpose(0, 1).reshape([6]), [2, 3]],
  ['slice', (a) => a.slice(1, 0, 5, 2), [2, 5]],
  ['narrow', (a) => a.narrow(0, 1, 2), [4, 2]],
  ['select', (a) => a.select(1, -1), [2, 3]],
  ['expand', (a) => a.expand([2, 3, 4]), [3, 1]],
  ['squeeze', (a) => a.squeeze(1).unsqueeze(0), [3, 1]],
  ['clone', (a) => a.clone(), [3]],
  ['alias', (a) => a.alias(), [3]],
  ['concat', (a, b) => concat([a, b, a], 1), [2, 3], [2, 2]],
  ['stack', (a, b) => stack([a, b], 1), [3], [3]],
  ['asStrided', (a) => asStrided(a, [2, 2], [1, 1], 1), [5]],
  ['asStridedScatter', (a, b) => asStridedScatter(a, b, [2], [2], 1), [5], [2]],
  ['indexSelect', (a) => a.indexSelect(0, index), [3, 2]],
  ['indexAdd', (a, b) => a.indexAdd(0, index, b), [3, 2], [3, 2]],
  ['gather', (a) => a.gather(0, table), [3, 3]],
  ['scatterAdd', (a, b) => a.scatterAdd(0, table, b), [3, 3], [2, 3]],
  [
    'scatter',
    (a, b) =>
      a.scatter(
        1,
        tensor(
          [
            [0, 2],
            [1, 0],
          ],
          { dtype: 'int64' },
        ),
        b,
      ),
    [2, 3],
    [2, 2],
  ],
  ['complex parts', (a, b) => real(complex(a, b)).add(imag(complex(a, b)).mul(3)), [3], [3]],
  ['complex conjugate', (a, b) => real(conj(complex(a, b)).mul(complex(b, a))), [3], [3]],
  ['complex angle', (a, b) => angle(complex(a, b)), [3], [3]],
  ['copy', (a, b) => a.clone().copy_(b).mul(b), [2, 3], [3]],
  ['asStridedAdd', (a) => asStridedAdd(a.square(), [5], { shape: [2, 3], strides: [1, 1], offset: 1 }), [2, 3]],
  ['sparseCooTensor', (v) => coo(v).toDense(), [3]],
  ['coalesce', (v) => coo(v).coalesce().toDense(), [3]],
  ['sparse values', (v) => coo(v).coalesce().values().square(), [3]],
  ['sparse sum', (v, w) => coo(v).add(coo(w), { alpha: 0.5 }).toDense(), [3], [3]],
  ['sparse scaled', (v) => coo(v).mul(2.5).toDense(), [3]],
  ['sparse times dense', (v, d) => coo(v).mul(d).toDense(), [3], [3, 2]],
  ['sparse times sparse', (v, w) => coo(v).mul(coo(w)).toDense(), [3], [3]],
  ['sparse matmul', (v, d) => coo(v).matmul(d), [3], [2, 2]],
  ['toSparse', (a) => a.toSparse().toDense(), [2, 3]],
  ['sparse negative', (v) => coo(v).neg().toDense(), [3]],
  ['sparse cast', (v) => coo(v).to('float32').toDense().to('float64'), [3]],
  ['embeddingBag', (table) => bags(table, false), [3, 2]],
  ['sparse embeddingBag', (table) => bags(table, true), [3, 2]],
  ['putAt', (a) => putAt(a, tensor([3, 0, 3], { dtype: 'int32' }), [2, 2]).square(), [3]],
  ['sparse embedding', (table) => sparseRows(table, [2, 0, 2]), [3, 2]],
  ['device moves', (x) => x.mul(x).to('host:0').mul(2).to('cpu').mul(x), [2, 3]],
  ['cast', (a) => a.to('float32').to('float64').mul(2), [2]],
  ['crossEntropy', (a) => crossEntropy(a, tensor([1, 0], { dtype: 'int64' }), { labelSmoothing: 0.1 }), [2, 3]],
  ['crossEntropy ignored', (a) => crossEntropy(a, tensor([1, -100], { dtype: 'int64' })), [2, 3]],
  ['huberLoss', (a, b) => huberLoss(a, b, { delta: 0.2 }), [4], [4]],
  ['gelu', (a) => a.gelu(), [4]],
  ['gelu tanh', (a) => a.gelu('tanh'), [4]],
  ['silu', (a) => a.silu(), [4]],
  ['mish', (a) => a.mish(), [4]],
  ['leakyRelu', (a) => a.leakyRelu(0.2), [4]],
  ['prelu', (a, b) => prelu(a, b), [2, 3], [3]],
  ['elu', (a) => a.elu(0.7), [4]],
  ['selu', (a) => a.selu(), [4]],
  ['hardtanh', (a) => a.hardtanh(-0.5, 0.5), [6]],
  ['hardSwish', (a) => a.hardSwish(), [4]],
  ['softsign', (a) => a.softsign(), [4]],
  ['lerp', (a, b) => a.lerp(b, 0.3), [3], [3]],
  ['variance', (a) => a.variance(1), [2, 3]],
  ['std', (a) => a.std([0, 1], { correction: 0 }), [2, 3]],
  ['norm', (a) => a.norm(2, 1), [2, 3]],
  ['norm 3', (a) => a.norm(3), [2, 3]],
  ['norm infinity', (a) => a.norm(Infinity), [4]],
  ['normalize', (a) => normalize(a), [2, 3]],
  ['cosineSimilarity', (a, b) => cosineSimilarity(a, b), [2, 3], [2, 3]],
  ['linear', (a, b, c) => linear(a, b, c), [2, 3], [4, 3], [4]],
  ['outer', (a, b) => outer(a, b), [2], [3]],
  ['tile', (a) => a.tile([2, 1, 3]), [2, 2]],
  ['roll', (a) => a.roll(2, 1), [2, 3]],
  ['layerNorm', (a, b, c) => layerNorm(a, [3], b, c), [2, 3], [3], [3]],
  ['groupNorm', (a, b) => groupNorm(a, 2, b), [2, 4, 2], [4]],
  ['batchNorm', (a, b, c) => batchNorm(a, { weight: b, bias: c }), [3, 2, 2], [2], [2]],
  ['attention', (q, k, v) => scaledDotProductAttention(q, k, v, { causal: true }), [2, 3, 2], [2, 3, 2], [2, 3, 2]],
  ['tril', (a) => a.tril(-1), [3, 3]],
  ['triu', (a) => a.triu(), [2, 2, 3]],
  ['diagonal', (a) => a.diagonal(), [2, 3, 2]],
  ['trace', (a) => a.trace(), [3, 3]],
  ['diagEmbed', (a) => a.diagEmbed(), [2, 3]],
  ['flip', (a) => a.flip([0, 1]), [2, 3]],
  ['pad', (a) => a.pad([1, 2, 0, 1], 0.5), [2, 3]],
  ['pad crop', (a) => a.pad([-1, 1]), [2, 3]],
  ['sort', (a) => a.sort(1, true).values, [2, 4]],
  ['topK', (a) => a.topK(2, 0).values, [4, 2]],
  ['max', (a) => a.max(1).values, [2, 3]],
  ['maskedSelect', (a) => a.maskedSelect(mask), [2, 3]],
  ['inverse', (a) => a.add(eye(2).to('float64').mul(3)).inverse(), [2, 2, 2]],
  ['det', (a) => a.add(eye(2).to('float64').mul(3)).det(), [2, 2, 2]],
  ['solve', (a, b) => solve(a.add(eye(2).to('float64').mul(3)), b), [2, 2], [2, 3]],
  ['cholesky', (a) => a.matmul(a.transpose(-1, -2)).add(eye(3).to('float64').mul(4)).cholesky(), [2, 3, 3]],
  ['conv2d', (a, b, c) => conv2d(a, b, { bias: c, stride: 2, padding: 1 }), [2, 2, 4, 4], [3, 2, 3, 3], [3]],
  ['conv2d groups', (a, b) => conv2d(a, b, { groups: 2, dilation: 2 }), [1, 4, 4, 3], [4, 2, 2, 2]],
  ['conv1d', (a, b) => conv1d(a, b, { padding: 1 }), [2, 2, 4], [2, 2, 3]],
  [
    'convTranspose2d',
    (a, b) => convTranspose2d(a, b, { stride: 2, padding: 1, outputPadding: 1 }),
    [1, 2, 3, 3],
    [2, 2, 3, 3],
  ],
  ['maxPool2d', (a) => maxPool2d(a, 2, { stride: 1 }), [1, 2, 3, 3]],
  ['avgPool2d', (a) => avgPool2d(a, 2, { padding: 1 }), [1, 2, 4, 4]],
  ['adaptiveAvgPool2d', (a) => adaptiveAvgPool2d(a, [2, 3]), [1, 2, 5, 4]],
  ['mseLoss', (a, b) => mseLoss(a, b), [4], [4]],
  ['l1Loss', (a, b) => l1Loss(a, b, { reduction: 'sum' }), [4], [4]],
  [
    'binaryCrossEntropyWithLogits',
    (a) => binaryCrossEntropyWithLogits(a, rand([4], { dtype: 'float64' }).detach().mul(0).add(0.3)),
    [4],
  ],
  ['binaryCrossEntropy', (a) => binaryCrossEntropy(a.sigmoid(), a.detach().mul(0).add(0.6)), [4]],
  ['klDiv', (a) => klDiv(a.logSoftmax(1), a.detach().mul(0).add(0.25)), [2, 4]],
  ['nllLoss squared', (a) => nllLoss(a, tensor([1n, -100n, 0n]), { reduction: 'none' }).square(), [3, 2]],
  [
    'nllLoss weighted',
    (a) => nllLoss(a, tensor([1n, 0n, 1n]), { weight: tensor([0.5, 2], { dtype: 'float64' }) }).square(),
    [3, 2],
  ],
  ['crossEntropy soft', (a) => crossEntropy(a, a.detach().mul(0).add(0.25)), [2, 4]],
  ['smoothL1Loss', (a, b) => smoothL1Loss(a, b), [4], [4]],
  ['smoothL1Loss of a broadcast target, beta 0', (a, b) => smoothL1Loss(a, b, { beta: 0 }), [2, 3], [3]],
  ['mseLoss broadcast', (a, b) => mseLoss(a, b), [2, 1], [3]],
  ['klDiv broadcast', (a, b) => klDiv(a, b.square()), [2, 3], [3]],
  ['cosineSimilarity broadcast', (a, b) => cosineSimilarity(a, b), [2, 1], [2, 3]],
  ['addmm', (c, a, b) => addmm(c, a, b, { alpha: 0.7, beta: 0.3 }), [2], [3, 2], [2, 2]],
  ['addmm without its input', (c, a, b) => addmm(c, a, b, { beta: 0 }), [2], [3, 2], [2, 2]],
  ['linear of a vector', (x, w, b) => linear(x, w, b), [3], [3], []],
  [
    'attention with a row that sees nothing',
    (q, k, v) => scaledDotProductAttention(q, k, v, { mask: tensor([[true, false], [false, false], [true, true]]) }), // prettier-ignore
    [3, 2],
    [2, 2],
    [2, 2],
  ],
  ['conv2d of one image', (a, b, c) => conv2d(a, b, { bias: c, padding: 1 }), [2, 3, 3], [2, 2, 2, 2], [2]],
  ['convTranspose2d of one image', (a, b) => convTranspose2d(a, b, { stride: 2 }), [2, 2, 2], [2, 1, 2, 2]],
  ['maxPool2d of one image', (a) => maxPool2d(a, 2), [2, 4, 4]],
  ['concat with a vector of nothing', (a, b) => concat([tensor([], { dtype: 'float64' }), a, b], 1), [2, 2], [2, 1]],
  ['maskedSelect with a larger mask', (a) => a.maskedSelect(mask), [3]],
  // Without dimensions.
  ['gather without dimensions', (a) => a.gather(0, tensor(0n)).square(), []],
  ['indexSelect without dimensions', (a) => a.indexSelect(0, tensor([0n])).square(), []],
  ['scatterAdd without dimensions', (a, b) => a.scatterAdd(0, tensor(0n), b).square(), [], []],
  ['scatter without dimensions', (a, b) => a.scatter(0, tensor(0n), b).square(), [], []],
  ['indexAdd without dimensions', (a, b) => a.indexAdd(0, tensor(0n), b).square(), [], []],
  ['max without dimensions', (a) => a.max(0).values.square(), []],
  ['sort without dimensions', (a) => a.sort(0).values.square(), []],
  ['cumprod without dimensions', (a) => a.cumprod(0).square(), []],
  ['cumsum without dimensions', (a) => a.cumsum(0).square(), []],
  ['reductions without dimensions', (a) => a.sum().mul(a.prod(0)).mul(a.mean(-1)).mul(a.amax()).mul(a.norm()), []],
  // Changes in place, through views and of their base.
  ...inPlace(),
];

/** Each view of a [3, 3] changed by an operand, then its base, and both read. */
function inPlace(): Case[] {
  const views: Record<string, [view: (t: Tensor) => Tensor, shape: number[]]> = {
    'the tensor itself': [(t) => t, [3, 3]],
    select: [(t) => t.select(0, 1), [3]],
    slice: [(t) => t.slice(1, 0, 3, 2), [3, 2]],
    narrow: [(t) => t.narrow(0, 1, 2), [2, 3]],
    transpose: [(t) => t.transpose(0, 1), [3, 3]],
    unsqueeze: [(t) => t.unsqueeze(1), [3, 1, 3]],
    view: [(t) => t.view([9]), [9]],
    diagonal: [(t) => t.diagonal(), [3]],
    'diagonal of transposed': [(t) => t.transpose(0, 1).diagonal(), [3]],
    'a row of a column': [(t) => t.select(1, 2).narrow(0, 1, 1), [1]],
  };
  return Object.entries(views).flatMap(([name, [view, shape]]): Case[] => [
    [
      `mul_ through ${name}`,
      (a, b) => {
        const x = a.mul(1);
        const v = view(x).mul_(b);
        x.mul_(a);
        return x.sum().add(v.square().sum());
      },
      [3, 3],
      shape,
    ],
    [
      `div_ and copy_ through ${name}`,
      (a, b) => {
        const x = a.mul(1);
        view(x).div_(b);
        view(x).add_(b, { alpha: 2 });
        const y = x.mul(a);
        view(y).copy_(b.sigmoid());
        return x.mul(y);
      },
      [3, 3],
      shape,
    ],
  ]);
}

/** For what goes through float32: steps far larger than its rounding. */
const COARSE_CASES = new Set(['cast', 'sparse cast', 'complex parts', 'complex conjugate', 'complex angle']);
const COARSE = { eps: 1e-2, rtol: 1e-3 };

/** The rules that were checked. Functions of the graph have PyTorch's names, which several rules of ours may share. */
const checked = new Set<unknown>();
let checks = 0;

function noteFunctions(t: Tensor): void {
  const pending: (GradFn | null)[] = [t.gradFn];
  for (let fn = pending.pop(); fn !== undefined; fn = pending.pop()) {
    if (fn === null) continue;
    if ('rule' in fn) checked.add(fn.rule);
    pending.push(...fn.nextFunctions);
  }
}

describe('derivatives', () => {
  it.each(cases)('%s', (name, fn, ...shapes) => {
    manualSeed(7);
    const inputs = shapes.map((shape) => input(shape, positiveOnly.has(name)));
    gradcheck(fn, inputs, COARSE_CASES.has(name) ? COARSE : {});
    checks++;
    noteFunctions(fn(...inputs));
  });

  it.each(cases)('%s, second', (name, fn, ...shapes) => {
    manualSeed(8);
    const inputs = shapes.map((shape) => input(shape, positiveOnly.has(name)));
    // The numerical side runs without recording, but here the function itself differentiates.
    const first = (...t: Tensor[]): Tensor =>
      enableGrad(() => {
        const out = fn(...t);
        const weights = weightsLike(out);
        const [g] = grad([out.mul(weights).sum()], [t[0] as Tensor], {
          createGraph: true,
          allowUnused: true,
        });
        return g === null || g === undefined || !g.requiresGrad ? (t[0] as Tensor).mul(1) : g;
      });
    gradcheck(first, inputs, COARSE_CASES.has(name) ? COARSE : { atol: 1e-4 });
    checks++;
    noteFunctions(first(...inputs));
  });

  it('were checked for every rule in the table', () => {
    // Run alone by a filter, this test has nothing to look at.
    if (checks < 2 * cases.length) return;
    // These say that there is none; golden/values.json has them.
    const none = ['floorDivide', 'unique', 'bincount'];
    // Not the slope of its value, and that is what it is for; golden/ported.bin.gz has it.
    none.push('scaleGradient');
    const missing = [...derivatives]
      .filter(([name, rule]) => !none.includes(name) && !checked.has(rule))
      .map(([name]) => name);
    expect(missing).toEqual([]);
  });

  afterAll(() => {
    console.info(
      `${backendName()}: ${checks} gradchecks of ${derivatives.size} derivative rules, half of them of second derivatives`,
    );
  });
});
