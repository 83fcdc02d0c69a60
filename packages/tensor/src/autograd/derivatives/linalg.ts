/** @file Derivatives of linear algebra and of windows. */
import { cofactors, inverse, solve } from '../../ops/linalg.ts';
import { fold, unfold, type Windows } from '../../ops/windows.ts';
import type { Tensor } from '../../tensor.ts';
import type { Derivative } from '../op-node.ts';
import { linear, rule } from './rule.ts';

const transposed = (t: Tensor): Tensor => t.transpose(-1, -2);

export const linalg: Readonly<Record<string, Derivative>> = {
  solve: rule([0, 'output'], (grad, saved) => {
    const right = solve(transposed(saved.input(0)), grad);
    return [right.matmul(transposed(saved.output())).neg(), right];
  }),
  inverse: rule(['output'], (grad, saved) => {
    const back = transposed(saved.output());
    return [back.matmul(grad).matmul(back).neg()];
  }),
  det: rule([0, 'output'], (grad, saved) => {
    const wide = (t: Tensor): Tensor => t.unsqueeze(-1).unsqueeze(-1);
    const [matrix, value] = [saved.input(0), saved.output()];
    // A singular matrix has no inverse, but its determinant has a gradient.
    if (value.detach().eq(0).any().item() !== 0) return [wide(grad).mul(cofactors(matrix))];
    return [wide(grad.mul(value)).mul(transposed(inverse(matrix)))];
  }),
  // Murray, "Differentiation of the Cholesky decomposition" (2016), equation 10.
  cholesky: rule(['output'], (grad, saved) => {
    const l = saved.output();
    const lower = transposed(l).matmul(grad).tril();
    const phi = lower.sub(lower.triu().mul(0.5));
    const left = solve(transposed(l), phi);
    const full = transposed(solve(transposed(l), transposed(left)));
    return [full.add(transposed(full)).mul(0.5)];
  }),
  unfold: linear((grad, _saved, windows: Windows) => [fold(grad, windows)]),
  fold: linear((grad, _saved, windows: Windows) => [unfold(grad, windows)]),
};
