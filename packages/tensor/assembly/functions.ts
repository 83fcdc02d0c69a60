/** @file exp, log, tanh and sigmoid of four elements: argument reduction and polynomials of the Cephes library (S. L. Moshier, 1989) but for that of exp, within two units in the last place. */
import { pick } from './lanes';

@inline
function all(x: f32): v128 {
  return f32x4.splat(x);
}

/** a b + c, rounded twice. */
@inline
function step(a: v128, b: v128, c: f32): v128 {
  return f32x4.add(f32x4.mul(a, b), all(c));
}

/** 2^n for whole n from -126 to 127. */
@inline
function powerOfTwo(n: v128): v128 {
  return i32x4.shl(i32x4.add(n, i32x4.splat(127)), 23);
}

/** What exponentials have in common: e^r for what is left of x, and in the lowest bits of the quotient n, for e^x = e^r 2^n. */
@inline
function quotient(x: v128): v128 {
  // Added to a number so large that only whole ones are left, the quotient stands in its lowest bits.
  return f32x4.add(f32x4.mul(x, all(1.44269504088896341)), all(12582912));
}

@inline
function rest(x: v128, shifted: v128): v128 {
  const whole = f32x4.sub(shifted, all(12582912));
  // ln 2 in two parts, of which the first times a whole number is exact.
  const r = f32x4.sub(f32x4.sub(x, f32x4.mul(whole, all(0.693359375))), f32x4.mul(whole, all(-2.12194440e-4)));
  // (e^r - 1 - r) / r^2 by the polynomial of the fourth degree whose error in e^r is smallest, 3.1e-9 of it (C. L. Lawson's iteration, 1961).
  // By pairs: what waits for what is shorter than in Horner's order.
  const z = f32x4.mul(r, r);
  const b = step(all(8.368745e-3), r, 4.166839e-2);
  const c = step(all(0.16666521), r, 0.49999994);
  const p = f32x4.add(f32x4.mul(f32x4.add(f32x4.mul(all(1.3814539e-3), z), b), z), c);
  return f32x4.add(f32x4.add(f32x4.mul(p, z), r), all(1));
}

/** e^x: infinite above 88.73, subnormal below -87.3, 0 below -104. */
@inline
export function exp(given: v128): v128 {
  // The order of the operands lets NaN through.
  const x = f32x4.pmax(f32x4.pmin(given, all(89)), all(-105));
  const shifted = quotient(x);
  // In two steps: at both ends the power itself has no float32.
  const n = i32x4.sub(shifted, all(12582912));
  const half = i32x4.shr_s(n, 1);
  return f32x4.mul(f32x4.mul(rest(x, shifted), powerOfTwo(half)), powerOfTwo(i32x4.sub(n, half)));
}

/** What `largeExp` has to be multiplied with: 2^-64. */
export const LARGE: f64 = 5.421010862427522e-20;

/** e^x 2^64 for x up to 0, where that is a normal number: in fewer steps than e^x. */
@inline
export function largeExp(given: v128): v128 {
  const x = f32x4.pmax(given, all(-105));
  const shifted = quotient(x);
  // 2^(n + 64) by the lowest bits alone: those of 12582912 are shifted out.
  const power = i32x4.shl(i32x4.add(shifted, i32x4.splat(127 + 64)), 23);
  return f32x4.mul(rest(x, shifted), power);
}

/** ln x: -Infinity of zeros, NaN of negative numbers. */
@inline
export function log(given: v128): v128 {
  // Subnormal numbers are scaled up first.
  const tiny = f32x4.lt(given, all(1.17549435e-38));
  const x = pick(tiny, f32x4.mul(given, all(8388608)), given);
  // x = m 2^e with m from sqrt(1/2) to sqrt(2).
  const bits = i32x4.sub(x, i32x4.splat(0x3f3504f3));
  const e0 = f32x4.convert_i32x4_s(i32x4.shr_s(bits, 23));
  const e = f32x4.sub(e0, v128.and(tiny, all(23)));
  const m = i32x4.add(v128.and(bits, i32x4.splat(0x7fffff)), i32x4.splat(0x3f3504f3));
  const r = f32x4.sub(m, all(1));
  const z = f32x4.mul(r, r);
  let p = step(all(7.0376836292e-2), r, -1.1514610310e-1);
  p = step(p, r, 1.1676998740e-1);
  p = step(p, r, -1.2420140846e-1);
  p = step(p, r, 1.4249322787e-1);
  p = step(p, r, -1.6668057665e-1);
  p = step(p, r, 2.0000714765e-1);
  p = step(p, r, -2.4999993993e-1);
  p = step(p, r, 3.3333331174e-1);
  let y = f32x4.mul(f32x4.mul(p, r), z);
  y = f32x4.add(y, f32x4.mul(e, all(-2.12194440e-4)));
  y = f32x4.sub(y, f32x4.mul(z, all(0.5)));
  y = f32x4.add(f32x4.add(r, y), f32x4.mul(e, all(0.693359375)));
  y = pick(f32x4.eq(given, all(Infinity)), given, y);
  y = pick(f32x4.eq(given, all(0)), all(-Infinity), y);
  // Also NaN itself, which no comparison holds for.
  return pick(f32x4.ge(given, all(0)), y, all(NaN));
}

/** 1 / (1 + e^-x), without overflow on either side. */
@inline
export function sigmoid(x: v128): v128 {
  const e = exp(f32x4.neg(f32x4.abs(x)));
  return f32x4.div(pick(f32x4.lt(x, all(0)), e, all(1)), f32x4.add(all(1), e));
}

@inline
export function tanh(x: v128): v128 {
  const size = f32x4.abs(x);
  const far = f32x4.sub(all(1), f32x4.div(all(2), f32x4.add(exp(f32x4.add(size, size)), all(1))));
  const signed = v128.or(far, v128.and(x, all(-0.0)));
  const z = f32x4.mul(x, x);
  let p = step(all(-5.70498872745e-3), z, 2.06390887954e-2);
  p = step(p, z, -5.37397155531e-2);
  p = step(p, z, 1.33314422036e-1);
  p = step(p, z, -3.33332819422e-1);
  const near = f32x4.add(f32x4.mul(f32x4.mul(p, z), x), x);
  return pick(f32x4.lt(size, all(0.625)), near, signed);
}
