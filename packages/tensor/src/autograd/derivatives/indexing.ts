/** @file Derivatives of choosing and adding by index. */
import { zeros } from '../../creation.ts';
import { gather, indexAdd, indexSelect, scatter, scatterAdd } from '../../ops/indexing.ts';
import type { Shape } from '../../shape.ts';
import type { Tensor } from '../../tensor.ts';
import type { Derivative, Saved } from '../op-node.ts';

interface Along {
  readonly dim: number;
}

const base = (saved: Saved, grad: Tensor): Tensor => zeros(saved.shapes[0] as Shape, { dtype: grad.dtype });

export const indexing: Readonly<Record<string, Derivative>> = {
  indexSelect: {
    save: [1],
    backward: (grad, saved, { dim }: Along) => [indexAdd(base(saved, grad), dim, saved.input(1), grad), null],
  },
  indexAdd: {
    save: [1],
    backward: (grad, saved, { dim }: Along) => [
      grad,
      null,
      saved.needs[2] === true ? indexSelect(grad, dim, saved.input(1)).reshape(saved.shapes[2] as Shape) : null,
    ],
  },
  gather: {
    save: [1],
    backward: (grad, saved, { dim }: Along) => [scatterAdd(base(saved, grad), dim, saved.input(1), grad), null],
  },
  scatterAdd: {
    save: [1],
    backward: (grad, saved, { dim }: Along) => [
      grad,
      null,
      saved.needs[2] === true ? gather(grad, dim, saved.input(1)) : null,
    ],
  },
  scatter: {
    save: [1],
    backward: (grad, saved, { dim }: Along) => {
      const index = saved.input(1);
      return [
        scatter(grad, dim, index, zeros(index.shape, { dtype: grad.dtype })),
        null,
        saved.needs[2] === true ? gather(grad, dim, index) : null,
      ];
    },
  },
};
