/** @file numpy's arrays and scalars. */
import { storageFromBytes, tensorFromParts } from '@backwire/tensor/internal';
import type { Tensor } from '@backwire/tensor';
import { elementNamed, type TorchElement } from './dtypes.ts';
import { PyComplex } from './numbers.ts';
import { OpaqueTensor, bytewise, type TensorLike } from './opaque-tensor.ts';

/** An array that Python takes as a numpy.ndarray rather than a torch.Tensor. */
export class NumpyArray {
  readonly tensor: TensorLike;

  constructor(tensor: TensorLike) {
    this.tensor = tensor;
  }
}

/** A number that Python takes as one of numpy's: `dtype` is 'float32'. */
export class NumpyScalar {
  readonly dtype: string;
  readonly value: number | bigint | boolean | PyComplex;

  constructor(dtype: string, value: number | bigint | boolean | PyComplex) {
    this.dtype = dtype;
    this.value = value;
  }
}

/** numpy's code ('f4') of each element type that both have. */
const CODES: ReadonlyMap<string, string> = new Map([
  ['float32', 'f4'],
  ['float64', 'f8'],
  ['float16', 'f2'],
  ['int64', 'i8'],
  ['int32', 'i4'],
  ['int16', 'i2'],
  ['int8', 'i1'],
  ['uint8', 'u1'],
  ['uint16', 'u2'],
  ['uint32', 'u4'],
  ['uint64', 'u8'],
  ['bool', 'b1'],
  ['complex64', 'c8'],
  ['complex128', 'c16'],
]);
const byCode = new Map([...CODES].map(([name, code]) => [code, elementNamed(name) as TorchElement]));

/** The code of an element type, or undefined: numpy has no bfloat16. */
export function numpyCode(name: string): string | undefined {
  return CODES.get(name);
}

/** The element type of a code, or undefined. */
export function numpyElement(code: string): TorchElement | undefined {
  return byCode.get(code);
}

/** A tensor over bytes that it takes over; the bytes are as many as its elements need. */
export function tensorOverBytes(
  element: TorchElement,
  bytes: Uint8Array,
  shape: readonly number[],
  strides: readonly number[],
): TensorLike {
  const storage = storageFromBytes(bytes);
  if (element.dtype !== undefined) return tensorFromParts({ storage, dtype: element.dtype, shape, strides, offset: 0 });
  const view = tensorFromParts({ storage, ...bytewise({ shape, strides, offset: 0 }, element.bytes) });
  return new OpaqueTensor(element.name, view as Tensor<'uint8'>);
}

/** How a DataView calls the numbers of each element type that it has. */
const VIEWED: Readonly<
  Record<string, 'Float32' | 'Float64' | 'Int16' | 'Uint16' | 'Int32' | 'Uint32' | 'BigInt64' | 'BigUint64'>
> = {
  float32: 'Float32',
  float64: 'Float64',
  int64: 'BigInt64',
  uint64: 'BigUint64',
  int32: 'Int32',
  uint32: 'Uint32',
  int16: 'Int16',
  uint16: 'Uint16',
};

/** The number in the bytes of one element. */
export function scalarOf({ name }: TorchElement, bytes: Uint8Array): NumpyScalar['value'] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const viewed = VIEWED[name];
  if (viewed !== undefined) return view[`get${viewed}`](0, true);
  if (name === 'complex64') return new PyComplex(view.getFloat32(0, true), view.getFloat32(4, true));
  if (name === 'complex128') return new PyComplex(view.getFloat64(0, true), view.getFloat64(8, true));
  if (name === 'int8') return view.getInt8(0);
  return name === 'bool' ? view.getUint8(0) !== 0 : view.getUint8(0);
}

/** The bytes of a scalar, as `scalarOf` reads them. */
export function scalarBytes({ dtype, value }: NumpyScalar): Uint8Array {
  const element = elementNamed(dtype);
  if (element === undefined) throw new TypeError(`numpy has no ${dtype}`);
  const bytes = new Uint8Array(element.bytes);
  const view = new DataView(bytes.buffer);
  if (value instanceof PyComplex) {
    if (element.bytes === 8) {
      view.setFloat32(0, value.real, true);
      view.setFloat32(4, value.imag, true);
    } else {
      view.setFloat64(0, value.real, true);
      view.setFloat64(8, value.imag, true);
    }
  } else if (typeof value === 'bigint') view.setBigUint64(0, BigInt.asUintN(64, value), true);
  else setNumber(view, dtype, Number(value));
  return bytes;
}

function setNumber(view: DataView, dtype: string, value: number): void {
  if (dtype === 'float32') view.setFloat32(0, value, true);
  else if (dtype === 'float64') view.setFloat64(0, value, true);
  else if (dtype === 'int64' || dtype === 'uint64') view.setBigUint64(0, BigInt.asUintN(64, BigInt(value)), true);
  else if (view.byteLength === 4) view.setUint32(0, value, true);
  else if (view.byteLength === 2) view.setUint16(0, value, true);
  else view.setUint8(0, value);
}
