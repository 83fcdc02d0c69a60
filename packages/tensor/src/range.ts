/** @file Refuses numbers that a dtype has no place for, naming them. */
import { dtypes, type DType } from './dtype.ts';

const BOUNDS: Readonly<Partial<Record<DType, readonly [low: number, high: number]>>> = {
  // Negative bytes wrap, as in PyTorch: -1 is 255.
  uint8: [-255, 255],
  int8: [-128, 127],
  int16: [-32_768, 32_767],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  // The largest double below 2^63.
  int64: [-(2 ** 63), 2 ** 63 - 1024],
};
const FLOAT32_MAX = 3.4028234663852886e38;

/** @throws RangeError for an integer dtype and a number outside its range, NaN or infinite. Fractions are cut off within the range. */
export function checkElement(value: number, dtype: DType): void {
  const bounds = BOUNDS[dtype];
  if (bounds === undefined) return;
  // Only whole numbers wrap.
  const low = dtype === 'uint8' && !Number.isInteger(value) ? 0 : bounds[0];
  if (!(value >= low && value <= bounds[1])) throw overflow(value, dtype);
}

/** As `checkElement`, and for float32 also a finite number that only float64 holds: for single values that fill tensors. */
export function checkFill(value: number, dtype: DType): void {
  if (dtype === 'float32' && Number.isFinite(value) && Math.abs(value) > FLOAT32_MAX) throw overflow(value, dtype);
  checkElement(value, dtype);
}

/**
 * What elements of `dtype` are multiplied by, 1 where nothing is given: for integers whole, its fraction cut off, as in PyTorch.
 * @throws RangeError as `checkElement` does.
 */
export function factorFor(given: number | undefined, dtype: DType): number {
  if (given === undefined) return 1;
  if (!isBounded(dtype)) return given;
  checkElement(given, dtype);
  return Math.trunc(given);
}

/** As `checkFill`, for a number that PyTorch takes as a double, of which no negative one wraps. */
export function checkDouble(value: number, dtype: DType): void {
  if (dtype === 'uint8' && value < 0) throw overflow(value, dtype);
  checkFill(value, dtype);
}

/** @throws RangeError for a number outside 64 bits. */
export function checkInt64(value: bigint): void {
  if (BigInt.asIntN(64, value) !== value) throw overflow(value, 'int64');
}

/** Whether elements of this dtype can be out of range. */
export function isBounded(dtype: DType): boolean {
  return dtypes[dtype].kind === 'int';
}

function overflow(value: number | bigint, dtype: DType): RangeError {
  return new RangeError(`value ${value} cannot be converted to type ${dtype} without overflow`);
}
