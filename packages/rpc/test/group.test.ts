/** @file Groups: who may join, who is missing, who leaves, who meets. */
import { errorMatching } from '@backwire/testing';
import { afterEach, describe, expect, it } from 'vitest';
import {
  allGather,
  barrier,
  createAgent,
  getWorkerInfos,
  rpcFunction,
  RpcError,
  rpcInfo,
  rpcSync,
  type Extension,
  type RpcAgent,
  type RpcOptions,
} from '../src/index.ts';
import type { Agent } from '../src/agent/agent.ts';
import { memoryStore } from '../src/stores/memory.ts';
import type { Store } from '../src/stores/store.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

const echo = rpcFunction('group/echo', (x: unknown) => x);
const open: RpcAgent[] = [];
let cluster: Cluster | undefined;
let stores = 0;
const newStore = (): string => `memory://group-test-${stores++}`;
async function join(options: RpcOptions): Promise<RpcAgent> {
  const agent = await createAgent({ initTimeoutMs: 20_000, ...options });
  open.push(agent);
  return agent;
}
afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
  await Promise.all(open.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );

describe('joining', () => {
  it('names the ranks that are missing when the time is over', async () => {
    const error = await failure(
      createAgent({ name: 'w1', rank: 1, worldSize: 4, store: newStore(), initTimeoutMs: 150 }),
    );
    expect(error).toBeInstanceOf(RpcError);
    expect((error as RpcError).code).toBe('deadline-exceeded');
    expect((error as Error).message).toContain('missing ranks 0, 2, 3');
  });

  it('leaves no trace when it failed, so that the same name can try again', async () => {
    const store = newStore();
    await failure(createAgent({ name: 'w0', rank: 0, worldSize: 2, store, initTimeoutMs: 100 }));
    const agents = await Promise.all([0, 1].map((rank) => join({ name: `w${rank}`, rank, worldSize: 2, store })));
    expect(await agents[0]!.run(() => rpcSync('w1', echo, [1]))).toBe(1);
  });

  it('tells every worker that shares a name', async () => {
    for (const worldSize of [2, 4]) {
      const size = { worldSize, store: newStore(), initTimeoutMs: 10_000 };
      const errors = await Promise.all(
        Array.from({ length: worldSize }, (_, rank) => failure(createAgent({ name: 'same', rank, ...size }))),
      );
      const words = /^RPC worker name same is not unique.*share the same name/;
      for (const error of errors)
        expect(error).toEqual(errorMatching(RpcError, { code: 'failed-precondition', message: words }));
    }
  });

  it('tells who shares an id', async () => {
    const store = newStore();
    await join({ name: 'a', rank: 3, membership: 'dynamic', store });
    const error = await failure(
      createAgent({ name: 'b', rank: 3, membership: 'dynamic', store, initTimeoutMs: 2_000 }),
    );
    expect((error as Error).message).toContain('RPC worker id 3 is not unique');
  });

  it('waits in an open group for the former life of its name to go, and says that it is not unique when it stays', async () => {
    const store = newStore();
    const first = await join({ name: 'again', membership: 'dynamic', store });
    const error = await failure(createAgent({ name: 'again', membership: 'dynamic', store, initTimeoutMs: 600 }));
    expect((error as RpcError).code).toBe('failed-precondition');
    expect((error as Error).message).toContain('RPC worker name again is not unique');
    const second = join({ name: 'again', membership: 'dynamic', store });
    const soon = new Promise((resolve) => setTimeout(resolve, 300, 'still waiting'));
    expect(await Promise.race([second, soon])).toBe('still waiting');
    await first.shutdown();
    expect((await second).id).toBe(0);
  });

  it('says that world sizes differ, to both sides', async () => {
    const store = newStore();
    const waiting = failure(createAgent({ name: 'a', rank: 0, worldSize: 3, store, initTimeoutMs: 30_000 }));
    await until(async () => (await memoryStore(store.slice('memory://'.length)).list('')).size > 3);
    const error = await failure(createAgent({ name: 'b', rank: 1, worldSize: 2, store, initTimeoutMs: 3_000 }));
    expect((error as Error).message).toContain('one of 3 workers, and this worker expects 2');
    expect(await waiting).toMatchObject({
      code: 'failed-precondition',
      message:
        "worker 'b' expects a group of 2 workers, and this worker one of 3: the world sizes differ [failed-precondition]",
    });
  });

  it('a group that is complete does not hear of a worker that expects another size', async () => {
    const store = newStore();
    const agents = await Promise.all([0, 1].map((rank) => join({ name: `w${rank}`, rank, worldSize: 2, store })));
    const error = await failure(createAgent({ name: 'b', rank: 2, worldSize: 3, store, initTimeoutMs: 3_000 }));
    expect((error as Error).message).toContain('the world sizes differ');
    const keys = [...(await memoryStore(store.slice('memory://'.length)).list('')).keys()];
    expect(keys.filter((key) => key.includes('conflict'))).toEqual([]);
    expect(await agents[0]!.run(() => rpcSync('w1', echo, [1]))).toBe(1);
  });

  it('does not tell worker1 of two that share the name worker10', async () => {
    const store = newStore();
    const size = { worldSize: 3, store, initTimeoutMs: 4_000 };
    const bystander = failure(createAgent({ name: 'worker1', rank: 1, ...size }));
    const twins = await Promise.all([0, 2].map((rank) => failure(createAgent({ name: 'worker10', rank, ...size }))));
    for (const error of twins) expect((error as Error).message).toContain('worker10 is not unique');
    expect(await bystander).toMatchObject({ code: 'deadline-exceeded' });
  });

  it('goes on following the view when the store is away while it is listed', async () => {
    const inner = memoryStore();
    let failing = 0;
    let resync = (): void => undefined;
    /** A store whose connection breaks once: watches resync, and lists fail for a while. */
    const flaky = new Proxy(inner, {
      get(target, name: keyof Store) {
        if (name === 'list')
          return (prefix: string) =>
            failing-- > 0 ? Promise.reject(new RpcError('unavailable', 'away')) : target.list(prefix);
        if (name === 'watch')
          return async function* (prefix: string, options?: { signal?: AbortSignal }) {
            const broken = new Promise<void>((resolve) => {
              const before = resync;
              resync = () => (before(), resolve());
            });
            const events = target.watch(prefix, options)[Symbol.asyncIterator]();
            await broken;
            yield { type: 'resync' as const, key: prefix };
            for (let next = await events.next(); next.done !== true; next = await events.next()) yield next.value;
          };
        const member: unknown = target[name];
        return typeof member === 'function' ? (member.bind(target) as unknown) : member;
      },
    });
    const a = await join({ name: 'a', membership: 'dynamic', store: flaky });
    const joined: string[] = [];
    a.on('peer-joined', (peer) => joined.push(peer.name));
    failing = 4;
    resync();
    await until(() => failing <= 0);
    await join({ name: 'b', membership: 'dynamic', store: inner });
    await until(() => joined.includes('b'));
  });

  it('refuses to mix kinds of groups, bad names, ranks and times', async () => {
    const store = newStore();
    await join({ name: 'a', membership: 'dynamic', store });
    await expect(createAgent({ name: 'b', rank: 1, worldSize: 2, store })).rejects.toThrow(
      errorMatching(RpcError, {
        code: 'failed-precondition',
        message: 'RPC group mixes statically and dynamically initialized members',
      }),
    );
    for (const [options, words] of [
      [{ name: '' }, 'must be non-empty'],
      [{ name: 'x'.repeat(128) }, 'shorter than 128'],
      [{ name: 'w é' }, 'Worker name must match'],
      [{ name: 'w', rank: 40_000, worldSize: 2 }, 'out of bounds for int16_t'],
      [{ name: 'w', rank: 2, worldSize: 2 }, 'is not below worldSize'],
      [{ name: 'w', rank: 0, worldSize: 1, rpcTimeoutMs: -1 }, 'must be non-negative'],
      [{ name: 'w', rank: 0, worldSize: 1, maxConcurrentCalls: 0 }, 'must be positive'],
      [{ name: 'w', rank: 0, worldSize: 1, transports: ['pigeon'] }, 'pigeon'],
      [{ name: 'w', membership: 'static' as const }, 'needs a worldSize'],
      [{ name: 'w', rank: 0, worldSize: 1, limits: { maxDepth: -1 } }, 'limits.maxDepth'],
      [{ name: 'w', rank: 0, worldSize: 1, bind: '0.0.0.0' }, 'set a secret'],
      [
        { name: 'w', rank: 0, worldSize: 1, deviceMaps: { w: { 'gpu:0': 'gpu:1', 'gpu:1': 'gpu:1' } } },
        'only supports 1-to-1 mapping',
      ],
      [
        { name: 'w', rank: 0, worldSize: 1, deviceMaps: { x: { 'gpu:0': 'gpu:1' } } },
        'Node w has invalid target node names',
      ],
    ] as const) {
      expect(((await failure(createAgent({ store: newStore(), ...options }))) as Error).message).toContain(words);
    }
  });

  it('gives ids to those that bring none, and tells who comes and goes', async () => {
    const store = newStore();
    const events: string[] = [];
    const a = await join({ name: 'a', membership: 'dynamic', store });
    a.on('peer-joined', (peer) => events.push(`+${peer.name}`));
    a.on('peer-left', (peer) => events.push(`-${peer.name}`));
    const b = await join({ name: 'b', membership: 'dynamic', store });
    expect([a.id, b.id]).toEqual([0, 1]);
    await until(() => events.length === 1, 'b was seen');
    expect(await a.run(() => rpcSync('b', echo, ['hello']))).toBe('hello');
    expect(a.run(() => getWorkerInfos().map(({ name }) => name))).toEqual(['a', 'b']);
    await b.shutdown();
    await until(() => events.length === 2, 'b has left');
    expect(events).toEqual(['+b', '-b']);
    expect(((await failure(a.run(() => rpcSync('b', echo, [1])))) as Error).message).toContain(
      'could not find destination name b',
    );
    const again = await join({ name: 'b', membership: 'dynamic', store });
    expect(await again.run(() => rpcSync('a', echo, ['back']))).toBe('back');
  });
});

describe('meeting', () => {
  it('gathers from all, from some, at once and again', async () => {
    cluster = await startCluster(3);
    const { agents } = cluster;
    const all = await Promise.all(agents.map((agent, i) => agent.run(() => allGather({ i, name: agent.name }))));
    for (const map of all)
      expect([...map].map(([name, { i }]) => [name, i])).toEqual([
        ['w0', 0],
        ['w1', 1],
        ['w2', 2],
      ]);
    const some = [0, 2].map((i) => agents[i]!.run(() => allGather(i, { workers: ['w2', 'w0'] })));
    const twice = agents.map((agent) => agent.run(() => Promise.all([allGather(1), allGather(2)])));
    expect([...(await some[0]!)]).toEqual([
      ['w0', 0],
      ['w2', 2],
    ]);
    for (const [first, second] of await Promise.all(twice)) {
      expect([...first.values()]).toEqual([1, 1, 1]);
      expect([...second.values()]).toEqual([2, 2, 2]);
    }
  });

  it('says who did not come, and whoever waited may try again', async () => {
    cluster = await startCluster(3);
    const { agents } = cluster;
    const errors = await Promise.all([0, 1].map((i) => failure(agents[i]!.run(() => barrier({ timeoutMs: 150 })))));
    for (const error of errors) {
      expect(rpcInfo(error)?.code).toBe('deadline-exceeded');
      expect((error as Error).message).toContain("'w2'");
      expect((error as Error).message).toContain('timed out in _all_gather');
    }
    await Promise.all(agents.map((agent) => agent.run(() => barrier({ timeoutMs: 5_000 }))));
  });

  it('breaks for all when one of those expected goes', async () => {
    cluster = await startCluster(3);
    const { agents } = cluster;
    const waiting = [0, 1].map((i) => failure(agents[i]!.run(() => barrier())));
    await arrived(agents[0]!, 2);
    await agents[2]!.shutdown({ graceful: false });
    for (const error of await Promise.all(waiting)) {
      expect(rpcInfo(error)?.code).toBe('barrier-broken');
      expect((error as Error).message).toContain("'w2'");
    }
    await Promise.all([0, 1].map((i) => agents[i]!.run(() => barrier({ timeoutMs: 5_000 }))));
  });

  it('breaks when the one that collects goes', async () => {
    cluster = await startCluster(3);
    const { agents } = cluster;
    const waiting = [1, 2].map((i) => failure(agents[i]!.run(() => barrier())));
    await arrived(agents[0]!, 2);
    await agents[0]!.shutdown({ graceful: false });
    for (const error of await Promise.all(waiting)) expect(rpcInfo(error)?.code).toBe('barrier-broken');
  });

  it('refuses those who are not among the workers', async () => {
    cluster = await startCluster(2);
    const nobody = await failure(cluster.at(0).run(() => barrier({ workers: ['a', 'w0'] })));
    expect((nobody as Error).message).toMatch(
      /could not find destination name a; the workers of the group are 'w0', 'w1'/,
    );
    const text = await failure(cluster.at(0).run(() => barrier({ workers: 'w0' as unknown as string[] })));
    expect((text as Error).message).toBe("workers of barrier() is a list of names, got 'w0'");
    const error = await failure(cluster.at(0).run(() => barrier({ workers: ['w1'] })));
    expect(rpcInfo(error)?.code).toBe('invalid-argument');
  });

  it('takes null for all workers, as process groups do', async () => {
    const both = (cluster = await startCluster(2));
    const workers = null as unknown as string[];
    const met = await Promise.all([0, 1].map((i) => both.at(i).run(() => allGather(i, i === 0 ? { workers } : {}))));
    expect(met.map((values) => [...values])).toEqual(
      [0, 1].map(() => [
        ['w0', 0],
        ['w1', 1],
      ]),
    );
    await Promise.all([0, 1].map((i) => both.at(i).run(() => barrier(i === 0 ? { workers } : {}))));
  });
});

/** So many members wait in meetings that `agent` collects for. */
async function arrived(agent: RpcAgent, count: number): Promise<void> {
  const open = (): number => [...(agent as Agent).dispatcher.open].reduce((sum, { open: { size } }) => sum + size, 0);
  await until(() => open() === count, `${count} members have come`);
}

describe('shutting down', () => {
  it('waits for calls in progress, its own and others', async () => {
    const sleep = rpcFunction('group/sleep', async (ms: number) => {
      await new Promise((resolve) => setTimeout(resolve, ms));
      return 'slept';
    });
    cluster = await startCluster(2);
    const call = cluster.at(0).run(() => rpcSync('w1', sleep, [300]));
    await Promise.all(cluster.agents.map((agent) => agent.shutdown({ timeoutMs: 10_000 })));
    expect(await call).toBe('slept');
  });

  it('finishes what runs and refuses what is new when it leaves on its own', async () => {
    const slow = rpcFunction('group/slow', async () => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      return 'finished';
    });
    const store = newStore();
    const a = await join({ name: 'a', membership: 'dynamic', store });
    const b = await join({ name: 'b', membership: 'dynamic', store });
    await until(() => a.debugInfo()['agent.peers'] === 1, 'a knows b');
    const running = a.run(() => rpcSync('b', slow));
    await until(() => b.debugInfo()['agent.server_active_calls'] === 1, 'it runs');
    const left = b.shutdown();
    const info = rpcInfo(await failure(a.run(() => rpcSync('b', slow))));
    expect([info?.code, info?.executed, info?.retryable]).toEqual(['draining', 'no', true]);
    expect(await running).toBe('finished');
    await left;
  });

  it('names who has not come when the time is over, and is closed anyway', async () => {
    cluster = await startCluster(4);
    const errors = await Promise.all([0, 1, 2].map((i) => failure(cluster!.at(i).shutdown({ timeoutMs: 1_000 }))));
    for (const [i, error] of errors.entries()) {
      const message = /^shutdown did not end in 1000 ms.*'w3'/;
      expect(error).toEqual(errorMatching(RpcError, { code: 'deadline-exceeded', message }));
      const call = cluster.at(i).run(() => rpcSync('w3', echo, [1]));
      await expect(call).rejects.toThrow(
        errorMatching(RpcError, { code: 'failed-precondition', message: 'RPC has not been initialized' }),
      );
    }
  });

  it('names who has not come to one whose time is over just after the worker that collects has given up', async () => {
    const slow = { faults: { delayMs: { PYTHON_CALL: 200 } } };
    cluster = await startCluster(3, (rank) => (rank === 1 ? slow : {}));
    const first = failure(cluster.at(0).shutdown({ timeoutMs: 1_000 }));
    await new Promise((resolve) => setTimeout(resolve, 30));
    const second = failure(cluster.at(1).shutdown({ timeoutMs: 1_000 }));
    for (const error of await Promise.all([first, second])) {
      const message = /^shutdown did not end in 1000 ms.*'w2'/;
      expect(error).toEqual(errorMatching(RpcError, { code: 'deadline-exceeded', message }));
    }
  });

  const slowExtension: Extension = {
    name: 'slow',
    attach: () => ({ drain: () => new Promise((resolve) => setTimeout(resolve, 1_000)) }),
  };
  it.each<[string, Partial<RpcOptions>, RegExp]>([
    ['its end takes', { extensions: [slowExtension] }, /^shutdown did not end in 50 ms/],
    [
      'what all bring to a meeting of its end takes',
      { faults: { delayMs: { PYTHON_CALL: 500 } } },
      /^shutdown did not end in 50 ms: Followers \['w1', 'w2', 'w3'\] timed out in _all_gather/,
    ],
  ])('fails on each when %s longer than it may, and is closed anyway', async (_, options, first) => {
    // What the one that collects brings itself is there at once.
    cluster = await startCluster(4, (rank) => (rank === 0 && options.faults !== undefined ? {} : options));
    const errors = await Promise.all(cluster.agents.map((agent) => failure(agent.shutdown({ timeoutMs: 50 }))));
    for (const [i, error] of errors.entries()) {
      const message = i === 0 ? first : /^shutdown did not end in 50 ms/;
      expect(error).toEqual(errorMatching(RpcError, { code: 'deadline-exceeded', message }));
      const call = cluster.at(i).run(() => rpcSync('w3', echo, [1]));
      await expect(call).rejects.toThrow(
        errorMatching(RpcError, { code: 'failed-precondition', message: 'RPC has not been initialized' }),
      );
    }
  });

  it('does not wait for those that are gone', async () => {
    cluster = await startCluster(3);
    await cluster.at(0).shutdown({ graceful: false });
    await Promise.all([1, 2].map((i) => cluster!.at(i).shutdown({ timeoutMs: 10_000 })));
  });

  it('may be called twice, and by await using', async () => {
    cluster = await startCluster(2);
    const [a, b] = cluster.agents;
    expect(a!.shutdown()).toBe(a!.shutdown());
    await Promise.all([a!.shutdown(), b!.shutdown()]);
    const store = newStore();
    {
      await using left = await createAgent({ name: 'w0', membership: 'dynamic', store });
      await using right = await createAgent({ name: 'w1', membership: 'dynamic', store });
      await until(() => left.debugInfo()['agent.peers'] === 1, 'they know each other');
      expect(await right.run(() => rpcSync('w0', echo, [1]))).toBe(1);
    }
  });
});
