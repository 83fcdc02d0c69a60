/** @file Convolution and pooling layers. */
import { adaptiveAvgPool2d, avgPool2d, conv2d, maxPool2d, POOL_OPTIONS, type PoolOptions } from '../ops/conv.ts';
import { pair, type Pair } from '../ops/windows.ts';
import { rpcName } from '../named.ts';
import type { Parameter, Tensor } from '../tensor.ts';
import { uniformParameter } from './init.ts';
import { Module } from './module.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';

export interface Conv2dOptions {
  stride?: Pair;
  padding?: Pair;
  dilation?: Pair;
  groups?: number;
  /** @default true */
  bias?: boolean;
}

const OPTIONS = optionNames<Conv2dOptions>({ stride: true, padding: true, dilation: true, groups: true, bias: true });

/** [N, inChannels, H, W] to [N, outChannels, H', W']. */
export class Conv2d extends Module {
  static readonly [rpcName] = 'nn.Conv2d';
  /** [outChannels, inChannels / groups, kh, kw]; starts uniform in ±1/√(taps), as in PyTorch. */
  readonly weight: Parameter;
  readonly bias: Parameter | null;
  private readonly options: Conv2dOptions;

  constructor(inChannels: number, outChannels: number, kernel: Pair, options: Conv2dOptions = {}) {
    super();
    checkOptionNames(options, OPTIONS, 'nn.Conv2d');
    const { bias = true, ...rest } = options;
    const size = pair(kernel);
    const inner = inChannels / (options.groups ?? 1);
    const bound = 1 / Math.sqrt(Math.max(1, inner * size[0] * size[1]));
    this.weight = uniformParameter([outChannels, inner, ...size], bound);
    this.bias = bias ? uniformParameter([outChannels], bound) : null;
    this.options = rest;
  }

  forward(x: Tensor): Tensor {
    const { stride = 1, padding = 0, dilation = 1, groups = 1 } = this.options;
    return conv2d(x, this.weight, { stride, padding, dilation, groups, bias: this.bias });
  }
}

/** The largest of each window. */
export class MaxPool2d extends Module {
  static readonly [rpcName] = 'nn.MaxPool2d';
  private readonly kernel: Pair;
  private readonly options: PoolOptions;
  constructor(kernel: Pair, options: PoolOptions = {}) {
    super();
    checkOptionNames(options, POOL_OPTIONS, 'nn.MaxPool2d');
    this.kernel = kernel;
    this.options = options;
  }
  forward(x: Tensor): Tensor {
    return maxPool2d(x, this.kernel, this.options);
  }
}

/** The mean of each window. */
export class AvgPool2d extends Module {
  static readonly [rpcName] = 'nn.AvgPool2d';
  private readonly kernel: Pair;
  private readonly options: PoolOptions;
  constructor(kernel: Pair, options: PoolOptions = {}) {
    super();
    checkOptionNames(options, POOL_OPTIONS, 'nn.AvgPool2d');
    this.kernel = kernel;
    this.options = options;
  }
  forward(x: Tensor): Tensor {
    return avgPool2d(x, this.kernel, this.options);
  }
}

/** Means over a grid of fixed size. */
export class AdaptiveAvgPool2d extends Module {
  static readonly [rpcName] = 'nn.AdaptiveAvgPool2d';
  private readonly size: Pair;
  constructor(size: Pair) {
    super();
    this.size = size;
  }
  forward(x: Tensor): Tensor {
    return adaptiveAvgPool2d(x, this.size);
  }
}
