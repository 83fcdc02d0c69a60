/** @file A group without its store: alone without it, and with one that forgot everything. */
import { afterEach, describe, expect, it } from 'vitest';
import { createAgent, rpcFunction, rpcSync, type RpcAgent, type RpcOptions } from '../src/index.ts';
import { until } from './cluster.ts';
import { FickleStore } from './fickle-store.ts';

const echo = rpcFunction('splits/echo', (x: number) => x);
const open: RpcAgent[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});
const quiet = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
async function join(options: RpcOptions): Promise<RpcAgent> {
  const agent = await createAgent({ membership: 'dynamic', initTimeoutMs: 20_000, logger: quiet, ...options });
  open.push(agent);
  return agent;
}

describe('a store', () => {
  it('that is lost alone stops nobody, and nobody is evicted or joins', { timeout: 30_000 }, async () => {
    const store = new FickleStore();
    const liveness = { pingMs: 100, suspectMs: 300, deadMs: 800, leaseMs: 500 };
    const [a, b] = [await join({ name: 'a', store, liveness }), await join({ name: 'b', store, liveness })];
    await until(() => a.debugInfo()['agent.peers'] === 1, 'they know each other');
    const events: string[] = [];
    for (const event of ['fenced', 'peer-down', 'peer-left'] as const) a.on(event, () => events.push(event));
    store.silent = true;
    const late = createAgent({ name: 'c', membership: 'dynamic', store, logger: quiet, initTimeoutMs: 500 });
    for (let i = 0; i < 15; i++) {
      expect(await a.run(() => rpcSync('b', echo, [i]))).toBe(i);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(events).toEqual([]);
    expect([a, b].map((agent) => agent.debugInfo()['agent.peers'])).toEqual([1, 1]);
    store.silent = false;
    open.push(await late);
    await until(() => a.debugInfo()['agent.peers'] === 2, 'who waited has joined');
  });

  it('that forgot everything is told again, and no life of a worker is issued twice', { timeout: 30_000 }, async () => {
    const store = new FickleStore();
    const a = await join({ name: 'a', store });
    const b = await join({ name: 'b', store });
    await until(() => a.debugInfo()['agent.peers'] === 1, 'they know each other');
    const before = Number(b.debugInfo()['agent.incarnation']);
    const events: string[] = [];
    a.on('fenced', () => events.push('fenced'));
    b.on('fenced', () => events.push('fenced'));
    store.restart();
    const c = await join({ name: 'c', store });
    await until(() => [a, b, c].every((agent) => agent.debugInfo()['agent.peers'] === 2), 'all know all');
    expect(await c.run(() => rpcSync('a', echo, [7]))).toBe(7);
    expect(await b.run(() => rpcSync('c', echo, [8]))).toBe(8);
    expect(events).toEqual([]);
    await b.shutdown();
    await until(() => a.debugInfo()['agent.peers'] === 1, 'b has left');
    const again = await join({ name: 'b', store });
    expect(Number(again.debugInfo()['agent.incarnation'])).toBeGreaterThan(before);
  });
});
