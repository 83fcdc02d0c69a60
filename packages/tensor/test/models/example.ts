/** @file What the models have in common: weights and data that both libraries start from, and steps that answer their loss. */
import type { nn, Tensor } from '../../src/index.ts';

/** A model that is trained: `step` trains once more and answers the loss before. */
interface Example {
  readonly model: nn.Module;
  readonly step: (i: number) => Tensor;
}

/** Makes an example of the data that it is trained with, by their names. */
export type MakeExample = (data: (name: string) => Tensor) => Example;
