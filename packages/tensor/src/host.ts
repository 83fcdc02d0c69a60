/** @file Reading tensors on the host and making tensors from host arrays. */
import { decode, dtypes, viewAs, type DType, type NumberArray, type TypedArrayOf, type TypedArrays } from './dtype.ts';
import { contiguousStrides, type Shape } from './shape.ts';
import { Storage } from './storage.ts';
import { copyStrided } from './strided.ts';
import { newMeta, Tensor } from './tensor.ts';
import { DTypeError } from './errors.ts';

/** The bytes of a tensor's elements in row-major order: the storage's own where they lie so, else a copy. As `Storage.peek`. */
export function readBytes(t: Tensor): Uint8Array {
  if (t.sparse !== undefined)
    throw new DTypeError('this operation needs a strided tensor; use toDense() on sparse ones');
  const width = dtypes[t.dtype].bytes;
  const bytes = t.storage.peek();
  if (t.isContiguous) return bytes.subarray(t.offset * width, (t.offset + t.size) * width);
  const out = new Uint8Array(t.size * width);
  copyStrided(
    { bytes: aligned(bytes, width), strides: t.strides, offset: t.offset },
    { bytes: out, strides: contiguousStrides(t.shape), offset: 0 },
    t.shape,
    t.dtype,
  );
  return out;
}

/** The elements in row-major order; read only, valid until the next kernel or in-place change. */
export function readArray<D extends DType>(t: Tensor<D>): TypedArrayOf<D> {
  const { array, nbytes } = t.storage;
  const row = dtypes[t.dtype];
  // Of that very class: a Buffer is a Uint8Array whose slices are no copies.
  if (array?.constructor === row.array && t.size * row.bytes === nbytes && t.isContiguous)
    return array as TypedArrayOf<D>;
  return viewAs(readBytes(t as unknown as Tensor), t.dtype);
}

/** The elements as JavaScript numbers, like `readArray`. */
export function readNumbers(t: Tensor): NumberArray {
  return decode(readArray(t), t.dtype);
}

/** `bytes`, or a copy that typed arrays of `width` can lie over. */
export function aligned(bytes: Uint8Array, width: number): Uint8Array {
  return bytes.byteOffset % Math.min(width, 4) === 0 ? bytes : new Uint8Array(bytes);
}

/** `bytes`, or where some are neither 0 nor 1 a copy with these as 1: the elements of a bool tensor. */
export function zerosAndOnes(bytes: Uint8Array): Uint8Array {
  for (let i = 0; i < bytes.length; i++) if (bytes[i]! > 1) return bytes.map((v) => (v === 0 ? 0 : 1));
  return bytes;
}

/** A contiguous tensor over `array`, which it takes over. */
export function fromArray<D extends DType>(
  array: TypedArrays[DType],
  dtype: D,
  shape: Shape,
  requiresGrad = false,
): Tensor<D> {
  return over(new Storage(array), dtype, shape, requiresGrad);
}

/** A contiguous tensor over a whole storage. */
export function over<D extends DType>(storage: Storage, dtype: D, shape: Shape, requiresGrad = false): Tensor<D> {
  const meta = requiresGrad ? newMeta(true) : undefined;
  return new Tensor<D>({ storage, dtype, shape, strides: contiguousStrides(shape), offset: 0, meta });
}

/** A view of `t`'s storage with its own geometry; no history. */
export function rawView<D extends DType>(t: Tensor<D>, shape: Shape, strides: Shape, offset: number): Tensor<D> {
  return new Tensor<D>({ storage: t.storage, dtype: t.dtype, shape, strides, offset });
}

/** `t` with its dimensions in another order; no history. The caller releases it. */
export function rawPermute<D extends DType>(t: Tensor<D>, dims: readonly number[]): Tensor<D> {
  const shape = dims.map((d) => t.shape[d] as number);
  return rawView(
    t,
    shape,
    dims.map((d) => t.strides[d] as number),
    t.offset,
  );
}

/** `t` with its last two dimensions swapped; no history. The caller releases it. */
export function rawTranspose<D extends DType>(t: Tensor<D>): Tensor<D> {
  const dims = t.shape.map((_, i) => i);
  const last = dims.length - 1;
  return rawPermute(t, [...dims.slice(0, -2), last, last - 1]);
}

/** The elements with the dimensions in another order. */
export function readPermuted(t: Tensor, dims: readonly number[]): TypedArrays[DType] {
  const turned = rawPermute(t, dims);
  const array = readArray(turned);
  turned.release();
  return array;
}
