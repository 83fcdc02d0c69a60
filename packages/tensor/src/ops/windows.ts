/** @file Sliding windows of images as columns (im2col), and their adjoint: what convolution and pooling are made of. */
import { checkCount } from '../shape.ts';
import { decode, encode, type NumberArray } from '../dtype.ts';
import { ShapeError } from '../errors.ts';
import { fromArray, readArray } from '../host.ts';
import { sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { partwise } from './complex-parts.ts';
import { defineOp } from './define.ts';
import { backendFor, runKernel } from './kernels.ts';
import { apply } from './op.ts';
import { ALL, each, NUMBER } from './takes.ts';

/** A number for both directions, or [vertical, horizontal]. */
export type Pair = number | readonly [number, number];

/** A list of as many numbers as there are directions. @throws ShapeError for another, which no compiler may have seen. */
export function listOf<L extends readonly number[]>(list: L, directions: number): L {
  if (list.length === directions) return list;
  throw new ShapeError(`expected a number, or a list of ${directions} of them, but got [${list.join(', ')}]`);
}

export function pair(value: Pair): readonly [number, number] {
  return typeof value === 'number' ? [value, value] : listOf(value, 2);
}

/** Where windows lie over images [n, c, h, w]. */
export interface WindowSpec {
  readonly kernel: readonly [number, number];
  readonly stride: readonly [number, number];
  readonly padding: readonly [number, number];
  readonly dilation: readonly [number, number];
  /** Whether a last window that reaches beyond the padding counts, if it begins inside. @default false */
  readonly ceilMode?: boolean;
}

export interface Windows extends WindowSpec {
  readonly n: number;
  readonly c: number;
  readonly h: number;
  readonly w: number;
  readonly outH: number;
  readonly outW: number;
}

/** @throws RangeError for a text that is no padding. */
export function checkPadding(padding: unknown): void {
  if (typeof padding === 'string' && padding !== 'valid' && padding !== 'same')
    throw new RangeError(`Invalid padding string '${padding}', should be one of valid, same`);
}

/** Throws ShapeError for what places no windows. */
export function checkSpec(spec: WindowSpec): void {
  for (const name of ['kernel', 'stride', 'padding', 'dilation'] as const) {
    const least = name === 'padding' ? 0 : 1;
    for (const n of spec[name]) {
      if (!Number.isInteger(n) || n < least)
        throw new ShapeError(`${name} must be whole numbers of at least ${least}, but got [${spec[name].join(', ')}]`);
    }
  }
}

/** Places the windows; throws ShapeError when none fits. */
export function placeWindows(shape: readonly number[], spec: WindowSpec): Windows {
  const [n, c, h, w] = shape as readonly [number, number, number, number];
  if (shape.length !== 4) throw new ShapeError(`expected images [N, C, H, W], got [${shape.join(', ')}]`);
  checkSpec(spec);
  const count = (size: number, d: 0 | 1): number => {
    const room = (size + 2 * spec.padding[d] - spec.dilation[d] * (spec.kernel[d] - 1) - 1) / spec.stride[d];
    if (spec.ceilMode !== true) return Math.floor(room) + 1;
    const all = Math.ceil(room) + 1;
    return (all - 1) * spec.stride[d] >= size + spec.padding[d] ? all - 1 : all;
  };
  const outH = count(h, 0);
  const outW = count(w, 1);
  if (!(outH > 0 && outW > 0)) {
    throw new ShapeError(
      `Calculated padded input size per channel: (${h + 2 * spec.padding[0]} x ${w + 2 * spec.padding[1]}). Kernel size: (${spec.kernel.join(' x ')}). Kernel size can't be greater than actual input size`,
    );
  }
  return { n, c, h, w, outH, outW, ...spec };
}

/** Walks kernel positions and output rows; the inner loops are the caller's own code, which a callback an element row would slow. */
abstract class RowWalk {
  protected readonly values: NumberArray;
  protected readonly out: NumberArray;
  constructor(values: NumberArray, out: NumberArray) {
    this.values = values;
    this.out = out;
  }
  protected abstract row(to: number, from: number, first: number, last: number, step: number): void;

  /** For each output row the columns `to + first` to `to + last`, whose source `from + ox step` lies inside the image. */
  run(s: Windows): void {
    const [kh, kw] = s.kernel;
    const columns = s.n * s.outH * s.outW;
    const step = s.stride[1];
    for (let c = 0, line = 0; c < s.c; c++) {
      for (let ky = 0; ky < kh; ky++) {
        for (let kx = 0; kx < kw; kx++, line++) {
          const x0 = kx * s.dilation[1] - s.padding[1];
          const first = x0 < 0 ? Math.ceil(-x0 / step) : 0;
          const last = Math.min(s.outW - 1, Math.floor((s.w - 1 - x0) / step));
          for (let n = 0; n < s.n; n++) {
            for (let oy = 0; oy < s.outH; oy++) {
              const y = oy * s.stride[0] + ky * s.dilation[0] - s.padding[0];
              if (y < 0 || y >= s.h) continue;
              const to = line * columns + (n * s.outH + oy) * s.outW;
              this.row(to, ((n * s.c + c) * s.h + y) * s.w + x0, first, last, step);
            }
          }
        }
      }
    }
  }
}

class Unfold extends RowWalk {
  protected row(to: number, from: number, first: number, last: number, step: number): void {
    const { values, out } = this;
    for (let ox = first; ox <= last; ox++) out[to + ox] = values[from + ox * step]!;
  }
}

class Fold extends RowWalk {
  protected row(to: number, from: number, first: number, last: number, step: number): void {
    const { values, out } = this;
    for (let ox = first; ox <= last; ox++) {
      const at = from + ox * step;
      out[at] = out[at]! + values[to + ox]!;
    }
  }
}

function like(values: NumberArray, n: number): NumberArray {
  checkCount([n]);
  return new (values.constructor as new (n: number) => NumberArray)(n);
}

/** Times that an image may grow by what surrounds it, and elements beside them, before a kernel of the device is not asked. */
const GROWTH = 16;
const GROWTH_BESIDE = 2 ** 20;

/** Whether the device's kernels have room for images with what surrounds them: padding, and lines of whole steps. */
export function hasRoom(s: Windows): boolean {
  const extent = (d: 0 | 1, size: number, out: number): number =>
    Math.max(size + 2 * s.padding[d], (out - 1) * s.stride[d] + (s.kernel[d] - 1) * s.dilation[d] + 1);
  const line = Math.ceil(extent(1, s.w, s.outW) / s.stride[1]) * s.stride[1];
  return s.c * extent(0, s.h, s.outH) * line <= Math.min(GROWTH * s.c * s.h * s.w + GROWTH_BESIDE, 2 ** 28);
}

/** By a kernel of the device, where it has one that pays. */
function onDevice(kernel: string, input: Tensor, s: Windows, shape: readonly number[]): Tensor | undefined {
  const size = sizeOf(shape);
  if (input.dtype !== 'float32' || size === 0 || input.size === 0 || !hasRoom(s)) return undefined;
  const backend = backendFor(kernel, 'gather', Math.max(size, input.size));
  return backend && runKernel(backend, kernel, { x: input }, { size, ...placed(s) }, 'float32', shape);
}

/** Where windows lie, as kernels take it. */
export function placed(s: Windows): Readonly<Record<string, number>> {
  const [kh, kw] = s.kernel;
  const [sy, sx] = s.stride;
  const [py, px] = s.padding;
  const [dy, dx] = s.dilation;
  return { n: s.n, c: s.c, h: s.h, w: s.w, kh, kw, sy, sx, py, px, dy, dx, outH: s.outH, outW: s.outW };
}

const unfoldOp = defineOp<Windows>(['unfold', 'im2col'], each(ALL), ([t], s) => unfolded(t, s));

function unfolded(input: Tensor, s: Windows): Tensor {
  if (input.dtype === 'complex64') return partwise(input, (one) => unfolded(one, s));
  const rows = s.c * s.kernel[0] * s.kernel[1];
  const columns = s.n * s.outH * s.outW;
  const computed = onDevice('Unfold', input, s, [rows, columns]);
  if (computed !== undefined) return computed;
  const values = decode(readArray(input), input.dtype);
  const out = like(values, rows * columns);
  new Unfold(values, out).run(s);
  return fromArray(encode(out, input.dtype), input.dtype, [rows, columns]);
}

const foldOp = defineOp<Windows>(['fold', 'col2im'], each(NUMBER), ([t], s) => folded(t, s));

function folded(input: Tensor, s: Windows): Tensor {
  if (input.dtype === 'complex64') return partwise(input, (one) => folded(one, s));
  const computed = onDevice('Fold', input, s, [s.n, s.c, s.h, s.w]);
  if (computed !== undefined) return computed;
  const values = decode(readArray(input), input.dtype);
  const out = like(values, s.n * s.c * s.h * s.w);
  new Fold(values, out).run(s);
  return fromArray(encode(out, input.dtype), input.dtype, [s.n, s.c, s.h, s.w]);
}

/** Images [n, c, h, w] to columns [c kh kw, n outH outW]; padding reads as zero. */
export function unfold(t: Tensor, windows: Windows): Tensor {
  return apply(unfoldOp, [t], windows);
}

/** The adjoint of unfold: columns added up into images. */
export function fold(t: Tensor, windows: Windows): Tensor {
  return apply(foldOp, [t], windows);
}

/** For each window, the position of its largest element among all of `t` (padding never wins): int32 [n, c, outH, outW]. */
export function largestInWindows(t: Tensor, s: Windows): Tensor {
  const shape = [s.n, s.c, s.outH, s.outW];
  const size = sizeOf(shape);
  if (t.dtype === 'float32' && size > 0) {
    const backend = backendFor('LargestPositions', 'gather', t.size);
    const attrs = { size, images: s.n * s.c, ...placed(s) };
    if (backend !== undefined) return runKernel(backend, 'LargestPositions', { x: t }, attrs, 'int32', shape);
  }
  const values = decode(readArray(t), t.dtype);
  const out = new Int32Array(size);
  const [strideY, strideX] = s.stride;
  for (let image = 0, at = 0; image < s.n * s.c; image++) {
    const base = image * s.h * s.w;
    for (let oy = 0; oy < s.outH; oy++) {
      const y0 = oy * strideY - s.padding[0];
      for (let ox = 0; ox < s.outW; ox++, at++)
        out[at] = base + largest(values, base, y0, ox * strideX - s.padding[1], s);
    }
  }
  return fromArray(out, 'int32', shape);
}

/** The position of the largest element of the window whose corner is (y0, x0); windows of nothing but padding are refused before. */
function largest(values: NumberArray, base: number, y0: number, x0: number, s: Windows): number {
  const { h, w } = s;
  const [kh, kw] = s.kernel;
  const [dy, dx] = s.dilation;
  let best = -1;
  let value = -Infinity;
  for (let ky = 0, y = y0; ky < kh; ky++, y += dy) {
    if (y < 0 || y >= h) continue;
    const row = base + y * w;
    for (let kx = 0, x = x0; kx < kw; kx++, x += dx) {
      if (x < 0 || x >= w) continue;
      const v = values[row + x]!;
      if (best === -1 || v > value || v !== v) {
        best = y * w + x;
        value = v;
      }
    }
  }
  return best;
}
