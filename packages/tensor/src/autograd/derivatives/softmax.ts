/** @file Derivatives of softmax and its relatives. */
import { where } from '../../ops/where.ts';
import { softmaxGrad } from '../../ops/softmax.ts';
import type { Tensor } from '../../tensor.ts';
import type { Derivative } from '../op-node.ts';
import { rule } from './rule.ts';

export const softmaxes: Readonly<Record<string, Derivative>> = {
  softmax: rule(['output'], (grad, saved, { dim }: { dim: number }) => [softmaxGrad(grad, saved.output(), dim, false)]),
  logSoftmax: rule(['output'], (grad, saved, { dim }: { dim: number }) => [
    softmaxGrad(grad, saved.output(), dim, true),
  ]),
  // y (g - sum(g y)), or g - exp(y) sum(g): linear in g, and differentiated in y for second derivatives.
  softmaxGrad: rule([0, 1], (grad, saved, { dim, log }: { dim: number; log: boolean }) => {
    const [g, y] = [saved.input(0), saved.input(1)];
    if (log) {
      const p = y.exp();
      const pulled = grad.mul(p).sum(dim, true);
      return [grad.sub(pulled), grad.mul(p).mul(g.sum(dim, true)).neg()];
    }
    const total = g.mul(y).sum(dim, true);
    const pulled = grad.mul(y).sum(dim, true);
    return [y.mul(grad.sub(pulled)), grad.mul(g.sub(total)).sub(pulled.mul(g))];
  }),
  logSumExp: rule([0, 'output'], (grad, saved, { dim, keepDim }: { dim: number; keepDim: boolean }) => {
    const along = (t: Tensor): Tensor => (keepDim || saved.shapes[0]?.length === 0 ? t : t.unsqueeze(dim));
    const out = along(saved.output());
    // A line of nothing but -Infinity has no slope; one with Infinity has it there alone.
    const level = where(out.detach().eq(-Infinity), 0, out);
    return [along(grad).mul(saved.input(0).sub(level).exp())];
  }),
};
