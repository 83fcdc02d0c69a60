/** @file Losses of margins and distances. */
import { isDifferentiable } from '../dtype.ts';
import { ShapeError } from '../errors.ts';
import { sweep } from '../scope.ts';
import { checkWithin } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { norm } from './composite.ts';
import { defineFunction } from './define.ts';
import {
  checkLoss,
  LOSS_OPTIONS,
  MARGIN_OPTIONS,
  TRIPLET_OPTIONS,
  WEIGHT_OPTIONS,
  type LossOptions,
} from './loss-options.ts';
import { reduce } from './losses.ts';
import { where } from './where.ts';
import { each, FLOAT, NUMBER, REAL } from './takes.ts';
import { logSigmoid } from './unary.ts';

type Margin = LossOptions & { margin?: number };

/** log(1 + exp(-target x)). */
export const softMarginLoss = defineFunction(
  'softMarginLoss',
  each(FLOAT),
  (x: Tensor, target: Tensor, options: LossOptions = {}): Tensor => {
    checkLoss('softMarginLoss', LOSS_OPTIONS, options);
    checkWithin('softMarginLoss: target', target.shape, x.shape);
    // Not log1p(exp(-target x)), which is infinite, with a slope that is NaN, where float32 has no such exponential.
    return sweep(() => reduce(logSigmoid(target.mul(x)).neg(), options.reduction));
  },
);

/** max(0, -target (a - b) + margin). */
export const marginRankingLoss = defineFunction(
  'marginRankingLoss',
  each(REAL),
  (a: Tensor, b: Tensor, target: Tensor, options: Margin = {}): Tensor => {
    checkLoss('marginRankingLoss', MARGIN_OPTIONS, options);
    if (a.rank !== b.rank || a.rank !== target.rank)
      throw new ShapeError(
        `marginRankingLoss: All input tensors should have same dimension but got sizes: [${a.shape.join(', ')}], [${b.shape.join(', ')}], [${target.shape.join(', ')}]`,
      );
    return sweep(() => {
      const gap = target.neg().mul(a.sub(b));
      // A margin is a fraction, also where it is whole: integers become floats beside it.
      const wide = isDifferentiable(gap.dtype) ? gap : gap.to('float32');
      return reduce(wide.add(options.margin ?? 0).clamp(0), options.reduction);
    });
  },
);

/** x where the target is 1, max(0, margin - x) where it is -1. */
export const hingeEmbeddingLoss = defineFunction(
  'hingeEmbeddingLoss',
  each(FLOAT),
  (x: Tensor, target: Tensor, options: Margin = {}): Tensor => {
    checkLoss('hingeEmbeddingLoss', MARGIN_OPTIONS, options);
    return sweep(() => {
      const far = where(
        target.ne(1),
        x
          .neg()
          .add(options.margin ?? 1)
          .clamp(0),
        0,
      );
      return reduce(far.add(where(target.ne(-1), x, 0)), options.reduction);
    });
  },
);

/** 1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1; along the last dimension. */
export const cosineEmbeddingLoss = defineFunction(
  'cosineEmbeddingLoss',
  each(REAL),
  (a: Tensor, b: Tensor, target: Tensor, options: Margin = {}): Tensor => {
    checkLoss('cosineEmbeddingLoss', MARGIN_OPTIONS, options);
    if (target.rank > 1 || a.rank !== target.rank + 1 || b.rank !== a.rank)
      throw new ShapeError(
        `cosineEmbeddingLoss: ${target.rank}D target tensor expects ${target.rank + 1}D input tensors, but found inputs with sizes [${a.shape.join(', ')}] and [${b.shape.join(', ')}]`,
      );
    return sweep(() => {
      const dim = target.rank;
      const squares = (t: Tensor): Tensor => t.square().sum(dim).add(EPS);
      const cos = a
        .mul(b)
        .sum(dim)
        .div(squares(a).mul(squares(b)).sqrt());
      const near = where(target.eq(1), cos.neg().add(1), 0);
      const far = where(target.eq(-1), cos.sub(options.margin ?? 0).clamp(0), 0);
      return reduce(near.add(far), options.reduction);
    });
  },
);

/** What PyTorch adds to the squares in cosineEmbeddingLoss. */
const EPS = 1e-12;

/** The p-norm of a - b + eps along the last dimension. */
export const pairwiseDistance = defineFunction(
  'pairwiseDistance',
  each(NUMBER),
  (a: Tensor, b: Tensor, p = 2, eps = 1e-6, keepDim = false): Tensor =>
    sweep(() => norm(a.sub(b).add(eps), p, -1, keepDim)),
);

/** How `tripletMarginLoss` measures distances. */
export interface TripletOptions extends LossOptions {
  /** By how much the negative is to be farther away than the positive. @default 1 */
  margin?: number;
  /** The order of the norm that distances are measured by; 2 is Euclid's. @default 2 */
  p?: number;
  /** Added to each difference, so that none is zero. @default 1e-6 */
  eps?: number;
  /** Takes the distance of positive and negative where that is less than that of anchor and negative. @default false */
  swap?: boolean;
}

/** max(0, |anchor - positive| - |anchor - negative| + margin). */
export const tripletMarginLoss = defineFunction(
  'tripletMarginLoss',
  each(NUMBER),
  (anchor: Tensor, positive: Tensor, negative: Tensor, options: TripletOptions = {}): Tensor => {
    checkLoss('tripletMarginLoss', TRIPLET_OPTIONS, options);
    const { margin = 1, p = 2, eps = 1e-6, swap = false } = options;
    if (!(margin > 0)) throw new RangeError(`tripletMarginLoss: margin should be greater than 0, got ${margin}`);
    if (anchor.rank !== positive.rank || anchor.rank !== negative.rank)
      throw new ShapeError(
        'tripletMarginLoss: anchor, positive and negative should have the same number of dimensions',
      );
    return sweep(() => {
      const near = pairwiseDistance(anchor, positive, p, eps);
      let far = pairwiseDistance(anchor, negative, p, eps);
      if (swap) far = far.minimum(pairwiseDistance(positive, negative, p, eps));
      return reduce(near.add(margin).sub(far).clamp(0), options.reduction);
    });
  },
);

/** Binary cross entropy of each class of the last dimension, their mean. */
export const multilabelSoftMarginLoss = defineFunction(
  'multilabelSoftMarginLoss',
  each(FLOAT),
  (x: Tensor, target: Tensor, options: LossOptions & { weight?: Tensor } = {}): Tensor => {
    checkLoss('multilabelSoftMarginLoss', WEIGHT_OPTIONS, options);
    for (const [name, given] of Object.entries({ target, weight: options.weight }))
      if (given !== undefined) checkWithin(`multilabelSoftMarginLoss: ${name}`, given.shape, x.shape);
    return sweep(() => {
      const log = target.mul(logSigmoid(x)).add(target.neg().add(1).mul(logSigmoid(x.neg())));
      const losses = (options.weight === undefined ? log : log.mul(options.weight)).neg();
      return reduce(losses.mean(-1), options.reduction);
    });
  },
);
