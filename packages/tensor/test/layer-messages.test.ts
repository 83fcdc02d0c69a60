/** @file What layers and losses refuse: the message names what was called and what it expects, not an operation that it is made of. */
import { describe, expect, it } from 'vitest';
import * as bw from '../src/index.ts';
import { nn, ones, ShapeError } from '../src/index.ts';

const classes = (...ids: number[]): bw.Tensor => bw.tensor(ids, { dtype: 'int64' });

const REFUSED: readonly (readonly [name: string, run: () => unknown, message: string])[] = [
  ['Linear', () => new nn.Linear(4, 3).forward(ones([2, 5])), 'nn.Linear(4, 3) takes x [..., 4], got [2, 5]'],
  ['Linear of a vector', () => new nn.Linear(4, 3).forward(ones([5])), 'nn.Linear(4, 3) takes x [..., 4], got [5]'],
  ['Linear of a number', () => new nn.Linear(4, 3).forward(ones([])), 'nn.Linear(4, 3) takes x [..., 4], got []'],
  [
    'Linear within others',
    () => new nn.Sequential(new nn.Linear(4, 3), new nn.ReLU(), new nn.Linear(5, 2)).forward(ones([2, 4])),
    'nn.Linear(5, 2) takes x [..., 5], got [2, 3]',
  ],
  ['linear', () => bw.linear(ones([2, 5]), ones([3, 4])), 'linear(): a weight [3, 4] takes x [..., 4], got [2, 5]'],
  [
    'linear of a vector',
    () => bw.linear(ones([2, 5]), ones([4])),
    'linear(): a weight [4] takes x [..., 4], got [2, 5]',
  ],
  [
    'Conv1d',
    () => new nn.Conv1d(3, 4, 2).forward(ones([2, 4, 5])),
    'conv1d(): Given groups=1, weight of size [4, 3, 2], expected input[2, 4, 5] to have 3 channels, but got 4 channels instead',
  ],
  ['Conv1d of what is too short', () => new nn.Conv1d(3, 4, 7).forward(ones([2, 3, 5])), 'conv1d(): Calculated padded'],
  ['AvgPool1d', () => new nn.AvgPool1d(7).forward(ones([2, 3, 5])), 'avgPool1d(): Calculated padded'],
  [
    'Conv3d',
    () => new nn.Conv3d(3, 4, 2).forward(ones([2, 4, 5, 5, 5])),
    'conv3d(): Given groups=1, weight of size [4, 3, 2, 2, 2], expected input[2, 4, 5, 5, 5] to have 3 channels, but got 4 channels instead',
  ],
  [
    'ConvTranspose1d',
    () => new nn.ConvTranspose1d(3, 4, 2).forward(ones([2, 4, 5])),
    'convTranspose1d: weight [3, 4, 2] does not fit 4 channels in 1 groups',
  ],
  [
    'ConvTranspose3d',
    () => new nn.ConvTranspose3d(3, 4, 2).forward(ones([2, 4, 5, 5, 5])),
    'convTranspose3d: weight [3, 4, 2, 2, 2] does not fit 4 channels in 1 groups',
  ],
  ['BatchNorm1d', () => new nn.BatchNorm1d(3).forward(ones([2, 4])), 'BatchNorm1d takes 3 channels, got [2, 4]'],
  [
    'BatchNorm1d whose eps is below zero',
    () => new nn.BatchNorm1d(3, { eps: -1e-5 }).forward(ones([2, 3])),
    'batchNorm: eps is added to variances, and is above 0 while training, but got -0.00001',
  ],
  [
    'BatchNorm1d in evaluation mode whose eps is below zero',
    () => new nn.BatchNorm1d(3, { eps: -2 }).eval().forward(ones([2, 3])),
    'batchNorm: eps is added to variances, and is not below 0, but got -2',
  ],
  [
    'MultiheadAttention with a mask of batches beside one sequence',
    () => {
      const x = ones([2, 4]);
      return new nn.MultiheadAttention(4, 1).forward(x, x, x, { keyPaddingMask: ones([1, 2]) });
    },
    'MultiheadAttention: beside a query of one sequence [L, E] the keyPaddingMask is [2], but got [1, 2]',
  ],
  [
    'dirac_ of half a group',
    () => nn.init.dirac_(ones([2, 2, 3]), 0.5),
    'nn.init.dirac_(): groups is a whole number of at least 1, got 0.5',
  ],
  [
    'BatchNorm2d without weights',
    () => new nn.BatchNorm2d(3, { affine: false }).forward(ones([2, 4, 5, 5])),
    'BatchNorm2d takes 3 channels, got [2, 4, 5, 5]',
  ],
  [
    'InstanceNorm1d of no batch',
    () => new nn.InstanceNorm1d(3, { affine: true }).forward(ones([4, 5])),
    'InstanceNorm1d takes 3 channels, got [4, 5]',
  ],
  [
    'BatchNorm2d of vectors',
    () => new nn.BatchNorm2d(3).forward(ones([2, 3])),
    'BatchNorm2d: expected 4D input (got 2D input)',
  ],
  [
    'Embedding',
    () => new nn.Embedding(4, 3).forward(classes(5)),
    'nn.Embedding: index 5 is out of bounds for dimension with size 4',
  ],
  [
    'Embedding of fractions',
    () => new nn.Embedding(4, 3).forward(bw.tensor([0.5])),
    'nn.Embedding: indices must be whole',
  ],
  [
    'sparse Embedding',
    () => new nn.Embedding(4, 3, { sparse: true }).forward(classes(5)),
    'nn.Embedding: index 5 is out of bounds for dimension with size 4',
  ],
  [
    'EmbeddingBag',
    () => new nn.EmbeddingBag(4, 3).forward(classes(5, 1).reshape([1, 2])),
    'nn.EmbeddingBag: index 5 is out of bounds for dimension with size 4',
  ],
  ...(['LSTM', 'GRU', 'RNN', 'LSTMCell', 'GRUCell', 'RNNCell'] as const).map(
    (name) =>
      [
        `${name} of doubles`,
        () => {
          const layer: { forward(x: bw.Tensor): unknown } = new nn[name](4, 3);
          layer.forward(ones(name.endsWith('Cell') ? [2, 4] : [2, 2, 4], { dtype: 'float64' }));
        },
        `${name}() takes operands of one dtype, but got float64 and float32: convert one with to()`,
      ] as const,
  ),
  [
    'MultiheadAttention',
    () => new nn.MultiheadAttention(4, 2).forward(ones([2, 3, 5]), ones([2, 3, 5]), ones([2, 3, 5])),
    'MultiheadAttention: was expecting embedding dimension of 4, but got 5',
  ],
  [
    'MultiheadAttention of other keys',
    () => new nn.MultiheadAttention(4, 2).forward(ones([2, 3, 4]), ones([2, 3, 5]), ones([2, 3, 4])),
    'MultiheadAttention: keys have 4 channels, got [2, 3, 5]',
  ],
  [
    'MultiheadAttention of other values',
    () => new nn.MultiheadAttention(4, 2, { vdim: 6 }).forward(ones([2, 3, 4]), ones([2, 3, 4]), ones([2, 3, 4])),
    'MultiheadAttention: values have 6 channels, got [2, 3, 4]',
  ],
  [
    'MultiheadAttention of two batches',
    () => new nn.MultiheadAttention(4, 2).forward(ones([2, 3, 4]), ones([2, 2, 4]), ones([2, 2, 4])),
    'MultiheadAttention: a batch of 3 queries does not fit one of 2 keys',
  ],
  [
    'a mask of MultiheadAttention',
    () =>
      new nn.MultiheadAttention(4, 2).forward(ones([2, 3, 4]), ones([2, 3, 4]), ones([2, 3, 4]), {
        attnMask: ones([3, 3]),
      }),
    'MultiheadAttention: The shape of the attnMask is [3, 3], but should be [2, 2]',
  ],
  [
    'TransformerDecoderLayer',
    () => new nn.TransformerDecoderLayer(4, 2).forward(ones([2, 3, 4]), ones([2, 3, 5])),
    'MultiheadAttention: keys have 4 channels, got [2, 3, 5]',
  ],
  [
    'CrossEntropyLoss',
    () => new nn.CrossEntropyLoss().forward(ones([2, 3]), classes(1, 2, 0)),
    'crossEntropy(): expected target of shape [2], got [3]',
  ],
  [
    'CrossEntropyLoss of a class that is not',
    () => new nn.CrossEntropyLoss({ labelSmoothing: 0.1 }).forward(ones([2, 3]), classes(1, 7)),
    'crossEntropy(): Target 7 is out of bounds: there are 3 classes',
  ],
  [
    'TripletMarginLoss',
    () => new nn.TripletMarginLoss().forward(ones([2, 3]), ones([2, 2]), ones([2, 3])),
    'tripletMarginLoss(): The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1',
  ],
  [
    'CrossEntropyLoss of probabilities with weights of other classes',
    () => new nn.CrossEntropyLoss({ weight: ones([4]) }).forward(ones([2, 3]), ones([2, 3])),
    'crossEntropy: the weight should be defined for all 3 classes, but has shape [4]',
  ],
  [
    'GroupNorm',
    () => new nn.GroupNorm(2, 4).forward(ones([2, 6, 3])),
    'groupNorm: expected a weight of shape [6], got [4]',
  ],
  [
    'GroupNorm of one channel',
    () => new nn.GroupNorm(1, 4).forward(ones([2, 1, 3])),
    'groupNorm: expected a weight of shape [1], got [4]',
  ],
  [
    'groupNorm with one bias for all channels',
    () => bw.groupNorm(ones([2, 4, 3]), 2, ones([4]), ones([1])),
    'groupNorm: expected a bias of shape [4], got [1]',
  ],
  [
    'layerNorm with a weight of more',
    () => bw.layerNorm(ones([1, 4]), [4], ones([3, 4])),
    'layerNorm: expected a weight of shape [4], got [3, 4]',
  ],
  [
    'layerNorm with one bias for all',
    () => bw.layerNorm(ones([2, 4]), [4], null, ones([1])),
    'layerNorm: expected a bias of shape [4], got [1]',
  ],
  [
    'groupNorm with a table for its weight',
    () => bw.groupNorm(ones([2, 4, 3]), 2, ones([2, 2])),
    'groupNorm: expected a weight of shape [4], got [2, 2]',
  ],
  ['PoissonNLLLoss', () => new nn.PoissonNLLLoss().forward(ones([2, 3]), ones([2, 4])), 'poissonNllLoss(): The size'],
  [
    'HingeEmbeddingLoss',
    () => new nn.HingeEmbeddingLoss().forward(ones([2, 3]), ones([2, 4])),
    'hingeEmbeddingLoss(): The',
  ],
  ['SoftMarginLoss', () => new nn.SoftMarginLoss().forward(ones([2, 3]), ones([2, 4])), 'softMarginLoss(): The size'],
  [
    'PairwiseDistance',
    () => new nn.PairwiseDistance().forward(ones([2, 3]), ones([2, 4])),
    'pairwiseDistance(): The size',
  ],
  [
    'scaledDotProductAttention',
    () => bw.scaledDotProductAttention(ones([2, 3]), ones([2, 4]), ones([2, 4])),
    'scaledDotProductAttention(): mat1 and mat2 shapes cannot be multiplied (2x3 and 4x2)',
  ],
  [
    'binaryCrossEntropy with weights of more',
    () => bw.binaryCrossEntropy(ones([3, 4]), ones([3, 4]), { weight: ones([2, 3, 4]) }),
    "binaryCrossEntropy: weight: output with shape [3, 4] doesn't match the broadcast shape [2, 3, 4]",
  ],
  [
    'binaryCrossEntropyWithLogits with weights of more',
    () => bw.binaryCrossEntropyWithLogits(ones([3, 4]), ones([3, 4]), { weight: ones([1, 3, 4]) }),
    "binaryCrossEntropyWithLogits: weight: output with shape [3, 4] doesn't match the broadcast shape [1, 3, 4]",
  ],
  [
    'BCEWithLogitsLoss with posWeight of more',
    () => new nn.BCEWithLogitsLoss({ posWeight: ones([2, 4]) }).forward(ones([4]), ones([4])),
    "binaryCrossEntropyWithLogits: posWeight: output with shape [4] doesn't match the broadcast shape [2, 4]",
  ],
  [
    'MultiLabelSoftMarginLoss with weights of more',
    () => new nn.MultiLabelSoftMarginLoss({ weight: ones([2, 4]) }).forward(ones([4]), ones([4])),
    "multilabelSoftMarginLoss: weight: output with shape [4] doesn't match the broadcast shape [2, 4]",
  ],
  [
    'SoftMarginLoss of a target of more',
    () => new nn.SoftMarginLoss().forward(ones([1, 4]), ones([3, 4])),
    "softMarginLoss: target: output with shape [1, 4] doesn't match the broadcast shape [3, 4]",
  ],
  [
    'scaledDotProductAttention with a mask of more',
    () => bw.scaledDotProductAttention(ones([2, 3, 4]), ones([2, 3, 4]), ones([2, 3, 4]), { mask: ones([5, 1, 3, 3]) }),
    "scaledDotProductAttention(): mask: output with shape [2, 3, 3] doesn't match the broadcast shape [5, 2, 3, 3]",
  ],
  [
    'convTranspose3d with a table for its bias',
    () => bw.convTranspose3d(ones([1, 2, 3, 3, 3]), ones([2, 3, 2, 2, 2]), { bias: ones([3, 1]) }),
    'convTranspose3d(): expected a bias of 3 elements, got [3, 1]',
  ],
  [
    'batchNorm with one statistic',
    () => bw.batchNorm(ones([4, 3]), { runningMean: ones([3]) }),
    'batchNorm: runningMean and runningVar must either both be given or neither be; runningVar is missing',
  ],
  [
    'batchNorm without statistics',
    () => bw.batchNorm(ones([4, 3]), { training: false }),
    'batchNorm: runningMean and runningVar must be defined in evaluation mode',
  ],
  [
    'batchNorm with a table for its mean',
    () => bw.batchNorm(ones([4, 3]), { runningMean: ones([3, 1]), runningVar: ones([3]) }),
    'batchNorm: runningMean has one dimension, [C], but got [3, 1]',
  ],
  [
    'instanceNorm with one statistic',
    () => bw.instanceNorm(ones([2, 3, 4]), { runningVar: ones([3]) }),
    'instanceNorm: runningMean and runningVar must either both be given or neither be; runningMean is missing',
  ],
  [
    'EmbeddingBag with a table of offsets',
    () => new nn.EmbeddingBag(5, 3).forward(classes(0, 1), classes(0, 1).reshape([2, 1])),
    'EmbeddingBag takes offsets [bags], one for each bag; got [2, 1]',
  ],
  [
    'avgPool2d with three sizes',
    () => bw.avgPool2d(ones([1, 1, 4, 4]), [2, 2, 2] as unknown as [number, number]),
    'avgPool2d(): expected a number, or a list of 2 of them, but got [2, 2, 2]',
  ],
  [
    'avgPool2d with a list of one',
    () => bw.avgPool2d(ones([1, 1, 4, 4]), [1, 1], { padding: [0] as unknown as [number, number] }),
    'avgPool2d(): expected a number, or a list of 2 of them, but got [0]',
  ],
  [
    'addmm',
    () => bw.addmm(ones([2, 2]), ones([2, 3]), ones([4, 2])),
    'addmm: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x2)',
  ],
  [
    'addmm of more',
    () => bw.addmm(ones([1, 2, 2]), ones([2, 3]), ones([3, 2])),
    "addmm: input: output with shape [2, 2] doesn't match the broadcast shape [1, 2, 2]",
  ],
  ['mm', () => bw.mm(ones([2, 3]), ones([4, 2])), 'mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x2)'],
  ['dot', () => bw.dot(ones([3]), ones([4])), 'dot: inconsistent tensor size'],
  ['LSTM of nothing', () => new nn.LSTM(3, 0), 'hiddenSize must be greater than zero'],
  ['GRU of nothing', () => new nn.GRU(0, 3), 'inputSize must be greater than zero'],
  ['allClose with less than no room', () => ones([1]).allClose(ones([1]), { rtol: -1 }), 'rtol must be greater'],
  ['diff of less than none', () => ones([3]).diff(-2), 'diff: n is a whole number of at least 0, but got -2'],
  ['bincount up to a half', () => bw.bincount(classes(0, 1), undefined, 0.5), 'minLength is a whole number'],
  [
    'OneHotCategorical of another event',
    () => new bw.distributions.OneHotCategorical({ probs: ones([1]) }).logProb(bw.eye(3)),
    'The right-most size of value must match event_shape: [3, 3] vs [1].',
  ],
  [
    'CosineEmbeddingLoss',
    () => new nn.CosineEmbeddingLoss().forward(ones([2, 3]), ones([2, 2]), ones([2])),
    'cosineEmbeddingLoss(): The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1',
  ],
];

describe('what layers refuse', () => {
  it.each(REFUSED)('%s', (_, run, message) => {
    expect(run).toThrow(message);
    try {
      run();
    } catch (error) {
      // Engines write the message into the stack when the error is made; that is what is printed.
      expect((error as Error).stack).toContain(message);
    }
  });

  it('has changed nothing', () => {
    const norm = new nn.BatchNorm1d(3);
    expect(() => norm.forward(ones([2, 4]))).toThrow(ShapeError);
    expect(norm.stateDict().get('num_batches_tracked')?.item()).toBe(0);
  });
});
