/** @file Dropout as modules: of elements, and of whole channels. */
import { checkTensors } from '../ops/takes.ts';
import { checkMade } from '../arguments.ts';
import { ones } from '../creation.ts';
import { rpcName } from '../named.ts';
import * as ops from '../ops/composite.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import { Module } from './module.ts';

abstract class DropoutModule extends Module {
  protected readonly p: number;
  /** @throws RangeError unless `p` is from 0 to 1. */
  constructor(p = 0.5) {
    checkMade(new.target, [p]);
    super();
    if (!(p >= 0 && p <= 1)) throw new RangeError(`dropout probability has to be between 0 and 1, but got ${p}`);
    this.p = p;
  }
}

/** Zeroes elements with probability `p` while training. */
export class Dropout extends DropoutModule {
  static readonly [rpcName] = 'nn.Dropout';
  forward(x: Tensor): Tensor {
    return ops.dropout(x, this.p, this.training);
  }
}

/** Zeroes whole channels: those of the second dimension, of what has no batch those of the first. */
abstract class ChannelDropout extends DropoutModule {
  /** The ranks that it takes, and whether they have a batch. */
  protected abstract readonly ranks: ReadonlyMap<number, boolean>;

  forward(x: Tensor): Tensor {
    checkTensors(`${this.constructor.name}.forward`, [x]);
    const hasBatch = this.ranks.get(x.rank);
    if (hasBatch === undefined)
      throw new RangeError(
        `${this.constructor.name} takes ${[...this.ranks.keys()].join(' or ')} dimensions, got [${x.shape.join(', ')}]`,
      );
    const channels = hasBatch ? 2 : 1;
    // Nothing is dropped: no mask is made.
    if (!this.training || this.p === 0) return ops.dropout(x, this.p, this.training);
    return sweep(() => {
      const kept = ones([...x.shape.slice(0, channels), ...x.shape.slice(channels).map(() => 1)], { dtype: x.dtype });
      return x.mul(ops.dropout(kept, this.p));
    });
  }
}

/** Zeroes channels of [N, C, L] or [C, L] with probability `p` while training (Tompson et al. 2015). */
export class Dropout1d extends ChannelDropout {
  static readonly [rpcName] = 'nn.Dropout1d';
  protected readonly ranks = new Map([
    [2, false],
    [3, true],
  ]);
}

/** Zeroes channels of [N, C, H, W] with probability `p` while training; of [N, C, L], too, as in PyTorch. */
export class Dropout2d extends ChannelDropout {
  static readonly [rpcName] = 'nn.Dropout2d';
  protected readonly ranks = new Map([
    [3, true],
    [4, true],
  ]);
}

/** Zeroes channels of [N, C, D, H, W] or [C, D, H, W] with probability `p` while training. */
export class Dropout3d extends ChannelDropout {
  static readonly [rpcName] = 'nn.Dropout3d';
  protected readonly ranks = new Map([
    [4, false],
    [5, true],
  ]);
}
