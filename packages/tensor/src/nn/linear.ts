/** @file Linear: an affine map of the last dimension. */
import { checkMade } from '../arguments.ts';
import { ShapeError } from '../errors.ts';
import { linear } from '../ops/composite.ts';
import { unfit } from '../ops/unfit.ts';
import { rpcName } from '../named.ts';
import { Tensor, type Parameter } from '../tensor.ts';
import { uniformParameter } from './init.ts';
import { Module } from './module.ts';
import { checkOptionNames } from '../option-names.ts';

const OPTIONS: ReadonlySet<string> = new Set(['bias']);

/**
 * `y = x·Wᵀ + b` over the last dimension: x [..., inFeatures] → y [..., outFeatures].
 * @example
 * ```ts
 * const layer = new nn.Linear(3, 2);
 * console.log(layer.weight.shape, layer.forward(ones([5, 3])).shape); // [ 2, 3 ] [ 5, 2 ]
 * ```
 */
export class Linear extends Module {
  static readonly [rpcName] = 'nn.Linear';
  /** [outFeatures, inFeatures]; starts uniform in ±1/√inFeatures, as in PyTorch. */
  readonly weight: Parameter;
  /** [outFeatures], or null without a bias. */
  readonly bias: Parameter | null;

  constructor(inFeatures: number, outFeatures: number, options: { bias?: boolean } = {}) {
    super();
    checkOptionNames(options, OPTIONS, 'nn.Linear');
    checkMade(new.target, [inFeatures, outFeatures, options]);
    const bound = inFeatures > 0 ? 1 / Math.sqrt(inFeatures) : 0;
    this.weight = uniformParameter([outFeatures, inFeatures], bound);
    this.bias = options.bias === false ? null : uniformParameter([outFeatures], bound);
  }

  forward(x: Tensor): Tensor {
    const [out, width] = this.weight.shape;
    if (x instanceof Tensor && x.shape.at(-1) !== width)
      throw new ShapeError(`nn.Linear(${width}, ${out}) takes ${unfit(x, this.weight)}`);
    return linear(x, this.weight, this.bias);
  }
}
