/** @file Factorisations of batches of matrices: qr, eigh, svd, and the logarithm of determinants. Computed in double precision. */
import { decode, encode } from '../dtype.ts';
import { ShapeError } from '../errors.ts';
import { fromArray, readArray } from '../host.ts';
import { sweep } from '../scope.ts';
import { sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { defineFunction, defineOp } from './define.ts';
import { det } from './linalg.ts';
import { apply } from './op.ts';
import { where } from './where.ts';
import { each, PRECISE } from './takes.ts';

/** Each matrix of a batch, [m, n], as float64. */
function matricesOf(t: Tensor): { list: Float64Array[]; m: number; n: number; batch: readonly number[] } {
  const [m, n] = t.shape.slice(-2) as [number, number];
  const batch = t.shape.slice(0, -2);
  const values = decode(readArray(t), t.dtype);
  const list = Array.from({ length: sizeOf(batch) }, (_, i) =>
    Float64Array.from(values.subarray(i * m * n, (i + 1) * m * n)),
  );
  return { list, m, n, batch };
}

function packed(parts: readonly Float64Array[], like: Tensor, batch: readonly number[], length: number): Tensor {
  const out = new Float64Array(parts.length * length);
  parts.forEach((part, i) => out.set(part, i * length));
  return fromArray(encode(out, like.dtype), like.dtype, [...batch, length]);
}

/** Parts of a packed result: `sizes` are shapes behind the batch. */
export function unpacked(t: Tensor, shapes: readonly (readonly number[])[]): Tensor[] {
  const batch = t.shape.slice(0, -1);
  let at = 0;
  return shapes.map((shape) => {
    const length = sizeOf(shape);
    const part = t.narrow(-1, at, length).reshape([...batch, ...shape]);
    at += length;
    return part;
  });
}

function matrixRank(t: Tensor, name: string): void {
  if (t.rank < 2)
    throw new ShapeError(
      `${name}: The input tensor A must have at least 2 dimensions, but has shape [${t.shape.join(', ')}]`,
    );
}

function squareOnly(t: Tensor, name: string): void {
  matrixRank(t, name);
  const [m, n] = t.shape.slice(-2);
  if (m !== n)
    throw new ShapeError(
      `${name}: A must be batches of square matrices, but they are ${m as number} by ${n as number} matrices`,
    );
}

/** Householder's reflections (Golub & Van Loan, algorithm 5.2.1): a becomes R, q the product of the reflections. */
function householder(a: Float64Array, m: number, n: number): Float64Array {
  const q = new Float64Array(m * m);
  for (let i = 0; i < m; i++) q[i * m + i] = 1;
  for (let k = 0; k < Math.min(m - 1, n); k++) {
    let size = 0;
    for (let i = k + 1; i < m; i++) size += (a[i * n + k] as number) ** 2;
    const head = a[k * n + k] as number;
    // As LAPACK: a column that is zero below its head is left as it is.
    if (size === 0) continue;
    const length = -Math.sign(head || 1) * Math.sqrt(head * head + size);
    const v = new Float64Array(m);
    v[k] = head - length;
    for (let i = k + 1; i < m; i++) v[i] = a[i * n + k] as number;
    const factor = 2 / v.reduce((sum, x) => sum + x * x, 0);
    for (let j = 0; j < n; j++) {
      let dot = 0;
      for (let i = k; i < m; i++) dot += (v[i] as number) * (a[i * n + j] as number);
      for (let i = k; i < m; i++) a[i * n + j] = (a[i * n + j] as number) - factor * dot * (v[i] as number);
    }
    for (let i = 0; i < m; i++) {
      let dot = 0;
      for (let j = k; j < m; j++) dot += (q[i * m + j] as number) * (v[j] as number);
      for (let j = k; j < m; j++) q[i * m + j] = (q[i * m + j] as number) - factor * dot * (v[j] as number);
    }
    for (let i = k + 1; i < m; i++) a[i * n + k] = 0;
  }
  return q;
}

export interface FactorAttrs {
  readonly m: number;
  readonly n: number;
}

const qrOp = defineOp<FactorAttrs>(['qr', 'linalg_qr'], each(PRECISE), ([t], { m, n }) => {
  const { list, batch } = matricesOf(t);
  const k = Math.min(m, n);
  const parts = list.map((a) => {
    const q = householder(a, m, n);
    const out = new Float64Array(m * k + k * n);
    for (let i = 0; i < m; i++) for (let j = 0; j < k; j++) out[i * k + j] = q[i * m + j] as number;
    out.set(a.subarray(0, k * n), m * k);
    return out;
  });
  return packed(parts, t, batch, m * k + k * n);
});

/** Q with orthonormal columns and R upper triangular, Q R = A: [..., m, n] to [..., m, k] and [..., k, n], k the smaller of both. */
export const qr = defineFunction(['qr', 'linalg_qr'], each(PRECISE), (t: Tensor): { q: Tensor; r: Tensor } => {
  matrixRank(t, 'qr');
  const [m, n] = t.shape.slice(-2) as [number, number];
  const k = Math.min(m, n);
  return sweep(() => {
    const [q, r] = unpacked(apply(qrOp, [t], { m, n }), [
      [m, k],
      [k, n],
    ]) as [Tensor, Tensor];
    return { q, r };
  });
});

/** The eigenvalues of a symmetric matrix, ascending, and its eigenvectors as columns, by Jacobi's rotations. */
function jacobi(given: Float64Array, n: number): { values: Float64Array; vectors: Float64Array } {
  const a = given.slice();
  const v = new Float64Array(n * n);
  for (let i = 0; i < n; i++) v[i * n + i] = 1;
  // The lower triangle counts, as in PyTorch.
  for (let i = 0; i < n; i++) for (let j = i + 1; j < n; j++) a[i * n + j] = a[j * n + i] as number;
  for (let sweepCount = 0; sweepCount < 60; sweepCount++) {
    let off = 0;
    let all = 0;
    for (let i = 0; i < n; i++)
      for (let j = 0; j < n; j++) {
        const square = (a[i * n + j] as number) ** 2;
        all += square;
        if (i !== j) off += square;
      }
    if (!(off > all * 1e-32)) break;
    for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) rotate(a, v, n, p, q);
  }
  const order = Array.from({ length: n }, (_, i) => i).sort(
    (i, j) => (a[i * n + i] as number) - (a[j * n + j] as number),
  );
  const vectors = new Float64Array(n * n);
  order.forEach((from, to) => {
    // The sign is open; so that it does not depend on the way there, the largest element is positive.
    let largest = 0;
    for (let i = 0; i < n; i++)
      if (Math.abs(v[i * n + from] as number) > Math.abs(largest) * (1 + 1e-9)) largest = v[i * n + from] as number;
    const sign = largest < 0 ? -1 : 1;
    for (let i = 0; i < n; i++) vectors[i * n + to] = sign * (v[i * n + from] as number);
  });
  return { values: Float64Array.from(order, (i) => a[i * n + i] as number), vectors };
}

function rotate(a: Float64Array, v: Float64Array, n: number, p: number, q: number): void {
  const apq = a[p * n + q] as number;
  if (apq === 0) return;
  const theta = ((a[q * n + q] as number) - (a[p * n + p] as number)) / (2 * apq);
  const t = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
  const c = 1 / Math.sqrt(t * t + 1);
  const s = t * c;
  const turn = (m: Float64Array, i: number, j: number): void => {
    const [x, y] = [m[i] as number, m[j] as number];
    m[i] = c * x - s * y;
    m[j] = s * x + c * y;
  };
  for (let k = 0; k < n; k++) turn(a, k * n + p, k * n + q);
  for (let k = 0; k < n; k++) turn(a, p * n + k, q * n + k);
  for (let k = 0; k < n; k++) turn(v, k * n + p, k * n + q);
}

const eighOp = defineOp<FactorAttrs>(['eigh', 'linalg_eigh'], each(PRECISE), ([t], { n }) => {
  const { list, batch } = matricesOf(t);
  const parts = list.map((a) => {
    const { values, vectors } = jacobi(a, n);
    return Float64Array.from([...values, ...vectors]);
  });
  return packed(parts, t, batch, n + n * n);
});

/** The eigenvalues of symmetric matrices, ascending, and eigenvectors as columns; the sign of a vector is open. Reads the lower triangle. */
export const eigh = defineFunction(
  ['eigh', 'linalg_eigh'],
  each(PRECISE),
  (t: Tensor): { eigenvalues: Tensor; eigenvectors: Tensor } => {
    squareOnly(t, 'eigh');
    const n = t.shape.at(-1) as number;
    return sweep(() => {
      const [eigenvalues, eigenvectors] = unpacked(apply(eighOp, [t], { m: n, n }), [[n], [n, n]]) as [Tensor, Tensor];
      return { eigenvalues, eigenvectors };
    });
  },
);

/** The eigenvalues of symmetric matrices, ascending. */
export const eigvalsh = defineFunction(['eigvalsh', 'linalg_eigvalsh'], each(PRECISE), (t: Tensor): Tensor =>
  sweep(() => eigh(t).eigenvalues),
);

/** One-sided Jacobi (Hestenes 1958): columns are rotated until they are orthogonal; tall matrices. */
function singular(given: Float64Array, m: number, n: number): { u: Float64Array; s: Float64Array; v: Float64Array } {
  const a = given.slice();
  const v = new Float64Array(n * n);
  for (let i = 0; i < n; i++) v[i * n + i] = 1;
  for (let round = 0; round < 60; round++) {
    let turned = false;
    for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) if (orthogonalise(a, v, m, n, p, q)) turned = true;
    if (!turned) break;
  }
  const lengths = Float64Array.from({ length: n }, (_, j) => {
    let sum = 0;
    for (let i = 0; i < m; i++) sum += (a[i * n + j] as number) ** 2;
    return Math.sqrt(sum);
  });
  const order = Array.from({ length: n }, (_, i) => i).sort((i, j) => (lengths[j] as number) - (lengths[i] as number));
  const [u, w] = [new Float64Array(m * n), new Float64Array(n * n)];
  order.forEach((from, to) => {
    const length = lengths[from] as number;
    for (let i = 0; i < m; i++) u[i * n + to] = length === 0 ? 0 : (a[i * n + from] as number) / length;
    for (let i = 0; i < n; i++) w[i * n + to] = v[i * n + from] as number;
  });
  const s = Float64Array.from(order, (j) => lengths[j] as number);
  completed(u, m, n, s);
  return { u, s, v: w };
}

function orthogonalise(a: Float64Array, v: Float64Array, m: number, n: number, p: number, q: number): boolean {
  let [alpha, beta, gamma] = [0, 0, 0];
  for (let i = 0; i < m; i++) {
    const [x, y] = [a[i * n + p] as number, a[i * n + q] as number];
    alpha += x * x;
    beta += y * y;
    gamma += x * y;
  }
  if (!(Math.abs(gamma) > 1e-16 * Math.sqrt(alpha * beta))) return false;
  const zeta = (beta - alpha) / (2 * gamma);
  const t = (zeta >= 0 ? 1 : -1) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta));
  const c = 1 / Math.sqrt(1 + t * t);
  const s = c * t;
  for (const [rows, matrix] of [
    [m, a],
    [n, v],
  ] as const) {
    for (let i = 0; i < rows; i++) {
      const [x, y] = [matrix[i * n + p] as number, matrix[i * n + q] as number];
      matrix[i * n + p] = c * x - s * y;
      matrix[i * n + q] = s * x + c * y;
    }
  }
  return true;
}

/** Gives columns of length zero any direction that is orthogonal to the others (Gram and Schmidt). */
function completed(u: Float64Array, m: number, n: number, lengths: Float64Array): void {
  for (let j = 0; j < n; j++) {
    if (lengths[j] !== 0) continue;
    for (let axis = 0; axis < m; axis++) {
      const w = new Float64Array(m);
      w[axis] = 1;
      for (let k = 0; k < n; k++) {
        if (k >= j && lengths[k] === 0) continue;
        let dot = 0;
        for (let i = 0; i < m; i++) dot += (w[i] as number) * (u[i * n + k] as number);
        for (let i = 0; i < m; i++) w[i] = (w[i] as number) - dot * (u[i * n + k] as number);
      }
      const size = Math.hypot(...w);
      if (size < 0.5 / Math.sqrt(m)) continue;
      for (let i = 0; i < m; i++) u[i * n + j] = (w[i] as number) / size;
      break;
    }
  }
}

function transposedOf(a: Float64Array, m: number, n: number): Float64Array {
  const out = new Float64Array(m * n);
  for (let i = 0; i < m; i++) for (let j = 0; j < n; j++) out[j * m + i] = a[i * n + j] as number;
  return out;
}

const svdOp = defineOp<FactorAttrs>(['svd', 'linalg_svd'], each(PRECISE), ([t], { m, n }) => {
  const { list, batch } = matricesOf(t);
  const k = Math.min(m, n);
  const parts = list.map((a) => {
    const tall = m >= n;
    const { u, s, v } = tall ? singular(a, m, n) : singular(transposedOf(a, m, n), n, m);
    const [left, right] = tall ? [u, transposedOf(v, n, n)] : [v, transposedOf(u, n, m)];
    return Float64Array.from([...left, ...s, ...right]);
  });
  return packed(parts, t, batch, m * k + k + k * n);
});

/**
 * A = U diag(S) Vᵀ with orthonormal columns in U and rows in Vᵀ, S descending: [..., m, n] to [..., m, k], [..., k] and [..., k, n], k the
 * smaller of both. The sign of a pair of vectors is open.
 */
export const svd = defineFunction(
  ['svd', 'linalg_svd'],
  each(PRECISE),
  (t: Tensor): { u: Tensor; s: Tensor; vh: Tensor } => {
    matrixRank(t, 'svd');
    const [m, n] = t.shape.slice(-2) as [number, number];
    const k = Math.min(m, n);
    return sweep(() => {
      const [u, s, vh] = unpacked(apply(svdOp, [t], { m, n }), [[m, k], [k], [k, n]]) as [Tensor, Tensor, Tensor];
      return { u, s, vh };
    });
  },
);

/** The singular values, descending. */
export const svdvals = defineFunction(['svdvals', 'linalg_svdvals'], each(PRECISE), (t: Tensor): Tensor =>
  sweep(() => svd(t).s),
);

const logAbsDetOp = defineOp(['logAbsDet', 'linalg_slogdet'], each(PRECISE), ([t]) => logAbs(t));

/** log |det| by the diagonal of R: the determinant itself may overflow. */
function logAbs(t: Tensor): Tensor {
  const { list, n, batch } = matricesOf(t);
  const out = Float64Array.from(list, (a) => {
    householder(a, n, n);
    let sum = 0;
    for (let i = 0; i < n; i++) sum += Math.log(Math.abs(a[i * n + i] as number));
    return sum;
  });
  return fromArray(encode(out, t.dtype), t.dtype, batch);
}

/** The sign of the determinant of each matrix, and the logarithm of its size: -Infinity for a singular one. */
export const slogdet = defineFunction(
  ['slogdet', 'linalg_slogdet'],
  each(PRECISE),
  (t: Tensor): { sign: Tensor; logabsdet: Tensor } => {
    squareOnly(t, 'slogdet');
    return sweep(() => ({ sign: det(t).sign(), logabsdet: apply(logAbsDetOp, [t], undefined) }));
  },
);

/** The logarithm of the determinant; NaN where that is negative. */
export const logdet = defineFunction('logdet', each(PRECISE), (t: Tensor): Tensor => {
  squareOnly(t, 'logdet');
  return sweep(() => {
    const { sign, logabsdet } = slogdet(t);
    return where(sign.eq(-1), NaN, logabsdet);
  });
});
