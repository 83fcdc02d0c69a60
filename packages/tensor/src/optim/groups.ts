/** @file Parameters in groups, each with options of its own. */
import { checkIterable, kindOf } from '../given.ts';
import { Tensor } from '../tensor.ts';

/** Parameters and the options of their updates. Options may be changed between steps: `paramGroups[0].lr = 0.01`. */
export interface ParamGroup {
  readonly params: readonly Tensor[];
  /** Learning rate. */
  lr: number;
  maximize: boolean;
  /** The optimiser's other options, by the names its constructor takes, and what a scheduler notes. */
  [option: string]: unknown;
}

/** Parameters with options of their own: those left out are the optimiser's. */
export interface GivenGroup {
  readonly params: Iterable<Tensor>;
  readonly [option: string]: unknown;
}

/** What an optimiser is made of: parameters, or groups of them. */
export type Params = Iterable<Tensor> | Iterable<GivenGroup>;

/** A group as it was given, its parameters in a list. @throws TypeError for what is none; RangeError for one without parameters. */
export function asGroup(given: unknown, i: number): GivenGroup {
  if (!isGroup(given)) throw new TypeError(`param group must be an object with params; group ${i} is ${kindOf(given)}`);
  const params: unknown = given.params;
  if (!(params instanceof Tensor)) checkIterable(params, `params of group ${i}`);
  const list = params instanceof Tensor ? [params] : [...given.params];
  if (list.length === 0) throw new RangeError(`optimizer got an empty list of parameters in group ${i}`);
  return { ...given, params: list };
}

export function isGroup(given: unknown): given is GivenGroup {
  return (
    typeof given === 'object' &&
    given !== null &&
    !(given instanceof Tensor) &&
    (given as { params?: unknown }).params !== undefined
  );
}
