/** @file Groups of workers from start to end: who is who, gathering, barriers, leaving; and groups of calls: waitAll. */
import { afterEach, describe, expect, it } from 'vitest';
import { add, ones, sparseCooTensor, tensor, zeros, type Tensor } from '@backwire/tensor';
import {
  allGather,
  barrier,
  createAgent,
  getRpcTimeoutMs,
  getWorkerInfo,
  getWorkerInfos,
  processGroup,
  remoteFunction,
  rpcAsync,
  rpcFunction,
  rpcInfo,
  rpcOneway,
  rpcSync,
  waitAll,
  WorkerInfo,
  type RpcAgent,
  type RpcOptions,
} from '../src/index.ts';
import { until } from './cluster.ts';

const plus = rpcFunction('upstream-groups/plus', (x: number, y: number) => x + y);
const echo = rpcFunction('upstream-groups/echo', (x: unknown) => x);
const fail = rpcFunction('upstream-groups/fail', (text: string): number => {
  throw new RangeError(text);
});
const sleep = rpcFunction('upstream-groups/sleep', async (ms: number) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return ms;
});
const arrived: string[] = [];
const hop = rpcFunction('upstream-groups/hop', (left: number, world: number): void => {
  arrived.push(getWorkerInfo().name);
  if (left > 0) {
    const again = remoteFunction<(left: number, world: number) => void>('upstream-groups/hop');
    void rpcAsync((getWorkerInfo().id + 1) % world, again, [left - 1, world]);
  }
});

let groups = 0;
const open: RpcAgent[] = [];
const newStore = (): string => `memory://upstream-groups-${groups++}`;
async function join(options: RpcOptions): Promise<RpcAgent> {
  const agent = await createAgent({ initTimeoutMs: 20_000, ...options });
  open.push(agent);
  return agent;
}
function start(size: number, options: Partial<RpcOptions> = {}): Promise<RpcAgent[]> {
  const store = newStore();
  return Promise.all(many(size, (rank) => join({ name: `w${rank}`, rank, worldSize: size, store, ...options })));
}
afterEach(async () => {
  await Promise.all(open.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});
const many = <T>(count: number, fn: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => fn(i));
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );
const caught = (fn: () => unknown): unknown => {
  try {
    return fn();
  } catch (error) {
    return error;
  }
};
const sparse = (): Tensor => sparseCooTensor(tensor([[0, 2]], { dtype: 'int64' }), tensor([1, 2]), [4]);
const dense = (x: Tensor): unknown => (x.layout === 'sparse_coo' ? x.toDense() : x).toArray();
const kinds = [
  ['dense', () => tensor([1, 0, 2, 0])],
  ['sparse', sparse],
] as const;

describe('who is who', () => {
  it('is known of oneself and of others, by name, and of nobody else', async () => {
    const agents = await start(3);
    for (const [rank, agent] of agents.entries()) {
      agent.run(() => {
        expect([getWorkerInfo().name, getWorkerInfo().id]).toEqual([`w${rank}`, rank]);
        expect(getWorkerInfo(`w${(rank + 1) % 3}`).id).toBe((rank + 1) % 3);
        expect(() => getWorkerInfo('WorkerNobody')).toThrow('could not find destination name WorkerNobody');
      });
    }
  });

  it('lists every worker once', async () => {
    for (const agent of await start(3)) {
      expect(agent.run(() => getWorkerInfos().map(({ name, id }) => [name, id]))).toEqual([
        ['w0', 0],
        ['w1', 1],
        ['w2', 2],
      ]);
    }
  });

  it('fails to start when two of three share a name', async () => {
    const store = newStore();
    const names = ['same', 'same', 'other'];
    const errors = await Promise.all(
      names.map((name, rank) => failure(createAgent({ name, rank, worldSize: 3, store, initTimeoutMs: 2_000 }))),
    );
    for (const error of errors) expect(error).toBeInstanceOf(Error);
    expect((errors[0] as Error).message).toContain('RPC worker name same is not unique');
    expect((errors[1] as Error).message).toContain('RPC worker name same is not unique');
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
      const refusal = { code: 'invalid-argument', message: expect.stringContaining(words) as string };
      expect(() => new WorkerInfo(name, 1)).toThrow(expect.objectContaining(refusal));
      expect(await failure(createAgent({ name, rank: 0, worldSize: 1, store: newStore() }))).toMatchObject(refusal);
    }
  });

  it('has names and ids up to the limits, and no others', () => {
    expect(String(new WorkerInfo('a'.repeat(127), 0x7fff))).toBe(`WorkerInfo(id=32767, name=${'a'.repeat(127)})`);
    expect(new WorkerInfo('A-z_0:9', 0).id).toBe(0);
    for (const id of [-1, 0x8000, 1.5, NaN, Infinity, '1', null, undefined, 1n]) {
      const refusal = {
        code: 'invalid-argument',
        message: `RPC worker id ${String(id)} out of bounds for int16_t. [invalid-argument]`,
      };
      expect(() => new WorkerInfo('a', id as number)).toThrow(expect.objectContaining(refusal));
    }
    for (const name of [1, null, undefined])
      expect(() => new WorkerInfo(name as unknown as string, 0)).toThrow(/must match/);
  });

  it.each([1.5, NaN, Infinity, -0.1])('is nobody under the id %d, which is none', async (id) => {
    const [first] = await start(2);
    const refusal = {
      code: 'invalid-argument',
      message: expect.stringContaining(`Cannot get WorkerInfo from name ${id}`) as string,
    };
    expect(await first!.run(() => failure(rpcSync(id, plus, [1, 1])))).toMatchObject(refusal);
    expect(first!.run(() => caught(() => getWorkerInfo(id)))).toMatchObject(refusal);
    expect(first!.run(() => caught(() => rpcOneway(id, plus, [1, 1])))).toMatchObject(refusal);
  });

  it('does not let a worker join on its own that comes to a closed group', async () => {
    const store = newStore();
    await join({ name: 'w0', rank: 0, worldSize: 1, store });
    const error = await failure(createAgent({ name: 'late', membership: 'dynamic', store, initTimeoutMs: 2_000 }));
    expect((error as Error).message).toContain('RPC group mixes statically and dynamically initialized members');
  });
});

describe('options', () => {
  it('say how many handlers run at once, and the agent tells', async () => {
    const [a] = await start(1, { maxConcurrentCalls: 7 });
    expect(a!.debugInfo()['agent.max_concurrent_calls']).toBe(7);
  });

  it('give calls their time by default', async () => {
    const [a] = await start(2, { rpcTimeoutMs: 30 });
    expect(a!.run(() => getRpcTimeoutMs())).toBe(30);
    await expect(a!.run(() => rpcSync('w1', sleep, [2_000]))).rejects.toThrow('set timeout (30 ms)');
  });

  it('refuse a time that is no number', async () => {
    for (const rpcTimeoutMs of ['5', new Date(), { seconds: 5 }] as unknown as number[])
      expect(
        await failure(createAgent({ name: 'w', rank: 0, worldSize: 1, store: newStore(), rpcTimeoutMs })),
      ).toBeInstanceOf(TypeError);
  });

  it('may map the main memory to that of a peer, and tensors stay there', async () => {
    const store = newStore();
    const [a] = await Promise.all([
      join({ name: 'w0', rank: 0, worldSize: 2, store, deviceMaps: { w1: { cpu: 'cpu' } } }),
      join({ name: 'w1', rank: 1, worldSize: 2, store }),
    ]);
    const sum = await a.run(() => rpcSync('w1', add, [ones([2]), 1]));
    expect([sum.device, sum.toArray()]).toEqual(['cpu', [2, 2]]);
  });

  it('hold tensor operations back on purpose, which times out or does not', async () => {
    const [a] = await start(2, { faults: { delayMs: { SCRIPT_CALL: 150 } }, rpcTimeoutMs: 20 });
    const call = (timeoutMs?: number): Promise<Tensor> =>
      a!.run(() => rpcSync('w1', add, [ones([2]), 1], { timeoutMs }));
    expect(rpcInfo(await failure(call(10)))?.code).toBe('deadline-exceeded');
    expect(rpcInfo(await failure(call()))?.code).toBe('deadline-exceeded');
    expect((await call(0)).toArray()).toEqual([2, 2]);
    expect((await call(20_000)).toArray()).toEqual([2, 2]);
  });
});

describe('a group', () => {
  it.each(kinds)('of one calls itself: %s', async (_, make) => {
    const [a] = await start(1);
    await a!.run(async () => {
      expect(dense(await rpcSync('w0', add, [make(), make()]))).toEqual([2, 0, 4, 0]);
      expect(dense((await rpcAsync('w0', echo, [make()])) as Tensor)).toEqual([1, 0, 2, 0]);
    });
    await a!.shutdown();
  });

  it('calls, reduces together, and calls again', async () => {
    const agents = await start(3);
    const sums = await Promise.all(
      agents.map((agent, rank) =>
        agent.run(async () => {
          const before = await rpcSync((rank + 1) % 3, plus, [rank, 1]);
          const sum = await processGroup().allReduce(tensor([rank + 1]));
          return [before, sum.toArray(), await rpcSync((rank + 2) % 3, plus, [rank, 2])];
        }),
      ),
    );
    expect(sums).toEqual(many(3, (rank) => [rank + 1, [6], rank + 2]));
  });
});

describe('a server that answers its trainers together', () => {
  let waiting: { gradient: Tensor; answer: (mean: Tensor) => void }[] = [];
  /** Answers with the mean once both trainers have sent their gradient. */
  const average = rpcFunction(
    'upstream-groups/average',
    (gradient: Tensor) =>
      new Promise<Tensor>((answer) => {
        waiting.push({ gradient, answer });
        if (waiting.length < 2) return;
        const [first, second] = waiting.splice(0) as [(typeof waiting)[0], (typeof waiting)[0]];
        const mean = first.gradient.add(second.gradient).div(2);
        for (const trainer of [first, second]) trainer.answer(mean);
      }),
  );
  const train = async (agents: readonly RpcAgent[], step: (trainer: number) => Promise<void>): Promise<void> => {
    waiting = [];
    await Promise.all([1, 2].map((trainer) => agents[trainer]!.run(() => step(trainer))));
  };

  it.each(kinds)('gives each the mean of their gradients: %s', async (_, make) => {
    const agents = await start(3);
    await train(agents, async (trainer) => {
      for (let i = 0; i < 5; i++) {
        const mean = await rpcSync('w0', average, [make().mul(2 * trainer)]);
        expect(dense(mean)).toEqual([3, 0, 6, 0]);
      }
    });
  });

  it('lowers their loss', async () => {
    const agents = await start(3);
    const losses: number[][] = [[], []];
    await train(agents, async (trainer) => {
      const target = tensor([trainer, -trainer]);
      let weight = zeros([2], { requiresGrad: true });
      for (let i = 0; i < 10; i++) {
        const loss = weight.sub(target).square().sum();
        losses[trainer - 1]!.push(loss.item());
        loss.backward();
        const mean = await rpcSync('w0', average, [weight.grad!]);
        weight = tensor(weight.detach().sub(mean.mul(0.1)).toArray() as number[], { requiresGrad: true });
      }
    });
    const sums = losses[0]!.map((loss, i) => loss + losses[1]![i]!);
    // The best weight is 1.5 and -1.5, where the two losses are 0.5 each.
    expect(sums[0]).toBe(10);
    expect(sums.at(-1)).toBeLessThan(1.5);
  });
});

describe('meeting', () => {
  it('gathers what every worker gives, the same for all', async () => {
    const agents = await start(3);
    const maps = await Promise.all(agents.map((agent, i) => agent.run(() => allGather({ value: tensor([i]) }))));
    for (const map of maps)
      expect([...map].map(([name, { value }]) => [name, value.item()])).toEqual(many(3, (i) => [`w${i}`, i]));
  });

  it('at a barrier nobody passes before the last has come', async () => {
    const agents = await start(3);
    const log: string[] = [];
    const meet = (rank: number): Promise<unknown> =>
      agents[rank]!.run(() => barrier()).then(() => log.push(`passed ${rank}`));
    const early = [meet(0), meet(1)];
    await new Promise((resolve) => setTimeout(resolve, 80));
    log.push('the last comes');
    await Promise.all([...early, meet(2)]);
    expect(log[0]).toBe('the last comes');
    expect(log.slice(1).sort()).toEqual(['passed 0', 'passed 1', 'passed 2']);
  });

  it('of some does not wait for the others, who meet on their own or not at all', async () => {
    const agents = await start(4);
    const meet = (rank: number, workers: string[]): Promise<void> =>
      agents[rank]!.run(() => barrier({ workers, timeoutMs: 20_000 }));
    await Promise.all([meet(0, ['w0', 'w2']), meet(2, ['w0', 'w2'])]);
    await Promise.all([
      ...[0, 2].map((rank) => meet(rank, ['w0', 'w2'])),
      ...[1, 3].map((rank) => meet(rank, ['w1', 'w3'])),
    ]);
    expect(await agents[1]!.run(() => rpcSync('w0', plus, [1, 2]))).toBe(3);
  });

  it('three times at once does not hang', async () => {
    const agents = await start(3);
    await Promise.all(agents.flatMap((agent) => many(3, () => agent.run(() => barrier({ timeoutMs: 20_000 })))));
  });

  it.each(kinds)('serves the busy ones while the idle ones wait, and again: %s', async (_, make) => {
    const agents = await start(3);
    for (let round = 0; round < 2; round++) {
      const sums = await Promise.all(
        agents.map((agent, rank) =>
          agent.run(async () => {
            const calls = rank === 0 ? many(20, (i) => rpcAsync(1 + (i % 2), add, [make(), make()])) : [];
            const results = await Promise.all(calls);
            await barrier({ timeoutMs: 20_000 });
            return results.map((sum) => dense(sum));
          }),
        ),
      );
      expect(sums).toEqual([many(20, () => [2, 0, 4, 0]), [], []]);
    }
  });
});

describe('leaving', () => {
  it('waits for workers that still have work for others', async () => {
    const agents = await start(3);
    const results: number[] = [];
    const work = agents[0]!.run(async () => {
      for (let i = 0; i < 10; i++) results.push(await rpcSync(1 + (i % 2), sleep, [5]));
    });
    const idle = [1, 2].map((rank) => agents[rank]!.shutdown({ timeoutMs: 30_000 }));
    await work;
    expect(results).toHaveLength(10);
    await Promise.all([agents[0]!.shutdown({ timeoutMs: 30_000 }), ...idle]);
  });

  it('at once needs nobody, with calls before and without', async () => {
    const [a, b] = await start(2);
    await a!.shutdown({ graceful: false });
    await b!.shutdown({ graceful: false });
    const [c, d] = await start(2);
    expect(await c!.run(() => rpcSync('w1', plus, [1, 2]))).toBe(3);
    await Promise.all([c!.shutdown({ graceful: false }), d!.shutdown({ graceful: false })]);
    await expect(c!.run(() => rpcSync('w1', plus, [1, 2]))).rejects.toThrow('RPC has not been initialized');
  });

  it('waits for calls that lead to calls which nobody waits for', async () => {
    const agents = await start(3);
    arrived.length = 0;
    agents[0]!.run(() => rpcOneway('w1', hop, [6, 3]));
    await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 30_000 })));
    await until(() => arrived.length === 7, 'every hop ran');
    expect(arrived).toEqual(['w1', 'w2', 'w0', 'w1', 'w2', 'w0', 'w1']);
  });
});

/** Runs `fn` on the first of three workers. */
async function onFirst(fn: () => Promise<void>): Promise<void> {
  const [first] = await start(3);
  await first!.run(fn);
}

describe('waitAll', () => {
  it('waits for twenty calls, but not for those of rpcSync', () =>
    onFirst(async () => {
      const done: number[] = [];
      await waitAll(() => {
        for (let i = 0; i < 20; i++) void rpcAsync('w1', plus, [i, 0]).then((x) => done.push(x));
        rpcSync('w1', fail, ['not collected']).catch(() => undefined);
      });
      expect(done.sort((a, b) => a - b)).toEqual(many(20, (i) => i));
    }));

  it.each<[string, () => unknown, string]>([
    [
      'a call times out',
      () => void rpcAsync('w1', sleep, [2_000], { timeoutMs: 20 }),
      'RPC ran for more than set timeout',
    ],
    ['a handler throws', () => void rpcAsync('w1', fail, ['in the handler']), 'in the handler'],
    [
      'its function throws',
      () => {
        void rpcAsync('w1', plus, [1, 1]);
        throw new RangeError('in the function');
      },
      'in the function',
    ],
    ['every call fails', () => many(10, () => rpcAsync('w1', fail, ['each']).catch(() => undefined)), 'each'],
    [
      'one of ten fails',
      () => many(10, (i) => void (i === 6 ? rpcAsync('w1', fail, ['one']) : rpcAsync('w1', plus, [i, 1]))),
      'one',
    ],
    ['a tensor operation fails', () => void rpcAsync('w1', add, [ones([2]), ones([3])]), 'must match the size'],
  ])('fails when %s, and the next one starts anew', (_, fn, words) =>
    onFirst(async () => {
      await expect(waitAll(fn)).rejects.toThrow(words);
      await waitAll(() => void rpcAsync('w1', plus, [1, 1]));
    }),
  );

  it.each<[string, () => unknown]>([
    ['nothing else fails', () => undefined],
    ['one of them fails', () => void rpcAsync('w1', fail, ['of a call'])],
    ['one leads to another', () => void rpcAsync('w1', plus, [1, 1]).then(() => rpcAsync('w1', sleep, [60]))],
  ])('waits for its calls when its function throws, and %s', (_, more) =>
    onFirst(async () => {
      const over: unknown[] = [];
      let gate = (): void => undefined;
      const error = await failure(
        waitAll(async () => {
          void rpcAsync('w2', sleep, [80]).then((ms) => over.push(ms));
          const first = rpcAsync('w1', plus, [1, 1]).then((sum) => over.push(sum));
          void first.then(() => gate());
          more();
          await new Promise<void>((resolve) => (gate = resolve));
          throw new RangeError('in the function');
        }),
      );
      expect(error).toEqual(new RangeError('in the function'));
      expect(over).toEqual([2, 80]);
    }),
  );

  it.each([
    ['a function', () => void rpcAsync('w1', fail, ['early'])],
    ['a tensor operation', () => void rpcAsync('w1', add, [ones([2]), ones([3])])],
  ])('does not wait for the slowest call when %s failed', (_, failing) =>
    onFirst(async () => {
      let slowIsOver = false;
      const stop = new AbortController();
      const waiting = waitAll(() => {
        rpcAsync('w2', sleep, [20_000], { signal: stop.signal }).then(
          () => (slowIsOver = true),
          () => (slowIsOver = true),
        );
        failing();
      });
      await expect(waiting).rejects.toThrow();
      expect(slowIsOver).toBe(false);
      stop.abort();
    }),
  );
});
