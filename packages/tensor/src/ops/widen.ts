/** @file Half precision: what takes several steps computes in float32 and rounds once at the end, as PyTorch's kernels do. */
import { isHalf } from '../precision.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import { resultDType } from './promotion.ts';

/** `fn` of `t`, which in half precision it gets as float32; the result is rounded. Other operands of `fn` promote by themselves. */
export function inFloat32(t: Tensor, fn: (t: Tensor) => Tensor): Tensor {
  return sweep(() => (isHalf(t.dtype) ? fn(t.to('float32')).to(t.dtype) : fn(t)));
}

/** `fn` of two operands in the dtype in which they meet, or in float32 where that is of half precision; then the result is rounded. */
export function inFloat32Both(a: Tensor, b: Tensor, fn: (a: Tensor, b: Tensor) => Tensor): Tensor {
  const met = resultDType(a, b);
  return sweep(() => (isHalf(met) ? fn(a.to('float32'), b.to('float32')).to(met) : fn(a.to(met), b.to(met))));
}

/** `other` widened with `t`, which became `wide`, if both had one dtype; a mixture is for the operation to refuse. */
export function alike(other: Tensor, t: Tensor, wide: Tensor): Tensor {
  return wide === t || other.dtype !== t.dtype ? other : other.to(wide.dtype);
}
