/** @file Embedding and EmbeddingBag: sparse gradients, whose ids are saved values of the graph, and what is made with options. */
import { describe, expect, it } from 'vitest';
import { manualSeed, nn, noGrad, rand, scope, tensor, type Tensor } from '../index.ts';

const ids = (...values: number[]): Tensor => tensor(values, { dtype: 'int64' });
const dense = (module: nn.Embedding | nn.EmbeddingBag): unknown => module.weight.grad?.toDense().toArray();

describe.each([false, true])('an embedding (sparse: %s)', (sparse) => {
  it('refuses a backward pass after its ids were changed in place', () => {
    const at = ids(0, 1);
    const loss = new nn.Embedding(3, 2, { sparse }).forward(at).sum();
    at.fill_(2);
    expect(() => loss.backward()).toThrow(/modified by an inplace operation: \[int64 \[2\]\]/);
  });

  it('refuses it for bags too', () => {
    const at = ids(0, 1);
    const loss = new nn.EmbeddingBag(3, 2, { sparse }).forward(at, ids(0)).sum();
    at.fill_(2);
    expect(() => loss.backward()).toThrow(/modified by an inplace operation/);
  });

  it('takes ids of bags that are narrower than their offsets, and the other way round', () => {
    const bag = new nn.EmbeddingBag(3, 2, { sparse });
    const exact = bag.forward(ids(2, 0, 1), ids(0, 2)).toArray();
    const bagsOf = (of: 'int16' | 'int32' | 'uint8', offsets: 'int16' | 'int32' | 'int64') => () =>
      bag.forward(tensor([2, 0, 1], { dtype: of }), tensor([0, 2], { dtype: offsets })).toArray();
    for (const offsets of ['int32', 'int64'] as const)
      for (const of of ['int16', 'int32', 'uint8'] as const) expect(bagsOf(of, offsets)()).toEqual(exact);
    expect(bagsOf('int32', 'int16')()).toEqual(exact);
    expect(bagsOf('int16', 'int16')).toThrow('does not take int16');
    bag
      .forward(tensor([2, 0, 1], { dtype: 'int16' }), ids(0, 2))
      .sum()
      .backward();
    expect(dense(bag)).toEqual([
      [0.5, 0.5],
      [1, 1],
      [0.5, 0.5],
    ]);
  });

  it('keeps ids that a scope or the program disposed', () => {
    const embedding = new nn.Embedding(3, 2, { sparse });
    scope(() => embedding.forward(ids(0, 1)).sum()).backward();
    const at = ids(1);
    const loss = embedding.forward(at).sum();
    at.dispose();
    loss.backward();
    expect(dense(embedding)).toEqual([
      [1, 1],
      [2, 2],
      [0, 0],
    ]);
  });

  it('has a gradient that later changes of the ids do not reach', () => {
    const at = ids(0, 1);
    const bag = new nn.EmbeddingBag(3, 1, { sparse, mode: 'sum' });
    bag.forward(at, ids(0)).sum().backward();
    at.fill_(2);
    expect(dense(bag)).toEqual([[1], [1], [0]]);
  });

  it('scales rows by the weights of samples, which have gradients too', () => {
    const bag = new nn.EmbeddingBag(3, 2, { sparse, mode: 'sum' });
    noGrad(() => bag.weight.copy_(tensor([[1, 2], [3, 4], [5, 6]]))); // prettier-ignore
    const weights = tensor([0.5, 2, 1], { requiresGrad: true });
    const out = bag.forward(ids(2, 0, 2), ids(0, 2), weights);
    out.mul(tensor([[1, 2], [3, 4]])).sum().backward(); // prettier-ignore
    expect(out.toArray()).toEqual([[4.5, 7], [5, 6]]); // prettier-ignore
    expect(bag.weight.grad?.layout).toBe(sparse ? 'sparse_coo' : 'strided');
    expect(dense(bag)).toEqual([[2, 4], [0, 0], [3.5, 5]]); // prettier-ignore
    expect(weights.grad?.toArray()).toEqual([17, 5, 39]);
  });

  it('refuses weights of samples that do not fit', () => {
    const [at, offsets, weights] = [ids(0, 1), ids(0), tensor([1, 1])];
    const sums = new nn.EmbeddingBag(3, 2, { sparse, mode: 'sum' });
    expect(() => new nn.EmbeddingBag(3, 2, { sparse }).forward(at, offsets, weights)).toThrow("with mode 'sum' only");
    expect(() => sums.forward(at, offsets, weights.to('float64'))).toThrow('perSampleWeights are float64');
    expect(() => sums.forward(at, offsets, tensor([1]))).toThrow('shape [1], but ids have [2]');
  });
});

/** Expected values are PyTorch 2.13's but where it says so. */
describe('nn.EmbeddingBag', () => {
  const table = [[1, 8], [4, 2], [4, 5], [-6, -3]]; // prettier-ignore
  const over = (options: nn.EmbeddingBagOptions): nn.EmbeddingBag =>
    nn.EmbeddingBag.fromPretrained(tensor(table), { ...options, freeze: false });

  it.each(['float32', 'float64', 'bfloat16', 'float16'] as const)(
    'has the largest elements of bags, whose gradient goes to the first that is so large (%s)',
    (dtype) => {
      const bag = nn.EmbeddingBag.fromPretrained(tensor(table, { dtype }), { mode: 'max', freeze: false });
      const out = bag.forward(ids(1, 2, 0, 3, 3), ids(0, 3, 3));
      out.mul(tensor([[1, 2], [3, 4], [5, 6]], { dtype })).sum().backward(); // prettier-ignore
      expect(out.dtype).toBe(dtype);
      expect(out.toArray()).toEqual([[4, 8], [0, 0], [-6, -3]]); // prettier-ignore
      expect(dense(bag)).toEqual([[0, 2], [1, 0], [0, 0], [5, 6]]); // prettier-ignore
    },
  );

  it('of no ids at all has bags of zeros, which have a gradient', () => {
    for (const mode of ['sum', 'mean', 'max'] as const) {
      const bag = over({ mode });
      const out = bag.forward(ids(), ids(0, 0));
      out.sum().backward();
      expect([out.toArray(), bag.weight.grad?.sum().item()]).toEqual([[[0, 0], [0, 0]], 0]); // prettier-ignore
    }
  });

  it('takes NaN for the largest only where it is the first', () => {
    const rows = tensor([[NaN, 1], [2, NaN], [3, 3]]); // prettier-ignore
    const bag = nn.EmbeddingBag.fromPretrained(rows, { mode: 'max' });
    expect(bag.forward(tensor([[0n, 1n, 2n], [1n, 0n, 2n], [2n, 1n, 0n]])).toArray()).toEqual([[NaN, 3], [3, NaN], [3, 3]]); // prettier-ignore
  });

  it.each([
    ['sum', [[0, 0], [5, 10], [1, 8]], [[2, 4], [1, 2], [0, 0], [0, 0]]], // prettier-ignore
    ['mean', [[0, 0], [2.5, 5], [1, 8]], [[1.5, 3], [0.5, 1], [0, 0], [0, 0]]], // prettier-ignore
    ['max', [[0, 0], [4, 8], [1, 8]], [[1, 4], [1, 0], [0, 0], [0, 0]]], // prettier-ignore
  ] as const)('counts the padding for nothing (%s)', (mode, expected, gradient) => {
    for (const paddingIdx of [2, -2]) {
      const bag = over({ mode, paddingIdx });
      const out = bag.forward(tensor([[2n, 2n], [0n, 1n], [2n, 0n]])); // prettier-ignore
      out
        .mul(tensor([1, 2]))
        .sum()
        .backward();
      expect(out.toArray()).toEqual(expected);
      expect(dense(bag)).toEqual(gradient);
    }
  });

  it('starts the padding at zero, and refuses one that is no row', () => {
    expect(new nn.EmbeddingBag(3, 2, { paddingIdx: -1 }).weight.select(0, 2).toArray()).toEqual([0, 0]);
    expect(() => over({ paddingIdx: 4 })).toThrow('paddingIdx must be within the 4 rows of the table, but got 4');
  });

  it.each([false, true])('gives no weight of samples a gradient from the padding (sparse: %s)', (sparse) => {
    const bag = over({ mode: 'sum', paddingIdx: 3, sparse });
    const weights = tensor([1, 2, 3, 4, 5], { requiresGrad: true });
    const out = bag.forward(ids(1, 1, 3, 1, 3), ids(0, 2), weights);
    out.sum().backward();
    expect(out.toArray()).toEqual([[12, 6], [16, 8]]); // prettier-ignore
    expect(weights.grad?.toArray()).toEqual([6, 6, 0, 6, 0]);
    expect(dense(bag)).toEqual([[0, 0], [7, 7], [0, 0], [0, 0]]); // prettier-ignore
  });

  it('takes the last offset for the end of the last bag where it is told to', () => {
    const bag = over({ mode: 'sum', includeLastOffset: true });
    expect(bag.forward(ids(0, 1, 2, 3), ids(0, 1, 4)).toArray()).toEqual([[1, 8], [2, 4]]); // prettier-ignore
    // What is behind it is in no bag.
    expect(bag.forward(ids(0, 1, 2, 3), ids(0, 1, 3)).toArray()).toEqual([[1, 8], [8, 7]]); // prettier-ignore
    expect(bag.forward(ids(0, 1), ids(0)).shape).toEqual([0, 2]);
    expect(() => bag.forward(ids(0, 1), ids(0, 3))).toThrow('pass the 2 ids, at offsets[1] = 3');
    expect(() => bag.forward(ids(0, 1), ids(0, 2, 1))).toThrow('offsets fall, or pass the 2 ids, at offsets[2] = 1');
    expect(() => bag.forward(ids(0, 1), ids())).toThrow('takes offsets of which the last ends the last bag; got none');
  });

  it('refuses offsets that are none', () => {
    const bag = over({});
    expect(() => bag.forward(ids(0, 1), ids(0, 3))).toThrow('pass the 2 ids, at offsets[1] = 3');
    expect(() => bag.forward(ids(0, 1), ids(1))).toThrow('offsets[0] has to be 0, got 1');
    expect(() => bag.forward(tensor([0, 1]), tensor([0, 0.5]))).toThrow(
      'offsets have to be whole numbers, but got 0.5',
    );
  });

  it('divides gradients by how often a row is read, and scales rows to a norm', () => {
    // PyTorch divides the gradient of row 2 by the count of row 0.
    const shared = over({ mode: 'sum', scaleGradByFreq: true });
    shared.forward(tensor([[2n, 0n], [0n, 0n], [2n, 0n]])).sum().backward(); // prettier-ignore
    expect(dense(shared)).toEqual([[1, 1], [0, 0], [1, 1], [0, 0]]); // prettier-ignore
    const short = nn.EmbeddingBag.fromPretrained(tensor([[3, 4], [6, 8], [6, 8]]), { mode: 'sum', maxNorm: 5 }); // prettier-ignore
    expect(short.forward(ids(0, 1), ids(0)).allClose(tensor([[6, 8]]))).toBe(true);
    expect(short.weight.allClose(tensor([[3, 4], [3, 4], [6, 8]]))).toBe(true); // prettier-ignore
  });

  it('refuses what mode max has not', () => {
    expect(() => over({ mode: 'max', sparse: true })).toThrow("mode 'max' has no sparse gradients");
    expect(() => over({ mode: 'max', scaleGradByFreq: true })).toThrow("mode 'max' does not scale gradients");
    expect(() => over({ mode: 'max' }).forward(ids(0), ids(0), tensor([1]))).toThrow("with mode 'sum' only");
    expect(() => over({ mode: 'max' }).forward(ids(4), ids(0))).toThrow('index 4 is out of bounds');
  });

  it('is printed with what it was made with', () => {
    expect(String(over({ mode: 'max', paddingIdx: -1 }))).toBe(
      "EmbeddingBag(weight: [4, 2], mode: 'max', paddingIdx: -1)",
    );
    expect(String(new nn.EmbeddingBag(4, 2))).toBe("EmbeddingBag(weight: [4, 2], mode: 'mean')");
  });
});

describe('nn.Embedding', () => {
  it('scales no row where an id is refused, and says which', () => {
    const layer = new nn.Embedding(3, 2, { maxNorm: 1e-3 });
    const before = layer.weight.toArray();
    expect(() => layer.forward(tensor([0n, 5n]))).toThrow('index 5 is out of bounds for dimension with size 3');
    expect(layer.weight.toArray()).toEqual(before);
  });

  it('of given rows draws no random numbers, and has their padding and options', () => {
    const table = tensor([
      [3, 4],
      [1, 1],
      [6, 8],
    ]);
    manualSeed(1);
    const expected = rand([2]).toArray();
    manualSeed(1);
    const layer = nn.Embedding.fromPretrained(table, { freeze: false, paddingIdx: -2, maxNorm: 5, sparse: true });
    expect(rand([2]).toArray()).toEqual(expected);
    const rows = layer.forward(tensor([1n, 2n]));
    rows.sum().backward();
    expect(rows.toArray()).toEqual([
      [1, 1],
      [expect.closeTo(3, 5) as number, expect.closeTo(4, 5) as number],
    ]);
    expect([layer.weight.grad?.layout, layer.weight.grad?.toDense().toArray()]).toEqual([
      'sparse_coo',
      [
        [0, 0],
        [0, 0],
        [1, 1],
      ],
    ]);
    expect(() => nn.Embedding.fromPretrained(table, { paddingIdx: 3 })).toThrow(
      'paddingIdx must be within the 3 rows of the table, but got 3',
    );
  });
});
