/** @file Half precision: what takes several steps computes in float32 and rounds once at the end, as PyTorch's kernels do. */
import type { DType } from '../dtype.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';

export function isHalf(dtype: DType): boolean {
  return dtype === 'float16' || dtype === 'bfloat16';
}

/** `fn` of `t`; in half precision of `t` as float32, the result rounded. Other operands of `fn` promote by themselves. */
export function inFloat32(t: Tensor, fn: (t: Tensor) => Tensor): Tensor {
  return sweep(() => (isHalf(t.dtype) ? fn(t.to('float32')).to(t.dtype) : fn(t)));
}
