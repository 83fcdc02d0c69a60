/** @file Element by element: float32 operands that walk or repeat, and functions of one. */
import { exp, log, sigmoid, tanh } from './functions';
import { F32, one, putOne, X4 } from './lanes';

const ADD: i32 = 0;
const SUB: i32 = 1;
const MUL: i32 = 2;
const DIV: i32 = 3;
const MAXIMUM: i32 = 4;
const MINIMUM: i32 = 5;
const RELU_GRAD: i32 = 6;

@inline
function binaryOf(op: i32, a: v128, b: v128): v128 {
  if (op == ADD) return f32x4.add(a, b);
  if (op == SUB) return f32x4.sub(a, b);
  if (op == MUL) return f32x4.mul(a, b);
  if (op == DIV) return f32x4.div(a, b);
  if (op == MAXIMUM) return f32x4.max(a, b);
  if (op == MINIMUM) return f32x4.min(a, b);
  // a: the gradient; b: the result. NaN lets the gradient through, as in PyTorch.
  return v128.andnot(a, f32x4.le(b, f32x4.splat(0)));
}

@inline
function run(op: i32, a: usize, sa: i32, b: usize, sb: i32, o: usize, n: i32): void {
  const end = o + <usize>n * F32;
  if (sa != 0 && sb != 0) {
    for (; o + 4 * X4 <= end; o += 4 * X4, a += 4 * X4, b += 4 * X4) {
      v128.store(o, binaryOf(op, v128.load(a), v128.load(b)));
      v128.store(o, binaryOf(op, v128.load(a, 16), v128.load(b, 16)), 16);
      v128.store(o, binaryOf(op, v128.load(a, 32), v128.load(b, 32)), 32);
      v128.store(o, binaryOf(op, v128.load(a, 48), v128.load(b, 48)), 48);
    }
    for (; o + X4 <= end; o += X4, a += X4, b += X4) v128.store(o, binaryOf(op, v128.load(a), v128.load(b)));
    for (; o < end; o += F32, a += F32, b += F32) putOne(o, binaryOf(op, one(a), one(b)));
  } else if (sa != 0) {
    const y = f32x4.splat(load<f32>(b));
    for (; o + X4 <= end; o += X4, a += X4) v128.store(o, binaryOf(op, v128.load(a), y));
    for (; o < end; o += F32, a += F32) putOne(o, binaryOf(op, one(a), y));
  } else if (sb != 0) {
    const x = f32x4.splat(load<f32>(a));
    for (; o + X4 <= end; o += X4, b += X4) v128.store(o, binaryOf(op, x, v128.load(b)));
    for (; o < end; o += F32, b += F32) putOne(o, binaryOf(op, x, one(b)));
  } else {
    const value = binaryOf(op, f32x4.splat(load<f32>(a)), f32x4.splat(load<f32>(b)));
    for (; o + X4 <= end; o += X4) v128.store(o, value);
    for (; o < end; o += F32) putOne(o, value);
  }
}

/** m runs of n elements; operands advance by ra and rb elements from run to run, and by sa and sb (0 or 1) within one. */
@inline
function runs(op: i32, a: usize, ra: i32, sa: i32, b: usize, rb: i32, sb: i32, o: usize, m: i32, n: i32): void {
  for (let i = 0; i < m; i++) {
    run(op, a, sa, b, sb, o, n);
    a += <usize>ra * F32;
    b += <usize>rb * F32;
    o += <usize>n * F32;
  }
}

export function add(a: usize, ra: i32, sa: i32, b: usize, rb: i32, sb: i32, o: usize, m: i32, n: i32): void { runs(ADD, a, ra, sa, b, rb, sb, o, m, n); }
export function sub(a: usize, ra: i32, sa: i32, b: usize, rb: i32, sb: i32, o: usize, m: i32, n: i32): void { runs(SUB, a, ra, sa, b, rb, sb, o, m, n); }
export function mul(a: usize, ra: i32, sa: i32, b: usize, rb: i32, sb: i32, o: usize, m: i32, n: i32): void { runs(MUL, a, ra, sa, b, rb, sb, o, m, n); }
export function div(a: usize, ra: i32, sa: i32, b: usize, rb: i32, sb: i32, o: usize, m: i32, n: i32): void { runs(DIV, a, ra, sa, b, rb, sb, o, m, n); }
export function maximum(a: usize, ra: i32, sa: i32, b: usize, rb: i32, sb: i32, o: usize, m: i32, n: i32): void { runs(MAXIMUM, a, ra, sa, b, rb, sb, o, m, n); }
export function minimum(a: usize, ra: i32, sa: i32, b: usize, rb: i32, sb: i32, o: usize, m: i32, n: i32): void { runs(MINIMUM, a, ra, sa, b, rb, sb, o, m, n); }
export function reluGrad(dy: usize, y: usize, o: usize, n: i32): void { run(RELU_GRAD, dy, 1, y, 1, o, n); }

const NEG: i32 = 0;
const ABS: i32 = 1;
const SQRT: i32 = 2;
const RSQRT: i32 = 3;
const SQUARE: i32 = 4;
const RECIPROCAL: i32 = 5;
const RELU: i32 = 6;
const EXP: i32 = 7;
const LOG: i32 = 8;
const SIGMOID: i32 = 9;
const TANH: i32 = 10;

@inline
function unaryOf(op: i32, x: v128): v128 {
  if (op == NEG) return f32x4.neg(x);
  if (op == ABS) return f32x4.abs(x);
  if (op == SQRT) return f32x4.sqrt(x);
  if (op == RSQRT) return f32x4.div(f32x4.splat(1), f32x4.sqrt(x));
  if (op == SQUARE) return f32x4.mul(x, x);
  if (op == RECIPROCAL) return f32x4.div(f32x4.splat(1), x);
  if (op == RELU) return v128.andnot(x, f32x4.le(x, f32x4.splat(0)));
  if (op == EXP) return exp(x);
  if (op == LOG) return log(x);
  if (op == SIGMOID) return sigmoid(x);
  return tanh(x);
}

@inline
function map(op: i32, a: usize, o: usize, n: i32): void {
  const end = o + <usize>n * F32;
  for (; o + 2 * X4 <= end; o += 2 * X4, a += 2 * X4) {
    // Both read first: one computes while the other waits.
    const x = v128.load(a);
    const y = v128.load(a, 16);
    v128.store(o, unaryOf(op, x));
    v128.store(o, unaryOf(op, y), 16);
  }
  for (; o + X4 <= end; o += X4, a += X4) v128.store(o, unaryOf(op, v128.load(a)));
  for (; o < end; o += F32, a += F32) putOne(o, unaryOf(op, one(a)));
}

export function neg(a: usize, o: usize, n: i32): void { map(NEG, a, o, n); }
export function abs(a: usize, o: usize, n: i32): void { map(ABS, a, o, n); }
export function sqrt(a: usize, o: usize, n: i32): void { map(SQRT, a, o, n); }
export function rsqrt(a: usize, o: usize, n: i32): void { map(RSQRT, a, o, n); }
export function square(a: usize, o: usize, n: i32): void { map(SQUARE, a, o, n); }
export function reciprocal(a: usize, o: usize, n: i32): void { map(RECIPROCAL, a, o, n); }
export function relu(a: usize, o: usize, n: i32): void { map(RELU, a, o, n); }
export function expOf(a: usize, o: usize, n: i32): void { map(EXP, a, o, n); }
export function logOf(a: usize, o: usize, n: i32): void { map(LOG, a, o, n); }
export function sigmoidOf(a: usize, o: usize, n: i32): void { map(SIGMOID, a, o, n); }
export function tanhOf(a: usize, o: usize, n: i32): void { map(TANH, a, o, n); }


/** All bits of those of four elements whose bytes in a row are not 0. */
@inline
function chosen(bytes: v128): v128 {
  return i32x4.ne(i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(bytes)), i32x4.splat(0));
}

/** m runs of n elements: a where a byte of c is not 0, else b. The n bytes of c are the same in every run; a and b are one number (sa or sb 0) or all of them. */
export function choose(c: usize, a: usize, sa: i32, b: usize, sb: i32, o: usize, m: i32, n: i32): void {
  const x = sa == 0 ? v128.load32_splat(a) : f32x4.splat(0);
  const y = sb == 0 ? v128.load32_splat(b) : x;
  for (let i = 0; i < m; i++) {
    let at = c;
    const end = o + <usize>n * F32;
    for (; o + X4 <= end; o += X4, at += 4) {
      const p = sa != 0 ? v128.load(a) : x;
      const q = sb != 0 ? v128.load(b) : y;
      v128.store(o, v128.bitselect(p, q, chosen(v128.load_zero<u32>(at))));
      a += <usize>sa * X4;
      b += <usize>sb * X4;
    }
    for (; o < end; o += F32, at++) {
      store<u32>(o, load<u32>(load<u8>(at) != 0 ? a : b));
      a += <usize>sa * F32;
      b += <usize>sb * F32;
    }
  }
}
