/** @file Embedding and EmbeddingBag with sparse gradients: their ids are saved values of the graph. */
import { describe, expect, it } from 'vitest';
import { nn, scope, tensor, type Tensor } from '../index.ts';

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
});
