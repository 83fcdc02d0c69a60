/** @file Calls: values, order, deadlines, cancellation, one-way calls, errors, and who may be called. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { add, rpcName, tensor, type Tensor } from '@backwire/tensor';
import { getRpcErrorType, registerValueType } from '@backwire/wire';
import {
  callContext,
  createAgent,
  currentAgent,
  getRpcTimeoutMs,
  getWorkerInfo,
  getWorkerInfos,
  registerErrorType,
  remoteFunction,
  RemoteError,
  rpcAsync,
  rpcClass,
  RpcError,
  rpcFunction,
  rpcInfo,
  rpcOneway,
  rpcSync,
  setRpcTimeoutMs,
  shutdown,
  waitAll,
  WorkerInfo,
} from './index.ts';
import { startCluster, until, type Cluster } from '../test/cluster.ts';

const echo = rpcFunction('calls/echo', (x: unknown) => x);
const sleep = rpcFunction('calls/sleep', async (ms: number) => {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return ms;
});
const seen: unknown[] = [];
const note = rpcFunction('calls/note', (x: unknown) => void seen.push(x));
const aborted: unknown[] = [];
const untilAborted = rpcFunction('calls/untilAborted', async () => {
  const { signal } = callContext();
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  aborted.push(signal.reason);
});
const remaining = rpcFunction('calls/remaining', () => callContext().remainingMs());
const relay = rpcFunction('calls/relay', (to: string) => rpcSync(to, remaining));
const order: number[] = [];
const ordered = rpcFunction('calls/ordered', (i: number, _x?: Tensor) => void order.push(i));
class CustomError extends Error {}
class UnknownError extends Error {}
const fail = rpcFunction('calls/fail', (kind: string): void => {
  if (kind === 'custom') throw new CustomError('own class');
  if (kind === 'unknown') throw new UnknownError('class of mine');
  if (kind === 'text') throw 'just text';
  throw new TypeError(kind);
});
const stub = remoteFunction<typeof echo>('calls/echo');
class Point {
  static readonly [rpcName] = 'calls/Point';
  readonly x: number;
  constructor(x: number) {
    this.x = x;
  }
  static origin(): Point {
    return new Point(0);
  }
  double(): number {
    return this.x * 2;
  }
}
rpcClass(Point, { methods: ['double'], statics: ['origin'] });

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(3);
});
afterAll(() => cluster.close());
const from0 = <T>(fn: () => T): T => cluster.at(0).run(fn);
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => {
      throw new Error('it did not fail');
    },
    (error: unknown) => error,
  );

describe('calls', () => {
  it('carry tensor operations by their torch name', async () => {
    const sum = await from0(() => rpcAsync('w1', add, [tensor([1, 2]), tensor([10, 20])]));
    expect(sum.toArray()).toEqual([11, 22]);
  });

  it('name workers by name, id and record', async () => {
    for (const to of ['w2', 2, new WorkerInfo('w2', 2)]) expect(await from0(() => rpcSync(to, echo, [to]))).toEqual(to);
    expect(from0(() => getWorkerInfo().toString())).toBe('WorkerInfo(id=0, name=w0)');
    expect(from0(() => getWorkerInfos().map(({ name }) => name))).toEqual(['w0', 'w1', 'w2']);
  });

  it('refuse unknown workers with the known words', async () => {
    for (const [to, what] of [
      ['zz', 'name zz'],
      [77, 'id 77'],
      [-1, 'id -1'],
    ] as const) {
      const error = await failure(from0(() => rpcSync(to, echo, [1])));
      expect(rpcInfo(error)?.code).toBe('not-found');
      expect((error as Error).message).toContain(`could not find destination ${what}`);
    }
    expect(() => from0(() => getWorkerInfo('zz'))).toThrow('could not find destination');
  });

  it('start in the order they were sent, whatever travels with them', async () => {
    order.length = 0;
    const large = tensor(new Float32Array(300_000), { shape: [300_000] });
    const calls = from0(() =>
      Array.from({ length: 60 }, (_, i) => rpcAsync('w1', ordered, i % 7 === 0 ? [i, large] : [i])),
    );
    await Promise.all(calls);
    expect(order).toEqual(Array.from({ length: 60 }, (_, i) => i));
  });

  it.each([
    ['ordered', undefined, [0, 1]],
    ['not ordered', { ordered: false }, [1, 0]],
  ] as const)('start behind 24 MiB of arguments where they are %s', async (_, options, expected) => {
    const weights = tensor(new Float32Array(6 * 2 ** 20), { shape: [6 * 2 ** 20] });
    order.length = 0;
    await from0(async () => {
      const first = rpcAsync('w1', ordered, [0, weights]);
      await Promise.all([first, rpcAsync('w1', ordered, [1], options)]);
    });
    expect(order).toEqual(expected);
  });

  it('refuse an order that is neither', async () => {
    const error = await failure(from0(() => rpcSync('w1', echo, [1], { ordered: 'no' as never })));
    expect((error as Error).message).toContain("ordered is true or false, got 'no'");
  });

  it('say what a handler threw, in its own class where that is known', async () => {
    const standard = await failure(from0(() => rpcSync('w1', fail, ['völlig'])));
    expect(standard).toBeInstanceOf(TypeError);
    expect((standard as Error).message).toBe('völlig');
    expect((standard as Error).cause).toBeInstanceOf(RemoteError);
    expect(((standard as Error).cause as RemoteError).remoteStack).toContain('calls.test.ts');
    const unknown = await failure(from0(() => rpcSync('w1', fail, ['unknown'])));
    expect(unknown).toBeInstanceOf(RemoteError);
    expect((unknown as RemoteError).remoteName).toBe('UnknownError');
    expect((unknown as RemoteError).message).toContain('On WorkerInfo(id=1, name=w1)');
    expect((unknown as RemoteError).message).toContain('class of mine');
    expect((unknown as RemoteError).executed).toBe('yes');
    registerErrorType(CustomError);
    expect(await failure(from0(() => rpcSync('w1', fail, ['custom'])))).toBeInstanceOf(CustomError);
    expect(rpcInfo(await failure(from0(() => rpcSync('w1', fail, ['text']))))?.message).toContain('just text');
  });

  it('run out of time here and there', async () => {
    const started = performance.now();
    const error = await failure(from0(() => rpcSync('w1', untilAborted, [], { timeoutMs: 50 })));
    expect(performance.now() - started).toBeGreaterThanOrEqual(49);
    expect(rpcInfo(error)?.code).toBe('deadline-exceeded');
    expect((error as Error).message).toContain('RPC ran for more than set timeout (50 ms)');
    expect(getRpcErrorType(error)).toBe('timeout');
    expect(rpcInfo(error)?.executed).toBe('maybe');
    await until(() => aborted.length > 0, 'the handler was told');
  });

  it('check times', async () => {
    expect(await failure(from0(() => rpcSync('w1', echo, [1], { timeoutMs: -1 })))).toBeInstanceOf(RangeError);
    expect(await failure(from0(() => rpcSync('w1', echo, [1], { timeoutMs: NaN })))).toBeInstanceOf(RangeError);
    expect(await from0(() => rpcSync('w1', echo, [1], { timeoutMs: 0 }))).toBe(1);
    expect(from0(() => getRpcTimeoutMs())).toBe(60_000);
    from0(() => setRpcTimeoutMs(1_234));
    expect(from0(() => getRpcTimeoutMs())).toBe(1_234);
    from0(() => setRpcTimeoutMs(60_000));
    expect(() => from0(() => setRpcTimeoutMs(-1))).toThrow(RangeError);
  });

  it('pass what is left of the time on', async () => {
    const left = await from0(() => rpcSync('w1', relay, ['w2'], { timeoutMs: 5_000 }));
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(5_000);
    expect(await from0(() => rpcSync('w1', remaining, [], { timeoutMs: 0 }))).toBe(Infinity);
  });

  it('are cancelled by a signal, and tell the handler', async () => {
    aborted.length = 0;
    const controller = new AbortController();
    const call = from0(() => rpcSync('w1', untilAborted, [], { signal: controller.signal }));
    await until(() => cluster.at(1).debugInfo()['agent.server_active_calls'] === 1, 'the handler runs');
    controller.abort(new Error('changed my mind'));
    const error = await failure(call);
    expect(rpcInfo(error)?.code).toBe('cancelled');
    expect((error as Error).cause).toEqual(new Error('changed my mind'));
    await until(() => aborted.length > 0, 'the handler was told');
    const before = await failure(from0(() => rpcSync('w1', note, ['never'], { signal: AbortSignal.abort('x') })));
    expect(rpcInfo(before)?.executed).toBe('no');
    expect(seen).not.toContain('never');
  });

  it('go one way', async () => {
    from0(() => rpcOneway('w1', note, ['one way']));
    await until(() => seen.includes('one way'), 'it arrived');
    from0(() => rpcOneway('w1', fail, ['nobody hears this']));
    expect(() => from0(() => rpcOneway('w1', note, [() => 0]))).toThrow(TypeError);
    expect(await from0(() => rpcSync('w1', echo, ['fine']))).toBe('fine');
  });

  it('find functions without their code, and say when there are none', async () => {
    expect(await from0(() => rpcSync('w1', stub, [5]))).toBe(5);
    expect(() => stub(1)).toThrow('runs on other workers only');
    const missing = await failure(from0(() => rpcSync('w1', remoteFunction<() => void>('calls/missing'))));
    expect(rpcInfo(missing)?.code).toBe('not-found');
    expect(rpcInfo(missing)?.executed).toBe('no');
    const plain = (() => 0) as unknown as typeof echo;
    expect(((await failure(from0(() => rpcSync('w1', plain, [1])))) as Error).message).toContain('no name');
    // Peers would run the class that it extends.
    class NamedAfterAnother extends Point {}
    const inherits = NamedAfterAnother as unknown as typeof echo;
    expect(((await failure(from0(() => rpcSync('w1', inherits, [1])))) as Error).message).toContain(
      'no name of its own',
    );
    expect(await failure(from0(() => rpcSync('w1', 'x' as unknown as typeof echo, [1])))).toEqual(
      new TypeError(
        "function should be callable. Got 'x': a function of other workers is called by its name with remoteFunction('x')",
      ),
    );
  });

  it('reject what cannot travel, and go on', async () => {
    expect(await failure(from0(() => rpcSync('w1', echo, [() => 0])))).toBeInstanceOf(TypeError);
    const loop: unknown[] = [];
    loop.push(loop);
    expect(await failure(from0(() => rpcSync('w1', echo, [loop])))).toBeInstanceOf(TypeError);
    expect(await from0(() => rpcSync('w1', echo, ['after']))).toBe('after');
  });

  it('construct classes that travel by value, and call static methods', async () => {
    registerValueType({ name: 'calls/Point', match: Point, encode: (p) => p.x, decode: (x) => new Point(x as number) });
    const make = remoteFunction<(x: number) => Point>('calls/Point');
    const made = await from0(() => rpcSync('w1', make, [4]));
    expect(made).toBeInstanceOf(Point);
    expect(made.double()).toBe(8);
    const origin = remoteFunction<() => Point>('calls/Point.origin');
    expect((await from0(() => rpcSync('w1', origin))).x).toBe(0);
  });

  it('are waited for by waitAll, which fails at the first error', async () => {
    let done = 0;
    await from0(() =>
      waitAll(() => {
        for (let i = 0; i < 8; i++) void rpcAsync('w1', sleep, [5]).then(() => done++);
      }),
    );
    expect(done).toBe(8);
    const error = await failure(
      from0(() =>
        waitAll(() => {
          void rpcAsync('w1', sleep, [2_000], { timeoutMs: 3_000 });
          void rpcAsync('w1', fail, ['first']);
          void rpcAsync('w1', fail, ['second']);
        }),
      ),
    );
    expect((error as Error).message).toBe('first');
  });

  it('know their context inside handlers only', () => {
    expect(() => callContext()).toThrow('callContext() is for handlers');
    expect(() => currentAgent()).toThrow('RPC has not been initialized');
    expect(from0(() => currentAgent())).toBe(cluster.at(0));
  });

  it('fail after shutdown with the known words', async () => {
    await expect(shutdown()).rejects.toThrow('RPC has not been initialized');
    const alone = await createAgent({ name: 'alone', rank: 0, worldSize: 1, store: 'memory://calls-alone' });
    await alone.shutdown();
    const error = await failure(alone.run(() => rpcSync('alone', echo, [1])));
    expect(error).toBeInstanceOf(RpcError);
    expect((error as Error).message).toContain('RPC has not been initialized');
  });
});
