/** @file Element-by-element operations: arithmetic, comparison, and the functions of one argument. */
import { backendFor, KERNEL_RANK, runKernel } from './kernels.ts';
import { cast, decode, dtypes, encode, isDifferentiable, type DType, type NumberArray } from '../dtype.ts';
import { fromArray, readArray } from '../host.ts';
import { broadcastShapes, sameShape, sizeOf, type Shape } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { forEachRow, mergedShapes } from './broadcast.ts';
import { complexBinary, complexUnary } from './complex.ts';
import { divisionByZero, int64Binary, int64Unary } from './int64.ts';
import { binaryLoops, unaryLoops, type BinaryLoop, type BinaryName, type UnaryName } from './loops.ts';
import { resultDType } from './promotion.ts';
import { isHalf } from '../precision.ts';

/** Device kernels by operation, for float32. */
const KERNELS: Readonly<Partial<Record<BinaryName | UnaryName, string>>> = {
  add: 'Add',
  sub: 'Sub',
  mul: 'Multiply',
  div: 'RealDiv',
  maximum: 'Maximum',
  minimum: 'Minimum',
  reciprocal: 'Reciprocal',
  neg: 'Neg',
  abs: 'Abs',
  exp: 'Exp',
  log: 'Log',
  sqrt: 'Sqrt',
  rsqrt: 'Rsqrt',
  square: 'Square',
  relu: 'Relu',
  sigmoid: 'Sigmoid',
  tanh: 'Tanh',
};

const COMPARISONS: ReadonlySet<string> = new Set<BinaryName>([
  'eq',
  'ne',
  'lt',
  'le',
  'gt',
  'ge',
  'logicalAnd',
  'logicalOr',
  'logicalXor',
]);
/** Operations that leave the integers. */
const TO_FLOAT: ReadonlySet<string> = new Set<BinaryName>(['div', 'atan2']);
/** In half precision, operations whose operand without dimensions is not rounded first: so it is in PyTorch. */
const UNROUNDED: ReadonlySet<string> = new Set<BinaryName>(['mul', 'div', 'floorDivide']);

/** Whether a number beside `a` counts as it is, not as `a`'s dtype would hold it. */
export function takesExact(name: BinaryName, a: Tensor, b: Tensor | number): boolean {
  if (typeof b !== 'number' || a.dtype === 'float32') return false;
  return isHalf(a.dtype) ? UNROUNDED.has(name) : TO_FLOAT.has(name);
}

/** An array to compute into, and its dtype's own form afterwards. */
function workArray(dtype: DType, n: number): NumberArray {
  switch (dtype) {
    case 'float64':
    case 'int64':
      return new Float64Array(n);
    case 'int32':
      return new Int32Array(n);
    case 'int16':
      return new Int16Array(n);
    case 'int8':
      return new Int8Array(n);
    case 'uint8':
    case 'bool':
      return new Uint8Array(n);
    default:
      return new Float32Array(n);
  }
}

/** The elements of `t` as numbers, converted to `dtype` first where that changes their values. */
function numbersAs(t: Tensor, dtype: DType): NumberArray {
  const array = readArray(t);
  return t.dtype === dtype ? decode(array, dtype) : decode(cast(array, t.dtype, dtype), dtype);
}

/** What operands are converted to. */
function operandDType(name: BinaryName, t: Tensor, dtype: DType): DType {
  return t.rank === 0 && isHalf(dtype) && UNROUNDED.has(name) ? 'float32' : dtype;
}

/** Computes a binary operation; operands broadcast and promote. Records nothing. */
export function binary(name: BinaryName, a: Tensor, b: Tensor): Tensor {
  const compares = COMPARISONS.has(name);
  let dtype = resultDType(a, b);
  if (!isDifferentiable(dtype) && TO_FLOAT.has(name)) dtype = 'float32';
  const out: DType = compares ? 'bool' : dtype;
  const shape = sameShape(a.shape, b.shape) ? a.shape : broadcastShapes(a.shape, b.shape);
  const size = sizeOf(shape);
  if (dtype === 'complex64') return complexBinary(name, a, b, shape);
  // Not the dtype of the result alone: integers meet in float32, too, and are not laid out as kernels read them.
  if (a.dtype === 'float32' && b.dtype === 'float32') {
    const computed = binaryOnDevice(name, a, b, shape, size);
    if (computed !== undefined) return computed;
  }
  if (dtype === 'int64') {
    const exact = int64Binary(name, int64Of(a), a.shape, int64Of(b), b.shape, shape);
    if (exact !== undefined) return fromArray(exact, out, shape);
  }
  const numbers = binaryNumbers(name, a, b, shape, size, dtype, compares ? 'uint8' : out);
  return fromArray(compares ? numbers : encode(numbers, out), out, shape);
}

/** The result of the device's kernel, where there is one that pays and takes as many dimensions. */
function binaryOnDevice(name: BinaryName, a: Tensor, b: Tensor, shape: Shape, size: number): Tensor | undefined {
  const kernel = KERNELS[name];
  if (kernel === undefined || size === 0) return undefined;
  const backend = backendFor(kernel, a.size === size && b.size === size ? 'elementwise' : 'broadcast', size);
  if (backend === undefined) return undefined;
  if (shape.length <= KERNEL_RANK) return runKernel(backend, kernel, { a, b }, {}, 'float32', shape);
  const seen = mergedShapes(a.shape, b.shape, shape);
  if (seen.a.length > KERNEL_RANK) return undefined;
  return runKernel(backend, kernel, { a, b }, {}, 'float32', shape, seen);
}

function binaryNumbers(
  name: BinaryName,
  a: Tensor,
  b: Tensor,
  shape: readonly number[],
  size: number,
  dtype: DType,
  out: DType,
): NumberArray {
  // bool + bool is a logical or: compute wide, store as 0 and 1.
  const work = workArray(out === 'bool' ? 'int32' : out, size);
  const x = numbersAs(a, operandDType(name, a, dtype));
  const y = numbersAs(b, operandDType(name, b, dtype));
  const loop = dtypes[dtype].kind === 'float' ? binaryLoops[name] : integerLoop(name, dtype, y);
  if (a.size === size && b.size === size) loop(x, 0, 1, y, 0, 1, work, 0, size);
  else if (a.size === size && b.size === 1) loop(x, 0, 1, y, 0, 0, work, 0, size);
  else forEachRow(a.shape, b.shape, shape, (ia, sa, ib, sb, io, n) => loop(x, ia, sa, y, ib, sb, work, io, n));
  return work;
}

/** The loop for integers up to 32 bits, whose products doubles would round where they overflow. */
function integerLoop(name: BinaryName, dtype: DType, divisors: NumberArray): BinaryLoop {
  if ((name === 'floorDivide' || name === 'remainder') && divisors.includes(0)) throw divisionByZero();
  if (name === 'mul' && dtype === 'int32') return binaryLoops.mulInt32;
  return name === 'pow' && dtype !== 'bool' ? binaryLoops.powInt32 : binaryLoops[name];
}

function int64Of(t: Tensor): BigInt64Array {
  return cast(readArray(t), t.dtype, 'int64') as BigInt64Array;
}

/** Functions that keep integers as they are. */
const INTEGRAL: ReadonlySet<string> = new Set<UnaryName>([
  'neg',
  'abs',
  'sign',
  'square',
  'relu',
  'floor',
  'ceil',
  'round',
  'trunc',
]);
const PREDICATES: ReadonlySet<string> = new Set<UnaryName>(['logicalNot', 'isNaN', 'isInf', 'isFinite']);

/** What a function makes of integers and bool: squares count. */
function wholeResult(name: UnaryName, dtype: DType): DType {
  if (!INTEGRAL.has(name)) return 'float32';
  return name === 'square' && dtype === 'bool' ? 'int64' : dtype;
}

/** Computes a function of each element. Records nothing. */
export function unary(name: UnaryName, t: Tensor): Tensor {
  const predicate = PREDICATES.has(name);
  if (t.dtype === 'complex64') return complexUnary(name, t);
  const dtype = predicate ? 'bool' : isDifferentiable(t.dtype) ? t.dtype : wholeResult(name, t.dtype);
  const kernel = KERNELS[name];
  if (kernel !== undefined && t.dtype === 'float32' && t.size > 0) {
    const backend = backendFor(kernel, 'elementwise', t.size);
    const seen = t.rank > KERNEL_RANK ? { x: [t.size] } : undefined;
    if (backend !== undefined) return runKernel(backend, kernel, { x: t }, {}, 'float32', t.shape, seen);
  }
  if (t.dtype === 'int64') {
    const exact = int64Unary(name, readArray(t) as BigInt64Array);
    if (exact !== undefined) return fromArray(exact, 'int64', t.shape);
  }
  const work = workArray(dtype === 'bool' ? 'uint8' : dtype, t.size);
  const loop = t.dtype === 'int32' && name === 'square' ? unaryLoops.squareInt32 : unaryLoops[name];
  loop(decode(readArray(t), t.dtype), work, t.size);
  return fromArray(encode(work, dtype), dtype, t.shape);
}
