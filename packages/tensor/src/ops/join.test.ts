/** @file Copies and joins below and above the size from which their memory is the backend's: the values of plain loops, wherever operands lie. */
import { describe, expect, it } from 'vitest';
import { backendName, concat, memory, stack, tensor, type DType, type Tensor } from '../index.ts';
import { currentBackend } from '../backends/current.ts';

const addressable = currentBackend().make !== undefined;
const DTYPES: readonly DType[] = ['float32', 'int32', 'bool', 'float64', 'int64', 'uint8', 'float16', 'complex64'];

let seed = 5;
const below = (n: number): number => ((seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32) * n;
const numbers = (count: number): number[] => Array.from({ length: count }, () => Math.floor(below(200)));

/** The same elements as views and copies of other layouts, and where a kernel has left them. */
function laidOut(values: readonly number[], shape: readonly number[], dtype: DType): Tensor {
  const flat = tensor([...values]).to(dtype);
  const whole = flat.reshape(shape);
  switch (Math.floor(below(4))) {
    case 0:
      return whole;
    case 1: // From the middle of a storage.
      return concat([flat, flat, flat]).narrow(0, values.length, values.length).reshape(shape);
    case 2: // Turned, and turned back as a view.
      return shape.length < 2 ? whole : whole.transpose(0, 1).clone().transpose(0, 1);
    default: // From a kernel.
      return dtype === 'float32' ? whole.mul(1) : whole;
  }
}

const listOf = (t: Tensor): unknown =>
  t.dtype === 'complex64' ? t.toArray() : t.to('float64').reshape([t.size]).toArray();

describe(`on ${backendName()}`, () => {
  it.each(DTYPES)('tensors of %s one after the other are what a loop makes of them', (dtype) => {
    for (const total of [3, 1_000, 1_023, 1_024, 1_025, 5_000])
      for (const dim of [0, 1, 2]) {
        const width = [2, 3, 5].with(dim, 1);
        const rest = width.reduce((a, b) => a * b);
        const lengths = [1, Math.ceil(total / rest / 2), 0, Math.ceil(total / rest / 2) + 1];
        const parts = lengths.map((n) => ({ n, values: numbers(n * rest) }));
        const joined = concat(
          parts.map(({ n, values }) => laidOut(values, width.with(dim, n), dtype)),
          dim,
        );
        const outer = width.slice(0, dim).reduce((a, b) => a * b, 1);
        const inner = rest / outer;
        const expected: number[] = [];
        for (let o = 0; o < outer; o++)
          for (const { n, values } of parts) expected.push(...values.slice(o * n * inner, (o + 1) * n * inner));
        const shape = width.with(
          dim,
          lengths.reduce((a, b) => a + b),
        );
        expect(joined.shape).toEqual(shape);
        expect(listOf(joined)).toEqual(
          listOf(
            tensor(expected)
              .to(dtype)
              .reshape(dtype === 'complex64' ? shape : [expected.length]),
          ),
        );
      }
  });

  it.each(DTYPES)('a copy of %s has the elements and no memory of the original', (dtype) => {
    for (const size of [1, 1_023, 1_024, 4_096]) {
      const original = laidOut(numbers(size), [size], dtype);
      const before = listOf(original);
      const copy = original.clone();
      expect(listOf(copy)).toEqual(before);
      copy.fill_(1);
      expect(listOf(original)).toEqual(before);
      expect(copy.storage.onDevice && size < 1_024).toBe(false);
    }
  });

  it.runIf(addressable)(
    'large copies and joins of numbers that it computes with lie in its memory, others do not',
    () => {
      for (const dtype of DTYPES) {
        const t = tensor(numbers(2_000)).to(dtype);
        const own = ['float32', 'int32', 'bool'].includes(dtype);
        for (const made of [t.clone(), concat([t, t]), stack([t, t])]) expect(made.storage.onDevice).toBe(own);
      }
    },
  );

  it('operands stay what they are when making room moves the memory', () => {
    const one = tensor(numbers(500_000)).mul(1);
    const kept: Tensor[] = [];
    const sum = one.sum().item();
    for (let i = 0; i < 40; i++) kept.push(one.clone(), concat([one, one.narrow(0, 0, 250_000)]));
    const half = one.narrow(0, 0, 250_000).sum().item();
    kept.forEach((t, i) => expect(t.sum().item()).toBeCloseTo(i % 2 === 0 ? sum : sum + half, -3));
    for (const t of kept) t.dispose();
  });

  it('what is very large stays where the system can have its memory back', () => {
    const large = tensor(new Float32Array(17 * 2 ** 20).fill(3));
    const [copy, joined] = [large.clone(), concat([large, large])];
    expect([copy, joined].map(({ storage }) => storage.onDevice)).toEqual([false, false]);
    expect([copy.select(0, -1).item(), joined.select(0, -1).item()]).toEqual([3, 3]);
  });

  it('frees what it has taken when an operand cannot be read', () => {
    const good = tensor(numbers(4_000)).mul(1);
    const gone = tensor(numbers(4_000)).mul(1);
    gone.dispose();
    const { storages } = memory();
    expect(() => concat([good, gone])).toThrow('disposed');
    expect(memory().storages).toBeLessThanOrEqual(storages);
  });
});
