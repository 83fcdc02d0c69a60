/** @file Optimisers' steps in place: a parameter, its accumulators and its gradient of n elements. */
import { F32, one, putOne, X4 } from './lanes';

@inline
function all(x: f64): v128 {
  return f32x4.splat(<f32>x);
}

@inline
function withPenalty(p: v128, g: v128, penalty: v128): v128 {
  // Not a product with nothing, which an infinite parameter would make NaN.
  return v128.any_true(penalty) ? f32x4.add(g, f32x4.mul(penalty, p)) : g;
}

@inline
function descended(p: v128, g: v128, rate: v128, decay: v128): v128 {
  return f32x4.sub(p, f32x4.mul(rate, withPenalty(p, g, decay)));
}

/** p ← p - lr (g + penalty p). */
export function descend(p: usize, g: usize, n: i32, lr: f64, penalty: f64): void {
  const end = p + <usize>n * F32;
  const rate = all(lr);
  const decay = all(penalty);
  for (; p + X4 <= end; p += X4, g += X4) v128.store(p, descended(v128.load(p), v128.load(g), rate, decay));
  for (; p < end; p += F32, g += F32) putOne(p, descended(one(p), one(g), rate, decay));
}

/** v ← momentum v + g + penalty p; p ← p - lr (nesterov ? g + penalty p + momentum v : v). */
export function glide(
  p: usize,
  v: usize,
  g: usize,
  n: i32,
  lr: f64,
  momentum: f64,
  penalty: f64,
  nesterov: i32,
): void {
  const end = p + <usize>n * F32;
  for (; p + X4 <= end; p += X4, v += X4, g += X4) {
    const x = v128.load(p);
    const grad = withPenalty(x, v128.load(g), all(penalty));
    const speed = f32x4.add(f32x4.mul(all(momentum), v128.load(v)), grad);
    const along = nesterov != 0 ? f32x4.add(grad, f32x4.mul(all(momentum), speed)) : speed;
    v128.store(v, speed);
    v128.store(p, f32x4.sub(x, f32x4.mul(all(lr), along)));
  }
  for (; p < end; p += F32, v += F32, g += F32) {
    const x = one(p);
    const grad = withPenalty(x, one(g), all(penalty));
    const speed = f32x4.add(f32x4.mul(all(momentum), one(v)), grad);
    const along = nesterov != 0 ? f32x4.add(grad, f32x4.mul(all(momentum), speed)) : speed;
    putOne(v, speed);
    putOne(p, f32x4.sub(x, f32x4.mul(all(lr), along)));
  }
}

@inline
function meanOf(m: v128, g: v128, c1: v128): v128 {
  return f32x4.add(m, f32x4.mul(c1, f32x4.sub(g, m)));
}

@inline
function squareOf(v: v128, g: v128, b2: v128, c2: v128): v128 {
  return f32x4.add(f32x4.mul(b2, v), f32x4.mul(f32x4.mul(c2, g), g));
}

@inline
function adapted(p: v128, m: v128, v: v128, rate: v128, eps: v128, shrink: v128): v128 {
  const divisor = f32x4.add(f32x4.sqrt(v), eps);
  return f32x4.sub(f32x4.mul(shrink, p), f32x4.div(f32x4.mul(rate, m), divisor));
}

/**
 * Adam: m ← m + (1 - b1)(g - m); v ← b2 v + (1 - b2) g²; p ← shrink p - rate m / (√v + eps), g with `penalty` p.
 * The factors 1 - b1 and 1 - b2 are given: near 1, a float32 has few of their digits.
 */
export function adapt(
  p: usize,
  m: usize,
  v: usize,
  g: usize,
  n: i32,
  c1: f64,
  b2: f64,
  c2: f64,
  rate: f64,
  eps: f64,
  shrink: f64,
  penalty: f64,
): void {
  const end = p + <usize>n * F32;
  for (; p + X4 <= end; p += X4, m += X4, v += X4, g += X4) {
    const x = v128.load(p);
    const grad = withPenalty(x, v128.load(g), all(penalty));
    const mean = meanOf(v128.load(m), grad, all(c1));
    const square = squareOf(v128.load(v), grad, all(b2), all(c2));
    v128.store(m, mean);
    v128.store(v, square);
    v128.store(p, adapted(x, mean, square, all(rate), all(eps), all(shrink)));
  }
  for (; p < end; p += F32, m += F32, v += F32, g += F32) {
    const x = one(p);
    const grad = withPenalty(x, one(g), all(penalty));
    const mean = meanOf(one(m), grad, all(c1));
    const square = squareOf(one(v), grad, all(b2), all(c2));
    putOne(m, mean);
    putOne(v, square);
    putOne(p, adapted(x, mean, square, all(rate), all(eps), all(shrink)));
  }
}
