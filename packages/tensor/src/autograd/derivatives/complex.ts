/** @file Derivatives of taking complex numbers apart and putting them together: dL/d re + i dL/d im, which is PyTorch's convention. */
import { ones, zeros, zerosLike } from '../../creation.ts';
import { complex as join, conj, imag, real } from '../../ops/complex-parts.ts';
import { where } from '../../ops/where.ts';
import type { DType } from '../../dtype.ts';
import type { Tensor } from '../../tensor.ts';
import type { Derivative } from '../op-node.ts';
import { linear, rule } from './rule.ts';

/** z / |z|, and 0 at 0: the slope of |z|. Of real numbers the sign. */
export function signOf(z: Tensor): Tensor {
  if (z.dtype !== 'complex64') return z.sign();
  const size = z.abs();
  const zero = size.detach().eq(0);
  return where(zero, 0, z.div(where(zero, 1, size)));
}

/** z + 1 with the imaginary part as it is: to add 0 to it makes 0 of -0, which is the other side of a branch cut. */
export function plusOne(z: Tensor): Tensor {
  return z.add(join(ones([]), zeros([]).neg()));
}

/** i z with the signs of its zeros: a product adds others to them. */
export function timesI(z: Tensor): Tensor {
  return join(imag(z).neg(), real(z));
}

export const complex: Readonly<Record<string, Derivative>> = {
  complex: linear((grad, saved) => [real(grad).to(saved.dtypes[0] as DType), imag(grad).to(saved.dtypes[1] as DType)]),
  real: linear((grad) => [join(grad, zerosLike(grad))]),
  imag: linear((grad) => [join(zerosLike(grad), grad)]),
  conj: linear((grad) => [conj(grad)]),
  angle: rule([0], (grad, saved) => {
    const z = saved.input(0);
    if (z.dtype !== 'complex64') return [zerosLike(grad)];
    const size = z.abs().square();
    const zero = size.detach().eq(0);
    const turn = join(zeros([]), zeros([]).add(1));
    return [
      where(
        zero,
        0,
        grad
          .mul(z)
          .div(where(zero, 1, size))
          .mul(turn),
      ),
    ];
  }),
};
