/** @file Which dtype an operation computes in, and operands that are plain numbers. */
import { DTypeError } from '../errors.ts';
import { dtypes, encode, isDType, promote, promoteScalar, type DType, type Kind } from '../dtype.ts';
import { fromArray } from '../host.ts';
import { kindOf } from '../given.ts';
import { Tensor } from '../tensor.ts';

/** The dtype that two tensors meet in, by PyTorch's rules. */
export function promoteTypes(a: DType, b: DType): DType {
  for (const dtype of [a, b])
    if (!isDType(dtype)) throw new DTypeError(`promoteTypes() takes two dtypes, got ${kindOf(dtype)}`);
  return promote(a, b);
}

const CATEGORY: Readonly<Record<Kind, number>> = { bool: 0, int: 1, float: 2, complex: 3 };

/** The common dtype of two operands: a tensor without dimensions does not widen one with dimensions within the same kind. */
export function resultDType(a: Tensor, b: Tensor): DType {
  if (a.dtype === b.dtype) return a.dtype;
  if ((a.rank === 0) === (b.rank === 0)) return promote(a.dtype, b.dtype);
  return a.rank === 0 ? widened(b.dtype, a.dtype) : widened(a.dtype, b.dtype);
}

/** The common dtype of any number of operands, by the same rule. */
export function commonDType(operands: readonly Tensor[]): DType {
  if (operands.length === 2) return resultDType(operands[0] as Tensor, operands[1] as Tensor);
  const meet = (list: readonly Tensor[]): DType => list.map((t) => t.dtype).reduce(promote);
  const wide = operands.filter((t) => t.rank > 0);
  if (wide.length === 0 || wide.length === operands.length) return meet(operands);
  return widened(meet(wide), meet(operands.filter((t) => t.rank === 0)));
}

/** The dtype of tensors with dimensions beside some without. */
function widened(wide: DType, flat: DType): DType {
  return CATEGORY[dtypes[flat].kind] > CATEGORY[dtypes[wide].kind] ? promote(wide, flat) : wide;
}

/** A number as a tensor without dimensions that takes part in the dtype rules as numbers do. */
export function operand(value: Tensor | number, beside: Tensor): Tensor {
  return value instanceof Tensor ? value : scalar(checked(value), promoteScalar(checkedBeside(beside).dtype, value));
}

/**
 * As `operand`, for what computes in floating point: neither wrapped to an integer's range nor rounded to half precision. A result
 * beside half precision without dimensions is float32 then.
 */
export function exactOperand(value: Tensor | number, beside: Tensor): Tensor {
  const { dtype } = checkedBeside(beside);
  if (value instanceof Tensor || dtype === 'float64' || dtype === 'complex64') return operand(value, beside);
  return scalar(checked(value), 'float32');
}

/** Callers of other workers are not checked by our types: a string would become NaN here. */
function checked(value: unknown): number {
  if (typeof value === 'number' || typeof value === 'boolean') return Number(value);
  throw new TypeError(`an operand must be a Tensor or a number, not ${kindOf(value)}`);
}

/** A number meets a tensor: of two numbers there is none. */
function checkedBeside(value: unknown): Tensor {
  if (value instanceof Tensor) return value as Tensor;
  throw new TypeError(`the first operand must be a Tensor, not ${kindOf(value)}`);
}

/** A tensor without dimensions. */
export function scalar<D extends DType>(value: number, dtype: D): Tensor<D> {
  return fromArray(dtype === 'float32' ? Float32Array.of(value) : encode(Float64Array.of(value), dtype), dtype, []);
}
