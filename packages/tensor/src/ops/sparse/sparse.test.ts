/** @file Sparse COO tensors. */
import { describe, expect, it } from 'vitest';
import {
  Parameter,
  fromBytes,
  memory,
  nn,
  optim,
  sparse,
  sparseCooTensor,
  stack,
  tensor,
  zeros,
  type Tensor,
} from '../../index.ts';
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

  it('have a dense form that is all that is left of making it', () => {
    const before = memory();
    const dense = s.toDense();
    expect(dense.toArray()).toEqual([
      [2, 0],
      [0, 0],
      [0, 4],
    ]);
    const { tensors, storages } = memory();
    expect([tensors - before.tensors, storages - before.storages]).toEqual([1, 1]);
    dense.dispose();
    expect(memory().storages).toBe(before.storages);
  });

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

  it('adds multiples of truths', () => {
    const truths = at(tensor([true]), 0);
    expect(
      truths
        .add(at(tensor([true]), 1), { alpha: 2 })
        .toDense()
        .toArray(),
    ).toEqual([true, true, false]);
    expect(truths.add(truths, { alpha: 0 }).dtype).toBe('bool');
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

  it('multiplies and divides in place', () => {
    const t = at(tensor([1, 2, 4]), 2, 0, 2);
    const other = t.detach();
    expect(t.mul_(3)).toBe(t);
    expect([t.isCoalesced, t.toDense().toArray(), other.toDense().toArray()]).toEqual([false, [6, 0, 15], [2, 0, 5]]);
    const beside = t.detach();
    expect(t.div_(2)).toBe(t);
    expect([t.toDense().toArray(), beside.toDense().toArray()]).toEqual([[3, 0, 7.5], [3, 0, 7.5]]); // prettier-ignore
    expect(t.mul_(tensor(2)).div_(tensor(3)).toDense().toArray()).toEqual([2, 0, 5]);
    expect(
      t
        .mul_(at(tensor([10, 10]), 1, 2))
        .toDense()
        .toArray(),
    ).toEqual([0, 0, 50]);
    const whole = at(tensor([3, 4], { dtype: 'int64' }), 0, 1);
    expect([whole.mul_(2).dtype, whole.toDense().toArray()]).toEqual(['int64', [6n, 8n, 0n]]);
    expect(() => whole.mul_(1.5)).toThrow("mul_() gives float32: result type float32 can't be cast");
    expect(() => whole.div_(2)).toThrow("div_() gives float32: result type float32 can't be cast");
    expect(whole.toDense().toArray()).toEqual([6n, 8n, 0n]);
    for (const divisor of [tensor([1, 2, 3]), at(tensor([1]), 0)])
      for (const divide of [() => t.div(divisor), () => t.div_(divisor)])
        expect(divide).toThrow(/a sparse tensor is divided by a number .*of shape \[3\]; use toDense\(\)/);
  });

  it('divides exactly as dense tensors do', () => {
    const t = tensor([5, 7, 1]);
    const quotient = at(t, 0, 1, 2).div(3);
    expect(quotient.toDense().toArray()).toEqual(t.div(3).toArray());
    const by = tensor(2, { requiresGrad: true });
    sparse.sum(at(t, 0, 1, 2).div(by)).backward();
    expect(by.grad?.item()).toBe(-13 / 4);
  });

  it('divides entries in place that are one number spread out, and leaves that number alone', () => {
    const one = tensor([6]);
    const t = at(one.expand([2]), 0, 2);
    expect([t.div_(2).toDense().toArray(), one.toArray()]).toEqual([[3, 0, 3], [6]]);
    const [leaf, other] = [at(tensor([1, 2]), 0, 2), at(tensor([1, 2]), 0, 2)];
    for (const each of [leaf, other]) each.requiresGrad = true;
    sparse.sum(leaf.add(other)).backward();
    leaf.grad!.div_(4);
    expect([leaf.grad, other.grad].map((grad) => grad?.toDense().toArray())).toEqual([[0.25, 0, 0.25], [1, 0, 1]]); // prettier-ignore
  });

  it('changes in place as part of the history, and no leaf', () => {
    const leaf = at(tensor([1, 2]), 0, 2);
    leaf.requiresGrad = true;
    for (const change of [() => leaf.mul_(2), () => leaf.div_(2)])
      expect(change).toThrow('a leaf Variable that requires grad is being used in an in-place operation');
    sparse.sum(leaf.mul(1).mul_(3).div_(2)).backward();
    expect([leaf.grad?.layout, leaf.grad?.toDense().toArray()]).toEqual(['sparse_coo', [1.5, 0, 1.5]]);
  });
});

describe('sparse.sum', () => {
  const leaf = (): Tensor => {
    const t = sparseCooTensor(index([[2, 0, 2], [1, 0, 1]]), tensor([1, 2, 3]), [3, 2]); // prettier-ignore
    t.requiresGrad = true;
    return t;
  };

  it('has a sparse gradient, of the entries alone; that of sum() is dense', () => {
    const [t, u] = [leaf(), leaf()];
    const [total, other] = [sparse.sum(t), u.sum()];
    expect([total.shape, total.item(), other.item()]).toEqual([[], 6, 6]);
    total.backward();
    other.backward();
    expect([t.grad?.layout, t.grad?.isCoalesced]).toEqual(['sparse_coo', true]);
    expect(t.grad?.indices().toArray()).toEqual([[0n, 2n], [0n, 1n]]); // prettier-ignore
    expect(t.grad?.values().toArray()).toEqual([1, 1]);
    expect([u.grad?.layout, u.grad?.toArray()]).toEqual(['strided', [[1, 1], [1, 1], [1, 1]]]); // prettier-ignore
  });

  it('has sparse gradients through sums, products and stacks', () => {
    const [t, u] = [leaf(), leaf()];
    sparse.sum(stack([t.add(u), t.mul(u)], 1)).backward();
    for (const grad of [t.grad, u.grad])
      expect([grad?.layout, grad?.toDense().toArray()]).toEqual(['sparse_coo', [[3, 0], [0, 0], [0, 5]]]); // prettier-ignore
  });

  it('is sparse where sparse dimensions are left', () => {
    const t = leaf();
    expect(sparse.sum(t, 0).toDense().toArray()).toEqual([2, 4]);
    const rows = sparse.sum(t, [-1]);
    expect([rows.layout, rows.shape, rows.toDense().toArray()]).toEqual(['sparse_coo', [3], [2, 0, 4]]);
    sparse.sum(rows.mul(rows)).backward();
    expect([t.grad?.layout, t.grad?.toDense().toArray()]).toEqual(['sparse_coo', [[4, 0], [0, 0], [0, 8]]]); // prettier-ignore
  });

  it('sums dense dimensions up, too', () => {
    const t = sparseCooTensor(index([[1, 1, 0]]), tensor([[1, 2], [3, 4], [5, 6]]), [3, 2]); // prettier-ignore
    const [first, last, both] = [sparse.sum(t, 0), sparse.sum(t, 1), sparse.sum(t, [0, 1])];
    expect([first.layout, first.toArray()]).toEqual(['strided', [9, 12]]);
    expect([last.layout, last.toDense().toArray()]).toEqual(['sparse_coo', [11, 10, 0]]);
    expect([both.layout, both.item()]).toEqual(['strided', 21]);
  });

  it('adds integers up in int64, and takes no dense tensor', () => {
    const t = sparseCooTensor(index([[0, 2]]), tensor([3, 4], { dtype: 'int32' }), [3]);
    expect([sparse.sum(t).dtype, sparse.sum(t).item()]).toEqual(['int64', 7]);
    expect(() => sparse.sum(tensor([1]))).toThrow(/needs a sparse tensor, but this one is strided/);
  });
});

describe('stack of sparse tensors', () => {
  const at = (...rows: number[]): Tensor => sparseCooTensor(index([rows]), tensor(rows.map((row) => row + 1)), [3]);

  it('is sparse, with their entries one after the other', () => {
    const both = stack([at(2, 0), at(2, 2)]);
    expect([both.layout, both.shape, both.isCoalesced]).toEqual(['sparse_coo', [2, 3], false]);
    expect(both.sparse?.indices.toArray()).toEqual([[0n, 0n, 1n, 1n], [2n, 0n, 2n, 2n]]); // prettier-ignore
    expect(both.sparse?.values.toArray()).toEqual([3, 1, 3, 3]);
    for (const dim of [0, 1, -1]) {
      const dense = stack([at(2, 0).toDense(), at(2, 2).toDense()], dim);
      expect(
        stack([at(2, 0), at(2, 2)], dim)
          .toDense()
          .equal(dense),
      ).toBe(true);
    }
  });

  it('has one dtype, and gives each its part of the gradient, sparse or dense', () => {
    const [a, b] = [at(2, 0), at(1).to('float64')];
    for (const t of [a, b]) t.requiresGrad = true;
    const both = stack([a, b], 1);
    expect(both.dtype).toBe('float64');
    sparse.sum(both.mul(2)).backward();
    expect([a.grad?.layout, a.grad?.dtype, a.grad?.toDense().toArray()]).toEqual(['sparse_coo', 'float32', [2, 0, 2]]);
    expect([b.grad?.layout, b.grad?.dtype, b.grad?.toDense().toArray()]).toEqual(['sparse_coo', 'float64', [0, 2, 0]]);
    const c = at(2, 0);
    c.requiresGrad = true;
    stack([c, at(1)])
      .sum()
      .backward();
    expect([c.grad?.layout, c.grad?.toArray()]).toEqual(['strided', [1, 1, 1]]);
  });

  it('says what does not fit', () => {
    const rows = sparseCooTensor(index([[1]]), tensor([[1, 2]]), [3, 2]);
    expect(() => stack([rows, rows], 2)).toThrow('along dimension 0 to 1, not 2; use toDense()');
    const full = sparseCooTensor(index([[1], [0]]), tensor([1]), [3, 2]); // prettier-ignore
    expect(() => stack([rows, full])).toThrow('equally many sparse dimensions, but got 1 at entry 0 and 2 at entry 1');
    expect(() => stack([at(1), tensor([1, 2, 3])])).toThrow(/no view of a sparse tensor/);
  });
});
