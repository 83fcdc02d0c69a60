/** @file Kernels over images against the plain loop: odd sizes, unaligned, padded and spread windows, ties, NaN and infinities; and what tensors make of them. */
import { describe, expect, it } from 'vitest';
import { call, CANARY, describeKernels, memory, put, written } from '../../test/kernel-modules.ts';
import { conv2d, grad, tensor, type ConvOptions, type Tensor } from '../index.ts';

const BASE = { a: 0, b: 400_000, o: 1_200_000, space: 3_200_000 } as const;

let seed = 5;
/** Numbers from -3 to 3. */
const numbers = (n: number): Float32Array =>
  Float32Array.from({ length: n }, () => ((seed = (Math.imul(seed, 1664525) + 1013904223) | 0) / 2 ** 31) * 3);
/** Whole numbers from -4 to 4: their sums have the same bits in every order. */
const whole = (n: number): Float32Array => numbers(n).map((value) => Math.round((value * 4) / 3));

interface Sizes {
  readonly n: number;
  readonly c: number;
  readonly h: number;
  readonly w: number;
  readonly k: number;
  readonly kh: number;
  readonly kw: number;
  readonly sy: number;
  readonly sx: number;
  readonly py: number;
  readonly px: number;
  readonly dy: number;
  readonly dx: number;
}

const outH = (s: Sizes): number => Math.floor((s.h + 2 * s.py - s.dy * (s.kh - 1) - 1) / s.sy) + 1;
const outW = (s: Sizes): number => Math.floor((s.w + 2 * s.px - s.dx * (s.kw - 1) - 1) / s.sx) + 1;
const taps = (s: Sizes): number => s.c * s.kh * s.kw;

/** Calls `each` with the positions of an image's element, of a filter's and of the result's that meet. */
function meetings(s: Sizes, each: (image: number, filter: number, result: number) => void): void {
  const [H, W] = [outH(s), outW(s)];
  for (let i = 0; i < s.n; i++)
    for (let j = 0; j < s.k; j++)
      for (let y = 0; y < H; y++)
        for (let x = 0; x < W; x++)
          for (let t = 0; t < taps(s); t++) {
            const [ci, ky, kx] = [Math.floor(t / (s.kh * s.kw)), Math.floor(t / s.kw) % s.kh, t % s.kw];
            const [row, column] = [y * s.sy + ky * s.dy - s.py, x * s.sx + kx * s.dx - s.px];
            if (row < 0 || column < 0 || row >= s.h || column >= s.w) continue;
            each(((i * s.c + ci) * s.h + row) * s.w + column, j * taps(s) + t, ((i * s.k + j) * H + y) * W + x);
          }
}

const SIZES: readonly Sizes[] = [
  { n: 1, c: 1, h: 1, w: 4, k: 1, kh: 1, kw: 1, sy: 1, sx: 1, py: 0, px: 0, dy: 1, dx: 1 },
  { n: 2, c: 3, h: 5, w: 7, k: 2, kh: 3, kw: 3, sy: 1, sx: 1, py: 0, px: 0, dy: 1, dx: 1 },
  { n: 3, c: 2, h: 4, w: 6, k: 3, kh: 3, kw: 2, sy: 1, sx: 1, py: 1, px: 0, dy: 1, dx: 1 },
  { n: 2, c: 1, h: 6, w: 5, k: 4, kh: 2, kw: 5, sy: 1, sx: 1, py: 0, px: 2, dy: 2, dx: 1 },
  { n: 1, c: 5, h: 9, w: 11, k: 5, kh: 3, kw: 3, sy: 1, sx: 1, py: 2, px: 1, dy: 2, dx: 3 },
  { n: 2, c: 2, h: 8, w: 8, k: 6, kh: 5, kw: 5, sy: 1, sx: 1, py: 2, px: 2, dy: 1, dx: 1 },
  { n: 2, c: 4, h: 3, w: 13, k: 7, kh: 1, kw: 3, sy: 1, sx: 1, py: 0, px: 1, dy: 1, dx: 1 },
  { n: 1, c: 3, h: 7, w: 12, k: 9, kh: 3, kw: 3, sy: 1, sx: 1, py: 1, px: 1, dy: 1, dx: 1 },
  { n: 2, c: 3, h: 9, w: 16, k: 5, kh: 5, kw: 5, sy: 2, sx: 2, py: 2, px: 2, dy: 1, dx: 1 },
  { n: 1, c: 2, h: 10, w: 17, k: 6, kh: 3, kw: 3, sy: 1, sx: 3, py: 0, px: 0, dy: 1, dx: 2 },
  { n: 2, c: 1, h: 9, w: 12, k: 3, kh: 1, kw: 2, sy: 3, sx: 2, py: 0, px: 1, dy: 1, dx: 1 },
  { n: 2, c: 2, h: 5, w: 9, k: 17, kh: 2, kw: 2, sy: 1, sx: 1, py: 0, px: 0, dy: 1, dx: 1 },
];
const named = (s: Sizes): string => `${s.k} of ${s.kh} by ${s.kw} over [${s.n}, ${s.c}, ${s.h}, ${s.w}]`;
const placed = (s: Sizes): number[] => [
  s.n,
  s.c,
  s.h,
  s.w,
  s.k,
  s.kh,
  s.kw,
  s.sy,
  s.sx,
  s.py,
  s.px,
  s.dy,
  s.dx,
  outH(s),
  outW(s),
];
const spaced = (s: Sizes): number[] => [s.c, s.h, s.w, s.k, s.kh, s.kw, s.sx, s.py, s.px, outH(s), outW(s)];

describeKernels('filters', () =>
  describe.each(SIZES.map((s) => [named(s), s] as const))('%s', (_, s) => {
    const results = s.n * s.k * outH(s) * outW(s);
    /** Runs a kernel whose space is `name`'s, and finds that no more of it is used. */
    const kernel = (name: string, a: number, b: number, at: number, size: number): Float32Array => {
      const room = call(`${name}Space`, ...spaced(s)) as number;
      const guard = new Float32Array(memory.buffer, BASE.space + 4 * room, 8).fill(CANARY);
      const out = written(at, size, () => call(name, a, b, at, BASE.space, ...placed(s)));
      expect([...guard]).toEqual(Array(8).fill(CANARY));
      return out;
    };

    it.each([0, 4, 12])('have the exact sums, %i bytes off', (shift) => {
      const [x, f, g] = [whole(s.n * s.c * s.h * s.w), whole(s.k * taps(s)), whole(results)];
      const [sums, slopes] = [new Float32Array(results), new Float32Array(f.length)];
      meetings(s, (image, filter, result) => {
        sums[result]! += (x[image] as number) * (f[filter] as number);
        slopes[filter]! += (x[image] as number) * (g[result] as number);
      });
      const [a, b] = [put(BASE.a + shift, x), put(BASE.b + shift, f)];
      // What the space held before counts for nothing.
      new Float32Array(memory.buffer, BASE.space, 20_000).fill(NaN);
      expect([...kernel('convolve', a, b, BASE.o + shift, results)]).toEqual([...sums]);
      new Float32Array(memory.buffer, BASE.space, 20_000).fill(NaN);
      expect([...kernel('convolveFilter', a, put(b, g), BASE.o + shift, f.length)]).toEqual([...slopes]);
    });

    it('carry NaN and infinities to what they meet alone', () => {
      for (const odd of [NaN, Infinity, -Infinity]) {
        const [x, f, g] = [whole(s.n * s.c * s.h * s.w).fill(1), whole(s.k * taps(s)).fill(1), whole(results).fill(1)];
        x[x.length - 1] = odd;
        const [sums, slopes] = [new Float32Array(results), new Float32Array(f.length)];
        meetings(s, (image, filter, result) => {
          sums[result]! += x[image] as number;
          slopes[filter]! += x[image] as number;
        });
        expect([...kernel('convolve', put(BASE.a, x), put(BASE.b, f), BASE.o, results)]).toEqual([...sums]);
        expect([...kernel('convolveFilter', BASE.a, put(BASE.b, g), BASE.o, f.length)]).toEqual([...slopes]);
      }
    });

    it('have the same bits wherever an image and a filter stand among others', () => {
      const [x, f] = [numbers(s.n * s.c * s.h * s.w), numbers(s.k * taps(s))];
      const all = kernel('convolve', put(BASE.a, x), put(BASE.b, f), BASE.o, results);
      const last = { ...s, n: 1, k: 1 };
      const area = outH(s) * outW(s);
      const [a, b] = [BASE.a + 4 * (s.n - 1) * s.c * s.h * s.w, BASE.b + 4 * (s.k - 1) * taps(s)];
      const alone = written(BASE.o, area, () => call('convolve', a, b, BASE.o, BASE.space, ...placed(last)));
      expect([...alone]).toEqual([...all.subarray(results - area)]);
    });
  }),
);

describeKernels('columns', () => {
  /** Windows that reach beyond the padding, results narrower than four, steps that leave columns out, and more images than are taken at once. */
  const MORE: readonly Sizes[] = [
    { n: 2, c: 2, h: 5, w: 5, k: 1, kh: 3, kw: 3, sy: 2, sx: 2, py: 0, px: 0, dy: 1, dx: 1 },
    { n: 3, c: 1, h: 3, w: 3, k: 1, kh: 3, kw: 3, sy: 1, sx: 1, py: 0, px: 0, dy: 1, dx: 1 },
    { n: 2, c: 2, h: 4, w: 9, k: 1, kh: 1, kw: 1, sy: 3, sx: 4, py: 0, px: 1, dy: 1, dx: 1 },
    { n: 9, c: 1, h: 60, w: 70, k: 1, kh: 2, kw: 1, sy: 1, sx: 1, py: 3, px: 2, dy: 1, dx: 1 },
    { n: 2, c: 3, h: 3, w: 4, k: 1, kh: 2, kw: 2, sy: 1, sx: 2, py: 1, px: 3, dy: 1, dx: 1 },
  ];
  const beyond = (s: Sizes, [h, w]: readonly [number, number]): [string, Sizes, number, number] => [
    `${s.kh} by ${s.kw} over [${s.n}, ${s.c}, ${s.h}, ${s.w}]${h + w === 0 ? '' : ` and ${h}, ${w} windows more`}`,
    s,
    outH(s) + h,
    outW(s) + w,
  ];
  const CASES = [...SIZES, ...MORE].flatMap((s) =>
    (
      [
        [0, 0],
        [1, 0],
        [0, 1],
      ] as const
    ).map((more) => beyond(s, more)),
  );

  it.each(CASES)('of %s', (_, s, H, W) => {
    const [size, columns] = [s.n * s.c * s.h * s.w, s.n * H * W];
    const room = call('windowSpace', s.n, s.h, s.w, s.kh, s.kw, s.sy, s.sx, s.py, s.px, s.dy, s.dx, H, W) as number;
    const windows = [s.n, s.c, s.h, s.w, s.kh, s.kw, s.sy, s.sx, s.py, s.px, s.dy, s.dx, H, W];
    const kernel = (name: string, a: number, at: number, count: number): Float32Array => {
      new Float32Array(memory.buffer, BASE.space, room).fill(NaN);
      const guard = new Float32Array(memory.buffer, BASE.space + 4 * room, 8).fill(CANARY);
      const out = written(at, count, () => call(name, a, at, BASE.space, ...windows));
      expect([...guard]).toEqual(Array(8).fill(CANARY));
      return out;
    };
    for (const shift of [0, 4, 12]) {
      const [x, g] = [numbers(size), numbers(taps(s) * columns)];
      x[size - 1] = NaN;
      g[g.length - 1] = Infinity;
      const [unfolded, folded] = [new Float32Array(g.length), new Float32Array(size)];
      // In the order of the filter's elements, in which sums are made.
      for (let t = 0, at = 0; t < taps(s); t++)
        for (let i = 0; i < s.n; i++)
          for (let y = 0; y < H; y++)
            for (let column = 0; column < W; column++, at++) {
              const [ci, ky, kx] = [Math.floor(t / (s.kh * s.kw)), Math.floor(t / s.kw) % s.kh, t % s.kw];
              const [row, across] = [y * s.sy + ky * s.dy - s.py, column * s.sx + kx * s.dx - s.px];
              if (row < 0 || across < 0 || row >= s.h || across >= s.w) continue;
              const image = ((i * s.c + ci) * s.h + row) * s.w + across;
              unfolded[at] = x[image] as number;
              folded[image]! += g[at] as number;
            }
      expect([...kernel('unfold', put(BASE.a + shift, x), BASE.o + shift, g.length)]).toEqual([...unfolded]);
      const from = put(BASE.b + shift, g);
      // What follows the columns counts for nothing.
      new Float32Array(memory.buffer, from + 4 * g.length, 4).fill(NaN);
      expect([...kernel('fold', from, BASE.o + shift, size)]).toEqual([...folded]);
    }
  });
});

describeKernels('the largest of windows', () => {
  it.each([
    ['two by two', 2, 2, 2, 2, 0],
    ['two by two that overlap', 2, 2, 1, 1, 0],
    ['two by two with gaps', 2, 2, 3, 3, 0],
    ['of three by three in padding', 3, 3, 2, 2, 1],
  ])('%s: the first of equal ones, NaN before all', (_, kh, kw, sy, sx, p) => {
    for (const [h, w] of [
      [2, 2],
      [3, 7],
      [6, 8],
      [8, 11],
      [5, 19],
      [4, 26],
    ] as const) {
      const images = 3;
      const [H, W] = [Math.floor((h + 2 * p - kh) / sy) + 1, Math.floor((w + 2 * p - kw) / sx) + 1];
      const x = whole(images * h * w);
      for (let i = 3; i < x.length; i += 11) x[i] = [NaN, Infinity, -Infinity][i % 3] as number;
      const exact: number[] = [];
      for (let image = 0; image < images; image++)
        for (let oy = 0; oy < H; oy++)
          for (let ox = 0; ox < W; ox++) {
            let best = -1;
            for (let ky = 0; ky < kh; ky++)
              for (let kx = 0; kx < kw; kx++) {
                const [row, column] = [oy * sy + ky - p, ox * sx + kx - p];
                if (row < 0 || column < 0 || row >= h || column >= w) continue;
                const at = (image * h + row) * w + column;
                const [value, than] = [x[at] as number, x[best] as number];
                if (best === -1 || value > than || Number.isNaN(value)) best = at;
              }
            exact.push(best);
          }
      const out = written(BASE.o, exact.length, () =>
        call('largestPositions', put(BASE.a + 4, x), BASE.o, images, h, w, kh, kw, sy, sx, p, p, H, W),
      );
      expect([...new Int32Array(out.buffer, 0, exact.length)], `${h} by ${w}`).toEqual(exact);
    }
  });
});

describeKernels('sums around the middle', () => {
  it.each([
    [1, 1, 1],
    [3, 2, 5],
    [2, 4, 33],
    [5, 3, 64],
    [0, 3, 4],
    [4, 3, 0],
  ])('of [%i, %i, %i]', (before, kept, after) => {
    const x = whole(before * kept * after);
    const exact = new Float32Array(kept);
    for (const [i, value] of x.entries()) exact[Math.floor(i / after) % kept]! += value;
    const out = written(BASE.o, kept, () => call('sumAround', put(BASE.a + 4, x), BASE.o, before, kept, after, 2));
    expect([...out]).toEqual([...exact].map((value) => value / 2));
  });
});

describe('a convolution of tensors', () => {
  /** On both sides of what is computed without columns: narrow results, steps, many filters. */
  const CASES: readonly [string, number[], number[], object][] = [
    ['plain', [3, 2, 9, 10], [6, 2, 3, 3], {}],
    ['padded', [2, 1, 12, 12], [4, 1, 5, 5], { padding: 2 }],
    ['spread', [2, 3, 11, 13], [5, 3, 3, 3], { dilation: [2, 3], padding: [0, 1] }],
    ['narrow', [4, 3, 20, 5], [7, 3, 3, 3], {}],
    ['in steps of two', [2, 3, 16, 16], [5, 3, 3, 3], { stride: 2, padding: 1 }],
    ['in steps of two and three', [2, 3, 15, 19], [5, 3, 2, 4], { stride: [2, 3], dilation: [2, 1] }],
    ['of many filters', [2, 3, 12, 12], [33, 3, 3, 3], { padding: 1 }],
    ['in groups', [2, 4, 12, 12], [6, 2, 3, 3], { groups: 2 }],
    ['with more columns than are made at once', [20, 8, 28, 28], [12, 8, 3, 3], { padding: 1 }],
    ['with more of one image than are made at once', [2, 8, 89, 91], [9, 8, 3, 3], { padding: 1 }],
    ['of results narrower than four', [5, 16, 6, 6], [40, 16, 5, 5], { padding: 0 }],
    ['of more images than lie side by side at once', [150, 8, 6, 7], [9, 8, 3, 3], { padding: 1 }],
    ['of many images with windows beside them', [50, 11, 4, 5], [8, 11, 2, 3], { padding: 4, stride: [1, 2] }],
    ['of some images and many filters', [33, 24, 7, 5], [40, 24, 3, 3], { padding: [1, 0], stride: 2 }],
    ['of many images with gaps between lines', [64, 11, 9, 8], [7, 11, 3, 2], { dilation: [2, 1] }],
  ];
  /** Up to roundings of single precision, measured by the largest element. */
  const close = (got: Tensor, exact: Tensor): boolean => {
    const largest = (exact.dataSync() as Float64Array).reduce((most, value) => Math.max(most, Math.abs(value)), 1);
    return got.to('float64').allClose(exact, { rtol: 1e-5, atol: 1e-6 * largest });
  };

  it.each(CASES)(
    '%s has the gradients, and those of its gradients, that it has in double precision',
    (_, a, b, options) => {
      const values = [a, b].map((shape) => numbers(shape.reduce((n, d) => n * d, 1)));
      const all = (['float32', 'float64'] as const).map((dtype) => {
        const [x, w] = [a, b].map((shape, i) =>
          tensor(values[i] as Float32Array, { shape, dtype, requiresGrad: true }),
        ) as [Tensor, Tensor];
        const y = conv2d(x, w, options);
        const slopes = grad([y.pow(2).sum()], [x, w], { createGraph: true }) as [Tensor, Tensor];
        const second = grad([slopes[0].pow(2).sum().add(slopes[1].pow(2).sum())], [x, w]) as [Tensor, Tensor];
        return [y, ...slopes, ...second];
      });
      for (const [i, got] of (all[0] as Tensor[]).entries()) expect(close(got, all[1]?.[i] as Tensor)).toBe(true);
    },
  );

  it('of any sizes, steps, gaps, padding and groups has them', () => {
    for (let round = 0; round < 150; round++) {
      const first = seed;
      const upTo = (n: number): number => {
        seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
        return Math.floor(((seed >>> 0) / 2 ** 32) * n);
      };
      const oneOf = (list: readonly number[]): number => list[upTo(list.length)] as number;
      const groups = oneOf([1, 1, 1, 2]);
      const [c, k] = [groups * oneOf([1, 2, 3, 16, 40]), groups * oneOf([1, 3, 4, 6, 7, 8, 9, 17, 33])];
      const a = [oneOf([1, 2, 3, 20, 31, 32, 70, 130]), c, 1 + upTo(20), 1 + upTo(20)];
      const b = [k, c / groups, 1 + upTo(5), 1 + upTo(5)];
      const two = (n: number, from: number): [number, number] => [from + upTo(n), from + upTo(n)];
      const options = { stride: two(4, 1), padding: two(5, 0), dilation: two(3, 1), groups };
      const room = ([0, 1] as const).every(
        (d) => (a[2 + d] as number) + 2 * options.padding[d] > options.dilation[d] * ((b[2 + d] as number) - 1),
      );
      if (!room) continue;
      const values = [a, b].map((shape) => numbers(shape.reduce((n, d) => n * d, 1)));
      const [got, exact] = (['float32', 'float64'] as const).map((dtype) => {
        const [x, w] = [a, b].map((shape, i) =>
          tensor(values[i] as Float32Array, { shape, dtype, requiresGrad: true }),
        ) as [Tensor, Tensor];
        const y = conv2d(x, w, options);
        return [y, ...grad([y.pow(2).sum()], [x, w])];
      }) as [Tensor[], Tensor[]];
      const where = `seed ${first}: ${b.join(' by ')} over [${a.join(', ')}], ${JSON.stringify(options)}`;
      for (const [i, one] of got.entries()) expect(close(one, exact[i] as Tensor), where).toBe(true);
    }
  });

  it('reads views, and what changed in place', () => {
    const [x, w] = [
      tensor(whole(2 * 8 * 9 * 3), { shape: [2, 8, 9, 3] }),
      tensor(whole(4 * 27), { shape: [4, 3, 3, 3] }),
    ];
    const view = x.permute([0, 3, 1, 2]);
    const turned = w.permute([0, 1, 3, 2]);
    const exact = (): Tensor => conv2d(view.to('float64'), turned.to('float64'));
    expect(conv2d(view, turned).to('float64').equal(exact())).toBe(true);
    x.mul_(2);
    w.add_(1);
    expect(conv2d(view, turned).to('float64').equal(exact())).toBe(true);
  });

  it.each<[string, ConvOptions, number]>([
    ['steps', { stride: 2 ** 30 }, 36],
    ['steps of a billion across', { stride: [1, 2 ** 30] }, 36],
    ['gaps in padding', { dilation: 2 ** 20, padding: 2 ** 20 }, 9],
    ['gaps in padding of many images', { dilation: [1, 2 ** 28], padding: [0, 2 ** 28] }, 9],
  ])('has %s that no memory has room for', (_, options, c) => {
    const [a, b] = [numbers(20 * c * 40 * 40), numbers(16 * c * 9)];
    const all = (['float32', 'float64'] as const).map((dtype) => {
      const x = tensor(a, { shape: [20, c, 40, 40], dtype, requiresGrad: true });
      const w = tensor(b, { shape: [16, c, 3, 3], dtype, requiresGrad: true });
      const y = conv2d(x, w, options);
      return [y, ...grad([y.pow(2).sum()], [x, w])];
    });
    for (const [i, got] of (all[0] as Tensor[]).entries()) expect(close(got, all[1]?.[i] as Tensor)).toBe(true);
  });

  it('takes batches of nothing', () => {
    const w = tensor(whole(4 * 27), { shape: [4, 3, 3, 3], requiresGrad: true });
    const x = tensor(new Float32Array(0), { shape: [0, 3, 8, 8], requiresGrad: true });
    const y = conv2d(x, w);
    expect(y.shape).toEqual([0, 4, 6, 6]);
    y.sum().backward();
    expect([...(w.grad?.dataSync() as Float32Array)]).toEqual(Array(108).fill(0));
  });
});
