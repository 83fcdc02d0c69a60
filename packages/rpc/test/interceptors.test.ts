/** @file Extensions of users: hooks that spread, change, count and answer what passes them. */
import { encodeValue } from '@backwire/wire';
import { afterEach, describe, expect, it } from 'vitest';
import { full, tensor, type Tensor } from '@backwire/tensor';
import { rpcAsync, rpcFunction, rpcStream, rpcSync, type Extension, type ExtensionSession } from '../src/index.ts';
import { startCluster, type Cluster } from './cluster.ts';

let runs = 0;
const once = rpcFunction('interceptors/once', async (x: Tensor) => {
  runs++;
  await new Promise((resolve) => setTimeout(resolve, 20));
  return x.add(runs);
});
const sum = rpcFunction('interceptors/sum', (x: Tensor, y: number) => x.add(y));
const ignore = rpcFunction('interceptors/ignore', (_: readonly unknown[]) => undefined);
const count = rpcFunction('interceptors/count', function* (to: number) {
  for (let i = 0; i < to; i++) yield i;
});

let cluster: Cluster | undefined;
afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
  runs = 0;
});

/** Two agents with an extension of these hooks; calls are made by the first. */
async function start(session: ExtensionSession): Promise<<T>(fn: () => T) => T> {
  const extension: Extension = { name: 'mine', attach: () => session };
  cluster = await startCluster(2, { extensions: [extension] });
  const caller = cluster.at(0);
  return (fn) => caller.run(fn);
}

describe('hooks of a user', () => {
  it('may spread a request, and replace any part of it', async () => {
    const run = await start({
      request: (call) => ({ ...call, message: { ...call.message } }),
      serve: (call, next) => next({ ...call, message: { ...call.message } }),
      response: (_from, reply) => ({ ...reply }),
    });
    const y = await run(() => rpcSync('w1', sum, [full([5_000], 2), 3]));
    expect([y.shape, y.sum().item()]).toEqual([[5_000], 25_000]);
    await cluster?.close();
    const other = await start({
      request: (call) => ({ ...call, message: { ...call.message, tensors: [tensor([10, 20])] } }),
    });
    expect((await other(() => rpcSync('w1', sum, [tensor([1, 2]), 1]))).toArray()).toEqual([11, 21]);
  });

  it('that follow a call hear of its end once, also where a hook behind them throws', async () => {
    const heard: unknown[] = [];
    const follows: Extension = {
      name: 'follows',
      attach: () => ({
        request: (call) => ({ ...call, settled: ({ error }: { error?: unknown }) => heard.push(error) }),
      }),
    };
    const refusal = new RangeError('not this one');
    const throws: Extension = {
      name: 'throws',
      attach: () => ({
        request: (call) => {
          if (call.label?.name === 'interceptors/sum') throw refusal;
          return { ...call, message: { ...call.message } };
        },
      }),
    };
    cluster = await startCluster(2, { extensions: [follows, throws] });
    const caller = cluster.at(0);
    await expect(caller.run(() => rpcSync('w1', sum, [tensor([1]), 1]))).rejects.toBe(refusal);
    expect(heard).toEqual([refusal]);
    // Arguments are encoded when a hook looks at them.
    await expect(caller.run(() => rpcSync('w1', ignore, [[() => 1]]))).rejects.toThrow('cannot send a function');
    expect(heard).toEqual([refusal, expect.any(TypeError)]);
    await caller.run(() => rpcSync('w1', ignore, [[]]));
    expect(heard.slice(2)).toEqual([undefined]);
  });

  it.each([
    ['plain calls', {}],
    ['calls that are served', { serve: (call, next) => next(call) } satisfies ExtensionSession],
  ])('%s give values back whose neighbours never settle well', async (_, session) => {
    class Mark {
      readonly fails: boolean;
      constructor(fails: boolean) {
        this.fails = fails;
      }
    }
    let given = 0;
    const values: ExtensionSession['values'] = [
      {
        tag: 'mark',
        match: (value) => value instanceof Mark,
        encode: (value) => (value as Mark).fails,
        decode: (plain, _from, pending) => {
          if (plain === true) pending?.push(Promise.reject(new RangeError('never confirmed')));
          return new Mark(plain === true);
        },
        discard: () => given++,
      },
    ];
    const mark: Extension = { name: 'marks', attach: () => ({ ...session, values }) };
    cluster = await startCluster(2, { extensions: [mark] });
    const caller = cluster.at(0);
    const call = caller.run(() => rpcSync('w1', ignore, [[new Mark(false), new Mark(true)]]));
    await expect(call).rejects.toThrow('never confirmed');
    expect(given).toBe(2);
    await caller.run(() => rpcSync('w1', ignore, [[new Mark(false)]]));
    expect(given).toBe(2);
  });

  it('see every reply, of plain calls too', async () => {
    const seen: string[] = [];
    const run = await start({
      response: (from, reply) => {
        seen.push(from.name);
        const { bytes, tensors } = encodeValue('another answer');
        return { ...reply, payload: bytes, tensors };
      },
    });
    expect(await run(() => rpcSync('w1', sum, [tensor([1]), 1]))).toBe('another answer');
    expect(await run(() => rpcSync('w0', sum, [tensor([1]), 1]))).toBe('another answer');
    expect(seen).toEqual(['w1', 'w0']);
  });

  it('do not take the key from a call: it runs once', async () => {
    const run = await start({ serve: (call, next) => next(call) });
    const calls = run(() => [1, 2, 3].map(() => rpcAsync('w1', once, [tensor([1])], { idempotencyKey: 'k' })));
    expect((await Promise.all(calls)).map((y) => y.toArray())).toEqual([[2], [2], [2]]);
    expect(runs).toBe(1);
  });

  it('that answer a stream themselves end it', async () => {
    const { bytes, tensors } = encodeValue('no stream');
    const run = await start({ serve: async () => ({ type: 0x203, id: 0n, payload: bytes, tensors }) });
    const items = run(() => rpcStream('w1', count, [3]));
    await expect(items.next()).rejects.toMatchObject({ code: 'failed-precondition' });
  });
});

describe('a stream with an idempotency key', () => {
  it('is refused before it starts', async () => {
    const run = await start({});
    const items = run(() => rpcStream('w1', count, [3], { idempotencyKey: 'k' }));
    await expect(items.next()).rejects.toMatchObject({ code: 'invalid-argument', executed: 'no' });
  });
});
