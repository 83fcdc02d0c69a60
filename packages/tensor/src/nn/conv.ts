/** @file Convolution and pooling layers. */
import { checkMade } from '../arguments.ts';
import {
  adaptiveAvgPool2d,
  AVG_POOL_OPTIONS,
  avgPool2d,
  conv1d,
  conv2d,
  convTranspose2d,
  MAX_POOL_OPTIONS,
  maxPool2d,
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
import { applied } from './applied.ts';
import { uniformParameter } from './init.ts';
import { Module } from './module.ts';
import { checkOptionNames, optionNames } from '../option-names.ts';
import { sizeOf } from '../shape.ts';

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

const OPTIONS = optionNames<Conv2dOptions>()('stride padding paddingMode dilation groups bias');

/** A weight and, for as many channels, a bias, uniform in ±1/√(taps), as in PyTorch. */
function starting(weight: readonly number[], channels: number | false): [Parameter, Parameter | null] {
  const bound = 1 / Math.sqrt(Math.max(1, sizeOf(weight.slice(1))));
  return [uniformParameter(weight, bound), channels === false ? null : uniformParameter([channels], bound)];
}

/** A convolution of the ops, in some number of dimensions. */
type Convolve<O> = (x: Tensor, weight: Tensor, options: O & { bias: Parameter | null }) => Tensor;

/** What the layers have in common: weights [outChannels, inChannels / groups, ...kernel], and padding that is no zeros. */
abstract class Conv<Size> extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter | null;
  protected readonly options: ConvLayerOptions<Size>;
  /** What `pad` is called with, where padding is no zeros. */
  private readonly sides: readonly number[] | null;
  private readonly convolve: Convolve<Omit<ConvLayerOptions<Size | number>, 'bias' | 'paddingMode'>>;

  constructor(
    inChannels: number,
    outChannels: number,
    kernel: readonly number[],
    options: ConvLayerOptions<Size>,
    listOf: (size: Size) => readonly number[],
    convolve: Convolve<Omit<ConvLayerOptions<Size | number>, 'bias' | 'paddingMode'>>,
  ) {
    super();
    checkOptionNames(options, OPTIONS, `nn.Conv${kernel.length}d`);
    const { bias = true, paddingMode = 'zeros', groups = 1 } = options;
    checkChannels(inChannels, outChannels, groups);
    if (!['zeros', 'reflect', 'replicate', 'circular'].includes(paddingMode))
      throw new RangeError(`paddingMode must be one of zeros, reflect, replicate, circular, but got '${paddingMode}'`);
    [this.weight, this.bias] = starting([outChannels, inChannels / groups, ...kernel], bias && outChannels);
    this.options = options;
    this.convolve = convolve;
    this.sides = paddingMode === 'zeros' ? null : sidesOf(kernel, options, listOf);
  }

  forward(x: Tensor): Tensor {
    const { paddingMode: mode = 'zeros', padding = 0, stride = 1, dilation = 1, groups = 1 } = this.options;
    const own = mode !== 'zeros' && this.sides !== null;
    return this.convolve(own ? pad(x, this.sides, mode) : x, this.weight, {
      bias: this.bias,
      stride,
      padding: own ? 'valid' : padding,
      dilation,
      groups,
    });
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
    checkMade(new.target, [inChannels, outChannels, kernel, options]);
    super(inChannels, outChannels, [kernel], options, (size) => [size], conv1d);
  }
}

/** [N, inChannels, H, W] to [N, outChannels, H', W']. */
export class Conv2d extends Conv<Pair> {
  static readonly [rpcName] = 'nn.Conv2d';
  constructor(inChannels: number, outChannels: number, kernel: Pair, options: Conv2dOptions = {}) {
    checkMade(new.target, [inChannels, outChannels, kernel, options]);
    super(inChannels, outChannels, pair(kernel), options, pair, conv2d);
  }
}

/** [N, inChannels, D, H, W] to [N, outChannels, D', H', W']. */
export class Conv3d extends Conv<Triple> {
  static readonly [rpcName] = 'nn.Conv3d';
  constructor(inChannels: number, outChannels: number, kernel: Triple, options: Conv3dLayerOptions = {}) {
    checkMade(new.target, [inChannels, outChannels, kernel, options]);
    super(inChannels, outChannels, triple(kernel), options, triple, conv3d);
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

const TRANSPOSE_OPTIONS = optionNames<ConvTransposeOptions<number>>()(
  'stride padding outputPadding dilation groups bias',
);

/** Weights [inChannels, outChannels / groups, ...kernel]. */
abstract class ConvTranspose<Size> extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter | null;
  protected readonly options: Omit<ConvTransposeOptions<Size>, 'bias'>;
  private readonly convolve: Convolve<Omit<ConvTransposeOptions<Size>, 'bias'>>;
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: readonly number[],
    options: ConvTransposeOptions<Size>,
    convolve: Convolve<Omit<ConvTransposeOptions<Size>, 'bias'>>,
  ) {
    super();
    checkOptionNames(options, TRANSPOSE_OPTIONS, `nn.ConvTranspose${kernel.length}d`);
    const { bias = true, ...rest } = options;
    const groups = rest.groups ?? 1;
    checkChannels(inChannels, outChannels, groups);
    [this.weight, this.bias] = starting([inChannels, outChannels / groups, ...kernel], bias && outChannels);
    this.options = rest;
    this.convolve = convolve;
  }
  forward(x: Tensor): Tensor {
    return this.convolve(x, this.weight, { ...this.options, bias: this.bias });
  }
}

/** [N, inChannels, L] to [N, outChannels, L']. */
export class ConvTranspose1d extends ConvTranspose<number> {
  static readonly [rpcName] = 'nn.ConvTranspose1d';
  constructor(inChannels: number, outChannels: number, kernel: number, options: ConvTransposeOptions<number> = {}) {
    checkMade(new.target, [inChannels, outChannels, kernel, options]);
    super(inChannels, outChannels, [kernel], options, convTranspose1d);
  }
}

/** [N, inChannels, H, W] to [N, outChannels, H', W']. */
export class ConvTranspose2d extends ConvTranspose<Pair> {
  static readonly [rpcName] = 'nn.ConvTranspose2d';
  constructor(inChannels: number, outChannels: number, kernel: Pair, options: ConvTransposeOptions<Pair> = {}) {
    checkMade(new.target, [inChannels, outChannels, kernel, options]);
    super(inChannels, outChannels, pair(kernel), options, convTranspose2d);
  }
}

/** [N, inChannels, D, H, W] to [N, outChannels, D', H', W']. */
export class ConvTranspose3d extends ConvTranspose<Triple> {
  static readonly [rpcName] = 'nn.ConvTranspose3d';
  constructor(inChannels: number, outChannels: number, kernel: Triple, options: ConvTransposeOptions<Triple> = {}) {
    checkMade(new.target, [inChannels, outChannels, kernel, options]);
    super(inChannels, outChannels, triple(kernel), options, convTranspose3d);
  }
}

/** Windows of a size, with options that are checked when the layer is made. */
abstract class Pool<K, O> extends Module {
  protected readonly kernel: K;
  protected readonly options: O;
  constructor(kernel: K, options: O) {
    super();
    this.kernel = kernel;
    this.options = options;
  }
}

/** The layer of the function `pool`, whose options are `known`. */
function poolOf<K, O extends object>(
  pool: (x: Tensor, kernel: K, options?: O) => Tensor,
  known: ReadonlySet<string>,
): new (kernel: K, options?: O) => Pool<K, O> & { forward(x: Tensor): Tensor } {
  return class extends Pool<K, O> {
    constructor(kernel: K, options: O = {} as O) {
      checkOptionNames(options, known, `nn.${new.target.name}`);
      checkMade(new.target, [kernel, options]);
      super(kernel, options);
    }
    forward(x: Tensor): Tensor {
      return pool(x, this.kernel, this.options);
    }
  };
}

/** The largest of each window. */
export class MaxPool2d extends poolOf(maxPool2d, MAX_POOL_OPTIONS) {
  static readonly [rpcName] = 'nn.MaxPool2d';
}

/** The mean of each window. */
export class AvgPool2d extends poolOf(avgPool2d, AVG_POOL_OPTIONS) {
  static readonly [rpcName] = 'nn.AvgPool2d';
}

/** Means over a grid of fixed size. */
export class AdaptiveAvgPool2d extends applied(adaptiveAvgPool2d) {
  static readonly [rpcName] = 'nn.AdaptiveAvgPool2d';
}

/** The largest of each window of [N, C, L]. */
export class MaxPool1d extends poolOf(maxPool1d, MAX_POOL_OPTIONS) {
  static readonly [rpcName] = 'nn.MaxPool1d';
}

/** The mean of each window of [N, C, L]. */
export class AvgPool1d extends poolOf(avgPool1d, AVG_POOL_OPTIONS) {
  static readonly [rpcName] = 'nn.AvgPool1d';
}

/** Means over a fixed number of regions. */
export class AdaptiveAvgPool1d extends applied(adaptiveAvgPool1d) {
  static readonly [rpcName] = 'nn.AdaptiveAvgPool1d';
}
