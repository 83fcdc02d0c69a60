/** @file Differences that are meant: values that no order of work determines, in what is masked, empty, or near the largest number. */
import { elements, EPSILON, SMALLEST } from './dtypes.ts';
import {
  hasOption,
  isComplex,
  isEmpty,
  isExtreme,
  isInfinite,
  isNaNs,
  isOverflow,
  isSlope,
  largestOf,
  someInput,
  someStatement,
  type Explanation,
} from './found.ts';
import { isTensor } from './outcome.ts';
import { isInput, type Input } from './program.ts';

/** What is infinite makes NaN of a score, too. */
function isNotFinite({ data, dtype }: Input): boolean {
  if (data === undefined || /int|bool/.test(dtype)) return false;
  return Array.from(elements(data, dtype) as ArrayLike<number | bigint>, Number).some((v) => !Number.isFinite(v));
}

function sizeOf({ shape }: { readonly shape: readonly number[] }): number {
  return shape.reduce((a, b) => a * b, 1);
}

export const VALUES: readonly Explanation[] = [
  {
    name: 'remainders of large quotients',
    reason:
      'the remainder of doubles is exact, also where their quotient exceeds the largest number; PyTorch multiplies the quotient back in its loop for several elements, and has NaN',
    holds: ({ program, difference }) =>
      difference.kind === 'value' &&
      difference.torchs === 'NaN' &&
      someInput(program, (line) => line.dtype === 'float64') &&
      someStatement(program, (line) => /^remainder/.test(line.op)),
  },
  {
    name: 'what is masked',
    reason:
      'keys that a mask of truths, or causality, leaves out have no part in an attention, whatever they are; PyTorch adds -Infinity to their scores, which leaves NaN as it is',
    holds: ({ program, difference, torchs }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      // What follows from NaN, such as steps that a scaler leaves out, differs as well.
      (difference.torchs === 'NaN' || Object.values(torchs.seen).some(isNaNs)) &&
      someStatement(
        program,
        (line) =>
          line.op === 'scaledDotProductAttention' &&
          (hasOption(line, 'causal') || someInput(program, ({ dtype }) => dtype === 'bool')),
      ),
  },
  {
    name: 'keys at minus infinity',
    reason:
      'a key whose score is -Infinity has no slope in an attention, whatever its value; that of PyTorch, zero times an infinite value, is NaN',
    holds: ({ program, difference }) =>
      difference.kind === 'gradient' &&
      difference.torchs === 'NaN' &&
      !difference.ours.endsWith(': NaN') &&
      someInput(program, isInfinite) &&
      someStatement(program, (line) => /^(scaledDotProductAttention|nn\.MultiheadAttention)/.test(line.op)),
  },
  {
    name: 'scores near the largest number',
    reason:
      'an attention scales its queries, PyTorch queries and keys, each by the root: a score near the largest number may be infinite there, and NaN what follows from it',
    holds: ({ program, difference, torchs }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      // What follows from NaN, such as steps that a scaler leaves out, differs as well.
      (difference.torchs === 'NaN' || Object.values(torchs.seen).some(isNaNs)) &&
      !isOverflow(difference.ours) &&
      someInput(program, isExtreme) &&
      someStatement(program, (line) => line.op === 'scaledDotProductAttention'),
  },
  {
    name: 'rows of NaN',
    reason:
      'a row whose scores are all NaN, or as its mask leaves them, attends to NaN, as in the plain attention of PyTorch; its fused one makes such a row zero',
    holds: ({ program, difference }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      difference.torchs === '0' &&
      difference.ours.endsWith(': NaN') &&
      someInput(program, isNotFinite) &&
      someStatement(program, (line) => line.op === 'scaledDotProductAttention'),
  },
  {
    name: 'doubles near the largest',
    reason:
      'what a sparse tensor has at one index adds up before it meets a dense one, in PyTorch after: of doubles near the largest number another part is lost',
    holds: ({ program, difference }) =>
      difference.kind === 'value' &&
      someStatement(program, (line) => /^dense add sparse|^sparse add dense/.test(line.op)) &&
      someInput(program, (line) => line.dtype === 'float64' && isExtreme(line)),
  },
  {
    name: 'zeros at one index',
    reason:
      'what a sparse tensor has at one index adds up before it meets a dense one; PyTorch multiplies each part, and one that is zero makes NaN of infinity',
    holds: ({ program, difference }) =>
      difference.kind === 'value' &&
      difference.torchs === 'NaN' &&
      someInput(program, isInfinite) &&
      someStatement(program, (line) => line.ts.includes('sparseCooTensor')) &&
      someStatement(program, (line) => /\bmul\b/.test(line.op)),
  },
  {
    name: 'order of NaN',
    reason: 'unique takes every NaN for another value; which of them comes first is open',
    holds: ({ program, difference, torchs }) =>
      difference.kind === 'value' &&
      someStatement(program, (line) => line.op === 'unique inverse') &&
      Object.values(torchs.seen).some((one) => isTensor(one) && EPSILON[one.dtype] > 0 && isNaNs(one)),
  },
  {
    name: 'empty sparse tensors in place',
    reason:
      'other handles of a sparse tensor do not change with its sums and products; in PyTorch neither, but for one without elements',
    holds: ({ program, difference, torchs }) =>
      difference.kind === 'value' &&
      isEmpty(torchs) &&
      someStatement(program, (line) => /_\(/.test(line.ts)) &&
      someStatement(program, (line) => line.ts.includes('sparseCooTensor')),
  },
  {
    name: 'parts of complex convolutions',
    reason:
      'each part of a complex convolution is the sum of its own terms; PyTorch takes it from a convolution of the sums of parts, which lose what is small beside the largest numbers',
    holds: ({ program, difference, torchs }) =>
      difference.kind === 'value' &&
      isComplex(torchs.seen[difference.path]) &&
      someInput(program, isExtreme) &&
      someStatement(program, (line) => /^conv/.test(line.op)),
  },
  {
    name: 'zeros of complex differences',
    reason:
      'a difference of complex numbers subtracts their parts; PyTorch multiplies the second by -1 + 0i, which may turn the sign of a zero and with it the branch of a root after it',
    holds: ({ program, difference, torchs }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      program.lines.some((_, i) => isComplex(torchs.seen[String(i)])) &&
      someStatement(program, (line) => /^sub_?\b/.test(line.op)) &&
      someStatement(program, (line) => /^(sqrt|rsqrt|log\w*|a(sin|cos|tan)h?|pow)_?\b/.test(line.op)),
  },
  {
    name: 'normalised by infinity',
    reason:
      'the variance of numbers near the largest is infinite: what is normalised by it is zero, and so is its slope; some loops of PyTorch have NaN',
    holds: ({ program, difference, torchs }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      // What follows from NaN, such as steps that a scaler leaves out, differs as well.
      (difference.torchs === 'NaN' || Object.values(torchs.seen).some(isNaNs)) &&
      difference.ours.endsWith(': 0') &&
      someInput(program, isExtreme) &&
      someStatement(program, (line) => /Norm$/.test(line.op)),
  },
  {
    name: 'averages of infinite gradients',
    reason:
      'an average that goes half the way to an infinite gradient, or further, is infinite; that of PyTorch, which comes from the other end, is NaN, as is the parameter on both sides',
    holds: ({ program, difference }) =>
      difference.torchs === 'NaN' &&
      isOverflow(difference.ours) &&
      /\.exp_avg$/.test(difference.path) &&
      someStatement(program, (line) => /optim\.(Adam|AdamW|Adamax|NAdam|RAdam)\(/.test(line.ts)),
  },
  {
    name: 'decay of infinite parameters',
    reason:
      'SGD takes the decay off the parameter, which leaves an infinite one infinite; PyTorch adds it to the gradient, and where that is infinite, too, has NaN',
    holds: ({ program, difference }) =>
      difference.kind === 'value' &&
      difference.torchs === 'NaN' &&
      /: -?Infinity$/.test(difference.ours) &&
      someStatement(program, (line) => line.ts.includes('optim.SGD(')),
  },
  {
    name: 'long sums of doubles',
    reason:
      'sums of n doubles are four sums of n/4, one after the other, whose rounding is within n/4 units in the last place; PyTorch adds up in blocks, of which fewer are needed',
    holds: ({ program, difference }) => {
      const [, exact, ours] = /exactly (\S+), allowed \S+\): (\S+)$/.exec(difference.ours) ?? [];
      const most = Math.max(
        ...program.lines.map((line) => ('shape' in line && line.dtype === 'float64' ? sizeOf(line) : 0)),
      );
      return (
        most >= 1024 &&
        someStatement(program, (line) => /^(sum|mean|variance|std|norm)\b/.test(line.op)) &&
        Math.abs(Number(ours) - Number(exact)) <= (most / 4) * EPSILON.float64 * Math.abs(Number(exact))
      );
    },
  },
  {
    name: 'deviations of large doubles',
    reason:
      'the deviation of doubles whose squares are beyond the largest number is finite, and has slopes; that of PyTorch is infinite or NaN, and its slopes are zero or NaN',
    holds: ({ program, difference }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      !isOverflow(difference.ours) &&
      (isOverflow(difference.torchs) || /^-?0$/.test(difference.torchs)) &&
      someStatement(program, (line) => /^std\b/.test(line.op)) &&
      someInput(program, (line) => line.dtype === 'float64' && largestOf(line) > 1e150),
  },
  {
    name: 'doubles that are nearly alike',
    reason:
      'what a normalisation makes of doubles that are nearly alike, and its slopes, are differences of terms as large as the largest of them over the least deviation, the root of eps: they are exact but for the rounding of these, in another order than in PyTorch',
    holds: ({ program, difference, torchs }) => {
      const [, exact, ours] = /exactly (\S+), allowed \S+\): (\S+)$/.exec(difference.ours) ?? [];
      const seen = torchs.seen[difference.path];
      const terms =
        Math.max(1, ...program.lines.map((line) => (isInput(line) ? largestOf(line) : 0))) / Math.sqrt(1e-5);
      return (
        isTensor(seen) &&
        seen.dtype === 'float64' &&
        someStatement(program, (line) => /^(nn\.)?(layer|group|instance|batch)Norm/i.test(line.op)) &&
        Math.abs(Number(ours) - Number(exact)) <= 8 * EPSILON.float64 * terms
      );
    },
  },
  {
    name: 'distributions of bytes',
    reason:
      'the density of a distribution whose place is of bytes is that of the numbers; PyTorch takes differences, and negatives, of bytes, which wrap',
    holds: ({ program, difference }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      someInput(program, (line) => line.dtype === 'uint8') &&
      someStatement(program, (line) => line.op.startsWith('distributions.')),
  },
  {
    name: 'below the normal numbers',
    reason:
      'sigmoid of integers is computed in doubles and rounded once, also to numbers below the normal ones, for which the loops of PyTorch have zero',
    holds: ({ program, difference, torchs }) => {
      const seen = torchs.seen[difference.path];
      return (
        isTensor(seen) &&
        difference.torchs === '0' &&
        Math.abs(Number(difference.ours.split(' ').at(-1))) < SMALLEST[seen.dtype] &&
        someStatement(program, (line) => line.op === 'sigmoid')
      );
    },
  },
  {
    name: 'angles of large integers',
    reason:
      'sin, cos and tan of integers are those of the integers; PyTorch takes those of the nearest numbers in single precision, which beyond 16,777,216 are others',
    holds: ({ program, difference }) =>
      difference.kind === 'value' &&
      someInput(program, (line) => /^int(32|64)$/.test(line.dtype) && largestOf(line) > 2 ** 24) &&
      someStatement(program, (line) => /^(sin|cos|tan)$/.test(line.op)),
  },
  {
    name: 'roots of minus infinity',
    reason:
      'the power of -Infinity and 0.5 is Infinity, as in C and, of a tensor of exponents, in PyTorch; of a number PyTorch takes the square root, NaN',
    holds: ({ program, difference, torchs }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      // What follows from NaN, such as steps that a scaler leaves out, differs as well.
      (difference.torchs === 'NaN' || Object.values(torchs.seen).some(isNaNs)) &&
      someInput(program, isInfinite) &&
      someStatement(
        program,
        (line) => /^pow_?\b/.test(line.op) && line.args.some((arg) => Math.abs(Number(arg)) % 1 === 0.5),
      ),
  },
  {
    name: 'terms in place',
    reason: 'addcmul_ rounds the product before it adds it, as addcmul does; the loops of PyTorch may do both in one',
    holds: ({ program, difference, torchs }) => {
      const seen = torchs.seen[difference.path];
      const ours = Number(difference.ours.split(' ').at(-1));
      const largest = Math.max(1, ...program.lines.map((line) => ('shape' in line ? largestOf(line) : 0)));
      return (
        isTensor(seen) &&
        someStatement(program, (line) => line.op === 'addcmul_') &&
        Math.abs(ours - Number(difference.torchs)) <= 2 * EPSILON[seen.dtype] * largest ** 2
      );
    },
  },
  {
    name: 'sequences of sequences',
    reason:
      'a SequentialLR within another begins where its turn begins; PyTorch counts the first step of one that is first twice, and has no way to begin later ones',
    holds: ({ program, difference }) =>
      /^(value|gradient|accepts|refuses)$/.test(difference.kind) &&
      someStatement(program, (line) => (line.ts.match(/new optim\.lrScheduler\.SequentialLR/g)?.length ?? 0) > 1),
  },
  {
    name: 'variances below zero',
    reason:
      'the variance by which RMSprop centres is a difference, which rounding may leave below zero: it is zero then; that of PyTorch has no root, and the parameter is NaN',
    holds: ({ program, difference, torchs }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      // What follows from NaN, such as steps that a scaler leaves out, differs as well.
      (difference.torchs === 'NaN' || Object.values(torchs.seen).some(isNaNs)) &&
      someStatement(program, (line) => line.op === 'RMSprop' && hasOption(line, 'centered')),
  },
  {
    name: 'third derivatives of normalisation',
    reason:
      'the third derivative of layerNorm, groupNorm and batchNorm is that of the formula, as finite differences are; PyTorch differentiates the second as if mean and deviation were constants',
    holds: ({ program, difference }) =>
      /^(gradient|value)$/.test(difference.kind) &&
      program.lines.filter((line) => 'py' in line && line.py.includes('create_graph')).length > 1 &&
      someStatement(program, (line) => /^(layer|group|batch)Norm$/.test(line.op)),
  },
  {
    name: 'norms of one element',
    reason:
      "the slope of a norm of one element is its sign; PyTorch's, a quotient of powers, is NaN where these are beyond the largest number, or nothing",
    holds: (found) =>
      isSlope(found) &&
      found.difference.torchs === 'NaN' &&
      /: -?[\d.e-]+$/.test(found.difference.ours) &&
      someStatement(found.program, (line) =>
        /^(norm|norms|normalize|nn\.PairwiseDistance|pairwiseDistance)$/.test(line.op),
      ),
  },
  {
    name: 'bags of truths',
    reason: 'the ids of a bag are integers; PyTorch takes truths for them, too, where offsets are given',
    holds: ({ difference }) =>
      difference.kind === 'refuses' && difference.ours.includes('EmbeddingBag() does not take bool'),
  },
];
