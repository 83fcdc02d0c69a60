/** @file Workers of torch groups among themselves, without torch: joining, calls, values, errors, collectives, leaving. */
import {
  RemoteError,
  allGather,
  barrier,
  currentAgent,
  registerErrorType,
  rpcClass,
  rpcFunction,
  rpcInfo,
  rpcSync,
} from '@backwire/rpc';
import { add, rpcName, sum, tensor, type Tensor } from '@backwire/tensor';
import { freePort } from '@backwire/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { joinTorch } from '../src/index.ts';
import { createTorchAgent } from '../src/join.ts';
import { py } from '../src/py.ts';
import { group, leave } from './group.ts';

const scale = rpcFunction('app.scale', (x: Tensor, factor: number) => x.mul(factor));
const plain = rpcFunction('plain', (...args: unknown[]) => args);
const fails = rpcFunction('app.fails', (text: string): number => {
  throw new RangeError(text);
});
class Strange extends Error {}
registerErrorType(Strange);
const failsStrangely = rpcFunction('app.fails_strangely', async (text: string): Promise<never> => {
  throw new Strange(text);
});
const never = rpcFunction('app.never', () => new Promise<never>(() => undefined));
class Point {
  static readonly [rpcName] = 'app.Point';
  x: number;
  constructor(x: number) {
    this.x = x;
  }
  doubled(): number {
    return 2 * this.x;
  }
}
rpcClass(Point, { methods: ['doubled'] });

describe('joining', () => {
  it.each([
    [{ worldsize: 1 }, /worldsize/],
    [{ membership: 'fixed' }, /membership is 'static' or 'dynamic', got 'fixed'/],
    [{ initMethod: 5 }, /initMethod is a text, got 5/],
    [{ bind: 5 }, /bind is a text/],
    [{ channels: 'basic' }, /channels is a list/],
    [{ serve: 'x' }, /serve is a list or 'all-defined'/],
    [{ generation: -1.5 }, /generation is a whole number/],
    [{ logger: 5 }, /logger is an object such as console, got 5, which has no debug\(\)/],
    [{ limits: { maxBodyBytes: Number.NaN } }, /limits.maxBodyBytes is a positive number, got NaN/],
    [{ limits: { maxBody: 5 } }, /maxBody/],
  ] as const)('refuses %o, of programs without types', async (options, text) => {
    const given = {
      name: 'n0',
      rank: 0,
      worldSize: 1,
      initMethod: 'tcp://127.0.0.1:1',
      trustNetwork: true,
      ...options,
    };
    await expect(createTorchAgent(given as never)).rejects.toThrow(text);
  });

  it('refuses without trustNetwork, before anything is opened', async () => {
    const options = { name: 'n0', rank: 0, worldSize: 1, initMethod: 'tcp://127.0.0.1:1' } as never;
    await expect(createTorchAgent(options)).rejects.toMatchObject({ code: 'failed-precondition' });
  });

  it.each([
    [{ name: 'a b' }, /letters, digits/],
    [{ name: 'a-b', membership: 'dynamic' }, /no '-' in its name/],
    [{ rank: 2, worldSize: 2 }, /rank is a whole number from 0 to 1/],
    [{ worldSize: 2 }, /needs its rank/],
    [{ rank: 0, worldSize: 1, channels: ['backwire'] }, /'basic' always among them; got backwire/],
    [{ rank: 0, worldSize: 1, channels: ['basic', 'cma'] }, /channels are some of backwire, basic/],
    [{ rank: 0, worldSize: 1, initMethod: 'http://x' }, /tcp:\/\/host:port/],
  ] as const)('refuses %o', async (options, text) => {
    const given = { name: 'n0', initMethod: 'tcp://127.0.0.1:1', trustNetwork: true, ...options };
    await expect(createTorchAgent(given as never)).rejects.toThrow(text);
  });

  it('says who is missing', async () => {
    const port = await freePort();
    const options = { name: 'n0', rank: 0, worldSize: 2, initMethod: `tcp://127.0.0.1:${port}`, trustNetwork: true };
    await expect(createTorchAgent({ ...options, initTimeoutMs: 200 })).rejects.toThrow(/only 1 of 2 workers/);
  });

  it.each([1, 2, 3, 5])('brings %i workers together and apart again', async (size) => {
    const agents = await group(size);
    expect(agents.map((agent) => agent.members.names())).toEqual(
      agents.map(() => Array.from({ length: size }, (_, rank) => `n${rank}`)),
    );
    await leave(agents);
    expect(agents.map((agent) => agent.isClosed)).toEqual(agents.map(() => true));
  });

  it('refuses two workers of one name on all of them', async () => {
    const port = await freePort();
    const joins = [0, 1].map((rank) =>
      createTorchAgent({
        name: 'same',
        rank,
        worldSize: 2,
        initMethod: `tcp://127.0.0.1:${port}`,
        trustNetwork: true,
        generation: 0,
        initTimeoutMs: 10_000,
      }),
    );
    for (const outcome of await Promise.allSettled(joins))
      expect(String((outcome as PromiseRejectedResult).reason)).toMatch(/'same' is not unique/);
  });
});

describe('joinTorch', () => {
  it('makes its worker the default of the process, until it has left', async () => {
    const initMethod = `tcp://127.0.0.1:${await freePort()}`;
    const options = { name: 'alone', rank: 0, worldSize: 1, initMethod, trustNetwork: true };
    const agent = await joinTorch(options);
    expect(currentAgent()).toBe(agent);
    await expect(joinTorch(options)).rejects.toMatchObject({ code: 'failed-precondition' });
    expect(await rpcSync('alone', plain, [1])).toEqual([1]);
    await agent.shutdown({ timeoutMs: 10_000 });
    expect(() => currentAgent()).toThrow(/has not been initialized/);
  });
});

describe.each([['backwire', 'basic'] as const, ['basic'] as const])('calls by the channels %s %s', (...channels) => {
  let agents: Agent[];
  let me: Agent;
  beforeAll(async () => {
    agents = await group(2, channels);
    me = agents[0] as Agent;
  });
  afterAll(() => leave(agents));
  afterEach(() =>
    expect(agents.map((agent) => [agent.caller.active, agent.server.active])).toEqual([
      [0, 0],
      [0, 0],
    ]),
  );

  const call = ((...args: Parameters<typeof rpcSync>) => me.run(() => rpcSync(...args))) as typeof rpcSync;

  it('runs functions with and without a module, on others and on itself', async () => {
    const x = tensor([1, 2, 3]);
    for (const to of ['n1', 1, 'n0']) {
      expect((await call(to, scale, [x, 2])).toArray()).toEqual([2, 4, 6]);
      expect(await call(to, plain, [1, 'a', null, [true], new Map([['k', 1.5]])])).toEqual([
        1,
        'a',
        null,
        [true],
        new Map([['k', 1.5]]),
      ]);
    }
  });

  it('hands keyword arguments over as an object at the end', async () => {
    expect(await call('n1', plain, [1, py.kwargs({ by: 2 })])).toEqual([1, new Map([['by', 2]])]);
  });

  it('sends instances of published classes', async () => {
    const [point] = (await call('n1', plain, [new Point(4)])) as [Point];
    expect(point).toBeInstanceOf(Point);
    expect(point.doubled()).toBe(8);
  });

  it('calls operators by schema', async () => {
    const x = tensor([1, 2, 3]);
    expect((await call('n1', add, [x, x])).toArray()).toEqual([2, 4, 6]);
    expect((await call('n1', add, [x, x, { alpha: 3 }])).toArray()).toEqual([4, 8, 12]);
    expect((await call('n1', sum, [x])).item()).toBe(6);
    await expect(call('n1', add, [x, 'text' as never])).rejects.toThrow(/no overload of 'aten::add' takes/);
  });

  it('rejects with what the handler threw, rebuilt where its class is known', async () => {
    const error = await call('n1', fails, ['é 😀 \\ \n "']).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RangeError);
    expect((error as Error).message).toBe('é 😀 \\ \n "');
    expect(rpcInfo(error)).toBeInstanceOf(RemoteError);
    expect((rpcInfo(error) as RemoteError).remoteStack).toContain('agents.test.ts');
    await expect(call('n1', failsStrangely, ['odd'])).rejects.toBeInstanceOf(Strange);
  });

  it('refuses names that are not offered, naming them', async () => {
    const error = await call('n1', py('os.system'), ['true']).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'not-found', executed: 'no' });
    expect(String(error)).toContain('os.system');
    await expect(call('n7', scale, [tensor([1]), 1])).rejects.toMatchObject({ code: 'not-found' });
  });

  it('gives up when the time is over or the signal fires', async () => {
    await expect(call('n1', never, [], { timeoutMs: 30 })).rejects.toMatchObject({ code: 'deadline-exceeded' });
    const controller = new AbortController();
    const asked = call('n1', never, [], { signal: controller.signal });
    setTimeout(() => controller.abort(new Error('enough')), 10);
    await expect(asked).rejects.toMatchObject({ code: 'cancelled' });
    // What never ends on the other side is not what this test is about.
    (agents[1] as Agent).server.active -= 2;
  });

  it('gathers objects and meets at barriers', async () => {
    const gathered = await Promise.all(agents.map((agent) => agent.run(() => allGather(agent.id * 10))));
    for (const values of gathered)
      expect([...values].sort()).toEqual([
        ['n0', 0],
        ['n1', 10],
      ]);
    await Promise.all(agents.map((agent) => agent.run(() => barrier())));
    const late = me.run(() => barrier({ timeoutMs: 30 }));
    await expect(late).rejects.toThrow(/n1/);
  });
});

describe('what programs throw and give', () => {
  let agents: Agent[] = [];
  const stray: unknown[] = [];
  const note = (reason: unknown): void => void stray.push(reason);
  beforeAll(async () => {
    process.on('unhandledRejection', note);
    agents = await group(2);
  });
  afterAll(async () => {
    process.off('unhandledRejection', note);
    await leave(agents);
  });

  const odd: Readonly<Record<string, unknown>> = {
    nothing: Object.create(null),
    symbol: Symbol('s'),
    number: Object.assign(new Error('x'), { message: 5 }),
    stack: Object.assign(new Error('x'), { stack: 5 }),
    rootless: Object.assign(new Error('x'), { constructor: undefined }),
    named: Object.assign(new Error('x'), { name: Symbol('q') }),
    getter: Object.defineProperty(new Error('x'), 'message', {
      get() {
        throw Object.create(null);
      },
    }),
    proxy: new Proxy(new Error('p'), {
      get() {
        throw Object.create(null);
      },
      getPrototypeOf() {
        throw Object.create(null);
      },
    }),
  };

  it.each(Object.keys(odd))('is an error at the caller, whatever it is: %s', async (kind) => {
    const [a, b] = agents as [Agent, Agent];
    const thrown = odd[kind];
    b.offer(`odd.${kind}`, () => {
      throw thrown;
    });
    b.offer(`odd.${kind}_later`, async () => {
      await Promise.resolve();
      throw thrown;
    });
    for (const path of [`odd.${kind}`, `odd.${kind}_later`])
      for (const fn of [py(path), py.script(path)]) {
        const call = a.run(() => rpcSync('n1', fn, [], { timeoutMs: 10_000 }));
        const error = await call.then(
          () => 'it has answered',
          (reason: unknown) => reason as Error & { code?: string },
        );
        expect(error).toBeInstanceOf(Error);
        expect((error as { code?: string }).code ?? 'remote-error', String(error)).toBe('remote-error');
      }
    // The connection is still there, and nothing is left open.
    expect(await a.run(() => rpcSync('n1', plain, [1]))).toEqual([1]);
    expect(stray).toEqual([]);
  });

  it('is an error at the caller when a result cannot be read', async () => {
    const [a, b] = agents as [Agent, Agent];
    const unreadable = {
      get a(): number {
        throw Object.create(null);
      },
    };
    b.offer('odd.result', () => unreadable);
    b.offer('odd.result_later', async () => Promise.resolve(unreadable));
    for (const path of ['odd.result', 'odd.result_later'])
      await expect(a.run(() => rpcSync('n1', py(path), [], { timeoutMs: 10_000 }))).rejects.toThrow(/\{\}/);
    expect(stray).toEqual([]);
  });

  it('is refused before anything is sent where it is no signal', async () => {
    const [a] = agents as [Agent];
    const call = a.run(() => rpcSync('n1', plain, [1], { signal: {} as AbortSignal }));
    await expect(call).rejects.toThrow(/signal is an AbortSignal/);
    expect(await a.run(() => rpcSync('n1', plain, [2]))).toEqual([2]);
    expect(a.debugInfo()).toMatchObject({ 'agent.client_active_calls': 0 });
  });
});
