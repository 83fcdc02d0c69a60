/** @file Differences that are meant: each with its reason. They are counted, not hidden. */
import { isTensor } from './outcome.ts';
import {
  ignoresFirst,
  isEmptyList,
  isOverflow,
  isExtreme,
  isInfinite,
  isUntouched,
  isComplex,
  sharesMemory,
  isNaNs,
  isState,
  isSecond,
  isSlope,
  isZero,
  largestOf,
  nearlyDoubles,
  someInput,
  someStatement,
  isEmpty,
  type Explanation,
  type Found,
} from './found.ts';
import { REFUSALS } from './explained-refusals.ts';
import { SLOPES } from './explained-slopes.ts';
import { SPOILT } from './explained-spoilt.ts';
import { SUMS } from './explained-sums.ts';
import { VALUES } from './explained-values.ts';
import { isInput, isRef, type Arg } from './program.ts';

export const EXPLANATIONS: readonly Explanation[] = [
  {
    name: 'PyTorch ends',
    reason: 'PyTorch itself ends by a signal: there is nothing to compare with',
    holds: ({ torchs }) => torchs.refusal?.name === 'Crash',
  },
  {
    name: 'one complex dtype',
    reason: 'there is one complex dtype, complex64; what PyTorch makes complex128 or complex32 is complex64 here',
    holds: ({ torchs }) =>
      Object.values(torchs.seen).some((one) => 'dtype' in one && /^complex(128|32)$/.test(one.dtype)) ||
      (torchs.refusal?.message.includes('ComplexHalf') ?? false),
  },
  {
    name: 'variance over no dimensions',
    reason:
      'the derivative of var and std in PyTorch divides by the count of no elements when the list of dimensions is empty, which means all',
    holds: ({ program, difference }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      someStatement(program, (line) => /^(variance|std)$/.test(line.op) && isEmptyList(line.args[1])),
  },
  {
    name: 'derivative of our own',
    reason:
      'PyTorch has no derivative of this operation, or not for complex numbers or nothing; here it follows from the parts',
    holds: ({ difference }) =>
      difference.kind === 'accepts' &&
      /derivative for (aten::|')\w+_backward'? is not implemented|PixelShuffleBackward0 returned an invalid gradient|pixel_shuffle expects its input|does not support automatic differentiation|input_is_complex == grad_is_complex|_backward\(\): Expected grad_output to have non-zero size|Double backward is unsupported for src/.test(
        difference.torchs,
      ),
  },
  {
    name: 'distributions of nothing',
    reason:
      'a distribution of an empty batch, of whole numbers, or of probabilities in half precision has a density; PyTorch fails on its way to it, in a reshape, in finfo or where it adds the probabilities up',
    holds: ({ program, difference }) =>
      difference.kind === 'accepts' &&
      /cannot reshape tensor of 0 elements|torch\.finfo\(\) requires|constraint Simplex\(\)/.test(difference.torchs) &&
      someStatement(program, (line) => line.op.startsWith('distributions.')),
  },
  {
    name: 'infinite whole numbers',
    reason: 'the variance of a Cauchy distribution is infinite also where its place is of whole numbers or bool',
    holds: ({ program }) =>
      someStatement(program, (line) => line.op.startsWith('distributions.Cauchy')) &&
      someInput(program, (line) => /int|bool/.test(line.dtype)),
  },
  {
    name: 'zero or none',
    reason:
      'whether a gradient that is zero everywhere is computed to be zero, or known to be none, follows from how the derivative is written',
    holds: ({ difference, ours, program, torchs }) =>
      (difference.kind === 'requiresGrad' && someStatement(program, ignoresFirst)) ||
      ((difference.kind === 'gradient' || isSecond(program)) &&
        ((difference.torchs === 'none' && isZero(ours.seen[difference.path])) ||
          (difference.ours === 'none' && isZero(torchs.seen[difference.path])) ||
          (isSecond(program) && isZero(torchs.seen[difference.path]) && someStatement(program, ignoresFirst)))),
  },
  {
    name: 'constant gradient',
    reason:
      'whether a recorded gradient that depends on nothing counts as recorded follows from how the derivative is written',
    holds: ({ program, difference }) => isSecond(program) && difference.kind === 'requiresGrad',
  },
  {
    name: 'steps of SGD',
    reason: 'every optimiser counts the steps of a parameter in its state dict; SGD in PyTorch does not',
    holds: ({ difference, program }) =>
      difference.kind === 'missing' &&
      difference.path.endsWith('.step') &&
      someStatement(program, (line) => line.ts.includes('optim.SGD')),
  },
  {
    name: 'single accumulators',
    reason:
      'accumulators of half-precision parameters are kept in single precision; in PyTorch they have the precision of the parameter',
    holds: ({ difference }) => difference.kind === 'dtype' && difference.ours === 'float32' && isState(difference.path),
  },
  {
    name: 'state from the first step',
    reason:
      'what an optimiser remembers of a parameter begins with its first step; in PyTorch with a step that is refused, of Adagrad with its constructor',
    holds: ({ difference, torchs }) =>
      difference.kind === 'missing' &&
      difference.ours === 'nothing of that name' &&
      (torchs.refusal !== undefined ||
        isUntouched(torchs.seen[`${difference.path.split('.').slice(0, 2).join('.')}.step`])),
  },
  {
    name: 'whole numbers as positions',
    reason: 'positions and classes may be given in every dtype whose elements are whole; PyTorch takes int32 and int64',
    holds: ({ difference }) =>
      difference.kind === 'accepts' &&
      /Expected dtype (int32(\/| or ))?int64 for index|expected target dtype to be Long or Byte|repeat_interleave_cpu. not implemented|Expected a long tensor for index|tensors used as indices must be long|dtype of indices should be Long|bincount_cpu. not implemented|one_hot is only applicable|expected scalar type Long but found (Byte|Char|Short|Int)|scalar types: Long, Int; but got torch\.(Float|Double)Tensor/.test(
        difference.torchs,
      ),
  },
  {
    name: 'positions outside',
    reason:
      'a position outside of its dimension is refused, also where there is nothing to read or to write; PyTorch does not look at all of them',
    holds: ({ difference }) => difference.kind === 'refuses' && /index -?\d+ is out of bounds/.test(difference.ours),
  },
  {
    name: 'what does not count',
    reason:
      'with includeSelf: false what was there before has no part in the gradient of scatterReduce; PyTorch counts it where it equals the result',
    holds: ({ difference, program }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      someStatement(program, (line) => /^scatterReduce_? am/.test(line.op) && line.args[5] === false),
  },
  {
    name: 'einsum of small integers',
    reason:
      'einsum of small integers stays in their dtype; PyTorch sums them to int64 on the way, and then refuses the mixture',
    holds: ({ difference }) =>
      difference.kind === 'accepts' && /expected scalar type \w+ but found Long/.test(difference.torchs),
  },
  {
    name: 'median of nothing',
    reason: 'integers have no value for the median of no elements: it is refused; PyTorch gives the smallest one',
    holds: ({ difference }) => difference.kind === 'refuses' && difference.ours.includes('median() of no elements'),
  },
  {
    name: 'changed and then refused',
    reason:
      'what is refused changes nothing; some operations of PyTorch, and steps of its optimisers, have written part of their result before they refuse, and tables with maxNorm have shortened rows',
    holds: ({ difference, torchs, program }) =>
      // A state's name may have 'grad' in it.
      (difference.kind === 'value' || isState(difference.path)) &&
      torchs.refusal !== undefined &&
      (someStatement(program, (line) => /^(nn\.)?embedding/i.test(line.op)) ||
        program.lines.some(
          (line, at) => at >= (torchs.refusal?.at ?? 0) && !isInput(line) && /^(inPlace|step)$/.test(line.rounding),
        )),
  },
  {
    name: 'changed after pow_',
    reason:
      "PyTorch keeps the result of pow_ for the exponent's gradient where nobody wants that, and then refuses that it changes",
    holds: ({ difference, program }) =>
      difference.kind === 'accepts' &&
      difference.torchs.includes('modified by an inplace operation') &&
      someStatement(program, (line) => line.op === 'pow_'),
  },
  {
    name: 'change through an older view',
    reason:
      'a view made before its base became part of the graph may be changed in place: it is part of the graph by now. PyTorch takes the base for a leaf',
    holds: ({ difference }) =>
      difference.kind === 'accepts' &&
      difference.torchs.includes('a leaf Variable that requires grad is being used in an in-place operation'),
  },
  {
    name: 'operand in the memory that changes',
    reason:
      'of an operand that lies in the memory that changes, and that PyTorch does not refuse, all is read before anything is written; in PyTorch it depends on the order of its loops',
    holds: ({ difference, program }) => difference.kind === 'value' && sharesMemory(program),
  },
  {
    name: 'source larger than the index',
    reason:
      'scatterAdd, scatter and scatterReduce have gradients for a source that is larger than the index; PyTorch has none, or one for all of it where the index has no dimensions',
    holds: ({ difference, program, ours }) =>
      (difference.kind === 'accepts' && /Scatter\w*Backward0 returned an invalid gradient/.test(difference.torchs)) ||
      (difference.kind === 'gradient' &&
        difference.ours.endsWith(': 0') &&
        someStatement(program, ({ op, args }) => op.startsWith('scatter') && args.some((arg) => isScalar(arg, ours)))),
  },
  {
    name: 'dtypes of nothing',
    reason:
      'an operation refuses a dtype also of tensors without elements, and linspace of one, for which PyTorch has no loop to refuse it',
    holds: ({ difference, torchs }) =>
      difference.kind === 'refuses' &&
      ((/ does not take | takes operands of one dtype/.test(difference.ours) && isEmpty(torchs)) ||
        difference.ours.includes('linspace() makes no tensors of bool')),
  },
  {
    name: 'real numbers only',
    reason:
      'linear algebra, pooling, which interpolate to one pixel is, rmsNorm and weights of bincount take real numbers only, dropout floats',
    holds: ({ difference }) =>
      difference.kind === 'refuses' &&
      /(inverse|det|solve|cholesky|qr|eigh|eigvalsh|svd|svdvals|slogdet|rmsNorm|interpolate|\w+Pool2d)\(\) does not take complex64|bincount\(\) does not take complex64|dropout\(\) does not take/.test(
        difference.ours,
      ),
  },
  {
    name: 'bytes between bytes',
    reason:
      'interpolate takes bytes in the modes that choose elements; PyTorch has loops for bilinear and bicubic images of bytes, in whole numbers',
    holds: ({ difference }) =>
      difference.kind === 'refuses' &&
      /interpolate with mode '(bilinear|bicubic)'\(\) does not take uint8/.test(difference.ours),
  },
  {
    name: 'sums of sparse halves',
    reason: 'sparse tensors of float16 and of bool add up, and are multiplied',
    holds: ({ difference }) =>
      difference.kind === 'accepts' && /"(cadd|mul_out)_sparse" not implemented/.test(difference.torchs),
  },
  {
    name: 'bias of one vector',
    reason: 'linear with a vector for its weight takes a bias without dimensions for batches, too',
    holds: ({ difference, program }) =>
      difference.kind === 'accepts' &&
      difference.torchs.includes('mat2 must be a matrix, got 1-D tensor') &&
      someStatement(program, (line) => line.op === 'linear'),
  },
  {
    name: 'losses of two dtypes',
    reason:
      "gradients are in the dtype of what they belong to; PyTorch's backward pass of some losses refuses operands of two dtypes",
    holds: ({ difference }) =>
      difference.kind === 'accepts' && /^RuntimeError: Found dtype \w+ but expected \w+/.test(difference.torchs),
  },
  {
    name: 'no channels, no rows',
    reason:
      'normalisation of no channels, or without a weight, and tables without rows have an answer; PyTorch fails on the way to it',
    holds: ({ difference, program }) =>
      difference.kind === 'accepts' &&
      /select\(\): index 0 out of range for tensor of size \[0\]|step must be nonzero|tensor does not have a device|shape '\[0\]' is invalid for input of size/.test(
        difference.torchs,
      ) &&
      someStatement(program, (line) => /norm|EmbeddingBag/i.test(line.ts)),
  },
  {
    name: 'normalisation of nothing',
    reason:
      'the gradient of a weight of which no element was used is 0; in PyTorch that of a group of no elements is NaN',
    holds: ({ difference, program, ours, torchs }) =>
      (difference.kind === 'gradient' || isSecond(program) || /\.(weight|bias|[a-z_]+)$/.test(difference.path)) &&
      !isNaNs(ours.seen[difference.path]) &&
      isNaNs(torchs.seen[difference.path]) &&
      isEmpty(torchs) &&
      someStatement(program, (line) => /Norm/.test(line.ts)),
  },
  {
    name: 'weights of nothing',
    reason: 'bincount of nothing has the dtype of its weights, which it looks at; in PyTorch int64',
    holds: ({ difference, program, torchs }) =>
      (difference.kind === 'dtype' || (difference.kind === 'refuses' && isEmpty(torchs))) &&
      someStatement(program, (line) => line.ts.includes('bincount')),
  },
  {
    name: 'large exponents',
    reason: 'an exponent beyond the dtype of the base counts as it is; PyTorch refuses it',
    holds: ({ difference, program }) =>
      difference.kind === 'accepts' &&
      /cannot be converted to type [\w:]+ without overflow/.test(difference.torchs) &&
      someStatement(program, (line) => /^pow_?\b/.test(line.op)),
  },
  {
    name: 'variance of nothing and of infinity',
    reason:
      'the variance of infinite numbers, or of fewer than the correction takes off, is NaN, and so is its gradient; in PyTorch its terms may be numbers',
    holds: ({ difference, ours, program }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      (difference.ours.endsWith('NaN') || isNaNs(ours.seen[difference.path])) &&
      someStatement(program, (line) => /^(variance|std)\b/.test(line.op)),
  },
  ...SUMS,
  {
    name: 'constants of single precision',
    reason:
      'the sixths of hardSigmoid and hardSwish are those of the dtype; PyTorch takes those of single precision for doubles, too',
    holds: ({ difference, program }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      !/NaN/.test(difference.ours + difference.torchs) &&
      someStatement(program, (line) => /^hard(Sigmoid|Swish)$/.test(line.op)) &&
      someInput(program, (line) => line.dtype === 'float64'),
  },
  {
    name: 'slope of NaN',
    reason:
      'the slope of hardSwish, hardtanh, relu6, softshrink, hardshrink, elu, celu and selu at NaN, and the second one of huberLoss and smoothL1Loss, is that beyond the bend, as in most loops of PyTorch, or in those of its that take few elements; others have another',
    holds: (found) =>
      isSlope(found) &&
      /NaN|^0$/.test(found.difference.torchs) &&
      someStatement(found.program, (line) =>
        /hardSwish|Hardswish|relu6|ReLU6|hardtanh|Hardtanh|(soft|hard)shrink|huberLoss|smoothL1Loss|^(nn\.)?(s|c)?elu$/i.test(
          line.op,
        ),
      ),
  },
  {
    name: 'nearly doubled',
    reason:
      'the nearest places of an image that a factor other than 2 makes twice as large follow from the factor; some loops of PyTorch, of backward passes among them, take those of 2',
    holds: ({ difference, program }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      someStatement(program, (line) => line.op.startsWith('interpolate nearest') && line.args.some(nearlyDoubles)),
  },
  {
    name: 'rows that attend to nothing',
    reason:
      'a row that may attend to nothing has no gradient, whatever the values are; that of PyTorch is NaN where they are infinite',
    holds: ({ difference, program }) =>
      difference.kind === 'gradient' &&
      difference.torchs === 'NaN' &&
      difference.ours.endsWith(': 0') &&
      someStatement(program, (line) => line.op === 'scaledDotProductAttention'),
  },
  {
    name: 'infinite weights',
    reason:
      'a normalised element times a weight near the largest is finite, times an infinite one infinite; PyTorch folds the mean into the bias, and makes it NaN. Its gradient is a difference of infinite numbers, NaN; PyTorch multiplies by the weight at the end, and in doubles its terms are infinite also where those of the formula are not',
    holds: ({ difference, program }) =>
      (difference.kind === 'value'
        ? difference.torchs === 'NaN'
        : difference.kind === 'gradient' &&
          isOverflow(difference.torchs) &&
          (isOverflow(difference.ours) || someInput(program, (line) => line.dtype === 'float64'))) &&
      someInput(program, (line) => isInfinite(line) || isExtreme(line)) &&
      someStatement(program, (line) => /Norm(\dd)?$/.test(line.op)),
  },
  {
    name: 'halves beside doubles',
    reason: 'in a gradient, half precision beside a double counts as single precision',
    holds: ({ difference, program }) =>
      difference.kind === 'gradient' &&
      ['float64', 'float16'].every((one) => someInput(program, (line) => line.dtype.replace('bf', 'f') === one)),
  },
  {
    name: 'infinite complex numbers',
    reason:
      'which part of a product or sum of infinite complex numbers is NaN follows from how it is put together; PyTorch makes more of them NaN',
    holds: ({ difference, program, torchs }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      [difference.ours, difference.torchs].some((shown) => shown.endsWith('NaN')) &&
      program.lines.some((_, i) => isComplex(torchs.seen[String(i)])),
  },
  {
    name: 'large whole numbers in windows',
    reason: 'convolutions and pools of int64 count in doubles: exactly up to 2^53',
    holds: ({ difference, program, torchs }) =>
      difference.kind === 'value' &&
      isTensor(torchs.seen[difference.path]) &&
      (torchs.seen[difference.path] as { dtype: string }).dtype === 'int64' &&
      someStatement(program, (line) => /conv|Pool/i.test(line.ts)),
  },
  {
    name: 'large whole numbers compared',
    reason:
      'allClose weighs the difference of large int64 in double precision; PyTorch rounds what it allows to single precision',
    holds: ({ difference, program: { lines } }) => {
      const line = lines[difference.line];
      if (difference.kind !== 'value' || line === undefined || isInput(line) || line.op !== 'allClose') return false;
      const operands = line.args.flatMap((arg) => (isRef(arg) ? (lines[arg.ref] ?? []) : []));
      return operands.some((one) => isInput(one) && one.dtype === 'int64' && largestOf(one) > 2 ** 24);
    },
  },
  {
    name: 'bounds of integers',
    reason: 'bounds that are no whole numbers make a float of integers; PyTorch rounds the bounds of hardtanh',
    holds: ({ difference, program }) =>
      difference.kind === 'dtype' && someStatement(program, (line) => line.op === 'hardtanh'),
  },
  {
    name: 'no complex numbers in JavaScript',
    reason: 'item() of a complex tensor has no value to give',
    holds: ({ difference }) => difference.ours.includes('item() of a complex tensor'),
  },
  {
    name: 'whole numbers that no double is',
    reason: 'item() of an int64 that no number of JavaScript is refuses to round it; in Python every integer is one',
    holds: ({ difference }) =>
      difference.kind === 'refuses' && difference.ours.includes('is none that a number can hold'),
  },
  {
    name: 'exact ends',
    reason: 'linspace is computed in doubles and rounded once; PyTorch adds up single steps',
    holds: ({ difference, program }) =>
      difference.kind === 'value' && someStatement(program, (line) => line.op === 'linspace'),
  },
  {
    name: 'no images without pixels',
    reason: 'convTranspose2d refuses to give images without pixels; PyTorch does so of some shapes',
    holds: ({ difference }) => difference.kind === 'refuses' && difference.ours.includes('Output size is too small'),
  },
  {
    name: 'statistics that overlap',
    reason: 'running statistics that are one element in several places are not written to',
    holds: ({ difference, program }) =>
      difference.kind === 'refuses' &&
      difference.ours.includes('refers to a single memory location') &&
      someStatement(program, (line) => line.op === 'batchNorm'),
  },
  {
    name: 'rounded once',
    reason:
      'gradients of binaryCrossEntropy are rounded once from what the formula says; PyTorch rounds half precision at each step, and its 1e-12',
    holds: ({ difference, program }) =>
      (difference.kind === 'gradient' || isSecond(program)) &&
      someStatement(program, (line) => /^binaryCrossEntropy|^nn.BCELoss/.test(line.op)) &&
      someInput(program, (line) => /float(16|64)$/.test(line.dtype)),
  },
  {
    name: 'sparse complex gradients',
    reason: 'Adagrad counts a sparse complex gradient as pairs of numbers, as a dense one; PyTorch squares it as it is',
    holds: ({ difference, program }) =>
      difference.kind === 'value' &&
      someStatement(program, (line) => line.ts.includes('optim.Adagrad')) &&
      someStatement(program, (line) => line.ts.includes('sparseCooTensor')),
  },
  {
    name: 'betas in single precision',
    reason:
      'on a GPU the kernel of native TensorFlow for Adam takes 1 - beta from betas of single precision: averages of squares differ by 1e-5 of themselves',
    holds: ({ difference, backend }) => {
      const [own, peer] = [Number(difference.ours.split(' ').at(-1)), Number(difference.torchs)];
      const near = Math.abs(own - peer) <= 2e-5 * Math.abs(peer);
      return backend === 'tensorflow' && difference.path.endsWith('exp_avg_sq') && near;
    },
  },
  {
    name: 'dense velocity',
    reason: 'the velocity of sparse gradients is dense, so that dense ones may follow',
    holds: ({ difference }) =>
      (difference.kind === 'layout' && difference.path.endsWith('momentum_buffer')) ||
      (difference.kind === 'accepts' && difference.torchs.includes('add(sparse, dense) is not supported')),
  },
  ...REFUSALS,
  ...SLOPES,
  ...VALUES,
  ...SPOILT,
];

/** A tensor without dimensions. */
function isScalar(arg: Arg, { seen }: Found['ours']): boolean {
  const one = typeof arg === 'object' && arg !== null && 'ref' in arg ? seen[String(arg.ref)] : undefined;
  return isTensor(one) && one.shape.length === 0 && one.dtype === 'int64';
}

/** The name of the explanation, if there is one. */
export function explain(found: Found): string | undefined {
  return EXPLANATIONS.find(({ holds }) => holds(found))?.name;
}
