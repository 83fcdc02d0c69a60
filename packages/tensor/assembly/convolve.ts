/**
 * @file Convolutions without columns: windows are read where they lie, in images that padding was put around. Every sum
 * runs over channels, then rows, then columns of the filter, wherever its element stands among others.
 */
import { F32, fused, X4 } from './lanes';
import { turnBlock } from './move';
import { alone, corner, lineOf, surround } from './padded';

/** Filters that are computed at once. */
const ROWS: i32 = 4;
/** Terms of a gradient that are summed before they are added to the rest: longer sums in single precision lose more. */
const RUN: i32 = 512;

/** Elements of the space for an image, filters next to each other, and where their elements meet the image. */
export function convolveSpace(
  c: i32,
  h: i32,
  w: i32,
  k: i32,
  kh: i32,
  kw: i32,
  sx: i32,
  py: i32,
  px: i32,
): i32 {
  return imageSpace(c, h, w, sx, py, px) + (k + 1) * c * kh * kw;
}

/** Elements of the space for an image, gradients and sums of filters next to each other, and where these meet the image. */
export function convolveFilterSpace(
  c: i32,
  h: i32,
  w: i32,
  k: i32,
  kh: i32,
  kw: i32,
  sx: i32,
  py: i32,
  px: i32,
  outH: i32,
  outW: i32,
): i32 {
  return imageSpace(c, h, w, sx, py, px) + (wide(k) + 1) * (outH * outW + c * kh * kw);
}

/** Filters as the lanes of fours. */
@inline
function wide(k: i32): i32 {
  return (k + 3) & ~3;
}

@inline
function imageSpace(c: i32, h: i32, w: i32, sx: i32, py: i32, px: i32): i32 {
  const line = lineOf(w + 2 * px, sx);
  return alone(h, w, sx, h + 2 * py, line) ? 0 : c * (h + 2 * py) * line;
}

/** An image [c, h, w] with its padding, whose zeros are there already; answers where it is. */
@inline
function padded(a: usize, o: usize, c: i32, h: i32, w: i32, sx: i32, py: i32, px: i32, line: i32): usize {
  if (alone(h, w, sx, h + 2 * py, line)) return a;
  for (let ci = 0; ci < c; ci++)
    surround(a + <usize>(ci * h * w) * F32, o + <usize>(ci * (h + 2 * py) * line) * F32, h, w, sx, py, px, line);
  return o;
}

/** For each element of a filter, by how many bytes the image's that it meets lies after the window's corner. */
function places(o: usize, c: i32, height: i32, line: i32, kh: i32, kw: i32, sx: i32, dy: i32, dx: i32): void {
  for (let ci = 0; ci < c; ci++)
    for (let ky = 0; ky < kh; ky++)
      for (let kx = 0; kx < kw; kx++, o += F32)
        store<i32>(o, (ci * height * line + corner(ky, kx, sx, dy, dx, line)) << 2);
}

/** How many filters the next step takes: none are left over where there are threes and fours. */
@inline
function nextRows(left: i32): i32 {
  return left == 6 ? 3 : min(left, ROWS);
}

/** Images [n, c, h, w] and filters [k, c, kh, kw] to [n, k, outH, outW], which is at least four wide. */
export function convolve(
  a: usize,
  f: usize,
  o: usize,
  space: usize,
  n: i32,
  c: i32,
  h: i32,
  w: i32,
  k: i32,
  kh: i32,
  kw: i32,
  sy: i32,
  sx: i32,
  py: i32,
  px: i32,
  dy: i32,
  dx: i32,
  outH: i32,
  outW: i32,
): void {
  const height = h + 2 * py;
  const line = lineOf(w + 2 * px, sx);
  const taps = c * kh * kw;
  const table = space;
  const filters = table + <usize>taps * F32;
  const image = filters + <usize>(k * taps) * F32;
  places(table, c, height, line, kh, kw, sx, dy, dx);
  for (let j = 0, to = filters; j < k; ) {
    const rows = nextRows(k - j);
    for (let t = 0; t < taps; t++)
      for (let r = 0; r < rows; r++, to += F32) store<u32>(to, load<u32>(f + <usize>((j + r) * taps + t) * F32));
    j += rows;
  }
  if (py + px > 0) memory.fill(image, 0, <usize>(c * height * line) * F32);
  for (let i = 0; i < n; i++) {
    const x = padded(a + <usize>(i * c * h * w) * F32, image, c, h, w, sx, py, px, line);
    for (let j = 0; j < k; ) {
      const rows = nextRows(k - j);
      const from = filters + <usize>(j * taps) * F32;
      const to = o + <usize>((i * k + j) * outH * outW) * F32;
      if (rows == 4) planes(4, x, from, to, table, taps, sy * line, outH, outW);
      else if (rows == 3) planes(3, x, from, to, table, taps, sy * line, outH, outW);
      else if (rows == 2) planes(2, x, from, to, table, taps, sy * line, outH, outW);
      else planes(1, x, from, to, table, taps, sy * line, outH, outW);
      j += rows;
    }
  }
}

/** `rows` planes of one result, two times four elements at a time; the last four of a line may have been computed in part before. */
@inline
function planes(rows: i32, x: usize, f: usize, o: usize, table: usize, taps: i32, line: i32, outH: i32, outW: i32): void {
  const end = table + <usize>taps * F32;
  const plane = <usize>(outH * outW) * F32;
  const step = <usize>rows * F32;
  let y = 0;
  let from = 0;
  while (y < outH) {
    const x0 = x + <usize>(y * line + from) * F32;
    const o0 = o + <usize>(y * outW + from) * F32;
    from = following(from, outW);
    if (from == 0) y++;
    // An odd one at the end is computed twice.
    const last = y == outH;
    const x1 = last ? x0 : x + <usize>(y * line + from) * F32;
    const o1 = last ? o0 : o + <usize>(y * outW + from) * F32;
    if (!last) {
      from = following(from, outW);
      if (from == 0) y++;
    }
    let s0 = f32x4.splat(0);
    let s1 = s0;
    let s2 = s0;
    let s3 = s0;
    let t0 = s0;
    let t1 = s0;
    let t2 = s0;
    let t3 = s0;
    let at = f;
    for (let place = table; place < end; place += F32, at += step) {
      const off = <usize>load<i32>(place);
      const p = v128.load(x0 + off);
      const q = v128.load(x1 + off);
      let z = v128.load32_splat(at);
      s0 = fused(z, p, s0);
      t0 = fused(z, q, t0);
      if (rows > 1) {
        z = v128.load32_splat(at, 4);
        s1 = fused(z, p, s1);
        t1 = fused(z, q, t1);
      }
      if (rows > 2) {
        z = v128.load32_splat(at, 8);
        s2 = fused(z, p, s2);
        t2 = fused(z, q, t2);
      }
      if (rows > 3) {
        z = v128.load32_splat(at, 12);
        s3 = fused(z, p, s3);
        t3 = fused(z, q, t3);
      }
    }
    v128.store(o0, s0);
    v128.store(o1, t0);
    if (rows > 1) {
      v128.store(o0 + plane, s1);
      v128.store(o1 + plane, t1);
    }
    if (rows > 2) {
      v128.store(o0 + 2 * plane, s2);
      v128.store(o1 + 2 * plane, t2);
    }
    if (rows > 3) {
      v128.store(o0 + 3 * plane, s3);
      v128.store(o1 + 3 * plane, t3);
    }
  }
}

/** The column of a line's next four; 0 at its end. */
@inline
function following(from: i32, outW: i32): i32 {
  return from + 4 == outW ? 0 : min(from + 4, outW - 4);
}

/**
 * The gradient of filters: images [n, c, h, w] and gradients [n, k, outH, outW] to [k, c, kh, kw]. Lanes are filters: however narrow the
 * images, none is idle.
 */
export function convolveFilter(
  a: usize,
  g: usize,
  o: usize,
  space: usize,
  n: i32,
  c: i32,
  h: i32,
  w: i32,
  k: i32,
  kh: i32,
  kw: i32,
  sy: i32,
  sx: i32,
  py: i32,
  px: i32,
  dy: i32,
  dx: i32,
  outH: i32,
  outW: i32,
): void {
  const height = h + 2 * py;
  const line = lineOf(w + 2 * px, sx);
  const taps = c * kh * kw;
  const lanes = wide(k);
  const area = outH * outW;
  const sums = space;
  const gradients = sums + <usize>(lanes * taps) * F32;
  const table = gradients + <usize>(lanes * area) * F32;
  const corners = table + <usize>taps * F32;
  const image = corners + <usize>area * F32;
  places(table, c, height, line, kh, kw, sx, dy, dx);
  places(corners, 1, 0, sy * line, outH, outW, 1, 1, 1);
  memory.fill(sums, 0, <usize>(lanes * (taps + area)) * F32);
  if (py + px > 0) memory.fill(image, 0, <usize>(c * height * line) * F32);
  for (let i = 0; i < n; i++) {
    const x = padded(a + <usize>(i * c * h * w) * F32, image, c, h, w, sx, py, px, line);
    const from = g + <usize>(i * k * area) * F32;
    for (let j = 0; j < k; j += 8) {
      const two = lanes - j >= 8;
      const step = two ? 2 * X4 : X4;
      const lines = gradients + <usize>(j * area) * F32;
      const to = sums + <usize>(j * taps) * F32;
      for (let r = j; r < min(j + 8, k); r += 4)
        nextToEachOther(from + <usize>(r * area) * F32, lines + <usize>(r - j) * F32, area, min(4, k - r), step);
      for (let t = 0; t < taps; t += ROWS) {
        const at = to + <usize>t * step;
        const place = table + <usize>t * F32;
        const rows = min(ROWS, taps - t);
        if (rows < ROWS) {
          for (let r = 0; r < rows; r++) {
            if (two) overImage(1, true, x, lines, at + <usize>r * step, place + <usize>r * F32, corners, image);
            else overImage(1, false, x, lines, at + <usize>r * step, place + <usize>r * F32, corners, image);
          }
        } else if (two) overImage(4, true, x, lines, at, place, corners, image);
        else overImage(4, false, x, lines, at, place, corners, image);
      }
    }
  }
  for (let j = 0; j < k; j++) {
    const first = j & ~7;
    const step = lanes - first >= 8 ? 2 * X4 : X4;
    let at = sums + <usize>(first * taps + (j - first)) * F32;
    for (let t = 0; t < taps; t++, o += F32, at += step) store<u32>(o, load<u32>(at));
  }
}

/** Four planes, or the last few, as lanes; places lie `step` apart. */
@inline
function nextToEachOther(from: usize, to: usize, area: i32, rows: i32, step: usize): void {
  const plane = <usize>area * F32;
  let i = 0;
  if (rows == 4) for (; i + 4 <= area; i += 4, from += X4, to += 4 * step) turnBlock(from, plane, to, step);
  for (; i < area; i++, from += F32, to += step)
    for (let r = 0; r < rows; r++) store<u32>(to + <usize>r * F32, load<u32>(from + <usize>r * plane));
}

/** Adds what one image, whose windows have their corners at `corners`, gives to the sums of `rows` elements, one or four, of eight filters or of four. */
@inline
function overImage(
  rows: i32,
  two: bool,
  x: usize,
  g: usize,
  o: usize,
  place: usize,
  corners: usize,
  end: usize,
): void {
  const step = two ? 2 * X4 : X4;
  let x0 = x + <usize>load<i32>(place);
  let x1 = x0;
  let x2 = x0;
  let x3 = x0;
  if (rows > 1) {
    x1 = x + <usize>load<i32>(place, 4);
    x2 = x + <usize>load<i32>(place, 8);
    x3 = x + <usize>load<i32>(place, 12);
  }
  while (corners < end) {
    let s0 = f32x4.splat(0);
    let s1 = s0;
    let s2 = s0;
    let s3 = s0;
    let t0 = s0;
    let t1 = s0;
    let t2 = s0;
    let t3 = s0;
    const until = min(corners + <usize>RUN * F32, end);
    for (; corners < until; corners += F32, g += step) {
      const at = <usize>load<i32>(corners);
      const u = v128.load(g);
      const v = two ? v128.load(g, 16) : u;
      let z = v128.load32_splat(x0 + at);
      s0 = fused(z, u, s0);
      if (two) t0 = fused(z, v, t0);
      if (rows > 1) {
        z = v128.load32_splat(x1 + at);
        s1 = fused(z, u, s1);
        if (two) t1 = fused(z, v, t1);
        z = v128.load32_splat(x2 + at);
        s2 = fused(z, u, s2);
        if (two) t2 = fused(z, v, t2);
        z = v128.load32_splat(x3 + at);
        s3 = fused(z, u, s3);
        if (two) t3 = fused(z, v, t3);
      }
    }
    addTo(o, s0);
    if (two) addTo(o + X4, t0);
    if (rows > 1) {
      addTo(o + step, s1);
      addTo(o + 2 * step, s2);
      addTo(o + 3 * step, s3);
      if (two) {
        addTo(o + step + X4, t1);
        addTo(o + 2 * step + X4, t2);
        addTo(o + 3 * step + X4, t3);
      }
    }
  }
}

@inline
function addTo(o: usize, s: v128): void {
  v128.store(o, f32x4.add(v128.load(o), s));
}
