/** @file Sparse gradients across workers: through calls, for many drivers, of an embedding. */
import { describe, expect, it } from 'vitest';
import { getWorkerInfo, rpcAsync, rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { add, manualSeed, nn, sparse, sparseCooTensor, tensor, type Tensor } from '@backwire/tensor';
import { filled, useAgents } from './agents.ts';
import { backward, context, getGradients } from '../src/index.ts';

const { at } = useAgents('sparse-gradients', 4);

const addFarAway = rpcFunction('sparse-gradients/addFarAway', async (to: string, t: Tensor, a: Tensor) =>
  rpcAsync(to, add, [t, a]),
);
const addHeld = rpcFunction('sparse-gradients/addHeld', async (held: RRef<Tensor>, x: Tensor) =>
  x.add(await held.localValue()),
);
const heldGradient = rpcFunction('sparse-gradients/heldGradient', async (held: RRef<Tensor>, id: bigint) =>
  getGradients(id)
    .get(await held.localValue())
    ?.toDense()
    .toArray(),
);
const driveSparse = rpcFunction('sparse-gradients/driveSparse', (held: RRef<Tensor>) =>
  context(async (id) => {
    const scale = getWorkerInfo().id + 1;
    const out = await rpcAsync('w1', addHeld, [held, filled([3, 2], 1)]);
    await backward(id, [out.sum().mul(scale)]);
    return rpcSync('w1', heldGradient, [held, id]);
  }),
);

const sparseGrads = rpcFunction(
  'sparse-gradients/sparseGrads',
  (id: bigint) => [...getGradients(id)].map(([, g]) => g.toDense().toArray())[0],
);

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

  it('are sparse where another worker takes the sum, too', () =>
    at(0, () =>
      context(async (id) => {
        const a = makeSparse();
        const sum = await rpcSync('w1', sparse.sum, [await rpcSync('w2', add, [a, a])]);
        expect([sum.shape, sum.item()]).toEqual([[], 20]);
        await backward(id, [sum]);
        const grad = getGradients(id).get(a);
        expect([grad?.layout, grad?.toDense().toArray()]).toEqual(['sparse_coo', [[2, 2], [0, 0], [2, 2]]]); // prettier-ignore
        const rows = await rpcSync('w1', sparse.sum, [a, 1]);
        expect([rows.layout, rows.toDense().toArray()]).toEqual(['sparse_coo', [3, 0, 7]]);
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
