/** @file Derivatives of arithmetic and of the functions of one argument. Formulas follow PyTorch's derivatives.yaml. */
import { zerosLike } from '../../creation.ts';
import { AutogradError } from '../../errors.ts';
import type { EluAttrs } from '../../ops/activations.ts';
import { conj, imag, real } from '../../ops/complex-parts.ts';
import { gateOfNegative, sigmoidGrad, sigmoidSlope } from '../../ops/gates.ts';
import { sumTo } from '../../ops/gradients.ts';
import { where } from '../../ops/where.ts';
import { thresholdGrad } from '../../ops/threshold-gradient.ts';
import type { Tensor } from '../../tensor.ts';
import type { Derivative, Saved } from '../op-node.ts';
import { isGradEnabled } from '../record.ts';
import { plusOne, signOf, timesI } from './complex.ts';
import { crossed, linear, rule } from './rule.ts';

/** A function of one argument whose derivative is written on the input. */
const ofInput = (slope: (grad: Tensor, x: Tensor) => Tensor): Derivative =>
  rule([0], (grad, saved) => [slope(grad, saved.input(0))]);

/** A function of one argument whose derivative is written on the result. */
const ofOutput = (slope: (grad: Tensor, y: Tensor) => Tensor): Derivative =>
  rule(['output'], (grad, saved) => [slope(grad, saved.output())]);

/** PyTorch has none either: asking for it is a mistake that zeros would hide. */
const missing = (name: string): Derivative =>
  rule([], () => {
    throw new AutogradError(`derivative for aten::${name} is not implemented`);
  });

/** Constant almost everywhere. */
const zero = linear((grad) => [zerosLike(grad)]);

/** A function of two: a sum for each that wants it, over the dimensions it was broadcast along. */
const ofBoth = (
  save: Derivative['save'],
  shares: (grad: Tensor, saved: Saved) => readonly [a: () => Tensor, b: () => Tensor],
): Derivative =>
  rule(save, (grad, saved) =>
    shares(grad, saved).map((share, i) => (saved.needs[i] === true ? sumTo(share(), saved.shapes[i] as never) : null)),
  );

/** Ties give half to each operand, NaN all to both. */
const extreme = (loses: (a: Tensor, b: Tensor) => Tensor): Derivative =>
  ofBoth([0, 1], (grad, saved) => {
    const [a, b] = [saved.input(0), saved.input(1)];
    const share = where(a.eq(b), grad.mul(0.5), grad);
    return [() => where(loses(a, b), 0, share), () => where(loses(b, a), 0, share)];
  });

/** Real and at least zero. */
function notNegative(t: Tensor): Tensor {
  if (t.dtype !== 'complex64') return t.ge(0);
  const z = t.detach();
  return real(z).ge(0).logicalAnd(imag(z).eq(0));
}

const binaries: Readonly<Record<string, Derivative>> = {
  add: ofBoth([], (grad) => [() => grad, () => grad]),
  sub: ofBoth([], (grad) => [() => grad, () => grad.neg()]),
  mul: ofBoth(crossed, (grad, saved) => [() => grad.mul(conj(saved.input(1))), () => grad.mul(conj(saved.input(0)))]),
  div: ofBoth(
    (needs) => (needs[1] === true ? [0, 1] : [1]),
    (grad, saved) => {
      const b = saved.input(1);
      return [() => grad.div(conj(b)), () => grad.neg().mul(conj(saved.input(0).div(b).div(b)))];
    },
  ),
  pow: ofBoth(
    (needs) => (needs[1] === true ? [0, 1, 'output'] : [0, 1]),
    (grad, saved) => {
      const [x, y] = [saved.input(0), saved.input(1)];
      return [
        // An exponent of zero has no slope, whatever the base, nor has that slope one.
        () => {
          const none = y.detach().eq(0);
          const base = isGradEnabled() ? where(none, 1, x) : x;
          return where(none, 0, grad.mul(conj(y.mul(base.pow(y.sub(1))))));
        },
        () => {
          const silent = x.eq(0).logicalAnd(notNegative(y));
          const slope = saved.output().mul(where(silent, 1, x.to(saved.output().dtype)).log());
          return where(silent, 0, grad.mul(conj(slope)));
        },
      ];
    },
  ),
  maximum: extreme((a, b) => a.lt(b)),
  minimum: extreme((a, b) => a.gt(b)),
  atan2: ofBoth([0, 1], (grad, saved) => {
    const [y, x] = [saved.input(0), saved.input(1)];
    const square = y.mul(y).add(x.mul(x));
    const recip = where(square.eq(0), square, square.reciprocal()).mul(grad);
    return [() => recip.mul(x), () => recip.mul(y.neg())];
  }),
  floorDivide: missing('floor_divide'),
  unique: missing('_unique2'),
  bincount: missing('bincount'),
  remainder: ofBoth([0, 1], (grad, saved) => [
    () => grad,
    () => grad.neg().mul(saved.input(0).detach().floorDivide(saved.input(1).detach())),
  ]),
};

/** Of erf at zero. */
const ERF_SLOPE = 2 / Math.sqrt(Math.PI);

/** 1 / sqrt(1 - x^2), of complex numbers on the side of the branch cut on which asin is. */
function asinSlope(x: Tensor): Tensor {
  return x.dtype === 'complex64' ? plusOne(x).rsqrt().mul(plusOne(x.neg()).rsqrt()) : x.mul(x).neg().add(1).rsqrt();
}

const unaries: Readonly<Record<string, Derivative>> = {
  neg: linear((grad) => [grad.neg()]),
  abs: ofInput((g, x) => g.mul(signOf(x))),
  sign: zero,
  exp: ofOutput((g, y) => g.mul(conj(y))),
  expm1: ofOutput((g, y) => g.mul(conj(y.add(1)))),
  log: ofInput((g, x) => g.div(conj(x))),
  log1p: ofInput((g, x) => g.div(conj(x.add(1)))),
  log2: ofInput((g, x) => g.div(conj(x.mul(Math.LN2)))),
  sqrt: ofOutput((g, y) => g.div(conj(y.mul(2)))),
  rsqrt: ofOutput((g, y) => g.mul(-0.5).mul(conj(y.pow(3)))),
  // In an order in which nothing overflows that the result would not.
  square: ofInput((g, x) => g.mul(conj(x)).mul(2)),
  reciprocal: ofOutput((g, y) => g.neg().mul(conj(y.mul(y)))),
  relu: ofOutput(thresholdGrad),
  thresholdGrad: rule([1], (grad, saved) => [thresholdGrad(grad, saved.input(1).detach()), null]),
  // Not from the result: far below zero that is too close to -alpha to tell the slope.
  elu: rule([0], (grad, saved, { alpha, scale }: EluAttrs) => {
    const x = saved.input(0);
    // At zero the slope has none, as in PyTorch.
    const below = where(x.detach().lt(0), x, 0).exp();
    return [grad.mul(where(x.detach().le(0), below.mul(alpha * scale), scale))];
  }),
  silu: ofInput((g, x) => {
    const s = x.sigmoid();
    return g.mul(conj(s.mul(x.mul(s.neg().add(1)).add(1))));
  }),
  mish: ofInput((g, x) => {
    const gate = x.softplus().tanh();
    const slope = x.mul(x.sigmoid());
    return g.mul(gate.add(slope.mul(gate.mul(gate).neg().add(1))));
  }),
  sigmoid: ofOutput((g, y) => (isGradEnabled() ? sigmoidGrad(g, y) : sigmoidSlope(g, y))),
  sigmoidGrad: rule([0, 1], (again, saved) => {
    const [g, y] = [saved.input(0), saved.input(1)];
    return [
      saved.needs[0] === true ? sigmoidGrad(again, conj(y)) : null,
      saved.needs[1] === true ? conj(again).mul(g).mul(conj(y).mul(-2).add(1)) : null,
    ];
  }),
  tanh: ofOutput((g, y) => g.mul(conj(y.mul(y).neg().add(1)))),
  sin: ofInput((g, x) => g.mul(conj(x.cos()))),
  cos: ofInput((g, x) => g.neg().mul(conj(x.sin()))),
  tan: ofOutput((g, y) => g.mul(conj(y.mul(y).add(1)))),
  asin: ofInput((g, x) => g.mul(conj(asinSlope(x)))),
  acos: ofInput((g, x) => g.neg().mul(conj(asinSlope(x)))),
  atan: ofInput((g, x) => g.div(conj(x.mul(x).add(1)))),
  sinh: ofInput((g, x) => g.mul(conj(x.cosh()))),
  cosh: ofInput((g, x) => g.mul(conj(x.sinh()))),
  asinh: ofInput((g, x) =>
    x.dtype === 'complex64' ? g.mul(conj(asinSlope(timesI(x)))) : g.mul(x.mul(x).add(1).rsqrt()),
  ),
  acosh: ofInput((g, x) =>
    x.dtype === 'complex64' ? g.mul(conj(plusOne(x).rsqrt().mul(x.sub(1).rsqrt()))) : g.mul(x.mul(x).sub(1).rsqrt()),
  ),
  atanh: ofInput((g, x) => g.div(conj(x.mul(x).neg().add(1)))),
  erf: ofInput((g, x) => g.mul(x.mul(x).neg().exp().mul(ERF_SLOPE))),
  softplus: ofInput((g, x) => where(x.gt(20), g, g.mul(x.sigmoid()))),
  logSigmoid: ofInput((g, x) => g.mul(isGradEnabled() ? gateOfNegative(x) : x.neg().sigmoid())),
  floor: zero,
  ceil: zero,
  round: zero,
  trunc: zero,
};

const selection: Readonly<Record<string, Derivative>> = {
  where: rule([0], (grad, saved) => {
    const condition = saved.input(0);
    return [
      null,
      saved.needs[1] === true ? sumTo(where(condition, grad, 0), saved.shapes[1] as never) : null,
      saved.needs[2] === true ? sumTo(where(condition, 0, grad), saved.shapes[2] as never) : null,
    ];
  }),
  clamp: rule([0], (grad, saved, attrs: { min: number | undefined; max: number | undefined }) => {
    const x = saved.input(0).detach();
    const inside = x.ge(attrs.min ?? -Infinity).logicalAnd(x.le(attrs.max ?? Infinity));
    return [where(inside, grad, 0)];
  }),
};

export const elementwise: Readonly<Record<string, Derivative>> = { ...binaries, ...unaries, ...selection };
