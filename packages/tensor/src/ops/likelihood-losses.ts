/** @file Negative log likelihoods of counts and of normal distributions. */
import { ShapeError } from '../errors.ts';
import { sweep } from '../scope.ts';
import { sameShape, type Shape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { defineFunction } from './define.ts';
import { checkLoss, GAUSSIAN_OPTIONS, POISSON_OPTIONS, type LossOptions } from './loss-options.ts';
import { reduce } from './losses.ts';
import { where } from './where.ts';
import { each, FLOAT, NUMBER } from './takes.ts';

/** How `poissonNllLoss` reads its input, and what of the likelihood it keeps. */
export interface PoissonOptions extends LossOptions {
  /** Whether the input is the logarithm of the rate. @default true */
  logInput?: boolean;
  /** Adds Stirling's approximation of log(target!). @default false */
  full?: boolean;
  /** Added to the rate before its logarithm is taken; of use without `logInput`. @default 1e-8 */
  eps?: number;
}

/** rate - target log(rate). */
export const poissonNllLoss = defineFunction(
  'poissonNllLoss',
  each(NUMBER),
  (input: Tensor, target: Tensor, options: PoissonOptions = {}): Tensor => {
    checkLoss('poissonNllLoss', POISSON_OPTIONS, options);
    const { logInput = true, full = false, eps = 1e-8 } = options;
    return sweep(() => {
      const plain = logInput ? input.exp().sub(target.mul(input)) : input.sub(target.mul(input.add(eps).log()));
      if (!full) return reduce(plain, options.reduction);
      const safe = where(target.gt(1), target, 1);
      const stirling = safe
        .mul(safe.log())
        .sub(safe)
        .add(
          safe
            .mul(2 * Math.PI)
            .log()
            .mul(0.5),
        );
      return reduce(plain.add(where(target.gt(1), stirling, 0)), options.reduction);
    });
  },
);

/**
 * Half of log(variance) + (input - target)² / variance; variances count as at least `eps`, and have a gradient all the same. One for each
 * element, or for all along one dimension, where it has size 1; the last one it may lack.
 */
export const gaussianNllLoss = defineFunction(
  'gaussianNllLoss',
  each(FLOAT),
  (
    input: Tensor,
    target: Tensor,
    variance: Tensor | number,
    options: LossOptions & { full?: boolean; eps?: number } = {},
  ): Tensor => {
    checkLoss('gaussianNllLoss', GAUSSIAN_OPTIONS, options);
    const { full = false, eps = 1e-6 } = options;
    return sweep(() => {
      const given = typeof variance === 'number' ? input.detach().mul(0).add(variance) : variance;
      let spread = given;
      if (!sameShape(given.shape, input.shape)) {
        if (sameShape(given.shape, input.shape.slice(0, -1))) spread = given.unsqueeze(-1);
        else if (!isOneForMany(given.shape, input.shape))
          throw new ShapeError(`gaussianNllLoss: var is of incorrect size: [${given.shape.join(', ')}]`);
      }
      if (spread.lt(0).any().item() !== 0) throw new RangeError('gaussianNllLoss: var has negative entry/entries');
      const bounded = spread.add(spread.detach().clamp(eps).sub(spread.detach()));
      const loss = bounded.log().add(input.sub(target).square().div(bounded)).mul(0.5);
      return reduce(full ? loss.add(0.5 * Math.log(2 * Math.PI)) : loss, options.reduction);
    });
  },
);

/** Whether one variance counts for all along one dimension: [4, 1, 32, 32] beside [4, 3, 32, 32]. */
function isOneForMany(own: Shape, shape: Shape): boolean {
  const differing = own.filter((size, d) => size !== shape[d]);
  return own.length === shape.length && differing.length === 1 && differing[0] === 1;
}
