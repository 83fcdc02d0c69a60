/** @file A step of a recurrent layer without gates, after its product: tanh or relu of a sum, and the adjoint of that. */
import { tanh } from './functions';
import { F32, X4 } from './lanes';
import { beforeTanh, get, put } from './units';

@inline
function unit(x: usize, u: usize, h: usize, relu: bool, four: bool): void {
  const sum = f32x4.add(get(x, four), get(u, four));
  put(h, relu ? v128.andnot(sum, f32x4.le(sum, f32x4.splat(0))) : tanh(sum), four);
}

/** n units of all sequences a step further: from what inputs (x) and the last output (u) give them to outputs. */
export function rnnStep(x: usize, u: usize, h: usize, relu: i32, n: i32): void {
  const end = h + <usize>n * F32;
  for (; h + X4 <= end; h += X4, x += X4, u += X4) unit(x, u, h, relu != 0, true);
  for (; h < end; h += F32, x += F32, u += F32) unit(x, u, h, relu != 0, false);
}

@inline
function unitBack(dy: usize, dh: usize, h: usize, o: usize, relu: bool, four: bool): void {
  const y = get(h, four);
  const grad = dy == 0 ? get(dh, four) : f32x4.add(get(dy, four), get(dh, four));
  // Of what is not a number, the gradient goes on, as in PyTorch.
  put(o, relu ? v128.andnot(grad, f32x4.le(y, f32x4.splat(0))) : beforeTanh(y, grad), four);
}

/**
 * The adjoint of `rnnStep`: from the gradients of a step's outputs h, which are given (dy, 0 where there are none) and of the step after it
 * (dh), those of its sums.
 */
export function rnnStepBack(dy: usize, dh: usize, h: usize, o: usize, relu: i32, n: i32): void {
  const end = h + <usize>n * F32;
  for (; h + X4 <= end; h += X4, dh += X4, o += X4) {
    unitBack(dy, dh, h, o, relu != 0, true);
    if (dy != 0) dy += X4;
  }
  for (; h < end; h += F32, dh += F32, o += F32) {
    unitBack(dy, dh, h, o, relu != 0, false);
    if (dy != 0) dy += F32;
  }
}
