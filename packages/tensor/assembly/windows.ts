/** @file Sliding windows of images [n, c, h, w]: as columns, back from columns, and where their largest elements lie. */
import { F32, pick, X4 } from './lanes';
import { copyRun } from './move';

/** Images to columns [c kh kw, n outH outW]; padding reads as zero. */
export function unfold(
  a: usize,
  o: usize,
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
  for (let ci = 0; ci < c; ci++) {
    for (let ky = 0; ky < kh; ky++) {
      for (let kx = 0; kx < kw; kx++) {
        const x0 = kx * dx - px;
        const first = firstInside(x0, sx, outW);
        const end = endInside(x0, sx, w, outW);
        for (let ni = 0; ni < n; ni++) {
          const image = a + <usize>((ni * c + ci) * h * w) * F32;
          for (let oy = 0; oy < outH; oy++, o += <usize>outW * F32) {
            const y = oy * sy + ky * dy - py;
            if (y < 0 || y >= h || end <= first) {
              for (let x = 0; x < outW; x++) store<f32>(o + <usize>x * F32, 0);
              continue;
            }
            for (let x = 0; x < first; x++) store<f32>(o + <usize>x * F32, 0);
            const from = image + <usize>(y * w + x0 + first * sx) * F32;
            const to = o + <usize>first * F32;
            if (sx == 1) copyRun(from, to, end - first);
            else
              for (let x = 0; x < end - first; x++)
                store<u32>(to + <usize>x * F32, load<u32>(from + <usize>(x * sx) * F32));
            for (let x = end; x < outW; x++) store<f32>(o + <usize>x * F32, 0);
          }
        }
      }
    }
  }
}

/** The first column of the result whose source lies inside the image. */
@inline
function firstInside(x0: i32, step: i32, outW: i32): i32 {
  return x0 < 0 ? min((-x0 + step - 1) / step, outW) : 0;
}

/** The column of the result after the last whose source lies inside. */
@inline
function endInside(x0: i32, step: i32, w: i32, outW: i32): i32 {
  return x0 >= w ? 0 : min((w - 1 - x0) / step + 1, outW);
}

/** The adjoint of `unfold`: columns added up into images. */
export function fold(
  a: usize,
  o: usize,
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
  memory.fill(o, 0, <usize>(n * c * h * w) * F32);
  for (let ci = 0; ci < c; ci++) {
    for (let ky = 0; ky < kh; ky++) {
      for (let kx = 0; kx < kw; kx++) {
        const x0 = kx * dx - px;
        const first = firstInside(x0, sx, outW);
        const end = endInside(x0, sx, w, outW);
        for (let ni = 0; ni < n; ni++) {
          const image = o + <usize>((ni * c + ci) * h * w) * F32;
          for (let oy = 0; oy < outH; oy++, a += <usize>outW * F32) {
            const y = oy * sy + ky * dy - py;
            if (y < 0 || y >= h || end <= first) continue;
            let to = image + <usize>(y * w + x0 + first * sx) * F32;
            let from = a + <usize>first * F32;
            const last = a + <usize>end * F32;
            if (sx == 1)
              for (; from + X4 <= last; from += X4, to += X4)
                v128.store(to, f32x4.add(v128.load(to), v128.load(from)));
            for (; from < last; from += F32, to += <usize>sx * F32) store<f32>(to, load<f32>(to) + load<f32>(from));
          }
        }
      }
    }
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
