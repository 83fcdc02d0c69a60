/** @file Sums and what is made of them along one dimension, added up in double precision in one order. */
import { exp, LARGE, largeExp } from './functions';
import { both, F32, high, largestLane, low, one, putOne, X4 } from './lanes';

/** The natural logarithm of a double: the engine's own. */
@external('env', 'ln')
declare function ln(x: f64): f64;

/** The sum of n neighbours: eight running sums, which are added at the end. */
@inline
function total(a: usize, n: i32): f64 {
  let s0 = f64x2.splat(0);
  let s1 = s0;
  let s2 = s0;
  let s3 = s0;
  const end = a + <usize>n * F32;
  for (; a + 2 * X4 <= end; a += 2 * X4) {
    const x = v128.load(a);
    const y = v128.load(a, 16);
    s0 = f64x2.add(s0, low(x));
    s1 = f64x2.add(s1, high(x));
    s2 = f64x2.add(s2, low(y));
    s3 = f64x2.add(s3, high(y));
  }
  let sum = both(f64x2.add(f64x2.add(s0, s1), f64x2.add(s2, s3)));
  for (; a < end; a += F32) sum += <f64>load<f32>(a);
  return sum;
}

/** Neighbours from which a sum adds up sixteen in single precision before it goes on in double: with two roundings, fewer than PyTorch's. */
const LONG: i32 = 16384;

/** As `total`, for long runs: twice as fast. */
@inline
function longTotal(a: usize, n: i32): f64 {
  let s0 = f64x2.splat(0);
  let s1 = s0;
  const end = a + <usize>n * F32;
  for (; a + 4 * X4 <= end; a += 4 * X4) {
    const p = f32x4.add(v128.load(a), v128.load(a, 16));
    const q = f32x4.add(v128.load(a, 32), v128.load(a, 48));
    const four = f32x4.add(p, q);
    s0 = f64x2.add(s0, low(four));
    s1 = f64x2.add(s1, high(four));
  }
  let sum = both(f64x2.add(s0, s1));
  for (; a < end; a += F32) sum += <f64>load<f32>(a);
  return sum;
}

/** The sum of each of `rows` runs of n, divided by `divisor`. */
export function sumRows(a: usize, o: usize, rows: i32, n: i32, divisor: f64): void {
  for (let i = 0; i < rows; i++) {
    store<f32>(o, <f32>((n < LONG ? total(a, n) : longTotal(a, n)) / divisor));
    a += <usize>n * F32;
    o += F32;
  }
}

/** Of `before` matrices [n, width] the sums of their columns, divided by `divisor`. */
export function sumColumns(a: usize, o: usize, before: i32, n: i32, width: i32, divisor: f64): void {
  const line = <usize>width * F32;
  const by = f64x2.splat(divisor);
  for (let p = 0; p < before; p++) {
    let j = 0;
    for (; j + 8 <= width; j += 8) {
      let s0 = f64x2.splat(0);
      let s1 = s0;
      let s2 = s0;
      let s3 = s0;
      let at = a + <usize>j * F32;
      for (let r = 0; r < n; r++, at += line) {
        const x = v128.load(at);
        const y = v128.load(at, 16);
        s0 = f64x2.add(s0, low(x));
        s1 = f64x2.add(s1, high(x));
        s2 = f64x2.add(s2, low(y));
        s3 = f64x2.add(s3, high(y));
      }
      const to = o + <usize>j * F32;
      v128.store(to, narrow(f64x2.div(s0, by), f64x2.div(s1, by)));
      v128.store(to, narrow(f64x2.div(s2, by), f64x2.div(s3, by)), 16);
    }
    for (; j < width; j++) {
      let sum: f64 = 0;
      let at = a + <usize>j * F32;
      for (let r = 0; r < n; r++, at += line) sum += <f64>load<f32>(at);
      store<f32>(o + <usize>j * F32, <f32>(sum / divisor));
    }
    a += <usize>n * line;
    o += line;
  }
}

/** Of [before, kept, after] the sums over what is on both sides, divided by `divisor`: those of the channels of images. */
export function sumAround(a: usize, o: usize, before: i32, kept: i32, after: i32, divisor: f64): void {
  const run = <usize>after * F32;
  for (let j = 0; j < kept; j++, a += run, o += F32) {
    let sum: f64 = 0;
    let at = a;
    for (let p = 0; p < before; p++, at += <usize>kept * run) sum += total(at, after);
    store<f32>(o, <f32>(sum / divisor));
  }
}

/** Four doubles as float32. */
@inline
function narrow(a: v128, b: v128): v128 {
  return v128.shuffle<i32>(f32x4.demote_f64x2_zero(a), f32x4.demote_f64x2_zero(b), 0, 1, 4, 5);
}

/** The largest of n > 0 neighbours. NaN may be passed over: what it is subtracted from then holds that NaN still. */
@inline
function largest(a: usize, n: i32): f32 {
  const end = a + <usize>n * F32;
  let p = f32x4.splat(-Infinity);
  let q = p;
  let r = p;
  let s = p;
  for (; a + 4 * X4 <= end; a += 4 * X4) {
    p = f32x4.pmax(p, v128.load(a));
    q = f32x4.pmax(q, v128.load(a, 16));
    r = f32x4.pmax(r, v128.load(a, 32));
    s = f32x4.pmax(s, v128.load(a, 48));
  }
  for (; a < end; a += F32) p = f32x4.pmax(p, f32x4.splat(load<f32>(a)));
  return largestLane(f32x4.pmax(f32x4.pmax(p, q), f32x4.pmax(r, s)));
}

/** The largest of each of `rows` runs of n > 0; NaN where there is one. */
export function largestRows(a: usize, o: usize, rows: i32, n: i32): void {
  for (let i = 0; i < rows; i++, o += F32) {
    const end = a + <usize>n * F32;
    let p = f32x4.splat(-Infinity);
    for (; a + X4 <= end; a += X4) p = f32x4.max(p, v128.load(a));
    for (; a < end; a += F32) p = f32x4.max(p, v128.load32_splat(a));
    p = f32x4.max(p, v128.shuffle<i32>(p, p, 2, 3, 0, 1));
    store<f32>(o, f32x4.extract_lane(f32x4.max(p, v128.shuffle<i32>(p, p, 1, 0, 3, 2)), 0));
  }
}

/** o = e^(a - shift) / LARGE, the shift being the largest; answers their sum, in which two neighbours of four are added up in single precision. */
@inline
function exponentials(a: usize, o: usize, n: i32, shift: f32, keep: bool): f64 {
  const by = f32x4.splat(shift);
  const end = a + <usize>n * F32;
  let s0 = f64x2.splat(0);
  let s1 = s0;
  for (; a + 2 * X4 <= end; a += 2 * X4, o += 2 * X4) {
    const e = largeExp(f32x4.sub(v128.load(a), by));
    const f = largeExp(f32x4.sub(v128.load(a, 16), by));
    if (keep) {
      v128.store(o, e);
      v128.store(o, f, 16);
    }
    const two = f32x4.add(e, f);
    s0 = f64x2.add(s0, low(two));
    s1 = f64x2.add(s1, high(two));
  }
  let sum = both(f64x2.add(s0, s1));
  for (; a < end; a += F32, o += F32) {
    const e = largeExp(f32x4.sub(one(a), by));
    if (keep) putOne(o, e);
    sum += <f64>f32x4.extract_lane(e, 0);
  }
  return sum;
}

/** e^x / sum of e^x of each row. */
export function softmaxRows(a: usize, o: usize, rows: i32, n: i32): void {
  const line = <usize>n * F32;
  for (let i = 0; i < rows; i++, a += line, o += line) {
    const scale = f32x4.splat(<f32>(1 / exponentials(a, o, n, largest(a, n), true)));
    let at = o;
    const end = o + line;
    for (; at + 4 * X4 <= end; at += 4 * X4) {
      v128.store(at, f32x4.mul(v128.load(at), scale));
      v128.store(at, f32x4.mul(v128.load(at, 16), scale), 16);
      v128.store(at, f32x4.mul(v128.load(at, 32), scale), 32);
      v128.store(at, f32x4.mul(v128.load(at, 48), scale), 48);
    }
    for (; at < end; at += F32) putOne(at, f32x4.mul(one(at), scale));
  }
}

/** x - ln of the sum of e^x of each row. */
export function logSoftmaxRows(a: usize, o: usize, rows: i32, n: i32): void {
  const line = <usize>n * F32;
  for (let i = 0; i < rows; i++, a += line, o += line) {
    const m = largest(a, n);
    const rest = ln(exponentials(a, o, n, m, false) * LARGE);
    // In double precision, where only the end is rounded; and one after the other: beside a large m, the rest is nothing.
    for (let k: usize = 0; k < line; k += F32) store<f32>(o + k, <f32>(<f64>load<f32>(a + k) - <f64>m - rest));
  }
}

/** The gradient of softmax from that of its result and the result itself. */
export function softmaxGradRows(dy: usize, y: usize, o: usize, rows: i32, n: i32): void {
  const line = <usize>n * F32;
  for (let i = 0; i < rows; i++, dy += line, y += line, o += line) {
    let s0 = f64x2.splat(0);
    let s1 = s0;
    let k: usize = 0;
    for (; k + X4 <= line; k += X4) {
      const g = v128.load(dy + k);
      const v = v128.load(y + k);
      s0 = f64x2.add(s0, f64x2.mul(low(g), low(v)));
      s1 = f64x2.add(s1, f64x2.mul(high(g), high(v)));
    }
    let sum = both(f64x2.add(s0, s1));
    for (; k < line; k += F32) sum += <f64>load<f32>(dy + k) * <f64>load<f32>(y + k);
    const t = f64x2.splat(sum);
    for (k = 0; k + X4 <= line; k += X4) {
      const g = v128.load(dy + k);
      const v = v128.load(y + k);
      const a = f64x2.mul(low(v), f64x2.sub(low(g), t));
      const b = f64x2.mul(high(v), f64x2.sub(high(g), t));
      v128.store(o + k, narrow(a, b));
    }
    for (; k < line; k += F32) store<f32>(o + k, <f32>(<f64>load<f32>(y + k) * (<f64>load<f32>(dy + k) - sum)));
  }
}

/** The gradient of log-softmax from that of its result and the result itself. */
export function logSoftmaxGradRows(dy: usize, y: usize, o: usize, rows: i32, n: i32): void {
  const line = <usize>n * F32;
  for (let i = 0; i < rows; i++, dy += line, y += line, o += line) {
    const sum = total(dy, n);
    const t = f64x2.splat(sum);
    let k: usize = 0;
    for (; k + X4 <= line; k += X4) {
      const g = v128.load(dy + k);
      const e = exp(v128.load(y + k));
      v128.store(o + k, narrow(f64x2.sub(low(g), f64x2.mul(low(e), t)), f64x2.sub(high(g), f64x2.mul(high(e), t))));
    }
    for (; k < line; k += F32) {
      const e = f32x4.extract_lane(exp(one(y + k)), 0);
      store<f32>(o + k, <f32>(<f64>load<f32>(dy + k) - <f64>e * sum));
    }
  }
}

/** The mean of a row and 1 / sqrt(variance + eps). */
@inline
function scaleOf(a: usize, n: i32, mean: f64, eps: f64): f64 {
  const m = f64x2.splat(mean);
  let s0 = f64x2.splat(0);
  let s1 = s0;
  const end = a + <usize>n * F32;
  for (; a + X4 <= end; a += X4) {
    const x = v128.load(a);
    const p = f64x2.sub(low(x), m);
    const q = f64x2.sub(high(x), m);
    s0 = f64x2.add(s0, f64x2.mul(p, p));
    s1 = f64x2.add(s1, f64x2.mul(q, q));
  }
  let sum = both(f64x2.add(s0, s1));
  for (; a < end; a += F32) {
    const d = <f64>load<f32>(a) - mean;
    sum += d * d;
  }
  return 1 / sqrt<f64>(sum / <f64>n + eps);
}

/** (x - mean) / sqrt(variance + eps) of each row. */
export function whitenRows(a: usize, o: usize, rows: i32, n: i32, eps: f64): void {
  const line = <usize>n * F32;
  for (let i = 0; i < rows; i++, a += line, o += line) {
    const mean = total(a, n) / <f64>n;
    const scale = scaleOf(a, n, mean, eps);
    const m = f64x2.splat(mean);
    const s = f64x2.splat(scale);
    let k: usize = 0;
    for (; k + X4 <= line; k += X4) {
      const x = v128.load(a + k);
      v128.store(o + k, narrow(f64x2.mul(f64x2.sub(low(x), m), s), f64x2.mul(f64x2.sub(high(x), m), s)));
    }
    for (; k < line; k += F32) store<f32>(o + k, <f32>((<f64>load<f32>(a + k) - mean) * scale));
  }
}

/** The gradient of `whitenRows` for its input x. */
export function whitenGradRows(dy: usize, x: usize, o: usize, rows: i32, n: i32, eps: f64): void {
  const line = <usize>n * F32;
  for (let i = 0; i < rows; i++, dy += line, x += line, o += line) {
    const mean = total(x, n) / <f64>n;
    const scale = scaleOf(x, n, mean, eps);
    const m = f64x2.splat(mean);
    let p = f64x2.splat(0);
    let q = p;
    let k: usize = 0;
    for (; k + X4 <= line; k += X4) {
      const g = v128.load(dy + k);
      const v = v128.load(x + k);
      p = f64x2.add(p, f64x2.mul(low(g), f64x2.sub(low(v), m)));
      q = f64x2.add(q, f64x2.mul(high(g), f64x2.sub(high(v), m)));
    }
    let along = both(f64x2.add(p, q));
    for (; k < line; k += F32) along += <f64>load<f32>(dy + k) * (<f64>load<f32>(x + k) - mean);
    const common = total(dy, n) / <f64>n;
    const slope = (along * scale * scale) / <f64>n;
    const c = f64x2.splat(common);
    const l = f64x2.splat(slope);
    const s = f64x2.splat(scale);
    for (k = 0; k + X4 <= line; k += X4) {
      const g = v128.load(dy + k);
      const v = v128.load(x + k);
      const a = f64x2.mul(s, f64x2.sub(f64x2.sub(low(g), c), f64x2.mul(f64x2.sub(low(v), m), l)));
      const b = f64x2.mul(s, f64x2.sub(f64x2.sub(high(g), c), f64x2.mul(f64x2.sub(high(v), m), l)));
      v128.store(o + k, narrow(a, b));
    }
    for (; k < line; k += F32) {
      const d = <f64>load<f32>(x + k) - mean;
      store<f32>(o + k, <f32>(scale * (<f64>load<f32>(dy + k) - common - d * slope)));
    }
  }
}
