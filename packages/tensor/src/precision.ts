/** @file Half precision, which is computed in float32. */
import type { DType } from './dtype.ts';
import type { Tensor } from './tensor.ts';

export function isHalf(dtype: DType): boolean {
  return dtype === 'float16' || dtype === 'bfloat16';
}

/** Half precision as float32, all else as it is. */
export function toFloat32(t: Tensor): Tensor {
  return isHalf(t.dtype) ? t.to('float32') : t;
}
