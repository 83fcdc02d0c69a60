/** @file The recorded graph: leaves, hooks, retained graphs, sparse gradients, anomaly mode. */
import { describe, expect, it } from 'vitest';
import {
  DisposedError,
  concat,
  customFunction,
  detectAnomaly,
  enableGrad,
  grad,
  isGradEnabled,
  memory,
  nn,
  noGrad,
  ones,
  runBackward,
  scope,
  sparseCooTensor,
  tensor,
  zeros,
  type Tensor,
} from '../index.ts';
import { AccumulateGrad, gradEdge, shareHandle } from '../internal.ts';

const leaf = (values: number | number[] | number[][]): Tensor => tensor(values, { requiresGrad: true });

describe('backward', () => {
  it('makes a leaf its own gradient where the program holds the one that arrives', () => {
    const given = ones([2]);
    const [x, y, z] = [leaf([1, 2]), leaf([1, 2]), leaf([1, 2])];
    x.add(0).backward(given);
    y.backward(given);
    let held: Tensor | undefined;
    z.registerHook(() => (held = ones([2])));
    z.mul(2).sum().backward();
    given.add_(5);
    held?.add_(5);
    for (const t of [x, y, z]) expect(t.grad?.toArray()).toEqual([1, 1]);
  });

  it('adds into leaves, and again on the next pass', () => {
    const x = leaf([1, 2]);
    x.mul(3).sum().backward();
    const first = x.grad as Tensor;
    x.mul(3).sum().backward();
    expect(x.grad?.toArray()).toEqual([6, 6]);
    expect(first.toArray(), 'a gradient somebody holds does not change').toEqual([3, 3]);
  });

  it('gives leaves gradients of their own, even where one gradient goes two ways', () => {
    const a = leaf([1]);
    const b = leaf([1]);
    a.add(b).backward();
    a.grad?.zero_();
    expect(b.grad?.toArray()).toEqual([1]);
  });

  it('needs a gradient for anything but a scalar, of the right shape', () => {
    const y = leaf([1, 2]).mul(2);
    expect(() => y.backward()).toThrow('grad can be implicitly created only for scalar outputs');
    expect(() => y.backward(ones([3]))).toThrow(/Mismatch in shape/);
    expect(() => zeros([]).backward()).toThrow(
      'element 0 of tensors does not require grad and does not have a grad_fn',
    );
  });

  it('refuses a root that was disposed', () => {
    const x = tensor([1, 2], { requiresGrad: true });
    const loss = x.mul(2).sum();
    loss.dispose();
    expect(() => loss.backward()).toThrow(DisposedError);
    expect(() => grad([loss], [x])).toThrow(DisposedError);
    expect(x.grad).toBeNull();
  });

  it('frees saved values, and says so the second time', () => {
    const x = leaf([1, 2]);
    const y = x.mul(x).sum();
    y.backward(undefined, { retainGraph: true });
    y.backward();
    expect(x.grad?.toArray()).toEqual([4, 8]);
    expect(() => y.backward()).toThrow(/Trying to backward through the graph a second time/);
  });

  it('sums over every path, whatever the order', () => {
    const x = leaf(2);
    const a = x.mul(x);
    const b = a.mul(x).add(a);
    b.mul(a).backward();
    // x^5 + x^4
    expect(x.grad?.item()).toBe(5 * 16 + 4 * 8);
  });

  it('takes several roots at once', () => {
    const x = leaf([1, 2]);
    runBackward([x.sum(), x.mul(2)], [null, tensor([1, 10])]);
    expect(x.grad?.toArray()).toEqual([3, 21]);
  });

  it('leaves nothing behind', () => {
    const x = leaf([1, 2]);
    const run = (): void => {
      scope(() => {
        x.mul(x).exp().sum().backward();
      });
      x.grad?.dispose();
      x.grad = null;
    };
    run();
    const before = memory();
    for (let i = 0; i < 5; i++) run();
    expect(memory()).toEqual(before);
  });

  it('has names and edges to look at', () => {
    const x = leaf([1]);
    const y = x.mul(2).relu();
    expect(y.gradFn?.name).toBe('ReluBackward0');
    expect(y.gradFn?.nextFunctions[0]?.name).toBe('MulBackward0');
    expect(y.gradFn?.nextFunctions[0]?.nextFunctions[0]?.name).toBe('AccumulateGrad');
    expect([x.isLeaf, y.isLeaf, y.requiresGrad]).toEqual([true, false, true]);
    // PyTorch's names, where ours are others too.
    const sparse = sparseCooTensor(tensor([[0]], { dtype: 'int64' }), leaf([1]), [2]);
    expect(sparse.add(sparse).gradFn?.name).toBe('AddBackward0');
    expect(concat([x, x]).gradFn?.name).toBe('CatBackward0');
    expect(x.logSumExp(0).gradFn?.name).toBe('LogsumexpBackward0');
  });
});

describe('grad', () => {
  it('answers for inner tensors and leaves without touching .grad', () => {
    const x = leaf([2]);
    const y = x.mul(x);
    const z = y.mul(3).sum();
    const [gy, gx] = grad([z], [y, x]);
    expect([gy?.toArray(), gx?.toArray(), x.grad]).toEqual([[3], [12], null]);
  });

  it('throws for an unused input unless allowed', () => {
    const [x, other] = [leaf([1]), leaf([1])];
    expect(() => grad([x.mul(2).sum()], [other])).toThrow(/not have been used in the graph/);
    expect(grad([x.mul(2).sum()], [x, other], { allowUnused: true })[1]).toBeNull();
    expect(() => grad([x.sum()], [zeros([1])])).toThrow(/does not require grad/);
  });

  it('differentiates again with createGraph', () => {
    const x = leaf(3);
    const [g] = grad([x.pow(4)], [x], { createGraph: true });
    const [h] = grad([g as Tensor], [x], { createGraph: true });
    const [k] = grad([h as Tensor], [x]);
    expect([g?.item(), h?.item(), k?.item()]).toEqual([108, 108, 72]);
  });

  it('runs hooks once for a captured tensor', () => {
    const x = leaf([1]);
    const y = x.mul(2);
    let calls = 0;
    y.registerHook((g) => {
      calls++;
      return g.mul(10);
    });
    expect(grad([y.mul(1).sum()], [y])[0]?.toArray()).toEqual([10]);
    expect(calls).toBe(1);
  });
});

describe('modes', () => {
  it('holds across await and nests', async () => {
    const x = leaf([1]);
    await noGrad(async () => {
      await Promise.resolve();
      expect(x.mul(2).requiresGrad).toBe(false);
      expect(enableGrad(() => x.mul(2).requiresGrad)).toBe(true);
    });
    expect([isGradEnabled(), x.mul(2).requiresGrad]).toEqual([true, true]);
  });

  it('refuses to record integers and to clear the flag of a result', () => {
    expect(() => zeros([1], { dtype: 'int32', requiresGrad: true })).toThrow(/floating point/);
    const y = leaf([1]).mul(2);
    expect(() => (y.requiresGrad = false)).toThrow(/leaf variables/);
    expect(y.detach().requiresGrad).toBe(false);
  });
});

describe('hooks', () => {
  it('see and replace gradients of inner tensors and leaves', () => {
    const x = leaf([1, 2]);
    const seen: unknown[] = [];
    const y = x.mul(3);
    const remove = y.registerHook((g) => {
      seen.push(g.toArray());
      return g.mul(2);
    });
    x.registerHook((g) => void seen.push(g.toArray()));
    y.sum().backward(undefined, { retainGraph: true });
    expect(seen).toEqual([
      [1, 1],
      [6, 6],
    ]);
    remove();
    y.sum().backward();
    expect(x.grad?.toArray()).toEqual([9, 9]);
  });

  it('may keep a gradient, as given or worked on', () => {
    const x = leaf([1]);
    const kept: Tensor[] = [];
    const y = x.mul(2);
    y.registerHook((g) => void kept.push(g, g.mul(1)));
    x.registerHook((g) => void kept.push(g));
    y.mul(5).sum().backward();
    expect(kept.map((g) => g.toArray())).toEqual([[5], [5], [10]]);
    const inside = scope(() => {
      kept.length = 0;
      x.mul(2).sum().backward();
      return kept[0];
    });
    expect([inside?.disposed, inside?.toArray()]).toEqual([false, [2]]);
  });

  it('leave no gradient behind that nobody has seen', () => {
    const x = leaf([1, 2]);
    x.mul(1).exp().mul(2).sum().backward();
    const before = memory().bytes;
    const y = x.mul(1).exp().mul(2).sum();
    const graph = memory().bytes - before;
    y.backward();
    // Eight bytes each: x, its product, its exponential twice scaled; all gradients but the new x.grad are gone.
    expect(memory().bytes - before).toBeLessThanOrEqual(graph + 8);
  });

  it('leave the gradient of an inner tensor that wants it', () => {
    const y = leaf([1, 2]).mul(3);
    y.retainGrad();
    y.mul(2).sum().backward();
    expect(y.grad?.toArray()).toEqual([2, 2]);
  });

  it('leave the gradient of an inner tensor as the hooks made it, however late these came', () => {
    const x = leaf([1, 2]);
    const y = x.mul(2);
    y.retainGrad();
    y.registerHook((g) => g.mul(10));
    y.sum().backward();
    expect([y.grad?.toArray(), x.grad?.toArray()]).toEqual([
      [10, 10],
      [20, 20],
    ]);
  });

  it('add the gradients of several passes in an inner tensor up, in memory of its own', () => {
    const y = leaf([1, 2]).mul(2);
    y.retainGrad();
    y.retainGrad();
    const loss = y.sum();
    const seed = tensor([1]).reshape([]);
    loss.backward(seed, { retainGraph: true });
    const first = y.grad;
    loss.backward();
    expect([first?.toArray(), y.grad?.toArray(), seed.item()]).toEqual([[1, 1], [2, 2], 1]);
  });

  it('leave the gradient of what a change in place has made of an inner tensor', () => {
    const y = leaf([1, 2]).mul(2);
    y.retainGrad();
    y.mul_(3);
    y.sum().backward();
    expect(y.grad?.toArray()).toEqual([1, 1]);
  });

  it('leave gradients in tensors that have some, and refuse others', () => {
    expect(() => ones([1]).retainGrad()).toThrow("can't retainGrad on a tensor that has requiresGrad: false");
    expect(() => leaf([1]).retainGrad()).not.toThrow();
  });

  it('run once where the gradient they see is wanted, and so is one behind it', () => {
    const x = leaf([1]);
    const y = x.mul(2);
    const seen: unknown[] = [];
    y.registerHook((g) => {
      seen.push(g.toArray());
      return g.mul(10);
    });
    const found = grad([y.sum()], [y, x]);
    expect([seen, found.map((g) => g?.toArray())]).toEqual([[[1]], [[10], [20]]]);
  });

  it('must give a tensor, and at once', () => {
    for (const [given, text] of [
      [5, '5'],
      [Promise.resolve(ones([1])), 'a Promise: await it'],
    ] as const) {
      const y = leaf([1]).mul(1);
      y.registerHook((() => given) as never);
      expect(() => y.backward()).toThrow(`a hook on a gradient returns a tensor, or nothing, at once; got ${text}`);
    }
  });

  it('must keep the shape', () => {
    const y = leaf([1, 2]).mul(1);
    y.registerHook(() => ones([3]));
    expect(() => y.sum().backward()).toThrow(/hook returned a gradient of shape/);
  });
});

describe('gradients to begin with', () => {
  it('are one for each tensor, or none at all', () => {
    const x = leaf([1]);
    const [a, b] = [x.mul(2), x.mul(3)];
    const one = ones([1]);
    expect(() => grad([a, b], [x], { gradOutputs: [one] })).toThrow('got 2 tensors and 1 gradients');
    expect(() => runBackward([a], [one, one])).toThrow('got 1 tensors and 2 gradients');
    expect(x.grad).toBeNull();
    runBackward([a, b], [null, one]);
    expect(x.grad?.toArray()).toEqual([5]);
  });
});

describe('leaves', () => {
  it('are one leaf through all their handles', () => {
    const x = leaf([1]);
    const other = shareHandle(x);
    expect(gradEdge(x)?.node).toBe(gradEdge(other)?.node);
    expect(gradEdge(x)?.node).toBeInstanceOf(AccumulateGrad);
    other.mul(2).sum().backward();
    expect(x.grad?.toArray()).toEqual([2]);
  });

  it('may be disposed while a graph uses them', () => {
    const x = leaf([3]);
    const y = x.mul(x);
    const handle = shareHandle(x);
    x.dispose();
    y.backward();
    expect(handle.grad?.toArray()).toEqual([6]);
  });
});

describe('sparse gradients', () => {
  it('that meet in one function lie in the order PyTorch gives them', () => {
    const table = leaf([[1], [2], [3], [4], [5], [6]]);
    const w = table.mul(1);
    const rows = (...ids: number[]): Tensor => {
      const layer = Object.assign(new nn.Embedding(6, 1, { sparse: true }), { weight: w });
      return layer.forward(tensor(ids, { dtype: 'int64' })).sum();
    };
    const seen: unknown[] = [];
    w.registerHook((g) => void seen.push(g.sparse?.indices.toArray()));
    rows(0, 1).add(rows(2, 3)).add(rows(4, 5)).backward();
    expect(seen).toEqual([[[0n, 1n, 2n, 3n, 4n, 5n]]]);
  });

  it('stay sparse in a leaf, and meet dense ones', () => {
    const w = leaf([1, 2, 3]);
    const pick = customFunction({
      forward: (_c, t) => t.sum(),
      backward: (_c, g) => [sparseCooTensor(tensor([[0, 2, 2]]), g.expand([3]), [3])],
    });
    pick(w).backward();
    pick(w).backward();
    expect(w.grad?.layout).toBe('sparse_coo');
    expect(w.grad?.toDense().toArray()).toEqual([2, 0, 4]);
    w.sum().backward();
    expect([w.grad?.layout, w.grad?.toArray()]).toEqual(['strided', [3, 1, 5]]);
  });

  it('flow to the values of a sparse tensor', () => {
    const values = leaf([1, 2, 3]);
    const s = sparseCooTensor(tensor([[0, 1, 0]]), values, [2]);
    s.coalesce()
      .values()
      .mul(tensor([10, 1]))
      .sum()
      .backward();
    expect(values.grad?.toArray()).toEqual([10, 1, 10]);
  });
});

describe('detectAnomaly', () => {
  it('finds the function that gave NaN and where it was called', () => {
    const run = (): void =>
      detectAnomaly(() => {
        const x = leaf([0]);
        x.sqrt().mul(0).backward();
      });
    expect(run).toThrow(/Function 'SqrtBackward0' returned nan values in its 0th output/);
    try {
      run();
    } catch (error) {
      expect(String((error as Error).cause)).toMatch(/Traceback of forward call[\s\S]*autograd\.test/);
    }
  });
});
