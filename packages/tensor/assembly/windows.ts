/** @file Sliding windows of images [n, c, h, w]: as columns, back from columns, and where their largest elements lie. */
import { F32, X4 } from './lanes';
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

/** A row of windows of two by two. */
@inline
function largestOfFour(a: usize, o: usize, first: i32, w: i32, sx: i32, outW: i32): void {
  for (let ox = 0; ox < outW; ox++) {
    const at = first + ox * sx;
    const from = a + <usize>at * F32;
    const below = from + <usize>w * F32;
    let best = at;
    let value = load<f32>(from);
    const b = load<f32>(from, 4);
    let larger = i32(b > value) | i32(b != b);
    best = select(at + 1, best, larger);
    value = select(b, value, larger);
    const c = load<f32>(below);
    larger = i32(c > value) | i32(c != c);
    best = select(at + w, best, larger);
    value = select(c, value, larger);
    const d = load<f32>(below, 4);
    larger = i32(d > value) | i32(d != d);
    store<i32>(o + <usize>ox * F32, select(at + w + 1, best, larger));
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
        largestOfFour(a, o, base + oy * sy * w, w, sx, outW);
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
