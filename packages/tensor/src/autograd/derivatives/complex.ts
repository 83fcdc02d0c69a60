/** @file Derivatives of taking complex numbers apart and putting them together. */
import { zerosLike } from '../../creation.ts';
import { complex as join, imag, real } from '../../ops/complex-parts.ts';
import type { DType } from '../../dtype.ts';
import type { Derivative } from '../op-node.ts';

export const complex: Readonly<Record<string, Derivative>> = {
  complex: {
    save: [],
    backward: (grad, saved) => [real(grad).to(saved.dtypes[0] as DType), imag(grad).to(saved.dtypes[1] as DType)],
  },
  real: { save: [], backward: (grad) => [join(grad, zerosLike(grad))] },
  imag: { save: [], backward: (grad) => [join(zerosLike(grad), grad)] },
};
