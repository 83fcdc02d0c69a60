/** @file Linear algebra on batches of square matrices: inverse, determinant, solve, Cholesky. Computed in double precision. */
import { onesLike, tensor } from '../creation.ts';
import { decode, encode } from '../dtype.ts';
import { ShapeError, TensorError } from '../errors.ts';
import { fromArray, readArray } from '../host.ts';
import { named } from '../named.ts';
import { broadcastShapes, sameShape, sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { defineOp } from './define.ts';
import { concat } from './join.ts';
import { apply } from './op.ts';
import { each, PRECISE, same } from './takes.ts';

function square(t: Tensor, name: string): number {
  const [rows, columns] = t.shape.slice(-2);
  if (rows === undefined || columns === undefined)
    throw new ShapeError(`${name}: A must have at least 2 dimensions, but has shape [${t.shape.join(', ')}]`);
  if (rows !== columns)
    throw new ShapeError(`${name}: A must be batches of square matrices, but they are ${rows} by ${columns} matrices`);
  return rows;
}

interface LU {
  /** L below the diagonal (its own is 1), U on and above. */
  readonly lu: Float64Array;
  readonly order: Int32Array;
  readonly sign: number;
}

/** Gaussian elimination with row exchanges. A zero pivot is left in place: the matrix is singular. */
function decompose(a: Float64Array, n: number): LU {
  const lu = a.slice();
  const order = Int32Array.from({ length: n }, (_, i) => i);
  let sign = 1;
  for (let k = 0; k < n; k++) {
    let pivot = k;
    for (let i = k + 1; i < n; i++)
      if (Math.abs(lu[i * n + k] as number) > Math.abs(lu[pivot * n + k] as number)) pivot = i;
    if (pivot !== k) {
      for (let j = 0; j < n; j++)
        [lu[k * n + j], lu[pivot * n + j]] = [lu[pivot * n + j] as number, lu[k * n + j] as number];
      [order[k], order[pivot]] = [order[pivot] as number, order[k] as number];
      sign = -sign;
    }
    const top = lu[k * n + k] as number;
    if (top === 0) continue;
    for (let i = k + 1; i < n; i++) {
      const factor = (lu[i * n + k] = (lu[i * n + k] as number) / top);
      for (let j = k + 1; j < n; j++) lu[i * n + j] = (lu[i * n + j] as number) - factor * (lu[k * n + j] as number);
    }
  }
  return { lu, order, sign };
}

/** X with A X = B for one matrix; B has m columns. */
function solveWith({ lu, order }: LU, b: Float64Array, n: number, m: number, name: string): Float64Array {
  const x = new Float64Array(n * m);
  for (let i = 0; i < n; i++) {
    if (lu[i * n + i] === 0) {
      throw new TensorError(
        `${name}: The diagonal element ${i + 1} is zero, the solver could not be completed because the input matrix is singular.`,
      );
    }
    const row = order[i] as number;
    for (let c = 0; c < m; c++) {
      let v = b[row * m + c] as number;
      for (let j = 0; j < i; j++) v -= (lu[i * n + j] as number) * (x[j * m + c] as number);
      x[i * m + c] = v;
    }
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let c = 0; c < m; c++) {
      let v = x[i * m + c] as number;
      for (let j = i + 1; j < n; j++) v -= (lu[i * n + j] as number) * (x[j * m + c] as number);
      x[i * m + c] = v / (lu[i * n + i] as number);
    }
  }
  return x;
}

/** Float64 copies of each matrix of a batch. */
function matrices(t: Tensor, n: number, m: number): Float64Array[] {
  const values = decode(readArray(t), t.dtype);
  const count = sizeOf(t.shape.slice(0, -2));
  return Array.from({ length: count }, (_, i) => Float64Array.from(values.subarray(i * n * m, (i + 1) * n * m)));
}

function join(parts: readonly Float64Array[], each: number): Float64Array {
  const out = new Float64Array(parts.length * each);
  parts.forEach((part, i) => out.set(part, i * each));
  return out;
}

const solveOp = defineOp(['solve', 'linalg_solve'], same(PRECISE), ([left, right]) => {
  const n = left.shape.at(-1) as number;
  const m = right.shape.at(-1) as number;
  const rights = matrices(right, n, m);
  const solved = matrices(left, n, n).map((matrix, i) =>
    solveWith(decompose(matrix, n), rights[i] as Float64Array, n, m, 'solve'),
  );
  return fromArray(encode(join(solved, n * m), right.dtype), right.dtype, right.shape);
});

/**
 * X with A X = B: A [..., n, n], B [..., n, m], or a vector [n], or one for each matrix, which B of the shape [..., n] of A is taken for.
 * Throws TensorError for a singular matrix.
 */
export const solve = named('aten::linalg_solve', (a: Tensor, b: Tensor): Tensor => {
  const n = square(a, 'solve');
  if (b.rank === 0) throw new ShapeError('solve: B must have at least 1 dimension');
  const vectors = b.rank === 1 || sameShape(b.shape, a.shape.slice(0, -1));
  const right = vectors ? b.unsqueeze(-1) : b;
  if (right.shape.at(-2) !== n) throw new ShapeError(`solve: B has ${right.shape.at(-2) ?? 0} rows, A ${n}`);
  const batch = broadcastShapes(a.shape.slice(0, -2), right.shape.slice(0, -2));
  const x = apply(
    solveOp,
    [a.expand([...batch, n, n]), right.expand([...batch, n, right.shape.at(-1) as number])],
    undefined,
  );
  return vectors ? x.squeeze(-1) : x;
});

const inverseOp = defineOp(['inverse', 'linalg_inv'], each(PRECISE), ([input]) => {
  const n = input.shape.at(-1) as number;
  const eye = new Float64Array(n * n);
  for (let i = 0; i < n; i++) eye[i * n + i] = 1;
  const out = matrices(input, n, n).map((matrix) => solveWith(decompose(matrix, n), eye, n, n, 'inverse'));
  return fromArray(encode(join(out, n * n), input.dtype), input.dtype, input.shape);
});

/** The inverse of each matrix. Throws TensorError for a singular one. */
export const inverse = named('aten::linalg_inv', (t: Tensor): Tensor => {
  square(t, 'inverse');
  return apply(inverseOp, [t], undefined);
});

const detOp = defineOp(['det', 'linalg_det'], each(PRECISE), ([input]) => {
  const n = input.shape.at(-1) as number;
  const out = matrices(input, n, n).map((matrix) => {
    const { lu, sign } = decompose(matrix, n);
    let product = sign;
    for (let i = 0; i < n; i++) product *= lu[i * n + i] as number;
    return product;
  });
  return fromArray(encode(Float64Array.from(out), input.dtype), input.dtype, input.shape.slice(0, -2));
});

/** The determinant of each matrix. */
export const det = named('aten::linalg_det', (t: Tensor): Tensor => {
  square(t, 'det');
  return apply(detOp, [t], undefined);
});

/** The signed minors of each matrix [..., n, n], made of n² determinants: differentiable, and defined where no inverse is. */
export function cofactors(t: Tensor): Tensor {
  const n = t.shape.at(-1) as number;
  if (n === 1) return onesLike(t);
  const others = Array.from({ length: n }, (_, skip) =>
    tensor(
      Array.from({ length: n - 1 }, (_, i) => BigInt(i < skip ? i : i + 1)),
      { dtype: 'int64' },
    ),
  );
  const minors: Tensor[] = [];
  others.forEach((rows, i) => {
    const band = t.indexSelect(-2, rows);
    others.forEach((columns, j) => {
      const minor = det(band.indexSelect(-1, columns)).unsqueeze(-1);
      minors.push((i + j) % 2 === 0 ? minor : minor.neg());
    });
  });
  return concat(minors, -1).reshape(t.shape);
}

const choleskyOp = defineOp(['cholesky', 'linalg_cholesky'], each(PRECISE), ([input]) => {
  const n = input.shape.at(-1) as number;
  const out = matrices(input, n, n).map((a) => factor(a, n));
  return fromArray(encode(join(out, n * n), input.dtype), input.dtype, input.shape);
});

function factor(a: Float64Array, n: number): Float64Array {
  const l = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let v = a[i * n + j] as number;
      for (let k = 0; k < j; k++) v -= (l[i * n + k] as number) * (l[j * n + k] as number);
      if (i !== j) l[i * n + j] = v / (l[j * n + j] as number);
      else if (v > 0) l[i * n + i] = Math.sqrt(v);
      else {
        throw new TensorError(
          `cholesky: The factorization could not be completed because the input is not positive-definite (the leading minor of order ${i + 1} is not positive-definite).`,
        );
      }
    }
  }
  return l;
}

/** The lower triangular L with L L^T = A, for symmetric positive definite matrices. */
export const cholesky = named('aten::linalg_cholesky', (t: Tensor): Tensor => {
  square(t, 'cholesky');
  return apply(choleskyOp, [t], undefined);
});
