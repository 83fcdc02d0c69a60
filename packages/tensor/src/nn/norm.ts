/** @file Normalisation layers. */
import { checkTensors } from '../ops/takes.ts';
import { checkMade } from '../arguments.ts';
import { noGrad } from '../autograd/record.ts';
import { ones, zeros } from '../creation.ts';
import { batchNorm, groupNorm, layerNorm } from '../ops/composite.ts';
import { instanceNorm, rmsNorm } from '../ops/normalisation.ts';
import { ShapeError } from '../errors.ts';
import { rpcName } from '../named.ts';
import { Parameter, type Tensor } from '../tensor.ts';
import { Module } from './module.ts';
import { SETTINGS, type Settings } from './printing.ts';
import { checkOptionNames } from '../option-names.ts';

const LAYER_OPTIONS: ReadonlySet<string> = new Set(['eps', 'elementwiseAffine', 'bias']);
const GROUP_OPTIONS: ReadonlySet<string> = new Set(['eps', 'affine']);
const RMS_OPTIONS: ReadonlySet<string> = new Set(['eps', 'elementwiseAffine']);
const BATCH_OPTIONS: ReadonlySet<string> = new Set(['eps', 'momentum', 'affine', 'trackRunningStats']);

/** Normalises over the trailing dimensions `shape`. */
export class LayerNorm extends Module {
  static readonly [rpcName] = 'nn.LayerNorm';
  /** Null without `elementwiseAffine`, the bias also without `bias`. */
  readonly weight: Parameter | null;
  readonly bias: Parameter | null;
  private readonly shape: readonly number[];
  private readonly eps: number;

  constructor(
    shape: number | readonly number[],
    options: { eps?: number; elementwiseAffine?: boolean; bias?: boolean } = {},
  ) {
    super();
    checkOptionNames(options, LAYER_OPTIONS, 'nn.LayerNorm');
    checkMade(new.target, [shape, options]);
    const { eps = 1e-5, elementwiseAffine = true, bias = true } = options;
    this.shape = typeof shape === 'number' ? [shape] : shape;
    this.eps = eps;
    this.weight = elementwiseAffine ? new Parameter(ones(this.shape)) : null;
    this.bias = elementwiseAffine && bias ? new Parameter(zeros(this.shape)) : null;
  }

  forward(x: Tensor): Tensor {
    return layerNorm(x, this.shape, this.weight, this.bias, this.eps);
  }
}

/** Divides by the root of the mean square over the trailing dimensions `shape` (Zhang & Sennrich 2019). */
export class RMSNorm extends Module {
  static readonly [rpcName] = 'nn.RMSNorm';
  /** Null without `elementwiseAffine`. */
  readonly weight: Parameter | null;
  private readonly shape: readonly number[];
  private readonly eps: number | undefined;

  /** `eps` is by default the distance from 1 to the next number of the input's dtype. */
  constructor(shape: number | readonly number[], options: { eps?: number; elementwiseAffine?: boolean } = {}) {
    super();
    checkOptionNames(options, RMS_OPTIONS, 'nn.RMSNorm');
    checkMade(new.target, [shape, options]);
    this.shape = typeof shape === 'number' ? [shape] : shape;
    this.eps = options.eps;
    this.weight = options.elementwiseAffine === false ? null : new Parameter(ones(this.shape));
  }

  forward(x: Tensor): Tensor {
    return rmsNorm(x, this.shape, this.weight, this.eps);
  }
}

/** Normalises each group of channels of [N, C, ...]. */
export class GroupNorm extends Module {
  static readonly [rpcName] = 'nn.GroupNorm';
  /** Null without `affine`. */
  readonly weight: Parameter | null;
  readonly bias: Parameter | null;
  private readonly groups: number;
  private readonly eps: number;

  constructor(groups: number, channels: number, options: { eps?: number; affine?: boolean } = {}) {
    super();
    checkOptionNames(options, GROUP_OPTIONS, 'nn.GroupNorm');
    checkMade(new.target, [groups, channels, options]);
    if (channels % groups !== 0) throw new RangeError('channels must be divisible by groups');
    const { eps = 1e-5, affine = true } = options;
    this.groups = groups;
    this.eps = eps;
    this.weight = affine ? new Parameter(ones([channels])) : null;
    this.bias = affine ? new Parameter(zeros([channels])) : null;
  }

  forward(x: Tensor): Tensor {
    return groupNorm(x, this.groups, this.weight, this.bias, this.eps);
  }
}

/** What the layers of batch normalisation are made with. */
export interface BatchNormLayerOptions {
  /** @default 1e-5 */
  eps?: number;
  /** How fast running statistics follow; null for the mean of all batches so far. @default 0.1 */
  momentum?: number | null;
  /** @default true */
  affine?: boolean;
  /** Without, the batch is normalised by itself also when evaluated. @default true */
  trackRunningStats?: boolean;
}

/** Weights and running statistics of channels. */
abstract class ChannelNorm extends Module {
  readonly weight: Parameter | null;
  readonly bias: Parameter | null;
  protected readonly runningMean: Tensor | null;
  protected readonly runningVar: Tensor | null;
  protected readonly batches: Tensor | null;
  protected readonly momentum: number | null;
  protected readonly eps: number;

  constructor(channels: number, options: BatchNormLayerOptions, affine: boolean, tracks: boolean) {
    super();
    const { momentum = 0.1, eps = 1e-5 } = options;
    this.weight = affine ? new Parameter(ones([channels])) : null;
    this.bias = affine ? new Parameter(zeros([channels])) : null;
    this.runningMean = tracks ? this.registerBuffer('running_mean', zeros([channels])) : null;
    this.runningVar = tracks ? this.registerBuffer('running_var', ones([channels])) : null;
    this.batches = tracks ? this.registerBuffer('num_batches_tracked', zeros([], { dtype: 'int64' })) : null;
    this.momentum = momentum;
    this.eps = eps;
  }

  /** How many dimensions an input may have. */
  protected abstract readonly ranks: readonly number[];

  override [SETTINGS](): Settings {
    return super[SETTINGS]().filter(([field]) => field !== 'ranks');
  }

  /** Which dimension is that of channels. */
  protected channelDim(_x: Tensor): number {
    return 1;
  }

  protected check(x: Tensor): void {
    checkTensors(`${this.constructor.name}.forward`, [x]);
    const name = this.constructor.name;
    if (!this.ranks.includes(x.rank)) {
      const expected = this.ranks.map((rank) => `${rank}D`).join(' or ');
      throw new RangeError(`${name}: expected ${expected} input (got ${x.rank}D input)`);
    }
    const channels = (this.weight ?? this.runningMean)?.size;
    if (channels !== undefined && x.shape[this.channelDim(x)] !== channels)
      throw new ShapeError(`${name} takes ${channels} channels, got [${x.shape.join(', ')}]`);
  }

  /** How much the batch at hand counts, which is counted. */
  protected countBatch(): number {
    const { batches } = this;
    if (!this.training || batches === null) return this.momentum ?? 0;
    noGrad(() => batches.add_(1));
    return this.momentum ?? 1 / batches.item();
  }
}

/** Normalises each channel over the batch while training, by running statistics otherwise. */
abstract class BatchNorm extends ChannelNorm {
  constructor(channels: number, options: BatchNormLayerOptions = {}) {
    checkOptionNames(options, BATCH_OPTIONS, 'nn.BatchNorm');
    checkMade(new.target, [channels, options]);
    super(channels, options, options.affine ?? true, options.trackRunningStats ?? true);
  }

  forward(x: Tensor): Tensor {
    this.check(x);
    const momentum = this.countBatch();
    const { weight, bias, runningMean, runningVar, eps } = this;
    const training = this.training || runningMean === null;
    return batchNorm(x, { weight, bias, runningMean, runningVar, training, momentum, eps });
  }
}

/** Normalises each channel of each image by itself (Ulyanov et al. 2016); by running statistics only where these are tracked. */
abstract class InstanceNorm extends ChannelNorm {
  constructor(channels: number, options: BatchNormLayerOptions = {}) {
    checkOptionNames(options, BATCH_OPTIONS, 'nn.InstanceNorm');
    checkMade(new.target, [channels, options]);
    super(channels, options, options.affine ?? false, options.trackRunningStats ?? false);
  }

  /** Images may come without a batch. */
  protected override channelDim(x: Tensor): number {
    return x.rank === this.ranks[0] ? 0 : 1;
  }

  forward(x: Tensor): Tensor {
    this.check(x);
    const { weight, bias, runningMean, runningVar, eps, momentum: given } = this;
    const momentum = given ?? 0;
    const useInputStats = this.training || runningMean === null;
    const options = { weight, bias, runningMean, runningVar, useInputStats, momentum, eps };
    return x.rank === this.ranks[0] ? instanceNorm(x.unsqueeze(0), options).squeeze(0) : instanceNorm(x, options);
  }
}

/** Of [N, C, L] or [C, L]. */
export class InstanceNorm1d extends InstanceNorm {
  static readonly [rpcName] = 'nn.InstanceNorm1d';
  protected readonly ranks = [2, 3];
}

/** Of [N, C, H, W] or [C, H, W]. */
export class InstanceNorm2d extends InstanceNorm {
  static readonly [rpcName] = 'nn.InstanceNorm2d';
  protected readonly ranks = [3, 4];
}

/** Of [N, C, D, H, W] or [C, D, H, W]. */
export class InstanceNorm3d extends InstanceNorm {
  static readonly [rpcName] = 'nn.InstanceNorm3d';
  protected readonly ranks = [4, 5];
}

/** Of [N, C, D, H, W]. */
export class BatchNorm3d extends BatchNorm {
  static readonly [rpcName] = 'nn.BatchNorm3d';
  protected readonly ranks = [5];
}

/** Of [N, C] or [N, C, L]. */
export class BatchNorm1d extends BatchNorm {
  static readonly [rpcName] = 'nn.BatchNorm1d';
  protected readonly ranks = [2, 3];
}

/** Of [N, C, H, W]. */
export class BatchNorm2d extends BatchNorm {
  static readonly [rpcName] = 'nn.BatchNorm2d';
  protected readonly ranks = [4];
}
