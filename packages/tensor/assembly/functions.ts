/** @file exp, log, tanh and sigmoid of four elements: argument reduction and polynomials of the Cephes library (S. L. Moshier, 1989) but for that of exp, within two units in the last place. */
import {
  all,
  BIAS,
  FRACTION,
  INFINITE,
  LEAST,
  LN2,
  LN2_REST,
  LOG2_E,
  MINUS_HALF,
  MINUS_INFINITE,
  MINUS_LN2,
  MINUS_LN2_REST,
  MOST,
  NEAR,
  NOT_A_NUMBER,
  OF_EXP,
  OF_LOG,
  OF_TANH,
  ONE,
  ROOT_OF_HALF,
  SCALE_UP,
  SCALED_BITS,
  SIGN,
  SMALLEST_NORMAL,
  TWO,
  WHOLES,
  WHOLES_AND_LARGE,
} from './constants';
import { fused, pick } from './lanes';

/** A polynomial of x in Horner's order, with `count` coefficients from number `first`. */
@inline
function polynomial(x: v128, first: i32, count: i32): v128 {
  let p = fused(all(first), x, all(first + 1));
  if (count > 2) p = fused(p, x, all(first + 2));
  if (count > 3) p = fused(p, x, all(first + 3));
  if (count > 4) p = fused(p, x, all(first + 4));
  if (count > 5) p = fused(p, x, all(first + 5));
  if (count > 6) p = fused(p, x, all(first + 6));
  if (count > 7) p = fused(p, x, all(first + 7));
  if (count > 8) p = fused(p, x, all(first + 8));
  return p;
}

/** 2^n for whole n from -126 to 127. */
@inline
function powerOfTwo(n: v128): v128 {
  return i32x4.shl(i32x4.add(n, all(BIAS)), 23);
}

/** What exponentials have in common: e^r for what is left of x, and in the lowest bits of the quotient, beside those of `wholes`, n, for e^x = e^r 2^n. */
@inline
function quotient(x: v128, wholes: i32): v128 {
  // Added to a number so large that only whole ones are left, the quotient stands in its lowest bits.
  return fused(x, all(LOG2_E), all(wholes));
}

@inline
function rest(x: v128, shifted: v128, wholes: i32): v128 {
  const whole = f32x4.sub(shifted, all(wholes));
  const r = fused(whole, all(MINUS_LN2_REST), fused(whole, all(MINUS_LN2), x));
  // (e^r - 1 - r) / r^2 by the polynomial of the fourth degree whose error in e^r is smallest, 3.1e-9 of it (C. L. Lawson's iteration, 1961).
  // By pairs: what waits for what is shorter than in Horner's order.
  const z = f32x4.mul(r, r);
  const b = polynomial(r, OF_EXP + 1, 2);
  const c = polynomial(r, OF_EXP + 3, 2);
  const p = fused(fused(all(OF_EXP), z, b), z, c);
  return f32x4.add(fused(p, z, r), all(ONE));
}

/** e^x: infinite above 88.73, subnormal below -87.3, 0 below -104. */
@inline
export function exp(given: v128): v128 {
  // The order of the operands lets NaN through.
  const x = f32x4.pmax(f32x4.pmin(given, all(MOST)), all(LEAST));
  const shifted = quotient(x, WHOLES);
  // In two steps: at both ends the power itself has no float32.
  const n = i32x4.sub(shifted, all(WHOLES));
  const half = i32x4.shr_s(n, 1);
  return f32x4.mul(f32x4.mul(rest(x, shifted, WHOLES), powerOfTwo(half)), powerOfTwo(i32x4.sub(n, half)));
}

/** What `largeExp` has to be multiplied with: 2^-64. */
export const LARGE: f64 = 5.421010862427522e-20;

/** e^x 2^64 for x up to 0, where that is a normal number: in fewer steps than e^x. */
@inline
export function largeExp(given: v128): v128 {
  const x = f32x4.pmax(given, all(LEAST));
  const shifted = quotient(x, WHOLES_AND_LARGE);
  // 2^(n + 64) stands in the lowest bits: those of 12582912 are shifted out.
  return f32x4.mul(rest(x, shifted, WHOLES_AND_LARGE), i32x4.shl(shifted, 23));
}

/** ln x: -Infinity of zeros, NaN of negative numbers. */
@inline
export function log(given: v128): v128 {
  // Subnormal numbers are scaled up first.
  const tiny = f32x4.lt(given, all(SMALLEST_NORMAL));
  const x = pick(tiny, f32x4.mul(given, all(SCALE_UP)), given);
  // x = m 2^e with m from sqrt(1/2) to sqrt(2).
  const bits = i32x4.sub(x, all(ROOT_OF_HALF));
  const e0 = f32x4.convert_i32x4_s(i32x4.shr_s(bits, 23));
  const e = f32x4.sub(e0, v128.and(tiny, all(SCALED_BITS)));
  const m = i32x4.add(v128.and(bits, all(FRACTION)), all(ROOT_OF_HALF));
  const r = f32x4.sub(m, all(ONE));
  const z = f32x4.mul(r, r);
  const p = polynomial(r, OF_LOG, 9);
  let y = f32x4.mul(f32x4.mul(p, r), z);
  y = fused(e, all(LN2_REST), y);
  y = fused(z, all(MINUS_HALF), y);
  y = fused(e, all(LN2), f32x4.add(r, y));
  y = pick(f32x4.eq(given, all(INFINITE)), given, y);
  y = pick(f32x4.eq(given, f32x4.splat(0)), all(MINUS_INFINITE), y);
  // Also NaN itself, which no comparison holds for.
  return pick(f32x4.ge(given, f32x4.splat(0)), y, all(NOT_A_NUMBER));
}

/** 1 / (1 + e^-x), without overflow on either side. */
@inline
export function sigmoid(x: v128): v128 {
  const e = exp(f32x4.neg(f32x4.abs(x)));
  return f32x4.div(pick(f32x4.lt(x, f32x4.splat(0)), e, all(ONE)), f32x4.add(all(ONE), e));
}

@inline
export function tanh(x: v128): v128 {
  const size = f32x4.abs(x);
  const far = f32x4.sub(all(ONE), f32x4.div(all(TWO), f32x4.add(exp(f32x4.add(size, size)), all(ONE))));
  const z = f32x4.mul(x, x);
  const p = polynomial(z, OF_TANH, 5);
  const near = fused(f32x4.mul(p, z), x, x);
  // The near one has the sign already, but where it is zero.
  return v128.or(pick(f32x4.lt(size, all(NEAR)), near, far), v128.and(x, all(SIGN)));
}
