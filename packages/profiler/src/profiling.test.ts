/** @file Profiles of calls between agents: keys, remote events, hops, parallel calls, contexts, failures. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  add,
  arange,
  empty,
  eye,
  full,
  fullLike,
  linspace,
  matmul,
  mul,
  ones,
  onesLike,
  rand,
  randint,
  randLike,
  randn,
  randnLike,
  randperm,
  ShapeError,
  tensor,
  zeros,
  zerosLike,
  type Tensor,
} from '@backwire/tensor';
import {
  createAgent,
  rpcAsync,
  RpcError,
  rpcFunction,
  rpcOneway,
  rpcStream,
  rpcSync,
  type Extension,
  type RpcAgent,
} from '@backwire/rpc';
import { profile, profiling, recordFunction, ServerProfiler, type ChromeTrace, type ProfileEvent } from './index.ts';
import { profilingKey } from './profiling.ts';

const double = rpcFunction('profiling.test/double', (x: Tensor) => x.add(x));
const labelled = rpcFunction('profiling.test/labelled', (x: Tensor) =>
  recordFunction('my label', () => x.mul(x).add(1)),
);
const slow = rpcFunction('profiling.test/slow', async (x: Tensor, ms: number) => {
  const before = x.add(1);
  await new Promise((done) => setTimeout(done, ms));
  return before.mul(2);
});
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

let agents: RpcAgent[];
let counter = 0;
async function group(
  count: number,
  without: readonly number[] = [],
  more: readonly Extension[] = [],
): Promise<RpcAgent[]> {
  const store = `memory://profiling-${++counter}`;
  return Promise.all(
    Array.from({ length: count }, (_, rank) =>
      createAgent({
        name: `w${rank}`,
        rank,
        worldSize: count,
        store,
        extensions: without.includes(rank) ? [] : [profiling(), ...more],
      }),
    ),
  );
}
beforeEach(() => {
  agents = [];
});
afterEach(async () => {
  await Promise.all(agents.map((agent) => agent.shutdown()));
});

const names = (events: readonly ProfileEvent[]): string[] => events.map(({ name }) => name);
const on = <T>(rank: number, fn: () => T): T => {
  const agent = agents[rank];
  if (agent === undefined) throw new Error(`no agent ${rank}`);
  return agent.run(fn);
};

describe('the key of a call', () => {
  it('has mode, function, caller and callee, in each of the three modes', () => {
    for (const mode of ['sync', 'async', 'remote'])
      expect(profilingKey(mode, 'aten::add', 'w0', 'w1')).toBe(`rpc_${mode}#aten::add(w0 -> w1)`);
  });
});

describe('a profiled call', () => {
  it('of a built-in operation has one event here and its operations there', async () => {
    agents = await group(2);
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
    agents = await group(2);
    const { profile: p } = await on(0, () => profile(() => rpcSync('w1', mul, [ones([2, 2]), 3])));
    const key = 'rpc_sync#aten::mul(w0 -> w1)';
    expect(names(p.events())).toEqual(expect.arrayContaining([key, `${key}#remote_op: aten::mul`]));
  });

  it('of a user function records the same operations as running it here', async () => {
    agents = await group(2);
    const x = ones([3]);
    const local = await on(0, () => profile(() => double(x)));
    const { profile: p } = await on(0, () => profile(() => rpcSync('w1', double, [x])));
    const key = 'rpc_sync#profiling.test/double(w0 -> w1)';
    const remote = p.events().filter(({ isRemote }) => isRemote);
    expect(names(remote).map((name) => name.replace(`${key}#remote_op: `, ''))).toEqual(names(local.profile.events()));
  });

  it('lies inside the label around it', async () => {
    agents = await group(2);
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
    agents = await group(2);
    const { profile: p } = await on(0, () => profile(() => rpcSync('w1', labelled, [ones([2])])));
    const key = 'rpc_sync#profiling.test/labelled(w0 -> w1)#remote_op: ';
    expect(names(p.events())).toEqual(expect.arrayContaining([`${key}my label`, `${key}aten::mul`, `${key}aten::add`]));
  });

  it('follows a handler over its awaits', async () => {
    agents = await group(2);
    const { profile: p } = await on(0, () => profile(() => rpcAsync('w1', slow, [ones([2]), 20])));
    const remote = p.events().filter(({ isRemote }) => isRemote);
    const start = (op: string): number => remote.find(({ name }) => name.endsWith(op))?.startUs ?? Number.NaN;
    expect(start('aten::mul') - start('aten::add')).toBeGreaterThan(15_000);
  });

  it('nests keys over hops', async () => {
    agents = await group(3);
    const { profile: p } = await on(0, () => profile(() => rpcSync('w1', hop, ['w2', ones([2, 2])])));
    const first = 'rpc_sync#profiling.test/hop(w0 -> w1)';
    const second = `${first}#remote_op: rpc_sync#aten::mul(w1 -> w2)`;
    const byName = new Map(p.events().map((event) => [event.name, event]));
    expect(byName.get(first)).toMatchObject({ node: 0, isRemote: false });
    expect(byName.get(second)).toMatchObject({ node: 1, isRemote: true });
    expect(byName.get(`${second}#remote_op: aten::mul`)).toMatchObject({ node: 2, isRemote: true });
  });

  it('keeps many calls in flight apart', async () => {
    agents = await group(3);
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
    agents = await group(2);
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

  it('to oneself is profiled too', async () => {
    agents = await group(1);
    const { profile: p } = await on(0, () => profile(() => rpcSync('w0', double, [ones([2])])));
    expect(names(p.events())).toContain('rpc_sync#profiling.test/double(w0 -> w0)');
  });

  it('that fails ends its event, brings no remote ones, and leaves nothing waiting', async () => {
    agents = await group(2);
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
    agents = await group(2);
    const { profile: p } = await on(0, () =>
      profile(() => rpcSync('w1', slow, [ones([1]), 500], { timeoutMs: 30 }).catch(() => undefined)),
    );
    const [call] = p.events().filter(({ name }) => name.startsWith('rpc_sync#profiling.test/slow'));
    expect(call?.durationUs).toBeLessThan(400_000);
    expect(agents[0]?.debugInfo()['num_profiled_calls']).toBe(0);
  });

  it('of a worker without the extension is recorded on this side', async () => {
    agents = await group(2, [1]);
    const { value, profile: p } = await on(0, () => profile(() => rpcSync('w1', double, [ones([2])])));
    expect(value.toArray()).toEqual([2, 2]);
    expect(names(p.events())).toEqual(expect.arrayContaining(['rpc_sync#profiling.test/double(w0 -> w1)']));
    expect(p.events().some(({ isRemote }) => isRemote)).toBe(false);
  });

  it('outside of a profile is not wrapped', async () => {
    agents = await group(2);
    await on(0, () => rpcSync('w1', double, [ones([2])]));
    const { profile: p } = await on(0, () => profile(() => 1));
    expect(p.events()).toEqual([]);
  });
});

describe('profile', () => {
  it('has products by the names that PyTorch has for them', async () => {
    const product = async (left: number[], right: number[]): Promise<string[]> => {
      const [a, b] = [ones(left), ones(right)];
      const events = (await profile(() => matmul(a, b))).profile.events();
      return names(events).filter((name) => name.endsWith('mm'));
    };
    expect(await product([2, 3], [3, 4])).toEqual(['aten::mm']);
    expect(await product([3], [3, 4])).toEqual(['aten::mm']);
    expect(await product([5, 2, 3], [3, 4])).toEqual(['aten::mm']);
    expect(await product([5, 2, 3], [5, 3, 4])).toEqual(['aten::bmm']);
    expect(matmul(tensor([[1]], { requiresGrad: true }), ones([1, 1])).gradFn?.name).toBe('MmBackward0');
  });

  it('has each function that makes a tensor of numbers once, and not those that operations are made of', async () => {
    const t = ones([2]);
    const makes: readonly (readonly [string, () => unknown])[] = [
      ['ones', () => ones([2])],
      ['zeros', () => zeros([2])],
      ['empty', () => empty([2])],
      ['full', () => full([2], 7)],
      ['ones_like', () => onesLike(t)],
      ['zeros_like', () => zerosLike(t)],
      ['full_like', () => fullLike(t, 7)],
      ['arange', () => arange(3)],
      ['linspace', () => linspace(0, 1, 3)],
      ['eye', () => eye(2)],
      ['rand', () => rand([2])],
      ['randn', () => randn([2])],
      ['rand_like', () => randLike(t)],
      ['randn_like', () => randnLike(t)],
      ['randint', () => randint(0, 9, [2])],
      ['randperm', () => randperm(3)],
    ];
    const { profile: p } = await profile(() => makes.forEach(([, make]) => make()));
    expect(names(p.events())).toEqual(makes.map(([name]) => `aten::${name}`));
    const { profile: failed } = await profile(() => {
      expect(() => ones([-1])).toThrow(ShapeError);
      t.add(1).cumsum(0);
    });
    expect(names(failed.events())).toEqual(['aten::ones', 'aten::add', 'aten::cumsum']);
  });

  it('gives an inner profile to the outer one as well', async () => {
    const outer = await profile(async () => {
      ones([2]).add(1);
      const inner = await profile(() => recordFunction('inside', () => ones([2]).mul(2)));
      expect(names(inner.profile.events())).toEqual(expect.arrayContaining(['inside', 'aten::mul']));
      expect(names(inner.profile.events())).not.toContain('aten::add');
    });
    expect(names(outer.profile.events())).toEqual(expect.arrayContaining(['aten::add', 'inside', 'aten::mul']));
  });

  it('gives the outer one what other workers did, their clocks, and calls that outlast the inner one', async () => {
    agents = await group(2);
    const { profile: outer } = await on(0, () =>
      profile(async () => {
        let call: Promise<Tensor> | undefined;
        await profile(() => {
          call = rpcAsync('w1', slow, [ones([1]), 60]);
        });
        await call;
        await new Promise((done) => setTimeout(done, 60));
      }),
    );
    const key = 'rpc_async#profiling.test/slow(w0 -> w1)';
    const call = outer.events().find(({ name }) => name === key);
    expect(call?.durationUs).toBeGreaterThan(50_000);
    expect(names(outer.events())).toContain(`${key}#remote_op: aten::mul`);
    const { otherData } = outer.toChromeTrace() as ChromeTrace;
    expect(otherData?.backwire.workers[1]?.errorUs).not.toBeNull();
    expect(outer.dropped).toBe(0);
  });

  it('ends operations on the spot that throw', async () => {
    const leaf = ones([3], { requiresGrad: true });
    const { profile: p } = await profile(async () => {
      expect(() => leaf.add_(1)).toThrow();
      await new Promise((done) => setTimeout(done, 60));
      recordFunction('after', () => undefined);
    });
    expect(p.events()[0]).toMatchObject({ name: 'aten::add_' });
    expect(p.events()[0]?.durationUs).toBeLessThan(50_000);
    expect(p.keyAverages().table()).toMatch(/^after /m);
  });

  it('rejects with what its function threw', async () => {
    await expect(profile(() => Promise.reject(new Error('inside')))).rejects.toThrow('inside');
    await expect(
      profile(() => {
        throw new Error('at once');
      }),
    ).rejects.toThrow('at once');
  });

  it('exports remote events in its trace file', async () => {
    agents = await group(2);
    const folder = mkdtempSync(join(tmpdir(), 'backwire-profile-'));
    try {
      const { profile: p } = await on(0, () => profile(() => rpcSync('w1', double, [ones([2])])));
      const path = join(folder, 'trace.json');
      await p.writeChromeTrace(path);
      const { traceEvents } = JSON.parse(readFileSync(path, 'utf8')) as {
        traceEvents: { ph: string; name: string; pid: number; args?: { name?: string; call?: string } }[];
      };
      expect(
        traceEvents.filter(({ ph, name }) => ph === 'M' && name === 'process_name').map(({ args }) => args?.name),
      ).toEqual(['w0', 'w1']);
      const drawn = traceEvents.filter(({ name, pid }) => name === 'aten::add' && pid === 1);
      expect(drawn.map(({ args }) => args?.call)).toEqual(['rpc_sync#profiling.test/double(w0 -> w1)']);
      expect(p.keyAverages({ groupBy: 'name+node' }).table({ sortBy: 'calls' })).toContain(
        'rpc_sync#profiling.test/double(w0 -> w1)',
      );
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe('recordFunction', () => {
  it('is just the function without a profile', () => {
    expect(recordFunction('x', () => 5)).toBe(5);
  });

  it('ends when the promise settles, and hands it on as it is', async () => {
    const promise = new Promise<number>((done) => setTimeout(() => done(3), 15));
    const { value, profile: p } = await profile(() => {
      const same = recordFunction('wait', () => promise);
      expect(same).toBe(promise);
      return same;
    });
    expect(value).toBe(3);
    expect(p.events()[0]?.durationUs).toBeGreaterThan(10_000);
  });

  it('ends with the promise it is given, which is given once', async () => {
    agents = await group(4);
    const { profile: p } = await on(1, () =>
      profile(async () => {
        let call: Promise<Tensor> | undefined;
        const returned = recordFunction('foo', (label) => {
          call = label.endWith(rpcAsync('w0', slow, [ones([1]), 30]));
          expect(() => label.endWith(call as Promise<Tensor>)).toThrow(
            new RpcError('failed-precondition', 'endWith of a label can only be called once.'),
          );
          return 'at once';
        });
        expect(returned).toBe('at once');
        await call;
      }),
    );
    const [foo] = p.events().filter(({ name }) => name === 'foo');
    const [call] = p.events().filter(({ name }) => name.startsWith('rpc_async#') && !name.includes('#remote_op'));
    expect(foo?.durationUs).toBeGreaterThan(25_000);
    expect(foo?.durationUs).toBeGreaterThanOrEqual(call?.durationUs ?? Infinity);
  });

  it('ends when the function throws', async () => {
    const { profile: p } = await profile(() => {
      expect(() =>
        recordFunction('bad', () => {
          throw new Error('bad');
        }),
      ).toThrow('bad');
      recordFunction('after', () => undefined);
    });
    expect(names(p.events())).toEqual(['bad', 'after']);
  });
});

describe('a stream', () => {
  it('is recorded on this side, from its first item to its last', async () => {
    agents = await group(2);
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
    agents = await group(2);
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
    agents = await group(2, [], [spy]);
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
    agents = await group(2);
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

it('a profile of nothing says that it runs a function', async () => {
  await expect(profile(undefined as never)).rejects.toThrow(
    'profile() runs a function, as in profile(async () => { … }); got undefined',
  );
});
