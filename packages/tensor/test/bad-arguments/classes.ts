/** @file How every public class is made, and its methods are called: what the test of bad arguments starts from. */
import * as bw from '../../src/index.ts';
import { data, distributions, nn, ones, optim, tensor, type Tensor } from '../../src/index.ts';
import { vector, matrix, whole, signs, image, parameter, items, numbers, type Arguments } from './values.ts';

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

export const CLASSES: Classes = {
  ...prefixed('nn.', MODULES),
  ...prefixed('optim.', OPTIMIZERS),
  'optim.SparseAdam': { args: () => [[parameter()], { lr: 0.1 }], methods: { step: () => [[ones([2]).toSparse()]] } },
  ...prefixed('distributions.', DISTRIBUTIONS),
  ...prefixed('data.', DATA),
};
