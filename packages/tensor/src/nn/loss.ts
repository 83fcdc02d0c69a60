/** @file The losses as modules: `nn.CrossEntropyLoss` and so on. */
import { checkMade } from '../arguments.ts';
import { rpcName } from '../named.ts';
import * as losses from '../ops/losses.ts';
import * as sets from '../ops/loss-options.ts';
import { gaussianNllLoss, poissonNllLoss } from '../ops/likelihood-losses.ts';
import * as margin from '../ops/margin-losses.ts';
import { Tensor } from '../tensor.ts';
import { Module } from './module.ts';

type LossFunction = (...args: never[]) => Tensor;
type Options<F extends LossFunction> = Required<Parameters<F>> extends readonly [...unknown[], infer O] ? O : never;
type Operands<F extends LossFunction> = Required<Parameters<F>> extends readonly [...infer A, unknown] ? A : never;

/** A loss with options of its own, which are set when it is made. */
abstract class Loss<F extends LossFunction> extends Module {
  private readonly options: Partial<Options<F>>;

  constructor(name: string, known: ReadonlySet<string>, options: Options<F> | undefined) {
    super();
    const given: object = options ?? {};
    sets.checkLoss(name, known, given);
    const plain = Object.entries(given).filter(([, value]) => !(value instanceof Tensor));
    this.options = Object.fromEntries(plain) as Partial<Options<F>>;
    // Tensors among the options are part of the state: they move with the module, and a copy has its own.
    for (const [name, value] of Object.entries(given))
      if (value instanceof Tensor) this.registerBuffer(name === 'posWeight' ? POS_WEIGHT : name, value as Tensor);
  }

  /** All of the options, with the tensors as they are by now. */
  protected allOptions(): Options<F> {
    const tensors = this.namedBuffers(false).map(([name, t]) => [name === POS_WEIGHT ? 'posWeight' : name, t]);
    return { ...this.options, ...Object.fromEntries(tensors) } as Options<F>;
  }
}

const POS_WEIGHT = 'pos_weight';

/** The module of the function `loss`, whose options are `known`. */
function lossOf<F extends LossFunction>(
  loss: F,
  known: ReadonlySet<string>,
): new (options?: Options<F>) => Loss<F> & { forward(...operands: Operands<F>): Tensor } {
  return class extends Loss<F> {
    constructor(options?: Options<F>) {
      checkMade(new.target, [options]);
      super(`nn.${new.target.name}`, known, options);
    }
    forward(...operands: Operands<F>): Tensor {
      return loss(...([...operands, this.allOptions()] as never[]));
    }
  };
}

/** The mean of the squares of the differences, as `mseLoss`. */
export class MSELoss extends lossOf(losses.mseLoss, sets.LOSS_OPTIONS) {
  static readonly [rpcName] = 'nn.MSELoss';
}

/** The mean of the sizes of the differences, as `l1Loss`. */
export class L1Loss extends lossOf(losses.l1Loss, sets.LOSS_OPTIONS) {
  static readonly [rpcName] = 'nn.L1Loss';
}

/** Squares for small differences, sizes for large ones, as `smoothL1Loss`. */
export class SmoothL1Loss extends lossOf(losses.smoothL1Loss, sets.SMOOTH_L1_OPTIONS) {
  static readonly [rpcName] = 'nn.SmoothL1Loss';
}

/** As SmoothL1Loss, scaled by delta; `huberLoss`. */
export class HuberLoss extends lossOf(losses.huberLoss, sets.HUBER_OPTIONS) {
  static readonly [rpcName] = 'nn.HuberLoss';
}

/** The cross entropy of probabilities with targets between 0 and 1, as `binaryCrossEntropy`. */
export class BCELoss extends lossOf(losses.binaryCrossEntropy, sets.WEIGHT_OPTIONS) {
  static readonly [rpcName] = 'nn.BCELoss';
}

/** The same of logits, which is more exact, as `binaryCrossEntropyWithLogits`. */
export class BCEWithLogitsLoss extends lossOf(losses.binaryCrossEntropyWithLogits, sets.LOGIT_OPTIONS) {
  static readonly [rpcName] = 'nn.BCEWithLogitsLoss';
}

/** The divergence of log-probabilities from target probabilities, as `klDiv`. */
export class KLDivLoss extends lossOf(losses.klDiv, sets.KL_OPTIONS) {
  static readonly [rpcName] = 'nn.KLDivLoss';
}

/** Minus the log-probability of each target class, as `nllLoss`. */
export class NLLLoss extends lossOf(losses.nllLoss, sets.CLASS_LOSS_OPTIONS) {
  static readonly [rpcName] = 'nn.NLLLoss';
}

/** The cross entropy of softmax(logits) with classes or class probabilities, as `crossEntropy`. */
export class CrossEntropyLoss extends lossOf(losses.crossEntropy, sets.CROSS_ENTROPY_OPTIONS) {
  static readonly [rpcName] = 'nn.CrossEntropyLoss';
}

/** log(1 + exp(-target x)) with targets 1 and -1, as `softMarginLoss`. */
export class SoftMarginLoss extends lossOf(margin.softMarginLoss, sets.LOSS_OPTIONS) {
  static readonly [rpcName] = 'nn.SoftMarginLoss';
}

/** The mean over classes of the cross entropy with targets 0 and 1, as `multilabelSoftMarginLoss`. */
export class MultiLabelSoftMarginLoss extends lossOf(margin.multilabelSoftMarginLoss, sets.WEIGHT_OPTIONS) {
  static readonly [rpcName] = 'nn.MultiLabelSoftMarginLoss';
}

/** x for target 1, max(0, margin - x) for target -1, as `hingeEmbeddingLoss`. */
export class HingeEmbeddingLoss extends lossOf(margin.hingeEmbeddingLoss, sets.MARGIN_OPTIONS) {
  static readonly [rpcName] = 'nn.HingeEmbeddingLoss';
}

/** Minus the log-likelihood of counts under a Poisson distribution, as `poissonNllLoss`. */
export class PoissonNLLLoss extends lossOf(poissonNllLoss, sets.POISSON_OPTIONS) {
  static readonly [rpcName] = 'nn.PoissonNLLLoss';
}

/** Minus the log-likelihood under a normal distribution with a variance for each element, as `gaussianNllLoss`. */
export class GaussianNLLLoss extends lossOf(gaussianNllLoss, sets.GAUSSIAN_OPTIONS) {
  static readonly [rpcName] = 'nn.GaussianNLLLoss';
}

/** max(0, margin - target (a - b)) with targets 1 and -1, as `marginRankingLoss`. */
export class MarginRankingLoss extends lossOf(margin.marginRankingLoss, sets.MARGIN_OPTIONS) {
  static readonly [rpcName] = 'nn.MarginRankingLoss';
}

/** 1 - cosine for target 1, max(0, cosine - margin) for target -1, as `cosineEmbeddingLoss`. */
export class CosineEmbeddingLoss extends lossOf(margin.cosineEmbeddingLoss, sets.MARGIN_OPTIONS) {
  static readonly [rpcName] = 'nn.CosineEmbeddingLoss';
}

/** How much nearer than the negative the positive fails to be to the anchor, as `tripletMarginLoss`. */
export class TripletMarginLoss extends lossOf(margin.tripletMarginLoss, sets.TRIPLET_OPTIONS) {
  static readonly [rpcName] = 'nn.TripletMarginLoss';
}
