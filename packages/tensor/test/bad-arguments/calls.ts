/** @file Valid calls of every public function, method and class: what the drawn test of bad arguments starts from. */
import * as bw from '../../src/index.ts';
import { data, distributions, nn, ones, optim, tensor, type Tensor } from '../../src/index.ts';

const vector = (): Tensor => tensor([0.5, 0.25, 0.75]);
const matrix = (): Tensor =>
  tensor([
    [0.5, 0.25, 0.75],
    [0.125, 0.625, 0.875],
  ]);
const square = (): Tensor =>
  tensor([
    [2, 0.5],
    [0.5, 1],
  ]);
const whole = (...values: number[]): Tensor => tensor(values, { dtype: 'int64' });
const mask = (): Tensor => tensor([true, false, true]);
const signs = (): Tensor => tensor([1, -1]);
const coo = (): Tensor => bw.sparseCooTensor(tensor([[0n, 1n]]), tensor([1, 2]), [3]);
const complex = (): Tensor => bw.complex(vector(), vector());
const image = (...size: number[]): Tensor => ones([1, 2, ...size]);
const weight = (...size: number[]): Tensor => ones([2, 2, ...size]);
const parameter = (): Tensor => ones([2], { requiresGrad: true });

type Arguments = () => unknown[];
type Table = Readonly<Record<string, Arguments>>;

function alike(names: string, args: Arguments): Table {
  return Object.fromEntries(names.split(' ').map((name) => [name, args]));
}

/** Functions of tensors, which are methods too where there is one of the name. */
const OPERATIONS: Table = {
  ...alike(
    'abs acos acosh angle asin asinh atan atanh ceil conj cos erf exp expm1 floor isFinite isInf isNaN log log1p log2 logSigmoid logicalNot mish neg reciprocal relu relu6 round rsqrt selu sigmoid sign silu sin sinh softplus softsign sqrt square tan tanh tanhshrink trunc hardSigmoid hardSwish nonzero median unique bernoulli flatten clone contiguous detach alias t toTf float double half bfloat16 long int bool toArray dataSync toDense toSparse toString abs_ ceil_ cos_ expm1_ floor_ log1p_ log_ reciprocal_ round_ rsqrt_ sign_ sin_ square_ trunc_ exp_ neg_ relu_ sigmoid_ sqrt_ tanh_ zero_',
    () => [matrix()],
  ),
  ...alike('indices values', () => [coo().coalesce()]),
  coalesce: () => [coo()],
  retainGrad: () => [parameter().mul(2)],
  ...alike('item itemAsync', () => [ones([])]),
  ...alike('real imag', () => [complex()]),
  ...alike('cosh diagEmbed data', () => [vector()]),
  ...alike('bitwiseNot', () => [whole(1, 2)]),
  ...alike('det inverse cholesky eigh eigvalsh qr svd svdvals logdet slogdet trace diagonal', () => [square()]),
  ...alike(
    'add sub mul div floorDivide remainder pow maximum minimum atan2 eq ne lt le gt ge logicalAnd logicalOr logicalXor add_ sub_ mul_ div_ pow_ copy_ equal allClose expandAs viewAs reshapeAs typeAs',
    () => [matrix(), matrix()],
  ),
  ...alike('bitwiseAnd bitwiseOr bitwiseXor bitwiseLeftShift bitwiseRightShift', () => [whole(1, 2), whole(1, 2)]),
  ...alike('sum mean amax amin any all', () => [matrix(), [0], true]),
  ...alike('prod argMax argMin max min', () => [matrix(), 1, true]),
  ...alike('cumsum cumprod softmax logSoftmax softmin squeeze unsqueeze unbind', () => [matrix(), 0]),
  logSumExp: () => [matrix(), [0], true],
  countNonzero: () => [matrix(), [0]],
  kthValue: () => [matrix(), 1, 1, true],
  quantile: () => [matrix(), 0.5, 1, { keepDim: true }],
  ...alike('variance std', () => [matrix(), [1], { correction: 0 }]),
  norm: () => [matrix(), 2, [1], true],
  normalize: () => [matrix(), 2, 1],
  ...alike('argSort sort', () => [matrix(), 1, true]),
  topK: () => [matrix(), 2, 1, true],
  ...alike('tril triu', () => [matrix(), 1]),
  ...alike('clamp clamp_ hardtanh', () => [matrix(), 0.25, 0.75]),
  ...alike('elu celu leakyRelu hardshrink softshrink', () => [matrix(), 0.5]),
  gelu: () => [matrix(), 'tanh'],
  glu: () => [ones([2, 4]), 1],
  prelu: () => [matrix(), tensor([0.25])],
  threshold: () => [matrix(), 0.5, 2],
  ...alike('lerp lerp_', () => [vector(), vector(), 0.5]),
  ...alike('addcmul addcdiv addcmul_ addcdiv_', () => [vector(), vector(), vector(), { value: 2 }]),
  addmm: () => [square(), square(), square(), { alpha: 2, beta: 0.5 }],
  baddbmm: () => [ones([1, 2, 2]), ones([1, 2, 2]), ones([1, 2, 2]), { alpha: 2 }],
  bmm: () => [ones([1, 2, 2]), ones([1, 2, 2])],
  ...alike('mm matmul solve', () => [square(), square()]),
  ...alike('dot outer', () => [vector(), vector()]),
  linear: () => [matrix(), matrix(), ones([2])],
  cdist: () => [matrix(), matrix(), 2],
  cosineSimilarity: () => [matrix(), matrix(), 1, 1e-8],
  pairwiseDistance: () => [matrix(), matrix(), 2],
  einsum: () => ['ij,ij->i', matrix(), matrix()],
  ...alike('maskedFill maskedFill_', () => [matrix(), mask(), 5]),
  maskedSelect: () => [matrix(), mask()],
  where: () => [mask(), vector(), 2],
  ...alike('concat stack', () => [[matrix(), matrix()], 0]),
  ...alike('hstack vstack dstack columnStack broadcastTensors', () => [[matrix(), matrix()]]),
  meshgrid: () => [[vector(), vector()], 'xy'],
  ...alike('expand broadcastTo', () => [vector(), [2, 3]]),
  ...alike('reshape view', () => [matrix(), [3, 2]]),
  permute: () => [matrix(), [1, 0]],
  transpose: () => [matrix(), 0, 1],
  movedim: () => [matrix(), [0], [1]],
  unflatten: () => [matrix(), 1, [3, 1]],
  narrow: () => [matrix(), 1, 0, 2],
  slice: () => [matrix(), 1, 0, 3, 2],
  select: () => [matrix(), 0, 1],
  split: () => [matrix(), [1, 2], 1],
  chunk: () => [matrix(), 2, 1],
  ...alike('repeat tile', () => [matrix(), [2, 1]]),
  repeatInterleave: () => [matrix(), [1, 2], 0],
  flip: () => [matrix(), [0]],
  roll: () => [matrix(), 1, 0],
  pad: () => [matrix(), [1, 1], 2],
  diff: () => [matrix(), 1, 1],
  index: () => [matrix(), [':', 1]],
  ...alike('indexPut indexPut_', () => [matrix(), [0, ':'], 5, { accumulate: true }]),
  ...alike('indexFill indexFill_', () => [matrix(), 0, whole(0), 5]),
  ...alike('indexAdd indexCopy indexAdd_ indexCopy_', () => [matrix(), 0, whole(1, 0), matrix()]),
  indexSelect: () => [matrix(), 0, whole(1, 0)],
  take: () => [matrix(), whole(1, 5)],
  takeAlongDim: () => [vector(), whole(1, 0), 0],
  gather: () => [vector(), 0, whole(1, 0)],
  ...alike('scatter scatterAdd scatter_ scatterAdd_', () => [vector(), 0, whole(1, 0), ones([2])]),
  ...alike('scatterReduce scatterReduce_', () => [vector(), 0, whole(1, 0), ones([2]), 'sum', { includeSelf: false }]),
  multinomial: () => [vector(), 2, { replacement: true }],
  normal_: () => [vector(), 1, 2],
  uniform_: () => [vector(), 0, 2],
  bernoulli_: () => [vector(), 0.5],
  fill_: () => [vector(), 2],
  to: () => [vector(), 'float64'],
  backward: () => [parameter().mul(2), ones([2]), { retainGraph: true }],
  registerHook: () => [parameter(), (): void => undefined],
  bincount: () => [whole(1, 2), ones([2])],
  bucketize: () => [vector(), vector()],
  searchSorted: () => [vector(), vector()],
  oneHot: () => [whole(1, 2), 3],
  interpolate: () => [image(2, 2), { size: [4, 4], mode: 'nearest' }],
  ...alike('adaptiveAvgPool1d', () => [image(4), 2]),
  ...alike('adaptiveAvgPool2d', () => [image(4, 4), [2, 2]]),
  ...alike('avgPool1d maxPool1d', () => [image(4), 2, { stride: 2 }]),
  ...alike('avgPool2d maxPool2d maxPool2dWithIndices', () => [image(4, 4), [2, 2], { stride: 2, padding: 1 }]),
  ...alike('conv1d convTranspose1d', () => [image(3), weight(2), { bias: ones([2]), stride: 1 }]),
  ...alike('conv2d convTranspose2d', () => [image(3, 3), weight(2, 2), { bias: ones([2]), padding: 1 }]),
  ...alike('conv3d convTranspose3d', () => [image(3, 3, 3), weight(2, 2, 2), { bias: ones([2]), stride: [1, 1, 1] }]),
  batchNorm: () => [matrix(), { weight: ones([3]), bias: ones([3]), eps: 1e-5, momentum: 0.1 }],
  instanceNorm: () => [image(4), { eps: 1e-5 }],
  layerNorm: () => [matrix(), [3], ones([3]), ones([3]), 1e-5],
  rmsNorm: () => [matrix(), [3], ones([3]), 1e-5],
  groupNorm: () => [image(4), 2, ones([2]), ones([2]), 1e-5],
  dropout: () => [matrix(), 0.5, true],
  gumbelSoftmax: () => [matrix(), { tau: 1, hard: true, dim: 1 }],
  pixelShuffle: () => [ones([1, 4, 2, 2]), 2],
  pixelUnshuffle: () => [ones([1, 1, 4, 4]), 2],
  scaledDotProductAttention: () => [ones([1, 2, 2]), ones([1, 2, 2]), ones([1, 2, 2]), { causal: true }],
  complex: () => [vector(), vector()],
  ...alike('zerosLike onesLike randLike randnLike', () => [matrix(), { dtype: 'float64' }]),
  fullLike: () => [matrix(), 2, { dtype: 'float64' }],
};

/** Losses of a prediction and a target. */
const LOSSES: Table = {
  ...alike(
    'binaryCrossEntropy binaryCrossEntropyWithLogits l1Loss mseLoss smoothL1Loss huberLoss klDiv poissonNllLoss',
    () => [matrix(), matrix(), { reduction: 'sum' }],
  ),
  ...alike('softMarginLoss hingeEmbeddingLoss', () => [ones([2]), signs(), { reduction: 'sum' }]),
  ...alike('crossEntropy nllLoss', () => [matrix(), whole(0, 2), { weight: ones([3]), reduction: 'sum' }]),
  multilabelSoftMarginLoss: () => [matrix(), matrix(), { reduction: 'sum' }],
  cosineEmbeddingLoss: () => [matrix(), matrix(), signs(), { margin: 0.5 }],
  marginRankingLoss: () => [ones([2]), ones([2]), signs(), { margin: 0.5 }],
  gaussianNllLoss: () => [matrix(), matrix(), matrix(), { full: true }],
  tripletMarginLoss: () => [matrix(), matrix(), matrix(), { margin: 0.5 }],
};

const CREATION: Table = {
  ...alike('zeros ones empty rand randn', () => [[2, 3], { dtype: 'float64' }]),
  full: () => [[2, 3], 5, { dtype: 'float64' }],
  tensor: () => [[1, 2], { dtype: 'float64' }],
  arange: () => [0, 3, 1, { dtype: 'float64' }],
  linspace: () => [0, 1, 3, { dtype: 'float64' }],
  eye: () => [2, 3, { dtype: 'float64' }],
  randint: () => [0, 5, [2, 3], { dtype: 'int32' }],
  randperm: () => [4, { dtype: 'int32' }],
  fromBytes: () => [new Uint8Array(8), [2], 'float32'],
  sparseCooTensor: () => [tensor([[0n, 1n]]), tensor([1, 2]), [3]],
  'sparse.sum': () => [coo(), [0]],
  fromTf: () => [vector().toTf()],
  saveSafetensors: () => [new Map([['a', vector()]]), { a: 'b' }],
  loadSafetensors: () => [bw.saveSafetensors(new Map([['a', vector()]]))],
  promoteTypes: () => ['int64', 'float32'],
};

const PROGRAMS: Table = {
  ...alike('noGrad enableGrad scope', () => [(): number => 1]),
  ...alike('detectAnomaly', () => [(): number => 1]),
  autocast: () => [(): number => 1, { dtype: 'bfloat16' }],
  keep: () => [vector()],
  lift: () => [(t: unknown): unknown => t],
  checkpoint: () => [(): number => 1, parameter()],
  customFunction: () => [
    { name: 'x', forward: (_: unknown, t: Tensor): Tensor => t.mul(2), backward: (_: unknown, g: Tensor) => [g] },
  ],
  grad: () => {
    const x = parameter();
    return [[x.mul(2).sum()], [x], { retainGraph: true, gradOutputs: [ones([])] }];
  },
  runBackward: () => [[parameter().mul(2)], [ones([2])], { retainGraph: true }],
  gradcheck: () => [
    (t: Tensor): Tensor => t.mul(2),
    [ones([2], { requiresGrad: true, dtype: 'float64' })],
    { eps: 1e-6 },
  ],
  manualSeed: () => [1],
  findLeaks: () => [(): number => 1],
  openHostDevice: () => ['host:61'],
  deviceMemory: () => ['host:61'],
  setMemoryBudget: () => [2 ** 30],
  setNumThreads: () => [1],
};

/** Classes: the arguments of their constructors, and of `forward` where they have one. */
interface Made {
  readonly args: Arguments;
  readonly methods?: Readonly<Record<string, Arguments>>;
}
type Classes = Readonly<Record<string, Made>>;

function layers(names: string, args: Arguments, forward: Arguments = () => [matrix()]): Classes {
  return Object.fromEntries(names.split(' ').map((name) => [name, { args, methods: { forward } }]));
}

const sequence = (): Tensor => ones([2, 1, 4]);
const states = (): [Tensor, Tensor] => [ones([1, 3]), ones([1, 3])];

const MODULES: Classes = {
  ...layers(
    'ReLU ReLU6 SELU SiLU Sigmoid Tanh Tanhshrink Softsign Mish LogSigmoid Hardsigmoid Hardswish Identity',
    () => [],
  ),
  ...layers('ELU CELU LeakyReLU Hardshrink Softshrink', () => [0.5]),
  ...layers('Dropout', () => [0.5]),
  ...layers(
    'Dropout1d',
    () => [0.5],
    () => [image(3)],
  ),
  ...layers(
    'Dropout2d',
    () => [0.5],
    () => [image(3, 3)],
  ),
  ...layers(
    'Dropout3d',
    () => [0.5],
    () => [image(2, 2, 2)],
  ),
  ...layers('GELU', () => [{ approximate: 'tanh' }]),
  ...layers(
    'GLU',
    () => [1],
    () => [ones([2, 4])],
  ),
  ...layers('Hardtanh', () => [-1, 1]),
  ...layers('Threshold', () => [0.5, 2]),
  ...layers('Softmax LogSoftmax Softmin', () => [1]),
  ...layers('Softplus', () => [2, 20]),
  ...layers('PReLU', () => [{ numParameters: 1, init: 0.25 }]),
  ...layers('Linear', () => [3, 2, { bias: true }]),
  ...layers('Flatten', () => [0, 1]),
  ...layers('Unflatten', () => [1, [3, 1]]),
  ...layers(
    'Conv1d ConvTranspose1d',
    () => [2, 2, 2, { stride: 1 }],
    () => [image(4)],
  ),
  ...layers(
    'Conv2d ConvTranspose2d',
    () => [2, 2, [2, 2], { padding: 1 }],
    () => [image(4, 4)],
  ),
  ...layers(
    'Conv3d ConvTranspose3d',
    () => [2, 2, 2, { stride: 1 }],
    () => [image(3, 3, 3)],
  ),
  ...layers(
    'AvgPool1d MaxPool1d',
    () => [2, { stride: 2 }],
    () => [image(4)],
  ),
  ...layers(
    'AvgPool2d MaxPool2d',
    () => [[2, 2], { stride: 2 }],
    () => [image(4, 4)],
  ),
  ...layers(
    'AdaptiveAvgPool1d',
    () => [2],
    () => [image(4)],
  ),
  ...layers(
    'AdaptiveAvgPool2d',
    () => [[2, 2]],
    () => [image(4, 4)],
  ),
  ...layers('BatchNorm1d', () => [3, { eps: 1e-5 }]),
  ...layers(
    'InstanceNorm1d',
    () => [2, { eps: 1e-5 }],
    () => [image(4)],
  ),
  ...layers(
    'BatchNorm2d InstanceNorm2d',
    () => [2, { eps: 1e-5 }],
    () => [image(3, 3)],
  ),
  ...layers(
    'BatchNorm3d InstanceNorm3d',
    () => [2, { eps: 1e-5 }],
    () => [image(2, 2, 2)],
  ),
  ...layers(
    'GroupNorm',
    () => [2, 2, { eps: 1e-5 }],
    () => [image(4)],
  ),
  ...layers('LayerNorm RMSNorm', () => [[3], { eps: 1e-5 }]),
  ...layers(
    'CircularPad1d ReflectionPad1d ReplicationPad1d ZeroPad1d',
    () => [[1, 1]],
    () => [image(3)],
  ),
  ...layers(
    'CircularPad2d ReflectionPad2d ReplicationPad2d ZeroPad2d',
    () => [1],
    () => [image(3, 3)],
  ),
  ...layers(
    'CircularPad3d ReflectionPad3d ReplicationPad3d ZeroPad3d',
    () => [1],
    () => [image(3, 3, 3)],
  ),
  ...layers(
    'ConstantPad1d',
    () => [1, 2],
    () => [image(3)],
  ),
  ...layers(
    'ConstantPad2d',
    () => [1, 2],
    () => [image(3, 3)],
  ),
  ...layers(
    'ConstantPad3d',
    () => [1, 2],
    () => [image(3, 3, 3)],
  ),
  ...layers(
    'PixelShuffle',
    () => [2],
    () => [ones([1, 4, 2, 2])],
  ),
  ...layers(
    'PixelUnshuffle',
    () => [2],
    () => [ones([1, 1, 4, 4])],
  ),
  ...layers(
    'Upsample',
    () => [{ scaleFactor: 2 }],
    () => [image(2, 2)],
  ),
  ...layers(
    'UpsamplingBilinear2d UpsamplingNearest2d',
    () => [{ scaleFactor: 2 }],
    () => [image(2, 2)],
  ),
  ...layers(
    'Embedding',
    () => [4, 3, { paddingIdx: 0 }],
    () => [whole(1, 2)],
  ),
  ...layers(
    'EmbeddingBag',
    () => [4, 3, { mode: 'sum' }],
    () => [whole(1, 2), whole(0, 1)],
  ),
  ...layers(
    'RNN GRU',
    () => [4, 3, { numLayers: 1 }],
    () => [sequence(), ones([1, 1, 3])],
  ),
  ...layers(
    'LSTM',
    () => [4, 3, { numLayers: 1 }],
    () => [sequence(), [ones([1, 1, 3]), ones([1, 1, 3])]],
  ),
  ...layers(
    'RNNCell GRUCell',
    () => [4, 3, { bias: true }],
    () => [ones([1, 4]), ones([1, 3])],
  ),
  ...layers(
    'LSTMCell',
    () => [4, 3, { bias: true }],
    () => [ones([1, 4]), states()],
  ),
  ...layers(
    'MultiheadAttention',
    () => [4, 2, { dropout: 0.1 }],
    () => [sequence(), sequence(), sequence(), {}],
  ),
  ...layers(
    'PositionalEncoding',
    () => [4, { maxLen: 10 }],
    () => [sequence()],
  ),
  ...layers(
    'Transformer',
    () => [4, 2, { dimFeedforward: 4, numEncoderLayers: 1, numDecoderLayers: 1 }],
    () => [sequence(), sequence(), {}],
  ),
  ...layers(
    'TransformerEncoderLayer',
    () => [4, 2, { dimFeedforward: 4 }],
    () => [sequence(), {}],
  ),
  ...layers(
    'TransformerDecoderLayer',
    () => [4, 2, { dimFeedforward: 4 }],
    () => [sequence(), sequence(), {}],
  ),
  ...layers(
    'TransformerEncoder',
    () => [new nn.TransformerEncoderLayer(4, 2, { dimFeedforward: 4 }), 2],
    () => [sequence(), {}],
  ),
  ...layers(
    'TransformerDecoder',
    () => [new nn.TransformerDecoderLayer(4, 2, { dimFeedforward: 4 }), 2],
    () => [sequence(), sequence(), {}],
  ),
  ...layers('Sequential', () => [new nn.Linear(3, 3), new nn.ReLU()]),
  ModuleList: { args: () => [[new nn.Linear(2, 2)]] },
  ModuleDict: { args: () => [{ a: new nn.Linear(2, 2) }] },
  ParameterList: { args: () => [[new bw.Parameter(ones([2]))]] },
  ParameterDict: { args: () => [{ a: new bw.Parameter(ones([2])) }] },
  ...layers(
    'BCELoss BCEWithLogitsLoss L1Loss MSELoss KLDivLoss PoissonNLLLoss SmoothL1Loss HuberLoss',
    () => [{ reduction: 'sum' }],
    () => [matrix(), matrix()],
  ),
  ...layers(
    'CrossEntropyLoss NLLLoss',
    () => [{ reduction: 'sum' }],
    () => [matrix(), whole(0, 2)],
  ),
  ...layers(
    'HingeEmbeddingLoss SoftMarginLoss',
    () => [{ reduction: 'sum' }],
    () => [ones([2]), signs()],
  ),
  ...layers(
    'MultiLabelSoftMarginLoss',
    () => [{ reduction: 'sum' }],
    () => [matrix(), matrix()],
  ),
  ...layers(
    'CosineEmbeddingLoss',
    () => [{ margin: 0.5 }],
    () => [matrix(), matrix(), signs()],
  ),
  ...layers(
    'MarginRankingLoss',
    () => [{ margin: 0.5 }],
    () => [ones([2]), ones([2]), signs()],
  ),
  ...layers(
    'GaussianNLLLoss',
    () => [{ full: true }],
    () => [matrix(), matrix(), matrix()],
  ),
  ...layers(
    'TripletMarginLoss',
    () => [{ margin: 0.5 }],
    () => [matrix(), matrix(), matrix()],
  ),
  ...layers(
    'CosineSimilarity',
    () => [1, 1e-8],
    () => [matrix(), matrix()],
  ),
  ...layers(
    'PairwiseDistance',
    () => [2, 1e-6],
    () => [matrix(), matrix()],
  ),
};

const stepped: Made['methods'] = {
  step: () => [[ones([2])]],
  addParamGroup: () => [{ params: [parameter()], lr: 0.5 }],
  changeOptions: () => [[{ lr: 0.5 }]],
};
const OPTIMIZERS: Classes = Object.fromEntries(
  (['Adadelta', 'Adagrad', 'Adam', 'AdamW', 'Adamax', 'RAdam', 'RMSprop', 'Rprop', 'SGD'] as const).map((name) => [
    name,
    {
      args: () => [[parameter()], { lr: 0.1, maximize: false }],
      methods: { ...stepped, loadStateDict: () => [new optim[name]([parameter()], { lr: 0.1 }).stateDict()] },
    },
  ]),
);

const numbers = (): Tensor => tensor([1, 2]);
const drawn: Made['methods'] = { sample: () => [[2]], logProb: () => [tensor([0.5])] };
const positive: Made['methods'] = { sample: () => [[2]], logProb: () => [tensor([1])] };
const DISTRIBUTIONS: Classes = {
  ...Object.fromEntries(
    ['Cauchy', 'Gumbel', 'Laplace', 'LogNormal', 'Normal'].map((name) => [
      name,
      { args: () => [0, 1], methods: drawn },
    ]),
  ),
  Uniform: { args: () => [0, 1], methods: drawn },
  Exponential: { args: () => [1], methods: drawn },
  HalfNormal: { args: () => [1], methods: drawn },
  ...Object.fromEntries(
    ['Bernoulli', 'Geometric'].map((name) => [name, { args: () => [{ probs: vector() }], methods: positive }]),
  ),
  Categorical: { args: () => [{ probs: vector() }], methods: positive },
  OneHotCategorical: {
    args: () => [{ probs: vector() }],
    methods: { sample: () => [[2]], logProb: () => [tensor([1, 0, 0])] },
  },
  Independent: { args: () => [new distributions.Normal(vector(), ones([3])), 1], methods: { sample: () => [[2]] } },
};

const items = (): unknown => new data.TensorDataset(matrix(), numbers());
const DATA: Classes = {
  TensorDataset: { args: () => [matrix(), numbers()], methods: { get: () => [0] } },
  ConcatDataset: { args: () => [[items(), items()]], methods: { get: () => [0] } },
  Subset: { args: () => [items(), [0]], methods: { get: () => [0] } },
  DataLoader: { args: () => [items(), { batchSize: 2, shuffle: true, dropLast: false }] },
  BatchSampler: { args: () => [new data.SequentialSampler(items() as never), 2, true] },
  DistributedSampler: { args: () => [items(), { numReplicas: 2, rank: 0 }] },
  RandomSampler: { args: () => [items(), { replacement: true }] },
  SequentialSampler: { args: () => [items()] },
  SubsetRandomSampler: { args: () => [[0, 1]] },
  WeightedRandomSampler: { args: () => [[0.5, 0.5], 2, { replacement: true }] },
};

const prefixed = <T>(prefix: string, table: Readonly<Record<string, T>>): Record<string, T> =>
  Object.fromEntries(Object.entries(table).map(([name, value]) => [`${prefix}${name}`, value]));

export const FUNCTIONS: Table = {
  ...OPERATIONS,
  ...LOSSES,
  ...CREATION,
  ...PROGRAMS,
  'distributions.klDivergence': () => [new distributions.Normal(0, 1), new distributions.Normal(0, 1)],
  'data.defaultCollate': () => [[matrix(), matrix()]],
  'data.randomSplit': () => [items(), [1, 1]],
};
export const CLASSES: Classes = {
  ...prefixed('nn.', MODULES),
  ...prefixed('optim.', OPTIMIZERS),
  'optim.SparseAdam': { args: () => [[parameter()], { lr: 0.1 }], methods: { step: () => [[ones([2]).toSparse()]] } },
  ...prefixed('distributions.', DISTRIBUTIONS),
  ...prefixed('data.', DATA),
};

/** What is not tried, because it takes nothing, takes what only this package makes, or changes the process. */
export const UNTRIED: readonly string[] = [
  ...'AutogradError DisposedError DTypeError ShapeError TensorError data.DataLoaderWorkerError'.split(' '),
  ...'isGradEnabled isAutocastEnabled memory devices backendName describeBackend getNumThreads'.split(' '),
  // Bases, and what is made of other programs' objects.
  ...'Tensor Parameter nn.Module nn.LayersModule nn.fromLayers optim.Optimizer distributions.Distribution'.split(' '),
  ...'data.workerDataset data.workerFunction data.getWorkerInfo nn.DistributedDataParallel'.split(' '),
  // test/arguments.test.ts, and the tests of what it scales.
  ...'setBackend GradScaler'.split(' '),
  ...'constructor joined dispose release adoptSparse become'.split(' '),
];
