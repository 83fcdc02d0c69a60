/** @file What the checker has to know of dtypes: how far apart their numbers lie, and how to read them. */
import { fromBytes, type DType } from '../src/index.ts';

export const FLOATS = ['float32', 'float64', 'float16', 'bfloat16'] as const satisfies readonly DType[];
export const INTEGERS = ['int64', 'int32', 'int16', 'int8', 'uint8'] as const satisfies readonly DType[];
export const DTYPES: readonly DType[] = [...FLOATS, ...INTEGERS, 'bool', 'complex64'];

/** The distance from 1 to the next number; 0 for dtypes that are exact. */
export const EPSILON: Readonly<Record<DType, number>> = {
  float32: 2 ** -23,
  float64: 2 ** -52,
  float16: 2 ** -10,
  bfloat16: 2 ** -7,
  complex64: 2 ** -23,
  ...{ int64: 0, int32: 0, int16: 0, int8: 0, uint8: 0, bool: 0 },
};

/** The smallest number that is held with all digits. */
export const SMALLEST: Readonly<Record<DType, number>> = {
  float32: 2 ** -126,
  float64: 2 ** -1022,
  float16: 2 ** -14,
  bfloat16: 2 ** -126,
  complex64: 2 ** -126,
  ...{ int64: 0, int32: 0, int16: 0, int8: 0, uint8: 0, bool: 0 },
};

export function isDifferentiable(dtype: DType): boolean {
  return EPSILON[dtype] > 0;
}

/** Stored elements as numbers, complex ones as pairs; of int64 the bigints. */
export function elements(data: Uint8Array, dtype: DType): ArrayLike<number> | BigInt64Array {
  // Not slice: that of a Buffer shares its memory.
  const copy = new Uint8Array(data);
  switch (dtype) {
    case 'int64':
      return new BigInt64Array(copy.buffer);
    case 'float32':
    case 'complex64':
      return new Float32Array(copy.buffer);
    case 'float64':
      return new Float64Array(copy.buffer);
    case 'float16':
    case 'bfloat16':
      return fromBytes(copy, [copy.length / 2], dtype)
        .to('float32')
        .dataSync();
    case 'int32':
      return new Int32Array(copy.buffer);
    case 'int16':
      return new Int16Array(copy.buffer);
    case 'int8':
      return new Int8Array(copy.buffer);
    default:
      return copy;
  }
}
