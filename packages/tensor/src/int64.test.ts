/** @file Conversions between int64 and floats, which work on the halves of each number. */
import { describe, expect, it } from 'vitest';
import { tensor } from './index.ts';

const edges = [
  0n,
  1n,
  -1n,
  2n ** 31n,
  -(2n ** 31n),
  2n ** 32n,
  -(2n ** 32n),
  2n ** 32n + 1n,
  -(2n ** 32n) - 1n,
  2n ** 53n,
];
const wide = [2n ** 53n + 1n, 2n ** 53n + 3n, -(2n ** 53n) - 1n, 2n ** 62n + 12_345n, 2n ** 63n - 1n, -(2n ** 63n)];

describe('int64', () => {
  it('becomes float64 rounded as a bigint is', () => {
    const all = [...edges, ...wide];
    expect([...tensor(all).to('float64').dataSync()]).toEqual(all.map(Number));
    // Through the numbers that host loops compute with.
    expect([
      ...tensor(all)
        .div(tensor([1], { dtype: 'float64' }))
        .dataSync(),
    ]).toEqual(all.map(Number));
  });

  it('is made of float64 truncated; what does not fit becomes the smallest', () => {
    const values = [...edges.map(Number), 1.9, -1.9, 2 ** 62, -(2 ** 63), 2 ** 63, -(2 ** 64), Infinity, NaN, -0];
    const wanted = [...edges, 1n, -1n, 2n ** 62n, ...Array.from({ length: 5 }, () => -(2n ** 63n)), 0n];
    const got = [...tensor(values, { dtype: 'float64' }).to('int64').dataSync()];
    expect(got).toEqual(wanted);
  });
});
