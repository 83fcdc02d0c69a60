/**
 * @file Images with what surrounds them: whatever a window reads lies there, and neighbours of a result meet neighbours. Of windows in steps
 * of `sx` each line has first the columns that are whole steps from the first, then those from the second, and so on.
 */
import { F32 } from './lanes';
import { copyRun } from './move';

/** How many lines, or columns, windows read and the image has with its padding. */
@inline
export function extent(size: i32, k: i32, step: i32, padding: i32, dilation: i32, out: i32): i32 {
  return max(size + 2 * padding, (out - 1) * step + (k - 1) * dilation + 1);
}

/** The elements of a line of `columns`: as many of each place in a step. */
@inline
export function lineOf(columns: i32, sx: i32): i32 {
  return ((columns + sx - 1) / sx) * sx;
}

/** Whether there is nothing around an image that has `lines` of `line`, and its columns are where they belong. */
@inline
export function alone(h: i32, w: i32, sx: i32, lines: i32, line: i32): bool {
  return sx == 1 && lines == h && line == w;
}

/** Where in such an image the element lies that a window's element [ky, kx] meets first, in elements. */
@inline
export function corner(ky: i32, kx: i32, sx: i32, dy: i32, dx: i32, line: i32): i32 {
  const x = kx * dx;
  return ky * dy * line + (x % sx) * (line / sx) + x / sx;
}

/** Copies [h, w] into its place in an image with lines of `line`, where zeros are around it. */
@inline
export function surround(a: usize, o: usize, h: i32, w: i32, sx: i32, py: i32, px: i32, line: i32): void {
  o += <usize>(py * line) * F32;
  for (let y = 0; y < h; y++, a += <usize>w * F32, o += <usize>line * F32) {
    if (sx == 1) copyRun(a, o + <usize>px * F32, w);
    else
      for (let r = 0; r < sx; r++) {
        // The first column of the image that is r from a whole step.
        const first = (r - px % sx + sx) % sx;
        let to = o + <usize>(r * (line / sx) + (px + first) / sx) * F32;
        for (let x = first; x < w; x += sx, to += F32) store<u32>(to, load<u32>(a + <usize>x * F32));
      }
  }
}

/** The way back: what lies around is left out. */
@inline
export function bare(a: usize, o: usize, h: i32, w: i32, sx: i32, py: i32, px: i32, line: i32): void {
  a += <usize>(py * line) * F32;
  for (let y = 0; y < h; y++, a += <usize>line * F32, o += <usize>w * F32) {
    if (sx == 1) copyRun(a + <usize>px * F32, o, w);
    else
      for (let r = 0; r < sx; r++) {
        const first = (r - px % sx + sx) % sx;
        let from = a + <usize>(r * (line / sx) + (px + first) / sx) * F32;
        for (let x = first; x < w; x += sx, from += F32) store<u32>(o + <usize>x * F32, load<u32>(from));
      }
  }
}
