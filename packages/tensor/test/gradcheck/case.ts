/** @file A case of the gradchecks. */
import type { Tensor } from '../../src/index.ts';

/** A function of tensors, and the shapes that it is given. */
export type Case = [name: string, fn: (...t: Tensor[]) => Tensor, ...shapes: number[][]];
