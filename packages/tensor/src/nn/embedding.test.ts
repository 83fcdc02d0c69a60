/** @file Embedding and EmbeddingBag with sparse gradients: their ids are saved values of the graph. */
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
