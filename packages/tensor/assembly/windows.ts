/** @file Sliding windows of images [n, c, h, w]: as columns, back from columns, and where their largest elements lie. */
import { F32, pick, X4 } from './lanes';
import { alone, bare, corner, extent, lineOf, surround } from './padded';

/** Elements that a channel of some images takes with what surrounds it, so that it stays in the second cache. */
const ROOM: i32 = 32768;

/** How many images' channel is taken at once. */
@inline
function atOnce(n: i32, size: i32): i32 {
  return min(n, max(1, ROOM / size));
}

/** Elements of the space that `unfold` and `fold` work in. */
export function windowSpace(
  n: i32,
  h: i32,
  w: i32,
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
): i32 {
  const size = extent(h, kh, sy, py, dy, outH) * lineOf(extent(w, kw, sx, px, dx, outW), sx);
  // Three more: a line is added in whole fours.
  return atOnce(n, size) * size + 3;
}

/** Images to columns [c kh kw, n outH outW]; padding reads as zero. */
export function unfold(
  a: usize,
  o: usize,
  space: usize,
  n: i32,
  c: i32,
  h: i32,
  w: i32,
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
  const lines = extent(h, kh, sy, py, dy, outH);
  const line = lineOf(extent(w, kw, sx, px, dx, outW), sx);
  const size = lines * line;
  const inPlace = alone(h, w, sx, lines, line);
  const some = atOnce(n, size);
  const row = <usize>(n * outH * outW) * F32;
  // From one image's channel to the next one's.
  const step = <usize>(inPlace ? c * size : size) * F32;
  if (!inPlace) memory.fill(space, 0, <usize>(some * size) * F32);
  for (let first = 0; first < n; first += some) {
    const end = min(first + some, n);
    for (let ci = 0; ci < c; ci++) {
      if (!inPlace)
        for (let ni = first; ni < end; ni++)
          surround(a + <usize>((ni * c + ci) * h * w) * F32, space + <usize>(ni - first) * step, h, w, sx, py, px, line);
      const images = inPlace ? a + <usize>((first * c + ci) * size) * F32 : space;
      let to = o + <usize>ci * <usize>(kh * kw) * row + <usize>(first * outH * outW) * F32;
      for (let ky = 0; ky < kh; ky++)
        for (let kx = 0; kx < kw; kx++, to += row) {
          let image = images + <usize>corner(ky, kx, sx, dy, dx, line) * F32;
          let at = to;
          for (let ni = first; ni < end; ni++, image += step, at += <usize>(outH * outW) * F32)
            copyLines(image, <usize>(sy * line) * F32, at, outH, outW);
        }
    }
  }
}

/** Lines `step` bytes apart to lines that follow each other. */
@inline
function copyLines(from: usize, step: usize, to: usize, outH: i32, outW: i32): void {
  if (outW < 4) {
    for (let y = 0; y < outH; y++, from += step)
      for (let x = 0; x < outW; x++, to += F32) store<u32>(to, load<u32>(from + <usize>x * F32));
    return;
  }
  // Some of the last four may have been copied before. Of short lines the loop itself would take longer than what it copies.
  const last = <usize>(outW - 4) * F32;
  const end = to + <usize>outH * (last + X4);
  if (outW == 4) for (; to < end; from += step, to += X4) v128.store(to, v128.load(from));
  else if (outW <= 8)
    for (; to < end; from += step, to += last + X4) {
      v128.store(to, v128.load(from));
      v128.store(to + last, v128.load(from + last));
    }
  else
    for (; to < end; from += step, to += last + X4) {
      for (let x: usize = 0; x < last; x += X4) v128.store(to + x, v128.load(from + x));
      v128.store(to + last, v128.load(from + last));
    }
}

/** The adjoint of `unfold`: columns added up into images. */
export function fold(
  a: usize,
  o: usize,
  space: usize,
  n: i32,
  c: i32,
  h: i32,
  w: i32,
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
  const lines = extent(h, kh, sy, py, dy, outH);
  const line = lineOf(extent(w, kw, sx, px, dx, outW), sx);
  const size = lines * line;
  const inPlace = alone(h, w, sx, lines, line);
  const some = atOnce(n, size);
  const row = <usize>(n * outH * outW) * F32;
  const step = <usize>(inPlace ? c * size : size) * F32;
  const last = a + <usize>(c * kh * kw) * row;
  if (inPlace) memory.fill(o, 0, <usize>(n * c * size) * F32);
  for (let first = 0; first < n; first += some) {
    const end = min(first + some, n);
    for (let ci = 0; ci < c; ci++) {
      if (!inPlace) memory.fill(space, 0, <usize>(some * size) * F32);
      const images = inPlace ? o + <usize>((first * c + ci) * size) * F32 : space;
      let from = a + <usize>ci * <usize>(kh * kw) * row + <usize>(first * outH * outW) * F32;
      // All images for one element of the filter, then for the next: what is added to was written long before.
      for (let ky = 0; ky < kh; ky++)
        for (let kx = 0; kx < kw; kx++, from += row) {
          let image = images + <usize>corner(ky, kx, sx, dy, dx, line) * F32;
          let at = from;
          for (let ni = first; ni < end; ni++, image += step, at += <usize>(outH * outW) * F32)
            addLines(at, last, image, <usize>(sy * line) * F32, outH, outW, !inPlace);
        }
      if (!inPlace)
        for (let ni = first; ni < end; ni++)
          bare(space + <usize>(ni - first) * step, o + <usize>((ni * c + ci) * h * w) * F32, h, w, sx, py, px, line);
    }
  }
}

/**
 * Lines that follow each other added to lines `step` bytes apart, the last few of each as four with zeros among them where the columns, up to
 * `end`, and what is added to, with `spare` elements after it, have so many.
 */
@inline
function addLines(from: usize, end: usize, to: usize, step: usize, outH: i32, outW: i32, spare: bool): void {
  const whole = <usize>(outW & ~3) * F32;
  const length = <usize>outW * F32;
  const rest = i32x4.lt_s(i32x4(0, 1, 2, 3), i32x4.splat(outW & 3));
  const most = spare && whole < length ? end - whole - X4 : 0;
  const columns = from + <usize>outH * length;
  if (outW == 4) {
    for (; from < columns; to += step, from += X4) v128.store(to, f32x4.add(v128.load(to), v128.load(from)));
    return;
  }
  if (outW > 4 && outW < 8)
    for (; from < columns && from <= most; to += step, from += length) {
      const second = f32x4.add(v128.load(to + X4), v128.and(v128.load(from + X4), rest));
      v128.store(to, f32x4.add(v128.load(to), v128.load(from)));
      v128.store(to + X4, second);
    }
  for (; from < columns; to += step, from += length) {
    let x: usize = 0;
    for (; x < whole; x += X4) v128.store(to + x, f32x4.add(v128.load(to + x), v128.load(from + x)));
    if (from <= most) v128.store(to + x, f32x4.add(v128.load(to + x), v128.and(v128.load(from + x), rest)));
    else for (; x < length; x += F32) store<f32>(to + x, load<f32>(to + x) + load<f32>(from + x));
  }
}

/** Which of two positions has the larger element, four at a time: the first of equal ones, NaN before everything. */
@inline
function larger(value: v128, than: v128): v128 {
  return v128.or(f32x4.gt(value, than), f32x4.ne(value, value));
}

/** The positions of the largest of four windows of two by two that lie `step` apart, 1 or 2; the first begins at element `at`. */
@inline
function largestOfFours(from: usize, below: usize, at: i32, w: i32, step: i32): v128 {
  const all = i32x4.mul(i32x4.splat(step), i32x4(0, 1, 2, 3));
  let a = v128.load(from);
  let b = v128.load(from, 4);
  let c = v128.load(below);
  let d = v128.load(below, 4);
  if (step == 2) {
    const e = v128.load(from, 16);
    const f = v128.load(below, 16);
    b = v128.shuffle<i32>(a, e, 1, 3, 5, 7);
    a = v128.shuffle<i32>(a, e, 0, 2, 4, 6);
    d = v128.shuffle<i32>(c, f, 1, 3, 5, 7);
    c = v128.shuffle<i32>(c, f, 0, 2, 4, 6);
  }
  const first = i32x4.add(i32x4.splat(at), all);
  const second = i32x4.add(i32x4.splat(at + w), all);
  let take = larger(b, a);
  let best = pick(take, i32x4.add(first, i32x4.splat(1)), first);
  let value = pick(take, b, a);
  take = larger(c, value);
  best = pick(take, second, best);
  value = pick(take, c, value);
  return pick(larger(d, value), i32x4.add(second, i32x4.splat(1)), best);
}

/** A row of windows of two by two. */
@inline
function largestInRow(a: usize, o: usize, first: i32, w: i32, sx: i32, outW: i32): void {
  let ox = 0;
  if (sx <= 2 && outW >= 4) {
    while (ox < outW) {
      // The last four may have been looked at in part before.
      ox = min(ox, outW - 4);
      const at = first + ox * sx;
      const from = a + <usize>at * F32;
      v128.store(o + <usize>ox * F32, largestOfFours(from, from + <usize>w * F32, at, w, sx));
      ox += 4;
    }
    return;
  }
  for (; ox < outW; ox++) {
    const at = first + ox * sx;
    const from = a + <usize>at * F32;
    const below = from + <usize>w * F32;
    let best = at;
    let value = load<f32>(from);
    const b = load<f32>(from, 4);
    let take = i32(b > value) | i32(b != b);
    best = select(at + 1, best, take);
    value = select(b, value, take);
    const c = load<f32>(below);
    take = i32(c > value) | i32(c != c);
    best = select(at + w, best, take);
    value = select(c, value, take);
    const d = load<f32>(below, 4);
    take = i32(d > value) | i32(d != d);
    store<i32>(o + <usize>ox * F32, select(at + w + 1, best, take));
  }
}

/** For each window of `images` planes [h, w] its largest element's position in all of them, the first of equal ones; NaN is the largest. */
export function largestPositions(
  a: usize,
  o: usize,
  images: i32,
  h: i32,
  w: i32,
  kh: i32,
  kw: i32,
  sy: i32,
  sx: i32,
  py: i32,
  px: i32,
  outH: i32,
  outW: i32,
): void {
  // The usual window, always inside.
  const simple = kh == 2 && kw == 2 && py == 0 && px == 0;
  for (let image = 0; image < images; image++) {
    const base = image * h * w;
    for (let oy = 0; oy < outH; oy++) {
      if (simple) {
        largestInRow(a, o, base + oy * sy * w, w, sx, outW);
        o += <usize>outW * F32;
        continue;
      }
      const y0 = max(oy * sy - py, 0);
      const y1 = min(oy * sy - py + kh, h);
      for (let ox = 0; ox < outW; ox++, o += F32) {
        const x0 = max(ox * sx - px, 0);
        const x1 = min(ox * sx - px + kw, w);
        let best = -1;
        let value: f32 = -Infinity;
        for (let y = y0; y < y1; y++) {
          for (let x = x0; x < x1; x++) {
            const at = base + y * w + x;
            const v = load<f32>(a + <usize>at * F32);
            // Without branches: which is the largest, nothing predicts.
            const take = i32(best < 0) | i32(v > value) | i32(v != v);
            best = select(at, best, take);
            value = select(v, value, take);
          }
        }
        store<i32>(o, best);
      }
    }
  }
}
