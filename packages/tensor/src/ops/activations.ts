/** @file Activation functions. Each answers NaN with NaN, and passes a gradient there where PyTorch does; half precision is rounded once. */
import { ShapeError } from '../errors.ts';
import { named } from '../named.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import { defineFunction, defineOp } from './define.ts';
import { binary, unary } from './elementwise.ts';
import { apply } from './op.ts';
import { where } from './where.ts';
import { each, FLOAT, FLOATING, NUMBER, REAL_NUMBER, same, without } from './takes.ts';
import { alike, inFloat32 } from './widen.ts';

/** 0.5 x (1 + erf(x / √2)), or its approximation by tanh. */
export const gelu = defineFunction('gelu', each(FLOAT), (t: Tensor, approximate: 'none' | 'tanh' = 'none'): Tensor =>
  inFloat32(t, (x) => {
    if (approximate === 'none') return x.mul(0.5).mul(x.mul(Math.SQRT1_2).erf().add(1));
    if (approximate !== 'tanh')
      throw new RangeError(`approximate argument must be either none or tanh, got '${String(approximate)}'`);
    const inner = x.add(x.pow(3).mul(0.044715)).mul(Math.sqrt(2 / Math.PI));
    return x.mul(0.5).mul(inner.tanh().add(1));
  }),
);

const siluOp = defineOp('silu', each(FLOATING), ([x]) => {
  const gate = unary('sigmoid', x);
  const out = binary('mul', x, gate);
  gate.release();
  return out;
});

/** x sigmoid(x). */
export const silu = named('aten::silu', (t: Tensor): Tensor => inFloat32(t, (x) => apply(siluOp, [x], undefined)));

const mishOp = defineOp('mish', each(FLOAT), ([x]) => {
  const soft = unary('softplus', x);
  const gate = unary('tanh', soft);
  const out = binary('mul', x, gate);
  soft.release();
  gate.release();
  return out;
});

/** x tanh(softplus(x)). */
export const mish = named('aten::mish', (t: Tensor): Tensor => inFloat32(t, (x) => apply(mishOp, [x], undefined)));

/** x above zero, slope x below. */
export const leakyRelu = defineFunction('leakyRelu', each(FLOAT), (t: Tensor, slope = 0.01): Tensor =>
  inFloat32(t, (x) => where(x.detach().gt(0), x, x.mul(slope))),
);

/** x above zero, weight x below; `weight` has one element, or one for each channel (dimension 1). */
export const prelu = defineFunction('prelu', same(FLOAT), (t: Tensor, weight: Tensor): Tensor =>
  inFloat32(t, (x) => {
    const channels = x.rank < 2 ? 1 : (x.shape[1] as number);
    if (weight.rank > 1 || (weight.size !== 1 && weight.size !== channels)) {
      throw new ShapeError(
        `prelu: expected a weight of 1 element or ${channels}, one for each channel, got [${weight.shape.join(', ')}]`,
      );
    }
    const alone = x.rank === 0 ? [] : [weight.size];
    const shape = weight.size === 1 || x.rank < 2 ? alone : [weight.size, ...x.shape.slice(2).map(() => 1)];
    const above = x.detach().gt(0);
    // What is infinite above zero has no part in the slope of the weight.
    return where(above, x, where(above, 0, x).mul(alike(weight, t, x).reshape(shape)));
  }),
);

export interface EluAttrs {
  readonly alpha: number;
  readonly scale: number;
}

const eluOp = defineOp<EluAttrs>('elu', each(FLOAT), ([t], { alpha, scale }) =>
  sweep(() => {
    const x = t.detach();
    const below = x.le(0);
    return where(
      below,
      where(below, x, 0)
        .expm1()
        .mul(alpha * scale),
      scale === 1 ? x : x.mul(scale),
    );
  }),
);

/** x above zero, alpha (exp(x) - 1) below. */
export const elu = defineFunction('elu', each(FLOAT), (t: Tensor, alpha = 1): Tensor =>
  inFloat32(t, (x) => apply(eluOp, [x], { alpha, scale: 1 })),
);

const SELU: EluAttrs = { alpha: 1.6732632423543772, scale: 1.0507009873554805 };

/** The self-normalising elu of Klambauer et al. (2017). */
export const selu = defineFunction('selu', each(FLOAT), (t: Tensor): Tensor =>
  inFloat32(t, (x) => apply(eluOp, [x], SELU)),
);

/** min(max(x, 0), 6). */
export const relu6 = defineFunction('relu6', each(REAL_NUMBER), (t: Tensor): Tensor => between(t, 0, 6));

/** min(max(x, low), high); at both ends the slope is zero. */
export const hardtanh = defineFunction(
  'hardtanh',
  each(without(REAL_NUMBER, 'uint8')),
  (t: Tensor, low = -1, high = 1): Tensor => between(t, low, high),
);

function between(t: Tensor, low: number, high: number): Tensor {
  return inFloat32(t, (x) => {
    const at = x.detach();
    return where(at.le(low).logicalOr(at.ge(high)), at.clamp(low, high), x);
  });
}

/** relu6(x + 3) / 6. */
export const hardSigmoid = defineFunction(['hardSigmoid', 'hardsigmoid'], each(FLOAT), (t: Tensor): Tensor =>
  inFloat32(t, (x) => {
    const at = x.detach();
    return where(at.gt(-3).logicalAnd(at.lt(3)), x, at.clamp(-3, 3))
      .add(3)
      .div(6);
  }),
);

/** x relu6(x + 3) / 6. */
export const hardSwish = defineFunction(['hardSwish', 'hardswish'], each(FLOAT), (t: Tensor): Tensor =>
  inFloat32(t, (x) => {
    const at = x.detach();
    const [off, bent] = [at.le(-3), at.gt(-3).logicalAnd(at.lt(3))];
    const middle = where(bent, x, 0);
    return where(off, at.mul(0), where(bent, middle.mul(middle.add(3)).div(6), x));
  }),
);

/** x / (1 + |x|). */
export const softsign = defineFunction('softsign', each(NUMBER), (t: Tensor): Tensor =>
  inFloat32(t, (x) => x.div(x.abs().add(1))),
);

/** log(1 + exp(beta x)) / beta, linear where beta x is above `threshold`. */
export const softplusWith = defineFunction(
  ['softplusWith', 'softplus'],
  each(FLOAT),
  (t: Tensor, beta = 1, threshold = 20): Tensor => {
    if (beta === 1 && threshold === 20) return t.softplus();
    return inFloat32(t, (x) => {
      const scaled = x.mul(beta);
      const far = scaled.detach().gt(threshold);
      const near = where(far, 0, scaled).exp().log1p().div(beta);
      return where(far, x, near);
    });
  },
);
