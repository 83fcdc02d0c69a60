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
