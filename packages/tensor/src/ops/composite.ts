/** @file Operations made of others: their derivatives follow. */
import { isFloat } from '../dtype.ts';
import { DTypeError, ShapeError } from '../errors.ts';
import { named } from '../named.ts';
import { bernoulliLike } from '../random.ts';
import { sweep } from '../scope.ts';
import { checkShape, normalizeDim, normalizeDims, sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { concat } from './join.ts';
import { matmul } from './matmul.ts';
import type { Dims } from './reduce.ts';
import { maskedFill, where } from './select.ts';
import { whiten } from './whiten.ts';

/** start + weight (end - start). */
export const lerp = named('aten::lerp', (start: Tensor, end: Tensor, weight: Tensor | number): Tensor =>
  sweep(() => start.add(end.sub(start).mul(weight))),
);

/** The variance over `dim`; `correction` 1 divides by n - 1. */
export const variance = named(
  'aten::var',
  (t: Tensor, dim?: Dims, options: { correction?: number; keepDim?: boolean } = {}): Tensor =>
    sweep(() => {
      const dims = normalizeDims(dim, t.rank);
      const { correction = 1, keepDim = false } = options;
      const count = sizeOf(dims.map((d) => t.shape[d] as number)) - correction;
      return t.sub(t.mean(dims, true)).square().sum(dims, keepDim).div(Math.max(0, count));
    }),
);

/** The standard deviation over `dim`. */
export const std = named(
  'aten::std',
  (t: Tensor, dim?: Dims, options: { correction?: number; keepDim?: boolean } = {}): Tensor =>
    sweep(() => {
      const spread = variance(t, dim, options);
      const zero = spread.detach().eq(0);
      // Where nothing varies the slope is taken to be zero, as in PyTorch.
      return zero.any().item() === 0 ? spread.sqrt() : where(zero, 0, where(zero, 1, spread).sqrt());
    }),
);

/** The p-norm over `dim`; at zero its slope is zero. */
export const norm = named('aten::norm', (t: Tensor, p = 2, dim?: Dims, keepDim = false): Tensor =>
  sweep(() => {
    if (!isFloat(t.dtype)) throw new DTypeError(`norm(): the dtype must be floating point, got ${t.dtype}`);
    if (p === 1) return t.abs().sum(dim, keepDim);
    if (p === Infinity) return t.abs().amax(dim, keepDim);
    if (p === -Infinity) return t.abs().amin(dim, keepDim);
    if (p === 0) return t.ne(0).to(t.dtype).add(t.sign().square().mul(0)).sum(dim, keepDim);
    const total = (p === 2 ? t.square() : t.abs().pow(p)).sum(dim, keepDim);
    const zero = total.detach().eq(0);
    const root = zero.any().item() === 0 ? total : where(zero, 1, total);
    const value = p === 2 ? root.sqrt() : root.pow(1 / p);
    return root === total ? value : maskedFill(value, zero, 0);
  }),
);

/** t / max(norm, eps) along `dim`. */
export const normalize = named('aten::normalize', (t: Tensor, p = 2, dim = 1, eps = 1e-12): Tensor =>
  sweep(() => t.div(norm(t, p, dim, true).maximum(eps))),
);

/** The cosine of the angle between a and b along `dim`. */
export const cosineSimilarity = named('aten::cosine_similarity', (a: Tensor, b: Tensor, dim = 1, eps = 1e-8): Tensor =>
  sweep(() => {
    const scale = norm(a, 2, dim)
      .maximum(eps)
      .mul(norm(b, 2, dim).maximum(eps));
    return a.mul(b).sum(dim).div(scale);
  }),
);

/** x weight^T + bias over the last dimension. */
export const linear = named('aten::linear', (x: Tensor, weight: Tensor, bias?: Tensor | null): Tensor =>
  sweep(() => {
    const product = matmul(x, weight.transpose(0, 1));
    return bias === undefined || bias === null ? product : product.add(bias);
  }),
);

/** a[i] b[j]. */
export const outer = named('aten::outer', (a: Tensor, b: Tensor): Tensor => {
  if (a.rank !== 1 || b.rank !== 1) throw new ShapeError('outer: expected vectors');
  return sweep(() => a.unsqueeze(1).mul(b.unsqueeze(0)));
});

/** Repeats the tensor along each dimension; more counts than dimensions add dimensions in front. */
export const tile = named('aten::tile', (t: Tensor, counts: readonly number[]): Tensor =>
  sweep(() => {
    checkShape(counts);
    const rank = Math.max(t.rank, counts.length);
    const full = [...Array<number>(rank - counts.length).fill(1), ...counts];
    const shape = [...Array<number>(rank - t.rank).fill(1), ...t.shape];
    const spread = t.reshape(shape.flatMap((n) => [1, n])).expand(shape.flatMap((n, i) => [full[i] as number, n]));
    return spread.reshape(shape.map((n, i) => n * (full[i] as number)));
  }),
);

/** Shifts elements along `dim`, or in the flattened tensor; those that fall off come back at the other end. */
export const roll = named('aten::roll', (t: Tensor, shift: number, dim?: number): Tensor =>
  sweep(() => {
    if (!Number.isInteger(shift)) throw new ShapeError(`roll: the shift must be a whole number, but got ${shift}`);
    if (dim === undefined && t.rank !== 1) return roll(t.reshape([t.size]), shift, 0).reshape(t.shape);
    const d = normalizeDim(dim ?? 0, t.rank);
    if (t.rank === 0) return t.clone();
    const n = t.shape[d] as number;
    if (n === 0) return t.clone();
    const by = ((shift % n) + n) % n;
    return concat([t.narrow(d, n - by, by), t.narrow(d, 0, n - by)], d);
  }),
);

/** Elements kept with probability 1 - p and scaled by 1 / (1 - p); the tensor itself when not training. */
export const dropout = named('aten::dropout', (t: Tensor, p = 0.5, training = true): Tensor => {
  if (!(p >= 0 && p <= 1)) throw new RangeError(`dropout probability has to be between 0 and 1, but got ${p}`);
  if (!training || p === 0) return t.alias();
  return sweep(() => (p === 1 ? t.mul(0) : t.mul(bernoulliLike(t, 1 - p)).div(1 - p)));
});

/** Normalises over the trailing dimensions `shape` (Ba et al. 2016). */
export const layerNorm = named(
  'aten::layer_norm',
  (t: Tensor, shape: readonly number[], weight?: Tensor | null, bias?: Tensor | null, eps = 1e-5): Tensor =>
    sweep(() => {
      const dims = shape.map((_, i) => t.rank - shape.length + i);
      if (dims.some((d, i) => t.shape[d] !== shape[i])) {
        throw new ShapeError(
          `layerNorm: expected input whose last dimensions are [${shape.join(', ')}], got [${t.shape.join(', ')}]`,
        );
      }
      return affine(whiten(t, dims, eps), weight, bias);
    }),
);

function affine(t: Tensor, weight?: Tensor | null, bias?: Tensor | null): Tensor {
  const scaled = weight === undefined || weight === null ? t : t.mul(weight);
  return bias === undefined || bias === null ? scaled : scaled.add(bias);
}

/** A parameter for each channel in the shape that broadcasts over [N, C, ...]. */
function perChannel(p: Tensor | null | undefined, rank: number): Tensor | null {
  return p === undefined || p === null ? null : p.reshape([p.size, ...Array<number>(rank - 2).fill(1)]);
}

/** Normalises each group of channels of [N, C, ...] (Wu & He 2018). */
export const groupNorm = named(
  'aten::group_norm',
  (t: Tensor, groups: number, weight?: Tensor | null, bias?: Tensor | null, eps = 1e-5): Tensor =>
    sweep(() => {
      const [n, c] = t.shape as readonly [number, number];
      if (t.rank < 2 || c % groups !== 0)
        throw new ShapeError(`groupNorm: ${c} channels do not split into ${groups} groups`);
      const grouped = t.reshape([n, groups, t.size / Math.max(1, n * groups)]);
      return affine(whiten(grouped, [2], eps).reshape(t.shape), perChannel(weight, t.rank), perChannel(bias, t.rank));
    }),
);

export interface BatchNormOptions {
  weight?: Tensor | null;
  bias?: Tensor | null;
  /** [C]; updated in place when training. */
  runningMean?: Tensor | null;
  runningVar?: Tensor | null;
  training?: boolean;
  momentum?: number;
  eps?: number;
}

/** Normalises each channel of [N, C, ...] over the batch, or by running statistics (Ioffe & Szegedy 2015). */
export const batchNorm = named('aten::batch_norm', (t: Tensor, options: BatchNormOptions = {}): Tensor =>
  sweep(() => {
    const { training = true, momentum = 0.1, eps = 1e-5, runningMean, runningVar } = options;
    if (t.rank < 2) throw new ShapeError(`batchNorm expects [N, C, ...], got [${t.shape.join(', ')}]`);
    const dims = t.shape.map((_, i) => i).filter((i) => i !== 1);
    const scale = perChannel(options.weight, t.rank);
    const shift = perChannel(options.bias, t.rank);
    const useBatch =
      training || runningMean === undefined || runningMean === null || runningVar === undefined || runningVar === null;
    if (!useBatch) {
      const mean = perChannel(runningMean, t.rank) as Tensor;
      const spread = (perChannel(runningVar, t.rank) as Tensor).add(eps).rsqrt();
      return affine(t.sub(mean).mul(spread), scale, shift);
    }
    const count = t.size / Math.max(1, t.shape[1] as number);
    if (training && count <= 1) throw new ShapeError('Expected more than 1 value per channel when training');
    if (training) {
      const seen = t.detach();
      runningMean?.mul_(1 - momentum).add_(seen.mean(dims), { alpha: momentum });
      runningVar?.mul_(1 - momentum).add_(variance(seen, dims), { alpha: momentum });
    }
    return affine(whiten(t, dims, eps), scale, shift);
  }),
);

/** softmax(q k^T / √d + mask) v: q [..., n, d], k [..., m, d], v [..., m, e]. `mask` is bool (true: attend) or added. */
export const scaledDotProductAttention = named(
  'aten::scaled_dot_product_attention',
  (q: Tensor, k: Tensor, v: Tensor, options: { mask?: Tensor; causal?: boolean; scale?: number } = {}): Tensor =>
    sweep(() => {
      const scale = options.scale ?? 1 / Math.sqrt(q.shape.at(-1) as number);
      let scores = matmul(q, k.transpose(-1, -2)).mul(scale);
      const { mask } = options;
      if (mask !== undefined)
        scores = mask.dtype === 'bool' ? scores.maskedFill(mask.logicalNot(), -Infinity) : scores.add(mask);
      if (options.causal === true) scores = scores.maskedFill(scores.detach().mul(0).add(1).triu(1).ne(0), -Infinity);
      return matmul(scores.softmax(-1), v);
    }),
);
