/** @file How far numbers are from their mean: variance and std. */
import { full } from '../creation.ts';
import type { NumberArray } from '../dtype.ts';
import { readNumbers } from '../host.ts';
import { checkOptionNames } from '../option-names.ts';
import { normalizeDims, sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { imag, real } from './complex-parts.ts';
import { defineFunction } from './define.ts';
import type { Dims } from './reduce.ts';
import { each, FLOATING } from './takes.ts';
import { where } from './where.ts';
import { inFloat32 } from './widen.ts';

const SPREAD_OPTIONS: ReadonlySet<string> = new Set(['correction', 'keepDim']);

/** The variance over `dim`; `correction` 1 divides by n - 1. */
export const variance = defineFunction(
  ['variance', 'var'],
  each(FLOATING),
  (t: Tensor, dim?: Dims, options: { correction?: number; keepDim?: boolean } = {}): Tensor =>
    inFloat32(t, (x) => {
      checkOptionNames(options, SPREAD_OPTIONS, 'variance()');
      if (x.dtype === 'complex64') return variance(real(x), dim, options).add(variance(imag(x), dim, options));
      const dims = normalizeDims(dim, x.rank);
      const { correction = 1, keepDim = false } = options;
      const count = sizeOf(dims.map((d) => x.shape[d] as number)) - correction;
      return x.sub(x.mean(dims, true)).square().sum(dims, keepDim).div(Math.max(0, count));
    }),
);

/** The standard deviation over `dim`. */
export const std = defineFunction(
  'std',
  each(FLOATING),
  (t: Tensor, dim?: Dims, options: { correction?: number; keepDim?: boolean } = {}): Tensor =>
    inFloat32(t, (x) => {
      const spread = variance(x, dim, options);
      const kind = kindOfAll(readNumbers(spread));
      if (kind === 'positive') return spread.sqrt();
      return kind === 'finite' ? rootOf(spread) : scaledStd(x, dim, options);
    }),
);

/** Read once: operations that look cost a quarter of all where rows are short, or few. */
function kindOfAll(variances: NumberArray): 'positive' | 'finite' | 'other' {
  let zero = false;
  for (let i = 0; i < variances.length; i++) {
    const v = variances[i] as number;
    // NaN is neither.
    if (!(v < Infinity)) return 'other';
    if (v === 0) zero = true;
  }
  return zero ? 'finite' : 'positive';
}

/** Where nothing varies the slope is taken to be zero, as in PyTorch. */
function rootOf(spread: Tensor): Tensor {
  const zero = spread.detach().eq(0);
  return where(zero, 0, where(zero, 1, spread).sqrt());
}

/** Of which the squares of the largest numbers are finite, and so are sums of 2^28 of them. */
const SMALLER = { float32: 2 ** -80, float64: 2 ** -530 };

/** The standard deviation where variances are too large: of smaller numbers, made larger again. PyTorch's are doubles. */
function scaledStd(x: Tensor, dim: Dims | undefined, options: { correction?: number; keepDim?: boolean }): Tensor {
  const seen = variance(x.detach(), dim, { ...options, keepDim: true });
  // Real, also of complex numbers.
  const { dtype } = seen;
  const smaller = SMALLER[dtype === 'float64' ? dtype : 'float32'];
  const scale = where(seen.isFinite(), full([], 1, { dtype }), full([], smaller, { dtype }));
  const root = rootOf(variance(x.mul(scale), dim, options));
  return root.div(scale.reshape(root.shape));
}
