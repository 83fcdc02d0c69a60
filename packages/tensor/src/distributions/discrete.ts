/** @file Distributions of counts and choices, given by probabilities or by logits. */
import { ShapeError } from '../errors.ts';
import { gather, oneHot } from '../ops/indexing.ts';
import { binaryCrossEntropyWithLogits } from '../ops/losses.ts';
import { bernoulli, multinomial } from '../ops/sampling.ts';
import { where } from '../ops/where.ts';
import { broadcastTensors } from '../ops/arrange.ts';
import { noGrad } from '../autograd/record.ts';
import { rand } from '../random.ts';
import { sweep } from '../scope.ts';
import { checkShape, sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { clampProbs, Distribution, oddsOf, type Odds } from './distribution.ts';

/** Of one probability each. */
abstract class Binary extends Distribution {
  readonly probs: Tensor;
  /** log(p / (1 - p)). */
  readonly logits: Tensor;
  constructor(name: string, odds: Odds) {
    const { of, value } = oddsOf(name, odds);
    super(value.shape, [], odds);
    if (of === 'probs') {
      this.checkParam('probs', 'Interval(lower_bound=0.0, upper_bound=1.0)', () => value.ge(0).logicalAnd(value.le(1)));
      this.probs = value;
      const clamped = clampProbs(value);
      this.logits = clamped.log().sub(clamped.neg().log1p());
    } else {
      this.checkParam('logits', 'Real()', () => value.eq(value));
      this.logits = value;
      this.probs = value.sigmoid();
    }
  }

  /** Of a Bernoulli number with this probability. */
  protected binaryEntropy(): Tensor {
    return binaryCrossEntropyWithLogits(this.logits, this.probs, { reduction: 'none' });
  }
}

/** 1 with probability `probs`, else 0. */
export class Bernoulli extends Binary {
  constructor(odds: Odds) {
    super('Bernoulli', odds);
  }
  get mean(): Tensor {
    return this.probs;
  }
  get variance(): Tensor {
    return sweep(() => this.probs.mul(this.probs.neg().add(1)));
  }
  override sample(shape: readonly number[] = []): Tensor {
    return noGrad(() => sweep(() => bernoulli(this.probs.expand(this.extended(shape)))));
  }
  logProb(value: Tensor): Tensor {
    this.checkValue(value, 'Boolean()', () => value.eq(0).logicalOr(value.eq(1)));
    return sweep(() => {
      const [logits, target] = broadcastTensors([this.logits, value]) as [Tensor, Tensor];
      return binaryCrossEntropyWithLogits(logits, target, { reduction: 'none' }).neg();
    });
  }
  entropy(): Tensor {
    return this.binaryEntropy();
  }
}

/** How many failures there are before the first success, which has probability `probs`. */
export class Geometric extends Binary {
  constructor(odds: Odds) {
    super('Geometric', odds);
    this.checkParam('probs', 'greater than 0', () => this.probs.gt(0));
  }
  get mean(): Tensor {
    return sweep(() => this.probs.reciprocal().sub(1));
  }
  get variance(): Tensor {
    return sweep(() => this.probs.reciprocal().sub(1).div(this.probs));
  }
  override sample(shape: readonly number[] = []): Tensor {
    return noGrad(() =>
      sweep(() => {
        const u = rand(this.extended(shape), { dtype: this.probs.dtype }).clamp(2 ** -24);
        return u.log().div(this.probs.neg().log1p()).floor();
      }),
    );
  }
  logProb(value: Tensor): Tensor {
    this.checkValue(value, 'IntegerGreaterThan(lower_bound=0)', () => value.ge(0).logicalAnd(value.remainder(1).eq(0)));
    return sweep(() => {
      const [probs, count] = broadcastTensors([this.probs, value]) as [Tensor, Tensor];
      // No failure before a certain success: 0 times the logarithm of nothing.
      const certain = where(probs.eq(1).logicalAnd(count.eq(0)), 0, probs);
      return count.mul(certain.neg().log1p()).add(this.probs.log());
    });
  }
  entropy(): Tensor {
    return sweep(() => this.binaryEntropy().div(this.probs));
  }
}

/** One of n choices: the last dimension of `probs` or `logits`. Samples are int64. */
export class Categorical extends Distribution {
  /** [...batchShape, n], which add up to one. */
  readonly probs: Tensor;
  /** The logarithms of the probabilities. */
  readonly logits: Tensor;
  private readonly count: number;

  constructor(odds: Odds) {
    const { of, value } = oddsOf('Categorical', odds);
    if (value.rank < 1) throw new ShapeError(`\`${of}\` parameter must be at least one-dimensional.`);
    super(value.shape.slice(0, -1), [], odds);
    this.count = value.shape.at(-1) as number;
    if (of === 'probs') {
      const sums = (): Tensor => value.sum(-1, true);
      this.checkParam('probs', 'Simplex()', () => value.ge(0).logicalAnd(sums().gt(0)));
      this.probs = value.div(sums());
      this.logits = clampProbs(this.probs).log();
    } else {
      this.checkParam('logits', 'IndependentConstraint(Real(), 1)', () => value.eq(value));
      this.logits = value.sub(value.logSumExp(-1, true));
      this.probs = this.logits.softmax(-1);
    }
  }

  /** NaN: choices have none. */
  get mean(): Tensor {
    return this.probs.detach().sum(-1).mul(NaN);
  }
  get variance(): Tensor {
    return this.mean;
  }
  override sample(shape: readonly number[] = []): Tensor {
    checkShape(shape);
    return noGrad(() =>
      sweep(() => {
        const rows = this.probs.detach().reshape([sizeOf(this.batchShape), this.count]);
        const drawn = multinomial(rows, Math.max(1, sizeOf(shape)), { replacement: true });
        return drawn.narrow(1, 0, sizeOf(shape)).transpose(0, 1).reshape(this.extended(shape));
      }),
    );
  }
  logProb(value: Tensor): Tensor {
    this.checkValue(value, `IntegerInterval(lower_bound=0, upper_bound=${this.count - 1})`, () =>
      value
        .ge(0)
        .logicalAnd(value.lt(this.count))
        .logicalAnd(value.eq(value.to('int64'))),
    );
    return sweep(() => {
      const [at, logits] = broadcastTensors([value.to('int64').unsqueeze(-1), this.logits]) as [Tensor, Tensor];
      return gather(logits, -1, at.narrow(-1, 0, 1)).squeeze(-1);
    });
  }
  entropy(): Tensor {
    return sweep(() => this.logits.clamp(-3.4e38).mul(this.probs).sum(-1).neg());
  }
}

/** As Categorical, with vectors of zeros and a one for choices. */
export class OneHotCategorical extends Distribution {
  /** The distribution of the place of the one. */
  readonly choice: Categorical;
  constructor(odds: Odds) {
    const choice = new Categorical(odds);
    super(choice.batchShape, choice.probs.shape.slice(-1), odds);
    this.choice = choice;
  }
  get probs(): Tensor {
    return this.choice.probs;
  }
  get logits(): Tensor {
    return this.choice.logits;
  }
  get mean(): Tensor {
    return this.probs;
  }
  get variance(): Tensor {
    return sweep(() => this.probs.mul(this.probs.neg().add(1)));
  }
  override sample(shape: readonly number[] = []): Tensor {
    const n = this.eventShape[0] as number;
    return noGrad(() => sweep(() => oneHot(this.choice.sample(shape), n).to(this.probs.dtype)));
  }
  logProb(value: Tensor): Tensor {
    this.checkValue(value, 'OneHot()', () =>
      value.eq(0).logicalOr(value.eq(1)).all(-1).logicalAnd(value.sum(-1).eq(1)),
    );
    return this.choice.logProb(value.detach().argMax(-1));
  }
  entropy(): Tensor {
    return this.choice.entropy();
  }
}
