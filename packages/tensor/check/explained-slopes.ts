/** @file Differences that are meant: slopes where a function has none, or where its terms cancel. */
import { elements, EPSILON } from './dtypes.ts';
import {
  hasOption,
  hasText,
  isExtreme,
  isInfinite,
  isNaNs,
  isNotFinite,
  isOverflow,
  isSecond,
  isSlope,
  largestOf,
  smallestOf,
  someInput,
  someStatement,
  viewsOf,
  type Explanation,
  type Found,
} from './found.ts';
import { isTensor, type Seen, type SeenTensor } from './outcome.ts';
import { isInput, type Input } from './program.ts';

export const SLOPES: readonly Explanation[] = [
  {
    name: 'terms that cancel',
    reason:
      'the slopes of cosineSimilarity, cosineEmbeddingLoss, tripletMarginLoss, normalize and rmsNorm, of layerNorm, groupNorm, batchNorm, instanceNorm, crossEntropy, glu, gelu, hardSwish, attentions, complex quotients and distributions, and the values of these and of cosineEmbeddingLoss, are differences of terms: they are exact but for the rounding of these, which are about 1 over the smallest element of a norm, or as large as the largest element of the others, and the square of that in a second derivative',
    holds: (found) =>
      (isSlope(found) || someStatement(found.program, (line) => /cosineEmbedding|^distributions/i.test(line.op))) &&
      (someStatement(found.program, (line) => NORMS.test(line.op)) || dividesComplex(found)
        ? cancels(found, (line) => 1 / smallestOf(line))
        : someStatement(found.program, (line) => DIFFERENCES.test(line.op)) && cancels(found, largestOf)),
  },
  {
    name: 'second derivatives of sparse values',
    reason:
      'the gradient of the values of a sparse tensor can be differentiated again; in PyTorch it depends on nothing',
    holds: ({ program, difference }) =>
      /^(gradient|value)$/.test(difference.kind) &&
      difference.torchs === 'none' &&
      isSecond(program) &&
      someStatement(program, (line) => line.ts.includes('sparseCooTensor')),
  },
  {
    name: 'complex products in one place',
    reason:
      'the gradient of a complex product that scatterReduce_ writes is conjugated, as that of every product; PyTorch, which refuses it of scatterReduce, forgets to',
    holds: (found) =>
      isSlope(found) &&
      someInput(found.program, (line) => line.dtype === 'complex64') &&
      someStatement(found.program, (line) => /^scatterReduce_/.test(line.op) && line.args.includes('prod')),
  },
  {
    name: 'what toSparse leaves out',
    reason:
      'elements that toSparse leaves out have no slope, whatever gradient is given; in PyTorch they have that of a dense gradient',
    holds: (found) =>
      isSecond(found.program) &&
      isSlope(found) &&
      found.difference.ours.endsWith(': 0') &&
      someStatement(found.program, (line) => /^to_?sparse$/i.test(line.op)),
  },
  {
    name: 'slope of prelu at zero',
    reason:
      'at zero the slope of prelu is its weight, also where it is differentiated again; the second derivative of PyTorch takes the slope there for 1, the first for the weight',
    holds: (found) =>
      isSecond(found.program) &&
      isSlope(found) &&
      someInput(found.program, (line) => smallestOf(line, true) === 0) &&
      someStatement(found.program, (line) => /prelu/i.test(line.op)),
  },
  {
    name: 'second derivatives at edges',
    reason:
      'the second derivative of pow, addcdiv, mish, gelu, asinh, atanh, erf, std, norms, attentions and products is that of the formula at zero, below the normal numbers, at the largest and at infinity, and of a product in what is NaN; that of PyTorch, some of whose terms are zero times infinity or NaN there, is NaN',
    holds: (found) =>
      isSecond(found.program) &&
      isSlope(found) &&
      found.difference.torchs === 'NaN' &&
      !found.difference.ours.endsWith('NaN') &&
      someInput(found.program, (line) => smallestOf(line, true) < 2.3e-308 || isExtreme(line) || isInfinite(line)) &&
      someStatement(found.program, (line) =>
        /^(pow|addcdiv|mish|gelu|asinh|atanh|erf|std|norm|normalize|cosineSimilarity|scaledDotProductAttention|scatterReduce prod|prod)\b/.test(
          line.op,
        ),
      ),
  },
  {
    name: 'zeros of straight lines',
    reason:
      'the second derivative of relu is none; that of PyTorch is zero, which further back is NaN times what is NaN or infinite',
    holds: (found) =>
      isSecond(found.program) &&
      isSlope(found) &&
      (found.difference.torchs === 'NaN' || isNaNs(found.torchs.seen[found.difference.path])) &&
      !found.difference.ours.endsWith('NaN') &&
      someInput(found.program, isNotFinite) &&
      someStatement(found.program, (line) => /\brelu\b/i.test(line.ts) || hasText(line, 'nonlinearity', 'relu')),
  },
  {
    name: 'bend of softplus',
    reason:
      'where its argument is the threshold, the second derivative of softplus is that of the curve, as its value and its slope are; that of PyTorch is the one of the straight line, zero',
    holds: (found) =>
      isSecond(found.program) &&
      isSlope(found) &&
      /^-?0$/.test(found.difference.torchs) &&
      someStatement(found.program, (line) => /softplus/i.test(line.ts)),
  },
  {
    name: 'sides of branch cuts',
    reason:
      'on a branch cut the slope of asin, acos, asinh and acosh is that of the side that the sign of zero says, on which their value is, too; that of PyTorch may be that of the other side, the same but for its sign',
    holds: (found) =>
      isSlope(found) &&
      someInput(found.program, (line) => line.dtype === 'complex64') &&
      isOpposite(found.difference) &&
      someStatement(found.program, (line) => /^(asin|acos)h?\b/.test(line.op)),
  },
  {
    name: 'slopes of what is nearly certain',
    reason:
      'the second derivative of logSigmoid, and of losses of logits, is sigmoid(x) sigmoid(-x), also where that is small; that of PyTorch has 1 - sigmoid(x), which is nothing there',
    holds: (found) =>
      isSecond(found.program) &&
      isSlope(found) &&
      /^-?0$/.test(found.difference.torchs) &&
      // Less than single precision has places for, beside 1.
      Math.abs(Number(found.difference.ours.split(': ').at(-1))) < EPSILON.float32 &&
      someStatement(found.program, (line) =>
        /WithLogits|^softMarginLoss|^multilabelSoftMarginLoss|^logSigmoid/.test(line.op),
      ),
  },
  {
    name: 'factors of nearly singular matrices',
    reason:
      'the slope of qr divides by the diagonal of R, its second derivative twice: rounding counts as often as the smallest of it goes into the largest element, in the second derivative squared, and without bound where it is the rounding of zero',
    holds: (found) => isSlope(found) && isWithin(found, 8 * timesInto(found) ** (isSecond(found.program) ? 2 : 1)),
  },
  {
    name: 'determinants of singular matrices',
    reason:
      'the slope of the determinant of a singular matrix is its cofactors, as in PyTorch where it is differentiated again; that of PyTorch is zero otherwise',
    holds: ({ program, difference, torchs }) =>
      difference.kind === 'gradient' &&
      /^-?0$/.test(difference.torchs) &&
      program.lines.some((line, i) => !isInput(line) && line.op === 'det' && hasZero(torchs.seen[i])),
  },
  {
    name: 'steps by small slopes',
    reason:
      'the slope of a gate that is nearly 1 has but the last places of the gate, which Adam divides by their size: parameters of recurrent layers are within 1e-4 of the rate, for each step, of the exact ones',
    holds: ({ program, difference }) => {
      const [, exact, ours] = /exactly (\S+), allowed \S+\): (\S+)$/.exec(difference.ours) ?? [];
      const steps = program.lines.filter((line) => !isInput(line) && line.op === 'step').length;
      // The rate is 0.01.
      const near = (one: string | undefined): boolean => Math.abs(Number(one) - Number(exact)) <= 1e-6 * steps;
      return (
        difference.kind === 'value' &&
        /\.(weight|bias)_[ih]h_l\d+(_reverse)?$/.test(difference.path) &&
        near(ours) &&
        near(difference.torchs) &&
        someStatement(program, (line) => line.ts.includes('optim.Adam('))
      );
    },
  },
  {
    name: 'gates of numbers near the largest',
    reason:
      'where products near the largest number cancel, a gate of a recurrent layer is open, closed, or between, where alone it has a slope, by the order in which they add up: in single precision no order is exact',
    holds: ({ program, difference }) =>
      difference.kind === 'gradient' &&
      !isOverflow(difference.ours) &&
      !isOverflow(difference.torchs) &&
      someInput(program, isExtreme) &&
      someStatement(program, (line) => /\bnn\.(RNN|GRU|LSTM)(Cell)?\(/.test(line.ts)),
  },
  {
    name: 'slopes under autocast',
    reason:
      'what autocast computes in bfloat16 is rounded to it on the way back, too: gradients in single precision, and what is trained by them, are off by units in the last place of bfloat16',
    holds: (found) =>
      (isSlope(found) || someStatement(found.program, (line) => line.op === 'step')) &&
      someStatement(found.program, (line) => line.ts.includes('bw.autocast(')) &&
      isWithin(found, (4 * EPSILON.bfloat16) / EPSILON.float32),
  },
  {
    name: 'zeros beside what is not finite',
    reason:
      'the slope of a zero in a norm below 1 is taken to be zero, also beside NaN, and that of a zero in cumprod, and of what comes after one, is its formula, also beside infinity; nothing has a slope in a product of all elements of which several are zero, as in PyTorch where no dimension is given; those of PyTorch, zero times the rest or 0, are others',
    holds: ({ program, difference }) =>
      difference.kind === 'gradient' &&
      someInput(program, (line) => smallestOf(line, true) === 0) &&
      (difference.torchs === 'NaN' && !difference.ours.endsWith('NaN')
        ? someStatement(program, (line) => /^(norm|cumprod|prod)\b/.test(line.op))
        : difference.ours.endsWith(': NaN') &&
          someInput(program, isInfinite) &&
          someStatement(program, (line) => /^cumprod\b/.test(line.op))),
  },
  {
    name: 'sums of exponentials of minus infinity',
    reason: 'logSumExp of nothing but -Infinity has no slope; that of PyTorch is NaN',
    holds: (found) =>
      isSlope(found) &&
      found.difference.torchs === 'NaN' &&
      found.difference.ours.endsWith(': 0') &&
      someInput(found.program, isInfinite) &&
      someStatement(found.program, (line) => line.op.startsWith('logSumExp')),
  },
  {
    name: 'expanded statistics',
    reason:
      'batchNorm takes running statistics in every layout; the backward pass of PyTorch reads those that are not contiguous as if they were, beyond what is expanded and beside what is sliced',
    holds: ({ program, difference, torchs }) =>
      difference.kind === 'gradient' &&
      isVector(torchs.seen[difference.path]) &&
      someStatement(program, (line) => line.op === 'batchNorm' && !hasOption(line, 'training')) &&
      viewsOf(program).some((op) => /^(expand|slice|select|diagonal)/.test(op)),
  },
  {
    name: 'batches in columns',
    reason:
      'the gradients of batchNorm are those of the elements in their order; PyTorch, where the images are a transposed view with a dimension of 1 whose strides fit channels-last, takes those of other channels, and others than for a copy of the view',
    holds: ({ program, difference, torchs }) =>
      (difference.kind === 'gradient' ||
        (difference.kind === 'value' && someStatement(program, ({ op }) => /^(step|grad)$/.test(op)))) &&
      !difference.ours.endsWith(': NaN') &&
      Object.values(torchs.seen).some((one) => isTensor(one) && one.shape.length > 2 && one.shape.includes(1)) &&
      someStatement(program, (line) => /BatchNorm/i.test(line.ts)) &&
      viewsOf(program).some((op) => /^(transpose|permute|movedim|swapaxes)/i.test(op)),
  },
  {
    name: 'statistics in steps',
    reason:
      'running statistics may be a view with steps; the backward pass of PyTorch reads them as if they lay one after the other, and past their end',
    holds: ({ program, difference }) =>
      difference.kind === 'gradient' &&
      someStatement(program, (line) => /^batchNorm/i.test(line.op)) &&
      viewsOf(program).some((op) => /^(slice|select|asStrided|unfold)/i.test(op)),
  },
];

function hasZero(seen: Seen | undefined): boolean {
  return isTensor(seen) && sizesOf(seen).includes(0);
}

/** As the weight and the bias of channels. */
function isVector(seen: Seen | undefined): boolean {
  return isTensor(seen) && seen.shape.length === 1;
}

/** Whether both answers are apart by no more than so many units in the last place of the largest element. */
function isWithin({ difference, torchs }: Found, units: number): boolean {
  const seen = torchs.seen[difference.path];
  if (!isTensor(seen)) return false;
  const [, ours] = /: (\S+)$/.exec(difference.ours) ?? [];
  return Math.abs(Number(ours) - Number(difference.torchs)) <= units * EPSILON[seen.dtype] * largestSeen(seen);
}

function sizesOf(seen: SeenTensor): number[] {
  return Array.from(elements(seen.data, seen.dtype) as ArrayLike<number | bigint>, (v) => Math.abs(Number(v)));
}

function largestSeen(seen: SeenTensor): number {
  return sizesOf(seen).reduce((most, v) => Math.max(most, v), 0);
}

/** How often the smallest element on the diagonal of an R goes into the largest element; 0 where there is no R, Infinity for the rounding of zero. */
function timesInto({ program, torchs }: Found): number {
  const at = program.lines.findIndex((line) => !isInput(line) && line.op === 'qr r');
  const seen = torchs.seen[at];
  if (!isTensor(seen) || seen.shape.length < 2) return 0;
  const [rows, columns] = seen.shape.slice(-2) as [number, number];
  const diagonal = sizesOf(seen).filter((_, i) => Math.floor(i / columns) % rows === i % columns);
  const times = largestSeen(seen) / Math.min(...diagonal);
  return times * 8 * EPSILON[seen.dtype] >= 1 ? Infinity : times;
}

const NORMS = /cosine|tripletMargin|normalize|rmsNorm/i;
const DIFFERENCES =
  /^(nn\.)?(layerNorm|groupNorm|batchNorm|instanceNorm|crossEntropy|glu|gelu|hardSwish|scaledDotProductAttention|MultiheadAttention)|^distributions\./i;

/** The two are the same number but for its sign. */
function isOpposite({ ours, torchs }: Found['difference']): boolean {
  const [, own] = /: (\S+)$/.exec(ours) ?? [];
  const sum = Math.abs(Number(own) + Number(torchs));
  return Number(own) !== 0 && sum <= 1e-5 * Math.abs(Number(own));
}

/** The slopes of a / a are 1 / a and -1 / a, each with its own rounding: in PyTorch, too, half of these sums are not zero. */
function dividesComplex({ program }: Found): boolean {
  return (
    someInput(program, (line) => line.dtype === 'complex64') &&
    someStatement(program, (line) => /^div_?$/.test(line.op))
  );
}

/** Both answers are no further from the exact one than terms of this size are rounded. */
function cancels({ program, difference, torchs }: Found, size: (line: Input) => number): boolean {
  const seen = torchs.seen[difference.path];
  const [, exact, ours] = /exactly (\S+), allowed \S+\): (\S+)$/.exec(difference.ours) ?? [];
  if (!isTensor(seen)) return false;
  // Beyond, rounding is no more the reason.
  const largest = Math.min(1e4, Math.max(1, ...program.lines.map((line) => (isInput(line) ? size(line) : 0))));
  const room = 8 * Math.min(EPSILON[seen.dtype], EPSILON.float32) * largest ** (isSecond(program) ? 2 : 1);
  return [ours, difference.torchs].every((one) => Math.abs(Number(one) - Number(exact)) <= Math.min(room, 1e-4));
}
