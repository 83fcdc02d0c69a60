/** @file Activations and other functions of their input alone as modules: `nn.ELU` and so on. */
import { checkMade } from '../arguments.ts';
import { full } from '../creation.ts';
import { rpcName } from '../named.ts';
import * as activations from '../ops/activations.ts';
import * as ops from '../ops/composite.ts';
import * as composed from '../ops/composed-activations.ts';
import { pairwiseDistance } from '../ops/margin-losses.ts';
import { pixelShuffle, pixelUnshuffle } from '../ops/pixel-shuffle.ts';
import { checkOptionNames } from '../option-names.ts';
import { Parameter, type Tensor } from '../tensor.ts';
import { applied, Setting } from './applied.ts';
import { Module } from './module.ts';

/** The input itself, whatever it was made with. */
export class Identity extends Module {
  static readonly [rpcName] = 'nn.Identity';
  constructor(..._ignored: unknown[]) {
    super();
  }
  forward<T>(x: T): T {
    return x;
  }
}

/** max(x, 0). */
export class ReLU extends applied((x) => x.relu()) {
  static readonly [rpcName] = 'nn.ReLU';
}

/** x above zero, slope x below; 0.01 by default. */
export class LeakyReLU extends applied((x, slope?: number) => x.leakyRelu(slope)) {
  static readonly [rpcName] = 'nn.LeakyReLU';
}

/** 1 / (1 + exp(-x)). */
export class Sigmoid extends applied((x) => x.sigmoid()) {
  static readonly [rpcName] = 'nn.Sigmoid';
}

/** The hyperbolic tangent. */
export class Tanh extends applied((x) => x.tanh()) {
  static readonly [rpcName] = 'nn.Tanh';
}

/** x sigmoid(x). */
export class SiLU extends applied((x) => x.silu()) {
  static readonly [rpcName] = 'nn.SiLU';
}

const GELU_OPTIONS: ReadonlySet<string> = new Set(['approximate']);

/** x times the normal distribution function of x; with `tanh` its approximation. */
export class GELU extends Module {
  static readonly [rpcName] = 'nn.GELU';
  private readonly approximate: 'none' | 'tanh';
  constructor(options: { approximate?: 'none' | 'tanh' } = {}) {
    super();
    checkOptionNames(options, GELU_OPTIONS, 'nn.GELU');
    checkMade(new.target, [options]);
    this.approximate = options.approximate ?? 'none';
  }
  forward(x: Tensor): Tensor {
    return activations.gelu(x, this.approximate);
  }
}

/** Softmax along `dim`. */
export class Softmax extends applied((x, dim: number) => x.softmax(dim)) {
  static readonly [rpcName] = 'nn.Softmax';
}

/** log(softmax) along `dim`. */
export class LogSoftmax extends applied((x, dim: number) => x.logSoftmax(dim)) {
  static readonly [rpcName] = 'nn.LogSoftmax';
}

/** x above zero, alpha (exp(x) - 1) below; alpha is 1 by default. */
export class ELU extends applied((x, alpha?: number) => x.elu(alpha)) {
  static readonly [rpcName] = 'nn.ELU';
}

/** ELU with the alpha and the scale that keep the variance of a layer. */
export class SELU extends applied((x) => x.selu()) {
  static readonly [rpcName] = 'nn.SELU';
}

/** x above zero, alpha (exp(x / alpha) - 1) below; alpha is 1 by default. */
export class CELU extends applied((x, alpha?: number) => composed.celu(x, alpha)) {
  static readonly [rpcName] = 'nn.CELU';
}

/** The first half along `dim` times the sigmoid of the second. */
export class GLU extends applied((x, dim?: number) => composed.glu(x, dim)) {
  static readonly [rpcName] = 'nn.GLU';
}

/** x tanh(softplus(x)). */
export class Mish extends applied((x) => x.mish()) {
  static readonly [rpcName] = 'nn.Mish';
}

/** x between 0 and 6, and those bounds beyond them. */
export class ReLU6 extends applied((x) => x.relu6()) {
  static readonly [rpcName] = 'nn.ReLU6';
}

/** x between two bounds, -1 and 1 by default, and those bounds beyond them. */
export class Hardtanh extends applied((x, low?: number, high?: number) => x.hardtanh(low, high)) {
  static readonly [rpcName] = 'nn.Hardtanh';
}

/** x / 6 + 1/2 between 0 and 1. */
export class Hardsigmoid extends applied((x) => x.hardSigmoid()) {
  static readonly [rpcName] = 'nn.Hardsigmoid';
}

/** x hardSigmoid(x). */
export class Hardswish extends applied((x) => x.hardSwish()) {
  static readonly [rpcName] = 'nn.Hardswish';
}

/** x where its size is above lambda, which is 0.5 by default; else 0. */
export class Hardshrink extends applied((x, lambda?: number) => composed.hardshrink(x, lambda)) {
  static readonly [rpcName] = 'nn.Hardshrink';
}

/** x nearer to zero by lambda, which is 0.5 by default; 0 where it is within lambda of zero. */
export class Softshrink extends applied((x, lambda?: number) => composed.softshrink(x, lambda)) {
  static readonly [rpcName] = 'nn.Softshrink';
}

/** x - tanh(x). */
export class Tanhshrink extends applied((x) => composed.tanhshrink(x)) {
  static readonly [rpcName] = 'nn.Tanhshrink';
}

/** x where it is above `at`, else `value`. */
export class Threshold extends applied((x, at: number, value: number) => composed.threshold(x, at, value)) {
  static readonly [rpcName] = 'nn.Threshold';
}

/** Softmax of -x along `dim`. */
export class Softmin extends applied((x, dim: number) => composed.softmin(x, dim)) {
  static readonly [rpcName] = 'nn.Softmin';
}

/** x / (1 + |x|). */
export class Softsign extends applied((x) => x.softsign()) {
  static readonly [rpcName] = 'nn.Softsign';
}

/** log(sigmoid(x)). */
export class LogSigmoid extends applied((x) => x.logSigmoid()) {
  static readonly [rpcName] = 'nn.LogSigmoid';
}

/** log(1 + exp(beta x)) / beta, linear where beta x is above `threshold`. */
export class Softplus extends applied((x, beta?: number, threshold?: number) =>
  activations.softplusWith(x, beta, threshold),
) {
  static readonly [rpcName] = 'nn.Softplus';
}

const PRELU: ReadonlySet<string> = new Set(['numParameters', 'init']);

/** x above zero, weight x below, with a weight that is learned. */
export class PReLU extends Module {
  static readonly [rpcName] = 'nn.PReLU';
  /** [numParameters]: one, or one for each channel. */
  readonly weight: Parameter;
  constructor(options: { numParameters?: number; init?: number } = {}) {
    super();
    checkOptionNames(options, PRELU, 'nn.PReLU');
    checkMade(new.target, [options]);
    this.weight = new Parameter(full([options.numParameters ?? 1], options.init ?? 0.25));
  }
  forward(x: Tensor): Tensor {
    return activations.prelu(x, this.weight);
  }
}

/** Dimensions `startDim` to `endDim` as one; by default all but the batch. */
export class Flatten extends applied((x, startDim?: number, endDim?: number) => x.flatten(startDim ?? 1, endDim)) {
  static readonly [rpcName] = 'nn.Flatten';
}

/** Dimension `dim` as several. */
export class Unflatten extends applied((x, dim: number, sizes: readonly number[]) => x.unflatten(dim, sizes)) {
  static readonly [rpcName] = 'nn.Unflatten';
}

/** Channels as pixels: [N, C r², H, W] to [N, C, H r, W r]. */
export class PixelShuffle extends applied((x, factor: number) => pixelShuffle(x, factor)) {
  static readonly [rpcName] = 'nn.PixelShuffle';
}

/** Pixels as channels: [N, C, H r, W r] to [N, C r², H, W]. */
export class PixelUnshuffle extends applied((x, factor: number) => pixelUnshuffle(x, factor)) {
  static readonly [rpcName] = 'nn.PixelUnshuffle';
}

/** The cosine of the angle between two tensors along `dim`, 1 by default. */
export class CosineSimilarity extends Setting<[dim?: number, eps?: number]> {
  static readonly [rpcName] = 'nn.CosineSimilarity';
  forward(a: Tensor, b: Tensor): Tensor {
    return ops.cosineSimilarity(a, b, ...this.given);
  }
}

/** The p-norm of the difference along the last dimension; p is 2 by default. */
export class PairwiseDistance extends Setting<[p?: number, eps?: number, keepDim?: boolean]> {
  static readonly [rpcName] = 'nn.PairwiseDistance';
  forward(a: Tensor, b: Tensor): Tensor {
    return pairwiseDistance(a, b, ...this.given);
  }
}
