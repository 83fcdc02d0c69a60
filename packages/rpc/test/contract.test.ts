/** @file The programs of the public contract that need calls alone. */
import { afterEach, describe, expect, it } from 'vitest';
import { add, concat, randn, tensor, zeros, type nn, type Tensor } from '@backwire/tensor';
import {
  barrier,
  callContext,
  createAgent,
  getWorkerInfo,
  initRpc,
  processGroup,
  remoteFunction,
  rpcAsync,
  RpcError,
  rpcFunction,
  rpcInfo,
  rpcOneway,
  rpcStream,
  rpcSync,
  shutdown,
  waitAll,
  type RpcAgent,
} from '../src/index.ts';

export const scale = rpcFunction('hello/scale', (x: Tensor, by: number) => x.mul(by));
export const noArgs = rpcFunction('hello/now', () => Date.now());
export const count = rpcFunction('hello/count', async function* (to: number) {
  for (let i = 0; i < to; i++) yield i;
});
const scaleStub = remoteFunction<typeof scale>('hello/scale');
export const viaStub = (): Promise<Tensor> => rpcAsync('worker1', scaleStub, [zeros([2]), 2]);
export const slow = rpcFunction('slow', async () => {
  callContext().signal.throwIfAborted();
  await new Promise((resolve) => setTimeout(resolve, 200));
  return callContext().remainingMs();
});

async function hello(): Promise<void> {
  await initRpc({ name: 'worker0', rank: 0, worldSize: 2, store: 'memory://hello' });
  const y: Tensor = await rpcSync('worker1', scale, [tensor([1, 2, 3]), 2]);
  const z: Tensor = await rpcAsync(1, add, [y, 1], { timeoutMs: 5_000, signal: AbortSignal.timeout(9_000) });
  expect(z.toArray()).toEqual([3, 5, 7]);
  const when: number = await rpcAsync(getWorkerInfo('worker1'), noArgs);
  const pair = [z, 3] as const;
  await rpcAsync('worker1', scale, pair);
  const maybe = when > 0 ? 10_000 : undefined;
  await rpcAsync('worker1', scale, [z, 2], { timeoutMs: maybe });
  rpcOneway('worker1', noArgs);
  const seen: number[] = [];
  for await (const i of rpcStream('worker1', count, [10])) {
    seen.push(i);
    if (i > 3) break;
  }
  expect(seen).toEqual([0, 1, 2, 3, 4]);
  await waitAll(() => {
    for (let i = 0; i < 8; i++) void rpcAsync('worker1', noArgs);
  });
  // @ts-expect-error arguments are required
  await expect(rpcAsync('worker1', scale)).rejects.toThrow();
  // @ts-expect-error wrong type
  await expect(rpcAsync('worker1', scale, ['x', 2])).rejects.toThrow(TypeError);
  // @ts-expect-error a plain function is not callable remotely
  await expect(rpcAsync('worker1', (a: number) => a, [1])).rejects.toThrow('no name');
  // @ts-expect-error generators stream
  await expect(rpcAsync('worker1', count, [3])).rejects.toThrow('a generator is called with rpcStream()');
  expect((await viaStub()).toArray()).toEqual([0, 0]);
  await expect(initRpc({ name: 'again', store: 'memory://hello' })).rejects.toThrow('RPC is already initialized');
  await shutdown({ timeoutMs: 10_000, onLeak: 'throw' });
}

async function three(): Promise<number> {
  const agents = await Promise.all(
    [0, 1, 2].map((rank) => createAgent({ name: `w${rank}`, rank, worldSize: 3, store: 'memory://three' })),
  );
  const sum = await agents[0]!.run(async () =>
    (await rpcAsync('w2', scale, [concat([randn([2]), zeros([2])]), 3])).sum().item(),
  );
  await Promise.all(agents.map((agent) => agent.run(() => barrier({ timeoutMs: 5_000 }))));
  await Promise.all(agents.map((agent) => agent.shutdown()));
  return sum;
}

async function failures(): Promise<string> {
  try {
    await rpcSync('w1', slow, [], { timeoutMs: 50 });
    return 'ok';
  } catch (error) {
    return error instanceof RpcError && error.code === 'deadline-exceeded'
      ? error.executed
      : (rpcInfo(error)?.peer?.name ?? 'local');
  }
}

describe('the contract', () => {
  const others: RpcAgent[] = [];
  afterEach(async () => {
    await Promise.all(others.splice(0).map((agent) => agent.shutdown({ graceful: false })));
  });

  it('says hello', async () => {
    const server = createAgent({ name: 'worker1', rank: 1, worldSize: 2, store: 'memory://hello' }).then((agent) =>
      agent.shutdown({ timeoutMs: 30_000 }),
    );
    await hello();
    await server;
  });

  it('runs three agents, twice in the same store', async () => {
    expect(Number.isFinite(await three())).toBe(true);
    expect(Number.isFinite(await three())).toBe(true);
  });

  it('tells failures apart', async () => {
    others.push(
      ...(await Promise.all(
        [0, 1].map((rank) => createAgent({ name: `w${rank}`, rank, worldSize: 2, store: 'memory://failures' })),
      )),
    );
    // A first call makes the connection: a deadline that ends before there is one is certainly not 'maybe'.
    await others[0]!.run(() => rpcSync('w1', add, [tensor([1]), 1]));
    expect(await others[0]!.run(failures)).toBe('maybe');
  });

  it('groups workers that reduce', async () => {
    others.push(
      ...(await Promise.all(
        [0, 1, 2].map((rank) => createAgent({ name: `w${rank}`, rank, worldSize: 3, store: 'memory://group' })),
      )),
    );
    const results = await Promise.all(
      others.map((agent, i) =>
        agent.run(async () => {
          const group: nn.ProcessGroup = processGroup();
          const sum = await group.allReduce(tensor([i + 1, 10]));
          const mean = await group.allReduce(tensor([i * 3]), 'mean', { timeoutMs: 5_000 });
          const first = await group.broadcast(tensor([i, i]), 1);
          return [group.rank, group.size, sum.toArray(), mean.toArray(), first.toArray()];
        }),
      ),
    );
    expect(results).toEqual([0, 1, 2].map((rank) => [rank, 3, [6, 30], [3], [1, 1]]));
  });
});
