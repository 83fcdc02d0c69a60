/** @file Independent: the last dimensions of a batch as one event. */
import { kindOf } from '../given.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import { checkOptions, Distribution, type DistributionOptions } from './distribution.ts';

/** `base` with the last `dims` dimensions of its batch as parts of one event: their densities multiply. */
export class Independent extends Distribution {
  readonly base: Distribution;
  readonly dims: number;

  /** @throws RangeError when the batch has fewer dimensions. */
  constructor(base: Distribution, dims: number, options: DistributionOptions = {}) {
    checkOptions(options, 'Independent');
    if (!(base instanceof Distribution))
      throw new TypeError(`distributions.Independent: base is a distribution, got ${kindOf(base)}`);
    const rank = base.batchShape.length;
    if (!Number.isInteger(dims) || dims < 0 || dims > rank)
      throw new RangeError(
        `Expected reinterpreted_batch_ndims <= len(base_dist.batch_shape), actual ${kindOf(dims)} vs ${rank}`,
      );
    super(base.batchShape.slice(0, rank - dims), [...base.batchShape.slice(rank - dims), ...base.eventShape], options);
    this.base = base;
    this.dims = dims;
  }
  get mean(): Tensor {
    return this.base.mean;
  }
  get variance(): Tensor {
    return this.base.variance;
  }
  override sample(shape: readonly number[] = []): Tensor {
    return this.base.sample(shape);
  }
  override rsample(shape: readonly number[] = []): Tensor {
    return this.base.rsample(shape);
  }
  logProb(value: Tensor): Tensor {
    return sweep(() => addUp(this.base.logProb(value), this.dims));
  }
  entropy(): Tensor {
    return sweep(() => addUp(this.base.entropy(), this.dims));
  }
}

/** The sums over the last `dims` dimensions. */
export function addUp(t: Tensor, dims: number): Tensor {
  if (dims === 0) return t;
  return t.sum(Array.from({ length: dims }, (_, i) => i - dims));
}
