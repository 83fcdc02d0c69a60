/** @file Differences that are meant: what only one side refuses, in layouts and of nothing. */
import { someStatement, viewsOf, isEmpty, type Explanation } from './found.ts';
import { isInput, type Line } from './program.ts';

export const REFUSALS: readonly Explanation[] = [
  {
    name: 'output padding of nothing',
    reason:
      'convTranspose2d refuses an output padding that no convolution has also of an empty batch; PyTorch does not look',
    holds: ({ difference, torchs }) =>
      difference.kind === 'refuses' && difference.ours.includes('output padding must be smaller') && isEmpty(torchs),
  },
  {
    name: 'sizes of nothing',
    reason:
      'batchNorm looks at its dimensions and weights, the remainder of integers at its divisor, roll at its dimensions, and addmm of integers at its factors, also where there is nothing to compute; PyTorch does not',
    holds: ({ program, difference, torchs }) =>
      difference.kind === 'refuses' &&
      (((/batchNorm: \w+ should contain|batchNorm expects \[N, C|ZeroDivisionError/.test(difference.ours) ||
        (difference.ours.includes('Dimension out of range') && someStatement(program, (line) => line.op === 'roll'))) &&
        isEmpty(torchs)) ||
        (difference.ours.includes('without overflow') &&
          someStatement(program, (line) => line.op === 'addmm') &&
          program.lines.some((line) => isInput(line) && line.shape.includes(0)))),
  },
  {
    name: 'losses of integers',
    reason:
      'smoothL1Loss and hingeEmbeddingLoss take floats, which have gradients; PyTorch puts the second, and the first with a beta of 0, together of operations that take integers, too',
    holds: ({ difference }) =>
      difference.kind === 'refuses' &&
      /^DTypeError: (smoothL1Loss|hingeEmbeddingLoss)\(\) does not take (u?int|bool)/.test(difference.ours),
  },
  {
    name: 'classes of nothing',
    reason: 'oneHot of nothing has no classes unless they are given; PyTorch refuses it',
    holds: ({ difference }) =>
      difference.kind === 'accepts' && difference.torchs.includes('Can not infer total number of classes from empty'),
  },
  {
    name: 'pixels of nothing',
    reason: 'pixelUnshuffle of nothing has the shape of what it makes; in PyTorch that of what it is given',
    holds: ({ program, difference, torchs }) =>
      difference.kind === 'shape' &&
      isEmpty(torchs) &&
      someStatement(program, (line) => /pixel_?unshuffle/i.test(line.op)),
  },
  {
    name: 'infinite halves',
    reason:
      'a finite number beyond half precision that fills a tensor of it is infinite there; PyTorch makes it infinite in a tensor of one element, and refuses it in a larger one',
    holds: ({ program, difference }) =>
      difference.kind === 'accepts' &&
      /cannot be converted to type c10::(Half|BFloat16) without overflow/.test(difference.torchs) &&
      someStatement(program, (line) => /^(full|fill_|pad|maskedFill|clamp|indexFill|scatter)/.test(line.op)),
  },
  {
    name: 'gradient of a filled expansion',
    reason:
      'the gradient of an expanded tensor that fill_, zero_ or a copy of itself has overwritten is that of what it holds now; PyTorch fails to write it where several elements are one place',
    holds: ({ program, difference }) =>
      difference.kind === 'accepts' &&
      difference.torchs.includes('more than one element of the written-to tensor') &&
      isBackward(program.lines[difference.line]) &&
      someStatement(program, (line) => /(fill|zero|copy)_\(/.test(line.ts)),
  },
  {
    name: 'choices in an expansion',
    reason:
      'maskedFill_, indexFill_ and indexPut_ refuse a tensor several elements of which are one place, as all that writes more than one value does; PyTorch warns that it will',
    holds: ({ program, difference }) => {
      const line = program.lines[difference.line];
      return (
        difference.kind === 'refuses' &&
        difference.ours.includes('refers to a single memory location') &&
        line !== undefined &&
        !isInput(line) &&
        /(maskedFill|indexFill|indexPut)_\(/.test(line.ts)
      );
    },
  },
  {
    name: 'bytes as masks',
    reason:
      'an index, and the condition of where, take no uint8; PyTorch takes it for a mask, with a warning that this is deprecated',
    holds: ({ difference }) =>
      difference.kind === 'refuses' && /an index takes no uint8|where\(\) does not take uint8/.test(difference.ours),
  },
  {
    name: 'exactly singular',
    reason:
      'a matrix whose factors have a zero on the diagonal in double precision is singular, and solve and inverse refuse it; in single precision, or by another order of the work, PyTorch has the rounding of that zero there, and divides by it',
    holds: ({ difference }) =>
      difference.kind === 'refuses' && /^TensorError: \w+: The diagonal element \d+ is zero/.test(difference.ours),
  },
  {
    name: 'results in rows',
    reason:
      'results are laid out row by row, so that flatten and reshape give views of them; in PyTorch those of a transposed operand lie as it does, flatten and reshape copy them, and a change in place does not reach the original',
    holds: ({ program, difference }) =>
      (difference.kind === 'refuses'
        ? difference.ours.includes('has been modified by an inplace operation')
        : difference.kind === 'value' && someStatement(program, (line) => /\w_\b/.test(line.ts))) &&
      someStatement(program, (line) => /^(flatten|reshape)$/.test(line.op)) &&
      viewsOf(program).some((op) => /^(transpose|permute|T|movedim|swapaxes)/i.test(op)),
  },
  {
    name: 'flatten of a vector',
    reason:
      'flatten of a vector is a view of it, which one of many views refuses once its base was changed; PyTorch answers the vector itself, and refuses when it is used',
    holds: ({ program, difference }) =>
      difference.kind === 'refuses' &&
      difference.ours.includes('is the output of a function that returns multiple views') &&
      /^(flatten|reshape|contiguous)$/.test(opOf(program.lines[difference.line])),
  },
  {
    name: 'negative probabilities',
    reason:
      'probabilities of a distribution below zero are refused; PyTorch divides them by their sum before it looks, which makes positive ones of those that are all negative',
    holds: ({ program, difference }) =>
      difference.kind === 'refuses' &&
      difference.ours.includes('to satisfy the constraint Simplex()') &&
      someStatement(program, (line) => line.op.startsWith('distributions.')),
  },
  {
    name: 'gradients in any layout',
    reason: 'nllLoss has a gradient for images in every layout; PyTorch refuses to write one that is not contiguous',
    holds: ({ program, difference }) =>
      difference.kind === 'accepts' &&
      difference.torchs.includes('grad_input must be contiguous') &&
      someStatement(program, (line) => /nll|crossEntropy/i.test(line.op)),
  },
  {
    name: 'rates below zero',
    reason:
      'a state dict with a rate below zero, to which schedules beside each other may lead, is refused when it is loaded, as such an option is; PyTorch looks at no option that it loads',
    holds: ({ program, difference }) =>
      difference.kind === 'refuses' &&
      /^RangeError: Invalid learning rate: -/.test(difference.ours) &&
      someStatement(program, (line) => line.ts.startsWith('followed(')),
  },
];

function opOf(line: Line | undefined): string {
  return line === undefined || isInput(line) ? '' : line.op;
}

function isBackward(line: Line | undefined): boolean {
  return opOf(line) === 'backward';
}
