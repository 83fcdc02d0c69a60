/** @file Activations and other functions of their input alone as modules: `nn.ELU` and so on. */
import { full } from '../creation.ts';
import { rpcName } from '../named.ts';
import * as activations from '../ops/activations.ts';
import * as ops from '../ops/composite.ts';
import * as composed from '../ops/composed-activations.ts';
import { pairwiseDistance } from '../ops/margin-losses.ts';
import { pixelShuffle, pixelUnshuffle } from '../ops/pixel-shuffle.ts';
import { checkOptionNames } from '../option-names.ts';
import { Parameter, type Tensor } from '../tensor.ts';
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

/** A function with numbers that are set when it is made. */
abstract class Setting<A extends readonly unknown[]> extends Module {
  protected readonly given: A;
  constructor(...given: A) {
    super();
    this.given = given;
  }
}

/** max(x, 0). */
export class ReLU extends Module {
  static readonly [rpcName] = 'nn.ReLU';
  forward(x: Tensor): Tensor {
    return x.relu();
  }
}

/** x above zero, slope x below; 0.01 by default. */
export class LeakyReLU extends Setting<[slope?: number]> {
  static readonly [rpcName] = 'nn.LeakyReLU';
  forward(x: Tensor): Tensor {
    return x.leakyRelu(...this.given);
  }
}

/** 1 / (1 + exp(-x)). */
export class Sigmoid extends Module {
  static readonly [rpcName] = 'nn.Sigmoid';
  forward(x: Tensor): Tensor {
    return x.sigmoid();
  }
}

/** The hyperbolic tangent. */
export class Tanh extends Module {
  static readonly [rpcName] = 'nn.Tanh';
  forward(x: Tensor): Tensor {
    return x.tanh();
  }
}

/** x sigmoid(x). */
export class SiLU extends Module {
  static readonly [rpcName] = 'nn.SiLU';
  forward(x: Tensor): Tensor {
    return x.silu();
  }
}

const GELU_OPTIONS: ReadonlySet<string> = new Set(['approximate']);

/** x times the normal distribution function of x; with `tanh` its approximation. */
export class GELU extends Module {
  static readonly [rpcName] = 'nn.GELU';
  private readonly approximate: 'none' | 'tanh';
  constructor(options: { approximate?: 'none' | 'tanh' } = {}) {
    super();
    checkOptionNames(options, GELU_OPTIONS, 'nn.GELU');
    this.approximate = options.approximate ?? 'none';
  }
  forward(x: Tensor): Tensor {
    return x.gelu(this.approximate);
  }
}

/** Softmax along `dim`. */
export class Softmax extends Setting<[dim: number]> {
  static readonly [rpcName] = 'nn.Softmax';
  forward(x: Tensor): Tensor {
    return x.softmax(...this.given);
  }
}

/** log(softmax) along `dim`. */
export class LogSoftmax extends Setting<[dim: number]> {
  static readonly [rpcName] = 'nn.LogSoftmax';
  forward(x: Tensor): Tensor {
    return x.logSoftmax(...this.given);
  }
}

/** x above zero, alpha (exp(x) - 1) below; alpha is 1 by default. */
export class ELU extends Setting<[alpha?: number]> {
  static readonly [rpcName] = 'nn.ELU';
  forward(x: Tensor): Tensor {
    return x.elu(...this.given);
  }
}

/** ELU with the alpha and the scale that keep the variance of a layer. */
export class SELU extends Module {
  static readonly [rpcName] = 'nn.SELU';
  forward(x: Tensor): Tensor {
    return x.selu();
  }
}

/** x above zero, alpha (exp(x / alpha) - 1) below; alpha is 1 by default. */
export class CELU extends Setting<[alpha?: number]> {
  static readonly [rpcName] = 'nn.CELU';
  forward(x: Tensor): Tensor {
    return composed.celu(x, ...this.given);
  }
}

/** The first half along `dim` times the sigmoid of the second. */
export class GLU extends Setting<[dim?: number]> {
  static readonly [rpcName] = 'nn.GLU';
  forward(x: Tensor): Tensor {
    return composed.glu(x, ...this.given);
  }
}

/** x tanh(softplus(x)). */
export class Mish extends Module {
  static readonly [rpcName] = 'nn.Mish';
  forward(x: Tensor): Tensor {
    return x.mish();
  }
}

/** x between 0 and 6, and those bounds beyond them. */
export class ReLU6 extends Module {
  static readonly [rpcName] = 'nn.ReLU6';
  forward(x: Tensor): Tensor {
    return x.relu6();
  }
}

/** x between two bounds, -1 and 1 by default, and those bounds beyond them. */
export class Hardtanh extends Setting<[low?: number, high?: number]> {
  static readonly [rpcName] = 'nn.Hardtanh';
  forward(x: Tensor): Tensor {
    return x.hardtanh(...this.given);
  }
}

/** x / 6 + 1/2 between 0 and 1. */
export class Hardsigmoid extends Module {
  static readonly [rpcName] = 'nn.Hardsigmoid';
  forward(x: Tensor): Tensor {
    return x.hardSigmoid();
  }
}

/** x hardSigmoid(x). */
export class Hardswish extends Module {
  static readonly [rpcName] = 'nn.Hardswish';
  forward(x: Tensor): Tensor {
    return x.hardSwish();
  }
}

/** x where its size is above lambda, which is 0.5 by default; else 0. */
export class Hardshrink extends Setting<[lambda?: number]> {
  static readonly [rpcName] = 'nn.Hardshrink';
  forward(x: Tensor): Tensor {
    return composed.hardshrink(x, ...this.given);
  }
}

/** x nearer to zero by lambda, which is 0.5 by default; 0 where it is within lambda of zero. */
export class Softshrink extends Setting<[lambda?: number]> {
  static readonly [rpcName] = 'nn.Softshrink';
  forward(x: Tensor): Tensor {
    return composed.softshrink(x, ...this.given);
  }
}

/** x - tanh(x). */
export class Tanhshrink extends Module {
  static readonly [rpcName] = 'nn.Tanhshrink';
  forward(x: Tensor): Tensor {
    return composed.tanhshrink(x);
  }
}

/** x where it is above `at`, else `value`. */
export class Threshold extends Setting<[at: number, value: number]> {
  static readonly [rpcName] = 'nn.Threshold';
  forward(x: Tensor): Tensor {
    return composed.threshold(x, ...this.given);
  }
}

/** Softmax of -x along `dim`. */
export class Softmin extends Setting<[dim: number]> {
  static readonly [rpcName] = 'nn.Softmin';
  forward(x: Tensor): Tensor {
    return composed.softmin(x, ...this.given);
  }
}

/** x / (1 + |x|). */
export class Softsign extends Module {
  static readonly [rpcName] = 'nn.Softsign';
  forward(x: Tensor): Tensor {
    return x.softsign();
  }
}

/** log(sigmoid(x)). */
export class LogSigmoid extends Module {
  static readonly [rpcName] = 'nn.LogSigmoid';
  forward(x: Tensor): Tensor {
    return x.logSigmoid();
  }
}

/** log(1 + exp(beta x)) / beta, linear where beta x is above `threshold`. */
export class Softplus extends Setting<[beta?: number, threshold?: number]> {
  static readonly [rpcName] = 'nn.Softplus';
  forward(x: Tensor): Tensor {
    return activations.softplusWith(x, ...this.given);
  }
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
    this.weight = new Parameter(full([options.numParameters ?? 1], options.init ?? 0.25));
  }
  forward(x: Tensor): Tensor {
    return activations.prelu(x, this.weight);
  }
}

/** Dimensions `startDim` to `endDim` as one; by default all but the batch. */
export class Flatten extends Setting<[startDim: number, endDim: number]> {
  static readonly [rpcName] = 'nn.Flatten';
  constructor(startDim = 1, endDim = -1) {
    super(startDim, endDim);
  }
  forward(x: Tensor): Tensor {
    return x.flatten(...this.given);
  }
}

/** Dimension `dim` as several. */
export class Unflatten extends Setting<[dim: number, sizes: readonly number[]]> {
  static readonly [rpcName] = 'nn.Unflatten';
  forward(x: Tensor): Tensor {
    return x.unflatten(...this.given);
  }
}

/** Channels as pixels: [N, C r², H, W] to [N, C, H r, W r]. */
export class PixelShuffle extends Setting<[factor: number]> {
  static readonly [rpcName] = 'nn.PixelShuffle';
  forward(x: Tensor): Tensor {
    return pixelShuffle(x, ...this.given);
  }
}

/** Pixels as channels: [N, C, H r, W r] to [N, C r², H, W]. */
export class PixelUnshuffle extends Setting<[factor: number]> {
  static readonly [rpcName] = 'nn.PixelUnshuffle';
  forward(x: Tensor): Tensor {
    return pixelUnshuffle(x, ...this.given);
  }
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
