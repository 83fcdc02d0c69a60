/** @file The losses as modules: `nn.CrossEntropyLoss` and so on. */
import { rpcName } from '../named.ts';
import * as losses from '../ops/losses.ts';
import * as sets from '../ops/loss-options.ts';
import { gaussianNllLoss, poissonNllLoss } from '../ops/likelihood-losses.ts';
import * as margin from '../ops/margin-losses.ts';
import type { Tensor } from '../tensor.ts';
import { Module } from './module.ts';

/** A loss of an input and a target with options of its own. */
abstract class Loss<O extends object> extends Module {
  protected readonly options: O;
  /** The names of its options. */
  protected abstract known(): ReadonlySet<string>;
  constructor(options: O = {} as O) {
    super();
    sets.checkLoss(`nn.${this.constructor.name}`, this.known(), options);
    this.options = options;
    // Tensors among the options are part of the state, and move with the module.
    for (const [name, value] of Object.entries(options)) {
      if (typeof value === 'object' && value !== null)
        this.registerBuffer(name === 'posWeight' ? 'pos_weight' : name, value as Tensor);
    }
  }
}

type Options<F extends (...args: never[]) => unknown> = NonNullable<Last<Parameters<F>>>;
type Last<A extends readonly unknown[]> = Required<A> extends readonly [...unknown[], infer Z] ? Z : never;

/** The mean of the squares of the differences, as `mseLoss`. */
export class MSELoss extends Loss<Options<typeof losses.mseLoss>> {
  static readonly [rpcName] = 'nn.MSELoss';
  protected known(): ReadonlySet<string> {
    return sets.LOSS_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return losses.mseLoss(input, target, this.options);
  }
}

/** The mean of the sizes of the differences, as `l1Loss`. */
export class L1Loss extends Loss<Options<typeof losses.l1Loss>> {
  static readonly [rpcName] = 'nn.L1Loss';
  protected known(): ReadonlySet<string> {
    return sets.LOSS_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return losses.l1Loss(input, target, this.options);
  }
}

/** Squares for small differences, sizes for large ones, as `smoothL1Loss`. */
export class SmoothL1Loss extends Loss<Options<typeof losses.smoothL1Loss>> {
  static readonly [rpcName] = 'nn.SmoothL1Loss';
  protected known(): ReadonlySet<string> {
    return sets.SMOOTH_L1_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return losses.smoothL1Loss(input, target, this.options);
  }
}

/** As SmoothL1Loss, scaled by delta; `huberLoss`. */
export class HuberLoss extends Loss<Options<typeof losses.huberLoss>> {
  static readonly [rpcName] = 'nn.HuberLoss';
  protected known(): ReadonlySet<string> {
    return sets.HUBER_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return losses.huberLoss(input, target, this.options);
  }
}

/** The cross entropy of probabilities with targets between 0 and 1, as `binaryCrossEntropy`. */
export class BCELoss extends Loss<Options<typeof losses.binaryCrossEntropy>> {
  static readonly [rpcName] = 'nn.BCELoss';
  protected known(): ReadonlySet<string> {
    return sets.WEIGHT_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return losses.binaryCrossEntropy(input, target, this.options);
  }
}

/** The same of logits, which is more exact, as `binaryCrossEntropyWithLogits`. */
export class BCEWithLogitsLoss extends Loss<Options<typeof losses.binaryCrossEntropyWithLogits>> {
  static readonly [rpcName] = 'nn.BCEWithLogitsLoss';
  protected known(): ReadonlySet<string> {
    return sets.LOGIT_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return losses.binaryCrossEntropyWithLogits(input, target, this.options);
  }
}

/** The divergence of log-probabilities from target probabilities, as `klDiv`. */
export class KLDivLoss extends Loss<Options<typeof losses.klDiv>> {
  static readonly [rpcName] = 'nn.KLDivLoss';
  protected known(): ReadonlySet<string> {
    return sets.KL_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return losses.klDiv(input, target, this.options);
  }
}

/** Minus the log-probability of each target class, as `nllLoss`. */
export class NLLLoss extends Loss<Options<typeof losses.nllLoss>> {
  static readonly [rpcName] = 'nn.NLLLoss';
  protected known(): ReadonlySet<string> {
    return sets.CLASS_LOSS_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return losses.nllLoss(input, target, this.options);
  }
}

/** The cross entropy of softmax(logits) with classes or class probabilities, as `crossEntropy`. */
export class CrossEntropyLoss extends Loss<Options<typeof losses.crossEntropy>> {
  static readonly [rpcName] = 'nn.CrossEntropyLoss';
  protected known(): ReadonlySet<string> {
    return sets.CROSS_ENTROPY_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return losses.crossEntropy(input, target, this.options);
  }
}

/** log(1 + exp(-target x)) with targets 1 and -1, as `softMarginLoss`. */
export class SoftMarginLoss extends Loss<Options<typeof margin.softMarginLoss>> {
  static readonly [rpcName] = 'nn.SoftMarginLoss';
  protected known(): ReadonlySet<string> {
    return sets.LOSS_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return margin.softMarginLoss(input, target, this.options);
  }
}

/** The mean over classes of the cross entropy with targets 0 and 1, as `multilabelSoftMarginLoss`. */
export class MultiLabelSoftMarginLoss extends Loss<Options<typeof margin.multilabelSoftMarginLoss>> {
  static readonly [rpcName] = 'nn.MultiLabelSoftMarginLoss';
  protected known(): ReadonlySet<string> {
    return sets.WEIGHT_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return margin.multilabelSoftMarginLoss(input, target, this.options);
  }
}

/** x for target 1, max(0, margin - x) for target -1, as `hingeEmbeddingLoss`. */
export class HingeEmbeddingLoss extends Loss<Options<typeof margin.hingeEmbeddingLoss>> {
  static readonly [rpcName] = 'nn.HingeEmbeddingLoss';
  protected known(): ReadonlySet<string> {
    return sets.MARGIN_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return margin.hingeEmbeddingLoss(input, target, this.options);
  }
}

/** Minus the log-likelihood of counts under a Poisson distribution, as `poissonNllLoss`. */
export class PoissonNLLLoss extends Loss<Options<typeof poissonNllLoss>> {
  static readonly [rpcName] = 'nn.PoissonNLLLoss';
  protected known(): ReadonlySet<string> {
    return sets.POISSON_OPTIONS;
  }
  forward(input: Tensor, target: Tensor): Tensor {
    return poissonNllLoss(input, target, this.options);
  }
}

/** Minus the log-likelihood under a normal distribution with a variance for each element, as `gaussianNllLoss`. */
export class GaussianNLLLoss extends Loss<Options<typeof gaussianNllLoss>> {
  static readonly [rpcName] = 'nn.GaussianNLLLoss';
  protected known(): ReadonlySet<string> {
    return sets.GAUSSIAN_OPTIONS;
  }
  forward(input: Tensor, target: Tensor, variance: Tensor | number): Tensor {
    return gaussianNllLoss(input, target, variance, this.options);
  }
}

/** max(0, margin - target (a - b)) with targets 1 and -1, as `marginRankingLoss`. */
export class MarginRankingLoss extends Loss<Options<typeof margin.marginRankingLoss>> {
  static readonly [rpcName] = 'nn.MarginRankingLoss';
  protected known(): ReadonlySet<string> {
    return sets.MARGIN_OPTIONS;
  }
  forward(a: Tensor, b: Tensor, target: Tensor): Tensor {
    return margin.marginRankingLoss(a, b, target, this.options);
  }
}

/** 1 - cosine for target 1, max(0, cosine - margin) for target -1, as `cosineEmbeddingLoss`. */
export class CosineEmbeddingLoss extends Loss<Options<typeof margin.cosineEmbeddingLoss>> {
  static readonly [rpcName] = 'nn.CosineEmbeddingLoss';
  protected known(): ReadonlySet<string> {
    return sets.MARGIN_OPTIONS;
  }
  forward(a: Tensor, b: Tensor, target: Tensor): Tensor {
    return margin.cosineEmbeddingLoss(a, b, target, this.options);
  }
}

/** How much nearer than the negative the positive fails to be to the anchor, as `tripletMarginLoss`. */
export class TripletMarginLoss extends Loss<Options<typeof margin.tripletMarginLoss>> {
  static readonly [rpcName] = 'nn.TripletMarginLoss';
  protected known(): ReadonlySet<string> {
    return sets.TRIPLET_OPTIONS;
  }
  forward(anchor: Tensor, positive: Tensor, negative: Tensor): Tensor {
    return margin.tripletMarginLoss(anchor, positive, negative, this.options);
  }
}
