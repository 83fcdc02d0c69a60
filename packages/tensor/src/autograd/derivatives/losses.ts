/** @file Derivatives of losses whose parts have none at the ends of their range. Formulas follow PyTorch's. */
import { BCE_EPS, bceGrad, bceSpread } from '../../ops/bce.ts';
import { lesserGate } from '../../ops/gates.ts';
import { nll, nllGrad, type NllAttrs } from '../../ops/nll.ts';
import { logSigmoid } from '../../ops/unary.ts';
import { where } from '../../ops/where.ts';
import type { Tensor } from '../../tensor.ts';
import type { Derivative, Saved } from '../op-node.ts';
import { rule } from './rule.ts';

/** Targets and class factors, where there are any, follow the differentiated input. */
const labels: Derivative['save'] = (needs) => (needs.length === 3 ? [1, 2] : [1]);
const factors = (saved: Saved) => (saved.shapes.length === 3 ? saved.input(2) : undefined);

export const losses: Readonly<Record<string, Derivative>> = {
  binaryCrossEntropy: rule([0, 1], (grad, saved) => {
    const [p, target] = [saved.input(0), saved.input(1)];
    return [
      saved.needs[0] === true ? bceGrad(grad, p, target) : null,
      saved.needs[1] === true ? grad.mul(p.neg().log1p().sub(p.log())) : null,
    ];
  }),
  binaryCrossEntropyGrad: rule([0, 1, 2], (again, saved) => {
    const [grad, p, target] = [saved.input(0), saved.input(1), saved.input(2)];
    // Not the quotient's own derivative: that is 1e12 at certain probabilities that are right, too.
    const spread = p.add(BCE_EPS).mul(p.neg().add(1).add(BCE_EPS));
    const curve = p.mul(p).sub(p.mul(target).mul(2)).add(target);
    return [
      saved.needs[0] === true ? again.mul(p.sub(target)).div(spread) : null,
      saved.needs[1] === true ? again.mul(grad).mul(curve.div(spread.mul(spread))) : null,
      saved.needs[2] === true ? again.mul(grad).neg().div(bceSpread(p)) : null,
    ];
  }),
  binaryCrossEntropyWithLogits: rule(
    (needs) => (needs.length === 3 ? [0, 1, 2] : [0, 1]),
    (grad, saved) => {
      const [x, y] = [saved.input(0), saved.input(1)];
      const factor = factors(saved);
      const [toLogits = false, toTarget = false, toFactor = false] = saved.needs;
      const slope = (): Tensor => {
        // PyTorch's sigmoid(x) - target is zero for a large logit of a positive target; by the smaller of the two sigmoids it is exact.
        const [smaller, negative] = lesserGate(x);
        const [no, yes] = [y.neg().add(1), factor === undefined ? y : y.mul(factor)];
        const counted = factor === undefined ? smaller : smaller.mul(no.add(yes));
        return where(negative, counted.sub(yes), no.sub(counted));
      };
      const log = (): Tensor => logSigmoid(x);
      const byTarget = (): Tensor => (factor === undefined ? x : x.add(log().mul(factor.sub(1))));
      return [
        toLogits ? grad.mul(slope()) : null,
        toTarget ? grad.neg().mul(byTarget()) : null,
        toFactor ? grad.neg().mul(y.mul(log())) : null,
      ];
    },
  ),
  klDiv: rule([0, 1], (grad, saved) => {
    const [input, target] = [saved.input(0), saved.input(1)];
    return [
      saved.needs[0] === true ? grad.neg().mul(target) : null,
      // target / target is one, and NaN at zero, where there is no slope.
      saved.needs[1] === true ? grad.mul(target.log().add(target.div(target)).sub(input)) : null,
    ];
  }),
  nllLoss: rule(labels, (grad, saved, attrs: NllAttrs) => [
    nllGrad(grad, saved.input(1), factors(saved), attrs),
    null,
    null,
  ]),
  nllLossGrad: rule(labels, (grad, saved, attrs: NllAttrs) => [
    nll(grad, saved.input(1), factors(saved), attrs),
    null,
    null,
  ]),
};
