/** @file Convolutions of native TensorFlow: the sums of the plain loops, exactly, in every way in which the library is asked, and gradients. */
import { describe, expect, it } from 'vitest';
import { backendName, conv2d, tensor, type Tensor } from '../index.ts';
import { currentDevice } from './current.ts';

let seed = 3;
/** Whole numbers from -4 to 4: their sums have the same bits whoever adds them up. */
const whole = (n: number): Float32Array =>
  Float32Array.from({ length: n }, () => ((seed = (Math.imul(seed, 1664525) + 1013904223) | 0) >> 28) % 5);

interface Sizes {
  readonly n: number;
  readonly c: number;
  readonly h: number;
  readonly w: number;
  readonly filters: number;
  readonly kernel: readonly [number, number];
  readonly stride: readonly [number, number];
  readonly padding: readonly [number, number];
  readonly dilation?: readonly [number, number];
}

/** Each on the side of the threshold where the library is called, but for the last two, which it has no kernel for or is not worth asking for. */
const SIZES: readonly Sizes[] = [
  { n: 3, c: 8, h: 17, w: 15, filters: 9, kernel: [3, 3], stride: [1, 1], padding: [1, 1] },
  { n: 2, c: 16, h: 20, w: 21, filters: 16, kernel: [3, 5], stride: [1, 1], padding: [0, 0] },
  { n: 2, c: 6, h: 28, w: 28, filters: 12, kernel: [5, 5], stride: [2, 2], padding: [2, 2] },
  { n: 1, c: 16, h: 31, w: 18, filters: 24, kernel: [3, 2], stride: [3, 1], padding: [2, 1] },
  { n: 5, c: 40, h: 12, w: 12, filters: 33, kernel: [1, 1], stride: [1, 1], padding: [0, 0] },
  { n: 4, c: 64, h: 9, w: 9, filters: 48, kernel: [1, 1], stride: [2, 2], padding: [0, 0] },
  { n: 2, c: 16, h: 9, w: 11, filters: 16, kernel: [9, 11], stride: [1, 1], padding: [4, 5] },
  { n: 300, c: 1, h: 12, w: 12, filters: 6, kernel: [4, 4], stride: [1, 2], padding: [1, 3] },
  { n: 3, c: 12, h: 18, w: 18, filters: 12, kernel: [3, 3], stride: [1, 1], padding: [2, 2], dilation: [2, 2] },
  { n: 1, c: 2, h: 5, w: 5, filters: 3, kernel: [3, 3], stride: [1, 1], padding: [1, 1] },
];

/** Calls `use` with the positions in image, filter and result of each product that a convolution adds up. */
function eachProduct(
  s: Sizes,
  [outH, outW]: readonly [number, number],
  use: (x: number, f: number, y: number) => void,
) {
  const [kh, kw] = s.kernel;
  const [dy, dx] = s.dilation ?? [1, 1];
  for (let n = 0; n < s.n; n++)
    for (let k = 0; k < s.filters; k++)
      for (let oy = 0; oy < outH; oy++)
        for (let ox = 0; ox < outW; ox++)
          for (let c = 0; c < s.c; c++)
            for (let i = 0; i < kh; i++) {
              const y = oy * s.stride[0] - s.padding[0] + i * dy;
              if (y < 0 || y >= s.h) continue;
              for (let j = 0; j < kw; j++) {
                const x = ox * s.stride[1] - s.padding[1] + j * dx;
                if (x < 0 || x >= s.w) continue;
                const image = ((n * s.c + c) * s.h + y) * s.w + x;
                use(image, ((k * s.c + c) * kh + i) * kw + j, ((n * s.filters + k) * outH + oy) * outW + ox);
              }
            }
}

const flat = (t: Tensor | null): number[] => [...((t as Tensor).dataSync() as Float32Array)];

describe.runIf(backendName() === 'tensorflow' && currentDevice() === 'cpu')('a convolution on tensorflow', () => {
  it.each(SIZES)('of $n × $c × $h × $w, $filters of $kernel, step $stride, padding $padding is exact', (s) => {
    const [kh, kw] = s.kernel;
    const [images, filters] = [whole(s.n * s.c * s.h * s.w), whole(s.filters * s.c * kh * kw)];
    const x = tensor(images, { shape: [s.n, s.c, s.h, s.w], requiresGrad: true });
    const f = tensor(filters, { shape: [s.filters, s.c, kh, kw], requiresGrad: true });
    const y = conv2d(x, f, { stride: s.stride, padding: s.padding, dilation: s.dilation ?? [1, 1] });
    const pull = whole(y.size);
    y.backward(tensor(pull, { shape: y.shape }));

    const [result, dx, df] = [y.size, images.length, filters.length].map((size) => new Float64Array(size));
    eachProduct(s, y.shape.slice(2) as [number, number], (at, by, to) => {
      (result as Float64Array)[to]! += images[at]! * filters[by]!;
      (dx as Float64Array)[at]! += pull[to]! * filters[by]!;
      (df as Float64Array)[by]! += pull[to]! * images[at]!;
    });
    expect(flat(y.detach())).toEqual([...(result as Float64Array)]);
    expect(flat(x.grad)).toEqual([...(dx as Float64Array)]);
    expect(flat(f.grad)).toEqual([...(df as Float64Array)]);
  });

  it('keeps NaN and infinities to the results that read them', () => {
    const images = new Float32Array(4 * 8 * 20 * 20).fill(1);
    images[3] = NaN;
    images[8 * 400] = -Infinity;
    const y = conv2d(
      tensor(images, { shape: [4, 8, 20, 20] }),
      tensor(new Float32Array(8 * 8 * 9).fill(1), { shape: [8, 8, 3, 3] }),
    );
    const out = y.dataSync() as Float32Array;
    // The window in the corner reads columns 0 to 2; that of the next image reads the infinity.
    expect([out[0], out[1], out[4]]).toEqual([72, NaN, 72]);
    expect([out[8 * 324], out[8 * 324 + 1]]).toEqual([-Infinity, 72]);
  });

  it('has the same bits each time', () => {
    const [x, f] = [whole(6 * 8 * 400), whole(24 * 8 * 9)].map((values) => values.map((value) => value / 7));
    const once = (): number[] =>
      flat(
        conv2d(
          tensor(x as Float32Array, { shape: [6, 8, 20, 20] }),
          tensor(f as Float32Array, { shape: [24, 8, 3, 3] }),
        ),
      );
    const first = once();
    for (let i = 0; i < 5; i++) expect(once()).toEqual(first);
  });
});
