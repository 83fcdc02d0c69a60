/** @file Products of native TensorFlow in memory of ours: the right numbers on both sides of where it is called, and nothing else is written. */
import { describe, expect, it } from 'vitest';
import { currentDevice } from './current.ts';
import { backendName, full, matmul, tensor, type Tensor } from '../index.ts';

let seed = 11;
/** Whole numbers from -8 to 8: their products have the same bits whoever adds them up. */
const whole = (n: number): Float32Array =>
  Float32Array.from({ length: n }, () => ((seed = (Math.imul(seed, 1664525) + 1013904223) | 0) >> 27) % 9);

const flat = (t: Tensor): number[] => [...(t.dataSync() as Float32Array)];

function exact(a: Float32Array, b: Float32Array, m: number, k: number, n: number): number[] {
  const out: number[] = [];
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let p = 0; p < k; p++) sum += (a[i * k + p] as number) * (b[p * n + j] as number);
      out.push(sum);
    }
  return out;
}

function turned(values: Float32Array, rows: number, columns: number): Float32Array {
  return Float32Array.from(values, (_, at) => values[(at % rows) * columns + Math.floor(at / rows)] as number);
}

/** 2^18 multiply-adds are our own product's, one row more is TensorFlow's. */
const SIZES: readonly [m: number, k: number, n: number][] = [
  [64, 64, 64],
  [65, 64, 64],
  [1, 784, 400],
  [129, 67, 31],
  [513, 513, 1],
  [128, 784, 10],
];

describe.runIf(backendName() === 'tensorflow' && currentDevice() === 'cpu')('a product on tensorflow', () => {
  describe.each(SIZES)('of [%i, %i] and [%i]', (m, k, n) => {
    it.each([
      ['as they lie', false, false],
      ['with the first turned', true, false],
      ['with the second turned', false, true],
      ['with both turned', true, true],
    ])('has the exact sums, operands %s', (_, turnA, turnB) => {
      const [a, b] = [whole(m * k), whole(k * n)];
      const x = turnA ? tensor(turned(a, m, k), { shape: [k, m] }).t() : tensor(a, { shape: [m, k] });
      const y = turnB ? tensor(turned(b, k, n), { shape: [n, k] }).t() : tensor(b, { shape: [k, n] });
      expect(flat(matmul(x, y))).toEqual(exact(a, b, m, k, n));
    });

    it('takes batches, and writes nothing but its result', () => {
      const guards = Array.from({ length: 8 }, (_, i) => full([m, n], i + 1).mul(1));
      for (const guard of guards.slice(0, 4)) guard.dispose();
      const [a, b] = [whole(3 * m * k), whole(3 * k * n)];
      const product = matmul(tensor(a, { shape: [3, m, k] }), tensor(b, { shape: [3, k, n] }));
      const each = [0, 1, 2].flatMap((i) =>
        exact(a.subarray(i * m * k, (i + 1) * m * k), b.subarray(i * k * n, (i + 1) * k * n), m, k, n),
      );
      expect(flat(product)).toEqual(each);
      guards.slice(4).forEach((guard, i) => expect(new Set(flat(guard))).toEqual(new Set([i + 5])));
    });

    it('keeps NaN and infinities where they are', () => {
      const a = new Float32Array(m * k).fill(1);
      const b = new Float32Array(k * n).fill(1);
      a[k - 1] = NaN;
      if (m > 1) a[k] = -Infinity;
      const out = flat(matmul(tensor(a, { shape: [m, k] }), tensor(b, { shape: [k, n] })));
      expect(out.slice(0, n)).toEqual(Array(n).fill(NaN));
      if (m > 1) expect(out.slice(n, 2 * n)).toEqual(Array(n).fill(-Infinity));
      expect(out.slice(2 * n)).toEqual(Array(Math.max(0, (m - 2) * n)).fill(k));
    });
  });

  it('reads what an operand is after changes in place, on the heap and on the host', () => {
    const [a, b] = [whole(96 * 96), whole(96 * 96)];
    const [x, y] = [tensor(a.slice(), { shape: [96, 96] }), tensor(b, { shape: [96, 96] })];
    const once = exact(a, b, 96, 96, 96);
    expect(flat(matmul(x, y))).toEqual(once);
    x.mul_(2);
    expect(flat(matmul(x, y))).toEqual(once.map((value) => 2 * value));
    x.dataSync();
    x.mul_(0.5);
    expect(flat(matmul(x, y))).toEqual(once);
  });

  it('goes on while the heap grows and moves', () => {
    const [a, b] = [whole(96 * 96), whole(96 * 96)];
    const [x, y] = [tensor(a, { shape: [96, 96] }), tensor(b, { shape: [96, 96] })];
    const once = exact(a, b, 96, 96, 96);
    const held: Tensor[] = [];
    for (let i = 0; i < 24; i++) {
      held.push(full([1024, 1024], i).mul(1));
      expect(flat(matmul(x, y))).toEqual(once);
    }
    for (const each of held) each.dispose();
  });

  it('has the same bits each time', () => {
    const [a, b] = [whole(200 * 300), whole(300 * 100)].map((values) => values.map((value) => value / 7));
    const [x, y] = [tensor(a as Float32Array, { shape: [200, 300] }), tensor(b as Float32Array, { shape: [300, 100] })];
    const first = flat(matmul(x, y));
    for (let i = 0; i < 5; i++) expect(flat(matmul(x, y))).toEqual(first);
  });
});
