/** @file Elements four at a time: single ones as lane 0 of four, so that a remainder gets the same bits as the rest. */

/** The bytes of a float32. */
export const F32: usize = 4;
/** The bytes of four. */
export const X4: usize = 16;

/** One element in lane 0, zeros beside it. */
@inline
export function one(at: usize): v128 {
  return v128.load_zero<f32>(at);
}

/** Lane 0 alone. */
@inline
export function putOne(at: usize, value: v128): void {
  store<f32>(at, f32x4.extract_lane(value, 0));
}

/** `a` where a bit of `mask` is set, else `b`. */
@inline
export function pick(mask: v128, a: v128, b: v128): v128 {
  return v128.bitselect(a, b, mask);
}

/** a b + c: rounded once where the module is built of the relaxed instructions and the processor has one for it, else twice. */
@inline
export function fused(a: v128, b: v128, c: v128): v128 {
  return ASC_FEATURE_RELAXED_SIMD ? f32x4.relaxed_madd(a, b, c) : f32x4.add(f32x4.mul(a, b), c);
}

/** The first two of four as doubles. */
@inline
export function low(x: v128): v128 {
  return f64x2.promote_low_f32x4(x);
}

/** The last two of four as doubles. */
@inline
export function high(x: v128): v128 {
  return f64x2.promote_low_f32x4(v128.shuffle<i32>(x, x, 2, 3, 2, 3));
}

/** The sum of two doubles. */
@inline
export function both(x: v128): f64 {
  return f64x2.extract_lane(x, 0) + f64x2.extract_lane(x, 1);
}

/** The largest of four; which of them is NaN does not count. */
@inline
export function largestLane(x: v128): f32 {
  const pairs = f32x4.pmax(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return f32x4.extract_lane(f32x4.pmax(pairs, v128.shuffle<i32>(pairs, pairs, 1, 0, 3, 2)), 0);
}
