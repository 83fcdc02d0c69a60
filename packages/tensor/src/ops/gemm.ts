/** @file The host's matrix product: 4 by 4 tiles of sums kept in registers, over a packed right operand. */
import type { NumberArray } from '../dtype.ts';

/** out[m, n] = a[m, k] b[k, n], row-major; sums run over k in order, in double precision. */
export function multiply(a: NumberArray, b: NumberArray, out: NumberArray, m: number, k: number, n: number): void {
  if (m * n === 0) return;
  const panel = new Float64Array(k * 4);
  for (let j = 0; j < n; j += 4) {
    const width = Math.min(4, n - j);
    pack(b, panel, j, width, k, n);
    let i = 0;
    if (width === 4) for (; i + 4 <= m; i += 4) tile(a, panel, out, i, j, k, n);
    for (; i < m; i++) row(a, panel, out, i, j, width, k, n);
  }
}

/** Columns j to j + 3 of b, next to each other. */
function pack(b: NumberArray, panel: Float64Array, j: number, width: number, k: number, n: number): void {
  if (width < 4) panel.fill(0);
  for (let p = 0; p < k; p++) for (let c = 0; c < width; c++) panel[4 * p + c] = b[p * n + j + c]!;
}

function tile(a: NumberArray, panel: Float64Array, out: NumberArray, i: number, j: number, k: number, n: number): void {
  let s00 = 0,
    s01 = 0,
    s02 = 0,
    s03 = 0,
    s10 = 0,
    s11 = 0,
    s12 = 0,
    s13 = 0;
  let s20 = 0,
    s21 = 0,
    s22 = 0,
    s23 = 0,
    s30 = 0,
    s31 = 0,
    s32 = 0,
    s33 = 0;
  const a0 = i * k;
  const a1 = a0 + k;
  const a2 = a1 + k;
  const a3 = a2 + k;
  for (let p = 0, q = 0; p < k; p++, q += 4) {
    const b0 = panel[q]!,
      b1 = panel[q + 1]!,
      b2 = panel[q + 2]!,
      b3 = panel[q + 3]!;
    const x0 = a[a0 + p]!,
      x1 = a[a1 + p]!,
      x2 = a[a2 + p]!,
      x3 = a[a3 + p]!;
    s00 += x0 * b0;
    s01 += x0 * b1;
    s02 += x0 * b2;
    s03 += x0 * b3;
    s10 += x1 * b0;
    s11 += x1 * b1;
    s12 += x1 * b2;
    s13 += x1 * b3;
    s20 += x2 * b0;
    s21 += x2 * b1;
    s22 += x2 * b2;
    s23 += x2 * b3;
    s30 += x3 * b0;
    s31 += x3 * b1;
    s32 += x3 * b2;
    s33 += x3 * b3;
  }
  const o0 = i * n + j,
    o1 = o0 + n,
    o2 = o1 + n,
    o3 = o2 + n;
  out[o0] = s00;
  out[o0 + 1] = s01;
  out[o0 + 2] = s02;
  out[o0 + 3] = s03;
  out[o1] = s10;
  out[o1 + 1] = s11;
  out[o1 + 2] = s12;
  out[o1 + 3] = s13;
  out[o2] = s20;
  out[o2 + 1] = s21;
  out[o2 + 2] = s22;
  out[o2 + 3] = s23;
  out[o3] = s30;
  out[o3 + 1] = s31;
  out[o3 + 2] = s32;
  out[o3 + 3] = s33;
}

function row(
  a: NumberArray,
  panel: Float64Array,
  out: NumberArray,
  i: number,
  j: number,
  width: number,
  k: number,
  n: number,
): void {
  let s0 = 0,
    s1 = 0,
    s2 = 0,
    s3 = 0;
  const at = i * k;
  for (let p = 0, q = 0; p < k; p++, q += 4) {
    const x = a[at + p]!;
    s0 += x * panel[q]!;
    s1 += x * panel[q + 1]!;
    s2 += x * panel[q + 2]!;
    s3 += x * panel[q + 3]!;
  }
  const o = i * n + j;
  out[o] = s0;
  if (width > 1) out[o + 1] = s1;
  if (width > 2) out[o + 2] = s2;
  if (width > 3) out[o + 3] = s3;
}
