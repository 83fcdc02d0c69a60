/** @file What floating dtypes can tell apart, and half precision, which is computed in float32. */
import type { DType } from './dtype.ts';
import type { Tensor } from './tensor.ts';

export function isHalf(dtype: DType): boolean {
  return dtype === 'float16' || dtype === 'bfloat16';
}

/** Half precision as float32, all else as it is. */
export function toFloat32(t: Tensor): Tensor {
  return isHalf(t.dtype) ? t.to('float32') : t;
}

/** From 1 to the next number. */
export const EPSILON: Readonly<Partial<Record<DType, number>>> = {
  float16: 2 ** -10,
  bfloat16: 2 ** -7,
  float32: 2 ** -23,
  float64: 2 ** -52,
};
