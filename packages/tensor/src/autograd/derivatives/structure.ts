/** @file Derivatives of triangles, flips and padding. */
import type { PadAttrs } from '../../ops/structure.ts';
import type { Derivative } from '../op-node.ts';

export const structure: Readonly<Record<string, Derivative>> = {
  tril: { save: [], backward: (grad, _saved, { k }: { k: number }) => [grad.tril(k)] },
  triu: { save: [], backward: (grad, _saved, { k }: { k: number }) => [grad.triu(k)] },
  flip: { save: [], backward: (grad, _saved, { dims }: { dims: readonly number[] }) => [grad.flip(dims)] },
  pad: {
    save: [],
    backward: (grad, _saved, { pads }: PadAttrs) => [
      grad.pad([...pads].reverse().flatMap(([before, after]) => [-before, -after])),
    ],
  },
};
