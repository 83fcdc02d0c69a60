/** @file Device kernels against the host loops: the same operation on tensors above and below the size from which kernels pay. */
import { describe, expect, it } from 'vitest';
import { arange, concat, manualSeed, matmul, rand, randn, scope, tensor, type Tensor } from '../index.ts';
import type { DType } from '../dtype.ts';
import { runWith, type OpObserver } from '../internal.ts';

const special = [
  0,
  -0,
  1,
  -1,
  0.5,
  -2.5,
  20.3,
  -20.7,
  80,
  -80,
  88.5,
  -88.5,
  100,
  -103.5,
  Infinity,
  -Infinity,
  NaN,
  3e38,
  -3e38,
  1e-30,
];
const left = special.flatMap((a) => special.map(() => a));
const right = special.flatMap(() => special);
const filler = 20_000;

const large = (values: number[]): Tensor => concat([tensor(values), rand([filler])]);

type Name = 'neg' | 'abs' | 'exp' | 'log' | 'sqrt' | 'rsqrt' | 'square' | 'relu' | 'sigmoid' | 'tanh';
const unaries: Name[] = ['neg', 'abs', 'exp', 'log', 'sqrt', 'rsqrt', 'square', 'relu', 'sigmoid', 'tanh'];
const binaries = ['add', 'sub', 'mul', 'div', 'maximum', 'minimum'] as const;

function expectSame(got: Tensor, wanted: Tensor): void {
  const [g, w] = [got.dataSync(), wanted.dataSync()] as [Float32Array, Float32Array];
  w.forEach((v, i) => {
    const x = g[i] as number;
    if (Number.isNaN(v)) expect(x, `[${i}]`).toBeNaN();
    // Kernels may flush what is too small for a normal float32 to zero.
    else if (x !== v && Math.abs(x - v) > 2e-38)
      expect(Math.abs(x - v) / Math.abs(v), `[${i}] ${x} for ${v}`).toBeLessThan(1e-6);
  });
}

/** Numbers from 0 to 1, the same for the same seed. */
function generator(seed: number): () => number {
  let state = seed;
  return () => (state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff) / 0x7fffffff;
}

/** A shape of small dimensions but one, with which it has at least `least` elements. */
function shapeOf(rank: number, least: number, draw: () => number): number[] {
  const shape = Array.from({ length: rank }, () => 1 + Math.floor(draw() * 3));
  const at = Math.floor(draw() * rank);
  const rest = shape.reduce((product, n, i) => (i === at ? product : product * n), 1);
  return shape.with(at, Math.ceil(least / rest));
}

/** The operation in double precision, which no kernel computes, rounded once. */
function onHost(
  name: 'add' | 'sub' | 'mul' | 'div' | 'neg' | 'abs' | 'square' | 'relu' | 'tanh',
  x: Tensor,
  y?: Tensor,
): Tensor {
  const run = x.to('float64')[name] as (other?: Tensor) => Tensor;
  return run.call(x.to('float64'), y?.to('float64')).to('float32');
}

describe('kernels agree with the host, special values included', () => {
  it.each(unaries)('%s', (name) => {
    expectSame(large(left)[name]().narrow(0, 0, left.length), tensor(left)[name]());
  });

  it.each(binaries)('%s', (name) => {
    const whole = large(left)[name](large(right)).narrow(0, 0, left.length);
    const parts = special.map((_, i) => {
      const at = i * special.length;
      return tensor(left.slice(at, at + special.length))[name](tensor(right.slice(at, at + special.length)));
    });
    expectSame(whole, concat(parts));
  });

  it('broadcasting', () => {
    manualSeed(1);
    const [a, b] = [randn([150, 1, 40]), randn([5, 1])];
    const whole = a.add(b);
    expect(whole.shape).toEqual([150, 5, 40]);
    for (const i of [0, 77, 149]) expect(whole.select(0, i).equal(a.select(0, i).add(b))).toBe(true);
  });

  it('products of transposed, sliced and expanded operands', { timeout: 300_000 }, () => {
    manualSeed(2);
    const base = randn([90, 120]);
    const cases: [Tensor, Tensor][] = [
      [base.transpose(0, 1), base],
      [base, base.transpose(0, 1)],
      [base.narrow(0, 10, 64), base.narrow(0, 5, 80).transpose(0, 1)],
      [base.slice(1, 0, 120, 2), base.slice(0, 0, 60)],
      [base.select(0, 0).expand([70, 120]), base.transpose(0, 1)],
      [randn([3, 50, 60]), randn([3, 60, 50])],
      [randn([3, 50, 60]).transpose(0, 1).transpose(0, 1).transpose(1, 2), randn([1, 50, 40])],
    ];
    for (const [x, y] of cases) {
      const exact = matmul(x.to('float64'), y.to('float64'));
      expect(matmul(x, y).to('float64').allClose(exact, { rtol: 1e-4, atol: 1e-4 })).toBe(true);
    }
  });

  it('copies of permuted results', () => {
    manualSeed(3);
    const product = matmul(randn([60, 70]), randn([70, 80])).reshape([4, 15, 80]);
    for (const dims of [
      [2, 0, 1],
      [1, 0, 2],
      [2, 1, 0],
    ]) {
      const copy = product.permute(dims).contiguous();
      expect(copy.isContiguous).toBe(true);
      expect([...copy.dataSync()]).toEqual([...product.permute(dims).alias().clone().dataSync()]);
      const back = dims.map((_, i) => dims.indexOf(i));
      expect(copy.permute(back).equal(product)).toBe(true);
    }
  });

  it.each([1, 3, 5, 6, 7, 8, 9])('operands of %i dimensions', (rank) => {
    manualSeed(rank);
    const draw = generator(rank);
    for (const least of [2047, 2048, 2100, 16_400]) {
      scope(() => {
        const shape = shapeOf(rank, least, draw);
        const some = shape.map((n) => (draw() < 0.5 ? 1 : n)).slice(Math.floor(draw() * rank));
        const [even, odd] = [0, 1].map((k) => shape.map((n, i) => (i % 2 === k ? n : 1))) as [number[], number[]];
        for (const [a, b] of [
          [shape, shape],
          [shape, some],
          [some, shape],
          [even, odd],
        ] as const) {
          const [x, y] = [randn(a), randn(b)];
          for (const name of ['add', 'sub', 'mul', 'div'] as const) expectSame(x[name](y), onHost(name, x, y));
        }
        const x = randn(shape);
        for (const name of ['neg', 'abs', 'square', 'relu', 'tanh'] as const) expectSame(x[name](), onHost(name, x));
        const order = shape.map((_, i) => [draw(), i] as const).sort(([p], [q]) => p - q);
        const dims = order.map(([, i]) => i);
        const turned = x.mul(1).permute(dims);
        expect(turned.contiguous().equal(x.clone().permute(dims))).toBe(true);
        expectSame(turned.add(1), onHost('add', x, tensor(1)).permute(dims).clone());
      });
    }
  });

  const others: DType[] = ['bool', 'uint8', 'int8', 'int16', 'int32', 'int64', 'float16', 'bfloat16', 'float64'];
  it.each(others)('operands of %s, which no kernel takes, also where the result is float32', (dtype) => {
    const [rows, columns] = [130, 16];
    const made = (n: number): Tensor =>
      arange(rows * columns)
        .remainder(n)
        .add(1)
        .to(dtype)
        .reshape([rows, columns]);
    // The bits of small positive integers, taken for those of floats, have the right quotients.
    const [x, y] = [made(5), /bool|uint8/.test(dtype) ? made(3) : made(3).neg()];
    const countable = dtype === 'bool' ? (['add', 'mul'] as const) : (['add', 'sub', 'mul'] as const);
    const names = [...countable, 'div', 'atan2', 'maximum', 'minimum'] as const;
    for (const [name, other] of names.flatMap((one) => [y, y.select(0, 0)].map((b) => [one, b] as const))) {
      const whole = x[name](other);
      const parts = Array.from({ length: rows }, (_, i) => x.select(0, i)[name](other === y ? y.select(0, i) : other));
      expect(whole.dtype).toBe(parts[0]?.dtype);
      expect(whole.reshape([-1]).equal(concat(parts)), `${name} ${other.rank}`).toBe(true);
    }
    for (const name of ['exp', 'log', 'sqrt', 'rsqrt', 'reciprocal', 'sigmoid', 'tanh', 'square'] as const) {
      const parts = Array.from({ length: rows }, (_, i) => x.select(0, i)[name]());
      expect(x[name]().reshape([-1]).equal(concat(parts)), name).toBe(true);
    }
  });

  it('empty operands', () => {
    expect(matmul(rand([300, 0]), rand([0, 300])).equal(rand([300, 300]).mul(0))).toBe(true);
    expect(rand([0]).sum().item()).toBe(0);
    expect(rand([0, 5]).exp().shape).toEqual([0, 5]);
  });
});

describe('the observer', () => {
  it('is told of every operation, and of those that throw', () => {
    const events: string[] = [];
    const profile: OpObserver = {
      begin: (name) => {
        events.push(`+${name}`);
        return name;
      },
      end: (token, output) => void events.push(`-${String(token)}${output === undefined ? '!' : ''}`),
    };
    runWith({ profile }, () => {
      const a = tensor([1, 2]);
      a.add(1);
      expect(() => a.add(tensor([1, 2, 3]))).toThrow(/must match/);
      a.zero_();
    });
    expect(events).toEqual(['+aten::add', '-aten::add', '+aten::add', '-aten::add!', '+aten::zero_', '-aten::zero_']);
  });
});
