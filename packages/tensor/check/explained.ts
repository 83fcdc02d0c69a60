/** @file Differences that are meant: each with its reason. They are counted, not hidden. */
import type { Difference } from './compare.ts';
import { isTensor, type Outcome, type Seen } from './outcome.ts';
import { isInput, type Arg, type Program } from './program.ts';

export interface Explanation {
  readonly name: string;
  readonly reason: string;
  readonly holds: (found: Found) => boolean;
}

/** What an explanation looks at. */
export interface Found {
  readonly program: Program;
  readonly difference: Difference;
  readonly backend: string;
  readonly torchs: Outcome;
  readonly ours: Outcome;
}

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
      Object.values(torchs.seen).some((one) => 'dtype' in one && /^complex(128|32)$/.test(one.dtype)),
  },
  {
    name: 'variance over no dimensions',
    reason:
      'the derivative of var and std in PyTorch divides by the count of no elements when the list of dimensions is empty, which means all',
    holds: ({ program, difference }) =>
      difference.kind === 'gradient' &&
      program.lines.some((line) => !isInput(line) && /^(variance|std)$/.test(line.op) && isEmptyList(line.args[1])),
  },
  {
    name: 'second derivative of our own',
    reason: 'PyTorch has no second derivative of this operation; here it follows from the parts',
    holds: ({ difference }) =>
      difference.kind === 'accepts' && /derivative for aten::\w+_backward is not implemented/.test(difference.torchs),
  },
  {
    name: 'zero instead of none',
    reason:
      'a derivative of a derivative that is zero everywhere is computed to be zero, where PyTorch knows that there is none',
    holds: ({ program, difference, ours }) =>
      isSecond(program) &&
      difference.kind === 'gradient' &&
      difference.torchs === 'none' &&
      isZero(ours.seen[difference.path]),
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
      program.lines.some((line) => !isInput(line) && line.ts.includes('optim.SGD')),
  },
  {
    name: 'single accumulators',
    reason:
      'accumulators of half-precision parameters are kept in single precision; in PyTorch they have the precision of the parameter',
    holds: ({ difference }) => difference.kind === 'dtype' && difference.ours === 'float32' && isState(difference.path),
  },
  {
    name: 'dense velocity',
    reason: 'the velocity of sparse gradients is dense, so that dense ones may follow',
    holds: ({ difference }) =>
      (difference.kind === 'layout' && difference.path.endsWith('momentum_buffer')) ||
      (difference.kind === 'accepts' && difference.torchs.includes('add(sparse, dense) is not supported')),
  },
];

function isEmptyList(arg: Arg): boolean {
  return Array.isArray(arg) && arg.length === 0;
}

/** `4.0.exp_avg`: an accumulator of optimiser 4. */
function isState(path: string): boolean {
  return /^\d+\.\d+\.[a-z_]+$/.test(path);
}

/** Whether gradients are differentiated in it. */
function isSecond({ lines }: Program): boolean {
  return lines.some((line) => !isInput(line) && line.ts.includes('createGraph'));
}

function isZero(seen: Seen | undefined): boolean {
  return isTensor(seen) && seen.data.every((byte) => byte === 0 || byte === 128);
}

/** The name of the explanation, if there is one. */
export function explain(found: Found): string | undefined {
  return EXPLANATIONS.find(({ holds }) => holds(found))?.name;
}
