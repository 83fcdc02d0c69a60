/** @file Calls with an idempotency key: what repeated ones share, what they do not, and what a try leaves that was given up. */
import { setTimeout as sleep } from 'node:timers/promises';
import { sparseCooTensor, tensor, zeros, type Tensor } from '@backwire/tensor';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  callContext,
  rpcAsync,
  rpcFunction,
  rpcInfo,
  rpcOneway,
  type CallOptions,
  type Extension,
} from '../src/index.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

/** Runs of handlers so far, and those that go on. */
let runs = 0;
let running = 0;
/** The most that went on at once. */
let peak = 0;
/** Lets handlers that wait for it go on. */
let open: () => void = () => undefined;
let opened: Promise<void> = Promise.resolve();

/** How `slow` takes the end of its time. */
type Manner = 'throws' | 'returns' | 'ignores it' | 'asks how long' | 'asks others';

/** Waits until it may go on, or until its time is up in its own manner; gives the number of the run. */
const slow = rpcFunction('idempotency/slow', async (manner: Manner, ..._more: unknown[]): Promise<unknown> => {
  const run = ++runs;
  peak = Math.max(peak, ++running);
  try {
    if (manner === 'ignores it') await opened;
    else if (manner === 'asks how long') await Promise.race([opened, sleep(callContext().remainingMs() + 50)]);
    else if (manner === 'asks others') await rpcAsync('w0', gate);
    else {
      const { signal } = callContext();
      await Promise.race([opened, new Promise((resolve) => signal.addEventListener('abort', resolve))]);
      if (signal.aborted && manner === 'throws') throw new Error('handler saw abort');
      if (signal.aborted) return 'handler saw abort';
    }
    return run;
  } finally {
    running--;
  }
});
const gate = rpcFunction('idempotency/gate', () => opened);
const count = rpcFunction('idempotency/count', (..._args: unknown[]) => ++runs);
const other = rpcFunction('idempotency/other', (..._args: unknown[]) => ++runs);
const fail = rpcFunction('idempotency/fail', () => {
  throw new RangeError(`run ${++runs}`);
});
const limits = rpcFunction('idempotency/limits', async () => {
  runs++;
  const ms = callContext().remainingMs();
  await Promise.race([opened, new Promise((_, reject) => callContext().signal.addEventListener('abort', reject))]);
  return ms;
});

/** Calls until one had begun before its time was up: on a busy machine the first may be too late for that. */
async function timedOut(begun: () => boolean, call: (timeoutMs: number) => Promise<unknown>): Promise<void> {
  for (let timeoutMs = 50; !begun(); timeoutMs *= 2)
    await expect(call(timeoutMs)).rejects.toMatchObject({ code: 'deadline-exceeded' });
}

let cluster: Cluster | undefined;
beforeEach(() => {
  runs = 0;
  peak = 0;
  opened = new Promise((resolve) => (open = resolve));
});
afterEach(async () => {
  open();
  await cluster?.close();
});

/** Sees every request: then calls are messages until they start. */
const watcher: Extension = { name: 'watcher', attach: () => ({ serve: (call, next) => next(call) }) };
const ways: [string, readonly Extension[]][] = [
  ['straight from its frame', []],
  ['through an extension', [watcher]],
];

describe.each(ways)('a call with a key that starts %s', (_, extensions) => {
  /** Calls on w1, from w0. */
  async function start(
    more: { maxConcurrentCalls?: number } = {},
  ): Promise<<T>(fn: (...args: never[]) => T, args: readonly unknown[], options?: CallOptions) => Promise<Awaited<T>>> {
    cluster = await startCluster(2, { extensions, ...more });
    const from = cluster.at(0);
    // From here on calls are there at once.
    await from.run(() => rpcAsync('w1', other, []));
    runs = 0;
    return (fn, args, options) =>
      from.run(() => rpcAsync('w1', fn as never, args as never, { idempotencyKey: 'k', ...options }));
  }

  it.each<Manner>(['throws', 'returns', 'asks how long', 'asks others'])(
    'leaves nothing when its time was up and the handler %s: it runs again',
    async (manner) => {
      const send = await start();
      await timedOut(
        () => runs > 0,
        (timeoutMs) => send(slow, [manner], { timeoutMs }),
      );
      await until(() => running === 0, 'the first run has ended');
      open();
      expect(await send(slow, [manner], { timeoutMs: 20_000 })).toBe(2);
      // And that is a result.
      expect(await send(slow, [manner])).toBe(2);
      expect(runs).toBe(2);
    },
  );

  it.each<Manner>(['throws', 'returns', 'asks others'])(
    'runs again for one that joined it with more time, when the handler %s',
    async (manner) => {
      const send = await start();
      const first = send(slow, [manner], { timeoutMs: 500 }).catch((error: unknown) => rpcInfo(error)?.code);
      await until(() => runs === 1, 'the first runs');
      const others = [1, 2, 3].map(() => send(slow, [manner], { timeoutMs: 20_000 }));
      expect(await first).toBe('deadline-exceeded');
      await until(() => runs === 2, 'the second runs');
      open();
      expect(await Promise.all(others)).toEqual([2, 2, 2]);
      expect([runs, running]).toEqual([2, 0]);
    },
  );

  it('is not run again for the others when its handler never looked at its limits, however late it was', async () => {
    const send = await start();
    await timedOut(
      () => runs > 0,
      (timeoutMs) => send(slow, ['ignores it'], { timeoutMs }),
    );
    const second = send(slow, ['ignores it'], { timeoutMs: 20_000 });
    await until(() => cluster?.at(1).debugInfo()['agent.server_active_calls'] === 2, 'it waits');
    open();
    expect(await second).toBe(1);
    expect(await send(slow, ['ignores it'])).toBe(1);
    expect(runs).toBe(1);
  });

  it('leaves nothing when it was cancelled, and the next runs with a limit of its own', async () => {
    const send = await start();
    const controller = new AbortController();
    const first = send(limits, [], { timeoutMs: 60_000, signal: controller.signal });
    await until(() => runs === 1, 'the first runs');
    const second = send(limits, [], { timeoutMs: 10_000 });
    controller.abort();
    await expect(first).rejects.toMatchObject({ code: 'cancelled' });
    await until(() => runs === 2, 'the second runs');
    open();
    const left = await second;
    expect(left).toBeGreaterThan(5_000);
    // The time that is left travels in whole milliseconds.
    expect(left).toBeLessThanOrEqual(10_001);
  });

  it('keeps to its own limit while it waits for another, which goes on', async () => {
    const send = await start();
    const first = send(slow, ['ignores it'], { timeoutMs: 60_000 });
    await until(() => runs === 1, 'the first runs');
    const controller = new AbortController();
    const late = send(slow, ['ignores it'], { timeoutMs: 40 });
    const left = send(slow, ['ignores it'], { signal: controller.signal });
    const patient = send(slow, ['ignores it']);
    setTimeout(() => controller.abort(), 20);
    await Promise.all([
      expect(late).rejects.toMatchObject({ code: 'deadline-exceeded' }),
      expect(left).rejects.toMatchObject({ code: 'cancelled' }),
    ]);
    await until(() => cluster?.at(1).debugInfo()['agent.server_active_calls'] === 2, 'the two that left are gone');
    open();
    expect(await Promise.all([first, patient])).toEqual([1, 1]);
  });

  it('is passed on past those that left, once for each that comes', async () => {
    const send = await start();
    const controllers = [1, 2, 3].map(() => new AbortController());
    const calls = controllers.map(({ signal }) =>
      send(limits, [], { signal }).catch((error: unknown) => rpcInfo(error)?.code),
    );
    await until(() => cluster?.at(1).debugInfo()['agent.server_active_calls'] === 3, 'all are there');
    const last = send(limits, [], { timeoutMs: 0 });
    controllers[1]?.abort();
    controllers[0]?.abort();
    await until(() => runs === 2, 'the third runs');
    controllers[2]?.abort();
    await until(() => runs === 3, 'the last runs');
    open();
    expect(await Promise.all(calls)).toEqual(['cancelled', 'cancelled', 'cancelled']);
    expect(await last).toBe(Infinity);
    expect(runs).toBe(3);
  });

  it('remembers what its handler threw', async () => {
    const send = await start();
    await expect(send(fail, [])).rejects.toThrow('run 1');
    const again = await send(fail, []).catch((error: unknown) => error);
    expect(again).toBeInstanceOf(RangeError);
    expect((again as Error).message).toBe('run 1');
    expect(rpcInfo(again)?.executed).toBe('yes');
    expect(runs).toBe(1);
  });

  it('needs no slot while it waits', async () => {
    const send = await start({ maxConcurrentCalls: 2 });
    const calls = Array.from({ length: 20 }, () => send(slow, ['ignores it']));
    await until(() => cluster?.at(1).debugInfo()['agent.server_active_calls'] === 20, 'all are there');
    expect(await send(count, [], { idempotencyKey: 'another' })).toBe(2);
    open();
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 20 }, () => 1));
    await until(() => cluster?.at(1).debugInfo()['agent.server_active_calls'] === 0, 'all are over');
    expect(await send(count, [], { idempotencyKey: 'one more' })).toBe(3);
  });

  it('takes a slot when it runs in place of another', async () => {
    const send = await start({ maxConcurrentCalls: 2 });
    const controller = new AbortController();
    const first = send(slow, ['throws'], { signal: controller.signal }).catch(() => undefined);
    await until(() => runs === 1, 'the first runs');
    const second = send(slow, ['throws']);
    await until(() => cluster?.at(1).debugInfo()['agent.server_active_calls'] === 2, 'the second waits');
    // One that has the other slot, and one that waits for a slot.
    const more = ['x', 'y'].map((idempotencyKey) => send(slow, ['throws'], { idempotencyKey }));
    await until(() => running === 2, 'both slots are taken');
    controller.abort();
    await first;
    await until(() => runs === 3, 'the next runs');
    open();
    expect(new Set(await Promise.all([second, ...more]))).toEqual(new Set([2, 3, 4]));
    expect(peak).toBe(2);
  });

  it('is refused with other arguments, while one runs and after it', async () => {
    const send = await start();
    const refused = { code: 'failed-precondition', executed: 'no', retryable: false };
    const first = send(slow, ['ignores it']);
    await until(() => runs === 1, 'the first runs');
    await expect(send(slow, ['ignores it', 1])).rejects.toMatchObject(refused);
    open();
    await first;
    await expect(send(slow, ['throws'])).rejects.toMatchObject(refused);
    await expect(send(slow, [])).rejects.toThrow("idempotency key 'k' came with other arguments of 'idempotency/slow'");
    expect(await send(slow, ['ignores it'])).toBe(1);
    // Another function, another key.
    expect(await send(count, [1])).toBe(2);
    expect(await send(other, [2])).toBe(3);
  });

  it('may have other arguments when nothing came of the first try', async () => {
    const send = await start();
    await timedOut(
      () => runs > 0,
      (timeoutMs) => send(slow, ['throws'], { timeoutMs }),
    );
    await until(() => running === 0, 'the first run has ended');
    open();
    expect(await send(slow, ['throws', 'other arguments'])).toBe(2);
  });

  it('is told of the end of the worker', async () => {
    const send = await start();
    const calls = [1, 2, 3].map(() =>
      send(slow, ['ignores it']).then(
        () => 'answered',
        (error: unknown) => rpcInfo(error)?.code,
      ),
    );
    await until(() => cluster?.at(1).debugInfo()['agent.server_active_calls'] === 3, 'all are there');
    await cluster?.at(1).shutdown({ graceful: false });
    expect(new Set(await Promise.all(calls))).not.toContain('answered');
  });

  it('gives up what waits for a caller that is gone', async () => {
    const send = await start();
    const first = send(slow, ['ignores it']).catch(() => undefined);
    const second = send(slow, ['ignores it']).catch(() => undefined);
    await until(() => cluster?.at(1).debugInfo()['agent.server_active_calls'] === 2, 'both are there');
    await cluster?.at(0).shutdown({ graceful: false });
    await Promise.all([first, second]);
    await until(() => cluster?.at(1).debugInfo()['agent.server_active_calls'] === 1, 'only the handler is left');
    open();
    await until(() => cluster?.at(1).debugInfo()['agent.server_active_calls'] === 0, 'nothing is left');
  });

  it('runs once, one way', async () => {
    await start();
    const from = cluster?.at(0);
    for (let i = 0; i < 3; i++) from?.run(() => rpcOneway('w1', count, [1], { idempotencyKey: 'one way' }));
    await from?.run(() => rpcAsync('w1', other, []));
    expect(runs).toBe(2);
  });

  /** Arguments made anew each time, and what differs from them in one thing. */
  const big = (last: number): Tensor => {
    const values = new Float32Array(50_000);
    values[values.length - 1] = last;
    return tensor(values);
  };
  const bytes = (length: number, last: number): Uint8Array => new Uint8Array(length).fill(last, length - 1);
  const sparse = (at: number): Tensor => sparseCooTensor(tensor([[0, at]], { dtype: 'int64' }), tensor([1, 2]), [4]);
  const pairs: Record<string, [same: () => unknown[], different: () => unknown[]]> = {
    'none and one': [() => [], () => [undefined]],
    'zero and its negative': [() => [0], () => [-0]],
    'a number and its text': [() => [1], () => ['1']],
    'two texts and one': [() => ['a', 'b'], () => ['ab']],
    'a list and its items': [() => [[1, 2]], () => [1, 2]],
    'what is in an object': [() => [{ a: { b: [1, null] } }], () => [{ a: { b: [1, undefined] } }]],
    'a map and a set': [() => [new Map([[1, 1]])], () => [new Set([1])]],
    dates: [() => [new Date(5)], () => [new Date(6)]],
    'a few bytes': [() => [bytes(10, 1)], () => [bytes(10, 2)]],
    'many bytes': [() => [bytes(100_000, 1)], () => [bytes(100_000, 2)]],
    'an element of a small tensor': [() => [tensor([1, 2])], () => [tensor([1, 3])]],
    'an element of a large tensor': [() => [big(1)], () => [big(2)]],
    'the shape of a tensor': [() => [zeros([2, 3])], () => [zeros([3, 2])]],
    'the dtype of a tensor': [() => [zeros([2])], () => [zeros([2], { dtype: 'int32' })]],
    'which tensor is first': [() => [tensor([1]), tensor([2])], () => [tensor([2]), tensor([1])]],
    'an index of a sparse tensor': [() => [sparse(2)], () => [sparse(3)]],
  };

  it.each(Object.entries(pairs))(
    'tells arguments apart, and knows them again: %s',
    async (_name, [same, different]) => {
      const send = await start();
      expect(await send(count, same())).toBe(1);
      expect(await send(count, same())).toBe(1);
      await expect(send(count, different())).rejects.toMatchObject({ code: 'failed-precondition' });
      expect(await send(count, different(), { idempotencyKey: 'l' })).toBe(2);
      await expect(send(count, same(), { idempotencyKey: 'l' })).rejects.toMatchObject({ code: 'failed-precondition' });
    },
  );

  it('compares tensors by what they show, not by what is behind them', async () => {
    const send = await start();
    const rows = tensor(new Float32Array(40_000), { shape: [200, 200] });
    expect(await send(count, [rows.narrow(0, 0, 150)])).toBe(1);
    rows.narrow(0, 150, 50).fill_(7);
    expect(await send(count, [rows.narrow(0, 0, 150)])).toBe(1);
    expect(await send(count, [rows.narrow(0, 0, 150).transpose(0, 1).contiguous().transpose(0, 1)])).toBe(1);
    await expect(send(count, [rows.narrow(0, 1, 150)])).rejects.toMatchObject({ code: 'failed-precondition' });
  });
});
