/** @file Padding of the last one to three dimensions as modules: with a number, mirrored, repeated, or from the other end. */
import { checkMade } from '../arguments.ts';
import { rpcName } from '../named.ts';
import type { PadMode } from '../ops/pad-modes.ts';
import { pad } from '../ops/structure.ts';
import type { Tensor } from '../tensor.ts';
import { Module } from './module.ts';
import { SETTINGS, type Settings } from './printing.ts';

/** How many elements on every side, or pairs [before, after] from the last dimension backwards; negative ones crop. */
export type Padding = number | readonly number[];

abstract class Pad extends Module {
  private readonly padding: readonly number[];
  private readonly filled: number | PadMode;

  constructor(dims: number, padding: Padding, filled: number | PadMode) {
    checkMade(new.target, [padding, filled]);
    super();
    const pads = typeof padding === 'number' ? Array<number>(2 * dims).fill(padding) : [...padding];
    if (pads.length !== 2 * dims || !pads.every(Number.isInteger))
      throw new RangeError(
        `${this.constructor.name} takes a whole number or ${2 * dims} of them, but got [${pads.join(', ')}]`,
      );
    this.padding = pads;
    this.filled = filled;
  }

  override [SETTINGS](): Settings {
    return [
      ['padding', this.padding],
      ['value', typeof this.filled === 'number' ? this.filled : undefined],
    ];
  }

  /** [N, C, …] or [C, …] with as many dimensions of its size behind; with a number any that has as many dimensions. */
  forward(x: Tensor): Tensor {
    return pad(x, this.padding, this.filled);
  }
}

/** Pads a dimension with a number. */
export class ConstantPad1d extends Pad {
  static readonly [rpcName] = 'nn.ConstantPad1d';
  constructor(padding: Padding, value: number) {
    super(1, padding, value);
  }
}

/** Pads two dimensions with a number. */
export class ConstantPad2d extends Pad {
  static readonly [rpcName] = 'nn.ConstantPad2d';
  constructor(padding: Padding, value: number) {
    super(2, padding, value);
  }
}

/** Pads three dimensions with a number. */
export class ConstantPad3d extends Pad {
  static readonly [rpcName] = 'nn.ConstantPad3d';
  constructor(padding: Padding, value: number) {
    super(3, padding, value);
  }
}

/** Pads a dimension with zeros. */
export class ZeroPad1d extends Pad {
  static readonly [rpcName] = 'nn.ZeroPad1d';
  constructor(padding: Padding) {
    super(1, padding, 0);
  }
}

/** Pads two dimensions with zeros. */
export class ZeroPad2d extends Pad {
  static readonly [rpcName] = 'nn.ZeroPad2d';
  constructor(padding: Padding) {
    super(2, padding, 0);
  }
}

/** Pads three dimensions with zeros. */
export class ZeroPad3d extends Pad {
  static readonly [rpcName] = 'nn.ZeroPad3d';
  constructor(padding: Padding) {
    super(3, padding, 0);
  }
}

/** Pads a dimension with the mirror image without the edge. */
export class ReflectionPad1d extends Pad {
  static readonly [rpcName] = 'nn.ReflectionPad1d';
  constructor(padding: Padding) {
    super(1, padding, 'reflect');
  }
}

/** Pads two dimensions with the mirror image without the edge. */
export class ReflectionPad2d extends Pad {
  static readonly [rpcName] = 'nn.ReflectionPad2d';
  constructor(padding: Padding) {
    super(2, padding, 'reflect');
  }
}

/** Pads three dimensions with the mirror image without the edge. */
export class ReflectionPad3d extends Pad {
  static readonly [rpcName] = 'nn.ReflectionPad3d';
  constructor(padding: Padding) {
    super(3, padding, 'reflect');
  }
}

/** Pads a dimension with the edge again and again. */
export class ReplicationPad1d extends Pad {
  static readonly [rpcName] = 'nn.ReplicationPad1d';
  constructor(padding: Padding) {
    super(1, padding, 'replicate');
  }
}

/** Pads two dimensions with the edge again and again. */
export class ReplicationPad2d extends Pad {
  static readonly [rpcName] = 'nn.ReplicationPad2d';
  constructor(padding: Padding) {
    super(2, padding, 'replicate');
  }
}

/** Pads three dimensions with the edge again and again. */
export class ReplicationPad3d extends Pad {
  static readonly [rpcName] = 'nn.ReplicationPad3d';
  constructor(padding: Padding) {
    super(3, padding, 'replicate');
  }
}

/** Pads a dimension with the other end. */
export class CircularPad1d extends Pad {
  static readonly [rpcName] = 'nn.CircularPad1d';
  constructor(padding: Padding) {
    super(1, padding, 'circular');
  }
}

/** Pads two dimensions with the other end. */
export class CircularPad2d extends Pad {
  static readonly [rpcName] = 'nn.CircularPad2d';
  constructor(padding: Padding) {
    super(2, padding, 'circular');
  }
}

/** Pads three dimensions with the other end. */
export class CircularPad3d extends Pad {
  static readonly [rpcName] = 'nn.CircularPad3d';
  constructor(padding: Padding) {
    super(3, padding, 'circular');
  }
}
