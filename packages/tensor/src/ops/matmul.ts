/** @file Matrix products, batched and broadcast. */
import { argument, freeArguments, isDeviceDType, lent, backendFor, type Argument } from './kernels.ts';
import type { Backend } from '../backends/backend.ts';
import { zeros } from '../creation.ts';
import { relieveDevice } from '../device-memory.ts';
import { decode, dtypes, encode, isDifferentiable, type NumberArray } from '../dtype.ts';
import { ShapeError } from '../errors.ts';
import { noProduct } from './unfit.ts';
import { fromArray, over, rawTranspose, readArray } from '../host.ts';
import { named } from '../named.ts';
import { factorFor } from '../range.ts';
import { sweep } from '../scope.ts';
import { broadcastShapes, checkCount, checkWithin, sizeOf, type Shape } from '../shape.ts';
import { Storage } from '../storage.ts';
import type { Tensor } from '../tensor.ts';
import { joined, part } from './complex-parts.ts';
import { defineOp } from './define.ts';
import { binary } from './elementwise.ts';
import { multiply } from './gemm.ts';
import { fitsDoubles, multiplyInt32, multiplyInt64 } from './int64-reduce.ts';
import { apply } from './op.ts';
import { scalar } from './promotion.ts';
import { where } from './where.ts';
import { check, NUMBER, same } from './takes.ts';
import { alike, inFloat32 } from './widen.ts';
import { checkOptionNames } from '../option-names.ts';

const ADDMM_OPTIONS: ReadonlySet<string> = new Set(['alpha', 'beta']);

/** Which operands lie column by column: their gradients are made that way too, as in PyTorch, so that none is turned around later. */
export interface ProductAttrs {
  readonly columns: readonly [a: boolean, b: boolean];
}

const takes = same(NUMBER);

function checkInner(name: string, a: Tensor, b: Tensor): void {
  if (a.shape[1] !== b.shape[0]) throw new ShapeError(`${name}: ${noProduct(a.shape, b.shape)}`);
}

/** [m, k] times [k, n]. */
const mmOp = defineOp<ProductAttrs>('mm', takes, ([a, b]) => productOf(a, b));

/** [..., m, k] times [..., k, n] with equal batch dimensions. */
const bmmOp = defineOp<ProductAttrs>('bmm', takes, ([a, b]) => productOf(a, b));

function productOf(x: Tensor, y: Tensor): Tensor {
  if (x.dtype === 'complex64') return productOfParts(x, y);
  const batch = x.shape.slice(0, -2);
  const [m, k] = x.shape.slice(-2) as [number, number];
  const n = y.shape.at(-1) as number;
  const shape = [...batch, m, n];
  checkCount(shape);
  const count = sizeOf(batch);
  const work = count * m * k * n;
  if (x.dtype === 'float32' && isDeviceDType(y.dtype) && work > 0) {
    const backend = backendFor('BatchMatMul', 'matmul', work);
    if (backend !== undefined) return onDevice(backend, x, y, shape);
  }
  if (x.dtype === 'int64') return fromArray(onHostInt64(x, y, count, m, k, n), 'int64', shape);
  return fromArray(encode(onHost(x, y, count, m, k, n), x.dtype), x.dtype, shape);
}

/** A complex product as four real ones, which devices have kernels for. */
function productOfParts(x: Tensor, y: Tensor): Tensor {
  return sweep(() => {
    const [a, b, c, d] = [part(x, 0), part(x, 1), part(y, 0), part(y, 1)];
    const re = binary('sub', productOf(a, c), productOf(b, d));
    return joined(re, binary('add', productOf(a, d), productOf(b, c)));
  });
}

function onHost(x: Tensor, y: Tensor, count: number, m: number, k: number, n: number): NumberArray {
  const a = decode(readArray(x), x.dtype);
  const b = decode(readArray(y), y.dtype);
  const integers = dtypes[x.dtype].kind === 'int';
  const double = x.dtype === 'float64' || x.dtype === 'int64';
  const Out = double ? Float64Array : integers ? Int32Array : Float32Array;
  const out = new Out(count * m * n);
  const product = integers && !double ? multiplyInt32 : multiply;
  for (let i = 0; i < count; i++) {
    product(
      a.subarray(i * m * k, (i + 1) * m * k),
      b.subarray(i * k * n, (i + 1) * k * n),
      out.subarray(i * m * n, (i + 1) * m * n),
      m,
      k,
      n,
    );
  }
  return out;
}

/** In double precision where that is exact, which is five times as fast. */
function onHostInt64(x: Tensor, y: Tensor, count: number, m: number, k: number, n: number): BigInt64Array {
  const a = readArray(x) as BigInt64Array;
  const b = readArray(y) as BigInt64Array;
  if (fitsDoubles(decode(a, 'int64'), decode(b, 'int64'), k)) return encode(onHost(x, y, count, m, k, n), 'int64');
  const out = new BigInt64Array(count * m * n);
  for (let i = 0; i < count; i++) {
    const [left, right] = [a.subarray(i * m * k, (i + 1) * m * k), b.subarray(i * k * n, (i + 1) * k * n)];
    multiplyInt64(left, right, out.subarray(i * m * n, (i + 1) * m * n), m, k, n);
  }
  return out;
}

/** Whether the last two dimensions are those of a contiguous tensor, swapped. */
function isTransposed(t: Tensor): boolean {
  const { rank, shape, strides } = t;
  const rows = shape[rank - 2] as number;
  if (strides[rank - 2] !== 1 || strides[rank - 1] !== rows || t.isContiguous) return false;
  let step = rows * (shape[rank - 1] as number);
  for (let d = rank - 3; d >= 0; d--) {
    if (shape[d] !== 1 && strides[d] !== step) return false;
    step *= shape[d] as number;
  }
  return true;
}

function onDevice(backend: Backend, x: Tensor, y: Tensor, shape: Shape): Tensor {
  relieveDevice();
  const transposeA = isTransposed(x);
  const transposeB = isTransposed(y);
  const borrowed: Argument[] = [];
  try {
    const a = borrow(backend, x, transposeA, borrowed);
    const b = borrow(backend, y, transposeB, borrowed);
    const device = backend.run('BatchMatMul', { a: flat(a), b: flat(b) }, { transposeA, transposeB });
    return over(new Storage({ device, backend }), 'float32', shape);
  } finally {
    freeArguments(backend, borrowed);
  }
}

/** `t`, or its transpose where the kernel transposes it back. */
function borrow(backend: Backend, t: Tensor, transposed: boolean, borrowed: Argument[]): Argument {
  const source = transposed ? rawTranspose(t) : t;
  const tensor = lent(backend, source) ?? argument(backend, source);
  if (transposed) source.release();
  borrowed.push(tensor);
  return tensor;
}

/** Kernels take at least two dimensions, and batches most cheaply as one. */
function flat(t: Argument): Argument {
  if (t.shape.length <= 3) return t;
  return { ...t, shape: [sizeOf(t.shape.slice(0, -2)), ...t.shape.slice(-2)] };
}

/**
 * The matrix product by PyTorch's rules: vectors are rows or columns as needed, leading dimensions are batches that broadcast.
 * @param a [..., n, m], or a vector [m]
 * @param b [..., m, k], or a vector [m]
 * @throws ShapeError when inner sizes differ, DTypeError when dtypes do.
 * @example
 * ```ts
 * console.log(matmul(ones([2, 3]), ones([3, 4])).shape, matmul(ones([3]), ones([3])).item()); // [ 2, 4 ] 3
 * ```
 */
export const matmul = named('aten::matmul', (a: Tensor, b: Tensor): Tensor => {
  if (a.sparse !== undefined) return sparseProduct(a, b);
  if (b.sparse !== undefined) return matmul(a, b.toDense());
  if (a.rank === 0 || b.rank === 0) throw new ShapeError('both arguments to matmul need to be at least 1D');
  check('matmul', takes, [a, b]);
  const x = a.rank === 1 ? a.unsqueeze(0) : a;
  const y = b.rank === 1 ? b.unsqueeze(1) : b;
  if (x.shape.at(-1) !== y.shape.at(-2)) throw new ShapeError(noProduct(x.shape, y.shape));
  let out = product(x, y);
  if (a.rank === 1) out = out.squeeze(-2);
  if (b.rank === 1) out = out.squeeze(-1);
  return out;
});

/** The product of a sparse matrix: what it has no entry for counts as nothing, also beside what is infinite. */
function sparseProduct(a: Tensor, b: Tensor): Tensor {
  const dense = (): Tensor => matmul(a.toDense(), b);
  const matrices = a.sparse?.indices.shape[0] === 2 && a.rank === 2 && b.rank === 2 && b.sparse === undefined;
  if (!matrices || a.dtype !== b.dtype || a.shape[1] !== b.shape[0]) return dense();
  if (!isDifferentiable(b.dtype) || b.detach().isFinite().all().item() !== 0) return dense();
  return sweep(() => {
    const own = a.coalesce();
    const [rows, columns] = [own.indices().select(0, 0), own.indices().select(0, 1)];
    const terms = own.values().unsqueeze(1).mul(b.indexSelect(0, columns));
    return zeros([a.shape[0] as number, b.shape[1] as number], { dtype: b.dtype }).indexAdd(0, rows, terms);
  });
}

function product(x: Tensor, y: Tensor): Tensor {
  if (x.rank === 2 && y.rank === 2) return multiplied(x, y);
  const [k, n] = y.shape.slice(-2) as [number, number];
  if (y.rank === 2) {
    // One matrix for every batch: a single taller product.
    const rows = x.reshape([sizeOf(x.shape.slice(0, -1)), k]);
    return multiplied(rows, y).reshape([...x.shape.slice(0, -1), n]);
  }
  const batch = broadcastShapes(x.shape.slice(0, -2), y.shape.slice(0, -2));
  return multiplied(x.expand([...batch, ...x.shape.slice(-2)]), y.expand([...batch, k, n]));
}

function multiplied(x: Tensor, y: Tensor): Tensor {
  return apply(x.rank === 2 ? mmOp : bmmOp, [x, y], { columns: [isTransposed(x), isTransposed(y)] });
}

/** Batches of matrices [b, m, k] and [b, k, n]. */
export const bmm = named('aten::bmm', (a: Tensor, b: Tensor): Tensor => {
  check('bmm', takes, [a, b]);
  if (a.rank !== 3 || b.rank !== 3) throw new ShapeError('batch1 and batch2 must be 3D tensors');
  const [count, , inner] = a.shape as [number, number, number];
  if (b.shape[0] !== count || b.shape[1] !== inner) {
    throw new ShapeError(
      `Expected size for first two dimensions of batch2 tensor to be: [${count}, ${inner}] but got: [${b.shape.slice(0, 2).join(', ')}].`,
    );
  }
  return matmul(a, b);
});

/** [m, k] times [k, n]. */
export const mm = named('aten::mm', (a: Tensor, b: Tensor): Tensor => {
  check('mm', takes, [a, b]);
  if (a.rank !== 2 || b.rank !== 2) throw new ShapeError('mm: both arguments must be 2D');
  checkInner('mm', a, b);
  return matmul(a, b);
});

/** The inner product of two vectors. */
export const dot = named('aten::dot', (a: Tensor, b: Tensor): Tensor => {
  check('dot', takes, [a, b]);
  if (a.rank !== 1 || b.rank !== 1)
    throw new ShapeError(`1D tensors expected, but got ${a.rank}D and ${b.rank}D tensors`);
  if (a.size !== b.size)
    throw new ShapeError(
      `dot: inconsistent tensor size, expected tensors to have the same number of elements, but got ${a.size} and ${b.size}`,
    );
  return matmul(a, b);
});

/**
 * beta input + alpha (a b), all of one dtype; fractions of the factors are cut off for integers, which refuse those out of their range.
 * What a factor of zero stands before counts for nothing, NaN and infinities included.
 */
export const addmm = named(
  'aten::addmm',
  (input: Tensor, a: Tensor, b: Tensor, options: { alpha?: number; beta?: number } = {}): Tensor => {
    checkOptionNames(options, ADDMM_OPTIONS, 'addmm()');
    check('addmm', takes, [input, a, b]);
    const [alpha, beta] = [factorFor(options.alpha, input.dtype), factorFor(options.beta, input.dtype)];
    if (a.rank !== 2 || b.rank !== 2)
      throw new ShapeError(`addmm: expected matrices, got [${a.shape.join(', ')}] and [${b.shape.join(', ')}]`);
    checkInner('addmm', a, b);
    checkWithin('addmm: input', input.shape, [a.shape[0] as number, b.shape[1] as number]);
    return inFloat32(a, (x) => {
      const product = mm(x, alike(b, a, x));
      const left = scaled(input, beta).expand(product.shape);
      return scaled(product, alpha).add(left);
    });
  },
);

function scaled(t: Tensor, factor: number): Tensor {
  if (factor === 1) return t;
  return factor === 0 ? where(scalar(1, 'bool'), 0, t) : t.mul(factor);
}
