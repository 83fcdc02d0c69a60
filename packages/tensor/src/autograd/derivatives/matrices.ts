/** @file Derivatives of matrix products. */
import type { ProductAttrs } from '../../ops/matmul.ts';
import type { Tensor } from '../../tensor.ts';
import type { Derivative } from '../op-node.ts';

/** Saves the operand that the other one's gradient is made of. */
const crossed = (needs: readonly boolean[]): number[] => [
  ...(needs[1] === true ? [0] : []),
  ...(needs[0] === true ? [1] : []),
];

const turned = (t: Tensor): Tensor => t.transpose(-1, -2);

export const matrices: Readonly<Record<string, Derivative>> = {
  bmm: {
    save: crossed,
    // An operand that lies column by column gets its gradient so: transposed back to its leaf, that is contiguous.
    backward: (grad, saved, { columns: [a, b] }: ProductAttrs) => [
      saved.needs[0] !== true
        ? null
        : a
          ? turned(saved.input(1).matmul(turned(grad)))
          : grad.matmul(turned(saved.input(1))),
      saved.needs[1] !== true
        ? null
        : b
          ? turned(turned(grad).matmul(saved.input(0)))
          : turned(saved.input(0)).matmul(grad),
    ],
  },
};
