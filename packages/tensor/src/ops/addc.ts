/** @file Products and quotients added: addcmul, addcdiv, baddbmm; and distances of rows: cdist. */
import { DTypeError, ShapeError } from '../errors.ts';
import { isDifferentiable } from '../dtype.ts';
import { checkOptionNames } from '../option-names.ts';
import { factorFor } from '../range.ts';
import { sweep } from '../scope.ts';
import { broadcastShapes } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { norm } from './composite.ts';
import { defineFunction } from './define.ts';
import { bmm } from './matmul.ts';
import { commonDType } from './promotion.ts';
import { FLOATING, NUMBER, PRECISE, promoted, same } from './takes.ts';
import { inFloat32 } from './widen.ts';

const VALUE: ReadonlySet<string> = new Set(['value']);
const ALPHA_BETA: ReadonlySet<string> = new Set(['alpha', 'beta']);

function wide(t: Tensor): Tensor {
  return t.dtype === 'float16' || t.dtype === 'bfloat16' ? t.to('float32') : t;
}

/** In which gradients are made before they are summed, as in PyTorch. */
function shapeOf(t: Tensor, a: Tensor, b: Tensor): readonly number[] {
  return broadcastShapes(t.shape, broadcastShapes(a.shape, b.shape));
}

/** t + value a b; fractions of `value` are cut off for integers, which refuse one out of their range. */
export const addcmul = defineFunction(
  'addcmul',
  promoted(NUMBER),
  (t: Tensor, a: Tensor, b: Tensor, options: { value?: number } = {}): Tensor => {
    checkOptionNames(options, VALUE, 'addcmul()');
    const met = commonDType([t, a, b]);
    const factor = factorFor(options.value, met);
    return sweep(() => {
      const shape = shapeOf(t, a, b);
      const product = wide(a).expand(shape).mul(wide(b).expand(shape));
      return wide(t)
        .add(factor === 1 ? product : product.mul(factor))
        .to(met);
    });
  },
);

/** t + value a / b. */
export const addcdiv = defineFunction(
  'addcdiv',
  promoted(FLOATING),
  (t: Tensor, a: Tensor, b: Tensor, options: { value?: number } = {}): Tensor => {
    checkOptionNames(options, VALUE, 'addcdiv()');
    if (!isDifferentiable(commonDType([a, b])))
      throw new DTypeError('addcdiv() does not divide integers by integers: convert one with to()');
    const met = commonDType([t, a, b]);
    return sweep(() => {
      const shape = shapeOf(t, a, b);
      const quotient = wide(a).expand(shape).div(wide(b).expand(shape));
      return wide(t)
        .add(quotient.mul(options.value ?? 1))
        .to(met);
    });
  },
);

/** beta t + alpha (a b) of batches of matrices. */
export const baddbmm = defineFunction(
  'baddbmm',
  same(NUMBER),
  (t: Tensor, a: Tensor, b: Tensor, options: { alpha?: number; beta?: number } = {}): Tensor => {
    checkOptionNames(options, ALPHA_BETA, 'baddbmm()');
    const [alpha, beta] = [factorFor(options.alpha, t.dtype), factorFor(options.beta, t.dtype)];
    return inFloat32(t, () => {
      const product = bmm(wide(a), wide(b));
      const own = wide(t).expand(product.shape);
      const scaled = alpha === 1 ? product : product.mul(alpha);
      if (beta === 0) return scaled;
      return scaled.add(beta === 1 ? own : own.mul(beta));
    });
  },
);

/** The p-norm of the difference of each row of a [..., n, d] and each of b [..., m, d]: [..., n, m]. */
export const cdist = defineFunction('cdist', same(PRECISE), (a: Tensor, b: Tensor, p = 2): Tensor => {
  if (a.rank < 2 || b.rank < 2)
    throw new ShapeError(
      `cdist only supports at least 2D tensors, got [${a.shape.join(', ')}] and [${b.shape.join(', ')}]`,
    );
  if (a.shape.at(-1) !== b.shape.at(-1))
    throw new ShapeError(
      `X1 and X2 must have the same number of columns. X1: ${a.shape.at(-1) as number} X2: ${b.shape.at(-1) as number}`,
    );
  if (!(p >= 0)) throw new RangeError('cdist only supports non-negative p values');
  return sweep(() => {
    const batch = broadcastShapes(a.shape.slice(0, -2), b.shape.slice(0, -2));
    const x = a.expand([...batch, ...a.shape.slice(-2)]).unsqueeze(-2);
    const y = b.expand([...batch, ...b.shape.slice(-2)]).unsqueeze(-3);
    const gaps = x.sub(y);
    // Of nothing the largest is zero.
    return (a.shape.at(-1) as number) === 0 ? gaps.sum(-1) : norm(gaps, p, -1);
  });
});
