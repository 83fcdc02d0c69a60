/** @file Derivatives of softmax and its relatives. */
import type { Derivative } from '../op-node.ts';

export const softmaxes: Readonly<Record<string, Derivative>> = {
  softmax: {
    save: ['output'],
    backward: (grad, saved, { dim }: { dim: number }) => {
      const y = saved.output();
      const gy = grad.mul(y);
      return [gy.sub(y.mul(gy.sum(dim, true)))];
    },
  },
  logSoftmax: {
    save: ['output'],
    backward: (grad, saved, { dim }: { dim: number }) => [grad.sub(saved.output().exp().mul(grad.sum(dim, true)))],
  },
  logSumExp: {
    save: [0],
    backward: (grad, saved, { dim, keepDim }: { dim: number; keepDim: boolean }) => [
      (keepDim ? grad : grad.unsqueeze(dim)).mul(saved.input(0).softmax(dim)),
    ],
  },
};
