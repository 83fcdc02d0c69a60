/** @file Layers that make signals, images and volumes larger. */
import { checkGivenOptions } from '../given.ts';
import { checkMade } from '../arguments.ts';
import { rpcName } from '../named.ts';
import { INTERPOLATE_OPTIONS, interpolate, type InterpolateOptions } from '../ops/interpolate.ts';
import { checkOptionNames } from '../option-names.ts';
import type { Tensor } from '../tensor.ts';
import { Module } from './module.ts';

/** `interpolate` with the same options each time. */
export class Upsample extends Module {
  static readonly [rpcName]: string = 'nn.Upsample';
  private readonly options: InterpolateOptions;
  constructor(options: InterpolateOptions) {
    super();
    checkOptionNames(options, INTERPOLATE_OPTIONS, 'nn.Upsample');
    checkMade(new.target, [options]);
    this.options = { ...options };
  }
  forward(x: Tensor): Tensor {
    return interpolate(x, this.options);
  }
}

type SizeOnly = Pick<InterpolateOptions, 'size' | 'scaleFactor'>;
const SIZE: ReadonlySet<string> = new Set(['size', 'scaleFactor']);

/** Images made larger by repeating elements. */
export class UpsamplingNearest2d extends Upsample {
  static override readonly [rpcName] = 'nn.UpsamplingNearest2d';
  constructor(options: SizeOnly) {
    checkOptionNames(options, SIZE, 'nn.UpsamplingNearest2d');
    checkGivenOptions('nn.UpsamplingNearest2d', options);
    super({ ...options, mode: 'nearest' });
  }
}

/** Images made larger by lines between elements, whose corners stay. */
export class UpsamplingBilinear2d extends Upsample {
  static override readonly [rpcName] = 'nn.UpsamplingBilinear2d';
  constructor(options: SizeOnly) {
    checkOptionNames(options, SIZE, 'nn.UpsamplingBilinear2d');
    checkGivenOptions('nn.UpsamplingBilinear2d', options);
    super({ ...options, mode: 'bilinear', alignCorners: true });
  }
}
