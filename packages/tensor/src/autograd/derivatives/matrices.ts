/** @file Derivatives of matrix products. */
import type { Derivative } from '../op-node.ts';

/** Saves the operand that the other one's gradient is made of. */
const crossed = (needs: readonly boolean[]): number[] => [
  ...(needs[1] === true ? [0] : []),
  ...(needs[0] === true ? [1] : []),
];

export const matrices: Readonly<Record<string, Derivative>> = {
  bmm: {
    save: crossed,
    backward: (grad, saved) => [
      saved.needs[0] === true ? grad.matmul(saved.input(1).transpose(-1, -2)) : null,
      saved.needs[1] === true ? saved.input(0).transpose(-1, -2).matmul(grad) : null,
    ],
  },
};
