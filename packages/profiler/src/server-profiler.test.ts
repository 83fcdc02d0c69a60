/** @file A server profiler: what it sees of the calls a worker handles, and when it goes off by itself. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ones, type Tensor } from '@backwire/tensor';
import { createAgent, RpcError, rpcFunction, rpcSync, type RpcAgent } from '@backwire/rpc';
import { profile, profiling, ServerProfiler } from './index.ts';

const double = rpcFunction('server-profiler.test/double', (x: Tensor) => x.add(x));
const plain = rpcFunction('server-profiler.test/plain', async (ms: number) => {
  await new Promise((done) => setTimeout(done, ms));
  return ms;
});
const broken = rpcFunction('server-profiler.test/broken', (x: Tensor): number => {
  x.add(x);
  throw new RangeError('on purpose');
});
const switched: ServerProfiler[] = [];
const switchOn = rpcFunction('server-profiler.test/switchOn', (at: number) => switched[at]?.enter());
setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

let agents: RpcAgent[] = [];
let counter = 0;
async function group(worldSize: number): Promise<RpcAgent[]> {
  const store = `memory://server-profiler-${++counter}`;
  const start = (rank: number): Promise<RpcAgent> =>
    createAgent({ name: `w${rank}`, rank, worldSize, store, extensions: [profiling()] });
  return Promise.all(Array.from({ length: worldSize }, (_, rank) => start(rank)));
}
afterEach(async () => {
  await Promise.all(agents.map((agent) => agent.shutdown()));
});
const on = <T>(rank: number, fn: () => T): T => {
  const agent = agents[rank];
  if (agent === undefined) throw new Error(`no agent ${rank}`);
  return agent.run(fn);
};

describe('a server profiler', () => {
  it('sees every call that is handled while it is on, whoever makes it', async () => {
    agents = await group(2);
    const server = new ServerProfiler({ recordShapes: true });
    await on(0, () => rpcSync('w1', double, [ones([2])]));
    on(1, () => server.enter());
    await on(0, () => rpcSync('w1', double, [ones([3])]));
    const { profile: p } = await on(0, () => profile(() => rpcSync('w1', double, [ones([4])])));
    on(1, () => server.exit());
    await on(0, () => rpcSync('w1', double, [ones([5])]));
    expect(server.events().map((call) => call.find(({ name }) => name === 'aten::add')?.shapes?.[0])).toEqual([
      [3],
      [4],
    ]);
    expect(server.table({ sortBy: 'calls' })).toMatch(/^aten::add .* 2$/m);
    // A profile of the caller gets its events all the same.
    expect(p.events().some(({ isRemote, name }) => isRemote && name.endsWith('aten::add'))).toBe(true);
    expect(server.dropped()).toBe(0);
  });

  it('nests: each sees what happens while it is on', async () => {
    agents = await group(2);
    const [outer, inner] = [new ServerProfiler(), new ServerProfiler()];
    const call = (): Promise<Tensor> => on(0, () => rpcSync('w1', double, [ones([2])]));
    on(1, () => outer.enter());
    await call();
    on(1, () => inner.enter());
    await call();
    on(1, () => inner.exit());
    await call();
    on(1, () => outer.exit());
    expect([outer.events().length, inner.events().length]).toEqual([3, 1]);
  });

  it('names every call, also one without tensors and one that fails, and counts calls against its bound', async () => {
    agents = await group(2);
    const server = new ServerProfiler();
    on(1, () => server.enter());
    for (let i = 0; i < 3; i++) await on(0, () => rpcSync('w1', plain, [10]));
    await on(0, () => rpcSync('w1', broken, [ones([1])]).catch(() => undefined));
    on(1, () => server.exit());
    expect(server.events().map(([whole]) => whole?.name)).toEqual([
      ...Array.from({ length: 3 }, () => 'server-profiler.test/plain'),
      'server-profiler.test/broken',
    ]);
    expect(server.events()[0]?.[0]?.durationUs).toBeGreaterThan(8_000);
    expect(server.table()).toMatch(/^server-profiler\.test\/plain .* 3$/m);
  });

  it('goes off when the worker that switched it on is gone', async () => {
    agents = await group(3);
    const servers = [new ServerProfiler(), new ServerProfiler()];
    switched.push(...servers);
    await on(2, () => rpcSync('w1', switchOn, [0]));
    await on(0, () => rpcSync('w1', switchOn, [1]));
    const gone = agents.pop();
    await gone?.shutdown({ graceful: false });
    const seen = (): number => servers[0]?.events().length ?? 0;
    await vi.waitFor(
      async () => {
        const before = seen();
        await on(0, () => rpcSync('w1', double, [ones([2])]));
        expect(seen()).toBe(before);
      },
      { timeout: 20_000, interval: 50 },
    );
    expect(servers[1]?.events().length).toBeGreaterThan(0);
    expect(() => on(1, () => servers[0]?.exit())).toThrow(
      new RpcError('failed-precondition', 'this server profiler is not on'),
    );
    on(1, () => servers[1]?.exit());
    switched.length = 0;
  });

  it('goes off when nobody refers to it any more', async () => {
    agents = await group(2);
    on(1, () => new ServerProfiler().enter());
    const hooks = async (): Promise<number> => {
      const before = Number(agents[1]?.debugInfo()['num_profiler_hooks']);
      await on(0, () => rpcSync('w1', double, [ones([2])]));
      return Number(agents[1]?.debugInfo()['num_profiler_hooks']) - before;
    };
    expect(await hooks()).toBeGreaterThan(0);
    await vi.waitFor(
      async () => {
        gc();
        expect(await hooks()).toBe(0);
      },
      { timeout: 20_000, interval: 20 },
    );
  });

  it('cannot be on twice, nor off before it is on', async () => {
    agents = await group(1);
    const server = new ServerProfiler();
    on(0, () => {
      expect(() => server.exit()).toThrow(new RpcError('failed-precondition', 'this server profiler is not on'));
      server.enter();
      expect(() => server.enter()).toThrow(new RpcError('failed-precondition', 'this server profiler is on already'));
      server.exit();
    });
  });
});
