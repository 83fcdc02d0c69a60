/** @file Loss functions. Each returns a scalar unless `reduction` is 'none'. */
import { calledAs } from '../called-as.ts';
import { onesLike } from '../creation.ts';
import type { DType } from '../dtype.ts';
import { ShapeError } from '../errors.ts';
import { named } from '../named.ts';
import { sweep } from '../scope.ts';
import { broadcastShapes, checkWithin, sameShape, sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { defineFunction, defineOp } from './define.ts';
import { nll } from './nll.ts';
import { apply } from './op.ts';
import { resultDType } from './promotion.ts';
import { where } from './where.ts';
import { check, each, FLOAT, FLOATING, NUMBER, operands, promoted, REAL, same, REAL_NUMBER } from './takes.ts';
import { logSoftmax } from './softmax.ts';
import { bce, logitBce } from './bce.ts';
import { inFloat32Both } from './widen.ts';
import {
  checkLoss,
  CLASS_LOSS_OPTIONS,
  CROSS_ENTROPY_OPTIONS,
  HUBER_OPTIONS,
  KL_OPTIONS,
  LOGIT_OPTIONS,
  LOSS_OPTIONS,
  SMOOTH_L1_OPTIONS,
  WEIGHT_OPTIONS,
  type LossOptions,
  type Reduction,
} from './loss-options.ts';

/** How the losses of the elements become one number. @default 'mean' */
export type { LossOptions, Reduction } from './loss-options.ts';

export function reduce(losses: Tensor, reduction: Reduction = 'mean'): Tensor {
  if (reduction === 'none') return losses;
  return reduction === 'sum' ? losses.sum() : losses.mean();
}

/**
 * The losses of two tensors, reduced; as PyTorch takes targets of another shape (with a warning). They broadcast first, so that neither
 * counts as one without dimensions where dtypes meet.
 */
function lossOf(a: Tensor, b: Tensor, options: LossOptions, losses: (a: Tensor, b: Tensor) => Tensor): Tensor {
  return sweep(() => {
    const shape = sameShape(a.shape, b.shape) ? undefined : broadcastShapes(a.shape, b.shape);
    const wide = (t: Tensor): Tensor => (shape === undefined ? t : t.expand(shape));
    return inFloat32Both(wide(a), wide(b), (x, y) => reduce(losses(x, y), options.reduction));
  });
}

/** d^2 but where `far` holds: there d may be infinite, and would make the gradient NaN that is not taken. */
function squareWhereNot(far: Tensor, d: Tensor): Tensor {
  return where(far, 0, d).square();
}

function inDType(t: Tensor, dtype: DType): Tensor {
  return t.dtype === dtype ? t : t.to(dtype);
}

function checkSame(name: string, a: Tensor, b: Tensor): void {
  if (!sameShape(a.shape, b.shape)) {
    throw new ShapeError(
      `${name}: input has shape [${a.shape.join(', ')}] and target [${b.shape.join(', ')}]; they must be equal`,
    );
  }
}

/**
 * (a - b)^2; a and b broadcast.
 * @param a predictions
 * @param b targets; the two broadcast
 * @param options `reduction`: 'mean' (default), 'sum' or 'none'
 * @example
 * ```ts
 * console.log(mseLoss(tensor([1, 2]), tensor([1, 4])).item()); // 2
 * ```
 */
export const mseLoss = defineFunction(
  'mseLoss',
  promoted(FLOAT),
  (a: Tensor, b: Tensor, options: LossOptions = {}): Tensor => {
    checkLoss('mseLoss', LOSS_OPTIONS, options, [a, b]);
    return lossOf(a, b, options, (x, y) => x.sub(y).square());
  },
);

/** |a - b|; a and b broadcast. */
export const l1Loss = defineFunction(
  'l1Loss',
  each(NUMBER),
  (a: Tensor, b: Tensor, options: LossOptions = {}): Tensor => {
    checkLoss('l1Loss', LOSS_OPTIONS, options, [a, b]);
    if ((options.reduction ?? 'mean') === 'mean') check('l1Loss', promoted(FLOATING), [a, b]);
    return lossOf(a, b, options, (x, y) => x.sub(y).abs());
  },
);

/** 0.5 d^2 / beta where |d| < beta, |d| - 0.5 beta elsewhere; |d| for beta 0. a and b broadcast. */
export const smoothL1Loss = defineFunction(
  'smoothL1Loss',
  promoted(NUMBER),
  (a: Tensor, b: Tensor, options: LossOptions & { beta?: number } = {}): Tensor => {
    checkLoss('smoothL1Loss', SMOOTH_L1_OPTIONS, options);
    const { beta = 1, ...plain } = options;
    if (!(beta >= 0)) throw new RangeError(`smoothL1Loss does not support negative values for beta, got ${beta}`);
    if (beta === 0) return l1Loss(a, b, plain);
    check('smoothL1Loss', promoted(FLOAT), [a, b]);
    return lossOf(a, b, options, (x, y) => {
      const d = x.sub(y);
      const far = d.detach().abs().ge(beta);
      return where(far, d.abs().sub(0.5 * beta), squareWhereNot(far, d).mul(0.5 / beta));
    });
  },
);

/** 0.5 d^2 where |d| < delta, delta (|d| - 0.5 delta) elsewhere; in the dtype of a. a and b broadcast. */
export const huberLoss = defineFunction(
  'huberLoss',
  operands(FLOAT, REAL),
  (a: Tensor, b: Tensor, options: LossOptions & { delta?: number } = {}): Tensor => {
    checkLoss('huberLoss', HUBER_OPTIONS, options);
    const delta = options.delta ?? 1;
    if (!(delta > 0)) throw new RangeError(`huberLoss does not support non-positive values for delta, got ${delta}`);
    const loss = lossOf(a, b, options, (x, y) => {
      const d = x.sub(y);
      const far = d.detach().abs().ge(delta);
      return where(
        far,
        d
          .abs()
          .sub(0.5 * delta)
          .mul(delta),
        squareWhereNot(far, d).mul(0.5),
      );
    });
    return inDType(loss, a.dtype);
  },
);

function weighted(losses: Tensor, weight: Tensor | undefined): Tensor {
  return weight === undefined ? losses : losses.mul(weight);
}

/** -(target log p + (1 - target) log(1 - p)), times `weight`; the logarithms are clamped at -100, as in PyTorch. */
export const binaryCrossEntropy = defineFunction(
  'binaryCrossEntropy',
  same(FLOAT),
  (p: Tensor, target: Tensor, options: LossOptions & { weight?: Tensor } = {}): Tensor => {
    checkLoss('binaryCrossEntropy', WEIGHT_OPTIONS, options);
    checkSame('binaryCrossEntropy', p, target);
    const { weight } = options;
    if (weight !== undefined) {
      check('binaryCrossEntropy', same(FLOAT), [p, weight]);
      checkWithin('binaryCrossEntropy: weight', weight.shape, p.shape);
    }
    return lossOf(p, target, options, (x, y) => weighted(bce(x, y), weight));
  },
);

/** binaryCrossEntropy of sigmoid(x), without overflow; in the target's dtype. `posWeight` is a factor for the losses of positive targets. */
export const binaryCrossEntropyWithLogits = defineFunction(
  'binaryCrossEntropyWithLogits',
  each(FLOAT),
  (x: Tensor, target: Tensor, options: LossOptions & { weight?: Tensor; posWeight?: Tensor } = {}): Tensor => {
    checkLoss('binaryCrossEntropyWithLogits', LOGIT_OPTIONS, options);
    checkSame('binaryCrossEntropyWithLogits', x, target);
    const { weight, posWeight } = options;
    for (const [name, given] of Object.entries({ weight, posWeight }))
      if (given !== undefined) checkWithin(`binaryCrossEntropyWithLogits: ${name}`, given.shape, x.shape);
    const loss = lossOf(x, target, options, (a, b) =>
      weighted(logitBce(a, b, posWeight?.to(a.dtype).expand(a.shape)), weight),
    );
    return inDType(loss, target.dtype);
  },
);

const klDivOp = defineOp('klDiv', each(FLOAT), ([input, target]) =>
  sweep(() => {
    const [x, y] = [input.detach(), target.detach()];
    // 0 log 0 is 0.
    const log = where(y.eq(0), 1, y).log();
    // In PyTorch's order, which decides what becomes of infinite targets.
    return y.mul(log).sub(y.mul(x));
  }),
);

/** How `klDiv` reads its target, and what it does with its elements. */
export interface KlDivOptions {
  /** 'batchmean' divides the sum by the size of the first dimension: the divergence itself. @default 'mean' */
  reduction?: Reduction | 'batchmean';
  /** Whether the target holds log-probabilities. @default false */
  logTarget?: boolean;
}

/** target (log target - input), input being log-probabilities; both broadcast. */
export const klDiv = defineFunction(
  'klDiv',
  each(FLOAT),
  (input: Tensor, target: Tensor, options: KlDivOptions = {}): Tensor => {
    checkLoss('klDiv', KL_OPTIONS, options);
    const { reduction = 'mean', logTarget = false } = options;
    const batchMean = reduction === 'batchmean';
    const reduced: LossOptions = { reduction: batchMean ? 'sum' : reduction };
    const losses = lossOf(input, target, reduced, (x, y) =>
      logTarget ? y.exp().mul(y.sub(x)) : apply(klDivOp, [x, y], undefined),
    );
    // A scalar has no say in the dtype, here as in any product.
    const loss = inDType(losses, resultDType(input, target));
    return batchMean && input.rank > 0 ? sweep(() => loss.div(input.shape[0] as number)) : loss;
  },
);

/** Which classes count, and how much. */
export interface ClassLossOptions extends LossOptions {
  /** Targets of this class count for nothing. @default -100 */
  ignoreIndex?: number;
  /** A factor for each class, [classes]. */
  weight?: Tensor;
}

/** Minus the log-probability of each target: input [N, C, ...], target [N, ...] of class numbers. */
export const nllLoss = named(
  'aten::nll_loss',
  (logp: Tensor, target: Tensor, options: ClassLossOptions = {}): Tensor => {
    checkLoss('nllLoss', CLASS_LOSS_OPTIONS, options, [logp, target]);
    checkTarget('nllLoss', logp, target);
    const { weight, reduction = 'mean', ignoreIndex = -100 } = options;
    const classes = logp.shape[logp.rank === 1 ? 0 : 1] as number;
    checkClassWeight('nllLoss', weight, classes);
    return nll(logp, target, weight, { reduction, ignoreIndex, shape: logp.shape });
  },
);

/** As ClassLossOptions, with smoothed targets. */
export interface CrossEntropyOptions extends ClassLossOptions {
  /** How much of each target is spread evenly over all classes. @default 0 */
  labelSmoothing?: number;
}

/**
 * The cross entropy of softmax(logits): logits [N, C, ...] (or [C]), target class numbers [N, ...] or class probabilities of the
 * shape of the logits.
 * @param logits [N, C, ...], or [C]
 * @param target class numbers, int64, [N, ...], or probabilities of the shape of the logits
 * @param options `weight`, `reduction`, `ignoreIndex`, `labelSmoothing`
 * @throws ShapeError when the shapes do not fit, or for a class that there is not; RangeError for a smoothing beyond 0 to 1.
 * @example
 * ```ts
 * const logits = tensor([[2, 0, 0]], { requiresGrad: true });
 * const loss = crossEntropy(logits, tensor([0n]));
 * loss.backward();
 * console.log(loss.item().toFixed(3), logits.grad?.shape); // 0.240 [ 1, 3 ]
 * ```
 */
export const crossEntropy = named(
  'aten::cross_entropy_loss',
  (logits: Tensor, target: Tensor, options: CrossEntropyOptions = {}): Tensor => {
    checkLoss('crossEntropy', CROSS_ENTROPY_OPTIONS, options, [logits, target]);
    const { labelSmoothing: smoothing = 0, ...rest } = options;
    if (!(smoothing >= 0 && smoothing <= 1))
      throw new RangeError(`crossEntropy: labelSmoothing must be between 0 and 1, got ${smoothing}`);
    const { weight } = options;
    check('crossEntropy', same(FLOAT), weight === undefined ? [logits] : [logits, weight]);
    check('crossEntropy', each(REAL_NUMBER, 'a target is of class numbers, int64 as a rule, or of probabilities'), [
      target,
    ]);
    const soft = logits.rank > 0 && sameShape(logits.shape, target.shape);
    if (soft) check('crossEntropy', operands(FLOAT), [logits, target]);
    const dim = logits.rank === 1 ? 0 : 1;
    return sweep(() => {
      const logp = logSoftmax(logits, dim);
      if (soft) return softTargets(logp, target, dim, smoothing, options);
      const hard = calledAs('crossEntropy()', () => nllLoss(logp, target, rest));
      if (smoothing === 0) return hard;
      const classes = logits.shape[dim] as number;
      const spread = nllLossOfAll(logp, target, dim, options);
      return hard.mul(1 - smoothing).add(spread.mul(smoothing / classes));
    });
  },
);

/** The even part of smoothed targets: the sum of -log p over all classes. */
function nllLossOfAll(logp: Tensor, target: Tensor, dim: number, options: ClassLossOptions): Tensor {
  const { weight, reduction = 'mean' } = options;
  const shape = logp.shape.map((n, i) => (i === dim ? n : 1));
  const weighted = weight === undefined ? logp : logp.mul(weight.reshape(shape));
  const ids = target.to('int64');
  const ignored = ids.eq(options.ignoreIndex ?? -100);
  const losses = weighted.sum(dim).neg().maskedFill(ignored, 0);
  if (reduction !== 'mean') return reduce(losses, reduction);
  const safe = ids.maskedFill(ignored, 0);
  const ones = onesLike(losses.detach());
  const factors = weight === undefined ? ones : weight.indexSelect(0, safe.reshape([safe.size])).reshape(safe.shape);
  return losses.sum().div(factors.maskedFill(ignored, 0).sum());
}

function softTargets(logp: Tensor, target: Tensor, dim: number, smoothing: number, options: ClassLossOptions): Tensor {
  const classes = logp.shape[dim] as number;
  checkClassWeight('crossEntropy', options.weight, classes);
  const soft = smoothing === 0 ? target : target.mul(1 - smoothing).add(smoothing / classes);
  const shape = logp.shape.map((n, i) => (i === dim ? n : 1));
  const weighted = options.weight === undefined ? logp : logp.mul(options.weight.reshape(shape));
  const losses = soft.mul(weighted).sum(dim).neg();
  if (options.reduction !== undefined && options.reduction !== 'mean') return reduce(losses, options.reduction);
  return losses.sum().div(sizeOf(losses.shape));
}

/** @throws ShapeError for a weight that is not one number for each class. */
function checkClassWeight(name: string, weight: Tensor | undefined, classes: number): void {
  if (weight === undefined || (weight.rank === 1 && weight.size === classes)) return;
  throw new ShapeError(
    `${name}: the weight should be defined for all ${classes} classes, but has shape [${weight.shape.join(', ')}]`,
  );
}

function checkTarget(name: string, input: Tensor, target: Tensor): void {
  if (input.rank === 0)
    throw new ShapeError(`${name}: expected input [N, C, ...] or [C], got a tensor without dimensions`);
  const dim = input.rank === 1 ? 0 : 1;
  const expected = input.shape.filter((_, i) => i !== dim);
  if (!sameShape(expected, target.shape)) {
    throw new ShapeError(
      `${name}: expected target of shape [${expected.join(', ')}], got [${target.shape.join(', ')}]`,
    );
  }
}
