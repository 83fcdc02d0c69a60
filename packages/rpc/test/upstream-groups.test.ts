/** @file PyTorch's tests of groups of workers from start to end: who is who, starting again, gathering, barriers, leaving. */
import { errorMatching, shown } from '@backwire/testing';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { pathToFileURL } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { add, ones, tensor, zeros, type Tensor } from '@backwire/tensor';
import {
  allGather,
  barrier,
  createAgent,
  getRpcTimeoutMs,
  getWorkerInfo,
  getWorkerInfos,
  initRpc,
  processGroup,
  RpcError,
  rpcAsync,
  rpcFunction,
  rpcSync,
  shutdown,
  WorkerInfo,
  type Extension,
  type RpcAgent,
  type RpcOptions,
} from '../src/index.ts';
import { until } from './cluster.ts';
import { exactly, sparse, workedOn } from './tensors.ts';

const plus = rpcFunction('upstream-groups/plus', (x: number, y: number) => x + y);
const sleep = rpcFunction('upstream-groups/sleep', async (ms: number) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return ms;
});
const two = rpcFunction('upstream-groups/two', () => ones([1]).add(ones([1])));
const sumWithDevices = rpcFunction(
  'upstream-groups/sum-with-devices',
  (x: Tensor, y: Tensor, to: 'cpu') => [[x.device, y.device], x.to(to).add(y.to(to))] as const,
);
const heavy = rpcFunction('upstream-groups/heavy', (x: Tensor) => workedOn(x));
/** By the worker that counts. */
const counts = new Map<string, number>();
const resetCount = rpcFunction('upstream-groups/reset-count', () => void counts.set(getWorkerInfo().name, 0));
const increaseCount = rpcFunction('upstream-groups/increase-count', () => {
  const { name } = getWorkerInfo();
  counts.set(name, (counts.get(name) ?? 0) + 1);
});
/** Where chains of calls came, with where they began. */
const arrived: string[] = [];
const hopped = rpcFunction('upstream-groups/hopped', (from: number, to: number, left: number): void => {
  arrived.push(`${from}: ${getWorkerInfo().name}`);
  hop(from, to, left);
});
/** Calls on, and returns at once. */
function hop(from: number, to: number, left: number): void {
  if (left > 0) void rpcAsync(to, hopped, [from, (to + 1) % 4, left - 1]);
}

let groups = 0;
const open: RpcAgent[] = [];
const newStore = (): string => `memory://upstream-groups-${groups++}`;
async function join(options: RpcOptions, make = createAgent): Promise<RpcAgent> {
  const agent = await make({ initTimeoutMs: 20_000, ...options });
  open.push(agent);
  return agent;
}
function start(size: number, options: Partial<RpcOptions> = {}, make = createAgent): Promise<RpcAgent[]> {
  const store = newStore();
  const of = (rank: number): RpcOptions => ({ name: `w${rank}`, rank, worldSize: size, store, ...options });
  return Promise.all(many(size, (rank) => join(of(rank), rank === 0 ? make : createAgent)));
}
/** The same, where the first is the process's own. */
const startOwn = (size: number, options: Partial<RpcOptions> = {}): Promise<RpcAgent[]> =>
  start(size, options, initRpc);
afterEach(async () => {
  await Promise.all(open.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});
/** All of them at once, each when the others have ended their work, too. */
const end = (agents: readonly RpcAgent[]): Promise<unknown> =>
  Promise.all(agents.map((agent) => agent.shutdown({ onLeak: 'throw' })));
/** All of them one after another, none of which waits for another. */
async function endAtOnce(agents: readonly RpcAgent[]): Promise<void> {
  for (const agent of agents) {
    await agent.shutdown({ graceful: false, onLeak: 'throw' });
    await notInitialized(agent.run(() => rpcSync('w0', plus, [1, 2])));
  }
  await notInitialized(rpcSync('w0', plus, [1, 2]));
}
const many = <T>(count: number, fn: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => fn(i));
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );
/** A call that fails because its agent is none any more, in the words of before its start. */
async function notInitialized(call: Promise<unknown>): Promise<void> {
  await expect(call).rejects.toThrow(
    errorMatching(RpcError, { code: 'failed-precondition', message: /^RPC has not been initialized/ }),
  );
}
const kinds = [
  ['dense', () => ones([100, 100]).mul(3)],
  ['sparse', sparse],
] as const;
/** Runs `fn` on all workers at once: `n` is the rank and 1, `next` the worker after it. */
async function onAll(
  agents: readonly RpcAgent[],
  fn: (at: { rank: number; n: number; next: string }) => Promise<void>,
): Promise<void> {
  const next = (rank: number): string => `w${(rank + 1) % agents.length}`;
  await Promise.all(agents.map((agent, rank) => agent.run(() => fn({ rank, n: rank + 1, next: next(rank) }))));
}

describe('who is who', () => {
  it('is known of oneself and of others, by name, and of nobody else', async () => {
    const agents = await start(4);
    for (const [rank, agent] of agents.entries()) {
      agent.run(() => {
        expect([getWorkerInfo().name, getWorkerInfo().id]).toEqual([`w${rank}`, rank]);
        const peer = (rank + 1) % 4;
        expect([getWorkerInfo(`w${peer}`).name, getWorkerInfo(`w${peer}`).id]).toEqual([`w${peer}`, peer]);
        const words = 'could not find destination name WorkerNobody';
        expect(() => getWorkerInfo('WorkerNobody')).toThrow(
          errorMatching(RpcError, { code: 'not-found', message: words }),
        );
      });
    }
    await end(agents);
  });

  it('lists every worker once', async () => {
    const agents = await start(4);
    for (const agent of agents) {
      expect(agent.run(() => getWorkerInfos().map(({ name, id }) => [name, id]))).toEqual([
        ['w0', 0],
        ['w1', 1],
        ['w2', 2],
        ['w3', 3],
      ]);
    }
    await end(agents);
  });

  it('fails to start when two of four share a name, on each of them: all are told of it', async () => {
    const store = newStore();
    const size = { worldSize: 4, store, initTimeoutMs: 2_000 };
    const errors = await Promise.all(many(4, (rank) => failure(createAgent({ name: `w${rank % 3}`, rank, ...size }))));
    const [told, others] = [
      errorMatching(RpcError, { code: 'failed-precondition', message: 'RPC worker name w0 is not unique' }),
      errorMatching(RpcError, {
        code: 'deadline-exceeded',
        message:
          /^the group is not complete in time: .*\. RPC worker name w0 is not unique\. Workers [03] and [03] share/,
      }),
    ];
    expect(errors).toEqual([told, others, others, told]);
  });

  it('refuses names that are empty, too long or of other characters, of records and of agents', async () => {
    for (const [name, words] of [
      ['abc*', 'Worker name must match'],
      [' ', 'Worker name must match'],
      ['a/b', 'Worker name must match'],
      ['é', 'Worker name must match'],
      ['', 'must be non-empty'],
      ['a'.repeat(500), 'shorter than 128'],
      ['a'.repeat(128), 'shorter than 128'],
    ] as const) {
      const refusal = errorMatching(RpcError, { code: 'invalid-argument', message: words });
      expect(() => new WorkerInfo(name, 1)).toThrow(refusal);
      await expect(createAgent({ name, rank: 0, worldSize: 1, store: newStore() })).rejects.toThrow(refusal);
    }
  });

  it('has names and ids up to the limits, and no others', () => {
    expect(String(new WorkerInfo('a'.repeat(127), 0x7fff))).toBe(`WorkerInfo(id=32767, name=${'a'.repeat(127)})`);
    expect(new WorkerInfo('A-z_0:9', 0).id).toBe(0);
    for (const id of [-1, 0x8000, 1.5, NaN, Infinity, '1', null, undefined, 1n]) {
      const words = `RPC worker id ${String(id)} out of bounds for int16_t.`;
      expect(() => new WorkerInfo('a', id as number)).toThrow(new RpcError('invalid-argument', words));
    }
    for (const name of [1, null, undefined])
      expect(() => new WorkerInfo(name as unknown as string, 0)).toThrow(
        errorMatching(RpcError, { code: 'invalid-argument', message: 'Worker name must match' }),
      );
  });

  it('does not let a worker join on its own that comes to a closed group', async () => {
    const store = newStore();
    const agents = await Promise.all(many(4, (rank) => join({ name: `w${rank}`, rank, worldSize: 4, store })));
    for (const given of [{ rank: 4 }, { rank: 4, membership: 'dynamic' }, {}, { membership: 'dynamic' }] as const) {
      const message = 'RPC group mixes statically and dynamically initialized members which is not supported.';
      await expect(createAgent({ name: 'late', store, initTimeoutMs: 2_000, ...given })).rejects.toThrow(
        errorMatching(RpcError, { code: 'failed-precondition', message }),
      );
    }
    // The group is as it was.
    await onAll(agents, async ({ next }) => {
      expect(getWorkerInfos()).toHaveLength(4);
      expect(await rpcSync(next, plus, [1, 2])).toBe(3);
    });
  });
});

describe('options', () => {
  it('say how many handlers run at once, and the agent tells', async () => {
    const agents = await start(4, { maxConcurrentCalls: 27 });
    for (const agent of agents) expect(agent.debugInfo()['agent.max_concurrent_calls']).toBe(27);
    await end(agents);
  });

  it('give calls their time by default', async () => {
    const agents = await start(4, { rpcTimeoutMs: 30 });
    await onAll(agents, async ({ next }) => {
      expect(getRpcTimeoutMs()).toBe(30);
      const message = 'RPC ran for more than set timeout (30 ms)';
      await expect(rpcSync(next, sleep, [2_000])).rejects.toThrow(
        errorMatching(RpcError, { code: 'deadline-exceeded', message }),
      );
    });
    await end(agents);
  });

  it.each([0.5, 100])('are the default for calls: %d s', async (seconds) => {
    const agents = await start(4, { rpcTimeoutMs: seconds * 1_000 });
    for (const agent of agents) expect(agent.run(() => getRpcTimeoutMs())).toBe(seconds * 1_000);
    await end(agents);
  });

  it('refuse a time that is no number', async () => {
    for (const rpcTimeoutMs of ['5', new Date(), { seconds: 5 }] as unknown as number[]) {
      const options = { name: 'w', rank: 0, worldSize: 1, store: newStore(), rpcTimeoutMs };
      await expect(createAgent(options)).rejects.toThrow(
        errorMatching(TypeError, { message: 'rpcTimeoutMs is a number of milliseconds' }),
      );
    }
  });

  it('may map the main memory to that of a peer, and tensors stay there', async () => {
    const store = newStore();
    const agents = await Promise.all(
      many(4, (rank) => {
        const deviceMaps = { [`w${(rank + 1) % 4}`]: { cpu: 'cpu' } };
        return join({ name: `w${rank}`, rank, worldSize: 4, store, deviceMaps });
      }),
    );
    await onAll(agents, async ({ next }) => {
      const [devices, sum] = await rpcSync(next, sumWithDevices, [zeros([2]), ones([2]), 'cpu']);
      expect([devices, sum.device, shown(sum)]).toEqual([['cpu', 'cpu'], 'cpu', shown(ones([2]))]);
    });
    await end(agents);
  });
});

describe('a group', () => {
  it('calls, reduces together, and calls again', async () => {
    const agents = await start(4);
    await onAll(agents, async ({ rank, next }) => {
      expect(shown(await rpcSync(next, add, [ones([2, 2]), 1]))).toEqual(shown(ones([2, 2]).add(1)));
      expect((await processGroup().allReduce(tensor([rank + 1]))).toArray()).toEqual([10]);
      await barrier();
      expect(shown(await rpcSync(next, add, [ones([2, 2]), rank]))).toEqual(shown(ones([2, 2]).add(rank)));
    });
    await end(agents);
  });

  it.each([
    ['the same store', () => newStore()],
    ['another store', undefined],
  ])('starts again after its end, in %s', async (_, first) => {
    const given = first?.();
    // As PyTorch's process group, another group of the same workers lives all the while.
    const lasting = await start(4, { store: given ?? newStore(), group: 'lasting' });
    // As in PyTorch's test the first life ends without a call.
    for (const life of ['idle', 'busy', 'busy']) {
      const agents = await startOwn(4, { store: given ?? newStore() });
      if (life === 'busy')
        await onAll(agents, async ({ next }) => {
          expect(shown(await rpcSync(next, add, [ones([2, 2]), 1]))).toEqual(shown(ones([2, 2]).add(1)));
          expect(shown(await rpcSync(next, two))).toEqual(shown(ones([1]).add(1)));
        });
      await end(agents);
      await onAll(lasting, () => barrier());
    }
    await end(lasting);
  });

  it('calls no more after its end, in the words of before its start', async () => {
    const agents = await startOwn(4);
    await onAll(agents, async ({ n, next }) => {
      const sum = await rpcSync(next, add, [ones([n, n]), ones([n, n])]);
      expect(shown(sum)).toEqual(shown(ones([n, n]).mul(2)));
    });
    // The first by the function of the process, as a program does.
    await Promise.all([shutdown({ onLeak: 'throw' }), end(agents.slice(1))]);
    await onAll(agents, async ({ n, next }) => {
      for (const call of [rpcSync, rpcAsync]) await notInitialized(call(next, add, [ones([n, n]), ones([n, n])]));
    });
    for (const call of [rpcSync, rpcAsync]) await notInitialized(call('w1', add, [ones([1, 1]), ones([1, 1])]));
  });

  it('without a size has who comes, by rank, and each leaves on its own', async () => {
    const store = newStore();
    const agents = await Promise.all(many(4, (rank) => join({ name: `w${rank}`, rank, store })));
    expect(agents.map(({ id }) => id)).toEqual([0, 1, 2, 3]);
    await agents[0]!.shutdown({ onLeak: 'throw' });
    const rest = agents.slice(1);
    const left = (agent: RpcAgent): string => agent.run(() => getWorkerInfos().map(({ name }) => name)).join();
    await until(() => rest.every((agent) => left(agent) === 'w1,w2,w3'), 'they know that the first has left');
    await end(rest);
  });

  it.each([
    ['those who come later call the first', true],
    ['the first calls those who come later', false],
  ])('without a size: %s', async (_, later) => {
    const folder = await mkdtemp(`${tmpdir()}/upstream-groups-`);
    for (const store of [newStore(), pathToFileURL(folder).href]) {
      const first = await join({ name: 'w0', rank: 0, store });
      const expectSum = async (agent: RpcAgent, to: string): Promise<void> => {
        const one = (): Tensor => tensor(1, { dtype: 'int64' });
        const sum = await agent.run(() => rpcSync(to, add, [one(), one()]));
        expect(shown(sum)).toEqual(shown(one().add(one())));
      };
      const others = await Promise.all(
        [1, 2, 3].map(async (rank) => {
          const agent = await join({ name: `w${rank}`, rank, store });
          // At once, whoever else is still on the way.
          if (later) await expectSum(agent, 'w0');
          return agent;
        }),
      );
      // Whoever was there knows those who came as soon as they have started.
      for (const agent of [first, ...others])
        expect(agent.run(() => getWorkerInfos().map(({ name }) => name))).toEqual(['w0', 'w1', 'w2', 'w3']);
      if (!later) for (const to of ['w1', 'w2', 'w3']) await expectSum(first, to);
      await end([first, ...others]);
    }
    await rm(folder, { recursive: true });
  });
});

/**
 * The first of at least three works for the second alone, then for the third alone, while the others already wait: whoever ended early
 * would be missing.
 */
async function unevenWork(agents: readonly RpcAgent[], make: () => Tensor): Promise<void> {
  const expected = exactly(heavy(make()));
  const x = make();
  await agents[0]!.run(async () => {
    for (const to of ['w1', 'w2']) {
      const results = await Promise.all(many(30, () => rpcAsync(to, heavy, [x])));
      for (const result of results) expect(exactly(result)).toEqual(expected);
    }
  });
}

describe('meeting', () => {
  it('gathers what every worker gives, the same for all', async () => {
    const agents = await start(4);
    await onAll(agents, async ({ rank }) => {
      const ids = await allGather(getWorkerInfo().id);
      expect([...ids]).toEqual(getWorkerInfos().map(({ name, id }) => [name, id]));
      expect([...ids]).toEqual(many(4, (i) => [`w${i}`, i]));
      const tensors = await allGather({ value: tensor([rank]) });
      expect([...tensors].map(([name, { value }]) => [name, value.item()])).toEqual([...ids]);
    });
    await end(agents);
  });

  it('at a barrier nobody passes before the last has come', async () => {
    const agents = await start(4);
    const log: string[] = [];
    const meet = (rank: number): Promise<unknown> =>
      agents[rank]!.run(() => barrier()).then(() => log.push(`passed ${rank}`));
    const early = [meet(0), meet(1), meet(2)];
    await new Promise((resolve) => setTimeout(resolve, 80));
    log.push('the last comes');
    await Promise.all([...early, meet(3)]);
    expect(log[0]).toBe('the last comes');
    expect(log.slice(1).sort()).toEqual(['passed 0', 'passed 1', 'passed 2', 'passed 3']);
  });

  /** Each of `meeting` adds one between two barriers; whoever leads counts none before and all after. */
  async function countTogether(agent: RpcAgent, meeting: readonly string[], alone = true): Promise<void> {
    await agent.run(async () => {
      const workers = [...meeting].sort();
      const [leader] = workers as [string];
      const leads = alone && agent.name === leader;
      await rpcSync(leader, resetCount);
      if (leads) expect(counts.get(leader)).toBe(0);
      await barrier({ workers, timeoutMs: 20_000 });
      await rpcSync(leader, increaseCount);
      await barrier({ workers, timeoutMs: 20_000 });
      if (leads) expect(counts.get(leader)).toBe(workers.length);
    });
  }
  const odd = (rank: number): boolean => rank % 2 === 1;
  const names = (which: (rank: number) => boolean): string[] => [0, 1, 2, 3].filter(which).map((rank) => `w${rank}`);

  it.each<[string, (rank: number) => string[]]>([
    ['all', () => names(() => true)],
    ['the odd ones and of the even ones, each on their own', (rank) => names((other) => odd(other) === odd(rank))],
    ['the odd ones, while each even one meets nobody', (rank) => (odd(rank) ? names(odd) : [`w${rank}`])],
  ])('a barrier counts all of %s', async (_, of) => {
    const agents = await start(4);
    await Promise.all(agents.map((agent, rank) => countTogether(agent, of(rank))));
    expect(await agents[1]!.run(() => rpcSync('w0', plus, [1, 2]))).toBe(3);
    await end(agents);
  });

  it('at barriers three times at once by each does not hang', async () => {
    const agents = await start(4);
    const all = names(() => true);
    await Promise.all(agents.flatMap((agent) => many(3, () => countTogether(agent, all, false))));
    await end(agents);
  });

  it.each(kinds.flatMap(([kind, make]) => [[kind, 'once', 1, make] as const, [kind, 'twice', 2, make] as const]))(
    'serves the busy ones while the idle ones wait: %s, %s',
    async (_, __, times, make) => {
      const agents = await start(4);
      let over = false;
      const meet = async (agent: RpcAgent): Promise<void> => {
        for (let i = 0; i < times; i++) {
          await agent.run(() => barrier({ timeoutMs: 60_000 }));
          expect(over).toBe(true);
        }
      };
      const idle = agents.slice(1).map(meet);
      await unevenWork(agents, make);
      over = true;
      await Promise.all([meet(agents[0]!), ...idle]);
      await Promise.all(agents.map((agent) => agent.shutdown({ graceful: false })));
    },
  );
});

describe('leaving', () => {
  it('waits for workers that still have work for others', async () => {
    const agents = await start(4);
    let over = false;
    const leave = (agent: RpcAgent): Promise<void> => agent.shutdown({ timeoutMs: 60_000, onLeak: 'throw' });
    const idle = agents.slice(1).map((agent) => leave(agent).then(() => expect(over).toBe(true)));
    await unevenWork(agents, kinds[0][1]);
    over = true;
    await Promise.all([leave(agents[0]!), ...idle]);
  });

  it('at once needs nobody, before any call', async () => endAtOnce(await startOwn(4)));

  it('at once needs nobody, after calls', async () => {
    const agents = await startOwn(4);
    await onAll(agents, async ({ n, next }) => {
      const sum = await rpcSync(next, add, [ones([n, n]), ones([n, n])]);
      expect(shown(sum)).toEqual(shown(ones([n, n]).mul(2)));
      await barrier();
    });
    await endAtOnce(agents);
  });

  it('waits for calls that lead to calls which nobody waits for', async () => {
    const agents = await start(4);
    arrived.length = 0;
    for (const [rank, agent] of agents.entries()) agent.run(() => hop(rank, (rank + 1) % 4, 20));
    await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 30_000, onLeak: 'throw' })));
    const path = (from: number): string[] => many(20, (i) => `${from}: w${(from + 1 + i) % 4}`);
    for (const from of [0, 1, 2, 3]) expect(arrived.filter((at) => at.startsWith(`${from}:`))).toEqual(path(from));
  });

  it('says what fails in it, on each for itself, and closes all the same', async () => {
    const thrown = many(4, (id) => new RangeError(`simulation ${id}`));
    let [fails, go] = [Promise.resolve(), (): void => undefined];
    const failing: Extension = {
      name: 'failing',
      attach: ({ id }) => ({
        drain: () => (id === 0 ? Promise.resolve() : fails.then(() => Promise.reject(thrown[id]!))),
      }),
    };
    const leave = async (timeouts: readonly number[]): Promise<unknown[]> => {
      const agents = await start(4, { extensions: [failing] });
      open.length = 0;
      const ends = agents.map((agent, id) => failure(agent.shutdown({ timeoutMs: timeouts[id]! })));
      void ends[0]!.then(() => go());
      const errors = await Promise.all(ends);
      for (const id of [1, 2, 3]) expect(errors[id]).toBe(thrown[id]);
      for (const agent of agents) await notInitialized(agent.run(() => rpcSync('w0', plus, [1, 2])));
      return errors;
    };
    const before = performance.now();
    const [atOnce] = await leave([20_000, 20_000, 20_000, 20_000]);
    expect(performance.now() - before).toBeLessThan(15_000);
    expect(atOnce).toBe('no failure');
    // They fail after the time of the one that leads, which waits for them.
    fails = new Promise((resolve) => (go = resolve));
    const [late] = await leave([1_000, 20_000, 20_000, 20_000]);
    const message = /^shutdown did not end in 1000 ms: Followers \['w1', 'w2', 'w3'\] timed out in _all_gather after /;
    expect(late).toEqual(errorMatching(RpcError, { code: 'deadline-exceeded', message }));
  });
});
