/** @file Gradients across workers, worked out by hand; and how a pass goes: roots, outputs, contexts, drivers, hooks. */
import { describe, expect, it } from 'vitest';
import { getWorkerInfo, rpcAsync, rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { add, mul, rand, rpcName, runBackward, type Tensor } from '@backwire/tensor';
import { gradEdge, runWith } from '@backwire/tensor/internal';
import { filled, leaf, randomLeaf, useAgents } from './agents.ts';
import { backward, context, getGradients } from '../src/index.ts';

const { at } = useAgents('numerics', 4);

const shardLoss = rpcFunction('numerics/shardLoss', (x: Tensor, weight: Tensor) =>
  x.matmul(weight.transpose(0, 1)).select(1, 0).square().sum(),
);
const selectOne = rpcFunction('numerics/selectOne', (a: Tensor, _unused: Tensor) => a.mul(2));
const five = rpcFunction('numerics/five', (t: Tensor) => Array.from({ length: 5 }, (_, i) => t.narrow(0, 2 * i, 2)));
const hop = rpcFunction('numerics/hop', async (a: Tensor, b: Tensor, rest: readonly string[]): Promise<Tensor> => {
  const [next, ...after] = rest;
  return next === undefined ? a.mul(b) : (await rpcAsync(next, hop, [a, b, after])).add(a);
});

class Holder {
  static readonly [rpcName] = 'numerics/Holder';
  readonly weight = leaf([2, 2], 1);
  weightRRef(): RRef<Tensor> {
    return createRRef(this.weight);
  }
  times(x: Tensor): Tensor {
    return this.weight.mul(x);
  }
  gradient(id: bigint): unknown {
    return getGradients(id).get(this.weight)?.toArray() ?? null;
  }
}
rpcClass(Holder, { methods: ['weightRRef', 'times', 'gradient'] });
const useWeight = rpcFunction('numerics/useWeight', async (weight: RRef<Tensor>, x: Tensor) =>
  (await weight.toHere()).mul(x),
);
const contextSize = rpcFunction('numerics/contextSize', (id: bigint) => getGradients(id).size);

describe('worked examples', () => {
  const threes = (value: number): number[][] => Array.from({ length: 3 }, () => [value, value, value]);

  it('of shards, one of them empty', () =>
    at(0, async () => {
      const [data, weight] = [rand([5, 3]), randomLeaf(2, 3)];
      const shards: [from: number, count: number][] = [
        [0, 2],
        [2, 0],
        [2, 3],
        [5, 0],
      ];
      const sumOf = async (run: (x: Tensor, w: Tensor) => Promise<Tensor>): Promise<Tensor> => {
        const losses = await Promise.all(shards.map((shard) => run(data.narrow(0, ...shard), weight)));
        return losses.reduce((a, b) => a.add(b));
      };
      runBackward([await sumOf(async (x, w) => shardLoss(x, w))]);
      const expected = weight.grad as Tensor;
      weight.grad = null;
      await context(async (id) => {
        await backward(id, [await sumOf((x, w) => rpcSync('w1', shardLoss, [x, w]))]);
        expect(getGradients(id).get(weight)?.allClose(expected)).toBe(true);
      });
      // A worker all of whose gradient is empty: the piece it was sent has none to give back.
      const none = randomLeaf(4, 3);
      await context(async (id) => {
        await backward(id, [await rpcSync('w1', shardLoss, [none.narrow(0, 4, 0), weight])]);
        const grads = getGradients(id);
        expect(grads.get(none)?.eq(0).all().item()).toBe(1);
        expect(grads.get(weight)?.eq(0).all().item()).toBe(1);
      });
    }));

  it('sum(mul(a, b) · a): 4 and 1, then 8 and 2 after a second pass', () =>
    at(0, () =>
      context(async (id) => {
        const [a, b] = [leaf([3, 3], 1), leaf([3, 3], 2)];
        const loss = (await rpcSync('w1', mul, [a, b])).mul(a).sum();
        for (const [ga, gb] of [
          [4, 1],
          [8, 2],
          [12, 3],
        ] as const) {
          await backward(id, [loss], { retainGraph: true });
          const grads = getGradients(id);
          expect([grads.get(a)?.toArray(), grads.get(b)?.toArray()]).toEqual([threes(ga), threes(gb)]);
        }
        expect(a.grad).toBeNull();
      }),
    ));

  it('2 (a + b), computed two hops away: 2', () =>
    at(0, () =>
      context(async (id) => {
        const [a, b] = [leaf([3, 3], 1), leaf([3, 3], 2)];
        const loss = (await rpcSync('w1', hop, [a, b, ['w2', 'w3']])).sum();
        await backward(id, [loss]);
        expect(getGradients(id).get(a)?.toArray()).toEqual(threes(4));
        expect(getGradients(id).get(b)?.toArray()).toEqual(threes(1));
      }),
    ));

  it('several roots are summed', () =>
    at(0, () =>
      context(async (id) => {
        const [a, b] = [leaf([3, 3], 1), leaf([3, 3], 2)];
        const c = await rpcSync('w1', mul, [a, b]);
        await backward(id, [c.sum(), a.mul(b).sum(), a.mul(a).sum()]);
        expect(getGradients(id).get(a)?.toArray()).toEqual(threes(6));
        expect(getGradients(id).get(b)?.toArray()).toEqual(threes(2));
      }),
    ));

  it('a leaf held by an owner: only the slice that was used has a gradient', () =>
    at(0, () =>
      context(async (id) => {
        const holder = remote('w1', Holder);
        const x = leaf([4, 2], 3);
        const weight = await holder.rpcSync().weightRRef();
        const out = await rpcSync('w2', useWeight, [weight, x.narrow(0, 1, 2)]);
        await backward(id, [out.sum()]);
        expect(getGradients(id).get(x)?.toArray()).toEqual([
          [0, 0],
          [1, 1],
          [1, 1],
          [0, 0],
        ]);
        expect(await holder.rpcSync().gradient(id)).toEqual([
          [3, 3],
          [3, 3],
        ]);
        expect(await rpcSync('w2', contextSize, [id])).toBe(0);
        weight.dispose();
        holder.dispose();
      }),
    ));
});

describe('backward', () => {
  it('leaves unused outputs and unused arguments without a gradient', () =>
    at(0, () =>
      context(async (id) => {
        const [a, b] = [leaf([2], 1), leaf([2], 1)];
        await backward(id, [(await rpcSync('w1', selectOne, [a, b])).sum()]);
        expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
        expect(getGradients(id).get(b)).toBeUndefined();
      }),
    ));

  it('takes some of several outputs', () =>
    at(0, () =>
      context(async (id) => {
        const t = leaf([10, 2], 1);
        const parts = await rpcSync('w1', five, [t]);
        await backward(id, [parts[0]!.mul(parts[2]!).add(parts[4]!).sum()]);
        const row = [1, 1];
        const none = [0, 0];
        expect(getGradients(id).get(t)?.toArray()).toEqual([row, row, none, none, row, row, none, none, row, row]);
      }),
    ));

  it('needs no call', () =>
    at(0, () =>
      context(async (id) => {
        const a = leaf([2], 3);
        await backward(id, [a.mul(a).sum()]);
        expect(getGradients(id).get(a)?.toArray()).toEqual([6, 6]);
      }),
    ));

  it('adds up over passes through nested calls', () =>
    at(0, () =>
      context(async (id) => {
        const [a, b] = [leaf([2], 1), leaf([2], 2)];
        const loss = (await rpcSync('w1', hop, [a, b, ['w2', 'w1', 'w0']])).sum();
        for (let i = 1; i <= 3; i++) {
          await backward(id, [loss], { retainGraph: true });
          expect(getGradients(id).get(a)?.toArray()).toEqual([5 * i, 5 * i]);
          expect(getGradients(id).get(b)?.toArray()).toEqual([i, i]);
        }
      }),
    ));

  it('keeps contexts apart, at once and on one leaf', () =>
    at(0, async () => {
      const a = leaf([2], 1);
      const results = await Promise.all(
        Array.from({ length: 60 }, (_, i) =>
          context(async (id) => {
            const out = await rpcAsync('w1', mul, [a, filled([2], i)]);
            await backward(id, [out.sum()]);
            return getGradients(id).get(a)?.toArray();
          }),
        ),
      );
      expect(results).toEqual(Array.from({ length: 60 }, (_, i) => [i, i]));
    }));

  it('runs a thousand times over one graph', { timeout: 60_000 }, () =>
    at(0, () =>
      context(async (id) => {
        const [a, b] = [leaf([2], 1), leaf([2], 2)];
        const loss = (await rpcSync('w1', add, [a, b])).sum();
        for (let i = 0; i < 1000; i++) await backward(id, [loss], { retainGraph: true });
        expect(getGradients(id).get(a)?.toArray()).toEqual([1000, 1000]);
      }),
    ),
  );

  it('runs on another worker of the context', () =>
    at(0, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        expect(await rpcSync('w1', backwardThere, [id, a])).toBe(0);
        expect(getGradients(id).get(a)?.toArray()).toEqual([3, 3]);
      }),
    ));

  it('lets many drivers use one owner', () =>
    at(1, async () => {
      const holder = createRRef(new Holder());
      const drive = [0, 2, 3].map((rank) => rpcAsync(rank, driver, [holder]));
      expect(await Promise.all(drive)).toEqual([
        [
          [1, 1],
          [1, 1],
        ],
        [
          [3, 3],
          [3, 3],
        ],
        [
          [4, 4],
          [4, 4],
        ],
      ]);
    }));

  it('calls the hooks of leaves, whose gradient they may replace, and hooks of received tensors', () =>
    at(0, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        a.registerHook((g) => g.mul(2));
        const seen: unknown[] = [];
        const out = await rpcSync('w1', mul, [a, filled([2], 5)]);
        out.registerHook((g) => void seen.push(g.toArray()));
        await backward(id, [out.sum()]);
        expect(getGradients(id).get(a)?.toArray()).toEqual([10, 10]);
        expect(seen).toEqual([[1, 1]]);
      }),
    ));
});

describe('what others see of a pass', () => {
  it('post hooks of a leaf run once each, and a profile sees every function', () =>
    at(0, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        let ran = 0;
        gradEdge(a)!.node.addPostHook(() => ran++);
        const loss = (await rpcSync('w1', mul, [a, a])).exp().sum();
        const names: string[] = [];
        const profile = { begin: (name: string) => void names.push(name), end: () => undefined };
        await runWith({ profile }, () => backward(id, [loss]));
        expect(ran).toBe(1);
        expect(names).toEqual(expect.arrayContaining(['SumBackward0', 'ExpBackward0', 'RecvRpcBackward']));
      }),
    ));
});

const backwardThere = rpcFunction('numerics/backwardThere', async (id: bigint, a: Tensor) => {
  await backward(id, [a.mul(3).sum()]);
  return getGradients(id).size;
});
const driver = rpcFunction('numerics/driver', async (holder: RRef<Holder>) => {
  const x = filled([2, 2], getWorkerInfo().id + 1);
  return context(async (id) => {
    await backward(id, [(await holder.rpcAsync().times(x)).sum()]);
    return holder.rpcSync().gradient(id);
  });
});
