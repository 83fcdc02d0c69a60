/** @file Operations made of others: their derivatives follow. */
import { ones } from '../creation.ts';
import { ShapeError } from '../errors.ts';
import { named } from '../named.ts';
import { bernoulliLike } from '../random.ts';
import { sweep } from '../scope.ts';
import {
  broadcastShapes,
  checkShape,
  checkWithin,
  normalizeDim,
  normalizeDims,
  reducedShape,
  sameShape,
  sizeOf,
  trailingDims,
} from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { affine, channelNorm, normalised, perChannel, tooFew, type BatchNormOptions } from './channel-norm.ts';
import { defineFunction } from './define.ts';
import { concat } from './join.ts';
import { checkMask, safeSoftmax } from './masking.ts';
import { matmul } from './matmul.ts';
import { unfit } from './unfit.ts';
import type { Dims } from './reduce.ts';
import { where } from './where.ts';
import { ALL, check, each, FLOAT, FLOATING, NUMBER, promoted, same } from './takes.ts';
import { whiten } from './whiten.ts';
import { toFloat32 } from '../precision.ts';
import { alike, inFloat32, inFloat32Both } from './widen.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';

const ATTENTION_OPTIONS: ReadonlySet<string> = new Set(['mask', 'causal', 'scale']);
const BATCH_NORM_OPTIONS = optionNames<BatchNormOptions>()('weight bias runningMean runningVar training momentum eps');

/** start + weight (end - start). */
export const lerp = defineFunction(
  'lerp',
  same(FLOATING),
  (start: Tensor, end: Tensor, weight: Tensor | number): Tensor =>
    inFloat32Both(start, end, (from, to) => {
      const way = to.sub(from);
      // From the nearer end, so that weight 1 gives the other one exactly.
      if (typeof weight === 'number')
        return Math.abs(weight) < 0.5 ? from.add(way.mul(weight)) : to.sub(way.mul(1 - weight));
      const w = toFloat32(weight);
      const near = w.detach().abs().lt(0.5);
      return where(near, from, to).add(way.mul(where(near, w, w.sub(1))));
    }),
);

/** |x|^p for p below 1, whose slope at zero, infinite, is taken to be zero. */
function steepPower(x: Tensor, p: number): Tensor {
  const zero = x.detach().eq(0);
  return where(zero, p < 0 ? Infinity : 0, where(zero, 1, x.abs()).pow(p));
}

/** The largest or smallest |x|. Where that is NaN nothing has a slope, as in PyTorch. */
function extremeNorm(x: Tensor, largest: boolean, dim: Dims | undefined, keepDim: boolean): Tensor {
  const size = x.abs();
  const extreme = (t: Tensor, keep: boolean): Tensor => (largest ? t.amax(dim, keep) : t.amin(dim, keep));
  const lost = extreme(size.detach(), true).isNaN();
  if (lost.any().item() === 0) return extreme(size, keepDim);
  const found = where(lost, NaN, extreme(where(lost, 0, size), true));
  return keepDim ? found : found.reshape(reducedShape(x.shape, normalizeDims(dim, x.rank), false));
}

/** The p-norm over `dim`; at zero its slope is zero. */
export const norm = defineFunction('norm', each(FLOATING), (t: Tensor, p = 2, dim?: Dims, keepDim = false): Tensor => {
  if (t.dtype === 'complex64') return sweep(() => norm(t.abs(), p, dim, keepDim));
  return inFloat32(t, (x) => {
    const count = sizeOf(normalizeDims(dim, x.rank).map((d) => x.shape[d] as number));
    if (p === 1) return x.abs().sum(dim, keepDim);
    // Of one element the power may be beyond the dtype.
    if (count === 1 && p !== 0) {
      const finite = x.detach().isFinite();
      const plain = (one: Tensor): Tensor => one.abs().sum(dim, keepDim);
      if (finite.all().item() !== 0) return plain(x);
      if (Number.isFinite(p))
        return where(
          finite.all(dim, keepDim),
          plain(where(finite, x, 0)),
          rootOfPowers(where(finite, 1, x), p, dim, keepDim, 1),
        );
    }
    if (p === Infinity || p === -Infinity) return extremeNorm(x, p > 0, dim, keepDim);
    if (p === 0) return x.ne(0).to(x.dtype).add(x.sign().square().mul(0)).sum(dim, keepDim);
    if (p < 0 && count === 0) {
      throw new ShapeError(`norm: no elements have no ${p} norm`);
    }
    return rootOfPowers(x, p, dim, keepDim, count);
  });
});

/** The p-norm as it is written, of `count` elements each. */
function rootOfPowers(x: Tensor, p: number, dim: Dims | undefined, keepDim: boolean, count: number): Tensor {
  const total = (p === 2 ? x.square() : p < 1 ? steepPower(x, p) : x.abs().pow(p)).sum(dim, keepDim);
  const rooted = (sum: Tensor): Tensor => (p === 2 ? sum.sqrt() : sum.pow(1 / p));
  const found = total.detach();
  const odd = p === 2 ? found.eq(0).logicalOr(found.eq(Infinity)) : found.eq(0);
  if (odd.any().item() === 0) return rooted(total);
  // Squares beyond the dtype leave no slope, as zeros do, unless an element is infinite: the slope of that would be zero times infinity.
  const flat = p === 2 && count > 0 ? odd.logicalAnd(x.detach().abs().amax(dim, keepDim).isFinite()) : odd;
  return where(flat, p < 0 ? Infinity : found, rooted(where(flat, 1, total)));
}

/** t / max(norm, eps) along `dim`. */
export const normalize = defineFunction('normalize', each(FLOATING), (t: Tensor, p = 2, dim = 1, eps = 1e-12): Tensor =>
  sweep(() => t.div(norm(t, p, dim, true).maximum(eps))),
);

/** The cosine of the angle between a and b, which broadcast, along `dim`; norms count as at least `eps`. */
export const cosineSimilarity = defineFunction(
  'cosineSimilarity',
  promoted(FLOAT),
  (a: Tensor, b: Tensor, dim = 1, eps = 1e-8): Tensor =>
    inFloat32Both(a, b, (p, q) => {
      const shape = broadcastShapes(a.shape, b.shape);
      // Each by its own norm first, as in PyTorch: the products then stay within 1.
      const unit = (t: Tensor): Tensor => {
        const x = t.expand(shape);
        const size = norm(x, 2, dim, true);
        const own = size.detach();
        return x.div(size.add(where(own.lt(eps), own.neg().add(eps), 0)));
      };
      return unit(p).mul(unit(q)).sum(dim);
    }),
);

/** x weight^T + bias over the last dimension: weight [out, in], or [in] for one output without a dimension of its own. */
export const linear = defineFunction(
  'linear',
  same(NUMBER),
  (x: Tensor, weight: Tensor, bias?: Tensor | null): Tensor => {
    if (weight.rank !== 1 && weight.rank !== 2)
      throw new ShapeError(`linear: expected a weight [out, in] or [in], got [${weight.shape.join(', ')}]`);
    if (weight.rank === 1 && bias !== undefined && bias !== null && bias.rank > 0) {
      throw new ShapeError(`linear: a weight [in] takes a bias without dimensions, got [${bias.shape.join(', ')}]`);
    }
    if (x.shape.at(-1) !== weight.shape.at(-1))
      throw new ShapeError(`linear(): a weight [${weight.shape.join(', ')}] takes ${unfit(x, weight)}`);
    return inFloat32(x, (wide) => {
      const own = alike(weight, x, wide);
      const product = matmul(wide, weight.rank === 1 ? own : own.transpose(0, 1));
      if (bias === undefined || bias === null) return product;
      const out = product.add(bias);
      if (!sameShape(out.shape, product.shape)) {
        throw new ShapeError(
          `linear: a bias [${bias.shape.join(', ')}] does not fit a result of shape [${product.shape.join(', ')}]`,
        );
      }
      return out;
    });
  },
);

/** a[i] b[j]. */
export const outer = defineFunction('outer', each(ALL), (a: Tensor, b: Tensor): Tensor => {
  if (a.rank !== 1 || b.rank !== 1) throw new ShapeError('outer: expected vectors');
  return sweep(() => a.unsqueeze(1).mul(b.unsqueeze(0)));
});

/** Repeats the tensor along each dimension; more counts than dimensions add dimensions in front. */
export const tile = defineFunction('tile', each(ALL), (t: Tensor, counts: readonly number[]): Tensor =>
  sweep(() => {
    checkShape(counts);
    const rank = Math.max(t.rank, counts.length);
    const full = [...Array<number>(rank - counts.length).fill(1), ...counts];
    const shape = [...Array<number>(rank - t.rank).fill(1), ...t.shape];
    const spread = t.reshape(shape.flatMap((n) => [1, n])).expand(shape.flatMap((n, i) => [full[i] as number, n]));
    // A copy of its own, also where nothing is repeated.
    return spread.clone().reshape(shape.map((n, i) => n * (full[i] as number)));
  }),
);

/** Shifts elements along `dim`, or in the flattened tensor; those that fall off come back at the other end. */
export const roll = defineFunction('roll', each(ALL), (t: Tensor, shift: number, dim?: number): Tensor =>
  sweep(() => {
    if (!Number.isInteger(shift)) throw new ShapeError(`roll: the shift must be a whole number, but got ${shift}`);
    if (dim === undefined && t.rank !== 1) return roll(t.reshape([t.size]), shift, 0).reshape(t.shape);
    if (t.rank === 0) throw new ShapeError(`roll: dimension specified as ${dim ?? 0}, but the tensor has none`);
    const d = normalizeDim(dim ?? 0, t.rank);
    const n = t.shape[d] as number;
    if (n === 0) return t.clone();
    const by = ((shift % n) + n) % n;
    return concat([t.narrow(d, n - by, by), t.narrow(d, 0, n - by)], d);
  }),
);

/** Elements kept with probability 1 - p and scaled by 1 / (1 - p); the tensor itself when not training. */
export const dropout = defineFunction('dropout', each(ALL), (t: Tensor, p = 0.5, training = true): Tensor => {
  if (!(p >= 0 && p <= 1)) throw new RangeError(`dropout probability has to be between 0 and 1, but got ${p}`);
  if (!training) return t.alias();
  check('dropout', each(FLOAT), [t]);
  if (p === 0) return t.alias();
  return sweep(() => (p === 1 ? t.mul(0) : t.mul(bernoulliLike(t, 1 - p)).div(1 - p)));
});

/** Normalises over the trailing dimensions `shape` (Ba et al. 2016). */
export const layerNorm = defineFunction(
  'layerNorm',
  normalised,
  (t: Tensor, shape: readonly number[], weight?: Tensor | null, bias?: Tensor | null, eps = 1e-5): Tensor =>
    inFloat32(t, (x) => {
      const dims = trailingDims('layerNorm', x.shape, shape);
      checkAffine('layerNorm', shape, weight, bias);
      return affine(whiten(x, dims, eps), weight, bias);
    }),
);

/** @throws ShapeError for a weight or a bias of another shape than what they are for: none is broadcast. */
function checkAffine(
  name: string,
  shape: readonly number[],
  weight: Tensor | null | undefined,
  bias: Tensor | null | undefined,
): void {
  for (const [part, given] of [
    ['weight', weight],
    ['bias', bias],
  ] as const) {
    if (given === undefined || given === null || sameShape(given.shape, shape)) continue;
    throw new ShapeError(`${name}: expected a ${part} of shape [${shape.join(', ')}], got [${given.shape.join(', ')}]`);
  }
}

/** Normalises each group of channels of [N, C, ...] (Wu & He 2018). */
export const groupNorm = defineFunction(
  'groupNorm',
  normalised,
  (t: Tensor, groups: number, weight?: Tensor | null, bias?: Tensor | null, eps = 1e-5): Tensor =>
    inFloat32(t, (x) => {
      if (x.rank < 2) throw new ShapeError(`groupNorm expects [N, C, ...], got [${x.shape.join(', ')}]`);
      const [n, c, ...rest] = x.shape as readonly [number, number, ...number[]];
      if (!Number.isInteger(groups) || groups < 1 || c % groups !== 0)
        throw new ShapeError(`groupNorm: ${c} channels do not split into ${groups} groups`);
      checkAffine('groupNorm', [c], weight, bias);
      if (Math.floor((n * c) / groups) * sizeOf(rest) === 1) throw tooFew(x);
      const grouped = x.reshape([n, groups, (c / groups) * sizeOf(rest)]);
      return affine(whiten(grouped, [2], eps).reshape(x.shape), perChannel(weight, x.rank), perChannel(bias, x.rank));
    }),
);

export type { BatchNormOptions } from './channel-norm.ts';

/** Normalises each channel of [N, C, ...] over the batch, or by running statistics (Ioffe & Szegedy 2015). */
export const batchNorm = named('aten::batch_norm', (t: Tensor, options: BatchNormOptions = {}): Tensor => {
  checkOptionNames(options, BATCH_NORM_OPTIONS, 'batchNorm()');
  const { training = true, eps = 1e-5 } = options;
  if (!(training ? eps > 0 : eps >= 0))
    throw new RangeError(
      `batchNorm: eps is added to variances, and is ${training ? 'above 0 while training' : 'not below 0'}, but got ${eps}`,
    );
  return channelNorm(t, options);
});

/**
 * softmax(q k^T / √d + mask) v: q [..., n, d], k [..., m, d], v [..., m, e]. `mask` is bool (true: attend) or added; `causal` keeps
 * row i from what comes after it, also beside a mask. A row that may attend to nothing gives zeros.
 */
export const scaledDotProductAttention = defineFunction(
  'scaledDotProductAttention',
  same(FLOAT),
  (q: Tensor, k: Tensor, v: Tensor, options: { mask?: Tensor; causal?: boolean; scale?: number } = {}): Tensor => {
    checkOptionNames(options, ATTENTION_OPTIONS, 'scaledDotProductAttention()');
    const { mask, causal = false } = options;
    checkMask('scaledDotProductAttention(): mask', mask);
    for (const t of [q, k, v]) {
      if (t.rank < 2) throw new ShapeError(`attention expects tensors [..., n, d], got [${t.shape.join(', ')}]`);
    }
    const scale = options.scale ?? 1 / Math.sqrt(q.shape.at(-1) as number);
    return inFloat32(q, (x) => {
      let scores = matmul(x.mul(scale), alike(k, q, x).transpose(-1, -2));
      if (mask !== undefined) {
        checkWithin('scaledDotProductAttention(): mask', mask.shape, scores.shape);
        scores = mask.dtype === 'bool' ? scores.maskedFill(mask.logicalNot(), -Infinity) : scores.add(mask);
      }
      if (causal) {
        const ahead = ones(scores.shape.slice(-2)).triu(1).ne(0);
        scores = scores.maskedFill(ahead, -Infinity);
      }
      return matmul(safeSoftmax(scores), alike(v, q, x));
    });
  },
);
