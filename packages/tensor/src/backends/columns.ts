/** @file Convolutions as products with columns, of as many images at once as leave the columns in a cache: the product finds them there. */
import { InvariantError } from '../errors.ts';
import type { DeviceTensor } from './backend.ts';
import { blockOf, type Block, type Heap } from './heap.ts';
import type { Attrs, Inputs, OwnKernel } from './own-kernel.ts';
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

const AFTER_N = ['c', 'h', 'w', 'kh', 'kw', 'sy', 'sx', 'py', 'px', 'dy', 'dx', 'outH', 'outW'] as const;

function sizesOf(attrs: Attrs): Sizes {
  const get = (name: string): number => {
    const value = attrs[name];
    if (typeof value !== 'number') throw new InvariantError(`a convolution was not given ${name}`);
    return value;
  };
  const rest = AFTER_N.map(get);
  return {
    n: get('n'),
    image: get('c') * get('h') * get('w'),
    taps: get('c') * get('kh') * get('kw'),
    area: get('outH') * get('outW'),
    filters: get('filters'),
    windows: (n) => [n, ...rest],
    space: (n) => [n, ...rest.slice(1)],
  };
}

const at = (inputs: Inputs, name: string): number => blockOf((inputs[name] as DeviceTensor).buffer).at;

/** Convolve, ConvolveFilter and ConvolveImages by products. */
export function columnKernels(exports: SimdExports, multiply: MultiplyAdd): ReadonlyMap<string, OwnKernel> {
  const run = (name: string, ...args: number[]): number => exports[name]?.(...args) as number;

  /** Calls `part` for some images after the others, with columns for them and, where they are more than one, room for their results side by side. */
  const inParts = (heap: Heap, s: Sizes, part: (first: number, images: number, room: Room) => void): void => {
    const images = Math.min(s.n, Math.max(1, Math.floor(AT_ONCE / (s.taps * s.area))));
    const blocks = [s.taps * images * s.area, s.filters * images * s.area, run('windowSpace', ...s.space(images))];
    const parts = blocks.map((size) => heap.make(size, 'float32'));
    const [columns, results, space] = parts.map((block) => block.at) as [number, number, number];
    try {
      for (let first = 0; first < s.n; first += images)
        part(first, Math.min(images, s.n - first), { columns, results, space });
    } finally {
      for (const block of parts) heap.free(block);
    }
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

  const made = (heap: Heap, size: number, fill: (out: number) => void): Block => {
    const out = heap.make(size, 'float32');
    try {
      fill(out.at);
      return out;
    } catch (error) {
      heap.free(out);
      throw error;
    }
  };

  return new Map<string, OwnKernel>([
    [
      'Convolve',
      (heap, inputs, attrs) => {
        const s = sizesOf(attrs);
        const [x, filters] = [at(inputs, 'x'), at(inputs, 'filters')];
        return made(heap, s.n * s.filters * s.area, (out) =>
          inParts(heap, s, (first, images, { columns, results: room, space }) => {
            const to = out + 4 * first * s.filters * s.area;
            run('unfold', x + 4 * first * s.image, columns, space, ...s.windows(images));
            // One image's results lie as they should; libraries write where a line of the cache begins.
            const result = images === 1 && to % 64 === 0 ? to : room;
            const sizes = { m: s.filters, n: images * s.area, k: s.taps };
            multiply(heap, { ...sizes, a: filters, turnA: false, b: columns, turnB: false, out: result }, false);
            if (result === room) exchange(room, to, [s.filters, images, s.area]);
          }),
        );
      },
    ],
    [
      'ConvolveFilter',
      (heap, inputs, attrs) => {
        const s = sizesOf(attrs);
        const [x, dy] = [at(inputs, 'x'), at(inputs, 'dy')];
        return made(heap, s.filters * s.taps, (out) =>
          inParts(heap, s, (first, images, { columns, results: room, space }) => {
            run('unfold', x + 4 * first * s.image, columns, space, ...s.windows(images));
            const results = sideBySide(s, dy + 4 * first * s.filters * s.area, images, room);
            const sizes = { m: s.filters, n: s.taps, k: images * s.area };
            multiply(heap, { ...sizes, a: results, turnA: false, b: columns, turnB: true, out }, first > 0);
          }),
        );
      },
    ],
    [
      'ConvolveImages',
      (heap, inputs, attrs) => {
        const s = sizesOf(attrs);
        const [dy, filters] = [at(inputs, 'dy'), at(inputs, 'filters')];
        return made(heap, s.n * s.image, (out) =>
          inParts(heap, s, (first, images, { columns, results: room, space }) => {
            const results = sideBySide(s, dy + 4 * first * s.filters * s.area, images, room);
            const sizes = { m: s.taps, n: images * s.area, k: s.filters };
            multiply(heap, { ...sizes, a: filters, turnA: true, b: results, turnB: false, out: columns }, false);
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
    const more = heap.make(m * n, 'float32');
    try {
      replace(heap, { ...product, out: more.at });
      exports['add']?.(out, 0, 1, more.at, 0, 1, out, 1, m * n);
    } finally {
      heap.free(more);
    }
  };
}
