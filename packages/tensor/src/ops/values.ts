/** @file The values of tensors on the host: read as arrays and numbers, and compared. */
import { cast, dtypes, decode, type DType, type NumberArray, type TypedArrayOf, type TypedArrays } from '../dtype.ts';
import { DTypeError, ShapeError } from '../errors.ts';
import { readArray, readNumbers } from '../host.ts';
import { sameShape } from '../shape.ts';
import { toDense } from './sparse/coo.ts';
import type { Nested, Tensor } from '../tensor.ts';
import { checkOptionNames } from '../option-names.ts';

const CLOSE_OPTIONS: ReadonlySet<string> = new Set(['rtol', 'atol', 'equalNaN']);

/** The elements in row-major order. A snapshot that later in-place changes do not touch; not to be written to. */
export function dataSync<D extends DType>(t: Tensor<D>): TypedArrayOf<D> {
  if (t.sparse !== undefined) return readArray(toDense(t as unknown as Tensor)) as TypedArrayOf<D>;
  const { storage } = t;
  storage.hostBytes();
  storage.escaped = true;
  return readArray(t);
}

/** As dataSync, converted to `as` if given. */
export async function data(t: Tensor, as?: DType): Promise<TypedArrays[DType]> {
  await t.storage.toHost();
  const array = dataSync(t);
  return as === undefined ? array : cast(array, t.dtype, as);
}

/** The one value of a tensor of one element. Throws RangeError for an int64 that a number would round. */
export function item(t: Tensor): number {
  if (t.size !== 1) {
    throw new ShapeError(
      `a Tensor with ${t.size} elements cannot be converted to Scalar: item() is for one; use toArray() or data()`,
    );
  }
  if (t.dtype === 'int64') {
    const [value] = readArray(t.sparse === undefined ? t : toDense(t)) as BigInt64Array;
    const rounded = Number(value);
    if (!Number.isSafeInteger(rounded) && BigInt(rounded) !== value) {
      throw new RangeError(
        `the int64 value ${value as bigint} is none that a number can hold: use toArray() or data()`,
      );
    }
    return rounded;
  }
  if (t.dtype === 'complex64') throw new DTypeError('item() of a complex tensor: use toArray(), or real() and imag()');
  return readNumbers(t.sparse === undefined ? t : toDense(t))[0] as number;
}

export async function itemAsync(t: Tensor): Promise<number> {
  await t.storage.toHost();
  return item(t);
}

/** Nested arrays of the elements; bigint for int64, boolean for bool. */
export function toArray(t: Tensor): Nested<number | bigint | boolean> {
  const dense = t.sparse === undefined ? t : toDense(t);
  const array = readArray(dense);
  const { lanes } = dtypes[t.dtype];
  const values: (number | bigint)[] = t.dtype === 'int64' ? [...(array as BigInt64Array)] : [...decode(array, t.dtype)];
  const one = (i: number): Nested<number | bigint | boolean> => {
    if (t.dtype === 'bool') return values[i] !== 0;
    return lanes === 2 ? [values[2 * i] as number, values[2 * i + 1] as number] : (values[i] as number | bigint);
  };
  let at = 0;
  const build = (depth: number): Nested<number | bigint | boolean> => {
    if (depth === t.rank) return one(at++);
    return Array.from({ length: t.shape[depth] as number }, () => build(depth + 1));
  };
  return build(0);
}

/** Same dtype, shape and elements. */
export function equal(a: Tensor, b: Tensor): boolean {
  if (a.dtype !== b.dtype || !sameShape(a.shape, b.shape)) return false;
  const x = dataSync(a);
  const y = dataSync(b);
  if (a.dtype === 'int64') return (x as BigInt64Array).every((v, i) => v === y[i]);
  const [p, q] = [decode(x, a.dtype), decode(y, b.dtype)];
  return p.every((v, i) => v === q[i]);
}

/** By distances in the plane. */
function complexClose(x: NumberArray, y: NumberArray, rtol: number, atol: number, equalNaN: boolean): boolean {
  for (let i = 0; i < x.length; i += 2) {
    const [a, b, c, d] = [x[i]!, x[i + 1]!, y[i]!, y[i + 1]!];
    if (a === c && b === d) continue;
    const [left, right] = [Number.isNaN(a + b), Number.isNaN(c + d)];
    if (left || right) {
      if (equalNaN && left && right) continue;
      return false;
    }
    const size = Math.hypot(c, d);
    if (!(Math.hypot(a - c, b - d) <= atol + rtol * size && Number.isFinite(size))) return false;
  }
  return true;
}

/** |a - b| <= atol + rtol |b| everywhere; shapes broadcast only by being equal. */
export function allClose(
  a: Tensor,
  b: Tensor,
  options: { rtol?: number; atol?: number; equalNaN?: boolean } = {},
): boolean {
  checkOptionNames(options, CLOSE_OPTIONS, 'allClose()');
  const { rtol = 1e-5, atol = 1e-8, equalNaN = false } = options;
  for (const [name, room] of Object.entries({ rtol, atol }))
    if (!(room >= 0)) throw new RangeError(`allClose: ${name} must be greater than or equal to zero, but got ${room}`);
  if (!sameShape(a.shape, b.shape)) return false;
  // Doubles would round the difference away.
  if (a.dtype === 'int64' && b.dtype === 'int64' && rtol === 0 && atol < 1) return equal(a, b);
  const complex = a.dtype === 'complex64';
  if (complex !== (b.dtype === 'complex64')) {
    throw new DTypeError(
      `allClose() takes complex or real operands, not ${a.dtype} and ${b.dtype}: convert one with to()`,
    );
  }
  const x = decode(dataSync(a), a.dtype);
  const y = decode(dataSync(b), b.dtype);
  if (complex) return complexClose(x, y, rtol, atol, equalNaN);
  return x.every((v, i) => {
    const w = y[i] as number;
    if (v === w) return true;
    if (v !== v || w !== w) return equalNaN && v !== v && w !== w;
    return Math.abs(v - w) <= atol + rtol * Math.abs(w) && Number.isFinite(w);
  });
}
