/** @file Differences that are meant: arguments that do not fit, of which one side makes something. */
import { someStatement, type Explanation, type Found } from './found.ts';

const refuses = (words: RegExp): Explanation['holds'] => {
  return ({ difference }: Found) => difference.kind === 'refuses' && words.test(difference.ours);
};

const accepts = (words: RegExp): Explanation['holds'] => {
  return ({ difference }: Found) => difference.kind === 'accepts' && words.test(difference.torchs);
};

export const SPOILT: readonly Explanation[] = [
  {
    name: 'refused sooner or later',
    reason:
      'an argument that does not fit is refused where it is first known not to: of a layer when it is made, of a sparse tensor at once; PyTorch may refuse it when it is used, or the other way about',
    holds: ({ difference, ours, torchs }) =>
      /^(accepts|refuses)$/.test(difference.kind) && ours.refusal !== undefined && torchs.refusal !== undefined,
  },
  {
    name: 'options that mean nothing',
    reason:
      'a smoothing of labels outside of 0 to 1, steps of a schedule below zero, offsets of bags that fall, groups of dirac_ below one and options that lead to rates that are no numbers are refused; PyTorch computes with them',
    holds: refuses(
      /labelSmoothing must be|^RangeError: \w+LR: |^TypeError: \w+LR: \w+ is a number, got NaN|offsets fall, or pass|dirac_\(\): groups/,
    ),
  },
  {
    name: 'other ranks',
    reason:
      'dropout of channels, pools of images, channel norms, states, targets and weights of classes, sequences of a batch and lengths that are packed have the dimensions that belong to them; PyTorch takes others, also a list of one number for two directions, warns, broadcasts, or does not look where there are no elements',
    holds: refuses(
      /Dropout[123]d takes|expected images \[N|BatchNorm\dd takes|expected a state|expected states|expected target of shape|weight should be defined for all|expects each tensor to be equal size|len\(lengths\)|packed elements|var is of incorrect size|multilabelSoftMarginLoss: target|nothing to pad|leaves nothing of a dimension|Calculated padded input size|do not fit \d+ indices|output with shape|expected a number, or a list|indexCopy: source/,
    ),
  },
  {
    name: 'dtypes of losses',
    reason:
      'losses take floats, and searchSorted and bucketize values of the dtype of their boundaries; PyTorch takes integers and truths where the parts of a loss happen to, and values of one element of any dtype',
    holds: refuses(/Loss\(\)? ?does not take|WithLogits\(\) does not take|should have same dtype, but got/),
  },
  {
    name: 'numbers for positions',
    reason:
      'a number that is no integer may be ignoreIndex, which then is no class; PyTorch takes integers only, and in Python 1.0 is none',
    holds: accepts(/argument '\w+' \(position \d+\) must be (int|tuple of ints), not float/),
  },
  {
    name: 'Bernoullis of two shapes',
    reason: 'the divergence of Bernoullis broadcasts, as those of other distributions; that of PyTorch fails on a mask',
    holds: ({ program, difference }) =>
      difference.kind === 'accepts' &&
      difference.torchs.includes('The shape of the mask') &&
      someStatement(program, (line) => line.op.startsWith('distributions.klDivergence')),
  },
  {
    name: 'sparse tensors that broadcast',
    reason:
      'indices of one dimension may be a vector, and sparse tensors broadcast in sums and products; PyTorch wants two dimensions, and equal shapes',
    holds: accepts(/sparse_dim x nnz, but got|sparse_binary_op_intersection|to have same size, but self has size/),
  },
  {
    name: 'allClose of what differs',
    reason: 'allClose promotes two dtypes, and is false of shapes that do not broadcast; PyTorch refuses both',
    holds: ({ program, difference }) =>
      difference.kind === 'accepts' &&
      /did not match|must match the size of tensor b/.test(difference.torchs) &&
      someStatement(program, (line) => line.op === 'allClose'),
  },
  {
    name: 'ones in front of a value',
    reason: 'a value may have dimensions of 1 in front, as in an assignment; indexPut of PyTorch takes none',
    holds: ({ program, difference }) =>
      difference.kind === 'accepts' &&
      /value tensor of shape \[1, .*cannot be broadcast to indexing/.test(difference.torchs) &&
      someStatement(program, (line) => line.op.startsWith('indexPut')),
  },
  {
    name: 'masks of other floats',
    reason: 'what a mask adds to scores may be of any float; in PyTorch it has the dtype of the query',
    holds: accepts(/Expected attn_mask dtype|Input dtypes must be the same, got: input/),
  },
  {
    name: 'PyTorch fails within',
    reason: 'an assertion inside of PyTorch fails, or what it made cannot be read: there is nothing to compare with',
    holds: ({ torchs }) =>
      torchs.refusal?.name === 'Unreadable' || /INTERNAL ASSERT FAILED/.test(torchs.refusal?.message ?? ''),
  },
  {
    name: 'parameters of another dtype',
    reason: 'vectorToParameters keeps the dtype of each parameter; in PyTorch all have that of the vector',
    holds: ({ program, difference }) =>
      difference.kind === 'dtype' && someStatement(program, (line) => line.ts.includes('vectorToParameters')),
  },
  {
    name: 'bounds that meet',
    reason:
      'nn.Hardtanh takes two bounds that are one number, as hardtanh does; that of PyTorch wants one above the other',
    holds: accepts(/max_val \(.*\) must be greater than min_val/),
  },
  {
    name: 'batches that are refused',
    reason: 'a batch that a norm refuses does not count as tracked; PyTorch counts it before it looks',
    holds: ({ difference, torchs }) => torchs.refusal !== undefined && difference.path.endsWith('.num_batches_tracked'),
  },
];
