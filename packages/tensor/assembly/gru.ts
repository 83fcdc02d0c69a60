/** @file A step of a GRU between its products: what each unit of each sequence does to its gates and its output, and the adjoint of that. */
import { sigmoid, tanh } from './functions';
import { F32, fused, X4 } from './lanes';
import { beforeSigmoid, beforeTanh, get, put } from './units';

/** What the output before gives a gate, with its bias where there is one. */
@inline
function own(u: usize, bias: usize, four: bool): v128 {
  return bias == 0 ? get(u, four) : f32x4.add(get(u, four), get(bias, four));
}

/** Gates lie `gap` bytes apart in the order of PyTorch: reset, update, new; `bias` is 0 where there is none. */
@inline
function unit(x: usize, u: usize, bias: usize, before: usize, saved: usize, h: usize, gap: usize, four: bool): void {
  const second = bias == 0 ? 0 : bias + gap;
  const third = bias == 0 ? 0 : bias + 2 * gap;
  const r = sigmoid(f32x4.add(get(x, four), own(u, bias, four)));
  const z = sigmoid(f32x4.add(get(x + gap, four), own(u + gap, second, four)));
  const w = own(u + 2 * gap, third, four);
  const n = tanh(fused(r, w, get(x + 2 * gap, four)));
  put(saved, r, four);
  put(saved + gap, z, four);
  put(saved + 2 * gap, n, four);
  put(saved + 3 * gap, w, four);
  put(h, fused(z, f32x4.sub(get(before, four), n), n), four);
}

/**
 * `rows` sequences of n units a step further: from what inputs (x) and the last output (u, before its `bias` [3 n], 0 for none) give the gates,
 * both [rows, 3 n], and the output `before` [rows, n], to `saved` [rows, 4 n], the open gates and what of the new one was to be reset, and outputs.
 */
export function gruStep(
  x: usize,
  u: usize,
  bias: usize,
  before: usize,
  saved: usize,
  h: usize,
  rows: i32,
  n: i32,
): void {
  const gap = <usize>n * F32;
  for (let r = 0; r < rows; r++) {
    const end = h + gap;
    let b = bias;
    for (; h + X4 <= end; h += X4, before += X4, x += X4, u += X4, saved += X4) {
      unit(x, u, b, before, saved, h, gap, true);
      if (b != 0) b += X4;
    }
    for (; h < end; h += F32, before += F32, x += F32, u += F32, saved += F32) {
      unit(x, u, b, before, saved, h, gap, false);
      if (b != 0) b += F32;
    }
    x += 2 * gap;
    u += 2 * gap;
    saved += 3 * gap;
  }
}

@inline
function unitBack(
  dy: usize,
  dh: usize,
  kept: usize,
  saved: usize,
  before: usize,
  ofInputs: usize,
  ofOutput: usize,
  gap: usize,
  four: bool,
): void {
  const r = get(saved, four);
  const z = get(saved + gap, four);
  const n = get(saved + 2 * gap, four);
  const later = f32x4.add(get(dh, four), get(kept, four));
  const grad = dy == 0 ? later : f32x4.add(get(dy, four), later);
  const next = beforeTanh(n, f32x4.mul(grad, f32x4.sub(f32x4.splat(1), z)));
  const update = beforeSigmoid(z, f32x4.mul(grad, f32x4.sub(get(before, four), n)));
  const reset = beforeSigmoid(r, f32x4.mul(next, get(saved + 3 * gap, four)));
  put(ofInputs, reset, four);
  put(ofInputs + gap, update, four);
  put(ofInputs + 2 * gap, next, four);
  put(ofOutput, reset, four);
  put(ofOutput + gap, update, four);
  put(ofOutput + 2 * gap, f32x4.mul(next, r), four);
  put(kept, f32x4.mul(grad, z), four);
}

/**
 * The adjoint of `gruStep`: from the gradients of a step's outputs, which are given (dy, 0 where there are none), of the products of the step
 * after it (dh) and of what that has kept (`kept`), those of x (`ofInputs`) and u (`ofOutput`), [rows, 3 n], and, in `kept`, of what was kept of
 * the output before.
 */
export function gruStepBack(
  dy: usize,
  dh: usize,
  kept: usize,
  saved: usize,
  before: usize,
  ofInputs: usize,
  ofOutput: usize,
  rows: i32,
  n: i32,
): void {
  const gap = <usize>n * F32;
  for (let r = 0; r < rows; r++) {
    const end = dh + gap;
    for (; dh + X4 <= end; dh += X4, kept += X4, before += X4, saved += X4, ofInputs += X4, ofOutput += X4) {
      unitBack(dy, dh, kept, saved, before, ofInputs, ofOutput, gap, true);
      if (dy != 0) dy += X4;
    }
    for (; dh < end; dh += F32, kept += F32, before += F32, saved += F32, ofInputs += F32, ofOutput += F32) {
      unitBack(dy, dh, kept, saved, before, ofInputs, ofOutput, gap, false);
      if (dy != 0) dy += F32;
    }
    saved += 3 * gap;
    ofInputs += 2 * gap;
    ofOutput += 2 * gap;
  }
}
