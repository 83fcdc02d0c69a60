/** @file Programs that use the package wrongly: each is told so at once, in words about what is wrong, and nothing is left behind. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ones, tensor, type Tensor } from '@backwire/tensor';
import {
  allGather,
  barrier,
  callContext,
  createAgent,
  processGroup,
  rpcFunction,
  rpcInfo,
  rpcOneway,
  rpcStream,
  rpcSync,
  waitAll,
  type AgentEvents,
  type CallOptions,
  type RpcAgent,
  type ShutdownOptions,
} from '../src/index.ts';
import { startCluster, type Cluster } from './cluster.ts';

const echo = rpcFunction('misuse/echo', (x: unknown) => x);
let noted = 0;
const note = rpcFunction('misuse/note', () => void noted++);
const count = rpcFunction('misuse/count', function* (n: number) {
  for (let i = 0; i < n; i++) yield i;
});

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(2);
});
afterAll(() => cluster.close());
const from0 = <T>(fn: () => T): T => cluster.at(0).run(fn);
const send = (value: unknown, options?: CallOptions): Promise<unknown> =>
  from0(() => rpcSync('w1', echo, [value], options));
const failure = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => new Error('no failure'),
    (error: unknown) => error as Error,
  );

describe('values that cannot travel', () => {
  const cyclic: Record<string, unknown> = { inner: {} };
  (cyclic['inner'] as Record<string, unknown>)['again'] = cyclic;
  let deep: unknown = 1;
  for (let i = 0; i < 100_000; i++) deep = { d: deep };
  const detached = new Uint8Array(8);
  structuredClone(detached.buffer, { transfer: [detached.buffer] });

  it.each([
    ['a symbol', Symbol('x'), /cannot send a symbol at \$\[0\]/],
    ['a function', () => 1, /cannot send a function at \$\[0\]/],
    ['a promise', Promise.resolve(1), /class Promise at \$\[0\]: await it, and send what it resolves with/],
    ['a thenable', { then: () => 1 }, /a function at \$\[0\]\.then/],
    ['an instance', new (class Foo {})(), /class Foo at/],
    ['a cycle', cyclic, /contains itself at \$\[0\]\.inner\.again/],
    [
      'a getter that throws',
      {
        get x() {
          throw new Error('unreadable x');
        },
      },
      /unreadable x/,
    ],
    ['a detached buffer', detached, /detached/],
  ])('%s', async (_what, value, text) => {
    expect((await failure(send(value))).message).toMatch(text);
    expect(await send('after')).toBe('after');
  });

  it('a tensor that was disposed, and where it was', async () => {
    const gone = tensor([1]);
    gone.dispose();
    const { message } = await failure(send(gone));
    expect(message).toMatch(
      /^the arguments of 'misuse\/echo' for worker 'w1': this tensor was disposed \(at .*misuse\.test/,
    );
  });

  it.each([
    ['too deep', deep],
    ['five million holes', Object.assign([], { length: 5_000_000 })],
    ['a string of 270 MB', 'x'.repeat(270_000_000)],
    ['more tensors than a message may have', Array.from({ length: 66_000 }, () => tensor([1]))],
  ])('%s: it did not run, and would not another time', async (_what, value) => {
    expect(rpcInfo(await failure(send(value)))).toMatchObject({
      code: 'resource-exhausted',
      executed: 'no',
      retryable: false,
    });
    expect(cluster.at(0).debugInfo()['agent.client_active_calls']).toBe(0);
  });
});

describe('odd values that can', () => {
  it('keep what they are', async () => {
    expect(await send(-0)).toBe(-0);
    const withHole: number[] = [];
    withHole[0] = 1;
    withHole[2] = 3;
    expect(await send(withHole)).toEqual([1, undefined, 3]);
    expect(await send('a\ud800b')).toBe('a\ud800b');
    expect(await send(-(2n ** 200n))).toBe(-(2n ** 200n));
    expect(Number.isNaN(((await send(new Date(Number.NaN))) as Date).getTime())).toBe(true);
    expect(await send(new Map([[{ a: 1 }, new Set([1, 'x'])]]))).toEqual(new Map([[{ a: 1 }, new Set([1, 'x'])]]));
    expect(await send(new Float32Array(10).fill(2).subarray(3, 5))).toEqual(new Float32Array([2, 2]));
    expect(await send(new Uint8Array(new SharedArrayBuffer(8), 2, 3).fill(7))).toEqual(new Uint8Array([7, 7, 7]));
    const polluting = (await send(JSON.parse('{"__proto__":{"polluted":1},"constructor":2}'))) as object;
    expect(Object.keys(polluting)).toEqual(['__proto__', 'constructor']);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('share a tensor, and storages, as they did', async () => {
    const base = tensor([1, 2, 3, 4, 5, 6]).reshape([2, 3]);
    const [a, b, row] = (await send([base, base, base.select(0, 1)])) as [Tensor, Tensor, Tensor];
    expect(a).toBe(b);
    expect(row.storage).toBe(a.storage);
    expect(row.toArray()).toEqual([4, 5, 6]);
    expect(((await send(base.transpose(0, 1).narrow(0, 1, 2))) as Tensor).toArray()).toEqual([
      [2, 5],
      [3, 6],
    ]);
    expect(((await send(ones([1, 3]).expand([4, 3]))) as Tensor).shape).toEqual([4, 3]);
    expect(((await send(ones([0, 3]))) as Tensor).shape).toEqual([0, 3]);
  });

  it.each([[3], [100_000]])('are sent as they were when the call was made: %i floats', async (size) => {
    const changed = ones([size]).mul(1);
    const first = send(changed);
    changed.add_(5);
    const disposed = ones([size]).mul(2);
    const second = send(disposed);
    disposed.dispose();
    const aliased = ones([size]).mul(3);
    const bytes = aliased.dataSync();
    const third = send(aliased);
    (bytes as Float32Array).fill(9);
    const sums = await Promise.all([first, second, third]);
    expect(sums.map((x) => (x as Tensor).mean().item())).toEqual([1, 2, 3]);
  });
});

describe('options', () => {
  it.each([
    ['a text', 'agent'],
    ['an object', {}],
  ])('name an agent, not %s', async (_what, agent) => {
    const error = await failure(rpcSync('w1', echo, [1], { agent: agent as unknown as RpcAgent }));
    expect(error).toEqual(new TypeError('the agent in the options is no agent'));
  });

  it.each([[''], [5], ['x'.repeat(5_000)], ['half a pair: \ud800']])('have a fit idempotency key', async (key) => {
    const error = await failure(send(1, { idempotencyKey: key as string }));
    expect(rpcInfo(error)).toMatchObject({ code: 'invalid-argument', executed: 'no' });
  });

  it('of a one-way call are looked at too', async () => {
    const oneway = (options: unknown) => () => from0(() => rpcOneway('w1', note, [], options as CallOptions));
    expect(oneway({ signal: {} })).toThrow(TypeError);
    expect(oneway(5)).toThrow(TypeError);
    expect(oneway({ timeoutMs: -1 })).toThrow(RangeError);
    expect(oneway({ signal: AbortSignal.abort('before') })).toThrow('cancelled');
    expect(await send('after them')).toBe('after them');
    expect(noted).toBe(0);
  });

  it.each([[0], [-1], [1.5], [Number.NaN], [Infinity], [2 ** 40]])(
    'let a stream be so many items ahead, not %d',
    async (highWaterItems) => {
      // What does not fit the field of the frame must not become "none", for which a stream waits for ever.
      expect(() => from0(() => rpcStream('w1', count, [3], { highWaterItems }))).toThrow(RangeError);
    },
  );

  it('let a stream be a million items ahead', async () => {
    const items: number[] = [];
    for await (const item of from0(() => rpcStream('w1', count, [50], { highWaterItems: 2 ** 20 }))) items.push(item);
    expect(items).toHaveLength(50);
  });
});

describe('an agent', () => {
  it('knows its events', () => {
    const on = (event: string, listener: unknown, options?: object) => () =>
      cluster.at(0).on(event as keyof AgentEvents, listener as () => void, options);
    expect(on('peer-dwon', () => 0)).toThrow("no event is named 'peer-dwon'");
    expect(on('__proto__', () => 0)).toThrow('no event is named');
    expect(on('peer-down', undefined)).toThrow("a listener of 'peer-down' is a function");
    expect(on('peer-down', () => 0, { signal: {} })).toThrow(TypeError);
  });

  it('rejects a shutdown that is asked for wrongly, and goes on', async () => {
    for (const options of [{ timeoutMs: -1 }, { timeoutMs: 'x' }, { onLeak: 'explode' }, 5]) {
      const promise = cluster.at(0).shutdown(options as unknown as ShutdownOptions);
      await expect(promise).rejects.toThrow();
    }
    expect(await send('still here')).toBe('still here');
  });

  it('says the same to all that ask for its end, and to what comes after', async () => {
    const other = await startCluster(1);
    const agent = other.at(0);
    const open = failure(agent.run(() => rpcSync('w0', rpcNever, [])));
    const ends = [agent.shutdown({ graceful: false }), agent.shutdown(), agent[Symbol.asyncDispose]()];
    expect(rpcInfo(await open)).toMatchObject({ code: 'unavailable', executed: 'maybe' });
    await Promise.all(ends);
    await agent.shutdown();
    const after = await failure(agent.run(() => rpcSync('w0', echo, [1])));
    expect(rpcInfo(after)).toMatchObject({ code: 'failed-precondition', executed: 'no' });
    expect(() => agent.run(() => rpcOneway('w0', note))).toThrow('RPC has not been initialized');
    expect(() => agent.run(() => rpcStream('w0', count, [1]))).toThrow('RPC has not been initialized');
    expect(Object.keys(agent.debugInfo())).not.toHaveLength(0);
    expect(Object.keys(agent.metrics())).not.toHaveLength(0);
  });
});

it('waitAll and the collectives say what they take', async () => {
  await expect(from0(() => waitAll(5 as never))).rejects.toThrow('waitAll(fn) takes a function');
  const group = from0(() => processGroup());
  await expect(group.allReduce(5 as never)).rejects.toThrow('allReduce() takes a tensor, got 5');
  for (const op of ['max', 'first', 'mean-there', 5, null])
    await expect(group.allReduce(ones([1]), op as never)).rejects.toThrow(/allReduce\(\) has 'sum' and 'mean', got /);
  await expect(group.broadcast([1] as never, 0)).rejects.toThrow('broadcast() takes a tensor, got a list');
});

it('meetings take no options of calls that mean nothing there', async () => {
  for (const meet of [(o: CallOptions) => allGather(1, o), (o: CallOptions) => barrier(o)]) {
    const asked = (o: object): Promise<unknown> => from0(async () => meet({ ...o, timeoutMs: 200 }));
    await expect(asked({ idempotencyKey: 'key' })).rejects.toThrow(
      'takes no idempotency key: every call of it is a meet',
    );
    await expect(asked({ ordered: false })).rejects.toThrow('the workers meet in the order of their calls');
    await expect(asked({ ordered: 1 })).rejects.toThrow('ordered is true or false, got 1');
  }
});

it('options are an object with their names: what others hold would be lost', async () => {
  for (const [given, what] of [
    [new Map([['timeoutMs', 1]]), 'an object of class Map'],
    [new Set(['timeoutMs']), 'an object of class Set'],
    [Promise.resolve({ timeoutMs: 1 }), 'a Promise: await it'],
  ] as const)
    await expect(send(1, given as never)).rejects.toThrow(`options are an object with their names, got ${what}`);
  expect(await send(1, Object.create(null) as CallOptions)).toBe(1);
  expect(() => rpcFunction('misuse/scoped', () => 1, { scope: 'no' as never })).toThrow('true or false');
});

it.each([2 ** 32, 1e12, Number.MAX_VALUE, Infinity])(
  'a time of %d ms, longer than can be told, is no limit',
  async (ms) => {
    const left = rpcFunction('misuse/left', leftMs);
    expect(await from0(() => rpcSync('w1', left, [], { timeoutMs: ms }))).toBe(Infinity);
    expect(await from0(() => rpcSync('w1', left, [], { timeoutMs: 2 ** 32 - 2 }))).toBeLessThan(2 ** 32 + 60_000);
  },
);
const leftMs = (): number => callContext().remainingMs();

it('a secret that is too short says how to make one', async () => {
  const security = { mode: 'hmac', secret: 'short' } as const;
  await expect(createAgent({ name: 'w', rank: 0, worldSize: 1, store: 'memory://short', security })).rejects.toThrow(
    'at least 16 are needed: make one with `openssl rand -base64 32`',
  );
});

const rpcNever = rpcFunction('misuse/never', () => new Promise<void>(() => undefined));
