/** @file Distributions of real numbers. Densities, entropies and samples as in torch.distributions. */
import { largestBelowOne, rand, randn } from '../random.ts';
import { where } from '../ops/where.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import { checkOptions, Distribution, together, type DistributionOptions, type Param } from './distribution.ts';

const EULER = 0.5772156649015329;
const LOG_ROOT_2PI = Math.log(Math.sqrt(2 * Math.PI));

/** Distributions with a place and a width. */
abstract class LocScale extends Distribution {
  readonly loc: Tensor;
  readonly scale: Tensor;

  constructor(loc: Param, scale: Param, options: DistributionOptions = {}) {
    const [place, width] = together(loc, scale) as [Tensor, Tensor];
    super(place.shape, [], options);
    checkOptions(options, this.constructor.name);
    this.loc = place;
    this.scale = width;
    this.checkParam('loc', 'Real()', () => place.eq(place));
    this.checkParam('scale', 'GreaterThan(lower_bound=0.0)', () => width.gt(0));
  }

  /** How many widths `value`, which may be any real number, is from the place. */
  protected distance(value: Tensor): Tensor {
    this.checkValue(value, 'Real()', () => value.eq(value));
    return value.sub(this.loc).div(this.scale);
  }

  /** Uniform in [0, 1). */
  protected uniform(shape: readonly number[]): Tensor {
    return rand(this.extended(shape), { dtype: this.loc.dtype });
  }
}

/** Gaussian with mean `loc` and standard deviation `scale`. */
export class Normal extends LocScale {
  get mean(): Tensor {
    return this.loc;
  }
  get variance(): Tensor {
    return this.scale.square();
  }
  override get stddev(): Tensor {
    return this.scale;
  }
  override rsample(shape: readonly number[] = []): Tensor {
    return sweep(() => randn(this.extended(shape), { dtype: this.loc.dtype }).mul(this.scale).add(this.loc));
  }
  logProb(value: Tensor): Tensor {
    return sweep(() => this.distance(value).square().div(-2).sub(this.scale.log()).sub(LOG_ROOT_2PI));
  }
  cdf(value: Tensor): Tensor {
    return sweep(() => this.distance(value).div(Math.SQRT2).erf().add(1).mul(0.5));
  }
  entropy(): Tensor {
    return sweep(() => this.scale.log().add(0.5 + LOG_ROOT_2PI));
  }
}

/** Of numbers whose logarithm is normal. */
export class LogNormal extends LocScale {
  /** The distribution of the logarithm. */
  readonly base: Normal;
  constructor(loc: Param, scale: Param, options: DistributionOptions = {}) {
    super(loc, scale, options);
    this.base = new Normal(this.loc, this.scale, options);
  }
  get mean(): Tensor {
    return sweep(() => this.loc.add(this.scale.square().div(2)).exp());
  }
  get variance(): Tensor {
    return sweep(() => {
      const square = this.scale.square();
      return square.expm1().mul(this.loc.mul(2).add(square).exp());
    });
  }
  override rsample(shape: readonly number[] = []): Tensor {
    return sweep(() => this.base.rsample(shape).exp());
  }
  logProb(value: Tensor): Tensor {
    this.checkValue(value, 'GreaterThan(lower_bound=0.0)', () => value.gt(0));
    return sweep(() => this.base.logProb(value.log()).sub(value.log()));
  }
  entropy(): Tensor {
    return sweep(() => this.base.entropy().add(this.loc));
  }
}

/** Double exponential. */
export class Laplace extends LocScale {
  get mean(): Tensor {
    return this.loc;
  }
  get variance(): Tensor {
    return sweep(() => this.scale.square().mul(2));
  }
  override rsample(shape: readonly number[] = []): Tensor {
    return sweep(() => {
      // In (-1, 1]: its other end would be at infinity.
      const u = this.uniform(shape).neg().mul(2).add(1);
      return this.loc.sub(this.scale.mul(u.sign()).mul(u.abs().clamp(0, largestBelowOne(u.dtype)).neg().log1p()));
    });
  }
  logProb(value: Tensor): Tensor {
    return sweep(() => this.distance(value).abs().neg().sub(this.scale.mul(2).log()));
  }
  entropy(): Tensor {
    return sweep(() => this.scale.mul(2).log().add(1));
  }
}

/** Lorentzian; without mean or variance. */
export class Cauchy extends LocScale {
  get mean(): Tensor {
    return this.loc.detach().mul(0).add(NaN);
  }
  get variance(): Tensor {
    return this.loc.detach().mul(0).add(Infinity);
  }
  override rsample(shape: readonly number[] = []): Tensor {
    return sweep(() => this.uniform(shape).sub(0.5).mul(Math.PI).tan().mul(this.scale).add(this.loc));
  }
  logProb(value: Tensor): Tensor {
    return sweep(() => this.distance(value).square().log1p().neg().sub(this.scale.log()).sub(Math.log(Math.PI)));
  }
  entropy(): Tensor {
    return sweep(() => this.scale.log().add(Math.log(4 * Math.PI)));
  }
}

/** Of the largest of many. */
export class Gumbel extends LocScale {
  get mean(): Tensor {
    return sweep(() => this.loc.add(this.scale.mul(EULER)));
  }
  get variance(): Tensor {
    return sweep(() => this.scale.square().mul(Math.PI ** 2 / 6));
  }
  override rsample(shape: readonly number[] = []): Tensor {
    return sweep(() => {
      const u = this.uniform(shape).clamp(2 ** -24, largestBelowOne(this.loc.dtype));
      return this.loc.sub(this.scale.mul(u.log().neg().log()));
    });
  }
  logProb(value: Tensor): Tensor {
    return sweep(() => {
      const y = this.distance(value).neg();
      return y.sub(y.exp()).sub(this.scale.log());
    });
  }
  entropy(): Tensor {
    return sweep(() => this.scale.log().add(1 + EULER));
  }
}

/** Of the absolute value of a normal number around zero. */
export class HalfNormal extends Distribution {
  readonly scale: Tensor;
  private readonly base: Normal;
  constructor(scale: Param, options: DistributionOptions = {}) {
    const [width] = together(scale) as [Tensor];
    super(width.shape, [], options);
    checkOptions(options, 'HalfNormal');
    this.checkParam('scale', 'GreaterThan(lower_bound=0.0)', () => width.gt(0));
    this.scale = width;
    this.base = new Normal(0, width, { validateArgs: false });
  }
  get mean(): Tensor {
    return this.scale.mul(Math.sqrt(2 / Math.PI));
  }
  get variance(): Tensor {
    return sweep(() => this.scale.square().mul(1 - 2 / Math.PI));
  }
  override rsample(shape: readonly number[] = []): Tensor {
    return sweep(() => this.base.rsample(shape).abs());
  }
  logProb(value: Tensor): Tensor {
    this.checkValue(value, 'GreaterThanEq(lower_bound=0.0)', () => value.ge(0));
    return sweep(() => where(value.ge(0), this.base.logProb(value).add(Math.LN2), -Infinity));
  }
  entropy(): Tensor {
    return sweep(() => this.base.entropy().sub(Math.LN2));
  }
}

/** Equally dense from `low` to `high`. */
export class Uniform extends Distribution {
  readonly low: Tensor;
  readonly high: Tensor;
  constructor(low: Param, high: Param, options: DistributionOptions = {}) {
    const [from, to] = together(low, high) as [Tensor, Tensor];
    super(from.shape, [], options);
    checkOptions(options, 'Uniform');
    this.low = from;
    this.high = to;
    if (this.validates) this.checkParam('high', 'greater than low', () => from.lt(to));
  }
  get mean(): Tensor {
    return sweep(() => this.high.add(this.low).div(2));
  }
  get variance(): Tensor {
    return sweep(() => this.high.sub(this.low).square().div(12));
  }
  override rsample(shape: readonly number[] = []): Tensor {
    return sweep(() =>
      this.low.add(rand(this.extended(shape), { dtype: this.low.dtype }).mul(this.high.sub(this.low))),
    );
  }
  logProb(value: Tensor): Tensor {
    this.checkValue(value, 'Interval', () => value.ge(this.low).logicalAnd(value.le(this.high)));
    return sweep(() => {
      const inside = this.low.detach().le(value).logicalAnd(this.high.detach().gt(value));
      return inside.to(this.low.dtype).log().sub(this.high.sub(this.low).log());
    });
  }
  cdf(value: Tensor): Tensor {
    return sweep(() => value.sub(this.low).div(this.high.sub(this.low)).clamp(0, 1));
  }
  entropy(): Tensor {
    return sweep(() => this.high.sub(this.low).log());
  }
}

/** Of waiting times at `rate`. */
export class Exponential extends Distribution {
  readonly rate: Tensor;
  constructor(rate: Param, options: DistributionOptions = {}) {
    const [each] = together(rate) as [Tensor];
    super(each.shape, [], options);
    checkOptions(options, 'Exponential');
    this.checkParam('rate', 'GreaterThan(lower_bound=0.0)', () => each.gt(0));
    this.rate = each;
  }
  get mean(): Tensor {
    return this.rate.reciprocal();
  }
  get variance(): Tensor {
    return this.rate.pow(-2);
  }
  override rsample(shape: readonly number[] = []): Tensor {
    return sweep(() => rand(this.extended(shape), { dtype: this.rate.dtype }).neg().log1p().neg().div(this.rate));
  }
  logProb(value: Tensor): Tensor {
    this.checkValue(value, 'GreaterThanEq(lower_bound=0.0)', () => value.ge(0));
    return sweep(() => this.rate.log().sub(this.rate.mul(value)));
  }
  cdf(value: Tensor): Tensor {
    return sweep(() => this.rate.neg().mul(value).expm1().neg());
  }
  entropy(): Tensor {
    return sweep(() => this.rate.log().neg().add(1));
  }
}
