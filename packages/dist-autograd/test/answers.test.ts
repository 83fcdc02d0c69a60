import { afterEach, describe, expect, it } from 'vitest';
import { createAgent, rpcFunction, rpcSync, type RpcAgent } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';
import { add, type Tensor } from '@backwire/tensor';
import { leaf } from './agents.ts';
import { backward, context, distAutograd, getGradients } from '../src/index.ts';

let agents: RpcAgent[] = [];
let groups = 0;

afterEach(async () => {
  await Promise.all(agents.map((agent) => agent.shutdown()));
  agents = [];
});

/** Two workers; none of the gradients that worker 1 sends in messages of their own gets through. */
async function pair(): Promise<void> {
  const store = `memory://answers-${++groups}`;
  agents = await Promise.all(
    [0, 1].map((rank) =>
      createAgent({
        name: `w${rank}`,
        rank,
        worldSize: 2,
        store,
        extensions: [rrefs(), distAutograd()],
        ...(rank === 1 ? { faults: { failFirst: { BACKWARD_AUTOGRAD_REQ: 1_000 } } } : {}),
      }),
    ),
  );
}

const both = rpcFunction('answers/both', (a: Tensor, b: Tensor) => [a.mul(2), b.mul(3)]);
const backAndForth = rpcFunction('answers/backAndForth', async (a: Tensor) =>
  (await rpcSync('w0', add, [a.mul(2), a])).mul(5),
);

describe('gradients for whoever is answered', () => {
  it('come with the answer', async () => {
    await pair();
    await agents[0]!.run(() =>
      context(async (id) => {
        const a = leaf([2], 1);
        await backward(id, [(await rpcSync('w1', add, [a, a])).sum()]);
        expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
      }),
    );
  });

  it('come with it when there are several calls, each with several results', async () => {
    await pair();
    await agents[0]!.run(() =>
      context(async (id) => {
        const a = leaf([2], 1);
        const b = leaf([2], 1);
        const results = await Promise.all([0, 1, 2].map(() => rpcSync('w1', both, [a, b])));
        const loss = results.flat().reduce((sum, one) => sum.add(one));
        for (let pass = 0; pass < 3; pass++) await backward(id, [loss.sum()], { retainGraph: true });
        expect(getGradients(id).get(a)?.toArray()).toEqual([18, 18]);
        expect(getGradients(id).get(b)?.toArray()).toEqual([27, 27]);
      }),
    );
  });

  it('come with it in discovery and fast mode too', async () => {
    await pair();
    for (const mode of ['smart', 'fast'] as const) {
      await agents[0]!.run(() =>
        context(async (id) => {
          const a = leaf([2], 1);
          let x: Tensor = a;
          for (let i = 0; i < 100; i++) x = x.mul(1);
          await backward(id, [(await rpcSync('w1', add, [x, x])).sum()], { mode, timeoutMs: 20_000 });
          expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
        }),
      );
    }
  });

  it('come with it over calls back and forth, where each worker waits for the other', async () => {
    await pair();
    await agents[0]!.run(() =>
      context(async (id) => {
        const a = leaf([2], 1);
        await backward(id, [(await rpcSync('w1', backAndForth, [a])).sum()]);
        expect(getGradients(id).get(a)?.toArray()).toEqual([15, 15]);
      }),
    );
  });
});
