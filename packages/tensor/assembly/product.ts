/** @file Products of matrices: tiles of 4 by 8 sums in registers, over operands packed in the order in which the tiles read them. */
import { F32, fused, one, putOne, X4 } from './lanes';
import { turnBlock } from './move';

/** The sides of a tile: eight registers of sums; more, and the engine moves some to memory and back at every step. */
const ROWS: i32 = 4;
const COLUMNS: i32 = 8;
/** Parts of the inner dimension, of rows and of columns that are packed at once: a tile's strips fit the first cache, the left operand's part the second. */
const INNER: i32 = 256;
const TALL: i32 = 128;
const WIDE: i32 = 512;
/** Where in the space to work in the packed right operand and one tile come, in bytes. */
const RIGHT: usize = <usize>(TALL * INNER) * F32;
const EDGE: usize = RIGHT + <usize>(INNER * WIDE) * F32;

/** The bytes that `product` works in. */
export function productSpace(): i32 {
  return <i32>EDGE + ROWS * COLUMNS * <i32>F32;
}

/**
 * o[m, n] = a[m, k] b[k, n], o row by row; of an operand the element [i, j] lies at i times its first stride and j times its second.
 * A sum runs over k in order, in parts of INNER.
 */
export function product(
  a: usize,
  a0: i32,
  a1: i32,
  b: usize,
  b0: i32,
  b1: i32,
  o: usize,
  m: i32,
  n: i32,
  k: i32,
  space: usize,
): void {
  if (m == 1) return line(a, a1, b, b0, b1, o, n, k, space);
  // A column is the row of the product turned around.
  if (n == 1) return line(b, b0, a, a1, a0, o, m, k, space);
  general(a, a0, a1, b, b0, b1, o, m, n, k, space);
}

/** o[n] = a[k] b[k, n]: every element of b is read once, so that packing it would cost as much again. */
function line(a: usize, a1: i32, b: usize, b0: i32, b1: i32, o: usize, n: i32, k: i32, space: usize): void {
  if (a1 == 1 && b0 == 1) dots(a, b, b1, o, n, k);
  else if (b1 == 1) combined(a, a1, b, b0, o, n, k);
  else general(a, 0, a1, b, b0, b1, o, 1, n, k, space);
}

@inline
function sumOf(x: v128): f32 {
  const pairs = f32x4.add(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return f32x4.extract_lane(pairs, 0) + f32x4.extract_lane(pairs, 1);
}

/** o[j] = the sum over k of a[p] b[p + j step]. */
function dots(a: usize, b: usize, step: i32, o: usize, n: i32, k: i32): void {
  const end = a + <usize>k * F32;
  for (let j = 0; j < n; j++, o += F32) {
    let x = a;
    let y = b + <usize>j * <usize>step * F32;
    let s0 = f32x4.splat(0);
    let s1 = s0;
    let s2 = s0;
    let s3 = s0;
    for (; x + 4 * X4 <= end; x += 4 * X4, y += 4 * X4) {
      s0 = fused(v128.load(x), v128.load(y), s0);
      s1 = fused(v128.load(x, 16), v128.load(y, 16), s1);
      s2 = fused(v128.load(x, 32), v128.load(y, 32), s2);
      s3 = fused(v128.load(x, 48), v128.load(y, 48), s3);
    }
    let sum = sumOf(f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3)));
    for (; x < end; x += F32, y += F32) sum += load<f32>(x) * load<f32>(y);
    store<f32>(o, sum);
  }
}

/** o = the sum over p of a[p step] times row p of b. */
function combined(a: usize, step: i32, b: usize, b0: i32, o: usize, n: i32, k: i32): void {
  const left = <usize>step * F32;
  const row = <usize>b0 * F32;
  let j = 0;
  for (; j + 16 <= n; j += 16) {
    let s0 = f32x4.splat(0);
    let s1 = s0;
    let s2 = s0;
    let s3 = s0;
    let x = a;
    let y = b + <usize>j * F32;
    for (let p = 0; p < k; p++, x += left, y += row) {
      const z = v128.load32_splat(x);
      s0 = fused(z, v128.load(y), s0);
      s1 = fused(z, v128.load(y, 16), s1);
      s2 = fused(z, v128.load(y, 32), s2);
      s3 = fused(z, v128.load(y, 48), s3);
    }
    const to = o + <usize>j * F32;
    v128.store(to, s0);
    v128.store(to, s1, 16);
    v128.store(to, s2, 32);
    v128.store(to, s3, 48);
  }
  for (; j < n; j++) {
    let sum = f32x4.splat(0);
    let x = a;
    let y = b + <usize>j * F32;
    for (let p = 0; p < k; p++, x += left, y += row) sum = fused(one(x), one(y), sum);
    putOne(o + <usize>j * F32, sum);
  }
}

function general(
  a: usize,
  a0: i32,
  a1: i32,
  b: usize,
  b0: i32,
  b1: i32,
  o: usize,
  m: i32,
  n: i32,
  k: i32,
  space: usize,
): void {
  const out = <usize>n * F32;
  for (let j = 0; j < n; j += WIDE) {
    const width = min(WIDE, n - j);
    let p = 0;
    do {
      const depth = min(INNER, k - p);
      pack8(b + <usize>(p * b0 + j * b1) * F32, b1, b0, space + RIGHT, width, depth);
      for (let i = 0; i < m; i += TALL) {
        const height = min(TALL, m - i);
        pack4(a + <usize>(i * a0 + p * a1) * F32, a0, a1, space, height, depth);
        tiles(space, o + <usize>i * out + <usize>j * F32, out, height, width, depth, p > 0);
      }
      p += INNER;
    } while (p < k);
  }
}

/** Strips of four rows of a: their elements of each column next to each other, zeros where rows are missing. */
function pack4(a: usize, a0: i32, a1: i32, to: usize, height: i32, depth: i32): void {
  const row = <usize>a0 * F32;
  const column = <usize>a1 * F32;
  for (let i = 0; i < height; i += ROWS) {
    let from = a + <usize>i * row;
    let p = 0;
    if (i + ROWS > height) {
      const rest = height - i;
      for (; p < depth; p++, from += column, to += X4) {
        v128.store(to, f32x4.splat(0));
        for (let r = 0; r < rest; r++) store<u32>(to + <usize>r * F32, load<u32>(from + <usize>r * row));
      }
      continue;
    }
    if (a1 == 1) for (; p + 4 <= depth; p += 4, from += X4, to += 4 * X4) turnBlock(from, row, to, X4);
    else if (a0 == 1) for (; p < depth; p++, from += column, to += X4) v128.store(to, v128.load(from));
    for (; p < depth; p++, from += column, to += X4) {
      store<u32>(to, load<u32>(from));
      store<u32>(to, load<u32>(from + row), 4);
      store<u32>(to, load<u32>(from + 2 * row), 8);
      store<u32>(to, load<u32>(from + 3 * row), 12);
    }
  }
}

/** The same of eight columns of b, whose strides come in the order of a's. */
function pack8(b: usize, b0: i32, b1: i32, to: usize, width: i32, depth: i32): void {
  const row = <usize>b0 * F32;
  const column = <usize>b1 * F32;
  for (let j = 0; j < width; j += COLUMNS) {
    let from = b + <usize>j * row;
    let p = 0;
    if (j + COLUMNS > width) {
      const rest = width - j;
      for (; p < depth; p++, from += column, to += 2 * X4) {
        v128.store(to, f32x4.splat(0));
        v128.store(to, f32x4.splat(0), 16);
        for (let r = 0; r < rest; r++) store<u32>(to + <usize>r * F32, load<u32>(from + <usize>r * row));
      }
      continue;
    }
    if (b1 == 1)
      for (; p + 4 <= depth; p += 4, from += X4, to += 8 * X4) {
        turnBlock(from, row, to, 2 * X4);
        turnBlock(from + 4 * row, row, to + X4, 2 * X4);
      }
    else if (b0 == 1)
      for (; p < depth; p++, from += column, to += 2 * X4) {
        v128.store(to, v128.load(from));
        v128.store(to, v128.load(from, 16), 16);
      }
    for (; p < depth; p++, from += column, to += 2 * X4)
      for (let r = 0; r < COLUMNS; r++) store<u32>(to + <usize>r * F32, load<u32>(from + <usize>r * row));
  }
}

/** o += the product of what is packed, or = where nothing was added up before. */
function tiles(space: usize, o: usize, out: usize, height: i32, width: i32, depth: i32, more: bool): void {
  const edge = space + EDGE;
  for (let j = 0; j < width; j += COLUMNS) {
    const right = space + RIGHT + <usize>(j * depth) * F32;
    for (let i = 0; i < height; i += ROWS) {
      const left = space + <usize>(i * depth) * F32;
      const to = o + <usize>i * out + <usize>j * F32;
      if (i + ROWS <= height && j + COLUMNS <= width) {
        tile(left, right, depth, to, out, more);
        continue;
      }
      tile(left, right, depth, edge, 2 * X4, false);
      const rows = min(ROWS, height - i);
      const columns = min(COLUMNS, width - j);
      for (let r = 0; r < rows; r++)
        for (let c = 0; c < columns; c++) {
          const at = to + <usize>r * out + <usize>c * F32;
          const value = load<f32>(edge + <usize>(r * COLUMNS + c) * F32);
          store<f32>(at, more ? load<f32>(at) + value : value);
        }
    }
  }
}

/** One step a turn: of several, the engine would read all operands first and have no registers for them. */
function tile(a: usize, b: usize, depth: i32, o: usize, out: usize, more: bool): void {
  let s0 = f32x4.splat(0);
  let s1 = s0;
  let s2 = s0;
  let s3 = s0;
  let t0 = s0;
  let t1 = s0;
  let t2 = s0;
  let t3 = s0;
  const end = b + <usize>depth * 2 * X4;
  for (; b < end; b += 2 * X4, a += X4) {
    const x = v128.load(b);
    const y = v128.load(b, 16);
    let z = v128.load32_splat(a);
    s0 = fused(z, x, s0);
    t0 = fused(z, y, t0);
    z = v128.load32_splat(a, 4);
    s1 = fused(z, x, s1);
    t1 = fused(z, y, t1);
    z = v128.load32_splat(a, 8);
    s2 = fused(z, x, s2);
    t2 = fused(z, y, t2);
    z = v128.load32_splat(a, 12);
    s3 = fused(z, x, s3);
    t3 = fused(z, y, t3);
  }
  keep(o, s0, t0, more);
  keep(o + out, s1, t1, more);
  keep(o + 2 * out, s2, t2, more);
  keep(o + 3 * out, s3, t3, more);
}

@inline
function keep(o: usize, s: v128, t: v128, more: bool): void {
  v128.store(o, more ? f32x4.add(v128.load(o), s) : s);
  v128.store(o, more ? f32x4.add(v128.load(o, 16), t) : t, 16);
}
