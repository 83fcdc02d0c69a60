/** @file Element types: exact storage, exact conversion, promotion. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  arange,
  backendName,
  complex,
  einsum,
  fromBytes,
  fromTf,
  full,
  promoteTypes,
  tensor,
  zeros,
  type DType,
  type Tensor,
} from './index.ts';
import { decodeBfloat16, decodeFloat16, encodeBfloat16, encodeFloat16 } from './half.ts';
import { int64ToFloat32 } from './dtype.ts';

describe('half precision', () => {
  it('keeps every float16 and bfloat16 bit pattern through float32', () => {
    const bits = Uint16Array.from({ length: 65_536 }, (_, i) => i);
    const isNaN16 = (b: number): boolean => (b & 0x7c00) === 0x7c00 && (b & 0x3ff) !== 0;
    const isNaNB = (b: number): boolean => (b & 0x7f80) === 0x7f80 && (b & 0x7f) !== 0;
    const half = encodeFloat16(decodeFloat16(bits));
    const brain = encodeBfloat16(decodeBfloat16(bits));
    for (const b of bits) {
      if (!isNaN16(b)) expect(half[b]).toBe(b);
      if (!isNaNB(b)) expect(brain[b]).toBe(b);
    }
    expect(decodeFloat16(encodeFloat16(Float32Array.of(NaN)))[0]).toBeNaN();
    expect(decodeBfloat16(encodeBfloat16(Float32Array.of(NaN)))[0]).toBeNaN();
  });

  it('rounds to the nearest, ties to even', () => {
    const half = (v: number): number | undefined => decodeFloat16(encodeFloat16(Float32Array.of(v)))[0];
    expect([
      half(1 + 2 ** -11),
      half(1 + 3 * 2 ** -11),
      half(65_519),
      half(65_520),
      half(2 ** -25),
      half(2 ** -24 * 1.5),
    ]).toEqual([1, 1 + 2 ** -9, 65_504, Infinity, 0, 2 ** -23]);
    const brain = (v: number): number | undefined => decodeBfloat16(encodeBfloat16(Float32Array.of(v)))[0];
    expect([brain(1 + 2 ** -8), brain(1 + 3 * 2 ** -8), brain(3.4e38)]).toEqual([1, 1 + 2 ** -6, Infinity]);
  });

  it('is the float16 nearest to any float32', () => {
    const all = decodeFloat16(Uint16Array.from({ length: 0x7c00 }, (_, i) => i));
    fc.assert(
      fc.property(fc.float({ min: 0, max: 65_000, noNaN: true }), (v) => {
        const got = decodeFloat16(encodeFloat16(Float32Array.of(v)))[0] as number;
        const nearest = all.reduce((best, x) => (Math.abs(x - v) < Math.abs(best - v) ? x : best), Infinity);
        expect(Math.abs(got - v)).toBeLessThanOrEqual(Math.abs(nearest - v));
      }),
      { numRuns: 20 },
    );
  });
});

describe('conversion', () => {
  it('truncates, wraps and tests for zero as C does', () => {
    const t = tensor([1.9, -1.9, 300, 0]);
    expect(t.to('int32').toArray()).toEqual([1, -1, 300, 0]);
    expect(t.to('uint8').toArray()).toEqual([1, 255, 44, 0]);
    expect(t.to('int64').toArray()).toEqual([1n, -1n, 300n, 0n]);
    expect(t.to('bool').toArray()).toEqual([true, true, true, false]);
    expect(tensor([NaN, Infinity, -1e30]).to('int64').toArray()).toEqual([-(2n ** 63n), -(2n ** 63n), -(2n ** 63n)]);
  });

  it('keeps int64 exact, and rounds it once to float32', () => {
    const big = [2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n];
    const t = tensor(big);
    expect(t.dtype).toBe('int64');
    expect(t.add(tensor([0n])).toArray()).toEqual(big);
    expect(t.mul(tensor([3n])).toArray()).toEqual(big.map((v) => BigInt.asIntN(64, v * 3n)));
    expect(t.eq(t.add(1)).toArray()).toEqual([false, false, false]);
    expect(t.sum().toArray()).toBe(big.reduce((a, b) => a + b));
    expect(t.to('int32').toArray()).toEqual([-1, 0, 1]);
    // Through a double this would round to 2^62 + 2^39 first, then to even.
    expect(int64ToFloat32(2n ** 62n + 2n ** 38n + 1n)).toBe(2 ** 62 + 2 ** 39);
    expect(int64ToFloat32(2n ** 62n + 2n ** 38n)).toBe(2 ** 62);
  });

  it('gives typed arrays of its own type or another', async () => {
    const t = tensor([1, 2], { dtype: 'bfloat16' });
    expect(t.dataSync()).toBeInstanceOf(Uint16Array);
    expect(await t.data('float32')).toEqual(Float32Array.of(1, 2));
    expect(await t.data('int64')).toEqual(BigInt64Array.of(1n, 2n));
  });

  it('keeps the bits of NaN through copies and views', () => {
    const bits = Uint32Array.of(0x7fa00001, 0xffc12345, 0x3f800000, 0x7f800001);
    const t = fromBytes(new Uint8Array(bits.buffer), [2, 2], 'float32');
    const out = t.transpose(0, 1).contiguous().dataSync();
    expect([...new Uint32Array(out.buffer, out.byteOffset, 4)]).toEqual([
      0x7fa00001, 0x3f800000, 0xffc12345, 0x7f800001,
    ]);
  });
});

describe('promotion', () => {
  const table: [DType, DType, DType][] = [
    ['uint8', 'int8', 'int16'],
    ['uint8', 'int32', 'int32'],
    ['int64', 'float16', 'float16'],
    ['float16', 'bfloat16', 'float32'],
    ['bool', 'uint8', 'uint8'],
    ['float64', 'float32', 'float64'],
    ['complex64', 'float64', 'complex64'],
    ['int16', 'int64', 'int64'],
  ];
  it.each(table)('%s with %s is %s', (a, b, c) => {
    expect([promoteTypes(a, b), promoteTypes(b, a)]).toEqual([c, c]);
    expect(zeros([1], { dtype: a }).add(zeros([1], { dtype: b })).dtype).toBe(c);
  });

  it('lets numbers and scalars widen the kind only', () => {
    const ints = arange(3);
    expect([ints.add(1).dtype, ints.add(1.5).dtype, ints.div(2).dtype, ints.to('float16').mul(2.5).dtype]).toEqual([
      'int64',
      'float32',
      'float32',
      'float16',
    ]);
    expect(tensor([1, 2]).add(tensor(1, { dtype: 'float64' })).dtype).toBe('float32');
    expect(tensor([true]).add(1).dtype).toBe('int64');
    expect(ints.add(tensor(1.5)).dtype).toBe('float32');
  });
});

describe('einsum of truths and bytes', () => {
  const rows = tensor([
    [true, false],
    [true, true],
  ]);
  const second = tensor([false, true]);

  it('multiplies and counts them, as PyTorch does', () => {
    const of = (equation: string, ...operands: Tensor[]): unknown => einsum(equation, ...operands).toArray();
    expect(of('ij,j->ij', rows, second)).toEqual([
      [false, false],
      [false, true],
    ]);
    expect(of('i,j->ij', second, second)).toEqual([
      [false, false],
      [false, true],
    ]);
    expect(of('i,i,i->i', second, second, second)).toEqual([false, true]);
    expect(of('ij,j', rows.narrow(1, 0, 1), tensor([true]))).toEqual([true, true]);
    expect(of('ij->ji', rows)).toEqual([
      [true, true],
      [false, true],
    ]);
    expect(of('ij->i', rows)).toEqual([1n, 2n]);
    expect(of('ij,k->ik', rows, second)).toEqual([
      [0n, 1n],
      [0n, 2n],
    ]);
    const bytes = rows.to('int8');
    expect(of('ij,k->ik', bytes, second.to('int8'))).toEqual([
      [0n, 1n],
      [0n, 2n],
    ]);
    expect(einsum('ij,j', bytes.narrow(1, 0, 1), tensor([3], { dtype: 'int8' })).dtype).toBe('int8');
  });

  it('adds up no products of them', () => {
    for (const equation of ['ij,j', 'ij,jk->ik'])
      expect(() => einsum(equation, rows, equation === 'ij,j' ? second : rows)).toThrow(/bmm\(\) does not take bool/);
  });
});

describe('creation', () => {
  it('reads nested values and refuses ragged ones', () => {
    expect(tensor([[1n], [2n]]).dtype).toBe('int64');
    expect(tensor([true, false]).dtype).toBe('bool');
    expect(tensor(5).shape).toEqual([]);
    expect(tensor([]).shape).toEqual([0]);
    expect(tensor([[], []]).shape).toEqual([2, 0]);
    expect(() => tensor([[1], [1, 2]])).toThrow(/expected sequence of length 1/);
    expect(() => tensor([1, [2]] as never)).toThrow(/same depth/);
    expect(() => tensor([1, 2], { shape: [3] })).toThrow(/invalid for input of size 2/);
  });

  it('copies typed arrays and keeps their type', () => {
    const source = Int16Array.of(1, 2, 3, 4);
    const t = tensor(source, { shape: [2, 2] });
    source[0] = 9;
    expect([t.dtype, t.toArray()]).toEqual([
      'int16',
      [
        [1, 2],
        [3, 4],
      ],
    ]);
  });

  it('checks the length of bytes', () => {
    expect(() => fromBytes(new Uint8Array(7), [2], 'float32')).toThrow(/7 bytes do not hold \[2\] of float32/);
    expect(() => zeros([-1])).toThrow(/invalid dimension/);
    expect(() => zeros([1.5])).toThrow(/invalid dimension/);
  });

  it('counts up and down', () => {
    expect(arange(3).toArray()).toEqual([0n, 1n, 2n]);
    expect(arange(5, 0, -2).toArray()).toEqual([5n, 3n, 1n]);
    expect(arange(0, 1, 0.25).toArray()).toEqual([0, 0.25, 0.5, 0.75]);
    // 0.3 is a little less, which a product that is rounded is too coarse to tell.
    expect(arange(-1.5, 0.5, 0.3, { dtype: 'float64' }).narrow(0, 4, 3).toArray()).toEqual([
      -0.30000000000000004,
      -(2 ** -54),
      0.29999999999999993,
    ]);
    expect(() => arange(0, 3, -1)).toThrow(/step sign/);
  });
});

describe('complex64', () => {
  it('adds, multiplies, divides and converts', () => {
    const z = fromBytes(new Uint8Array(Float32Array.of(1, 2, 3, -4).buffer), [2], 'complex64');
    expect(z.mul(z).toArray()).toEqual([
      [-3, 4],
      [-7, -24],
    ]);
    expect(z.div(z).toArray()).toEqual([
      [1, 0],
      [1, 0],
    ]);
    expect(z.abs().toArray()).toEqual([Math.fround(Math.hypot(1, 2)), 5]);
    expect(z.add(1).toArray()).toEqual([
      [2, 2],
      [4, -4],
    ]);
    expect(z.to('float32').toArray()).toEqual([1, 3]);
    expect(z.sum().toArray()).toEqual([4, -2]);
    expect(() => z.relu()).toThrow(
      'relu() does not take complex64: it takes float16, bfloat16, float32, float64, int8,',
    );
    const turned = complex(tensor([1, 2.5]), tensor([2, -4]));
    expect([z.allClose(turned, { atol: 0.6 }), z.allClose(turned, { atol: 0.4 })]).toEqual([true, false]);
    expect(() => z.allClose(tensor([1, 2]))).toThrow(
      'allClose() takes complex or real operands, not complex64 and float32',
    );
  });

  it('goes to TensorFlow.js and back where its backend has it', () => {
    const z = complex(tensor([1, 2]), tensor([3, -4]));
    if (['wasm', 'blas'].includes(backendName())) return;
    const t = z.toTf();
    expect(t.dtype).toBe('complex64');
    expect(fromTf(t).equal(z)).toBe(true);
    t.dispose();
  });

  it('has gradients, from real scalars', () => {
    const z = complex(tensor([3]), tensor([-4]));
    z.requiresGrad = true;
    z.abs().sum().backward();
    expect((z.grad as Tensor).toArray()).toEqual([[Math.fround(0.6), Math.fround(-0.8)]]);
    expect(() => z.mul(z).sum().backward()).toThrow('only for real scalar outputs but got complex64');
  });
});

describe('ranges', () => {
  it('are kept, and what does not fit is named', () => {
    const refused = (make: () => unknown, text: string): void => {
      expect(make).toThrow(RangeError);
      expect(make).toThrow(text);
    };
    refused(() => tensor([1, 300], { dtype: 'uint8' }), 'value 300 cannot be converted to type uint8 without overflow');
    refused(() => tensor([-129], { dtype: 'int8' }), 'value -129 cannot be converted to type int8');
    refused(() => tensor([[40_000]], { dtype: 'int16' }), 'value 40000');
    refused(() => tensor([2 ** 31], { dtype: 'int32' }), 'value 2147483648');
    refused(() => tensor([2n ** 63n]), 'value 9223372036854775808 cannot be converted to type int64');
    refused(() => tensor([1e30], { dtype: 'int64' }), 'value 1e+30');
    refused(() => tensor([NaN], { dtype: 'int32' }), 'value NaN');
    refused(() => full([2], 256, { dtype: 'uint8' }), 'value 256');
    refused(() => full([2], 1e300), 'value 1e+300 cannot be converted to type float32');
    const bytes = tensor([1], { dtype: 'uint8' });
    refused(() => bytes.fill_(300), 'value 300');
    refused(() => bytes.clamp(-5, 300), 'value 300');
    refused(() => bytes.maskedFill(bytes.eq(1), 300), 'value 300');
    refused(() => tensor([2n ** 60n + 1n]).item(), 'the int64 value 1152921504606846977');
    expect(tensor([2n ** 60n]).item()).toBe(2 ** 60);
    // As PyTorch: negative bytes, conversions and arithmetic wrap.
    expect(tensor([-1, 1.9], { dtype: 'uint8' }).toArray()).toEqual([255, 1]);
    expect(bytes.add(300).toArray()).toEqual([45]);
    expect(tensor([300]).to('uint8').toArray()).toEqual([44]);
    expect(tensor([1e300]).toArray()).toEqual([Infinity]);
  });
});
