/** What a context does not differentiate says so, and hooks run under the worker they run on. */
import { currentAgent, processGroup, rpcClass, rpcFunction, rpcInfo, rpcStream, rpcSync } from '@backwire/rpc';
import { remote } from '@backwire/rref';
import { manualSeed, nn, ones, rpcName, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { expectClean, leaf, useAgents, waiting } from './agents.ts';
import { backward, context, getGradients } from '../src/index.ts';

const { at, agents } = useAgents('streams-hooks', 2);

async function* doubled(x: Tensor) {
  yield x.mul(2);
}
async function* fresh() {
  yield leaf([1], 3);
}
const doubledFn = rpcFunction('streams/doubled', doubled);
const freshFn = rpcFunction('streams/fresh', fresh);
class Source {
  static readonly [rpcName] = 'streams/Source';
  doubled(x: Tensor) {
    return doubled(x);
  }
  fresh() {
    return fresh();
  }
  first({ list }: { list: Tensor[] }) {
    return doubled(list[0] as Tensor);
  }
}
rpcClass(Source, { methods: ['doubled', 'fresh', 'first'] });

async function all(stream: AsyncIterable<Tensor>): Promise<Tensor[]> {
  const items: Tensor[] = [];
  for await (const item of stream) items.push(item);
  return items;
}
const codeOf = (error: unknown): string => `${rpcInfo(error)?.code}: ${(error as Error).message}`;

describe('streams in a context', () => {
  it('refuse arguments that need gradients', async () => {
    await at(0, () =>
      context(async () => {
        const x = leaf([1], 1);
        using source = remote('w1', Source);
        const refused = /^failed-precondition: .*streams carry no gradients/;
        expect(await all(rpcStream('w1', doubledFn, [x])).catch(codeOf)).toMatch(refused);
        expect(await all(source.rpcSync().doubled(x)).catch(codeOf)).toMatch(refused);
        expect(await all(source.rpcSync().first({ list: [x] })).catch(codeOf)).toMatch(refused);
        expect((await all(source.rpcSync().first({ list: [x.detach()] })))[0]?.toArray()).toEqual([2]);
        expect((await all(rpcStream('w1', doubledFn, [x.detach()])))[0]?.toArray()).toEqual([2]);
      }),
    );
    await expectClean(agents);
  });

  it('give items that claim no gradients', async () => {
    await at(0, async () => {
      await context(async () => {
        using source = remote('w1', Source);
        const items = [...(await all(rpcStream('w1', freshFn, []))), ...(await all(source.rpcSync().fresh()))];
        expect(items.map(({ requiresGrad }) => requiresGrad)).toEqual([false, false]);
      });
      expect((await all(rpcStream('w1', freshFn, []))).map((item) => item.requiresGrad)).toEqual([true]);
    });
    await expectClean(agents);
  });
});

const hookedNames: string[] = [];
const hooked = rpcFunction('streams/hooked', (x: Tensor) => {
  const y = x.mul(2);
  y.registerHook((grad) => {
    hookedNames.push(currentAgent().name);
    return grad;
  });
  return y.mul(1);
});

describe('a tensor hook', () => {
  it('runs under the agent of its worker, in local graphs too', async () => {
    hookedNames.length = 0;
    await at(0, () =>
      context(async (id) => {
        const x = leaf([1], 1);
        x.registerHook((grad) => {
          hookedNames.push(currentAgent().name);
          return grad;
        });
        await backward(id, [(await rpcSync('w1', hooked, [x])).sum()]);
        await backward(id, [x.mul(3).sum()]);
      }),
    );
    expect(hookedNames).toEqual(['w1', 'w0', 'w0']);
  });
});

describe('replicas after a failed pass', () => {
  const replica = (rank: number) =>
    at(rank, () => {
      manualSeed(1);
      return new nn.DistributedDataParallel(new nn.Linear(1, 1, { bias: false }), { group: processGroup() });
    });
  const step = (rank: number, ddp: ReturnType<typeof replica>, scale: number, timeoutMs: number, fails = false) =>
    at(rank, () =>
      context(async (id) => {
        const x = leaf([1, 1], scale);
        if (fails)
          x.registerHook(() => {
            throw new Error('a hook that fails');
          });
        await backward(id, [ddp.forward(x.mul(ones([1, 1]))).sum()], { timeoutMs });
        return getGradients(id).get(ddp.module.weight)?.item();
      }),
    ).catch((error: unknown) => (error as Error).message);

  it.each([false, true])('never compute with values of it (a hook failed: %s)', async (fails) => {
    const ddp = [replica(0), replica(1)] as const;
    expect(await Promise.all([step(0, ddp[0], 1, 9_000), step(1, ddp[1], 1, 9_000)])).toEqual([1, 1]);
    const cause = fails ? 'a hook that fails' : 'RPC ran for more than';
    expect(await step(1, ddp[1], 1000, fails ? 9_000 : 200, fails)).toMatch(cause);
    // What it has brought is on its way back: who comes before that has met it in time.
    await expect.poll(() => waiting(agents)).toBe(0);
    const [other, broken] = await Promise.all([step(0, ddp[0], 1, 9_000), step(1, ddp[1], 1, 9_000)]);
    expect(broken).toMatch(/out of step with its group since a pass failed/);
    expect(broken).toMatch(cause);
    // Who comes to it later does not wait until its own time is up.
    expect(other).toMatch(/worker 'w1' makes no further pass with replica \d of its group: /);
    expect(other).toMatch(cause);
    const anew = [replica(0), replica(1)] as const;
    expect(await Promise.all([step(0, anew[0], 1, 9_000), step(1, anew[1], 1, 9_000)])).toEqual([1, 1]);
    await expectClean(agents);
  });
});
