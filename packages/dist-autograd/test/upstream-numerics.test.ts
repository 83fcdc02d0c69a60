/** @file PyTorch's tests of gradients of larger programs, of hooks, and of many contexts at once; compared with a run here. */
import { describe, expect, it } from 'vitest';
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import {
  add,
  customFunction,
  matmul,
  mul,
  nn,
  ones,
  rand,
  runBackward,
  stack,
  tensor,
  type Tensor,
} from '@backwire/tensor';
import { AccumulateGrad, type Node } from '@backwire/tensor/internal';
import { expectClean, unknownContext, useAgents } from './agents.ts';
import { callsTo, local, sameAsLocal, shown, valuesOf, type Run } from './local.ts';
import { backward, context, distAutogradDebugInfo, getGradients } from '../src/index.ts';

const { at, agents, everywhere } = useAgents('upstream-numerics', 4, { onLeak: 'throw' });
/** The worker after this one. */
const after = (rank: number): string => `w${(rank + 1) % 4}`;

const leaf = (...shape: number[]): Tensor => Object.assign(rand(shape), { requiresGrad: true });
/** As `torch.linalg.multi_dot`, which takes its factors as a list. */
const multiDot = rpcFunction('upstream-numerics/multi-dot', (factors: readonly Tensor[]) =>
  factors.reduce((product, factor) => product.matmul(factor)),
);
const split = rpcFunction('upstream-numerics/split', (t: Tensor, size: number) => t.split(size));
const linear = (x: Tensor, weight: Tensor): Tensor => x.matmul(weight.transpose(0, 1));
const complex = rpcFunction('upstream-numerics/complex', (a: Tensor, b: Tensor) => {
  const c = linear(a, b);
  const d = linear(b, c);
  const e = linear(c, d);
  return a.matmul(b).matmul(c).matmul(d).matmul(e);
});

describe('gradients are those of one process', () => {
  it('of products of different shapes, some of whose factors require none', () =>
    everywhere(() => {
      const [a, b, c, d] = [leaf(4, 6), rand([6, 5]), leaf(5, 7), rand([7, 9])];
      return sameAsLocal([a, b, c, d], async (run) => [(await run(multiDot, [await run(matmul, a, b), c, d])).sum()]);
    }));

  it('of tensors that were sent and then not used: zeros', () =>
    everywhere(async () => {
      const leaves = [leaf(3, 3), leaf(3, 3), leaf(3, 3)];
      const program = async (run: Run): Promise<Tensor[]> => {
        const all = await run(stack, leaves);
        return [(await run(matmul, all.narrow(0, 0, 1), all.narrow(0, 2, 1))).sum()];
      };
      expect((await local(leaves, program))[1]).toMatchObject({ dtype: 'float32', values: Array(3).fill([0, 0, 0]) });
      await sameAsLocal(leaves, program);
    }));

  it('of some of several outputs', () =>
    everywhere(() => {
      const t = leaf(10, 2);
      return sameAsLocal([t], async (run) => {
        const parts = await run(split, t, 2);
        expect(parts).toHaveLength(5);
        return [(await run(multiDot, [parts[0]!, parts[2]!, parts[4]!])).sum()];
      });
    }));

  it('of a function of many operations', () =>
    everywhere(async () => {
      // Whole numbers below 2 ** 24, whose sums do not depend on their order.
      const whole = (dtype: 'float32' | 'float64'): Tensor => {
        const values = Array.from({ length: 3 }, (_, i) =>
          [0, 1, 2].map((j) => (i === j ? 1 : Math.round(rand([1]).item()))),
        );
        return tensor(values, { dtype, requiresGrad: true });
      };
      for (const dtype of ['float32', 'float64'] as const) {
        const [a, b] = [whole(dtype), whole(dtype)];
        await sameAsLocal([a, b], async (run) => [(await run(complex, a, b)).sum()]);
      }
    }));

  it('where a hook of a leaf doubles them', () =>
    everywhere(async () => {
      const [a, b] = [tensor(new Float32Array(9).fill(1), { shape: [3, 3], requiresGrad: true }), leaf(3, 3)];
      const [plain] = await local([a, b], async (run) => [(await run(matmul, a, b)).sum()]);
      a.registerHook((grad) => grad.mul(2));
      const [doubled] = await local([a, b], async (run) => [(await run(matmul, a, b)).sum()]);
      const values = (of: unknown): number[][] => (of as { values: number[][] }).values;
      expect(values(doubled)).toEqual(values(plain).map((row) => row.map((x) => 2 * x)));
      await sameAsLocal([a, b], async (run) => [(await run(matmul, a, b)).sum()]);
    }));

  it('summed over two passes, as .grad is', () =>
    everywhere((rank) =>
      context(async (id) => {
        const [a, b] = [leaf(3, 3), leaf(3, 3)];
        // Each pass has a root of its own over the same product, as PyTorch's.
        const here = matmul(a, b);
        runBackward([here.sum()], undefined, { retainGraph: true });
        runBackward([here.sum()]);
        const product = await rpcSync(after(rank), matmul, [a, b]);
        await backward(id, [product.sum()], { retainGraph: true });
        await backward(id, [product.sum()]);
        const grads = getGradients(id);
        expect([a.grad, b.grad]).not.toContain(null);
        expect([grads.get(a), grads.get(b)].map(shown)).toEqual([a.grad, b.grad].map(shown));
        expect(grads.size).toBe(2);
      }),
    ));
});

it('a pass needs no call', () =>
  everywhere(() =>
    context(async (id) => {
      const [a, b] = [leaf(3, 3), leaf(3, 3)];
      await backward(id, [add(a, b).sum()]);
      const grads = getGradients(id);
      const expected = shown(ones([3, 3]));
      expect([grads.size, shown(grads.get(a)), shown(grads.get(b))]).toEqual([2, expected, expected]);
    }),
  ));

it('hooks of a function that collects the gradient of a leaf run once each', () =>
  everywhere(async () => {
    const t = leaf(10, 10);
    const sum = t.add(t);
    let called = 0;
    const [first, second] = sum.gradFn!.nextFunctions as unknown as readonly Node[];
    // Both ways lead to the one function that collects the leaf's gradient.
    expect(first).toBeInstanceOf(AccumulateGrad);
    expect([second === first, (first as AccumulateGrad).variable === t]).toEqual([true, true]);
    first!.addPostHook(() => (called += 1));
    first!.addPostHook(() => (called += 2));
    second!.addPostHook(() => (called += 2));
    await context(async (id) => {
      await backward(id, [sum.sum()]);
      expect(called).toBe(5);
      const grads = getGradients(id);
      expect(grads.size).toBe(1);
      expect(valuesOf(grads.get(t))).toEqual(Array(10).fill(Array(10).fill(2)));
    });
  }));

describe('many contexts', () => {
  /** PyTorch's workload: four calls to one worker and a pass, whose gradients are those of a run here. */
  const workload = (to: string): Promise<void> => {
    const [a, b] = [leaf(3, 3), leaf(3, 3)];
    return sameAsLocal(
      [a, b],
      async (run) => {
        const c = await run(add, a, b);
        const d = await run(mul, b, c);
        const e = await run(matmul, c, d);
        return [(await run(add, d, e)).sum()];
      },
      [callsTo(to)],
    );
  };

  it(
    'of three workers, twenty each at once, are kept apart by the one that all of them call',
    {
      timeout: 120_000,
    },
    async () => {
      await Promise.all([1, 2, 3].flatMap((rank) => Array.from({ length: 20 }, () => at(rank, () => workload('w0')))));
      await expectClean(agents);
    },
  );

  it('are counted, and passes too, while they last', () =>
    at(0, async () => {
      const during: number[] = [];
      const left: bigint[] = [];
      const keys = ['num_current_backward_passes', 'num_autograd_contexts'];
      const look = customFunction({
        forward: (_ctx, x: Tensor) => x.clone(),
        backward: (_ctx, grad) => {
          during.push(distAutogradDebugInfo().num_current_backward_passes);
          return [grad];
        },
      });
      await Promise.all(
        [0, 1, 2, 3].map((rank) =>
          at(rank, () =>
            context(async (id) => {
              const [a, b] = [leaf(3, 3), leaf(3, 3)];
              let value = a;
              const others = [0, 1, 2, 3].filter((other) => other !== rank);
              for (const other of others) value = await rpcSync(other, add, [value, b]);
              value = look(value);
              for (const other of others) value = await rpcSync(other, add, [value, b]);
              await backward(id, [value.sum()]);
              const { num_autograd_contexts: contexts } = distAutogradDebugInfo();
              expect(contexts).toBeGreaterThanOrEqual(1);
              expect(contexts).toBeLessThanOrEqual(4);
              expect(Object.keys(distAutogradDebugInfo())).toEqual(keys);
              left.push(id);
            }),
          ),
        ),
      );
      expect(during).toHaveLength(4);
      for (const passes of during) {
        expect(passes).toBeGreaterThanOrEqual(1);
        expect(passes).toBeLessThanOrEqual(4);
      }
      // Whoever drove a pass has seen the end of it everywhere; contexts are forgotten by a notice, a little later.
      for (const rank of [0, 1, 2, 3]) {
        const info = at(rank, distAutogradDebugInfo);
        expect(Object.keys(info)).toEqual(keys);
        expect(info.num_current_backward_passes).toBe(0);
      }
      await expectClean(agents);
      expect(new Set(left).size).toBe(4);
      for (const rank of [0, 1, 2, 3])
        for (const id of left) expect(() => at(rank, () => getGradients(id))).toThrow(unknownContext(id));
    }));
});

/** Leaves that are being made, by who asked for them: what lets them be. */
const beingMade = new Map<number, () => void>();
/** A leaf that is not made before it may be. */
const slowLeaf = rpcFunction('upstream-numerics/slow-leaf', async (a: Tensor, b: Tensor, by: number) => {
  await new Promise<void>((resolve) => beingMade.set(by, resolve));
  return Object.assign(a.add(b), { requiresGrad: true });
});
/** Comes after what the caller has asked for before it. */
const makeNow = rpcFunction('upstream-numerics/make-now', (by: number) => beingMade.get(by)!());
const ownersGradient = rpcFunction('upstream-numerics/owners-gradient', async (id: bigint, rref: RRef<Tensor>) =>
  shown(getGradients(id).get(await rref.localValue())),
);

it('a pass goes on in the call that made a value before there was a context', () =>
  everywhere(async (rank) => {
    const [a, b] = [rand([3, 3]), rand([3, 3])];
    const sum = Object.assign(add(a, b), { requiresGrad: true });
    const [expected] = await local([sum], async () => [sum.sum()]);
    const rref = remote(after(rank), slowLeaf, [a, b, rank]);
    await context(async (id) => {
      // Asked for while the call that makes it, which knows of no context, is under way: that call answers.
      const value = rref.toHere();
      await rpcSync(after(rank), makeNow, [rank]);
      await backward(id, [(await value).sum()]);
      expect(await rpcSync(after(rank), ownersGradient, [id, rref])).toEqual(expected);
    });
    rref.dispose();
  }));

const callEmbedding = rpcFunction(
  'upstream-numerics/call-embedding',
  async (bag: RRef<nn.EmbeddingBag>, ids: Tensor, offsets: Tensor, weights: Tensor) =>
    (await bag.localValue()).forward(ids, offsets, weights),
);
const embeddingGradient = rpcFunction(
  'upstream-numerics/embedding-gradient',
  async (bag: RRef<nn.EmbeddingBag>, id: bigint) => getGradients(id).get((await bag.localValue()).weight),
);

it('sparse gradients of an embedding are summed on its owner, over two passes', () =>
  everywhere(async (rank) => {
    const options = { mode: 'sum', sparse: true } as const;
    const there = remote(after(rank), nn.EmbeddingBag, [16, 16, options]);
    const here = new nn.EmbeddingBag(16, 16, options);
    const ids = tensor([1, 2, 4, 5, 4, 3, 2, 9], { dtype: 'int64' });
    const offsets = tensor([0, 4], { dtype: 'int64' });
    const weights = leaf(8);
    // Each pass has a root of its own over the same result, as PyTorch's.
    const result = here.forward(ids, offsets, weights);
    runBackward([result.sum()], undefined, { retainGraph: true });
    runBackward([result.sum()]);
    await context(async (id) => {
      const answer = await rpcSync(after(rank), callEmbedding, [there, ids, offsets, weights]);
      await backward(id, [answer.sum()], { retainGraph: true });
      await backward(id, [answer.sum()]);
      const grad = await rpcSync(after(rank), embeddingGradient, [there, id]);
      expect(grad?.layout).toBe('sparse_coo');
      expect(shown(grad)).toEqual(shown(here.weight.grad));
    });
    there.dispose();
  }));
