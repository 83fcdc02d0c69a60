/** @file Fresh parameters, drawn from the default generator. */
import { rand, randn } from '../random.ts';
import { Parameter } from '../tensor.ts';

/** A parameter drawn uniformly from [-bound, bound). */
export function uniformParameter(shape: readonly number[], bound: number): Parameter {
  return new Parameter(
    rand(shape)
      .mul(2 * bound)
      .sub(bound),
  );
}

/** A parameter drawn from the standard normal distribution. */
export function normalParameter(shape: readonly number[]): Parameter {
  return new Parameter(randn(shape));
}
