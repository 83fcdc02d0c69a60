/** @file Convolutions as products with columns, of as many images at once as leave the columns in a cache: the product finds them there. */
import type { Heap } from './heap.ts';
import { at, input, numbers, whole, WINDOW_SPACE, WINDOWS, type Attrs, type OwnKernel } from './own-kernel.ts';
import type { Multiply, Product } from './products.ts';
import type { SimdExports } from './simd.ts';

/** Filters up to which a library's product does not make good for the columns that it needs. */
export const FEW_FILTERS = 8;
/** The narrowest result that is computed without columns: four neighbours at once. */
const NARROWEST = 4;
/** Elements of columns made at once, unless one image has more: 2 MiB, which stay in a cache. Of fewer, products are slower; calls of a library cost too. */
const AT_ONCE = 2 ** 19;

/** A product that is added to what is there if `add`. */
export type MultiplyAdd = (heap: Heap, product: Product, add: boolean) => void;

interface Sizes {
  readonly n: number;
  /** Elements of an image, of one filter and of one of its results. */
  readonly image: number;
  readonly taps: number;
  readonly area: number;
  readonly filters: number;
  /** As the kernels of columns take them, for `n` images. */
  readonly windows: (n: number) => number[];
  readonly space: (n: number) => number[];
}

/** Addresses of what is worked in. */
interface Room {
  readonly columns: number;
  /** For results side by side. */
  readonly results: number;
  readonly space: number;
}

function sizesOf(attrs: Attrs): Sizes {
  const windows = numbers(attrs, WINDOWS);
  const space = numbers(attrs, WINDOW_SPACE);
  const [n, c, h, w, kh, kw] = windows;
  const [filters, outH, outW] = numbers(attrs, ['filters', 'outH', 'outW']);
  return {
    n,
    image: c * h * w,
    taps: c * kh * kw,
    area: outH * outW,
    filters,
    windows: (images) => [images, ...windows.slice(1)],
    space: (images) => [images, ...space.slice(1)],
  };
}

/** Convolve, ConvolveFilter and ConvolveImages by products. */
export function columnKernels(exports: SimdExports, multiply: MultiplyAdd): ReadonlyMap<string, OwnKernel> {
  const run = (name: string, ...args: number[]): number => exports[name]?.(...args) as number;

  /** Calls `part` for some images after the others, with columns for them and, where they are more than one, room for their results side by side. */
  const inParts = (heap: Heap, s: Sizes, part: (first: number, images: number, room: Room) => void): void => {
    const images = Math.min(s.n, Math.max(1, Math.floor(AT_ONCE / (s.taps * s.area))));
    const [columns, results] = [whole(s.taps * images * s.area), whole(s.filters * images * s.area)];
    heap.meanwhile(columns + results + run('windowSpace', ...s.space(images)), (start) => {
      const room = { columns: start, results: start + 4 * columns, space: start + 4 * (columns + results) };
      for (let first = 0; first < s.n; first += images) part(first, Math.min(images, s.n - first), room);
    });
  };
  /** [p, q, area] as [q, p, area]. */
  const exchange = (from: number, to: number, [p, q, area]: readonly [number, number, number]): void => {
    run('copyStrided', from, to, 1, q, p, area, 0, area, q * area, 1);
  };
  /** The gradients of some images' results side by side: those of one lie so. */
  const sideBySide = (s: Sizes, dy: number, images: number, room: number): number => {
    if (images === 1) return dy;
    exchange(dy, room, [images, s.filters, s.area]);
    return room;
  };

  return new Map<string, OwnKernel>([
    [
      'Convolve',
      (heap, inputs, attrs) => {
        const s = sizesOf(attrs);
        const [x, filters] = [at(input(inputs, 'x')), at(input(inputs, 'filters'))];
        return heap.filled(s.n * s.filters * s.area, (out) =>
          inParts(heap, s, (first, images, { columns, results: room, space }) => {
            const to = out + 4 * first * s.filters * s.area;
            run('unfold', x + 4 * first * s.image, columns, space, ...s.windows(images));
            // One image's results lie as they should; libraries write where a line of the cache begins.
            const result = images === 1 && to % 64 === 0 ? to : room;
            const sizes = { m: s.filters, n: images * s.area, k: s.taps };
            multiply(heap, { a: filters, turnA: false, b: columns, turnB: false, out: result, ...sizes }, false);
            if (result === room) exchange(room, to, [s.filters, images, s.area]);
          }),
        );
      },
    ],
    [
      'ConvolveFilter',
      (heap, inputs, attrs) => {
        const s = sizesOf(attrs);
        const [x, dy] = [at(input(inputs, 'x')), at(input(inputs, 'dy'))];
        return heap.filled(s.filters * s.taps, (out) =>
          inParts(heap, s, (first, images, { columns, results: room, space }) => {
            run('unfold', x + 4 * first * s.image, columns, space, ...s.windows(images));
            const results = sideBySide(s, dy + 4 * first * s.filters * s.area, images, room);
            const sizes = { m: s.filters, n: s.taps, k: images * s.area };
            multiply(heap, { a: results, turnA: false, b: columns, turnB: true, out, ...sizes }, first > 0);
          }),
        );
      },
    ],
    [
      'ConvolveImages',
      (heap, inputs, attrs) => {
        const s = sizesOf(attrs);
        const [dy, filters] = [at(input(inputs, 'dy')), at(input(inputs, 'filters'))];
        return heap.filled(s.n * s.image, (out) =>
          inParts(heap, s, (first, images, { columns, results: room, space }) => {
            const results = sideBySide(s, dy + 4 * first * s.filters * s.area, images, room);
            const sizes = { m: s.taps, n: images * s.area, k: s.filters };
            multiply(heap, { a: filters, turnA: true, b: results, turnB: false, out: columns, ...sizes }, false);
            run('fold', columns, out + 4 * first * s.image, space, ...s.windows(images));
          }),
        );
      },
    ],
  ]);
}

/** `direct` up to so many filters, where its loops fit; else `columns`. */
export function byFilters(most: number, direct: OwnKernel, columns: OwnKernel): OwnKernel {
  return (heap, inputs, attrs) => {
    const few = (attrs['filters'] as number) <= most && (attrs['outW'] as number) >= NARROWEST;
    return (few ? direct : columns)(heap, inputs, attrs);
  };
}

/** By a product that replaces what is there: what has to be added is computed elsewhere first. */
export function addingUp(exports: SimdExports, replace: Multiply): MultiplyAdd {
  return (heap, product, add) => {
    if (!add) return replace(heap, product);
    const { m, n, out } = product;
    heap.meanwhile(m * n, (more) => {
      replace(heap, { ...product, out: more });
      exports['add']?.(out, 0, 1, more, 0, 1, out, 1, m * n);
    });
  };
}
