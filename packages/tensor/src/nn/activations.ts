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
export class Sigmoid extends Module {
  static readonly [rpcName] = 'nn.Sigmoid';
  forward(x: Tensor): Tensor {
    return x.sigmoid();
  }
}
export class Tanh extends Module {
  static readonly [rpcName] = 'nn.Tanh';
  forward(x: Tensor): Tensor {
    return x.tanh();
  }
}
export class SiLU extends Module {
  static readonly [rpcName] = 'nn.SiLU';
  forward(x: Tensor): Tensor {
    return x.silu();
  }
}

const GELU_OPTIONS: ReadonlySet<string> = new Set(['approximate']);

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

export class ELU extends Setting<[alpha?: number]> {
  static readonly [rpcName] = 'nn.ELU';
  forward(x: Tensor): Tensor {
    return x.elu(...this.given);
  }
}
export class SELU extends Module {
  static readonly [rpcName] = 'nn.SELU';
  forward(x: Tensor): Tensor {
    return x.selu();
  }
}
export class CELU extends Setting<[alpha?: number]> {
  static readonly [rpcName] = 'nn.CELU';
  forward(x: Tensor): Tensor {
    return composed.celu(x, ...this.given);
  }
}
export class GLU extends Setting<[dim?: number]> {
  static readonly [rpcName] = 'nn.GLU';
  forward(x: Tensor): Tensor {
    return composed.glu(x, ...this.given);
  }
}
export class Mish extends Module {
  static readonly [rpcName] = 'nn.Mish';
  forward(x: Tensor): Tensor {
    return x.mish();
  }
}
export class ReLU6 extends Module {
  static readonly [rpcName] = 'nn.ReLU6';
  forward(x: Tensor): Tensor {
    return x.relu6();
  }
}
export class Hardtanh extends Setting<[low?: number, high?: number]> {
  static readonly [rpcName] = 'nn.Hardtanh';
  forward(x: Tensor): Tensor {
    return x.hardtanh(...this.given);
  }
}
export class Hardsigmoid extends Module {
  static readonly [rpcName] = 'nn.Hardsigmoid';
  forward(x: Tensor): Tensor {
    return x.hardSigmoid();
  }
}
export class Hardswish extends Module {
  static readonly [rpcName] = 'nn.Hardswish';
  forward(x: Tensor): Tensor {
    return x.hardSwish();
  }
}
export class Hardshrink extends Setting<[lambda?: number]> {
  static readonly [rpcName] = 'nn.Hardshrink';
  forward(x: Tensor): Tensor {
    return composed.hardshrink(x, ...this.given);
  }
}
export class Softshrink extends Setting<[lambda?: number]> {
  static readonly [rpcName] = 'nn.Softshrink';
  forward(x: Tensor): Tensor {
    return composed.softshrink(x, ...this.given);
  }
}
export class Tanhshrink extends Module {
  static readonly [rpcName] = 'nn.Tanhshrink';
  forward(x: Tensor): Tensor {
    return composed.tanhshrink(x);
  }
}
export class Threshold extends Setting<[at: number, value: number]> {
  static readonly [rpcName] = 'nn.Threshold';
  forward(x: Tensor): Tensor {
    return composed.threshold(x, ...this.given);
  }
}
export class Softmin extends Setting<[dim: number]> {
  static readonly [rpcName] = 'nn.Softmin';
  forward(x: Tensor): Tensor {
    return composed.softmin(x, ...this.given);
  }
}
export class Softsign extends Module {
  static readonly [rpcName] = 'nn.Softsign';
  forward(x: Tensor): Tensor {
    return x.softsign();
  }
}
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
export class PixelShuffle extends Setting<[factor: number]> {
  static readonly [rpcName] = 'nn.PixelShuffle';
  forward(x: Tensor): Tensor {
    return pixelShuffle(x, ...this.given);
  }
}
export class PixelUnshuffle extends Setting<[factor: number]> {
  static readonly [rpcName] = 'nn.PixelUnshuffle';
  forward(x: Tensor): Tensor {
    return pixelUnshuffle(x, ...this.given);
  }
}
export class CosineSimilarity extends Setting<[dim?: number, eps?: number]> {
  static readonly [rpcName] = 'nn.CosineSimilarity';
  forward(a: Tensor, b: Tensor): Tensor {
    return ops.cosineSimilarity(a, b, ...this.given);
  }
}
export class PairwiseDistance extends Setting<[p?: number, eps?: number, keepDim?: boolean]> {
  static readonly [rpcName] = 'nn.PairwiseDistance';
  forward(a: Tensor, b: Tensor): Tensor {
    return pairwiseDistance(a, b, ...this.given);
  }
}
