/** @file Sparse COO tensors. */
import { describe, expect, it } from 'vitest';
import { Parameter, fromBytes, nn, optim, sparseCooTensor, tensor, zeros, type Tensor } from '../../index.ts';
import { sparseFromParts } from '../../internal.ts';

const index = (rows: number[][]): Tensor => tensor(rows, { dtype: 'int64' });

describe('sparse tensors', () => {
  const s = sparseCooTensor(
    index([
      [2, 0, 2],
      [1, 0, 1],
    ]),
    tensor([1, 2, 3]),
    [3, 2],
  );

  it('sum duplicates when coalesced, in index order', () => {
    const c = s.coalesce();
    expect([s.isCoalesced, c.isCoalesced]).toEqual([false, true]);
    expect(c.indices().toArray()).toEqual([
      [0n, 2n],
      [0n, 1n],
    ]);
    expect(c.values().toArray()).toEqual([2, 4]);
    expect(c.toDense().toArray()).toEqual([
      [2, 0],
      [0, 0],
      [0, 4],
    ]);
    expect(() => s.indices()).toThrow(/uncoalesced/);
  });

  it('have dense dimensions', () => {
    const rows = sparseCooTensor(
      index([[1, 1]]),
      tensor([
        [1, 2],
        [10, 20],
      ]),
      [3, 2],
    );
    expect(rows.toDense().toArray()).toEqual([
      [0, 0],
      [11, 22],
      [0, 0],
    ]);
    expect(rows.layout).toBe('sparse_coo');
  });

  it('add to sparse and dense, scale, and come from dense', () => {
    const dense = s.toDense();
    expect(s.add(s).layout).toBe('sparse_coo');
    expect(s.add(s).toDense().equal(dense.mul(2))).toBe(true);
    expect(dense.add(s).equal(dense.mul(2))).toBe(true);
    expect(zeros([3, 2]).add_(s).equal(dense)).toBe(true);
    expect(s.mul(3).toDense().equal(dense.mul(3))).toBe(true);
    expect(s.div(2).toDense().equal(dense.div(2))).toBe(true);
    expect(dense.toSparse().toDense().equal(dense)).toBe(true);
    expect(s.clone().toDense().equal(dense)).toBe(true);
    expect(s.sum().item()).toBe(6);
    expect(() => s.add(1)).toThrow(/not defined/);
    expect(() => s.add(sparseCooTensor(index([[0]]), tensor([1]), [4]))).toThrow(/match/);
  });

  it('come from dense tensors bit for bit', () => {
    const beyond = 2n ** 53n + 1n;
    const whole = tensor(BigInt64Array.of(0n, beyond, -1n), { dtype: 'int64' }).toSparse();
    expect([...whole.values().dataSync()]).toEqual([beyond, -1n]);
    const complex = fromBytes(new Uint8Array(Float32Array.of(0, 0, 0, 2, 1, 0).buffer), [3], 'complex64').toSparse();
    expect([...complex.indices().dataSync()]).toEqual([1n, 2n]);
    expect([...complex.values().dataSync()]).toEqual([0, 2, 1, 0]);
  });

  it('may be empty', () => {
    const empty = sparseCooTensor(zeros([2, 0], { dtype: 'int64' }), zeros([0]), [3, 2]);
    expect(
      empty
        .coalesce()
        .toDense()
        .equal(zeros([3, 2])),
    ).toBe(true);
    expect(empty.add(s).coalesce().values().toArray()).toEqual([2, 4]);
  });

  it('check their parts', () => {
    expect(() => sparseCooTensor(index([[3]]), tensor([1]), [3])).toThrow(/for dim 0, size is 3 but found index 3/);
    expect(() => sparseCooTensor(index([[-1]]), tensor([1]), [3])).toThrow(/found index -1/);
    expect(() => sparseCooTensor(tensor([[0.5]]), tensor([1]), [3])).toThrow(/integer/);
    expect(() => sparseCooTensor(index([[0]]), tensor([1, 2]), [3])).toThrow(/do not fit/);
    const parts = { indices: index([[0]]) as Tensor<'int64'>, values: tensor([[1, 2]]), coalesced: false };
    expect(() => sparseFromParts({ ...parts, shape: [3] })).toThrow(/do not fit/);
    expect(() => sparseFromParts({ ...parts, shape: [3, 3] })).toThrow(/do not fit/);
  });

  it('have no views', () => {
    const s = sparseCooTensor(tensor([[0, 2]]), tensor([1, 2]), [3]);
    for (const view of [
      () => s.narrow(0, 0, 1),
      () => s.reshape([3, 1]),
      () => s.select(0, 0),
      () => s.expand([2, 3]),
      () => s.transpose(0, 0),
    ])
      expect(view).toThrow(/has no view of a sparse tensor; use toDense/);
    expect(s.alias().toDense().toArray()).toEqual([1, 0, 2]);
  });

  it('keep int64 values exact', () => {
    const t = sparseCooTensor(index([[0, 0]]), tensor([2n ** 60n + 1n, 2n]), [1]);
    expect(t.toDense().toArray()).toEqual([2n ** 60n + 3n]);
  });

  it('stay sparse under another handle', () => {
    const t = sparseCooTensor(index([[2, 2, 0]]), tensor([1, 3, 5]), [4]);
    const alias = t.alias();
    t.dispose();
    expect([alias.layout, alias.isCoalesced]).toEqual(['sparse_coo', false]);
    expect(alias.toDense().toArray()).toEqual([5, 0, 4, 0]);
  });

  it('free their parts with their last handle', () => {
    const [i, v] = [index([[0]]), tensor([1])];
    const t = sparseCooTensor(i, v, [2]);
    const alias = t.detach();
    i.dispose();
    v.dispose();
    t.dispose();
    expect(alias.toDense().toArray()).toEqual([1, 0]);
    alias.dispose();
    expect(() => alias.coalesce()).toThrow(/disposed/);
  });
});

describe('sparse gradients in optimisers', () => {
  it('change only the rows they name', () => {
    const table = new nn.Embedding(4, 2, { sparse: true });
    const before = table.weight.detach().clone();
    const opt = new optim.SGD(table.parameters(), { lr: 1 });
    table
      .forward(tensor([1, 1, 3]))
      .sum()
      .backward();
    expect(table.weight.grad?.layout).toBe('sparse_coo');
    opt.step();
    // As PyTorch does it: a row that is named twice is stepped twice.
    const first = tensor([0, 1, 0, 1]).unsqueeze(1);
    const second = tensor([0, 1, 0, 0]).unsqueeze(1);
    expect(table.weight.equal(before.sub(first).sub(second))).toBe(true);
  });

  it('are refused where the rule needs all rows', () => {
    const p = new Parameter(zeros([3]));
    const opt = new optim.Adam([p]);
    expect(() => opt.step([sparseCooTensor(index([[0]]), tensor([1]), [3])])).toThrow(
      /does not support sparse gradients/,
    );
  });
});

describe('sparse arithmetic', () => {
  const at = (values: Tensor, ...rows: number[]): Tensor => sparseCooTensor(index([rows]), values, [3]);

  it('multiplies where both are present: what one lacks is zero whatever the other holds', () => {
    const a = at(tensor([Infinity, 2, 3]), 0, 1, 1);
    const product = a.mul(at(tensor([1, 4]), 2, 1));
    expect([product.layout, product.toDense().toArray()]).toEqual(['sparse_coo', [0, 20, 0]]);
    const v = tensor([1, 2], { requiresGrad: true });
    at(v, 0, 2)
      .mul(at(tensor([3, 5]), 1, 2))
      .toDense()
      .sum()
      .backward();
    expect(v.grad?.toArray()).toEqual([0, 5]);
  });

  it('promotes with tensors without dimensions as dense ones do', () => {
    const whole = at(tensor([3], { dtype: 'int64' }), 1);
    const product = whole.mul(tensor(1.5));
    expect([product.dtype, product.toDense().toArray()]).toEqual(['float32', [0, 4.5, 0]]);
    expect(whole.to('int32').mul(tensor(2, { dtype: 'int64' })).dtype).toBe('int32');
  });

  it('negates and converts', () => {
    const v = tensor([1.5, 2], { requiresGrad: true });
    const negative = at(v, 0, 0).neg().to('float64');
    expect([negative.layout, negative.dtype, negative.toDense().toArray()]).toEqual([
      'sparse_coo',
      'float64',
      [-3.5, 0, 0],
    ]);
    negative.toDense().sum().backward();
    expect([v.grad?.dtype, v.grad?.toArray()]).toEqual(['float32', [-1, -1]]);
  });

  it('adds in place', () => {
    const t = at(tensor([1]), 0);
    expect(t.add_(at(tensor([2, 3]), 0, 2), { alpha: 2 })).toBe(t);
    expect([t.coalesce().indices().toArray(), t.toDense().toArray()]).toEqual([[[0n, 2n]], [5, 0, 6]]);
    expect(t.sub_(t).toDense().toArray()).toEqual([0, 0, 0]);
    expect(() => t.add_(zeros([3]))).toThrow(/takes a sparse tensor/);
    expect(() => at(tensor([1], { dtype: 'int64' }), 0).add_(t)).toThrow("result type float32 can't be cast");
    const v = tensor([1], { requiresGrad: true });
    at(tensor([7]), 1)
      .add_(at(v, 1))
      .toDense()
      .sum()
      .backward();
    expect(v.grad?.toArray()).toEqual([1]);
  });
});
