/** @file What every distribution has: a batch of parameters, samples, densities; and the checks of both. */
import { checkShape, sameShape } from '../shape.ts';
import { checkTensors } from '../ops/takes.ts';
import { checkGivenOptions, kindOf } from '../given.ts';
import { noGrad } from '../autograd/record.ts';
import { full } from '../creation.ts';
import { ShapeError } from '../errors.ts';
import { broadcastTensors } from '../ops/arrange.ts';
import { checkOptionNames } from '../option-names.ts';
import { EPSILON } from '../precision.ts';
import { Tensor } from '../tensor.ts';

/** A parameter: one number, or a tensor of them. */
export type Param = number | Tensor;

/** Whether a distribution checks what it is given. */
export interface DistributionOptions {
  /** Whether parameters and values are looked at. @default true */
  validateArgs?: boolean;
}

const OPTIONS: ReadonlySet<string> = new Set(['validateArgs']);

/**
 * A distribution of torch.distributions: parameters of the shape `batchShape`, which broadcast against each other, and samples of the
 * shape [...sampleShape, ...batchShape, ...eventShape]. Samples follow `manualSeed`, so that their numbers are not PyTorch's.
 */
export abstract class Distribution {
  readonly batchShape: readonly number[];
  readonly eventShape: readonly number[];
  protected readonly validates: boolean;

  constructor(batchShape: readonly number[], eventShape: readonly number[], options: DistributionOptions = {}) {
    checkGivenOptions(`distributions.${new.target.name}`, options);
    this.batchShape = batchShape;
    this.eventShape = eventShape;
    this.validates = options.validateArgs ?? true;
  }

  abstract get mean(): Tensor;
  abstract get variance(): Tensor;
  get stddev(): Tensor {
    return this.variance.sqrt();
  }

  /** Draws `shape` samples of each of the batch, without gradients. */
  sample(shape: readonly number[] = []): Tensor {
    return noGrad(() => this.rsample(shape).detach());
  }

  /** As `sample`, with gradients for the parameters (Kingma & Welling 2014). @throws TypeError where a distribution has none. */
  rsample(_shape: readonly number[] = []): Tensor {
    throw new TypeError(`${this.constructor.name} has no rsample: samples of it have no gradient`);
  }

  /** The logarithm of the density, or of the probability, of `value`: one number for each event. */
  abstract logProb(value: Tensor): Tensor;

  /** In nats, [...batchShape]. */
  abstract entropy(): Tensor;

  /** The shape of samples. */
  protected extended(shape: readonly number[]): number[] {
    checkShape(shape);
    return [...shape, ...this.batchShape, ...this.eventShape];
  }

  /** Throws RangeError where a parameter is outside of what the distribution allows. */
  protected checkParam(name: string, constraint: string, inside: () => Tensor): void {
    if (this.validates && !holds(inside))
      throw new RangeError(
        `Expected parameter ${name} of distribution ${this.constructor.name} to satisfy the constraint ${constraint}, but found invalid values`,
      );
  }

  /** Throws where a value is outside of the support, or does not broadcast with the batch. */
  protected checkValue(value: Tensor, support: string, inside: () => Tensor): void {
    checkTensors(`${this.constructor.name}.logProb`, [value]);
    if (!this.validates) return;
    const event = this.eventShape.length;
    if (event > 0 && !sameShape(value.shape.slice(-event), this.eventShape))
      throw new ShapeError(
        `The right-most size of value must match event_shape: [${value.shape.join(', ')}] vs [${this.eventShape.join(', ')}].`,
      );
    const own = this.extended([]);
    for (let d = 1; d <= Math.min(own.length, value.rank); d++) {
      const [mine, given] = [own.at(-d) as number, value.shape.at(-d) as number];
      if (mine !== given && mine !== 1 && given !== 1)
        throw new ShapeError(
          `Value is not broadcastable with batch_shape+event_shape: [${value.shape.join(', ')}] vs [${own.join(', ')}].`,
        );
    }
    if (!holds(inside))
      throw new RangeError(
        `Expected value argument to be within the support (${support}) of the distribution ${this.constructor.name}, but found invalid values`,
      );
  }
}

/** Whether all elements are true. */
function holds(inside: () => Tensor): boolean {
  return noGrad(() => Boolean(inside().all().item()));
}

/** Parameters as tensors of one shape; numbers get the dtype of the tensors, float32 where there are none. */
export function together(...params: Param[]): Tensor[] {
  for (const one of params)
    if (typeof one !== 'number' && !(one instanceof Tensor))
      throw new TypeError(`a parameter of a distribution is a number or a Tensor, got ${kindOf(one)}`);
  const dtype = params.find((one) => one instanceof Tensor)?.dtype ?? 'float32';
  return broadcastTensors(params.map((one) => (one instanceof Tensor ? one : full([], one, { dtype }))));
}

/** Options of a distribution that is given by probabilities or by their logits. */
export interface Odds extends DistributionOptions {
  probs?: Param;
  logits?: Param;
}

const ODDS: ReadonlySet<string> = new Set([...OPTIONS, 'probs', 'logits']);

/** The one that is given. */
export function oddsOf(name: string, given: Odds): { readonly of: 'probs' | 'logits'; readonly value: Tensor } {
  checkOptionNames(given, ODDS, `distributions.${name}`);
  checkGivenOptions(`distributions.${name}`, given);
  const { probs, logits } = given;
  if ((probs === undefined) === (logits === undefined))
    throw new TypeError('Either `probs` or `logits` must be specified, but not both.');
  const [value] = together((probs ?? logits) as Param) as [Tensor];
  return { of: probs === undefined ? 'logits' : 'probs', value };
}

/** Away from 0 and 1 by as much as the dtype can tell. */
export function clampProbs(probs: Tensor): Tensor {
  const eps = EPSILON[probs.dtype] ?? 0;
  return probs.clamp(eps, 1 - eps);
}

export function checkOptions(options: DistributionOptions, name: string): void {
  checkOptionNames(options, OPTIONS, `distributions.${name}`);
}
