/**
 * @file Convolutions of many images without columns: the images lie side by side, so that what a window covers of a line is a matrix where it
 * stands, and each line of each window a product. What surrounds the images is passed over.
 */
import type { Block, Heap } from './heap.ts';
import {
  areFinite,
  at,
  countingZeros,
  input,
  numbers,
  whole,
  WINDOWS,
  type Attrs,
  type Inputs,
  type OwnKernel,
} from './own-kernel.ts';
import type { Product } from './products.ts';
import { exported, type SimdExports } from './simd.ts';

/** One whose lines lie so many elements apart. */
export interface ProductOfLines extends Product {
  readonly lineA: number;
  readonly lineB: number;
  readonly lineOut: number;
}

/** A product that is added to what is there if `add`. */
export type MultiplyLines = (heap: Heap, product: ProductOfLines, add: boolean) => void;

/** Images from which their products are wide enough. */
const LEAST_IMAGES = 32;
/** As many images at once as products are fastest with: what those of more read does not stay near. */
const MOST_IMAGES = 64;
/** Elements of a window from which it costs more to write them down than to turn images and results. */
const LEAST_TAPS = 64;
/** Elements of images and results worked on at once: 8 MiB. Of fewer than the least number of images, columns are faster. */
const AT_ONCE = 2 ** 21;

const NAMES = [...WINDOWS, 'filters'] as const;

/** Beside what the attributes say: elements of an image, of one filter and of one of its results. */
type Sizes = Readonly<Record<(typeof NAMES)[number] | 'image' | 'taps' | 'area', number>>;

function sizesOf(attrs: Attrs): Sizes {
  const [n, c, h, w, kh, kw, sy, sx, py, px, dy, dx, outH, outW, filters] = numbers(attrs, NAMES);
  const derived = { image: c * h * w, taps: c * kh * kw, area: outH * outW };
  return { n, c, h, w, kh, kw, sy, sx, py, px, dy, dx, outH, outW, filters, ...derived };
}

/** Whether this is faster than columns. */
function fits(s: Sizes): boolean {
  if (s.n < LEAST_IMAGES || s.kh * s.kw === 1 || (s.dx > 1 && s.kw > 1)) return false;
  return s.taps >= LEAST_TAPS && LEAST_IMAGES * inOne(s) <= AT_ONCE;
}

/** Elements of an image and its results. */
const inOne = (s: Sizes): number => s.image + s.filters * s.area;

/**
 * A line of a window on the images: results at `place`, elements of a filter from number `tap` and of an image from number `pixel`, `across`
 * of them in every channel.
 */
type Meeting = (place: number, tap: number, pixel: number, across: number) => void;

/** Calls `meeting` for each line of each window, place by place; `alone` for a place whose window lies beside the images. */
function walk(s: Sizes, meeting: Meeting, alone?: (place: number) => void): void {
  for (let y = 0, place = 0; y < s.outH; y++) {
    for (let x = 0; x < s.outW; x++, place++) {
      const left = x * s.sx - s.px;
      const first = Math.max(0, -left);
      const across = Math.min(s.kw, s.w - left) - first;
      let met = false;
      for (let ky = 0; ky < s.kh && across > 0; ky++) {
        const row = y * s.sy - s.py + ky * s.dy;
        if (row < 0 || row >= s.h) continue;
        meeting(place, ky * s.kw + first, row * s.w + left + first, across);
        met = true;
      }
      if (!met) alone?.(place);
    }
  }
}

type SizedKernel = (heap: Heap, inputs: Inputs, s: Sizes) => Block;

/** Convolve, ConvolveFilter and ConvolveImages where images are many; `otherwise` those for the rest. */
export function sideBySide(
  exports: SimdExports,
  multiply: MultiplyLines,
  otherwise: (name: string) => OwnKernel,
): ReadonlyMap<string, OwnKernel> {
  const [reverseAxes, copyStrided] = [exported(exports, 'reverseAxes'), exported(exports, 'copyStrided')];
  /** A filter's elements [c, kh, kw] as [kh, kw, c], or back. */
  const turnFilters = (s: Sizes, from: number, to: number, back: boolean): void => {
    const [plane, c] = [s.kh * s.kw, s.c];
    if (back) copyStrided(from, to, 1, s.filters, c, plane, 0, s.taps, 1, c);
    else copyStrided(from, to, 1, s.filters, plane, c, 0, s.taps, 1, plane);
  };

  /** Calls `part` for some images after the others, with room for as many and their results side by side, and for filters with the channels last. */
  const inParts = (
    heap: Heap,
    s: Sizes,
    part: (first: number, n: number, x: number, y: number, filters: number) => void,
  ): void => {
    const most = Math.min(MOST_IMAGES, Math.floor(AT_ONCE / inOne(s)));
    // Parts of one size, so that the last is not a few images.
    const images = Math.ceil(s.n / Math.ceil(s.n / most));
    const [xs, ys] = [whole(images * s.image), whole(images * s.filters * s.area)];
    heap.meanwhile(xs + ys + s.filters * s.taps, (x) => {
      const y = x + 4 * xs;
      for (let first = 0; first < s.n; first += images) part(first, Math.min(images, s.n - first), x, y, y + 4 * ys);
    });
  };
  const clear = (heap: Heap, from: number, count: number): void => {
    new Float32Array(heap.memory.buffer, from, count).fill(0);
  };

  // Products are written out whole: spreading their sizes takes longer than a product of small matrices.
  const convolve: SizedKernel = (heap, inputs, s) => {
    const [from, given] = [at(input(inputs, 'x')), at(input(inputs, 'filters'))];
    return heap.filled(s.n * s.filters * s.area, (out) =>
      inParts(heap, s, (first, n, x, y, filters) => {
        if (first === 0) turnFilters(s, given, filters, false);
        reverseAxes(from + 4 * first * s.image, x, n, s.c, s.h * s.w);
        let last = -1;
        walk(
          s,
          (place, tap, pixel, across) => {
            const [a, b] = [filters + 4 * tap * s.c, x + 4 * pixel * s.c * n];
            const to = y + 4 * place * s.filters * n;
            multiply(
              heap,
              {
                m: s.filters,
                n,
                k: across * s.c,
                a,
                lineA: s.taps,
                turnA: false,
                b,
                lineB: n,
                turnB: false,
                out: to,
                lineOut: n,
              },
              place === last,
            );
            last = place;
          },
          (place) => clear(heap, y + 4 * place * s.filters * n, s.filters * n),
        );
        reverseAxes(y, out + 4 * first * s.filters * s.area, s.area, s.filters, n);
      }),
    );
  };

  const convolveFilter: SizedKernel = (heap, inputs, s) => {
    const [from, grad] = [at(input(inputs, 'x')), at(input(inputs, 'dy'))];
    return heap.filled(s.filters * s.taps, (out) =>
      inParts(heap, s, (first, n, x, y, filters) => {
        if (first === 0) clear(heap, filters, s.filters * s.taps);
        reverseAxes(from + 4 * first * s.image, x, n, s.c, s.h * s.w);
        reverseAxes(grad + 4 * first * s.filters * s.area, y, n, s.filters, s.area);
        const meet: Meeting = (place, tap, pixel, across) => {
          const [a, b] = [y + 4 * place * s.filters * n, x + 4 * pixel * s.c * n];
          multiply(
            heap,
            {
              m: s.filters,
              n: across * s.c,
              k: n,
              a,
              lineA: n,
              turnA: false,
              b,
              lineB: n,
              turnB: true,
              out: filters + 4 * tap * s.c,
              lineOut: s.taps,
            },
            true,
          );
        };
        walk(s, meet, (place) => {
          // It adds nothing but zeros: what is not finite leaves a NaN, by which the whole is known.
          if (!areFinite(heap, y + 4 * place * s.filters * n, s.filters * n))
            new Float32Array(heap.memory.buffer, filters, 1)[0] = NaN;
        });
        if (first + n === s.n) turnFilters(s, filters, out, true);
      }),
    );
  };

  const convolveImages: SizedKernel = (heap, inputs, s) => {
    const [grad, given] = [at(input(inputs, 'dy')), at(input(inputs, 'filters'))];
    return heap.filled(s.n * s.image, (out) =>
      inParts(heap, s, (first, n, x, y, filters) => {
        if (first === 0) turnFilters(s, given, filters, false);
        reverseAxes(grad + 4 * first * s.filters * s.area, y, n, s.filters, s.area);
        clear(heap, x, s.image * n);
        walk(s, (place, tap, pixel, across) => {
          const [a, b] = [filters + 4 * tap * s.c, y + 4 * place * s.filters * n];
          multiply(
            heap,
            {
              m: across * s.c,
              n,
              k: s.filters,
              a,
              lineA: s.taps,
              turnA: true,
              b,
              lineB: n,
              turnB: false,
              out: x + 4 * pixel * s.c * n,
              lineOut: n,
            },
            true,
          );
        });
        reverseAxes(x, out + 4 * first * s.image, s.h * s.w, s.c, n);
      }),
    );
  };

  const kernels = { Convolve: convolve, ConvolveFilter: convolveFilter, ConvolveImages: convolveImages };
  return new Map(
    Object.entries(kernels).map(([name, kernel]): [string, OwnKernel] => {
      const other = otherwise(name);
      return [
        name,
        (heap, inputs, attrs) => {
          const s = sizesOf(attrs);
          const plain = (): Block => other(heap, inputs, attrs);
          if (!fits(s)) return plain();
          const fast = (): Block => kernel(heap, inputs, s);
          return s.py > 0 || s.px > 0 ? countingZeros(heap, inputs, name, fast, plain) : fast();
        },
      ];
    }),
  );
}
