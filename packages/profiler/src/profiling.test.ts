/** @file Profiles of calls between agents: keys, remote events, hops, parallel calls, streams, failures. */
import { describe, expect, it } from 'vitest';
import { add, mul, ones, type Tensor } from '@backwire/tensor';
import { rpcAsync, rpcFunction, rpcOneway, rpcStream, rpcSync, type Extension } from '@backwire/rpc';
import { double, names, slow, useGroups } from '../test/group.ts';
import { profile, recordFunction, ServerProfiler } from './index.ts';
import { profilingKey } from './profiling.ts';

const { group, on } = useGroups('profiling');

const labelled = rpcFunction('profiling.test/labelled', (x: Tensor) =>
  recordFunction('my label', () => x.mul(x).add(1)),
);
const hop = rpcFunction('profiling.test/hop', (to: string, x: Tensor) => rpcSync(to, mul, [x, x]));
const broken = rpcFunction('profiling.test/broken', (x: Tensor): number => {
  x.add(x);
  throw new RangeError('on purpose');
});

const countTo = rpcFunction('profiling.test/countTo', async function* (n: number) {
  for (let i = 1; i <= n; i++) {
    await new Promise((done) => setTimeout(done, 10));
    yield i;
  }
});

describe('the key of a call', () => {
  it('has mode, function, caller and callee, in each of the three modes', () => {
    for (const mode of ['sync', 'async', 'remote'])
      expect(profilingKey(mode, 'aten::add', 'w0', 'w1')).toBe(`rpc_${mode}#aten::add(w0 -> w1)`);
  });
});

describe('a profiled call', () => {
  it('of a built-in operation has one event here and its operations there', async () => {
    await group(2);
    const { value, profile: p } = await on(0, () => profile(() => rpcAsync('w1', add, [ones([2, 2]), 1])));
    expect(value.toArray()).toEqual([
      [2, 2],
      [2, 2],
    ]);
    const key = 'rpc_async#aten::add(w0 -> w1)';
    const [call] = p.events().filter(({ name }) => name === key);
    expect(call).toMatchObject({ node: 0, isRemote: false });
    const remote = p.events().filter(({ isRemote }) => isRemote);
    expect(names(remote)).toContain(`${key}#remote_op: aten::add`);
    for (const event of remote) {
      expect(event.node).toBe(1);
      expect(event.name.startsWith(`${key}#remote_op: `)).toBe(true);
      expect(event.startUs).toBeGreaterThanOrEqual(call?.startUs ?? Infinity);
      expect(event.startUs + event.durationUs).toBeLessThanOrEqual((call?.startUs ?? 0) + (call?.durationUs ?? 0) + 1);
    }
  });

  it('of a built-in operation that is waited for has its own mode in the key', async () => {
    await group(2);
    const { profile: p } = await on(0, () => profile(() => rpcSync('w1', mul, [ones([2, 2]), 3])));
    const key = 'rpc_sync#aten::mul(w0 -> w1)';
    expect(names(p.events())).toEqual(expect.arrayContaining([key, `${key}#remote_op: aten::mul`]));
  });

  it('of a user function records the same operations as running it here', async () => {
    await group(2);
    const x = ones([3]);
    const local = await on(0, () => profile(() => double(x)));
    const { profile: p } = await on(0, () => profile(() => rpcSync('w1', double, [x])));
    const key = 'rpc_sync#profiling.test/double(w0 -> w1)';
    const remote = p.events().filter(({ isRemote }) => isRemote);
    expect(names(remote).map((name) => name.replace(`${key}#remote_op: `, ''))).toEqual(names(local.profile.events()));
  });

  it('lies inside the label around it', async () => {
    await group(2);
    const { profile: p } = await on(0, () =>
      profile(() => recordFunction('step', () => rpcSync('w1', double, [ones([2])]))),
    );
    const [step] = p.events().filter(({ name }) => name === 'step');
    const [call] = p.events().filter(({ name }) => name.startsWith('rpc_sync#') && !name.includes('#remote_op'));
    expect(call?.startUs).toBeGreaterThanOrEqual(step?.startUs ?? Infinity);
    expect((call?.startUs ?? 0) + (call?.durationUs ?? 0)).toBeLessThanOrEqual(
      (step?.startUs ?? 0) + (step?.durationUs ?? 0),
    );
  });

  it('brings labels of the callee back, with what is inside them', async () => {
    await group(2);
    const { profile: p } = await on(0, () => profile(() => rpcSync('w1', labelled, [ones([2])])));
    const key = 'rpc_sync#profiling.test/labelled(w0 -> w1)#remote_op: ';
    expect(names(p.events())).toEqual(expect.arrayContaining([`${key}my label`, `${key}aten::mul`, `${key}aten::add`]));
  });

  it('follows a handler over its awaits', async () => {
    await group(2);
    const { profile: p } = await on(0, () => profile(() => rpcAsync('w1', slow, [ones([2]), 20])));
    const remote = p.events().filter(({ isRemote }) => isRemote);
    const start = (op: string): number => remote.find(({ name }) => name.endsWith(op))?.startUs ?? Number.NaN;
    expect(start('aten::mul') - start('aten::add')).toBeGreaterThan(15_000);
  });

  it('nests keys over hops', async () => {
    await group(3);
    const { profile: p } = await on(0, () => profile(() => rpcSync('w1', hop, ['w2', ones([2, 2])])));
    const first = 'rpc_sync#profiling.test/hop(w0 -> w1)';
    const second = `${first}#remote_op: rpc_sync#aten::mul(w1 -> w2)`;
    const byName = new Map(p.events().map((event) => [event.name, event]));
    expect(byName.get(first)).toMatchObject({ node: 0, isRemote: false });
    expect(byName.get(second)).toMatchObject({ node: 1, isRemote: true });
    expect(byName.get(`${second}#remote_op: aten::mul`)).toMatchObject({ node: 2, isRemote: true });
  });

  it('keeps many calls in flight apart', async () => {
    await group(3);
    const { profile: p } = await on(0, () =>
      profile(() =>
        Promise.all(
          Array.from({ length: 40 }, (_, i) => rpcAsync(i % 2 === 0 ? 'w1' : 'w2', slow, [ones([1]), (i * 7) % 13])),
        ),
      ),
    );
    for (const to of ['w1', 'w2']) {
      const key = `rpc_async#profiling.test/slow(w0 -> ${to})`;
      const count = (name: string): number => names(p.events()).filter((each) => each === name).length;
      expect(count(key)).toBe(20);
      expect(count(`${key}#remote_op: aten::mul`)).toBe(20);
    }
    for (const event of p.events()) if (event.isRemote) expect(event.node).toBe(event.name.includes('-> w1') ? 1 : 2);
  });

  it('carries shapes and memory only when asked', async () => {
    await group(2);
    const run = (options: object) => on(0, () => profile(() => rpcSync('w1', double, [ones([64, 4])]), options));
    const plain = (await run({})).profile.events();
    for (const event of plain) {
      expect(event).not.toHaveProperty('shapes');
      expect(event).not.toHaveProperty('bytes');
    }
    const full = (await run({ recordShapes: true, profileMemory: true })).profile.events();
    const remoteAdd = full.find(({ name }) => name.endsWith('#remote_op: aten::add'));
    expect(remoteAdd?.shapes).toEqual([
      [64, 4],
      [64, 4],
    ]);
    expect(remoteAdd?.bytes).toBe(64 * 4 * 4);
    expect(full.find(({ name }) => name === 'rpc_sync#profiling.test/double(w0 -> w1)')?.bytes).toBe(64 * 4 * 4);
  });

  it('has the bytes of tensors that its message carries: of a table those of the one row that is sent', async () => {
    await group(2);
    const table = ones([1_000, 100]);
    const bytes = async (fn: () => Promise<unknown>): Promise<number | undefined> => {
      const { profile: p } = await on(0, () => profile(fn, { profileMemory: true }));
      return p.events().find(({ name }) => name.startsWith('rpc_sync#') && !name.includes('#remote_op'))?.bytes;
    };
    expect(await bytes(() => rpcSync('w1', double, [table.select(0, 3)]))).toBe(100 * 4);
    expect(await bytes(() => rpcSync('w1', mul, [table, table]))).toBe(1_000 * 100 * 4);
  });

  it('to oneself is profiled too', async () => {
    await group(1);
    const { profile: p } = await on(0, () => profile(() => rpcSync('w0', double, [ones([2])])));
    expect(names(p.events())).toContain('rpc_sync#profiling.test/double(w0 -> w0)');
  });

  it('that fails ends its event, brings no remote ones, and leaves nothing waiting', async () => {
    const agents = await group(2);
    let failure: unknown;
    const { profile: p } = await on(0, () =>
      profile(async () => {
        failure = await rpcSync('w1', broken, [ones([2])]).catch((error: unknown) => error);
      }),
    );
    expect(failure).toBeInstanceOf(RangeError);
    expect(names(p.events()).filter((name) => name.startsWith('rpc_'))).toEqual([
      'rpc_sync#profiling.test/broken(w0 -> w1)',
    ]);
    expect(agents[0]?.debugInfo()['num_profiled_calls']).toBe(0);
  });

  it('that times out ends its event', async () => {
    const agents = await group(2);
    const { profile: p } = await on(0, () =>
      profile(() => rpcSync('w1', slow, [ones([1]), 500], { timeoutMs: 30 }).catch(() => undefined)),
    );
    const [call] = p.events().filter(({ name }) => name.startsWith('rpc_sync#profiling.test/slow'));
    expect(call?.durationUs).toBeLessThan(400_000);
    expect(agents[0]?.debugInfo()['num_profiled_calls']).toBe(0);
  });

  it('of a worker without the extension is recorded on this side', async () => {
    await group(2, [1]);
    const { value, profile: p } = await on(0, () => profile(() => rpcSync('w1', double, [ones([2])])));
    expect(value.toArray()).toEqual([2, 2]);
    expect(names(p.events())).toEqual(expect.arrayContaining(['rpc_sync#profiling.test/double(w0 -> w1)']));
    expect(p.events().some(({ isRemote }) => isRemote)).toBe(false);
  });

  it('outside of a profile is not wrapped', async () => {
    await group(2);
    await on(0, () => rpcSync('w1', double, [ones([2])]));
    const { profile: p } = await on(0, () => profile(() => 1));
    expect(p.events()).toEqual([]);
  });
});

describe('a stream', () => {
  it('is recorded on this side, from its first item to its last', async () => {
    const agents = await group(2);
    const items: number[] = [];
    const { profile: p } = await on(0, () =>
      profile(async () => {
        for await (const item of rpcStream('w1', countTo, [3])) items.push(item);
      }),
    );
    expect(items).toEqual([1, 2, 3]);
    const [call] = p.events();
    expect(call).toMatchObject({ name: 'rpc_stream#profiling.test/countTo(w0 -> w1)', isRemote: false });
    expect(call?.durationUs).toBeGreaterThan(20_000);
    expect(agents[0]?.debugInfo()['num_profiled_calls']).toBe(0);
  });

  it('is seen by a server profiler', async () => {
    await group(2);
    const server = new ServerProfiler();
    on(1, () => server.enter());
    const items: number[] = [];
    await on(0, async () => {
      for await (const item of rpcStream('w1', countTo, [2])) items.push(item);
    });
    on(1, () => server.exit());
    expect(items).toEqual([1, 2]);
    expect(server.events()).toHaveLength(1);
  });
});

describe('a call outside of a profile', () => {
  it('calls no hook of the profiler and makes no message for it', async () => {
    // A message is made for hooks alone: this one counts how often that happens.
    let messages = 0;
    const spy: Extension = {
      name: 'spy',
      attach: () => ({ requestsWhile: 'profile', request: (call) => (messages++, call) }),
    };
    const agents = await group(2, [], [spy]);
    const hooks = (): unknown[] => agents.map((agent) => agent.debugInfo()['num_profiler_hooks']);
    const before = hooks();
    await on(0, () => Promise.all(Array.from({ length: 50 }, () => rpcAsync('w1', double, [ones([2])]))));
    expect(hooks()).toEqual(before);
    expect(messages).toBe(0);
    await on(0, () => profile(() => rpcAsync('w1', double, [ones([2])])));
    expect(hooks()).not.toEqual(before);
    expect(messages).toBe(1);
  });
});

describe('a one-way call', () => {
  it('takes as long as its sending', async () => {
    const agents = await group(2);
    const { profile: p } = await on(0, () =>
      profile(async () => {
        rpcOneway('w1', slow, [ones([1]), 300]);
        await new Promise((done) => setTimeout(done, 150));
      }),
    );
    const [call] = p.events().filter(({ name }) => name === 'rpc_oneway#profiling.test/slow(w0 -> w1)');
    expect(call?.durationUs).toBeLessThan(100_000);
    expect(agents[0]?.debugInfo()['num_profiled_calls']).toBe(0);
  });
});
