/** @file Choosing elements by a condition: where, clamp, maskedFill. */
import { decode, encode, encodeLanes, isDifferentiable, type DType, type NumberArray } from '../dtype.ts';
import { fromArray, readArray } from '../host.ts';
import { named } from '../named.ts';
import { broadcastShapes, sameShape, sizeOf, type Shape } from '../shape.ts';
import { Tensor } from '../tensor.ts';
import { checkFill } from '../range.ts';
import { defineFunction, defineOp } from './define.ts';
import { clampInt64 } from './int64.ts';
import { backendFor, runKernel } from './kernels.ts';
import { apply } from './op.ts';
import { operand, resultDType, scalar } from './promotion.ts';
import { ALL, BOOL, each, operands, REAL } from './takes.ts';

const whereOp = defineOp<{ dtype: DType }>('where', operands(BOOL, ALL), ([condition, x, y], { dtype }) => {
  const shape = broadcastShapes(condition.shape, broadcastShapes(x.shape, y.shape));
  const computed = dtype === 'float32' ? onDevice(condition, x, y, shape) : undefined;
  if (computed !== undefined) return computed;
  const mask = spread(condition, shape) as Uint8Array;
  if (dtype === 'int64') {
    const [p, q] = [spread(x, shape) as BigInt64Array, spread(y, shape) as BigInt64Array];
    return fromArray(
      p.map((v, i) => (mask[i] !== 0 ? v : (q[i] as bigint))),
      'int64',
      shape,
    );
  }
  const p = decode(spread(x, shape), dtype);
  const q = decode(spread(y, shape), dtype);
  const out = new (p.constructor as new (n: number) => NumberArray)(p.length);
  if (dtype === 'complex64') for (let i = 0; i < out.length; i++) out[i] = mask[i >> 1] !== 0 ? p[i]! : q[i]!;
  else for (let i = 0; i < out.length; i++) out[i] = mask[i] !== 0 ? p[i]! : q[i]!;
  return fromArray(encodeLanes(out, dtype), dtype, shape);
});

/** By a kernel, where the condition is all of the result or repeated along its leading dimensions, and each operand all of it or a number. */
function onDevice(condition: Tensor, x: Tensor, y: Tensor, shape: Shape): Tensor | undefined {
  const size = sizeOf(shape);
  const n = condition.size;
  if (size === 0 || !leads(condition.shape, shape)) return undefined;
  for (const t of [x, y]) if (t.size !== 1 && !sameShape(t.shape, shape)) return undefined;
  const backend = backendFor('Choose', 'elementwise', size);
  if (backend === undefined) return undefined;
  return runKernel(backend, 'Choose', { c: condition, a: x, b: y }, { m: size / n, n }, 'float32', shape);
}

/** Whether what has shape `own` is repeated in `shape` as a whole. */
function leads(own: Shape, shape: Shape): boolean {
  const first = own.findIndex((n) => n !== 1);
  if (first === -1) return sizeOf(shape) === 1;
  const inner = own.slice(first);
  return sameShape(inner, shape.slice(shape.length - inner.length));
}

/** The elements of `t` broadcast to `shape`. */
function spread(t: Tensor, shape: readonly number[]): ReturnType<typeof readArray> {
  if (sameShape(t.shape, shape)) return readArray(t);
  const wide = t.detach().expand(shape);
  const array = readArray(wide);
  wide.release();
  return array;
}

/** Elements of `a` where `condition` (bool) holds, of `b` elsewhere; all three broadcast. */
export const where = named('aten::where', (condition: Tensor, a: Tensor | number, b: Tensor | number): Tensor => {
  const beside = a instanceof Tensor ? a : b instanceof Tensor ? b : scalar(0, 'float32');
  const x = operand(a, beside);
  const y = operand(b, beside);
  const dtype = resultDType(x, y);
  return apply(whereOp, [condition, x.dtype === dtype ? x : x.to(dtype), y.dtype === dtype ? y : y.to(dtype)], {
    dtype,
  });
});

const clampOp = defineOp<{ min: number | undefined; max: number | undefined }>(
  'clamp',
  each(REAL),
  ([input], { min, max }) => {
    const low = min ?? -Infinity;
    const high = max ?? Infinity;
    if (input.dtype === 'int64') {
      return fromArray(clampInt64(readArray(input) as BigInt64Array, low, high), 'int64', input.shape);
    }
    const values = decode(readArray(input), input.dtype);
    const none = Number.isNaN(low) || Number.isNaN(high);
    const out = values.map((v) => (none ? NaN : v < low ? Math.min(low, high) : v > high ? high : v));
    return fromArray(encode(out, input.dtype), input.dtype, input.shape);
  },
);

/**
 * Elements below `min` become `min`, those above `max` become `max`, all NaN where a bound is. Bounds that no integer is make float32 of
 * integers; a negative one of bytes wraps, as in PyTorch.
 */
export const clamp = named('aten::clamp', (t: Tensor, min?: number, max?: number): Tensor => {
  if (min === undefined && max === undefined) throw new TypeError('clamp: at least one of min and max must be given');
  const whole = (bound: number | undefined): boolean => bound === undefined || Number.isInteger(bound);
  if (!isDifferentiable(t.dtype) && !(whole(min) && whole(max))) return clamp(t.to('float32'), min, max);
  // A number makes a count of bool, as in arithmetic.
  if (t.dtype === 'bool') return clamp(t.to('int64'), min, max);
  for (const bound of [min, max]) if (bound !== undefined && Number.isFinite(bound)) checkFill(bound, t.dtype);
  const wrapped = (bound: number | undefined): number | undefined =>
    t.dtype === 'uint8' && bound !== undefined && bound < 0 ? bound + 256 : bound;
  return apply(clampOp, [t], { min: wrapped(min), max: wrapped(max) });
});

/** `t` with `value` where `mask` (bool, broadcast) holds. */
export const maskedFill = defineFunction(
  'maskedFill',
  operands(ALL, BOOL),
  (t: Tensor, mask: Tensor, value: number): Tensor => {
    checkFill(value, t.dtype);
    return where(mask, scalar(value, t.dtype), t);
  },
);
