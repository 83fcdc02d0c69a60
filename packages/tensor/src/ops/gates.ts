/** @file Slopes of sigmoid that can be differentiated again without terms that cancel. */
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import { conj } from './complex-parts.ts';
import { defineOp } from './define.ts';
import { apply } from './op.ts';
import { each, FLOATING } from './takes.ts';
import { where } from './where.ts';

const sigmoidGradOp = defineOp(['sigmoidGrad', 'sigmoid_backward'], each(FLOATING), ([grad, output]) =>
  sweep(() => sigmoidSlope(grad.detach(), output.detach())),
);

/** The gradient of sigmoid from its result y, in operations: their second derivatives are two terms, whose difference may be NaN. */
export function sigmoidSlope(grad: Tensor, y: Tensor): Tensor {
  return grad.mul(conj(y.mul(y.neg().add(1))));
}

/** The same as one operation, with a derivative of its own, as in PyTorch. */
export function sigmoidGrad(grad: Tensor, y: Tensor): Tensor {
  return apply(sigmoidGradOp, [grad, y], undefined);
}

/** The lesser of sigmoid(x) and sigmoid(-x), and where that is the former. The greater has no places left for how far it is from 1. */
export function lesserGate(x: Tensor): [lesser: Tensor, negative: Tensor] {
  const negative = x.detach().lt(0);
  return [where(negative, x, x.neg()).sigmoid(), negative];
}

/** sigmoid(-x), whose derivative is exact on both sides. */
export function gateOfNegative(x: Tensor): Tensor {
  const [lesser, negative] = lesserGate(x);
  return where(negative, lesser.neg().add(1), lesser);
}
