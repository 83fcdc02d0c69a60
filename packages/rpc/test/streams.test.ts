/** @file Streams: items in order, no further ahead than allowed, ended from either side. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tensor, type Tensor } from '@backwire/tensor';
import { callContext, rpcFunction, rpcInfo, rpcStream, rpcSync } from '../src/index.ts';
import type { Agent } from '../src/agent/agent.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

const produced = new Map<string, number>();
const ended: string[] = [];
const count = rpcFunction('streams/count', async function* (name: string, to: number) {
  try {
    for (let i = 0; i < to; i++) {
      produced.set(name, i + 1);
      yield i;
    }
  } finally {
    ended.push(name);
  }
});
const plain = rpcFunction('streams/plain', function* (to: number) {
  for (let i = 0; i < to; i++) yield { i };
});
const list = rpcFunction('streams/list', () => [1, 2, 3]);
const breaks = rpcFunction('streams/breaks', async function* () {
  yield 1;
  yield 2;
  throw new RangeError('no third');
});
const tensors = rpcFunction('streams/tensors', async function* (sizes: number[]) {
  for (const size of sizes) {
    const x = tensor(new Float32Array(size).fill(size), { shape: [size] });
    yield x;
  }
});
const slowly = rpcFunction('streams/slowly', async function* () {
  await new Promise((resolve) => setTimeout(resolve, 30));
  yield 1;
  yield 2;
});
const evenly = rpcFunction('streams/evenly', async function* (to: number, ms: number) {
  for (let i = 0; i < to; i++) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    yield i;
  }
});
const stalls = rpcFunction('streams/stalls', async function* (name: string) {
  yield 1;
  const { signal } = callContext();
  try {
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  } finally {
    ended.push(name);
  }
});
const who = rpcFunction('streams/who', async function* () {
  yield callContext().caller.name;
});
const value = rpcFunction('streams/value', () => 7);

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(2, { transports: ['unix'] });
});
afterAll(() => cluster.close());
const from0 = <T>(fn: () => T): T => cluster.at(0).run(fn);
async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const item of items) seen.push(item);
  return seen;
}

describe('streams', () => {
  it('give items in order, from generators of both kinds and from lists', async () => {
    expect(await all(from0(() => rpcStream('w1', count, ['order', 500])))).toEqual(
      Array.from({ length: 500 }, (_, i) => i),
    );
    expect((await all(from0(() => rpcStream('w1', plain, [3])))).map(({ i }) => i)).toEqual([0, 1, 2]);
    expect(await all(from0(() => rpcStream('w1', list)))).toEqual([1, 2, 3]);
    expect(await all(from0(() => rpcStream('w0', count, ['self', 3])))).toEqual([0, 1, 2]);
  });

  it('run in the context of their call', async () => {
    expect(await all(from0(() => rpcStream('w1', who)))).toEqual(['w0']);
  });

  it('keep large and small tensors in order', async () => {
    const sizes = [10, 500_000, 20, 100_000, 3_000_000, 1];
    const items = (await all(from0(() => rpcStream('w1', tensors, [sizes])))) as Tensor[];
    expect(items.map(({ size }) => size)).toEqual(sizes);
    expect(items.map((x) => x.dataSync()[x.size - 1])).toEqual(sizes);
  });

  it('stop producing when nobody takes', async () => {
    const stream = from0(() => rpcStream('w1', count, ['slow', 1_000], { highWaterItems: 4 }));
    await stream.next();
    await until(() => (produced.get('slow') ?? 0) >= 4, 'some were produced');
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(produced.get('slow')).toBeLessThanOrEqual(8);
    await stream.return();
    await until(() => ended.includes('slow'), 'the generator ended');
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  it('are cancelled when the loop is left, even in the middle of an await', async () => {
    for await (const _ of from0(() => rpcStream('w1', stalls, ['left']))) break;
    await until(() => ended.includes('left'), 'the generator ended');
    await until(() => cluster.at(1).debugInfo()['agent.server_active_calls'] === 0, 'the call ended');
    expect(from0(() => cluster.at(0).debugInfo()['agent.client_active_calls'])).toBe(0);
  });

  it.each([
    ['break', (stream: AsyncGenerator<number>) => stream.return(undefined)],
    ['throw', (stream: AsyncGenerator<number>) => stream.throw(new Error('of the consumer')).catch(() => undefined)],
    ['dispose', (stream: AsyncGenerator<number>) => stream[Symbol.asyncDispose]()],
  ])('are no failed calls when the consumer leaves them by %s', async (how, leave) => {
    const before = cluster.at(0).metrics();
    const outcomes: unknown[] = [];
    const unwatch = (cluster.at(0) as Agent).observers.add({ settled: (_call, error) => outcomes.push(error) });
    const stream = from0(() => rpcStream('w1', count, [how, 1_000], { highWaterItems: 4 }));
    await stream.next();
    await leave(stream);
    unwatch();
    expect(outcomes).toEqual([undefined]);
    const { calls_failed, calls_open, calls_sent } = cluster.at(0).metrics();
    expect([calls_failed, calls_open, calls_sent]).toEqual([before.calls_failed, 0, (before.calls_sent as number) + 1]);
    await until(() => ended.includes(how), 'the generator ended');
  });

  it('pass on what the generator threw, after what it gave', async () => {
    const stream = from0(() => rpcStream('w1', breaks));
    expect((await stream.next()).value).toBe(1);
    expect((await stream.next()).value).toBe(2);
    await expect(stream.next()).rejects.toThrow(RangeError);
    expect((await stream.next()).done).toBe(true);
  });

  it.each([2 ** 31, 2 ** 40, Infinity])('is waited for as long as %d ms, which no timer can be set for', async (ms) => {
    const stream = from0(() => rpcStream('w1', slowly, [], { idleTimeoutMs: ms, timeoutMs: ms }));
    const items: number[] = [];
    for await (const item of stream) items.push(item);
    expect(items).toEqual([1, 2]);
  });

  it('give up when no item comes for too long, or all of it takes too long', async () => {
    const idle = from0(() => rpcStream('w1', stalls, ['idle'], { idleTimeoutMs: 60 }));
    await idle.next();
    await expect(idle.next()).rejects.toThrow('no item of the stream came for 60 ms');
    const late = from0(() => rpcStream('w1', stalls, ['late'], { timeoutMs: 80 }));
    await late.next();
    const error: unknown = await late.next().catch((e: unknown) => e);
    expect(rpcInfo(error)?.code).toBe('deadline-exceeded');
    await until(() => ended.includes('idle') && ended.includes('late'), 'both generators ended');
  });

  it('do not give up an item that came while this process was busy', async () => {
    const stream = from0(() => rpcStream('w1', slowly, [], { idleTimeoutMs: 60 }));
    const first = stream.next();
    await new Promise((resolve) => setTimeout(resolve, 10)); // the handler waits by now
    const end = performance.now() + 150;
    while (performance.now() < end);
    expect((await first).value).toBe(1);
    await stream.return();
  });

  it('wait as long for each of several items that are asked for at once', async () => {
    const stream = from0(() => rpcStream('w1', evenly, [4, 60], { idleTimeoutMs: 100 }));
    const items = await Promise.all([1, 2, 3, 4].map(() => stream.next()));
    expect(items.map(({ value }) => value as number)).toEqual([0, 1, 2, 3]);
    await stream.return();
  });

  it('are cancelled by a signal', async () => {
    const controller = new AbortController();
    const stream = from0(() => rpcStream('w1', stalls, ['signal'], { signal: controller.signal }));
    await stream.next();
    controller.abort(new Error('enough'));
    const error: unknown = await stream.next().catch((e: unknown) => e);
    expect(rpcInfo(error)?.code).toBe('cancelled');
    await until(() => ended.includes('signal'), 'the generator ended');
  });

  it('need something to iterate, and plain calls refuse generators', async () => {
    const wrong = from0(() => rpcStream('w1', value as never, [])) as AsyncGenerator<unknown>;
    await expect(wrong.next()).rejects.toThrow('returns an iterable');
    await expect(from0(() => rpcSync('w1', count as never, ['x', 1] as never))).rejects.toThrow('rpcStream()');
  });

  it('survive a link that breaks', async () => {
    const stream = from0(() => rpcStream('w1', count, ['cut', 300], { highWaterItems: 8 }));
    const seen: number[] = [];
    for await (const i of stream) {
      seen.push(i);
      if (i % 60 === 30)
        (cluster.at(0) as unknown as { members: { find(to: string): { reset(e: Error): void } } }).members
          .find('w1')
          .reset(new Error('cut'));
    }
    expect(seen).toEqual(Array.from({ length: 300 }, (_, i) => i));
  });
});
