/** @file The cross entropies of probabilities and of logits, element by element, and the gradient of the former. */
import { readNumbers } from '../host.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { apply } from './op.ts';
import { FLOAT, same } from './takes.ts';
import { logSigmoid } from './unary.ts';

const bceOp = defineOp('binaryCrossEntropy', same(FLOAT), ([p, target]) => {
  checkProbabilities('input', p);
  checkProbabilities('target', target);
  return sweep(() => {
    const [x, y] = [p.detach(), target.detach()];
    const yes = y.mul(x.log().clamp(-100));
    const no = y.neg().add(1).mul(x.neg().log1p().clamp(-100));
    return yes.add(no).neg();
  });
});

/** The losses of the elements. */
export function bce(p: Tensor, target: Tensor): Tensor {
  return apply(bceOp, [p, target], undefined);
}

/** What keeps the slopes of certain probabilities finite. */
export const BCE_EPS = 1e-12;

/** p (1 - p), by which the slope is divided. */
export function bceSpread(p: Tensor): Tensor {
  return p.neg().add(1).mul(p).clamp(BCE_EPS);
}

const bceGradOp = defineOp(
  ['binaryCrossEntropyGrad', 'binary_cross_entropy_backward'],
  same(FLOAT),
  ([grad, p, target]) =>
    sweep(() => {
      const [g, x, y] = [grad.detach(), p.detach(), target.detach()];
      return g.mul(x.sub(y)).div(bceSpread(x));
    }),
);

/** The gradient with respect to the probabilities, with second derivatives of its own. */
export function bceGrad(grad: Tensor, p: Tensor, target: Tensor): Tensor {
  return apply(bceGradOp, [grad, p, target], undefined);
}

const logitBceOp = defineOp('binaryCrossEntropyWithLogits', same(FLOAT), ([logits, target, posWeight]) =>
  sweep(() => {
    const [x, y] = [logits.detach(), target.detach()];
    const log = logSigmoid(x);
    // 1 + (posWeight - 1) target, by which the logarithm counts.
    const counted = posWeight === undefined ? log : log.mul(posWeight.detach().sub(1).mul(y).add(1));
    return y.neg().add(1).mul(x).sub(counted);
  }),
);

/**
 * The losses of the elements: of one shape and dtype, the factors too. An operation of its own for its slopes: those of its parts cancel
 * each other where a logit says the right thing for certain.
 */
export function logitBce(x: Tensor, target: Tensor, posWeight: Tensor | undefined): Tensor {
  return apply(logitBceOp, posWeight === undefined ? [x, target] : [x, target, posWeight], undefined);
}

function checkProbabilities(what: string, t: Tensor): void {
  const wrong = readNumbers(t).find((v) => !(v >= 0 && v <= 1));
  if (wrong !== undefined)
    throw new RangeError(
      `binaryCrossEntropy: all elements of ${what} should be between 0 and 1, but got ${wrong}; for logits there is binaryCrossEntropyWithLogits`,
    );
}
