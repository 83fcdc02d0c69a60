/** @file The element types: sizes, storage arrays, promotion, and exact conversion between them. */
import { decodeBfloat16, decodeFloat16, encodeBfloat16, encodeFloat16 } from './half.ts';

/** The element types a tensor can hold. float16 and bfloat16 hold their bit patterns; complex64 holds pairs of float32. */
export type DType =
  | 'float32'
  | 'float64'
  | 'float16'
  | 'bfloat16'
  | 'int64'
  | 'int32'
  | 'int16'
  | 'int8'
  | 'uint8'
  | 'bool'
  | 'complex64';

/** The typed array that holds the elements of each dtype. */
export interface TypedArrays {
  float32: Float32Array;
  float64: Float64Array;
  float16: Uint16Array;
  bfloat16: Uint16Array;
  int64: BigInt64Array;
  int32: Int32Array;
  int16: Int16Array;
  int8: Int8Array;
  uint8: Uint8Array;
  bool: Uint8Array;
  complex64: Float32Array;
}

/** The typed array that holds the elements of a dtype. */
export type TypedArrayOf<D extends DType> = TypedArrays[D];

export type Kind = 'bool' | 'int' | 'float' | 'complex';

/** What the library knows about one dtype. */
export interface DTypeInfo {
  readonly name: DType;
  /** Bytes an element. */
  readonly bytes: number;
  readonly kind: Kind;
  /** Typed array elements per tensor element: 2 for complex64. */
  readonly lanes: 1 | 2;
  /** The class of its typed arrays. */
  readonly array: abstract new (...args: never[]) => TypedArrays[DType];
  /** Wraps part of a buffer; `byteOffset` must be a multiple of the array's element size. */
  readonly wrap: (buffer: ArrayBufferLike, byteOffset: number, elements: number) => TypedArrays[DType];
}

const info = (
  name: DType,
  bytes: number,
  kind: Kind,
  array: DTypeInfo['array'],
  // Each its own function, which the engine compiles for its class alone.
  wrap: DTypeInfo['wrap'],
  lanes: 1 | 2 = 1,
): DTypeInfo => Object.freeze({ name, bytes, kind, lanes, array, wrap });

/** One row a dtype. */
export const dtypes: Readonly<Record<DType, DTypeInfo>> = Object.freeze({
  float32: info('float32', 4, 'float', Float32Array, (b, at, n) => new Float32Array(b, at, n)),
  float64: info('float64', 8, 'float', Float64Array, (b, at, n) => new Float64Array(b, at, n)),
  float16: info('float16', 2, 'float', Uint16Array, (b, at, n) => new Uint16Array(b, at, n)),
  bfloat16: info('bfloat16', 2, 'float', Uint16Array, (b, at, n) => new Uint16Array(b, at, n)),
  int64: info('int64', 8, 'int', BigInt64Array, (b, at, n) => new BigInt64Array(b, at, n)),
  int32: info('int32', 4, 'int', Int32Array, (b, at, n) => new Int32Array(b, at, n)),
  int16: info('int16', 2, 'int', Int16Array, (b, at, n) => new Int16Array(b, at, n)),
  int8: info('int8', 1, 'int', Int8Array, (b, at, n) => new Int8Array(b, at, n)),
  uint8: info('uint8', 1, 'int', Uint8Array, (b, at, n) => new Uint8Array(b, at, n)),
  bool: info('bool', 1, 'bool', Uint8Array, (b, at, n) => new Uint8Array(b, at, n)),
  complex64: info('complex64', 8, 'complex', Float32Array, (b, at, n) => new Float32Array(b, at, n * 2), 2),
});

/** Whether `value` names a dtype: for names that come from outside. */
export function isDType(value: unknown): value is DType {
  return typeof value === 'string' && Object.hasOwn(dtypes, value);
}

/** Whether tensors of this dtype can require gradients. */
export function isDifferentiable(dtype: DType): boolean {
  const { kind } = dtypes[dtype];
  return kind === 'float' || kind === 'complex';
}

/** The typed array over `bytes`; copies when they are not aligned for the dtype. */
export function viewAs<D extends DType>(bytes: Uint8Array, dtype: D): TypedArrayOf<D> {
  const row = dtypes[dtype];
  const align = row.bytes / row.lanes;
  const aligned = bytes.byteOffset % align === 0 ? bytes : new Uint8Array(bytes);
  return row.wrap(aligned.buffer, aligned.byteOffset, Math.floor(aligned.byteLength / row.bytes)) as TypedArrayOf<D>;
}

/** A zero-filled typed array for `elements` elements. */
export function allocate<D extends DType>(dtype: D, elements: number): TypedArrayOf<D> {
  const row = dtypes[dtype];
  return row.wrap(new ArrayBuffer(elements * row.bytes), 0, elements) as TypedArrayOf<D>;
}

const INT_RANK: Readonly<Partial<Record<DType, number>>> = { int8: 1, int16: 2, int32: 3, int64: 4 };
const FLOAT_RANK: Readonly<Partial<Record<DType, number>>> = { float16: 1, bfloat16: 1, float32: 2, float64: 3 };

/** The dtype two tensors meet in, by PyTorch's rules. */
export function promote(a: DType, b: DType): DType {
  if (a === b) return a;
  if (a === 'complex64' || b === 'complex64') return 'complex64';
  const fa = FLOAT_RANK[a];
  const fb = FLOAT_RANK[b];
  if (fa !== undefined && fb !== undefined) return fa === fb ? 'float32' : fa > fb ? a : b;
  if (fa !== undefined) return a;
  if (fb !== undefined) return b;
  if (a === 'bool') return b;
  if (b === 'bool') return a;
  // uint8 meets a signed type in the next signed type that holds both.
  if (a === 'uint8') return b === 'int8' ? 'int16' : b;
  if (b === 'uint8') return a === 'int8' ? 'int16' : a;
  return (INT_RANK[a] ?? 0) > (INT_RANK[b] ?? 0) ? a : b;
}

/** The dtype of a tensor combined with a number: the tensor's, unless the number is of a higher kind. */
export function promoteScalar(a: DType, value: number): DType {
  const { kind } = dtypes[a];
  if (kind === 'float' || kind === 'complex') return a;
  if (!Number.isInteger(value)) return 'float32';
  return kind === 'bool' ? 'int64' : a;
}

/** float32 for integers and bool, else the dtype itself: what division, exp and mean return. */
export function toFloatDType(dtype: DType): DType {
  return isDifferentiable(dtype) ? dtype : 'float32';
}

/** The arrays host loops compute in: elements as JavaScript numbers. */
export type NumberArray = Float32Array | Float64Array | Int32Array | Int16Array | Int8Array | Uint8Array;

/**
 * The elements as JavaScript numbers; the array itself where its elements already are. int64 beyond 2^53 is rounded: operations
 * that must keep such values work on the BigInt64Array.
 */
export function decode(array: TypedArrays[DType], dtype: DType): NumberArray {
  if (dtype === 'float16') return decodeFloat16(array as Uint16Array);
  if (dtype === 'bfloat16') return decodeBfloat16(array as Uint16Array);
  if (dtype === 'int64') return decodeInt64(array as BigInt64Array);
  return array as NumberArray;
}

const WORD = 2 ** 32;

/** Each as its two halves: a bigint made for every element would cost ten times as much. Only the sum of the halves rounds. */
function decodeInt64(array: BigInt64Array): Float64Array {
  const n = array.length;
  const halves = new Int32Array(array.buffer, array.byteOffset, 2 * n);
  const out = new Float64Array(n);
  for (let i = 0; i < n; i++) out[i] = halves[2 * i + 1]! * WORD + (halves[2 * i]! >>> 0);
  return out;
}

/** As `toInt64`, by halves. */
function encodeInt64(values: NumberArray): BigInt64Array {
  const n = values.length;
  const out = new BigInt64Array(n);
  const halves = new Int32Array(out.buffer);
  for (let i = 0; i < n; i++) {
    const value = values[i]!;
    const whole = value >= -(2 ** 63) && value < 2 ** 63 ? Math.trunc(value) : -(2 ** 63);
    // Conversion to 32 bits keeps the lower ones, also of numbers far beyond.
    halves[2 * i] = whole | 0;
    halves[2 * i + 1] = Math.floor(whole / WORD);
  }
  return out;
}

/** An int64 as float32, rounded once (through a double it would be rounded twice). */
export function int64ToFloat32(value: bigint): number {
  if (value >= -(2n ** 53n) && value <= 2n ** 53n) return Math.fround(Number(value));
  const magnitude = value < 0n ? -value : value;
  const sticky = (magnitude & 2047n) === 0n ? 0n : 1n;
  const rounded = Math.fround(Number((magnitude >> 11n) | sticky) * 2048);
  return value < 0n ? -rounded : rounded;
}

/** Numbers in the stored form of `dtype`, those of complex64 in pairs as `decode` gives them. */
export function encodeLanes<D extends DType>(values: NumberArray, dtype: D): TypedArrayOf<D> {
  return encode(values, dtype === 'complex64' ? 'float32' : dtype) as TypedArrayOf<D>;
}

/** Stores numbers as `dtype`: truncating and wrapping to integers, rounding to nearest even for the small floats. */
export function encode<D extends DType>(values: NumberArray, dtype: D): TypedArrayOf<D> {
  const out = encodeAny(values, dtype);
  return out as TypedArrayOf<D>;
}

function encodeAny(values: NumberArray, dtype: DType): TypedArrays[DType] {
  switch (dtype) {
    case 'float32':
      return values instanceof Float32Array ? values : new Float32Array(values);
    case 'float64':
      return values instanceof Float64Array ? values : new Float64Array(values);
    case 'float16':
      return encodeFloat16(values instanceof Float32Array ? values : new Float32Array(values));
    case 'bfloat16':
      return encodeBfloat16(values instanceof Float32Array ? values : new Float32Array(values));
    case 'int64':
      return encodeInt64(values);
    case 'int32':
      return values instanceof Int32Array ? values : new Int32Array(values);
    case 'int16':
      return values instanceof Int16Array ? values : new Int16Array(values);
    case 'int8':
      return values instanceof Int8Array ? values : new Int8Array(values);
    case 'uint8':
      return values instanceof Uint8Array ? values : new Uint8Array(values);
    case 'bool':
      return toBool(values);
    case 'complex64': {
      const out = new Float32Array(values.length * 2);
      for (let i = 0; i < values.length; i++) out[2 * i] = values[i] as number;
      return out;
    }
  }
}

function toBool(values: NumberArray): Uint8Array {
  const out = new Uint8Array(values.length);
  for (let i = 0; i < out.length; i++) out[i] = values[i] !== 0 ? 1 : 0;
  return out;
}

/** `array` of dtype `from` as a new array of dtype `to`; the same array when the dtypes are equal. */
export function cast(array: TypedArrays[DType], from: DType, to: DType): TypedArrays[DType] {
  if (from === to) return array;
  if (from === 'int64') return castInt64(array as BigInt64Array, to);
  if (from === 'complex64') {
    const source = array as Float32Array;
    const real = new Float32Array(source.length / 2);
    for (let i = 0; i < real.length; i++) real[i] = source[2 * i]!;
    // What has any part is true.
    if (to === 'bool') for (let i = 0; i < real.length; i++) if (source[2 * i + 1] !== 0) real[i] = 1;
    return encode(inInt32(real, to), to);
  }
  const values = decode(array, from);
  const out = encode(dtypes[from].kind === 'float' ? inInt32(values, to) : values, to);
  return out === array ? out.slice() : out;
}

/**
 * Floats on their way to signed integers of up to 32 bits: what has no place there becomes the smallest int32, as processors convert it, whose
 * lower bits are zero. (Of bytes without a sign the lower bits count, however large the number is.)
 */
function inInt32(values: NumberArray, to: DType): NumberArray {
  if (to !== 'int32' && to !== 'int16' && to !== 'int8') return values;
  const out = new Int32Array(values.length);
  for (let i = 0; i < out.length; i++) {
    const value = Math.trunc(values[i]!);
    out[i] = value >= -(2 ** 31) && value < 2 ** 31 ? value : -(2 ** 31);
  }
  return out;
}

function castInt64(array: BigInt64Array, to: DType): TypedArrays[DType] {
  switch (to) {
    case 'float64':
      return Float64Array.from(array, Number);
    case 'bool':
      return Uint8Array.from(array, (v) => (v === 0n ? 0 : 1));
    case 'int32':
    case 'int16':
    case 'int8':
    case 'uint8':
      return encode(
        Int32Array.from(array, (v) => Number(BigInt.asIntN(32, v))),
        to,
      );
    default:
      return encode(Float32Array.from(array, int64ToFloat32), to);
  }
}
