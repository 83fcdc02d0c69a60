/** @file Activation functions that are made of others: celu, glu, the shrinks, threshold, softmin, gumbelSoftmax. */
import { ShapeError } from '../errors.ts';
import { rand } from '../random.ts';
import { checkOptionNames } from '../option-names.ts';
import { sweep } from '../scope.ts';
import { normalizeDim } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { defineFunction } from './define.ts';
import { scatter } from './indexing.ts';
import { where } from './where.ts';
import { each, FLOAT, NUMBER, REAL_NUMBER } from './takes.ts';
import { inFloat32 } from './widen.ts';

/** max(0, x) + min(0, alpha (exp(x / alpha) - 1)). */
export const celu = defineFunction('celu', each(FLOAT), (t: Tensor, alpha = 1): Tensor => {
  if (alpha === 0) throw new RangeError('celu: ZeroDivisionError: alpha cannot be 0 for CELU');
  return inFloat32(t, (x) => {
    const below = x.detach().le(0);
    // Not elu, which leaves what a negative alpha makes positive as it is.
    return where(below, where(below, x, 0).div(alpha).expm1().mul(alpha), x);
  });
});

/** The first half of dimension `dim`, times sigmoid of the second. */
export const glu = defineFunction('glu', each(FLOAT), (t: Tensor, dim = -1): Tensor => {
  if (t.rank === 0) throw new ShapeError('glu does not support 0-dimensional tensors');
  const d = normalizeDim(dim, t.rank);
  const n = t.shape[d] as number;
  if (n % 2 !== 0) throw new ShapeError(`Halving dimension must be even, but dimension ${d} is size ${n}`);
  return inFloat32(t, (x) => x.narrow(d, 0, n / 2).mul(x.narrow(d, n / 2, n / 2).sigmoid()));
});

/** x beyond ±lambda, zero between. */
export const hardshrink = defineFunction('hardshrink', each(FLOAT), (t: Tensor, lambda = 0.5): Tensor =>
  sweep(() => where(t.detach().ge(-lambda).logicalAnd(t.detach().le(lambda)), 0, t)),
);

/** x nearer to zero by lambda, zero between. */
export const softshrink = defineFunction('softshrink', each(FLOAT), (t: Tensor, lambda = 0.5): Tensor => {
  if (!(lambda >= 0)) throw new RangeError(`lambda must be greater or equal to 0, but found to be ${lambda}.`);
  return inFloat32(t, (x) => {
    const at = x.detach();
    const inside = at.ge(-lambda).logicalAnd(at.le(lambda));
    // NaN is beyond: its gradient passes.
    return where(inside, x.mul(0), where(at.lt(0), x.add(lambda), x.sub(lambda)));
  });
});

/** x - tanh(x). */
export const tanhshrink = defineFunction('tanhshrink', each(NUMBER), (t: Tensor): Tensor =>
  sweep(() => t.sub(t.tanh())),
);

/** x above `at`, `value` elsewhere. */
export const threshold = defineFunction(
  'threshold',
  each(REAL_NUMBER),
  (t: Tensor, at: number, value: number): Tensor => sweep(() => where(t.detach().le(at), value, t).to(t.dtype)),
);

/** softmax(-x) along `dim`. */
export const softmin = defineFunction('softmin', each(FLOAT), (t: Tensor, dim: number): Tensor =>
  sweep(() => t.neg().softmax(dim)),
);

const GUMBEL: ReadonlySet<string> = new Set(['tau', 'hard', 'dim']);

/** A sample of the categories of `logits` that gradients pass through (Jang et al. 2017); `hard` gives one-hot vectors with the soft gradient. */
export const gumbelSoftmax = defineFunction(
  'gumbelSoftmax',
  each(FLOAT),
  (logits: Tensor, options: { tau?: number; hard?: boolean; dim?: number } = {}): Tensor => {
    checkOptionNames(options, GUMBEL, 'gumbelSoftmax()');
    const { tau = 1, hard = false, dim = -1 } = options;
    return sweep(() => {
      // Exponential, and never 0, whose logarithm is infinite: one in 16 million would be.
      const waits = rand(logits.shape)
        .neg()
        .add(1)
        .log()
        .neg()
        .clamp(2 ** -25);
      const noise = waits.log().neg().to(logits.dtype);
      const soft = logits.add(noise).div(tau).softmax(dim);
      if (!hard) return soft;
      const chosen = scatter(soft.detach().mul(0), dim, soft.detach().argMax(dim, true), 1);
      return chosen.sub(soft.detach()).add(soft);
    });
  },
);
