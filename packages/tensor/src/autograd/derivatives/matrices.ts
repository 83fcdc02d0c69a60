/** @file Derivatives of matrix products. */
import { conj } from '../../ops/complex-parts.ts';
import type { ProductAttrs } from '../../ops/matmul.ts';
import type { Tensor } from '../../tensor.ts';
import type { Derivative } from '../op-node.ts';
import { crossed, rule } from './rule.ts';

const turned = (t: Tensor): Tensor => t.transpose(-1, -2);

// An operand that lies column by column gets its gradient so: transposed back to its leaf, that is contiguous.
const product = rule(crossed, (grad, saved, { columns: [a, b] }: ProductAttrs) => {
  const ofLeft = (right: Tensor): Tensor => (a ? turned(right.matmul(turned(grad))) : grad.matmul(turned(right)));
  const ofRight = (left: Tensor): Tensor => (b ? turned(turned(grad).matmul(left)) : turned(left).matmul(grad));
  return [
    saved.needs[0] === true ? ofLeft(conj(saved.input(1))) : null,
    saved.needs[1] === true ? ofRight(conj(saved.input(0))) : null,
  ];
});

export const matrices: Readonly<Record<string, Derivative>> = { mm: product, bmm: product };
