/** @file Signals that many calls share: one listener, no warning, nothing left behind. */
import { getEventListeners } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { callContext, rpcAsync, rpcFunction, rpcStream, rpcSync } from '../index.ts';
import { startCluster, until, type Cluster } from '../../test/cluster.ts';

let running = 0;
const wait = rpcFunction('abort-watch/wait', async () => {
  const { signal } = callContext();
  running++;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  running--;
});
const nothing = rpcFunction('abort-watch/nothing', () => undefined);
const count = rpcFunction('abort-watch/count', function* () {
  for (let i = 0; ; i++) yield i;
});

let cluster: Cluster;
const warnings: Error[] = [];
const onWarning = (warning: Error): void => void warnings.push(warning);
const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

beforeAll(async () => {
  process.on('warning', onWarning);
  cluster = await startCluster(2);
});
afterAll(async () => {
  await cluster.close();
  process.off('warning', onWarning);
});
const from0 = <T>(fn: () => T): T => cluster.at(0).run(fn);

describe('a signal of many calls', () => {
  it('gets one listener, which goes with the last call', async () => {
    const { signal } = new AbortController();
    const calls = from0(() => Array.from({ length: 100 }, () => rpcAsync('w1', nothing, [], { signal })));
    expect(listeners(signal)).toBe(1);
    await Promise.all(calls);
    expect(listeners(signal)).toBe(0);
    // Warnings are emitted in a tick of their own.
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([]);
  });

  it('cancels all of them, here and there', async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const calls = from0(() => Array.from({ length: 50 }, () => rpcSync('w1', wait, [], { signal })));
    await until(() => running === 50, 'fifty handlers');
    controller.abort('enough');
    const outcomes = await Promise.allSettled(calls);
    expect(outcomes.map(({ status }) => status)).toEqual(Array(50).fill('rejected'));
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({ reason: { code: 'cancelled', cause: 'enough', executed: 'maybe' } });
    await until(() => running === 0, 'the end of the handlers');
    expect(listeners(signal)).toBe(0);
  });

  it('lets one of its calls make another, which fails at once', async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const first = from0(() => rpcSync('w1', wait, [], { signal }));
    const second = first.catch(() => from0(() => rpcSync('w1', nothing, [], { signal })));
    controller.abort();
    await expect(second).rejects.toMatchObject({ code: 'cancelled', executed: 'no' });
    expect(listeners(signal)).toBe(0);
  });

  it('is let go by streams that are left, and by listeners of events that are taken off', async () => {
    const { signal } = new AbortController();
    const offs = Array.from({ length: 20 }, () => cluster.at(0).on('peer-down', () => undefined, { signal }));
    for (let i = 0; i < 3; i++) {
      for await (const item of from0(() => rpcStream('w1', count, [], { signal }))) if (item === 3) break;
    }
    expect(listeners(signal)).toBe(1);
    for (const off of offs) off();
    expect(listeners(signal)).toBe(0);
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([]);
  });
});
