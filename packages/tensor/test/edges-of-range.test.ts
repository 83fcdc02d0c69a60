/** @file Zero, infinity, NaN, what no dtype has a place for, and shapes of two meanings: what PyTorch 2.13 makes of them. */
import { describe, expect, it } from 'vitest';
import * as bw from '../src/index.ts';

const { Infinity: INF, NaN: NAN } = globalThis;
const MOST = 3.4028234663852886e38;

/** The gradient of the sum of what `fn` makes of `values`. */
function slope(values: bw.Nested<number>, fn: (t: bw.Tensor) => bw.Tensor): unknown {
  const t = bw.tensor(values, { requiresGrad: true });
  fn(t).sum().backward();
  return t.grad?.toArray();
}

describe('products', () => {
  it('have slopes of zeros and infinities without a division', () => {
    expect(slope([0, INF, 0], (t) => t.prod())).toEqual([0, 0, 0]);
    expect(
      slope(
        [
          [0, INF],
          [2, 3],
        ],
        (t) => t.prod(0),
      ),
    ).toEqual([
      [2, 3],
      [0, INF],
    ]);
    expect(
      slope(
        [
          [0, INF],
          [2, 3],
        ],
        (t) => t.prod(),
      ),
    ).toEqual([
      [INF, 0],
      [NAN, NAN],
    ]);
    expect(slope([[-30, -INF]], (t) => t.cumprod(0))).toEqual([[1, 1]]);
    expect(slope([2, 0, -3, 0, -INF], (t) => t.cumprod(0))).toEqual([1, -4, 0, 0, 0]);
    const t = bw.tensor(NAN, { requiresGrad: true });
    t.prod().backward();
    expect(t.grad?.item()).toBe(1);
  });

  it('have second derivatives where they are zero', () => {
    const t = bw.tensor([0, 0, 3], { requiresGrad: true });
    const [first] = bw.grad([t.prod()], [t], { createGraph: true });
    first?.sum().backward();
    expect([first?.toArray(), t.grad?.toArray()]).toEqual([
      [0, 0, 0],
      [3, 3, 0],
    ]);
  });

  it('along a dimension have slopes as exact as their sums', () => {
    // Those of the small terms are no difference of sums of the large ones.
    const found = slope([1000.3, 0.57, 0.0013, 0.7, 0.0021], (t) => t.cumprod(0)) as number[];
    const x = bw.tensor([1000.3, 0.57, 0.0013, 0.7, 0.0021], { dtype: 'float64', requiresGrad: true });
    x.cumprod(0).sum().backward();
    const exact = x.grad?.toArray() as number[];
    for (const [i, v] of found.entries()) expect(Math.abs(v / (exact[i] as number) - 1)).toBeLessThan(1e-6);
  });

  it('of a sparse matrix leave out what it has no entry for, also beside infinity', () => {
    const indices = bw.tensor([[0], [0]], { dtype: 'int64' });
    const values = bw.tensor([2], { requiresGrad: true });
    const product = bw.sparseCooTensor(indices, values, [2, 2]).matmul(bw.tensor([[3], [INF]]));
    product.sum().backward();
    expect([product.toArray(), values.grad?.toArray()]).toEqual([[[6], [0]], [3]]);
  });
});

describe('solve', () => {
  it('takes a right side of the shape of the rows for one vector of each matrix', () => {
    const eye = bw.eye(2);
    const twice = bw.stack([eye.mul(2), eye.mul(4)]);
    const rows = bw.tensor([
      [2, 4],
      [8, 12],
    ]);
    expect(bw.solve(twice, rows).toArray()).toEqual([
      [1, 2],
      [2, 3],
    ]);
    // As a matrix for both of them.
    expect(bw.solve(twice, rows.unsqueeze(0)).shape).toEqual([2, 2, 2]);
  });
});

describe('norms', () => {
  it.each([2, 3, 0.5, 1.5])('of order %d of one element are its size, also beside what is not finite', (p) => {
    const [large, small] = [Math.fround(1e20), Math.fround(1e-30)];
    for (const other of [NAN, INF]) {
      const column = [[large], [small], [-2], [other]];
      expect(bw.tensor(column).norm(p, 1).toArray()).toEqual([large, small, 2, other]);
      expect(slope(column, (t) => t.norm(p, 1))).toEqual([[1], [1], [-1], [NAN]]);
    }
  });

  it('of a negative order are infinite where all elements are', () => {
    const rows = bw.tensor([
      [INF, -INF],
      [INF, 2],
      [0, INF],
    ]);
    expect(rows.norm(-1, 1).toArray()).toEqual([INF, 2, 0]);
    expect(
      bw
        .tensor([[INF], [-3]])
        .norm(-2, 1)
        .toArray(),
    ).toEqual([INF, 3]);
  });

  it('of one element are its size, also where its power is beyond the dtype', () => {
    expect(
      bw
        .tensor([[1e200], [-1e-200]], { dtype: 'float64' })
        .norm(3, 1)
        .toArray(),
    ).toEqual([1e200, 1e-200]);
    expect(bw.normalize(bw.tensor([[MOST], [2]]), 2.5, 1).toArray()).toEqual([[1], [1]]);
  });

  it('that are NaN have no slope', () => {
    expect(
      slope(
        [
          [0, 1],
          [NAN, 2],
          [3, 3],
        ],
        (t) => t.norm(INF, 0),
      ),
    ).toEqual([
      [0, 0],
      [0, 0],
      [0, 1],
    ]);
  });

  it.each([
    ['float32', MOST],
    ['float32', 1e30],
    ['float64', Number.MAX_VALUE],
    ['float64', 1e200],
  ] as const)(
    'of %s whose squares are infinite, as of %d, are infinite, with slopes of zero, as these have',
    (dtype, v) => {
      const t = bw.tensor(
        [
          [v, 1, 0],
          [-v, v, 2],
          [3, 4, 0],
          [0, 0, 0],
        ],
        { dtype, requiresGrad: true },
      );
      const norms = t.norm(2, 1);
      expect(norms.toArray()).toEqual([INF, INF, 5, 0]);
      const [first] = bw.grad([norms.narrow(0, 0, 2).sum()], [t], { createGraph: true }) as [bw.Tensor];
      first
        .mul(bw.tensor([1, -2, 3], { dtype }))
        .sum()
        .backward();
      for (const found of [first, t.grad as bw.Tensor]) expect(found.abs().amax().item()).toBe(0);
      expect(
        bw
          .grad([t.norm(2, 1).sum()], [t])[0]
          ?.select(0, 2)
          .mul(5)
          .round()
          .toArray(),
      ).toEqual([3, 4, 0]);
    },
  );

  it('that are infinite leave cosineSimilarity zero, and its slopes', () => {
    expect(slope([0, MOST], (t) => bw.cosineSimilarity(bw.tensor(0), t, 0))).toEqual([0, 0]);
  });
});

describe('powers', () => {
  it('to nothing have no second derivative, at zero neither', () => {
    const t = bw.tensor([0, 2], { requiresGrad: true });
    const [first] = bw.grad([t.pow(0)], [t], { gradOutputs: [bw.ones([2])], createGraph: true });
    first?.sum().backward();
    expect([first?.toArray(), t.grad?.add(0).toArray()]).toEqual([
      [0, 0],
      [0, 0],
    ]);
  });
});

it('the sum of exponentials of nothing is zero, its logarithm minus infinity, of complex numbers too', () => {
  const nothing = bw.zeros([0, 2], { dtype: 'complex64' }).logSumExp(0);
  expect([bw.real(nothing).toArray(), bw.imag(nothing).toArray()]).toEqual([
    [-INF, -INF],
    [0, 0],
  ]);
  expect(bw.zeros([0, 2]).logSumExp(0).toArray()).toEqual([-INF, -INF]);
});

it('truths are counts of failures, too', () => {
  const odds = new bw.distributions.Geometric({ probs: bw.tensor(0.25) });
  const found = odds.logProb(bw.tensor([false, true])).toArray() as number[];
  expect(found.map((v) => Number(v.toFixed(6)))).toEqual([0.25, 0.1875].map((v) => Number(Math.log(v).toFixed(6))));
});

describe('standard deviations', () => {
  const rows = [
    [MOST, -MOST, 0, 0],
    [1, 2, 3, 4],
    [1, INF, 3, 4],
    [5, 5, 5, 5],
  ];
  const sizes = [MOST * Math.sqrt(2 / 3), Math.sqrt(5 / 3), NAN, 0];

  it('are finite where their squares are not, beside rows of every other kind', () => {
    const near = (found: unknown): void => {
      for (const [i, v] of (found as number[]).entries())
        expect(Number.isNaN(sizes[i]) ? Number.isNaN(v) : Math.abs(v - sizes[i]!) <= 1e-6 * sizes[i]!).toBe(true);
    };
    near(bw.std(bw.tensor(rows), 1).toArray());
    near(bw.std(bw.tensor(rows), 1, { keepDim: true }).squeeze(1).toArray());
    near([bw.std(bw.tensor(rows[0] as number[])).item()]);
  });

  it('are finite for doubles, too, with slopes', () => {
    const most = Number.MAX_VALUE;
    const t = bw.tensor(
      [
        [most, -most, 0, 0],
        [1, 2, 3, 4],
      ],
      { dtype: 'float64', requiresGrad: true },
    );
    const found = t.std(1);
    expect(found.toArray()).toEqual([
      expect.closeTo((most / 1e300) * Math.sqrt(2 / 3) * 1e300, -300) as number,
      expect.closeTo(Math.sqrt(5 / 3), 12) as number,
    ]);
    found.sum().backward();
    const [first = []] = t.grad?.toArray() as number[][];
    expect(first.map((v) => Number(v.toFixed(5)))).toEqual([0.40825, -0.40825, 0, 0]);
  });

  it('are real, also of complex numbers', () => {
    const z = bw.complex(bw.tensor([MOST, -MOST, 0]), bw.tensor([0, 0, MOST]));
    for (const found of [z.std(), z.narrow(0, 0, 1).std(), z.std(0, { correction: 0 })])
      expect(found.dtype).toBe('float32');
  });

  it('have slopes there', () => {
    const root = Math.sqrt(1 / 6);
    const found = slope(rows.slice(0, 1), (t) => t.std(1)) as number[][];
    expect(found[0]?.map((v) => Number(v.toFixed(5)))).toEqual([root, -root, 0, 0].map((v) => Number(v.toFixed(5))));
  });
});

describe('gates', () => {
  it('have second derivatives where what they let through is infinite', () => {
    const x = bw.tensor([[Infinity, 0.75]], { requiresGrad: true });
    const [first] = bw.grad([bw.glu(x, 1)], [x], { gradOutputs: [bw.ones([1, 1])], createGraph: true });
    first?.sum().backward();
    const curve = (x.grad?.toArray() as number[][])[0];
    const gate = 1 / (1 + Math.exp(-0.75));
    expect(curve?.[0]).toBeCloseTo(gate * (1 - gate), 6);
    expect(curve?.[1]).toBe(-INF);
  });
});

describe('logarithms of softmax', () => {
  const large = [
    ['float64', 1e16],
    ['float64', -Number.MAX_VALUE],
    ['float32', 1e17],
    ['float32', -MOST],
    ['bfloat16', 2 ** 100],
    ['float16', 60_000],
  ] as const;
  it.each(large)('of %s are those of equal parts also where all are %d', (dtype, value) => {
    const near = (t: bw.Tensor, exact: number): void => {
      const room = (/16$/.test(dtype) ? 4e-3 : 1e-6) * Math.abs(exact);
      for (const v of t.to('float64').flatten().toArray() as number[]) expect(Math.abs(v - exact)).toBeLessThan(room);
    };
    // The last of them by a kernel, where the backend has one.
    for (const shape of [
      [2, 3],
      [3, 40],
      [4, 4096],
    ] as const) {
      const x = bw.ones([...shape], { dtype }).mul(value);
      for (const [dim, n] of shape.entries()) {
        near(x.logSoftmax(dim), -Math.log(n));
        near(x.softmax(dim), 1 / n);
      }
      near(bw.crossEntropy(x, bw.zeros([shape[0]], { dtype: 'int64' })), Math.log(shape[1]));
    }
    const t = bw.tensor([[value, value]], { dtype, requiresGrad: true });
    const [first] = bw.grad([t.logSoftmax(1)], [t], {
      gradOutputs: [bw.tensor([[1, 0]], { dtype })],
      createGraph: true,
    }) as [bw.Tensor];
    near(first.mul(bw.tensor([[1, -1]], { dtype })), 0.5);
    const [second] = bw.grad([first.select(1, 0)], [t]) as [bw.Tensor];
    near(second.mul(bw.tensor([[-1, 1]], { dtype })), 0.25);
  });
});

describe('losses', () => {
  it('smoothed targets of classes that cannot be are infinite, and have slopes', () => {
    const logits = bw.tensor([[MOST, -MOST, 1]], { requiresGrad: true });
    const loss = bw.crossEntropy(logits, bw.tensor([0], { dtype: 'int64' }), { labelSmoothing: 0.3 });
    loss.backward();
    expect(loss.item()).toBe(INF);
    expect((logits.grad?.toArray() as number[][])[0]?.map((v) => Number(v.toFixed(5)))).toEqual([0.2, -0.1, -0.1]);
  });

  it.each(['mean', 'none', 'batchmean'] as const)('klDiv (%s) is in the dtype of a product of both', (reduction) => {
    const half = bw.tensor([0.5], { dtype: 'float16' });
    for (const logTarget of [false, true]) {
      const of = (a: bw.Tensor, b: bw.Tensor): string => bw.klDiv(a, b, { reduction, logTarget }).dtype;
      expect(of(bw.tensor(-1), half)).toBe('float16');
      expect(of(half, bw.tensor(0.5))).toBe('float16');
      expect(of(bw.tensor([-1]), half)).toBe('float32');
    }
  });

  it('klDiv of an infinite target is NaN', () => {
    expect(bw.klDiv(bw.tensor([1, 2]), bw.tensor([INF, 0]), { reduction: 'none' }).toArray()).toEqual([NAN, 0]);
  });

  it('huberLoss is straight from delta on', () => {
    const t = bw.tensor([1, 0.5, -1], { requiresGrad: true });
    const [first] = bw.grad([bw.huberLoss(t, bw.zeros([3]), { reduction: 'sum' })], [t], { createGraph: true });
    first?.sum().backward();
    expect(t.grad?.toArray()).toEqual([0, 1, 0]);
  });
});

describe('numbers that a dtype has no place for', () => {
  it('become the smallest int32, of narrower integers zero', () => {
    const t = bw.tensor([INF, -INF, NAN, 3e9 + 5, 70_000.5, -1.5], { dtype: 'float64' });
    expect(t.to('int32').toArray()).toEqual([...Array<number>(4).fill(-(2 ** 31)), 70_000, -1]);
    expect(t.to('int16').toArray()).toEqual([0, 0, 0, 0, 4464, -1]);
    expect(t.to('int8').toArray()).toEqual([0, 0, 0, 0, 112, -1]);
    expect(t.to('uint8').toArray()).toEqual([0, 0, 0, 5, 112, 255]);
    expect(
      bw
        .zeros([1], { dtype: 'int32' })
        .copy_(bw.tensor([-INF]))
        .toArray(),
    ).toEqual([-(2 ** 31)]);
  });

  it.each([
    [-0.3, 'uint8'],
    [255.5, 'uint8'],
    [127.5, 'int8'],
    [-128.5, 'int8'],
  ] as const)('%d is refused for %s', (value, dtype) => {
    const refused = new RegExp(`value ${value} cannot be converted to type ${dtype} without overflow`);
    expect(() => bw.full([2], value, { dtype })).toThrow(refused);
    expect(() => bw.tensor([value], { dtype })).toThrow(refused);
    expect(() => bw.zeros([2], { dtype }).fill_(value)).toThrow(refused);
    expect(() => bw.zeros([2], { dtype }).pad([0, 1], value)).toThrow(refused);
  });

  it('a negative byte wraps, but not in a padding, which is a double', () => {
    expect(bw.full([1], -1, { dtype: 'uint8' }).toArray()).toEqual([255]);
    expect(() => bw.zeros([1], { dtype: 'uint8' }).pad([0, 1], -1)).toThrow(/value -1 cannot be converted/);
    expect(() => bw.zeros([2, 0], { dtype: 'uint8' }).pad([0, 0, 1, 0], -1)).toThrow(/value -1 cannot be converted/);
    // What only crops fills nothing.
    for (const value of [-1, 300])
      expect(bw.tensor([7, 8], { dtype: 'uint8' }).pad([-1, 0], value).toArray()).toEqual([8]);
  });
});

describe('quantiles', () => {
  it('between infinite elements are NaN, where one position is both ends, too', () => {
    for (const interpolation of ['linear', 'midpoint'] as const)
      expect(bw.tensor([INF]).quantile(0.5, 0, { interpolation }).item()).toBeNaN();
    expect(bw.tensor([1, 2, INF]).quantile(0.5, 0, { interpolation: 'midpoint' }).item()).toBe(2);
  });
});

describe('complex numbers', () => {
  it('atanh and atan of infinity are a quarter turn', () => {
    const z = bw.complex(bw.tensor([2, INF, -2]), bw.tensor([INF, 1, -INF]));
    expect(bw.imag(z.atanh()).toArray()).toEqual([1, 1, -1].map((sign) => Math.fround((sign * Math.PI) / 2)));
    expect(bw.real(z.atan()).toArray()).toEqual([1, 1, -1].map((sign) => Math.fround((sign * Math.PI) / 2)));
  });

  it('the square of a real number is real', () => {
    const z = bw.complex(bw.tensor([-1, 1]), bw.tensor([0, 2]));
    expect([bw.real(z.pow(2)).toArray(), bw.imag(z.pow(2)).add(0).toArray()]).toEqual([
      [1, -3],
      [0, 4],
    ]);
  });
});

describe('changes in place', () => {
  it('a tensor is copied to itself, also where its elements are one place', () => {
    const t = bw.tensor(5).expand([2]);
    expect(t.copy_(t).toArray()).toEqual([5, 5]);
    expect(() => t.copy_(bw.tensor([1, 2]))).toThrow(/more than one element of the written-to tensor/);
  });
});

describe('parameters', () => {
  it('the centre of RMSprop comes from the nearer end, so that an infinite gradient makes it NaN', () => {
    const w = new bw.Parameter(bw.zeros([2]));
    const optimizer = new bw.optim.RMSprop([w], { alpha: 0.5, centered: true });
    w.grad = bw.tensor([-INF, 2]);
    optimizer.step();
    expect(optimizer.stateDict().state[0]?.['grad_avg']).toSatisfy((t: bw.Tensor) => {
      const [a, b] = t.toArray() as number[];
      return Number.isNaN(a) && b === 1;
    });
  });

  it('prelu of a number is a number', () => {
    expect(bw.prelu(bw.tensor(-2), bw.tensor(0.5)).shape).toEqual([]);
    expect(bw.prelu(bw.tensor(-2), bw.tensor([0.5])).item()).toBe(-1);
  });
});

describe('convolutions', () => {
  const infinite = (shape: number[], from = 0): bw.Tensor => {
    const values: number[] = Array.from({ length: bw.ones(shape).size }, () => 1);
    values[from] = INF;
    return bw.tensor(values).reshape(shape);
  };

  it('count the zeros around few images and around many: NaN where what they meet is infinite', () => {
    const weight = infinite([8, 8, 3, 3]);
    const of = (n: number): unknown =>
      bw
        .conv2d(bw.ones([n, 8, 6, 6]), weight, { padding: 1 })
        .select(0, 0)
        .select(0, 0)
        .toArray();
    expect(of(64)).toEqual(of(1));
    expect((of(64) as number[][])[0]?.[0]).toBeNaN();
  });

  it.each([1, 3, 4])(
    'count them in gradients of filters, %d of them around, also where a window meets nothing else',
    (padding) => {
      const of = (n: number): unknown => {
        const weight = bw.ones([8, 8, 3, 3], { requiresGrad: true });
        const result = bw.conv2d(bw.ones([n, 8, 6, 6]), weight, { padding });
        const [slopes] = bw.grad([result], [weight], { gradOutputs: [infinite([...result.shape])] });
        return (slopes as bw.Tensor).isNaN().toArray();
      };
      expect(of(64)).toEqual(of(1));
    },
  );
});
