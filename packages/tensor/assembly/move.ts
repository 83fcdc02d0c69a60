/** @file Elements of four bytes to other places: strided views made contiguous, matrices turned around, elements by position. */
import { F32, X4 } from './lanes';

/** n neighbours; both sides lie apart. */
@inline
export function copyRun(from: usize, to: usize, n: i32): void {
  const end = to + <usize>n * F32;
  for (; to + X4 <= end; to += X4, from += X4) v128.store(to, v128.load(from));
  for (; to < end; to += F32, from += F32) store<u32>(to, load<u32>(from));
}

/** A turned block of four by four. */
@inline
export function turnBlock(from: usize, step: usize, to: usize, line: usize): void {
  const a = v128.load(from);
  const b = v128.load(from + step);
  const c = v128.load(from + 2 * step);
  const d = v128.load(from + 3 * step);
  const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5);
  const cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
  const AB = v128.shuffle<i32>(a, b, 2, 6, 3, 7);
  const CD = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
  v128.store(to, v128.shuffle<i64>(ab, cd, 0, 2));
  v128.store(to + line, v128.shuffle<i64>(ab, cd, 1, 3));
  v128.store(to + 2 * line, v128.shuffle<i64>(AB, CD, 0, 2));
  v128.store(to + 3 * line, v128.shuffle<i64>(AB, CD, 1, 3));
}

/** The side of the squares that a matrix is turned by: two of them fit the first cache. */
const SIDE: i32 = 32;
/** Lines so many elements apart have few places in a cache: of them it holds no more at once than NARROW. */
const COLLIDING: i32 = 256;
const NARROW: i32 = 8;

/** o[i across + j] = a[i + j step] for i < n, j < m. */
function turn(a: usize, step: i32, o: usize, across: i32, n: i32, m: i32): void {
  const column = <usize>step * F32;
  const line = <usize>across * F32;
  const width = across % COLLIDING == 0 ? NARROW : SIDE;
  for (let i0 = 0; i0 < n; i0 += width) {
    const i1 = min(i0 + width, n);
    for (let j0 = 0; j0 < m; j0 += SIDE) {
      const j1 = min(j0 + SIDE, m);
      let j = j0;
      for (; j + 4 <= j1; j += 4) {
        let i = i0;
        const from = a + <usize>j * column;
        const to = o + <usize>j * F32;
        for (; i + 4 <= i1; i += 4) turnBlock(from + <usize>i * F32, column, to + <usize>i * line, line);
        for (; i < i1; i++) {
          const source = from + <usize>i * F32;
          const target = to + <usize>i * line;
          store<u32>(target, load<u32>(source));
          store<u32>(target, load<u32>(source + column), 4);
          store<u32>(target, load<u32>(source + 2 * column), 8);
          store<u32>(target, load<u32>(source + 3 * column), 12);
        }
      }
      for (; j < j1; j++) {
        const from = a + <usize>j * column;
        const to = o + <usize>j * F32;
        for (let i = i0; i < i1; i++) store<u32>(to + <usize>i * line, load<u32>(from + <usize>i * F32));
      }
    }
  }
}

/** o[k, j, i] = a[i, j, k], of a [p, q, r]. */
export function reverseAxes(a: usize, o: usize, p: i32, q: i32, r: i32): void {
  for (let j = 0; j < q; j++) turn(a + <usize>(j * r) * F32, q * r, o + <usize>(j * p) * F32, q * p, r, p);
}

/** A view of four dimensions, with strides in elements, as contiguous elements. */
export function copyStrided(
  a: usize,
  o: usize,
  n0: i32,
  n1: i32,
  n2: i32,
  n3: i32,
  s0: i32,
  s1: i32,
  s2: i32,
  s3: i32,
): void {
  const plane = <usize>n2 * <usize>n3 * F32;
  for (let i0 = 0; i0 < n0; i0++) {
    for (let i1 = 0; i1 < n1; i1++, o += plane) {
      const from = a + <usize>(i0 * s0 + i1 * s1) * F32;
      if (s2 == 1 && s3 != 1) {
        turn(from, s3, o, n3, n2, n3);
        continue;
      }
      for (let i2 = 0; i2 < n2; i2++) {
        const source = from + <usize>(i2 * s2) * F32;
        const to = o + <usize>(i2 * n3) * F32;
        if (s3 == 1) copyRun(source, to, n3);
        else for (let i3 = 0; i3 < n3; i3++) store<u32>(to + <usize>i3 * F32, load<u32>(source + <usize>(i3 * s3) * F32));
      }
    }
  }
}

/** The adjoint of a view none of whose elements lie in the same place: contiguous elements where the view has them, zeros in the rest of `size`. */
export function placeStrided(
  a: usize,
  o: usize,
  size: i32,
  at: i32,
  n0: i32,
  n1: i32,
  n2: i32,
  n3: i32,
  s0: i32,
  s1: i32,
  s2: i32,
  s3: i32,
): void {
  memory.fill(o, 0, <usize>size * F32);
  for (let i0 = 0; i0 < n0; i0++) {
    for (let i1 = 0; i1 < n1; i1++) {
      for (let i2 = 0; i2 < n2; i2++, a += <usize>n3 * F32) {
        const to = o + <usize>(at + i0 * s0 + i1 * s1 + i2 * s2) * F32;
        if (s3 == 1) copyRun(a, to, n3);
        else for (let i3 = 0; i3 < n3; i3++) store<u32>(to + <usize>(i3 * s3) * F32, load<u32>(a + <usize>i3 * F32));
      }
    }
  }
}

/** o[i] = a[positions[i]]; nothing (0) at negative ones. */
export function take(a: usize, positions: usize, o: usize, n: i32): void {
  for (let i = 0; i < n; i++) {
    const p = load<i32>(positions + <usize>i * F32);
    store<f32>(o + <usize>i * F32, p < 0 ? 0 : load<f32>(a + <usize>p * F32));
  }
}

/** o[positions[i]] += a[i] in order, o being zero before; negative positions are none. */
export function put(a: usize, positions: usize, o: usize, n: i32, size: i32): void {
  memory.fill(o, 0, <usize>size * F32);
  for (let i = 0; i < n; i++) {
    const p = load<i32>(positions + <usize>i * F32);
    if (p < 0) continue;
    const to = o + <usize>p * F32;
    store<f32>(to, load<f32>(to) + load<f32>(a + <usize>i * F32));
  }
}

/** o[i] = row ids[i] of a, of `width` elements each. */
export function takeRows(a: usize, ids: usize, o: usize, n: i32, width: i32): void {
  const line = <usize>width * F32;
  for (let i = 0; i < n; i++, o += line) copyRun(a + <usize>load<i32>(ids + <usize>i * F32) * line, o, width);
}

/** o[to[i]] += row from[i] of a, in order, o being zero before and `rows` long. */
export function addRows(a: usize, from: usize, to: usize, o: usize, n: i32, width: i32, rows: i32): void {
  const line = <usize>width * F32;
  memory.fill(o, 0, <usize>rows * line);
  for (let i = 0; i < n; i++) {
    let x = a + <usize>load<i32>(from + <usize>i * F32) * line;
    let y = o + <usize>load<i32>(to + <usize>i * F32) * line;
    const end = y + line;
    for (; y + X4 <= end; y += X4, x += X4) v128.store(y, f32x4.add(v128.load(y), v128.load(x)));
    for (; y < end; y += F32, x += F32) store<f32>(y, load<f32>(y) + load<f32>(x));
  }
}

/** Row ids[i] of p less lr times row i of g, in order. */
export function descendRows(p: usize, ids: usize, g: usize, n: i32, width: i32, lr: f64): void {
  const line = <usize>width * F32;
  const rate = f32x4.splat(<f32>lr);
  for (let i = 0; i < n; i++) {
    let y = p + <usize>load<i32>(ids + <usize>i * F32) * line;
    const end = y + line;
    for (; y + X4 <= end; y += X4, g += X4) v128.store(y, f32x4.sub(v128.load(y), f32x4.mul(rate, v128.load(g))));
    for (; y < end; y += F32, g += F32) store<f32>(y, load<f32>(y) - <f32>lr * load<f32>(g));
  }
}
