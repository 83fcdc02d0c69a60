/** @file Real agents whose every connection goes through a seeded proxy that resets, stalls, delays and slices. */
import { ChaosProxy, eventually, Random } from '@backwire/testing';
import { full, type Tensor } from '@backwire/tensor';
import { afterEach, describe, expect, it } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { rpcAsync, rpcFunction, rpcInfo, rpcOneway } from '../src/index.ts';
import { startCluster, type Cluster } from '../src/testdata/cluster.ts';
import type { Transport } from '../src/transports/transport.ts';

const runs = new Map<number, number>();
const notes = new Map<string, number[]>();
const work = rpcFunction('chaos/work', async (id: number, ms: number) => {
  runs.set(id, (runs.get(id) ?? 0) + 1);
  await new Promise((resolve) => setTimeout(resolve, ms));
  return id * 7;
});
const total = rpcFunction('chaos/total', (id: number, x: Tensor) => {
  runs.set(id, (runs.get(id) ?? 0) + 1);
  return x.mul(2);
});
const note = rpcFunction('chaos/note', (pair: string, n: number) => {
  const list = notes.get(pair);
  if (list === undefined) notes.set(pair, [n]);
  else list.push(n);
});

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  runs.clear();
  notes.clear();
});

/** Three agents; whoever dials goes through the proxy of whom it dials. */
async function start(seed: number): Promise<{ cluster: Cluster; proxies: ChaosProxy[] }> {
  const cluster = await startCluster(3, { transports: ['unix'], liveness: { reconnectGraceMs: 60_000 } });
  cleanups.push(() => cluster.close());
  const proxies: ChaosProxy[] = [];
  const routes = new Map<string, string>();
  for (const agent of cluster.agents) {
    for (const { endpoint } of (agent as Agent).listeners) {
      const proxy = await ChaosProxy.start({
        target: { path: endpoint.slice('unix://'.length) },
        seed: `${seed} ${routes.size}`,
      });
      cleanups.push(() => proxy.close());
      proxies.push(proxy);
      routes.set(endpoint, `unix://${(proxy.address as { path: string }).path}`);
    }
  }
  for (const agent of cluster.agents) {
    const inside = agent as unknown as { transports: Transport[] };
    inside.transports = inside.transports.map((transport) => ({
      ...transport,
      dial: (endpoint, options) => transport.dial(routes.get(endpoint) ?? endpoint, options),
    }));
  }
  cutAll(cluster);
  return { cluster, proxies };
}

/** Links that were made before the proxies. */
function cutAll(cluster: Cluster): void {
  for (const agent of cluster.agents) {
    for (const { name } of (agent as Agent).peers()) {
      if (name !== agent.name) (agent as Agent).members.find(name).reset(new Error('cut by the test'));
    }
  }
}

describe('agents over connections that break all the time', () => {
  it.each([1, 2, 3])(
    'settle every call once and run no handler twice (seed %i)',
    async (seed) => {
      const { cluster, proxies } = await start(seed);
      const random = new Random(seed);
      const nemesis = torment(proxies, random.split('nemesis'), 2_500);
      const calls: Promise<string>[] = [];
      const sentNotes = new Map<string, number>();
      let id = seed * 1_000_000;
      const draw = random.split('program');
      const end = performance.now() + 2_500;
      while (performance.now() < end) {
        const [from, to] = draw.shuffle([0, 1, 2]) as [number, number];
        cluster.at(from).run(() => {
          const pair = `${from}>${to}`;
          const n = sentNotes.get(pair) ?? 0;
          sentNotes.set(pair, n + 1);
          rpcOneway(`w${to}`, note, [pair, n]);
          calls.push(call(++id, `w${to}`, draw));
        });
        await new Promise((resolve) => setTimeout(resolve, draw.int(0, 8)));
      }
      await nemesis;
      const outcomes = await Promise.all(calls);
      expect(outcomes.filter((outcome) => outcome.startsWith('WRONG'))).toEqual([]);
      expect(outcomes.length).toBeGreaterThan(100);
      expect(outcomes.filter((outcome) => outcome === 'ok').length).toBeGreaterThan(outcomes.length / 2);
      expect(Math.max(...runs.values())).toBe(1);
      // One-way calls have no deadline: each arrives once and in order, whatever happened to the links.
      for (const [pair, count] of sentNotes) {
        await eventually(`all notes of ${pair}`, () => notes.get(pair)?.length === count, 20_000);
        expect(notes.get(pair)).toEqual(Array.from({ length: count }, (_, n) => n));
      }
    },
    60_000,
  );
});

/** One call with its own way to end; answers what became of it after checking it against the handler's record. */
async function call(id: number, to: string, random: Random): Promise<string> {
  const timeoutMs = random.pick([20, 300, 30_000]);
  const abort = new AbortController();
  if (random.chance(0.1)) setTimeout(() => abort.abort(), random.int(0, 50));
  const options = { timeoutMs, signal: abort.signal };
  const size = random.chance(0.2) ? random.int(1, 200_000) : 0;
  const ms = random.int(0, 20);
  try {
    if (size > 0) {
      const doubled = await rpcAsync(to, total, [id, full([size], id % 97)], options);
      expect(doubled.shape).toEqual([size]);
      const data = doubled.dataSync();
      expect([data[0], data[size - 1]]).toEqual([(id % 97) * 2, (id % 97) * 2]);
    } else expect(await rpcAsync(to, work, [id, ms], options)).toBe(id * 7);
    expect(runs.get(id)).toBe(1);
    return 'ok';
  } catch (error) {
    const info = rpcInfo(error);
    if (info === undefined) throw error;
    if (info.executed === 'no') {
      // Not now, and not later either.
      await new Promise((resolve) => setTimeout(resolve, 500));
      if (runs.has(id))
        return `WRONG: ran, although ${info.code} 'no' after ${String((error as Error).message)} size ${size} timeout ${timeoutMs}`;
    }
    return `${info.code} ${info.executed}`;
  }
}

/** Resets, stalls, delays and slices until the time is over; then everything is calm. */
async function torment(proxies: readonly ChaosProxy[], random: Random, forMs: number): Promise<void> {
  const end = performance.now() + forMs;
  while (performance.now() < end) {
    const proxy = random.pick(proxies);
    const direction = random.chance(0.5) ? proxy.up : proxy.down;
    switch (random.weighted({ reset: 4, blackhole: 1, latency: 2, slice: 2, chance: 2, refuse: 1 })) {
      case 'reset':
        proxy.resetAll();
        break;
      case 'blackhole':
        direction.blackhole = true;
        setTimeout(() => (direction.blackhole = false), random.int(10, 300));
        break;
      case 'latency':
        direction.latencyMs = random.int(0, 20);
        direction.jitterMs = random.int(0, 5);
        break;
      case 'slice':
        direction.sliceBytes = random.pick([1, 7, 100, 5_000, Infinity]);
        break;
      case 'chance':
        direction.reset = random.pick([0, 0.001, 0.02]);
        break;
      case 'refuse':
        proxy.refusing = true;
        setTimeout(() => (proxy.refusing = false), random.int(10, 200));
        break;
    }
    await new Promise((resolve) => setTimeout(resolve, random.int(5, 60)));
  }
  for (const proxy of proxies) {
    proxy.refusing = false;
    for (const direction of [proxy.up, proxy.down]) {
      Object.assign(direction, { latencyMs: 0, jitterMs: 0, sliceBytes: Infinity, reset: 0, blackhole: false });
    }
  }
}
