/** @file Activation functions that are made of others: celu, glu, the shrinks, threshold, softmin, gumbelSoftmax, pixelShuffle. */
import { ShapeError } from '../errors.ts';
import { rand } from '../random.ts';
import { checkOptionNames } from '../option-names.ts';
import { sweep } from '../scope.ts';
import { normalizeDim } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { elu } from './activations.ts';
import { defineFunction } from './define.ts';
import { scatter } from './indexing.ts';
import { where } from './select.ts';
import { ALL, each, FLOAT, NUMBER, REAL_NUMBER } from './takes.ts';
import { inFloat32 } from './widen.ts';

/** max(0, x) + min(0, alpha (exp(x / alpha) - 1)). */
export const celu = defineFunction('celu', 'celu', each(FLOAT), (t: Tensor, alpha = 1): Tensor => {
  if (alpha === 0) throw new RangeError('celu: ZeroDivisionError: alpha cannot be 0 for CELU');
  return inFloat32(t, (x) => {
    const below = x.detach().le(0);
    return where(below, elu(where(below, x, 0).div(alpha)).mul(alpha), x);
  });
});

/** The first half of dimension `dim`, times sigmoid of the second. */
export const glu = defineFunction('glu', 'glu', each(FLOAT), (t: Tensor, dim = -1): Tensor => {
  if (t.rank === 0) throw new ShapeError('glu does not support 0-dimensional tensors');
  const d = normalizeDim(dim, t.rank);
  const n = t.shape[d] as number;
  if (n % 2 !== 0) throw new ShapeError(`Halving dimension must be even, but dimension ${d} is size ${n}`);
  return inFloat32(t, (x) => x.narrow(d, 0, n / 2).mul(x.narrow(d, n / 2, n / 2).sigmoid()));
});

/** x beyond ±lambda, zero between. */
export const hardshrink = defineFunction('hardshrink', 'hardshrink', each(FLOAT), (t: Tensor, lambda = 0.5): Tensor =>
  sweep(() => where(t.detach().ge(-lambda).logicalAnd(t.detach().le(lambda)), 0, t)),
);

/** x nearer to zero by lambda, zero between. */
export const softshrink = defineFunction('softshrink', 'softshrink', each(FLOAT), (t: Tensor, lambda = 0.5): Tensor => {
  if (!(lambda >= 0)) throw new RangeError(`lambda must be greater or equal to 0, but found to be ${lambda}.`);
  return inFloat32(t, (x) => {
    const at = x.detach();
    const inside = at.ge(-lambda).logicalAnd(at.le(lambda));
    // NaN is beyond: its gradient passes.
    return where(inside, x.mul(0), where(at.lt(0), x.add(lambda), x.sub(lambda)));
  });
});

/** x - tanh(x). */
export const tanhshrink = defineFunction('tanhshrink', 'tanhshrink', each(NUMBER), (t: Tensor): Tensor =>
  sweep(() => t.sub(t.tanh())),
);

/** x above `at`, `value` elsewhere. */
export const threshold = defineFunction(
  'threshold',
  'threshold',
  each(REAL_NUMBER),
  (t: Tensor, at: number, value: number): Tensor => sweep(() => where(t.detach().le(at), value, t).to(t.dtype)),
);

/** softmax(-x) along `dim`. */
export const softmin = defineFunction('softmin', 'softmin', each(FLOAT), (t: Tensor, dim: number): Tensor =>
  sweep(() => t.neg().softmax(dim)),
);

const GUMBEL: ReadonlySet<string> = new Set(['tau', 'hard', 'dim']);

/** A sample of the categories of `logits` that gradients pass through (Jang et al. 2017); `hard` gives one-hot vectors with the soft gradient. */
export const gumbelSoftmax = defineFunction(
  'gumbelSoftmax',
  'gumbel_softmax',
  each(FLOAT),
  (logits: Tensor, options: { tau?: number; hard?: boolean; dim?: number } = {}): Tensor => {
    checkOptionNames(options, GUMBEL, 'gumbelSoftmax()');
    const { tau = 1, hard = false, dim = -1 } = options;
    return sweep(() => {
      // From (0, 1]: its logarithm is finite.
      const noise = rand(logits.shape).neg().add(1).log().neg().log().neg().to(logits.dtype);
      const soft = logits.add(noise).div(tau).softmax(dim);
      if (!hard) return soft;
      const chosen = scatter(soft.detach().mul(0), dim, soft.detach().argMax(dim, true), 1);
      return chosen.sub(soft.detach()).add(soft);
    });
  },
);

/** [..., C r², H, W] to [..., C, H r, W r]. */
export const pixelShuffle = defineFunction(
  'pixelShuffle',
  'pixel_shuffle',
  each(ALL),
  (t: Tensor, factor: number): Tensor => {
    if (t.rank < 3) throw new ShapeError(`pixelShuffle expects input to have at least 3 dimensions, but got ${t.rank}`);
    if (!Number.isInteger(factor) || factor < 1)
      throw new RangeError(`pixelShuffle expects a positive upscale_factor, but got ${factor}`);
    const [c, h, w] = t.shape.slice(-3) as [number, number, number];
    const lead = t.shape.slice(0, -3);
    if (c % factor ** 2 !== 0)
      throw new ShapeError(
        `pixelShuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but ${c} is not`,
      );
    return sweep(() => {
      const n = lead.length;
      const parts = t.reshape([...lead, c / factor ** 2, factor, factor, h, w]);
      const order = [...lead.map((_, i) => i), n, n + 3, n + 1, n + 4, n + 2];
      return parts.permute(order).reshape([...lead, c / factor ** 2, h * factor, w * factor]);
    });
  },
);

/** [..., C, H r, W r] to [..., C r², H, W]. */
export const pixelUnshuffle = defineFunction(
  'pixelUnshuffle',
  'pixel_unshuffle',
  each(ALL),
  (t: Tensor, factor: number): Tensor => {
    if (t.rank < 3)
      throw new ShapeError(`pixelUnshuffle expects input to have at least 3 dimensions, but got ${t.rank}`);
    if (!Number.isInteger(factor) || factor < 1)
      throw new RangeError(`pixelUnshuffle expects a positive downscale_factor, but got ${factor}`);
    const [c, h, w] = t.shape.slice(-3) as [number, number, number];
    const lead = t.shape.slice(0, -3);
    if (h % factor !== 0 || w % factor !== 0)
      throw new ShapeError(
        `pixelUnshuffle expects height and width to be divisible by downscale_factor, but got ${h} by ${w}`,
      );
    return sweep(() => {
      const n = lead.length;
      const parts = t.reshape([...lead, c, h / factor, factor, w / factor, factor]);
      const order = [...lead.map((_, i) => i), n, n + 2, n + 4, n + 1, n + 3];
      return parts.permute(order).reshape([...lead, c * factor ** 2, h / factor, w / factor]);
    });
  },
);
