/** @file What the steps of recurrent layers have in common: units four at a time, and gradients before their activations. */
import { one, putOne } from './lanes';

/** Four elements, or the one that is left. */
@inline
export function get(at: usize, four: bool): v128 {
  return four ? v128.load(at) : one(at);
}

@inline
export function put(at: usize, value: v128, four: bool): void {
  if (four) v128.store(at, value);
  else putOne(at, value);
}

/** s (1 - s) grad: a gradient before a sigmoid. */
@inline
export function beforeSigmoid(s: v128, grad: v128): v128 {
  return f32x4.mul(f32x4.mul(s, f32x4.sub(f32x4.splat(1), s)), grad);
}

/** (1 - t²) grad: a gradient before a tanh. */
@inline
export function beforeTanh(t: v128, grad: v128): v128 {
  return f32x4.mul(f32x4.sub(f32x4.splat(1), f32x4.mul(t, t)), grad);
}
