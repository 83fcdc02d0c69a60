/** @file The umbrella installs all three extensions, and re-exports every package. */
import { afterEach, expect, test } from 'vitest';
import * as backwire from './index.ts';

const { add, createAgent, createRRef, distAutograd, profiler, remote, rpcAsync, tensor } = backwire;
const agents: backwire.RpcAgent[] = [];
afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});

async function pair(store: string): Promise<readonly [backwire.RpcAgent, backwire.RpcAgent]> {
  const start = (rank: number): Promise<backwire.RpcAgent> =>
    createAgent({ name: `w${rank}`, rank, worldSize: 2, store: `memory://${store}` });
  const [first, second] = await Promise.all([start(0), start(1)]);
  agents.push(first, second);
  return [first, second];
}

test('one import calls, refers, differentiates and profiles', async () => {
  const [first] = await pair('umbrella');
  await first.run(async () => {
    const a = tensor([1, 2], { requiresGrad: true });
    const { profile } = await profiler.profile(async () => {
      await distAutograd.context(async (id) => {
        const sum = (await rpcAsync('w1', add, [a, a])).sum();
        await distAutograd.backward(id, [sum]);
        expect(distAutograd.getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
      });
      using held = remote('w1', add, [a.detach(), 1]);
      expect((await held.toHere()).toArray()).toEqual([2, 3]);
    });
    expect(profile.events().some((event) => event.name.startsWith('rpc_async#aten::add(w0 -> w1)'))).toBe(true);
    expect(createRRef(a).isOwner()).toBe(true);
  });
});

test('an own extension is installed beside the standard ones', async () => {
  let attached = 0;
  const mine: backwire.Extension = {
    name: 'counting',
    attach: () => {
      attached += 1;
      return {};
    },
  };
  agents.push(await createAgent({ name: 'w0', rank: 0, worldSize: 1, store: 'memory://one', extensions: [mine] }));
  expect(attached).toBe(1);
});
