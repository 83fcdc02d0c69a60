import { describe, expect, it } from 'vitest';
import { getWorkerInfo, rpcAsync, rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import {
  add,
  manualSeed,
  matmul,
  mul,
  nn,
  rand,
  rpcName,
  runBackward,
  sparseCooTensor,
  stack,
  tensor,
  type Tensor,
} from '@backwire/tensor';
import { gradEdge, runWith } from '@backwire/tensor/internal';
import { filled, leaf, useAgents } from './agents.ts';
import { backward, context, getGradients } from '../src/index.ts';

const { at } = useAgents('numerics', 4);

/** A random leaf. */
const random = (...shape: number[]): Tensor => {
  const t = rand(shape);
  t.requiresGrad = true;
  return t;
};

type Binary = typeof add;
type Run = (op: Binary, a: Tensor, b: Tensor) => Promise<Tensor>;
const rpcRun: Run = (op, a, b) => rpcSync('w1', op, [a, b]);
const remoteRun: Run = (op, a, b) => remote('w1', op, [a, b]).toHere();

/** Gradients in a context are those in `.grad` of the same program run here, but for the order of sums. */
async function sameAsLocal(leaves: Tensor[], program: (run: Run) => Promise<Tensor>, run: Run): Promise<void> {
  const root = await program(async (op, a, b) => op(a, b));
  runBackward([root]);
  const expected = leaves.map((t) => t.grad as Tensor);
  for (const t of leaves) t.grad = null;
  await context(async (id) => {
    const loss = await program(run);
    await backward(id, [loss]);
    const grads = getGradients(id);
    for (const [i, t] of leaves.entries()) expect(grads.get(t)?.toDense().allClose(expected[i]!.toDense())).toBe(true);
    expect(leaves.every((t) => t.grad === null)).toBe(true);
  });
}

const complicated = rpcFunction('numerics/complicated', (a: Tensor, b: Tensor) => {
  const c = a.mul(b);
  return c.mul(a).add(c.relu()).exp();
});
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

describe.each([
  ['rpc', rpcRun],
  ['remote', remoteRun],
] as const)('gradients are those of one process, by %s', (_, run) => {
  it('through one hop', () =>
    at(0, () => {
      const [a, b] = [random(3, 3), random(3, 3)];
      return sameAsLocal([a, b], async (r) => (await r(add, a, b)).sum(), run);
    }));

  it('through many round trips', () =>
    at(0, () => {
      const [a, b] = [random(2, 2), random(2, 2)];
      return sameAsLocal(
        [a, b],
        async (r) => {
          let t = await r(add, a, b);
          for (const op of [mul, matmul, add, mul, matmul] as Binary[]) t = await r(op, t, b);
          return t.sum();
        },
        run,
      );
    }));

  it('with different shapes', () =>
    at(0, () => {
      const ts = [random(4, 6), random(6, 3), random(3, 5), random(5, 1)] as [Tensor, Tensor, Tensor, Tensor];
      return sameAsLocal(
        ts,
        async (r) => {
          const left = await r(matmul as unknown as Binary, ts[0], ts[1]);
          const right = await r(matmul as unknown as Binary, ts[2], ts[3]);
          return (await r(matmul as unknown as Binary, left, right)).sum();
        },
        run,
      );
    }));

  it('with different dtypes', () =>
    at(0, () => {
      const a = random(3);
      const b = tensor([1, 2, 3], { dtype: 'float64', requiresGrad: true });
      return sameAsLocal([a, b], async (r) => (await r(mul, a, b)).sum(), run);
    }));

  it('of sent tensors that are used in part', () =>
    at(0, () => {
      const ts = [random(2, 2), random(2, 2), random(2, 2)] as [Tensor, Tensor, Tensor];
      return sameAsLocal(
        ts,
        async (r) => {
          const all = await r(mul, stack(ts), leaf([1], 2).detach());
          return (await r(matmul as unknown as Binary, all.select(0, 0), all.select(0, 2))).sum();
        },
        run,
      );
    }));

  it('of sparse tensors', () =>
    at(0, () => {
      const sparse = sparseCooTensor(
        tensor([[0, 1]], { dtype: 'int64' }),
        tensor([
          [1, 2],
          [3, 4],
        ]),
        [3, 2],
      );
      sparse.requiresGrad = true;
      const dense = random(3, 2);
      return sameAsLocal([sparse, dense], async (r) => (await r(add, dense, sparse)).sum(), run);
    }));
});

describe('worked examples', () => {
  const threes = (value: number): number[][] => Array.from({ length: 3 }, () => [value, value, value]);

  it('of shards, one of them empty', () =>
    at(0, async () => {
      const [data, weight] = [rand([5, 3]), random(2, 3)];
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
      const none = random(4, 3);
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

  it('runs through a function of many operations, and through itself', () =>
    at(0, async () => {
      const [a, b] = [random(3), random(3)];
      await sameAsLocal(
        [a, b],
        async (r) =>
          (r === rpcRun ? rpcSync('w1', complicated, [a, b]) : Promise.resolve(complicated(a, b))).then((t) => t.sum()),
        rpcRun,
      );
      await sameAsLocal(
        [a, b],
        async (r) =>
          (r === rpcRun ? rpcSync('w0', complicated, [a, b]) : Promise.resolve(complicated(a, b))).then((t) => t.sum()),
        rpcRun,
      );
    }));

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

  it('sums sparse gradients of an embedding on its owner', () =>
    at(0, () =>
      context(async (id) => {
        manualSeed(1);
        const bag = remote('w1', nn.EmbeddingBag, [5, 2, { sparse: true }]);
        const ids = tensor([1, 2, 2, 4], { dtype: 'int64' });
        const offsets = tensor([0, 2], { dtype: 'int64' });
        const out = await bag.rpcSync().forward(ids, offsets);
        await backward(id, [out.sum()]);
        const grads = await rpcSync('w1', sparseGrads, [id]);
        expect(grads).toEqual([
          [0, 0],
          [0.5, 0.5],
          [1, 1],
          [0, 0],
          [0.5, 0.5],
        ]);
        bag.dispose();
      }),
    ));
});

describe('sparse gradients', () => {
  const makeSparse = (): Tensor => {
    const t = sparseCooTensor(
      tensor([[0, 2]], { dtype: 'int64' }),
      tensor([
        [1, 2],
        [3, 4],
      ]),
      [3, 2],
    );
    t.requiresGrad = true;
    return t;
  };

  it('sparse: through many round trips, nested calls and itself', () =>
    at(0, () =>
      context(async (id) => {
        const a = makeSparse();
        let t = filled([3, 2], 1);
        for (const to of ['w1', 'w2', 'w0', 'w1']) t = await rpcSync(to, add, [t, a]);
        t = await rpcSync('w1', addFarAway, ['w2', t, a]);
        const loss = t.sum();
        const row = (n: number): number[] => [n, n];
        for (let i = 1; i <= 50; i++) {
          await backward(id, [loss], { retainGraph: true });
          if (i % 10 === 0)
            expect(getGradients(id).get(a)?.toDense().toArray()).toEqual([row(5 * i), row(5 * i), row(5 * i)]);
        }
        expect(a.grad).toBeNull();
      }),
    ));

  it('sparse: a leaf held by an owner, for many drivers at once', () =>
    at(1, async () => {
      const held = createRRef(makeSparse());
      const seen = await Promise.all([0, 2, 3].map((rank) => rpcAsync(rank, driveSparse, [held])));
      expect(seen).toEqual(
        [1, 3, 4].map((n) => [
          [n, n],
          [n, n],
          [n, n],
        ]),
      );
    }));
});

const addFarAway = rpcFunction('numerics/addFarAway', async (to: string, t: Tensor, a: Tensor) =>
  rpcAsync(to, add, [t, a]),
);
const addHeld = rpcFunction('numerics/addHeld', async (held: RRef<Tensor>, x: Tensor) =>
  x.add(await held.localValue()),
);
const heldGradient = rpcFunction('numerics/heldGradient', async (held: RRef<Tensor>, id: bigint) =>
  getGradients(id)
    .get(await held.localValue())
    ?.toDense()
    .toArray(),
);
const driveSparse = rpcFunction('numerics/driveSparse', (held: RRef<Tensor>) =>
  context(async (id) => {
    const scale = getWorkerInfo().id + 1;
    const out = await rpcAsync('w1', addHeld, [held, filled([3, 2], 1)]);
    await backward(id, [out.sum().mul(scale)]);
    return rpcSync('w1', heldGradient, [held, id]);
  }),
);

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

const sparseGrads = rpcFunction(
  'numerics/sparseGrads',
  (id: bigint) => [...getGradients(id)].map(([, g]) => g.toDense().toArray())[0],
);
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
