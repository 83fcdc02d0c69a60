/** @file Conversions between int64 and floats, which work on the halves of each number. */
import { describe, expect, it } from 'vitest';
import { ShapeError, tensor, type Tensor } from '../src/index.ts';

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

  const big = 2n ** 53n + 1n;
  const long = (values: bigint[]): Tensor => tensor(values, { dtype: 'int64' });
  const list = (t: Tensor): unknown[] => [...(t.dataSync() as BigInt64Array)];

  it('reduces exactly', () => {
    const t = long([big, big + 2n, big + 1n]);
    expect(list(t.amax())).toEqual([big + 2n]);
    expect(list(t.amin())).toEqual([big]);
    expect(list(t.argMax())).toEqual([1n]);
    expect(list(t.argMin())).toEqual([0n]);
    expect(list(t.cumsum(0))).toEqual([big, 2n * big + 2n, 3n * big + 3n]);
    expect(list(long([big, 3n]).prod())).toEqual([3n * big]);
    expect(list(long([big, 3n, -1n]).cumprod(0))).toEqual([big, 3n * big, -3n * big]);
    const table = long([big, big + 1n, big + 5n, big + 4n, big + 3n, big + 2n]).reshape([2, 3]);
    expect(list(table.amax(0))).toEqual([big + 4n, big + 3n, big + 5n]);
    expect(list(table.amin([0, 1]))).toEqual([big]);
    expect(list(table.argMin(1))).toEqual([0n, 2n]);
    expect(list(table.cumsum(0).select(0, 1))).toEqual([2n * big + 4n, 2n * big + 4n, 2n * big + 7n]);
    expect(() => long([]).amax()).toThrow(ShapeError);
  });

  it('maps and adds exactly', () => {
    const t = long([big, -big]);
    for (const same of [t.floor(), t.ceil(), t.round(), t.trunc()]) expect(list(same)).toEqual([big, -big]);
    expect(list(t.relu())).toEqual([big, 0n]);
    expect(list(t.clamp(0))).toEqual([big, 0n]);
    expect(list(t.clamp(-5, 7))).toEqual([7n, -5n]);
    const index = long([1n, 1n]);
    expect(list(long([0n, big]).scatterAdd(0, index, long([1n, 1n])))).toEqual([0n, big + 2n]);
    expect(list(long([0n, big]).indexAdd(0, index, long([1n, 1n])))).toEqual([0n, big + 2n]);
    expect(
      list(
        long([big, 2n])
          .reshape([1, 2])
          .matmul(long([1n, 1n]).reshape([2, 1])),
      ),
    ).toEqual([big + 2n]);
    expect(list(long([big, 2n]).dot(long([3n, 1n])))).toEqual([3n * big + 2n]);
    expect(t.allClose(long([big + 1n, -big]), { rtol: 0, atol: 0 })).toBe(false);
  });

  it('wraps modulo 2^64', () => {
    const over = 2n ** 32n + 1n;
    expect(list(long([over]).square())).toEqual([8589934593n]);
    expect(list(long([over]).pow(2))).toEqual([8589934593n]);
    expect(list(long([3n, -1n, -1n, 1n, 2n]).pow(long([41n, -3n, -2n, -9n, -1n])))).toEqual([
      BigInt.asIntN(64, 3n ** 41n),
      -1n,
      1n,
      1n,
      0n,
    ]);
    expect(list(long([over, over]).prod())).toEqual([8589934593n]);
    expect(list(long([over]).dot(long([over])))).toEqual([8589934593n]);
    expect(list(long([2n ** 62n, 2n ** 62n]).cumsum(0))).toEqual([2n ** 62n, -(2n ** 63n)]);
  });

  it('has no division by zero, and no negative powers', () => {
    expect(() => long([1n]).floorDivide(0)).toThrow('ZeroDivisionError');
    expect(() => long([1n]).remainder(0)).toThrow('ZeroDivisionError');
    expect(() => long([2n]).pow(-1)).toThrow('Integers to negative integer powers are not allowed');
    expect(() => long([2n]).pow_(-1)).toThrow('Integers to negative integer powers are not allowed');
    // 256 wraps to 0 in a byte, and whatever to the power 0 is 1.
    const refused = 'value 256 cannot be converted to type uint8 without overflow';
    const bytes = tensor([0, 3], { dtype: 'uint8' });
    expect(() => bytes.pow(256)).toThrow(refused);
    expect(() => bytes.pow_(256)).toThrow(refused);
    expect(bytes.pow(255).toArray()).toEqual([0, 171]);
    expect(() => tensor([2], { dtype: 'int32' }).pow(2 ** 32)).toThrow('cannot be converted to type int32');
    expect(
      tensor([true, false])
        .pow(2 ** 40)
        .toArray(),
    ).toEqual([1n, 0n]);
  });
});

describe('int32', () => {
  const int = (values: number[]): Tensor => tensor(values, { dtype: 'int32' });
  const wide = 2_000_000_001;

  it('wraps products modulo 2^32', () => {
    const square = Math.imul(wide, wide);
    expect([...int([wide, 3]).square().dataSync()]).toEqual([square, 9]);
    expect([...int([wide, 3]).pow(2).dataSync()]).toEqual([square, 9]);
    expect([
      ...int([3, -2])
        .pow(int([21, 31]))
        .dataSync(),
    ]).toEqual([Number(BigInt.asIntN(32, 3n ** 21n)), -(2 ** 31)]);
    expect([
      ...int([wide])
        .dot(int([wide]))
        .dataSync(),
    ]).toEqual([square]);
    const product = int([wide, 5])
      .reshape([1, 2])
      .matmul(int([wide, 7]).reshape([2, 1]));
    expect([...product.dataSync()]).toEqual([(square + 35) | 0]);
    // Exact beyond what float32 holds.
    expect([
      ...int([16_777_217])
        .dot(int([1]))
        .dataSync(),
    ]).toEqual([16_777_217]);
  });

  it('multiplies up in int64', () => {
    expect([...int([wide, wide]).prod().dataSync()]).toEqual([4_000_000_004_000_000_001n]);
    expect([...int([wide, wide]).cumprod(0).dataSync()]).toEqual([BigInt(wide), 4_000_000_004_000_000_001n]);
  });

  it('has no division by zero, and meets bounds with a fraction in float32', () => {
    expect(() => int([1]).floorDivide(0)).toThrow('ZeroDivisionError');
    expect(() => int([1]).remainder(int([0]))).toThrow('ZeroDivisionError');
    const clamped = int([5, 6]).clamp(5.5);
    expect([clamped.dtype, ...clamped.dataSync()]).toEqual(['float32', 5.5, 6]);
  });
});
