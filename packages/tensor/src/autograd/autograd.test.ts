/** @file The recorded graph: leaves, hooks, retained graphs, in-place changes and views, custom functions, anomaly mode. */
import { describe, expect, it } from 'vitest';
import {
  DisposedError,
  concat,
  customFunction,
  detectAnomaly,
  enableGrad,
  grad,
  isGradEnabled,
  lift,
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

  it('must keep the shape', () => {
    const y = leaf([1, 2]).mul(1);
    y.registerHook(() => ones([3]));
    expect(() => y.sum().backward()).toThrow(/hook returned a gradient of shape/);
  });
});

describe('in-place changes', () => {
  it('of a leaf throw, unless nothing is recorded', () => {
    const x = leaf([1, 2]);
    expect(() => x.add_(1)).toThrow('a leaf Variable that requires grad is being used in an in-place operation.');
    expect(() => x.select(0, 0).add_(1)).toThrow(
      'a view of a leaf Variable that requires grad is being used in an in-place operation.',
    );
    noGrad(() => x.add_(1));
    expect(x.toArray()).toEqual([2, 3]);
  });

  it('of a saved value are noticed, also through a view or in noGrad', () => {
    for (const change of [
      (t: Tensor) => t.add_(1),
      (t: Tensor) => t.select(0, 0).add_(1),
      (t: Tensor) => noGrad(() => t.zero_()),
    ]) {
      const y = leaf([1, 2]).mul(1);
      const z = y.mul(y).sum();
      change(y);
      expect(() => z.backward()).toThrow(
        /one of the variables needed for gradient computation has been modified by an inplace operation/,
      );
    }
  });

  it('of values that were not saved are fine', () => {
    const x = leaf([1, 2]);
    const y = x.add(1);
    y.mul_(3);
    y.sum().backward();
    expect(x.grad?.toArray()).toEqual([3, 3]);
  });

  it('through a view change the history of the base, and of its other views', () => {
    const x = leaf([1, 2, 3]);
    const base = x.mul(1);
    const [head, tail] = [base.narrow(0, 0, 2), base.narrow(0, 1, 2)];
    head.mul_(10);
    expect(base.gradFn?.name).toBe('CopySlices');
    expect(tail.gradFn?.name).toBe('AsStridedBackward0');
    tail.sum().backward();
    expect(x.grad?.toArray()).toEqual([0, 10, 1]);
  });

  it('of a tensor that required nothing make it part of the graph', () => {
    const w = leaf([5]);
    const x = zeros([2, 2]);
    x.select(0, 1).copy_(w);
    expect(x.requiresGrad).toBe(true);
    x.mul(
      tensor([
        [1, 2],
        [3, 4],
      ]),
    )
      .sum()
      .backward();
    expect(w.grad?.toArray()).toEqual([7]);
  });

  it('of views made in noGrad throw', () => {
    const base = leaf([1, 2]).mul(1);
    const view = noGrad(() => base.select(0, 0));
    expect(() => view.add_(1)).toThrow(/A view was created in no_grad mode/);
  });

  it('of memory that several elements share throw', () => {
    expect(() => ones([1]).expand([3]).add_(1)).toThrow(/more than one element of the written-to tensor/);
  });

  it('of memory that the operand lies in: the same elements are fine, a part of them is not', () => {
    const t = tensor([1, 2, 3, 4]);
    const says = /some elements of the input tensor and the written-to tensor refer to a single memory location/;
    expect(() => t.narrow(0, 1, 3).copy_(t.narrow(0, 0, 3))).toThrow(says);
    expect(() => t.add_(t.select(0, 0).expand([4]))).not.toThrow();
    expect(t.mul_(t).toArray()).toEqual([4, 9, 16, 25]);
    expect(
      t
        .slice(0, 0, 4, 2)
        .copy_(t.slice(0, 1, 4, 2))
        .toArray(),
    ).toEqual([9, 25]);
  });

  it('must keep shape and kind', () => {
    expect(() => zeros([2]).add_(ones([3, 2]))).toThrow(/doesn't match the broadcast shape/);
    expect(() => zeros([2], { dtype: 'int32' }).add_(0.5)).toThrow(/can't be cast/);
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

describe('customFunction', () => {
  const square = customFunction({
    forward: (ctx, x) => {
      ctx.saveForBackward(x);
      return x.mul(x);
    },
    backward: (ctx, g) => [g.mul(ctx.saved[0] as Tensor).mul(2)],
  });

  it('uses its own derivative, twice too', () => {
    const x = leaf([3]);
    const [g] = grad([square(x).sum()], [x], { createGraph: true });
    expect(grad([(g as Tensor).sum()], [x])[0]?.toArray()).toEqual([2]);
  });

  it('may keep what it is given', () => {
    const kept: Tensor[] = [];
    const f = customFunction({
      forward: (ctx, x) => {
        ctx.saveForBackward(x);
        return x.mul(2);
      },
      backward: (ctx, g) => {
        kept.push(g, ...ctx.saved);
        return [g];
      },
    });
    f(leaf([1, 2]))
      .mul(3)
      .sum()
      .backward();
    expect(kept.map((t) => t.toArray())).toEqual([
      [3, 3],
      [1, 2],
    ]);
  });

  it('refuses changes in place of a view of its input, and its use after the input has changed', () => {
    const same = customFunction({ forward: (_c, x) => x, backward: (_c, g) => [g.mul(10)] });
    const part = customFunction({
      forward: (_c, x) => x.narrow(0, 0, 1),
      backward: (_c, g) => [g.mul(10).expand([2])],
    });
    for (const fn of [same, part]) {
      const x = leaf([1, 2]).mul(1);
      expect(() => fn(x).mul_(2)).toThrow(/This view was created inside a custom Function/);
      const y = fn(x);
      x.add_(1);
      expect(() => y.sum().backward()).toThrow(/its base or another view of its base has been modified inplace/);
    }
    const [x, fresh] = [
      leaf([1, 2]),
      customFunction({ forward: (_c, t) => t.mul(2).narrow(0, 0, 1), backward: (_c, g) => [g.expand([2])] }),
    ];
    fresh(x).mul_(3).sum().backward();
    expect(x.grad?.toArray()).toEqual([3, 3]);
  });

  it('checks the number and the state of what it saved', () => {
    const wrong = customFunction({ forward: (_c, a) => a, backward: () => [] });
    expect(() => wrong(leaf([1])).backward()).toThrow(/incorrect number of gradients/);
    const y = square(leaf([1]));
    y.backward();
    expect(() => y.backward()).toThrow(/a second time/);
  });
});

describe('lift', () => {
  it('differentiates TensorFlow.js code', async () => {
    const tf = await import('@tensorflow/tfjs-core');
    const f = lift((a, b) => tf.sum(tf.mul(tf.tanh(tf.matMul(a as never, b as never)), 2)));
    const a = leaf([
      [0.1, 0.2],
      [0.3, 0.4],
    ]);
    const b = leaf([[0.5], [0.6]]);
    const direct = a.matmul(b).tanh().mul(2).sum();
    const lifted = f(a, b);
    expect(lifted.item()).toBeCloseTo(direct.item(), 5);
    const wanted = grad([direct], [a, b]);
    const got = grad([lifted], [a, b]);
    got.forEach((g, i) => expect(g?.allClose(wanted[i] as Tensor, { rtol: 1e-5, atol: 1e-6 })).toBe(true));
  });

  it('leaves no TensorFlow.js tensor behind', async () => {
    const tf = await import('@tensorflow/tfjs-core');
    const f = lift((x) => tf.square(x as never));
    const x = leaf([1, 2]);
    const before = tf.memory().numTensors;
    f(x).sum().backward();
    expect(tf.memory().numTensors).toBe(before);
    expect(x.grad?.toArray()).toEqual([2, 4]);
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
