/** @file Making tensors: from values, bytes, ranges and parts. */
import { checkGivenOptions, kindOf } from './given.ts';
import { checkArguments } from './arguments.ts';
import { checkElement, checkFill, checkInt64, isBounded } from './range.ts';
import {
  allocate,
  cast,
  dtypes,
  encode,
  isDType,
  isDifferentiable,
  viewAs,
  type DType,
  type TypedArrays,
} from './dtype.ts';
import { DTypeError, ShapeError } from './errors.ts';
import { checkCreated, NUMBER, REAL_NUMBER } from './ops/takes.ts';
import { aligned, fromArray, over, zerosAndOnes } from './host.ts';
import { observedCreation } from './observed.ts';
import { untracked } from './scope.ts';
import { checkShape, contiguousStrides, extentOf, sameShape, sizeOf, type Shape } from './shape.ts';
import { type Storage, storageFromBytes } from './storage.ts';
import { newMeta, Parameter, Tensor, type Nested, type SparseParts } from './tensor.ts';
import { checkOptionNames, nearestName, optionNames } from './option-names.ts';

/** The dtype of a new tensor, and whether it takes part in autograd. */
export interface CreateOptions<D extends DType = DType> {
  /** What its elements are. @default 'float32', or what follows from the values, where the function says so */
  dtype?: D;
  /** Whether operations on it are recorded. @default false */
  requiresGrad?: boolean;
}

/** By the name of who reads them. */
export const CREATE_OPTIONS = optionNames<CreateOptions>()('dtype requiresGrad');
const TENSOR_OPTIONS: ReadonlySet<string> = new Set([...CREATE_OPTIONS, 'shape']);

type Scalar = number | bigint | boolean;

/**
 * A tensor of nested arrays (copied) or of a typed array (copied). Without `dtype`: numbers become float32, bigints int64, booleans
 * bool, and a typed array keeps its own type; typed arrays of another type are converted as C does, wrapping.
 * @param values numbers, bigints or booleans in lists, or a typed array
 * @param options `dtype`, `device`, `requiresGrad`; `shape`, for typed arrays
 * @throws ShapeError for ragged nesting; RangeError for a number that an integer dtype has no place for.
 * @example
 * ```ts
 * const x = tensor([
 *   [1, 2],
 *   [3, 4],
 * ]);
 * console.log(x.shape, x.dtype, x.sum(0).toArray()); // [ 2, 2 ] float32 [ 4, 6 ]
 * console.log(tensor(new Float64Array([1, 2, 3, 4]), { shape: [2, 2] }).dtype); // float64
 * ```
 */
export function tensor<D extends DType = 'float32'>(
  values: Nested<Scalar> | ArrayBufferView,
  options: CreateOptions<D> & { readonly shape?: Shape } = {},
): Tensor<D> {
  const { array, from, preferred, shape: found } = ArrayBuffer.isView(values) ? fromView(values) : fromNested(values);
  checkOptionNames(options, TENSOR_OPTIONS, 'tensor()');
  checkGivenOptions('tensor()', options);
  const dtype = (options.dtype ?? preferred) as D;
  checkDType(dtype);
  const shape = options.shape ?? found;
  checkShape(shape);
  if (sizeOf(shape) !== sizeOf(found)) {
    throw new ShapeError(`shape '[${shape.join(', ')}]' is invalid for input of size ${sizeOf(found)}`);
  }
  checkGrad(dtype, options.requiresGrad);
  if (!ArrayBuffer.isView(values) && from !== dtype && isBounded(dtype)) checkAll(array, dtype);
  const copy = from === dtype ? array.slice() : cast(array, from, dtype);
  return fromArray(copy, dtype, [...shape], options.requiresGrad);
}

/** Names may come from programs that no type checker has seen. */
function checkDType(dtype: unknown): void {
  if (!isDType(dtype)) {
    const near = typeof dtype === 'string' ? nearestName(dtype, Object.keys(dtypes)) : undefined;
    const advice = near === undefined ? `there are ${Object.keys(dtypes).join(', ')}` : `did you mean '${near}'?`;
    throw new DTypeError(`unknown dtype '${typeof dtype === 'string' ? dtype : kindOf(dtype)}'; ${advice}`);
  }
}

function checkAll(array: TypedArrays[DType], dtype: DType): void {
  for (const v of array) checkElement(Number(v), dtype);
}

/** Values as read: an array of dtype `from`, and the dtype they take unless another is asked for. */
interface Source {
  readonly array: TypedArrays[DType];
  readonly from: DType;
  readonly preferred: DType;
  readonly shape: Shape;
}

function fromView(view: ArrayBufferView): Source {
  const from = dtypeOfArray(view);
  const array = view as TypedArrays[DType];
  return { array, from, preferred: from, shape: [array.length] };
}

function dtypeOfArray(view: ArrayBufferView): DType {
  if (view instanceof Float32Array) return 'float32';
  if (view instanceof Float64Array) return 'float64';
  if (view instanceof Int32Array) return 'int32';
  if (view instanceof BigInt64Array) return 'int64';
  if (view instanceof Uint8Array || view instanceof Uint8ClampedArray) return 'uint8';
  if (view instanceof Int8Array) return 'int8';
  if (view instanceof Int16Array) return 'int16';
  throw new DTypeError(`no dtype holds the elements of a ${view.constructor.name}`);
}

function fromNested(values: Nested<Scalar>): Source {
  const shape: number[] = [];
  for (let at: unknown = values; Array.isArray(at); at = at[0]) shape.push(at.length);
  checkShape(shape);
  const flat = new Array<Scalar>(sizeOf(shape));
  fill(values, shape, 0, flat, 0);
  const first = flat[0];
  if (typeof first === 'bigint') {
    const whole = flat.map((v) => BigInt(v));
    whole.forEach(checkInt64);
    return { array: BigInt64Array.from(whole), from: 'int64', preferred: 'int64', shape };
  }
  const preferred = typeof first === 'boolean' ? 'bool' : 'float32';
  return { array: Float64Array.from(flat, Number), from: 'float64', preferred, shape };
}

/** Copies one level of nesting; returns where the next one starts. */
function fill(values: Nested<Scalar>, shape: Shape, depth: number, flat: Scalar[], at: number): number {
  if (depth === shape.length) {
    if (typeof values === 'object' && values !== null)
      throw new ShapeError('the nested arrays are not all of the same depth');
    if (typeof values !== 'number' && typeof values !== 'bigint' && typeof values !== 'boolean')
      throw new TypeError(`a tensor holds numbers, bigints and booleans, not ${describe(values)}`);
    flat[at] = values;
    return at + 1;
  }
  if (!Array.isArray(values) || values.length !== shape[depth]) {
    throw new ShapeError(`expected sequence of length ${shape[depth] as number} at dim ${depth}`);
  }
  for (const item of values as Nested<Scalar>[]) at = fill(item, shape, depth + 1, flat, at);
  return at;
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return typeof value === 'string' ? `a string ('${value}')` : `a ${typeof value}`;
}

/** Throws DTypeError for a dtype that has no gradients, where they are wanted. */
export function checkGrad(dtype: DType, requiresGrad: boolean | undefined): void {
  if (requiresGrad === true && !isDifferentiable(dtype)) {
    throw new DTypeError(`only Tensors of floating point and complex dtype can require gradients, not of ${dtype}`);
  }
}

/**
 * A tensor of `shape` whose every element is zero.
 * @param shape its sizes; [] for a scalar
 * @param options `dtype`, `device`, `requiresGrad`
 * @throws ShapeError for a size that is negative or no whole number.
 * @example
 * ```ts
 * console.log(zeros([2, 2], { dtype: 'int64' }).toArray()); // [ [ 0n, 0n ], [ 0n, 0n ] ]
 * ```
 */
export function zeros<D extends DType = 'float32'>(shape: Shape, options: CreateOptions<D> = {}): Tensor<D> {
  return zeroed(shape, options, 'zeros');
}

/** As `zeros`; the kinds of what is given are looked at in the name of `who`, and not again where they were. */
function zeroed<D extends DType>(shape: Shape, options: CreateOptions<D>, who?: string): Tensor<D> {
  checkShape(shape);
  checkOptionNames(options, CREATE_OPTIONS, 'zeros()');
  if (who !== undefined) checkArguments(who, [shape, options]);
  const dtype = (options.dtype ?? 'float32') as D;
  checkDType(dtype);
  checkGrad(dtype, options.requiresGrad);
  return observedCreation('aten::zeros', () =>
    fromArray(allocate(dtype, sizeOf(shape)), dtype, [...shape], options.requiresGrad),
  );
}

/** As `zeros`: a tensor to be written to, whose elements no program may count on. */
export function empty<D extends DType = 'float32'>(shape: Shape, options: CreateOptions<D> = {}): Tensor<D> {
  checkArguments('empty', [shape, options]);
  return observedCreation('aten::empty', () => zeroed(shape, options));
}

/** A tensor of `shape` whose every element is one. */
export function ones<D extends DType = 'float32'>(shape: Shape, options: CreateOptions<D> = {}): Tensor<D> {
  checkArguments('ones', [shape, options]);
  return allOnes(shape, options);
}

function allOnes<D extends DType>(shape: Shape, options: CreateOptions<D>): Tensor<D> {
  return observedCreation('aten::ones', () => filled(shape, 1, options));
}

/** Every element `value`. Throws RangeError where the dtype has no place for it. */
export function full<D extends DType = 'float32'>(
  shape: Shape,
  value: number,
  options: CreateOptions<D> = {},
): Tensor<D> {
  checkArguments('full', [shape, value, options]);
  return filled(shape, value, options);
}

function filled<D extends DType>(shape: Shape, value: number, options: CreateOptions<D>): Tensor<D> {
  checkFill(value, options.dtype ?? 'float32');
  return observedCreation('aten::full', () => {
    const t = zeroed(shape, options);
    if (t.size > 0 && !Object.is(value, 0)) fillWith(t, value);
    return t;
  });
}

function fillWith(t: Tensor, value: number): void {
  const one = encode(Float64Array.of(value), t.dtype);
  const bytes = t.storage.peek();
  const unit = new Uint8Array(one.buffer, 0, dtypes[t.dtype].bytes);
  bytes.set(unit);
  for (let done = unit.length; done < bytes.length; done *= 2)
    bytes.copyWithin(done, 0, Math.min(done, bytes.length - done));
}

/** Zeros of the shape of `t`, and of its dtype unless told. */
export function zerosLike<D extends DType, E extends DType = D>(
  t: Tensor<D>,
  options: CreateOptions<E> = {},
): Tensor<E> {
  checkArguments('zerosLike', [t, options]);
  return observedCreation('aten::zeros_like', () => zeroed(t.shape, like(t, options)));
}

/** Ones of the shape of `t`, and of its dtype unless told. */
export function onesLike<D extends DType, E extends DType = D>(
  t: Tensor<D>,
  options: CreateOptions<E> = {},
): Tensor<E> {
  checkArguments('onesLike', [t, options]);
  return observedCreation('aten::ones_like', () => allOnes(t.shape, like(t, options)));
}

/** Every element `value`, in the shape of `t`, and in its dtype unless told. */
export function fullLike<D extends DType, E extends DType = D>(
  t: Tensor<D>,
  value: number,
  options: CreateOptions<E> = {},
): Tensor<E> {
  checkArguments('fullLike', [t, value, options]);
  return observedCreation('aten::full_like', () => filled(t.shape, value, like(t, options)));
}

function like<E extends DType>(t: Tensor, options: CreateOptions<E>): CreateOptions<E> {
  return { ...options, dtype: options.dtype ?? (t.dtype as E) };
}

/** start, start + step, … before `end`; with one number, 0 … start - 1. int64 if all are whole numbers, else float32. */
export function arange(end: number, options?: CreateOptions): Tensor;
export function arange(start: number, end: number | undefined, options?: CreateOptions): Tensor;
export function arange(start: number, end?: number, step?: number, options?: CreateOptions): Tensor;
export function arange(start: number, ...rest: (number | CreateOptions | undefined)[]): Tensor {
  checkArguments('arange', [start, ...rest]);
  const [numbers, options] = numbersFirst(rest);
  const [end, step = 1] = numbers;
  const [from, to] = end === undefined ? [0, start] : [start, end];
  if (step === 0 || !Number.isFinite((to - from) / step))
    throw new ShapeError('step must be nonzero and the range finite');
  if ((to - from) / step < 0) throw new ShapeError('upper bound and larger bound inconsistent with step sign');
  const n = Math.ceil((to - from) / step);
  checkShape([n]);
  const whole = [from, to, step].every(Number.isInteger);
  checkOptionNames(options, CREATE_OPTIONS, 'arange()');
  const dtype = options?.dtype ?? (whole ? 'int64' : 'float32');
  checkCreated('arange', REAL_NUMBER, dtype);
  checkGrad(dtype, options?.requiresGrad);
  return observedCreation('aten::arange', () => {
    const [high, low] = halves(step);
    const values = Float64Array.from({ length: n }, (_, i) => from + i * high + i * low);
    return fromArray(encode(values, dtype), dtype, [n], options?.requiresGrad);
  });
}

/** A number as a sum of two whose products with counts are exact: a sum near zero then keeps what is left of the product, as a fused one. */
function halves(value: number): readonly [high: number, low: number] {
  if (Number.isInteger(value)) return [value, 0];
  const large = value * (2 ** 27 + 1);
  const high = large - (large - value);
  return [high, value - high];
}

/** `count` values from `start` to `end`, both included. */
export function linspace(start: number, end: number, count: number, options: CreateOptions = {}): Tensor {
  checkArguments('linspace', [start, end, count, options]);
  checkShape([count]);
  checkOptionNames(options, CREATE_OPTIONS, 'linspace()');
  const dtype = options.dtype ?? 'float32';
  checkCreated('linspace', NUMBER, dtype);
  checkGrad(dtype, options.requiresGrad);
  return observedCreation('aten::linspace', () => {
    const step = count > 1 ? (end - start) / (count - 1) : 0;
    const values = Float64Array.from({ length: count }, (_, i) =>
      i < count / 2 ? start + i * step : end - (count - 1 - i) * step,
    );
    return fromArray(encode(values, dtype), dtype, [count], options.requiresGrad);
  });
}

/** Numbers, of which those at the end may be left out, and options after them. */
function numbersFirst<O extends object>(
  rest: readonly (number | O | undefined)[],
): [(number | undefined)[], O | undefined] {
  const at = rest.findIndex((one) => typeof one === 'object');
  const numbers = at === -1 ? rest : rest.slice(0, at);
  return [numbers.filter((one) => typeof one !== 'object'), rest[at] as O | undefined];
}

/** The identity matrix, or its first `columns` columns. */
export function eye<D extends DType = 'float32'>(rows: number, options?: CreateOptions<D>): Tensor<D>;
export function eye<D extends DType = 'float32'>(rows: number, columns?: number, options?: CreateOptions<D>): Tensor<D>;
export function eye<D extends DType = 'float32'>(
  rows: number,
  ...rest: (number | CreateOptions<D> | undefined)[]
): Tensor<D> {
  checkArguments('eye', [rows, ...rest]);
  const [[columns = rows], options] = numbersFirst(rest);
  return observedCreation('aten::eye', () => {
    const t = zeros([rows, columns], options);
    const array = viewAs(t.storage.peek(), t.dtype);
    const one = encode(Float64Array.of(1), t.dtype)[0] as never;
    const { lanes } = dtypes[t.dtype];
    for (let i = 0; i < Math.min(rows, columns); i++) array[i * (columns + 1) * lanes] = one;
    return t;
  });
}

/** Reads `bytes` (little-endian, row-major; adopted, not copied, where alignment allows) as a tensor. */
export function fromBytes<D extends DType>(bytes: Uint8Array, shape: Shape, dtype: D): Tensor<D> {
  if (!(bytes instanceof Uint8Array)) throw new TypeError(`fromBytes() takes a Uint8Array, got ${kindOf(bytes)}`);
  checkDType(dtype);
  checkShape(shape);
  const need = sizeOf(shape) * dtypes[dtype].bytes;
  if (bytes.byteLength !== need) {
    throw new ShapeError(
      `${bytes.byteLength} bytes do not hold [${shape.join(', ')}] of ${dtype}, which takes ${need}`,
    );
  }
  const sound = dtype === 'bool' ? zerosAndOnes(bytes) : aligned(bytes, dtypes[dtype].bytes);
  const storage = storageFromBytes(sound);
  // The caller still holds the bytes.
  storage.escaped = true;
  return over(storage, dtype, [...shape]);
}

/** A strided tensor taken apart: what a message's descriptor says of it. */
export interface TensorParts {
  readonly storage: Storage;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly strides: Shape;
  /** In elements. */
  readonly offset: number;
  readonly requiresGrad?: boolean;
  readonly parameter?: boolean;
  /** The caller has checked the parts. @default false */
  readonly trusted?: boolean;
}

/**
 * Puts a tensor together. Checks everything, because the parts may come from a peer, unless `trusted`: then the caller has checked
 * them, and gives the arrays away. Throws ShapeError or DTypeError.
 */
export function tensorFromParts(p: TensorParts): Tensor {
  if (p.trusted !== true) checkParts(p);
  if (p.dtype === 'bool') normalizeStorage(p.storage);
  if (p.parameter === true) return new Parameter(p, p.requiresGrad ?? false);
  return new Tensor({
    storage: p.storage,
    dtype: p.dtype,
    shape: p.trusted === true ? p.shape : [...p.shape],
    strides: p.trusted === true ? p.strides : [...p.strides],
    offset: p.offset,
    meta: p.requiresGrad === true ? newMeta(true) : undefined,
  });
}

/** Bytes from elsewhere may hold any number; every loop here relies on bool being 0 or 1. Of a device's memory they are. */
function normalizeStorage(storage: Storage): void {
  if (storage.onDevice) return;
  const bytes = storage.hostBytes();
  const sound = zerosAndOnes(bytes);
  if (sound !== bytes) bytes.set(sound);
}

function checkParts(p: TensorParts): void {
  checkDType(p.dtype);
  checkShape(p.shape);
  let sound = p.strides.length === p.shape.length && Number.isSafeInteger(p.offset) && p.offset >= 0;
  for (const stride of p.strides) sound &&= Number.isSafeInteger(stride) && stride >= 0;
  if (!sound) {
    throw new ShapeError(
      `strides [${p.strides.join(', ')}] and offset ${p.offset} do not describe shape [${p.shape.join(', ')}]`,
    );
  }
  const extent = extentOf(p.shape, p.strides);
  if (extent > 0 && (p.offset + extent) * dtypes[p.dtype].bytes > p.storage.nbytes) {
    throw new ShapeError(
      `shape [${p.shape.join(', ')}], strides [${p.strides.join(', ')}], offset ${p.offset} reach beyond a storage of ${p.storage.nbytes} bytes`,
    );
  }
  checkGrad(p.dtype, p.requiresGrad);
}

/**
 * Puts a sparse tensor together from its parts, checking them. The result holds its own handles; the caller keeps `indices` and
 * `values`.
 */
export function sparseFromParts(
  parts: SparseParts & { readonly shape: Shape; readonly requiresGrad?: boolean },
): Tensor {
  const { indices, values, shape } = parts;
  checkShape(shape);
  const [sparseDims, nnz] = indices.shape;
  if (indices.dtype !== 'int64' || indices.rank !== 2 || sparseDims === undefined || nnz === undefined) {
    throw new ShapeError(
      `indices must be int64 of shape [sparseDims, nnz], not ${indices.dtype} [${indices.shape.join(', ')}]`,
    );
  }
  const dense = shape.slice(sparseDims);
  if (sparseDims > shape.length || values.shape[0] !== nnz || !sameShape(values.shape.slice(1), dense)) {
    throw new ShapeError(
      `values of shape [${values.shape.join(', ')}] do not fit ${nnz} indices into size [${shape.join(', ')}] with ${sparseDims} sparse dimensions`,
    );
  }
  const strides = contiguousStrides(shape);
  // The parts live and go with the handle that is made of them: no scope frees them on their own.
  const handle = <D extends DType>(t: Tensor<D>): Tensor<D> =>
    untracked(
      () => new Tensor({ storage: t.storage, dtype: t.dtype, shape: t.shape, strides: t.strides, offset: t.offset }),
    );
  return new Tensor({
    storage: values.storage,
    dtype: values.dtype,
    shape: [...shape],
    strides,
    offset: 0,
    meta: parts.requiresGrad === true ? newMeta(true) : undefined,
    // One entry is in order whoever made it.
    sparse: { indices: handle(indices), values: handle(values), coalesced: parts.coalesced || nnz < 2 },
  });
}
