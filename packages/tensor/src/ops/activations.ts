/** @file Activation functions. Each answers NaN with NaN, and passes a gradient there where PyTorch does. */
import { named } from '../named.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { binary, unary } from './elementwise.ts';
import { apply } from './op.ts';
import { where } from './select.ts';

/** 0.5 x (1 + erf(x / √2)), or its approximation by tanh. */
export const gelu = named('aten::gelu', (t: Tensor, approximate: 'none' | 'tanh' = 'none'): Tensor =>
  sweep(() => {
    if (approximate === 'none') return t.mul(0.5).mul(t.mul(Math.SQRT1_2).erf().add(1));
    const inner = t.add(t.pow(3).mul(0.044715)).mul(Math.sqrt(2 / Math.PI));
    return t.mul(0.5).mul(inner.tanh().add(1));
  }),
);

const siluOp = defineOp('silu', 'silu', ([t]) => {
  const x = t as Tensor;
  const gate = unary('sigmoid', x);
  const out = binary('mul', x, gate);
  gate.release();
  return out;
});

/** x sigmoid(x). */
export const silu = named('aten::silu', (t: Tensor): Tensor => apply(siluOp, [t], undefined));

const mishOp = defineOp('mish', 'mish', ([t]) => {
  const x = t as Tensor;
  const soft = unary('softplus', x);
  const gate = unary('tanh', soft);
  const out = binary('mul', x, gate);
  soft.release();
  gate.release();
  return out;
});

/** x tanh(softplus(x)). */
export const mish = named('aten::mish', (t: Tensor): Tensor => apply(mishOp, [t], undefined));

/** x above zero, slope x below. */
export const leakyRelu = named('aten::leaky_relu', (t: Tensor, slope = 0.01): Tensor =>
  sweep(() => where(t.detach().gt(0), t, t.mul(slope))),
);

/** x above zero, weight x below; `weight` has one element, or one for each channel (dimension 1). */
export const prelu = named('aten::prelu', (t: Tensor, weight: Tensor): Tensor =>
  sweep(() => {
    const shape = weight.size === 1 || t.rank < 2 ? [weight.size] : [weight.size, ...t.shape.slice(2).map(() => 1)];
    return where(t.detach().gt(0), t, t.mul(weight.reshape(shape)));
  }),
);

/** x above zero, alpha (exp(x) - 1) below. */
export const elu = named('aten::elu', (t: Tensor, alpha = 1): Tensor =>
  sweep(() => {
    const below = t.detach().le(0);
    return where(below, where(below, t, 0).expm1().mul(alpha), t);
  }),
);

const SELU = { alpha: 1.6732632423543772, scale: 1.0507009873554805 };

/** The self-normalising elu of Klambauer et al. (2017). */
export const selu = named('aten::selu', (t: Tensor): Tensor => sweep(() => elu(t, SELU.alpha).mul(SELU.scale)));

/** min(max(x, 0), 6). */
export const relu6 = named('aten::relu6', (t: Tensor): Tensor => hardtanh(t, 0, 6));

/** min(max(x, low), high); at both ends the slope is zero. */
export const hardtanh = named('aten::hardtanh', (t: Tensor, low = -1, high = 1): Tensor =>
  sweep(() => {
    const x = t.detach();
    return where(x.le(low).logicalOr(x.ge(high)), x.clamp(low, high), t);
  }),
);

/** relu6(x + 3) / 6. */
export const hardSigmoid = named('aten::hardsigmoid', (t: Tensor): Tensor =>
  sweep(() => {
    const x = t.detach();
    return where(x.gt(-3).logicalAnd(x.lt(3)), t, x.clamp(-3, 3))
      .add(3)
      .div(6);
  }),
);

/** x relu6(x + 3) / 6. */
export const hardSwish = named('aten::hardswish', (t: Tensor): Tensor =>
  sweep(() => {
    const x = t.detach();
    const [off, bent] = [x.le(-3), x.gt(-3).logicalAnd(x.lt(3))];
    const middle = where(bent, t, 0);
    return where(off, x.mul(0), where(bent, middle.mul(middle.add(3)).div(6), t));
  }),
);

/** x / (1 + |x|). */
export const softsign = named('aten::softsign', (t: Tensor): Tensor => sweep(() => t.div(t.abs().add(1))));
