/** @file Normalisation layers. */
import { noGrad } from '../autograd/record.ts';
import { ones, zeros } from '../creation.ts';
import { batchNorm, groupNorm, layerNorm } from '../ops/composite.ts';
import { rpcName } from '../named.ts';
import { Parameter, type Tensor } from '../tensor.ts';
import { Module } from './module.ts';
import { checkOptionNames } from '../option-names.ts';

const EPS: ReadonlySet<string> = new Set(['eps']);
const BATCH_OPTIONS: ReadonlySet<string> = new Set(['eps', 'momentum']);

/** Normalises over the trailing dimensions `shape`. */
export class LayerNorm extends Module {
  static readonly [rpcName] = 'nn.LayerNorm';
  readonly weight: Parameter;
  readonly bias: Parameter;
  private readonly shape: readonly number[];
  private readonly eps: number;

  constructor(shape: number | readonly number[], options: { eps?: number } = {}) {
    super();
    checkOptionNames(options, EPS, 'nn.LayerNorm');
    this.shape = typeof shape === 'number' ? [shape] : shape;
    this.eps = options.eps ?? 1e-5;
    this.weight = new Parameter(ones(this.shape));
    this.bias = new Parameter(zeros(this.shape));
  }

  forward(x: Tensor): Tensor {
    return layerNorm(x, this.shape, this.weight, this.bias, this.eps);
  }
}

/** Normalises each group of channels of [N, C, ...]. */
export class GroupNorm extends Module {
  static readonly [rpcName] = 'nn.GroupNorm';
  readonly weight: Parameter;
  readonly bias: Parameter;
  private readonly groups: number;
  private readonly eps: number;

  constructor(groups: number, channels: number, options: { eps?: number } = {}) {
    super();
    checkOptionNames(options, EPS, 'nn.GroupNorm');
    this.groups = groups;
    this.eps = options.eps ?? 1e-5;
    this.weight = new Parameter(ones([channels]));
    this.bias = new Parameter(zeros([channels]));
  }

  forward(x: Tensor): Tensor {
    return groupNorm(x, this.groups, this.weight, this.bias, this.eps);
  }
}

/** Normalises each channel over the batch while training, by running statistics otherwise. */
abstract class BatchNorm extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter;
  private readonly runningMean: Tensor;
  private readonly runningVar: Tensor;
  private readonly batches: Tensor;
  private readonly momentum: number;
  private readonly eps: number;

  constructor(channels: number, options: { eps?: number; momentum?: number } = {}) {
    super();
    checkOptionNames(options, BATCH_OPTIONS, 'nn.BatchNorm');
    this.weight = new Parameter(ones([channels]));
    this.bias = new Parameter(zeros([channels]));
    this.runningMean = this.registerBuffer('running_mean', zeros([channels]));
    this.runningVar = this.registerBuffer('running_var', ones([channels]));
    this.batches = this.registerBuffer('num_batches_tracked', zeros([], { dtype: 'int64' }));
    this.momentum = options.momentum ?? 0.1;
    this.eps = options.eps ?? 1e-5;
  }

  protected abstract check(x: Tensor): void;

  forward(x: Tensor): Tensor {
    this.check(x);
    if (this.training) noGrad(() => this.batches.add_(1));
    const { weight, bias, runningMean, runningVar, training, momentum, eps } = this;
    return batchNorm(x, { weight, bias, runningMean, runningVar, training, momentum, eps });
  }
}

/** Of [N, C] or [N, C, L]. */
export class BatchNorm1d extends BatchNorm {
  static readonly [rpcName] = 'nn.BatchNorm1d';
  protected override check(x: Tensor): void {
    if (x.rank !== 2 && x.rank !== 3) throw new RangeError(`expected 2D or 3D input (got ${x.rank}D input)`);
  }
}

/** Of [N, C, H, W]. */
export class BatchNorm2d extends BatchNorm {
  static readonly [rpcName] = 'nn.BatchNorm2d';
  protected override check(x: Tensor): void {
    if (x.rank !== 4) throw new RangeError(`expected 4D input (got ${x.rank}D input)`);
  }
}
