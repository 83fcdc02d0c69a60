/** @file Layers around single operations: activations, Flatten, Dropout. */
import * as ops from '../ops/composite.ts';
import { rpcName } from '../named.ts';
import type { Tensor } from '../tensor.ts';
import { checkOptionNames } from '../option-names.ts';
import { Module } from './module.ts';

/** max(x, 0). */
export class ReLU extends Module {
  static readonly [rpcName] = 'nn.ReLU';
  forward(x: Tensor): Tensor {
    return x.relu();
  }
}

/** x above zero, slope x below. */
export class LeakyReLU extends Module {
  static readonly [rpcName] = 'nn.LeakyReLU';
  private readonly slope: number;
  constructor(slope = 0.01) {
    super();
    this.slope = slope;
  }
  forward(x: Tensor): Tensor {
    return x.leakyRelu(this.slope);
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

export class SiLU extends Module {
  static readonly [rpcName] = 'nn.SiLU';
  forward(x: Tensor): Tensor {
    return x.silu();
  }
}

/** Softmax along `dim`. */
export class Softmax extends Module {
  static readonly [rpcName] = 'nn.Softmax';
  private readonly dim: number;
  constructor(dim: number) {
    super();
    this.dim = dim;
  }
  forward(x: Tensor): Tensor {
    return x.softmax(this.dim);
  }
}

/** log(softmax) along `dim`. */
export class LogSoftmax extends Module {
  static readonly [rpcName] = 'nn.LogSoftmax';
  private readonly dim: number;
  constructor(dim: number) {
    super();
    this.dim = dim;
  }
  forward(x: Tensor): Tensor {
    return x.logSoftmax(this.dim);
  }
}

/** Dimensions `startDim` to `endDim` as one; by default all but the batch. */
export class Flatten extends Module {
  static readonly [rpcName] = 'nn.Flatten';
  private readonly range: readonly [number, number];
  constructor(startDim = 1, endDim = -1) {
    super();
    this.range = [startDim, endDim];
  }
  forward(x: Tensor): Tensor {
    return x.flatten(...this.range);
  }
}

/** Zeroes elements with probability `p` while training. */
export class Dropout extends Module {
  static readonly [rpcName] = 'nn.Dropout';
  private readonly p: number;
  /** @throws RangeError unless `p` is from 0 to 1. */
  constructor(p = 0.5) {
    super();
    if (!(p >= 0 && p <= 1)) throw new RangeError(`dropout probability has to be between 0 and 1, but got ${p}`);
    this.p = p;
  }
  forward(x: Tensor): Tensor {
    return ops.dropout(x, this.p, this.training);
  }
}
