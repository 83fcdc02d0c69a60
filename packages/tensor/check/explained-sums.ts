/** @file Differences that are meant: sums and products whose value follows from the order of their parts. */
import { isTensor } from './outcome.ts';
import {
  isOverflow,
  onHeap,
  isExtreme,
  isInfinite,
  smallestOf,
  someInput,
  someStatement,
  type Explanation,
} from './found.ts';
import type { Program } from './program.ts';

export const SUMS: readonly Explanation[] = [
  {
    name: 'sums that overflow',
    reason:
      'a sum or product whose parts exceed the largest number is infinite or NaN by the order of its parts, in which libraries differ: the exact one is finite, or that of another infinite part, or not known for doubles',
    holds: ({ backend, difference, program }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      (isOverflow(difference.ours) || scalesFirst(program, difference.torchs)) &&
      (/exactly -?\d/.test(difference.ours) ||
        (someInput(program, (line) => isExtreme(line)) && someInput(program, isInfinite)) ||
        someInput(program, (line) => line.dtype === 'float64' && (isExtreme(line) || smallestOf(line) < 1e-37))) &&
      (isOverflow(difference.torchs) ||
        /allowed (Infinity|[\d.]+e\+([2-9]\d|\d{3}))/.test(difference.ours) ||
        someInput(program, (line) => isExtreme(line) && (onHeap(backend) || line.dtype === 'float64'))),
  },
  {
    name: 'bends of sums that cancel',
    reason:
      'on which side of the bend of relu a sum lies whose largest terms, near the largest number, cancel follows from the order of its parts; where others of the same layer overflow, PyTorch has NaN',
    holds: ({ difference, program }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      isOverflow(difference.torchs) &&
      /exactly -?\d/.test(difference.ours) &&
      someInput(program, (line) => isExtreme(line)) &&
      someStatement(program, (line) => line.op === 'nn.RNN' && line.ts.includes("'relu'")),
  },
  {
    name: 'lost beside the largest',
    reason:
      'a mean in which numbers near the largest cancel keeps or loses the small ones by the order of its parts, in doubles, too',
    holds: ({ difference, program }) =>
      difference.kind === 'value' &&
      /exactly -?\d/.test(difference.ours) &&
      someInput(program, (line) => line.dtype !== 'float64' && isExtreme(line)) &&
      someStatement(program, (line) => line.op === 'batchNorm'),
  },
  {
    name: 'tanh of sums that overflow',
    reason:
      'tanh of a sum whose parts exceed the largest number is 1 or -1 by the order of its parts, in the kernels of wasm and in BLAS libraries; where they cancel near the largest number, it is one of these or between them, on every backend',
    holds: ({ difference, program }) =>
      /^(value|gradient)$/.test(difference.kind) &&
      /exactly -?\d/.test(difference.ours) &&
      someInput(program, (line) => isExtreme(line)) &&
      someStatement(program, (line) => /\bTanh\(/.test(line.ts)),
  },
  {
    name: 'sums in single precision',
    reason:
      'the kernels of wasm, and some BLAS libraries, add up products one after the other in single precision: of hundreds of terms, a few units more than the blocks of PyTorch',
    holds: ({ backend, difference, torchs }) => {
      const [, exact, allowed, ours] = /exactly (\S+), allowed (\S+)\): (\S+)$/.exec(difference.ours) ?? [];
      const seen = torchs.seen[difference.path];
      // Doubles are no business of these kernels.
      return (
        onHeap(backend) &&
        isTensor(seen) &&
        seen.dtype !== 'float64' &&
        Math.abs(Number(ours) - Number(exact)) <= 8 * Number(allowed)
      );
    },
  },
];

/** Whether a product of doubles near the largest is scaled, by nothing for example, before it is added up. */
function scalesFirst(program: Program, torchs: string): boolean {
  return (
    isOverflow(torchs) &&
    someInput(program, (line) => line.dtype === 'float64' && isExtreme(line)) &&
    someStatement(program, (line) => /^addmm/.test(line.op))
  );
}
