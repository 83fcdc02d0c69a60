/**
 * @file Convolutions by TensorFlow's library, of images channel by channel, as ours lie: its kernels for those are oneDNN's, which only some
 * builds have.
 */
import { TensorError } from '../errors.ts';
import { sizeOf } from '../shape.ts';
import type { DeviceTensor } from './backend.ts';
import type { Block, Heap } from './heap.ts';
import { at, countingZeros, input, type Attrs, type Inputs, type OwnKernel } from './own-kernel.ts';
import type { SimdExports } from './simd.ts';
import type { Attribute, TensorflowLibrary } from './tf-library.ts';

/** Multiply-adds up to which a call of the library is no faster than our own kernels. */
const SMALL = 2 ** 18;
/** Elements of images with their padding up to which a copy of them is made. */
const MOST_PADDED = 2 ** 26;

/** The kernels with the names of their operands. */
const OPERANDS = {
  Convolve: ['x', 'filters'],
  ConvolveFilter: ['x', 'dy'],
  ConvolveImages: ['dy', 'filters'],
} as const;
type Name = keyof typeof OPERANDS;
const NAMES = Object.keys(OPERANDS) as Name[];

/** What kernels of windows over images are given. */
type Windows = Readonly<
  Record<
    'n' | 'c' | 'h' | 'w' | 'kh' | 'kw' | 'sy' | 'sx' | 'py' | 'px' | 'dy' | 'dx' | 'outH' | 'outW' | 'filters',
    number
  >
>;

/** A convolution as the library is asked for it. */
interface Asked extends Windows {
  /** Sizes of the images: with their padding, unless the library puts that around by itself. */
  readonly images: readonly number[];
  readonly out: readonly number[];
  /** Whether the padding is what the library calls SAME. */
  readonly same: boolean;
}

function asked(attrs: Attrs): Asked {
  const s = attrs as Windows;
  const same = s.sy === 1 && s.sx === 1 && 2 * s.py + 1 === s.kh && 2 * s.px + 1 === s.kw;
  const images = same ? [s.n, s.c, s.h, s.w] : [s.n, s.c, s.h + 2 * s.py, s.w + 2 * s.px];
  return { same, images, out: [s.n, s.filters, s.outH, s.outW], ...s };
}

/** Whether the library has a kernel for it, which pays. */
function pays({ dy, dx, c, kh, kw, images, out }: Asked): boolean {
  return dy === 1 && dx === 1 && sizeOf(out) * c * kh * kw > SMALL && sizeOf(images) <= MOST_PADDED;
}

/** Kernels that call the library where that pays, else those of `own`; those alone where the library does not compute what they do. */
export function libraryConvolutions(
  library: TensorflowLibrary,
  exports: SimdExports,
  heap: Heap,
  own: ReadonlyMap<string, OwnKernel>,
): ReadonlyMap<string, OwnKernel> {
  const native = nativeKernels(library, exports);
  const kernels = new Map<string, OwnKernel>();
  for (const name of NAMES) {
    const [ours, theirs] = [own.get(name) as OwnKernel, native[name]];
    if (!agree(heap, name, ours, theirs)) return own;
    kernels.set(name, (on, inputs, attrs) => {
      const convolution = asked(attrs);
      const plain = (): Block => ours(on, inputs, attrs);
      if (!pays(convolution)) return plain();
      const fast = (): Block => theirs(on, inputs, convolution);
      // Zeros that it is given with the images it counts.
      return convolution.same ? countingZeros(on, inputs, name, fast, plain) : fast();
    });
  }
  return kernels;
}

type Kernel = (heap: Heap, inputs: Inputs, asked: Asked) => Block;

function nativeKernels(library: TensorflowLibrary, exports: SimdExports): Readonly<Record<Name, Kernel>> {
  const names = {
    forward: library.text('Conv2D'),
    filter: library.text('Conv2DBackpropFilter'),
    images: library.text('Conv2DBackpropInput'),
  };
  const layout = library.word('data_format', 'NCHW');
  const [same, valid] = [library.word('padding', 'SAME'), library.word('padding', 'VALID')];
  const strides = library.numbers('strides');
  const attributes = (s: Asked): Attribute[] => [layout, s.same ? same : valid, strides([1, 1, s.sy, s.sx])];

  const copy = (from: number, to: number, sizes: readonly number[], steps: readonly number[]): void => {
    exports['copyStrided']?.(from, to, ...sizes, ...steps);
  };
  const sizesOfFilters = ({ kh, kw, c, filters }: Asked): number[] => [kh, kw, c, filters];
  /** Filters as the library has them, an element of all of them after the other. */
  const turned = (heap: Heap, s: Asked, from: number, use: (filters: number) => void): void => {
    const area = s.kh * s.kw;
    heap.meanwhile(s.filters * s.c * area, (to) => {
      copy(from, to, sizesOfFilters(s), [s.kw, 1, area, s.c * area]);
      use(to);
    });
  };
  /** Images with what the library is not told of around them. */
  const padded = (heap: Heap, s: Asked, from: number, use: (images: number) => void): void => {
    const [, , height, width] = s.images as [number, number, number, number];
    if (height === s.h && width === s.w) return use(from);
    heap.meanwhile(sizeOf(s.images), (to) => {
      const steps = [s.c * height * width, height * width, width, 1];
      exports['placeStrided']?.(from, to, sizeOf(s.images), s.py * width + s.px, s.n, s.c, s.h, s.w, ...steps);
      use(to);
    });
  };

  return {
    Convolve: (heap, inputs, s) => {
      const [x, filters] = [at(input(inputs, 'x')), at(input(inputs, 'filters'))];
      return heap.filled(sizeOf(s.out), (out) =>
        padded(heap, s, x, (images) =>
          turned(heap, s, filters, (by) => {
            const operands = [
              { at: images, dims: s.images },
              { at: by, dims: sizesOfFilters(s) },
            ];
            library.run(heap, names.forward, operands, attributes(s), out, sizeOf(s.out));
          }),
        ),
      );
    },
    ConvolveFilter: (heap, inputs, s) => {
      const [x, dy] = [at(input(inputs, 'x')), at(input(inputs, 'dy'))];
      const size = sizeOf(sizesOfFilters(s));
      return heap.filled(size, (out) =>
        padded(heap, s, x, (images) =>
          heap.meanwhile(size, (gradient) => {
            const operands = [{ at: images, dims: s.images }, { list: sizesOfFilters(s) }, { at: dy, dims: s.out }];
            library.run(heap, names.filter, operands, attributes(s), gradient, size);
            const line = s.c * s.filters;
            copy(gradient, out, [s.filters, s.c, s.kh, s.kw], [1, s.filters, s.kw * line, line]);
          }),
        ),
      );
    },
    ConvolveImages: (heap, inputs, s) => {
      const [dy, filters] = [at(input(inputs, 'dy')), at(input(inputs, 'filters'))];
      const [, , height, width] = s.images as [number, number, number, number];
      return heap.filled(s.n * s.c * s.h * s.w, (out) =>
        turned(heap, s, filters, (by) => {
          const operands = [{ list: s.images }, { at: by, dims: sizesOfFilters(s) }, { at: dy, dims: s.out }];
          const run = (to: number): void =>
            library.run(heap, names.images, operands, attributes(s), to, sizeOf(s.images));
          if (height === s.h && width === s.w) return run(out);
          heap.meanwhile(sizeOf(s.images), (gradient) => {
            run(gradient);
            const from = gradient + 4 * (s.py * width + s.px);
            copy(from, out, [s.n, s.c, s.h, s.w], [s.c * height * width, height * width, width, 1]);
          });
        }),
      );
    },
  };
}

/** What the library has to compute as we do: padding of its own, none, and padding that it is not told of. */
const CHECKS = [
  { kh: 3, kw: 3, sy: 1, sx: 1, py: 1, px: 1, outH: 6, outW: 5 },
  { kh: 2, kw: 3, sy: 1, sx: 2, py: 0, px: 0, outH: 5, outW: 2 },
  { kh: 3, kw: 2, sy: 2, sx: 1, py: 2, px: 1, outH: 4, outW: 6 },
].map((check): Windows => ({ n: 2, c: 3, h: 6, w: 5, dy: 1, dx: 1, filters: 4, ...check }));

/** Whether both compute the same of whole numbers, whose sums are exact. */
function agree(heap: Heap, name: Name, ours: OwnKernel, theirs: Kernel): boolean {
  return CHECKS.every((windows) => {
    const s = asked(windows);
    const images = [s.n, s.c, s.h, s.w];
    const filters = [s.filters, s.c, s.kh, s.kw];
    const shapes = { x: images, filters, dy: s.out };
    const results = { Convolve: s.out, ConvolveFilter: filters, ConvolveImages: images };
    const blocks: Block[] = [];
    const valuesOf = ({ at, nbytes }: Block): Float32Array => new Float32Array(heap.memory.buffer, at, nbytes / 4);
    try {
      const inputs: Record<string, DeviceTensor> = {};
      for (const operand of OPERANDS[name]) {
        const buffer = heap.make(sizeOf(shapes[operand]), 'float32');
        blocks.push(buffer);
        valuesOf(buffer).forEach((_, i, all) => (all[i] = (i % 7) - 3));
        inputs[operand] = { buffer, shape: shapes[operand] };
      }
      const mine = ours(heap, inputs, { ...windows, size: sizeOf(results[name]) });
      blocks.push(mine);
      const other = computed(() => theirs(heap, inputs, s));
      if (other === undefined) return false;
      blocks.push(other);
      const values = valuesOf(other);
      return valuesOf(mine).every((value, i) => value === values[i]);
    } finally {
      for (const block of blocks) heap.free(block);
    }
  });
}

/** undefined where the library refuses: a build without kernels for images that lie so. */
function computed(run: () => Block): Block | undefined {
  try {
    return run();
  } catch (error) {
    if (error instanceof TensorError) return undefined;
    throw error;
  }
}
