/** @file Convolution and pooling layers. */
import {
  adaptiveAvgPool2d,
  AVG_POOL_OPTIONS,
  avgPool2d,
  conv1d,
  conv2d,
  convTranspose2d,
  MAX_POOL_OPTIONS,
  maxPool2d,
  type AvgPoolOptions,
  type MaxPoolOptions,
} from '../ops/conv.ts';
import {
  adaptiveAvgPool1d,
  avgPool1d,
  conv3d,
  convTranspose1d,
  convTranspose3d,
  maxPool1d,
  triple,
  type Triple,
} from '../ops/conv-dims.ts';
import { pair, type Pair } from '../ops/windows.ts';
import { pad } from '../ops/structure.ts';
import type { PadMode } from '../ops/pad-modes.ts';
import { rpcName } from '../named.ts';
import type { Parameter, Tensor } from '../tensor.ts';
import { uniformParameter } from './init.ts';
import { Module } from './module.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';

/** Options of a convolution layer, whose sizes are numbers or, of images and volumes, one for each direction. */
export interface ConvLayerOptions<Size> {
  /** @default 1 */
  stride?: Size;
  /** On each side; 'same' adds as many as keep the size, 'valid' none. @default 0 */
  padding?: Size | 'same' | 'valid';
  /** With what: zeros, or elements of the input. @default 'zeros' */
  paddingMode?: 'zeros' | PadMode;
  /** @default 1 */
  dilation?: Size;
  /** @default 1 */
  groups?: number;
  /** @default true */
  bias?: boolean;
}

/** What `Conv1d` is made with. */
export type Conv1dOptions = ConvLayerOptions<number>;
/** What `Conv2d` is made with. */
export type Conv2dOptions = ConvLayerOptions<Pair>;
/** What `Conv3d` is made with. */
export type Conv3dLayerOptions = ConvLayerOptions<Triple>;

const OPTIONS = optionNames<Conv2dOptions>({
  stride: true,
  padding: true,
  paddingMode: true,
  dilation: true,
  groups: true,
  bias: true,
});

/** What the layers have in common: weights [outChannels, inChannels / groups, ...kernel], and padding that is no zeros. */
abstract class Conv<Size> extends Module {
  /** Starts uniform in ±1/√(taps), as in PyTorch. */
  readonly weight: Parameter;
  readonly bias: Parameter | null;
  protected readonly options: ConvLayerOptions<Size>;
  /** What `pad` is called with, where padding is no zeros. */
  private readonly sides: readonly number[] | null;

  constructor(
    inChannels: number,
    outChannels: number,
    kernel: readonly number[],
    options: ConvLayerOptions<Size>,
    listOf: (size: Size) => readonly number[],
  ) {
    super();
    checkOptionNames(options, OPTIONS, `nn.Conv${kernel.length}d`);
    const { bias = true, paddingMode = 'zeros', groups = 1 } = options;
    checkChannels(inChannels, outChannels, groups);
    if (!['zeros', 'reflect', 'replicate', 'circular'].includes(paddingMode))
      throw new RangeError(`paddingMode must be one of zeros, reflect, replicate, circular, but got '${paddingMode}'`);
    const inner = inChannels / groups;
    const bound =
      1 /
      Math.sqrt(
        Math.max(
          1,
          kernel.reduce((a, b) => a * b, inner),
        ),
      );
    this.weight = uniformParameter([outChannels, inner, ...kernel], bound);
    this.bias = bias ? uniformParameter([outChannels], bound) : null;
    this.options = options;
    this.sides = paddingMode === 'zeros' ? null : sidesOf(kernel, options, listOf);
  }

  /** The input with its padding, and the padding that is left to the convolution. */
  protected padded(x: Tensor): [Tensor, Size | 'same' | 'valid' | undefined] {
    const { paddingMode = 'zeros', padding } = this.options;
    if (paddingMode === 'zeros' || this.sides === null) return [x, padding];
    return [pad(x, this.sides, paddingMode), 'valid'];
  }

  protected settings(padding: Size | 'same' | 'valid' | undefined): {
    bias: Parameter | null;
    stride?: Size;
    padding?: Size | 'same' | 'valid';
    dilation?: Size;
    groups?: number;
  } {
    const { stride, dilation, groups } = this.options;
    return {
      bias: this.bias,
      ...(stride === undefined ? {} : { stride }),
      ...(padding === undefined ? {} : { padding }),
      ...(dilation === undefined ? {} : { dilation }),
      ...(groups === undefined ? {} : { groups }),
    };
  }
}

/** The pairs of `pad`, from the last dimension backwards. */
function sidesOf<Size>(
  kernel: readonly number[],
  { padding, dilation }: ConvLayerOptions<Size>,
  listOf: (size: Size) => readonly number[],
): number[] {
  const each = kernel.map((k, d): [number, number] => {
    if (padding === 'same') {
      const more = (dilation === undefined ? 1 : (listOf(dilation)[d] as number)) * (k - 1);
      return [Math.floor(more / 2), Math.ceil(more / 2)];
    }
    const n = padding === undefined || padding === 'valid' ? 0 : (listOf(padding)[d] as number);
    return [n, n];
  });
  return each.reverse().flat();
}

function checkChannels(inChannels: number, outChannels: number, groups: number): void {
  if (!Number.isInteger(groups) || groups < 1) throw new RangeError('groups must be a positive integer');
  if (inChannels % groups !== 0) throw new RangeError('inChannels must be divisible by groups');
  if (outChannels % groups !== 0) throw new RangeError('outChannels must be divisible by groups');
}

/** [N, inChannels, L] to [N, outChannels, L']. */
export class Conv1d extends Conv<number> {
  static readonly [rpcName] = 'nn.Conv1d';
  constructor(inChannels: number, outChannels: number, kernel: number, options: Conv1dOptions = {}) {
    super(inChannels, outChannels, [kernel], options, (size) => [size]);
  }
  forward(x: Tensor): Tensor {
    const [input, padding] = this.padded(x);
    return conv1d(input, this.weight, this.settings(padding));
  }
}

/** [N, inChannels, H, W] to [N, outChannels, H', W']. */
export class Conv2d extends Conv<Pair> {
  static readonly [rpcName] = 'nn.Conv2d';
  constructor(inChannels: number, outChannels: number, kernel: Pair, options: Conv2dOptions = {}) {
    super(inChannels, outChannels, pair(kernel), options, pair);
  }
  forward(x: Tensor): Tensor {
    const [input, padding] = this.padded(x);
    return conv2d(input, this.weight, this.settings(padding));
  }
}

/** [N, inChannels, D, H, W] to [N, outChannels, D', H', W']. */
export class Conv3d extends Conv<Triple> {
  static readonly [rpcName] = 'nn.Conv3d';
  constructor(inChannels: number, outChannels: number, kernel: Triple, options: Conv3dLayerOptions = {}) {
    super(inChannels, outChannels, triple(kernel), options, triple);
  }
  forward(x: Tensor): Tensor {
    const [input, padding] = this.padded(x);
    return conv3d(input, this.weight, this.settings(padding));
  }
}

/** What transposed convolutions are made with. */
export interface ConvTransposeOptions<Size> {
  /** @default 1 */
  stride?: Size;
  /** By how much the convolution that it undoes was padded. @default 0 */
  padding?: Size;
  /** What is added at the end of each direction. @default 0 */
  outputPadding?: Size;
  /** @default 1 */
  dilation?: Size;
  /** @default 1 */
  groups?: number;
  /** @default true */
  bias?: boolean;
}

const TRANSPOSE_OPTIONS = optionNames<ConvTransposeOptions<number>>({
  stride: true,
  padding: true,
  outputPadding: true,
  dilation: true,
  groups: true,
  bias: true,
});

/** Weights [inChannels, outChannels / groups, ...kernel]. */
abstract class ConvTranspose<Size> extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter | null;
  protected readonly options: Omit<ConvTransposeOptions<Size>, 'bias'>;
  constructor(inChannels: number, outChannels: number, kernel: readonly number[], options: ConvTransposeOptions<Size>) {
    super();
    checkOptionNames(options, TRANSPOSE_OPTIONS, `nn.ConvTranspose${kernel.length}d`);
    const { bias = true, ...rest } = options;
    const groups = rest.groups ?? 1;
    checkChannels(inChannels, outChannels, groups);
    const inner = outChannels / groups;
    const bound =
      1 /
      Math.sqrt(
        Math.max(
          1,
          kernel.reduce((a, b) => a * b, inner),
        ),
      );
    this.weight = uniformParameter([inChannels, inner, ...kernel], bound);
    this.bias = bias ? uniformParameter([outChannels], bound) : null;
    this.options = rest;
  }
}

/** [N, inChannels, L] to [N, outChannels, L']. */
export class ConvTranspose1d extends ConvTranspose<number> {
  static readonly [rpcName] = 'nn.ConvTranspose1d';
  constructor(inChannels: number, outChannels: number, kernel: number, options: ConvTransposeOptions<number> = {}) {
    super(inChannels, outChannels, [kernel], options);
  }
  forward(x: Tensor): Tensor {
    return convTranspose1d(x, this.weight, { ...this.options, bias: this.bias });
  }
}

/** [N, inChannels, H, W] to [N, outChannels, H', W']. */
export class ConvTranspose2d extends ConvTranspose<Pair> {
  static readonly [rpcName] = 'nn.ConvTranspose2d';
  constructor(inChannels: number, outChannels: number, kernel: Pair, options: ConvTransposeOptions<Pair> = {}) {
    super(inChannels, outChannels, pair(kernel), options);
  }
  forward(x: Tensor): Tensor {
    return convTranspose2d(x, this.weight, { ...this.options, bias: this.bias });
  }
}

/** [N, inChannels, D, H, W] to [N, outChannels, D', H', W']. */
export class ConvTranspose3d extends ConvTranspose<Triple> {
  static readonly [rpcName] = 'nn.ConvTranspose3d';
  constructor(inChannels: number, outChannels: number, kernel: Triple, options: ConvTransposeOptions<Triple> = {}) {
    super(inChannels, outChannels, triple(kernel), options);
  }
  forward(x: Tensor): Tensor {
    return convTranspose3d(x, this.weight, { ...this.options, bias: this.bias });
  }
}

/** The largest of each window. */
export class MaxPool2d extends Module {
  static readonly [rpcName] = 'nn.MaxPool2d';
  private readonly kernel: Pair;
  private readonly options: MaxPoolOptions;
  constructor(kernel: Pair, options: MaxPoolOptions = {}) {
    super();
    checkOptionNames(options, MAX_POOL_OPTIONS, 'nn.MaxPool2d');
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
  private readonly options: AvgPoolOptions;
  constructor(kernel: Pair, options: AvgPoolOptions = {}) {
    super();
    checkOptionNames(options, AVG_POOL_OPTIONS, 'nn.AvgPool2d');
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

type MaxPool1dOptions = NonNullable<Parameters<typeof maxPool1d>[2]>;
type AvgPool1dOptions = NonNullable<Parameters<typeof avgPool1d>[2]>;

/** The largest of each window of [N, C, L]. */
export class MaxPool1d extends Module {
  static readonly [rpcName] = 'nn.MaxPool1d';
  private readonly kernel: number;
  private readonly options: MaxPool1dOptions;
  constructor(kernel: number, options: MaxPool1dOptions = {}) {
    super();
    checkOptionNames(options, MAX_POOL_OPTIONS, 'nn.MaxPool1d');
    this.kernel = kernel;
    this.options = options;
  }
  forward(x: Tensor): Tensor {
    return maxPool1d(x, this.kernel, this.options);
  }
}

/** The mean of each window of [N, C, L]. */
export class AvgPool1d extends Module {
  static readonly [rpcName] = 'nn.AvgPool1d';
  private readonly kernel: number;
  private readonly options: AvgPool1dOptions;
  constructor(kernel: number, options: AvgPool1dOptions = {}) {
    super();
    checkOptionNames(options, AVG_POOL_OPTIONS, 'nn.AvgPool1d');
    this.kernel = kernel;
    this.options = options;
  }
  forward(x: Tensor): Tensor {
    return avgPool1d(x, this.kernel, this.options);
  }
}

/** Means over a fixed number of regions. */
export class AdaptiveAvgPool1d extends Module {
  static readonly [rpcName] = 'nn.AdaptiveAvgPool1d';
  private readonly size: number;
  constructor(size: number) {
    super();
    this.size = size;
  }
  forward(x: Tensor): Tensor {
    return adaptiveAvgPool1d(x, this.size);
  }
}
