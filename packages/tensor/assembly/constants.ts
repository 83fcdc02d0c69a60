/**
 * @file The constants of exp and its relatives, by number. Engines of the relaxed instructions make a constant in the code anew wherever it
 * is used, which took twice the time of the functions (V8 13.6): there they are read from memory. Older engines keep them in registers.
 */
import { X4 } from './lanes';

/** Where their module's constants stand: given by `src/backends/simd.ts`. */
@external('env', 'constants')
declare const CONSTANTS: usize;

export const ONE: i32 = 0;
export const TWO: i32 = 1;
export const INFINITE: i32 = 2;
export const MINUS_INFINITE: i32 = 3;
export const NOT_A_NUMBER: i32 = 4;
export const SIGN: i32 = 5;
export const LOG2_E: i32 = 6;
/** So large that only whole numbers are left of what is added to it. */
export const WHOLES: i32 = 7;
/** ln 2 in two parts, of which the first times a whole number is exact. */
export const LN2: i32 = 8;
export const MINUS_LN2: i32 = 9;
export const LN2_REST: i32 = 10;
export const MINUS_LN2_REST: i32 = 11;
export const MOST: i32 = 12;
export const LEAST: i32 = 13;
export const BIAS: i32 = 14;
/** As `WHOLES`, with the exponent of 2^64 in its lowest bits. */
export const WHOLES_AND_LARGE: i32 = 15;
export const SMALLEST_NORMAL: i32 = 16;
export const SCALE_UP: i32 = 17;
export const SCALED_BITS: i32 = 18;
export const ROOT_OF_HALF: i32 = 19;
export const FRACTION: i32 = 20;
export const MINUS_HALF: i32 = 21;
export const NEAR: i32 = 22;
/** Coefficients, those of the highest powers first: five of exp, nine of log, five of tanh. */
export const OF_EXP: i32 = 23;
export const OF_LOG: i32 = 28;
export const OF_TANH: i32 = 37;
const COUNT: i32 = 42;

@inline
function valueOf(number: i32): f32 {
  if (number == ONE) return 1;
  if (number == TWO) return 2;
  if (number == INFINITE) return Infinity;
  if (number == MINUS_INFINITE) return -Infinity;
  if (number == NOT_A_NUMBER) return NaN;
  if (number == SIGN) return -0.0;
  if (number == LOG2_E) return 1.44269504088896341;
  if (number == WHOLES) return 12582912;
  if (number == LN2) return 0.693359375;
  if (number == MINUS_LN2) return -0.693359375;
  if (number == LN2_REST) return -2.12194440e-4;
  if (number == MINUS_LN2_REST) return 2.12194440e-4;
  if (number == MOST) return 89;
  if (number == LEAST) return -105;
  if (number == BIAS) return reinterpret<f32>(127);
  if (number == WHOLES_AND_LARGE) return 12582912 + 127 + 64;
  if (number == SMALLEST_NORMAL) return 1.17549435e-38;
  if (number == SCALE_UP) return 8388608;
  if (number == SCALED_BITS) return 23;
  if (number == ROOT_OF_HALF) return reinterpret<f32>(0x3f3504f3);
  if (number == FRACTION) return reinterpret<f32>(0x7fffff);
  if (number == MINUS_HALF) return -0.5;
  if (number == NEAR) return 0.625;
  if (number == OF_EXP) return 1.3814539e-3;
  if (number == OF_EXP + 1) return 8.368745e-3;
  if (number == OF_EXP + 2) return 4.166839e-2;
  if (number == OF_EXP + 3) return 0.16666521;
  if (number == OF_EXP + 4) return 0.49999994;
  if (number == OF_LOG) return 7.0376836292e-2;
  if (number == OF_LOG + 1) return -1.1514610310e-1;
  if (number == OF_LOG + 2) return 1.1676998740e-1;
  if (number == OF_LOG + 3) return -1.2420140846e-1;
  if (number == OF_LOG + 4) return 1.4249322787e-1;
  if (number == OF_LOG + 5) return -1.6668057665e-1;
  if (number == OF_LOG + 6) return 2.0000714765e-1;
  if (number == OF_LOG + 7) return -2.4999993993e-1;
  if (number == OF_LOG + 8) return 3.3333331174e-1;
  if (number == OF_TANH) return -5.70498872745e-3;
  if (number == OF_TANH + 1) return 2.06390887954e-2;
  if (number == OF_TANH + 2) return -5.37397155531e-2;
  if (number == OF_TANH + 3) return 1.33314422036e-1;
  return -3.33332819422e-1;
}

if (ASC_FEATURE_RELAXED_SIMD)
  for (let i = 0; i < COUNT; i++) v128.store(CONSTANTS + <usize>i * X4, f32x4.splat(valueOf(i)));

/** Four times a constant, or its bits. */
@inline
export function all(number: i32): v128 {
  return ASC_FEATURE_RELAXED_SIMD ? v128.load(CONSTANTS + <usize>number * X4) : f32x4.splat(valueOf(number));
}
