import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAgent, rpcAsync, rpcFunction, type RpcAgent } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';
import { add, mul, ones, rand, tensor, type Tensor } from '@backwire/tensor';
import { backward, context, distAutograd, distAutogradDebugInfo, getGradients } from './index.ts';

let agents: RpcAgent[];
const w0 = <T>(fn: () => T): T => agents[0]!.run(fn);

const nested = rpcFunction('test/nested', async (a: Tensor, b: Tensor) => (await rpcAsync('w2', add, [a, b])).mul(2));

beforeAll(async () => {
  agents = await Promise.all(
    [0, 1, 2].map((rank) =>
      createAgent({
        name: `w${rank}`,
        rank,
        worldSize: 3,
        store: 'memory://backward',
        extensions: [rrefs(), distAutograd()],
      }),
    ),
  );
});
afterAll(async () => {
  await Promise.all((agents ?? []).map((agent) => agent.shutdown({ timeoutMs: 10_000 })));
});

describe('backward', () => {
  it('gives 4 and 1 for sum(mul(a, b) * a)', async () => {
    await w0(async () => {
      const a = ones([3, 3], { requiresGrad: true });
      const b = tensor(
        [
          [2, 2, 2],
          [2, 2, 2],
          [2, 2, 2],
        ],
        { requiresGrad: true },
      );
      await context(async (id) => {
        const c = await rpcAsync('w1', mul, [a, b]);
        await backward(id, [c.mul(a).sum()]);
        const grads = getGradients(id);
        expect(grads.size).toBe(2);
        expect(grads.get(a)!.toArray()).toEqual([
          [4, 4, 4],
          [4, 4, 4],
          [4, 4, 4],
        ]);
        expect(grads.get(b)!.toArray()).toEqual([
          [1, 1, 1],
          [1, 1, 1],
          [1, 1, 1],
        ]);
        expect(a.grad).toBeNull();
      });
    });
  });

  it('follows nested calls', async () => {
    await w0(async () => {
      const a = rand([3, 3]);
      a.requiresGrad = true;
      const b = rand([3, 3]);
      b.requiresGrad = true;
      await context(async (id) => {
        await backward(id, [(await rpcAsync('w1', nested, [a, b])).sum()]);
        expect(getGradients(id).get(a)!.toArray()).toEqual([
          [2, 2, 2],
          [2, 2, 2],
          [2, 2, 2],
        ]);
      });
      expect(distAutogradDebugInfo()).toEqual({ num_current_backward_passes: 0, num_autograd_contexts: 0 });
    });
  });
});
