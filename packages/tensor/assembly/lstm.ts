/** @file A step of an LSTM between its products: what each unit of each sequence does to its gates and its cell, and the adjoint of that. */
import { sigmoid, tanh } from './functions';
import { F32, fused, X4 } from './lanes';
import { beforeSigmoid, beforeTanh, get, put } from './units';

/** Gates lie `gap` bytes apart in the order of PyTorch: input, forget, new, output. */
@inline
function unit(x: usize, u: usize, before: usize, gates: usize, c: usize, h: usize, gap: usize, four: bool): void {
  const i = sigmoid(f32x4.add(get(x, four), get(u, four)));
  const f = sigmoid(f32x4.add(get(x + gap, four), get(u + gap, four)));
  const g = tanh(f32x4.add(get(x + 2 * gap, four), get(u + 2 * gap, four)));
  const o = sigmoid(f32x4.add(get(x + 3 * gap, four), get(u + 3 * gap, four)));
  const cell = fused(i, g, f32x4.mul(f, get(before, four)));
  put(gates, i, four);
  put(gates + gap, f, four);
  put(gates + 2 * gap, g, four);
  put(gates + 3 * gap, o, four);
  put(c, cell, four);
  put(h, f32x4.mul(o, tanh(cell)), four);
}

/**
 * `rows` sequences of n units a step further: from what inputs (x) and the last output (u) give the gates, both [rows, 4 n], and the cells
 * `before` [rows, n], to open gates, cells and outputs.
 */
export function lstmStep(
  x: usize,
  u: usize,
  before: usize,
  gates: usize,
  c: usize,
  h: usize,
  rows: i32,
  n: i32,
): void {
  const gap = <usize>n * F32;
  for (let r = 0; r < rows; r++) {
    const end = c + gap;
    for (; c + X4 <= end; c += X4, h += X4, before += X4, x += X4, u += X4, gates += X4)
      unit(x, u, before, gates, c, h, gap, true);
    for (; c < end; c += F32, h += F32, before += F32, x += F32, u += F32, gates += F32)
      unit(x, u, before, gates, c, h, gap, false);
    x += 3 * gap;
    u += 3 * gap;
    gates += 3 * gap;
  }
}

@inline
function unitBack(
  dy: usize,
  dh: usize,
  dc: usize,
  gates: usize,
  c: usize,
  before: usize,
  out: usize,
  gap: usize,
  four: bool,
): void {
  const i = get(gates, four);
  const f = get(gates + gap, four);
  const g = get(gates + 2 * gap, four);
  const o = get(gates + 3 * gap, four);
  const t = tanh(get(c, four));
  const grad = dy == 0 ? get(dh, four) : f32x4.add(get(dy, four), get(dh, four));
  const cell = f32x4.add(get(dc, four), beforeTanh(t, f32x4.mul(grad, o)));
  put(out, beforeSigmoid(i, f32x4.mul(cell, g)), four);
  put(out + gap, beforeSigmoid(f, f32x4.mul(cell, get(before, four))), four);
  put(out + 2 * gap, beforeTanh(g, f32x4.mul(cell, i)), four);
  put(out + 3 * gap, beforeSigmoid(o, f32x4.mul(grad, t)), four);
  put(dc, f32x4.mul(cell, f), four);
}

/**
 * The adjoint of `lstmStep`: from the gradients of a step's outputs, given (dy, 0 where there are none) and of the step after it (dh), and
 * of its cells (dc), those of what the gates were made of, [rows, 4 n], and, in dc, of the cells before.
 */
export function lstmStepBack(
  dy: usize,
  dh: usize,
  dc: usize,
  gates: usize,
  c: usize,
  before: usize,
  out: usize,
  rows: i32,
  n: i32,
): void {
  const gap = <usize>n * F32;
  for (let r = 0; r < rows; r++) {
    const end = c + gap;
    for (; c + X4 <= end; c += X4, dh += X4, dc += X4, before += X4, gates += X4, out += X4) {
      unitBack(dy, dh, dc, gates, c, before, out, gap, true);
      if (dy != 0) dy += X4;
    }
    for (; c < end; c += F32, dh += F32, dc += F32, before += F32, gates += F32, out += F32) {
      unitBack(dy, dh, dc, gates, c, before, out, gap, false);
      if (dy != 0) dy += F32;
    }
    gates += 3 * gap;
    out += 3 * gap;
  }
}
