/** @file Gradients that travel beside their messages, through a worker in the middle, step after step. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createAgent, rpcAsync, rpcFunction, type RpcAgent } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';
import { rand, type Tensor } from '@backwire/tensor';
import { backward, context, distAutograd, getGradients } from '../src/index.ts';

/** 100 KB and more: such storages are not part of the frame of their message. */
const ROWS = 32_000;

const square = rpcFunction('large-gradients/square', (x: Tensor) => x.mul(x));

let agents: RpcAgent[] = [];
beforeAll(async () => {
  const start = (rank: number): Promise<RpcAgent> =>
    createAgent({
      name: `worker${rank}`,
      rank,
      worldSize: 3,
      store: 'memory://large-gradients',
      transports: ['tcp'],
      extensions: [rrefs(), distAutograd()],
    });
  agents = await Promise.all([0, 1, 2].map(start));
});
afterAll(() => Promise.all(agents.map((agent) => agent.shutdown())));

it('do not keep the calls behind them waiting', async () => {
  await agents[0]?.run(async () => {
    for (let step = 0; step < 3; step++) {
      await context(async (id) => {
        const x = rand([ROWS]);
        x.requiresGrad = true;
        const y = await rpcAsync('worker1', square, [x], { timeoutMs: 10_000 });
        const z = await rpcAsync('worker2', square, [y], { timeoutMs: 10_000 });
        await backward(id, [z.mul(z).sum()], { timeoutMs: 10_000 });
        using gradients = getGradients(id);
        // z = x⁴, and the sum is of z².
        const expected = x.mul(x).mul(x).mul(x).mul(x).mul(x).mul(x).mul(8).detach();
        expect(gradients.get(x)?.allClose(expected, { rtol: 1e-4, atol: 1e-6 })).toBe(true);
      });
    }
  });
});
