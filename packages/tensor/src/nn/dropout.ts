/** @file Dropout as a module. */
import * as ops from '../ops/composite.ts';
import { rpcName } from '../named.ts';
import type { Tensor } from '../tensor.ts';
import { Module } from './module.ts';

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
