/** @file Derivatives of normalisation. */
import { ambient } from '../../ambient.ts';
import { whitenGrad, type WhitenAttrs } from '../../ops/whiten.ts';
import type { Derivative } from '../op-node.ts';
import { rule } from './rule.ts';

export const normalisation: Readonly<Record<string, Derivative>> = {
  whiten: rule([0], (grad, saved, attrs: WhitenAttrs) => {
    const x = saved.input(0);
    if (!ambient().gradMode) return [whitenGrad(grad, x, attrs)];
    // The same in operations, which can be differentiated again.
    const { dims, eps } = attrs;
    const centred = x.sub(x.mean(dims, true));
    const scale = centred.square().mean(dims, true).add(eps).rsqrt();
    const y = centred.mul(scale);
    return [
      grad
        .sub(grad.mean(dims, true))
        .sub(y.mul(grad.mul(y).mean(dims, true)))
        .mul(scale),
    ];
  }),
};
