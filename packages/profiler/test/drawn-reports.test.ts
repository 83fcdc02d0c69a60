/** @file Drawn programs that count what they do themselves, held against what metrics, histograms and reports say of them. */
import { afterEach, expect, it } from 'vitest';
import { createAgent, rpcAsync, rpcFunction, rpcOneway, rpcStream, rpcSync, type RpcAgent } from '@backwire/rpc';
import { Inspector, type AgentMetrics } from '@backwire/rpc/internal';
import { Random } from '@backwire/testing';
import { measureCalls, metricsText } from '../src/index.ts';
import type { Histogram } from '../src/metrics/call-histograms.ts';

const echo = rpcFunction('drawn/echo', (x: unknown) => x);
const wait = rpcFunction('drawn/wait', (ms: number) => new Promise<void>((done) => setTimeout(done, ms)));
const fail = rpcFunction('drawn/fail', (): void => {
  throw new RangeError('no');
});
const items = rpcFunction('drawn/items', function* (count: number) {
  for (let i = 0; i < count; i++) yield i;
});
const names = ['w0', 'w1', 'w2'] as const;
type Name = (typeof names)[number];

const agents: RpcAgent[] = [];
afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});

/** What the program knows of itself, by keys such as 'w0>w1 drawn/echo RangeError'. */
class Counts {
  readonly all = new Map<string, number>();
  add(key: string): void {
    this.all.set(key, (this.all.get(key) ?? 0) + 1);
  }
  sum(wanted: (key: string) => boolean): number {
    return [...this.all].reduce((sum, [key, count]) => sum + (wanted(key) ? count : 0), 0);
  }
}

async function step(random: Random, agent: RpcAgent, from: Name, counts: Counts): Promise<void> {
  const to = random.pick(names);
  const done = (name: string, error = ''): void => counts.add(`${from}>${to} drawn/${name} ${error}`);
  const failed = (promise: Promise<unknown>): Promise<void> =>
    promise.then(
      () => expect.fail('it went well'),
      () => undefined,
    );
  const kinds: readonly (() => Promise<void>)[] = [
    () => rpcSync(to, echo, ['x'.repeat(random.int(0, 3_000))]).then(() => done('echo')),
    () => rpcAsync(to, wait, [random.int(0, 20)]).then(() => done('wait')),
    () => failed(rpcSync(to, fail)).then(() => done('fail', 'RangeError')),
    () => failed(rpcSync(to, wait, [60], { timeoutMs: 5 })).then(() => done('wait', 'deadline-exceeded')),
    () => failed(rpcSync(to, echo, [Symbol('x')])).then(() => done('echo', 'TypeError')),
    async () => {
      const count = random.int(0, 20);
      let seen = 0;
      for await (const item of rpcStream(to, items, [count])) expect(item).toBe(seen++);
      expect(seen).toBe(count);
      done('items');
    },
    () => Promise.resolve(rpcOneway(to, echo, [1])).then(() => done('echo', 'oneway')),
  ];
  await agent.run(random.pick(kinds));
}

it.each([1, 2, 3, 4])(
  'every number is what the program counted itself (%i)',
  async (seed) => {
    const random = new Random(seed);
    const store = `memory://drawn-reports-${seed}`;
    agents.push(...(await Promise.all(names.map((name, rank) => createAgent({ name, rank, worldSize: 3, store })))));
    for (const agent of agents) measureCalls(agent);
    const inspector = await Inspector.open({ endpoint: store });
    await inspector.look({ recent: true });
    const counts = new Counts();
    const began = performance.now();
    await Promise.all(
      agents.map(async (agent, i) => {
        for (let n = 0; n < 60; n++) await step(random, agent, names[i] as Name, counts);
      }),
    );
    const seconds = (performance.now() - began) / 1_000;
    // Handlers whose callers have given up go on for a while, if they have begun, and one-way calls are under way.
    const sum = (key: string): number => agents.reduce((all, agent) => all + (agent.metrics()[key] as number), 0);
    const reached = (key: string): boolean => !key.endsWith(' TypeError');
    const late = (key: string): boolean => key.endsWith(' deadline-exceeded');
    const sure = counts.sum((key) => reached(key) && !late(key));
    const quiet = (): boolean => sum('handlers_running') + sum('pending_bytes') === 0 && sum('calls_handled') >= sure;
    await expect.poll(quiet, { timeout: 10_000 }).toBe(true);
    await expect.poll(() => sum('bytes_sent') - sum('bytes_received'), { timeout: 5_000 }).toBe(0);
    const look = await inspector.look({ recent: true });
    await inspector.close();

    for (const [i, agent] of agents.entries()) {
      const name = names[i] as Name;
      const own = (key: string): boolean => key.startsWith(`${name}>`);
      const oneway = (key: string): boolean => key.endsWith(' oneway');
      const well = (key: string): boolean => key.endsWith(' ') || oneway(key);
      const metrics = agent.metrics() as AgentMetrics;
      expect(metrics).toMatchObject({
        calls_sent: counts.sum((key) => own(key) && reached(key)),
        calls_failed: counts.sum((key) => own(key) && !well(key)),
        ...{ calls_open: 0, handlers_running: 0, handlers_queued: 0, reconnects: 0, peers_up: 2 },
      });
      const { client, server } = measureCalls(agent);
      checkHistograms([...client, ...server], 60 * seconds);
      for (const { method, error, count } of client)
        expect(count, `${name} ${method} ${error}`).toBe(
          counts.sum((key) => own(key) && key.endsWith(` ${method} ${error}`)),
        );
      expect(client.reduce((sum, { count }) => sum + count, 0)).toBe(counts.sum((key) => own(key) && !oneway(key)));
      // A call whose time was up before its handler could begin may be told of by its callee, and was not handled.
      const here = (key: string): boolean => key.includes(`>${name} `) && reached(key);
      const served = server.reduce((all, { count }) => all + count, 0);
      expect(metrics.calls_handled).toBeGreaterThanOrEqual(counts.sum((key) => here(key) && !late(key)));
      expect(served).toBeGreaterThanOrEqual(metrics.calls_handled);
      expect(served).toBeLessThanOrEqual(counts.sum(here));
      const text = metricsText(agent);
      for (const key of ['sent', 'failed', 'handled'] as const)
        expect(text).toContain(
          `backwire_calls_${key}_total{worker="${name}",group="default"} ${metrics[`calls_${key}`]}\n`,
        );
      // What one side has sent, the other has received.
      for (const { name: other, bytesSent, bytesReceived } of metrics.peers) {
        const back = agents.find((each) => each.name === other)?.metrics() as AgentMetrics;
        expect(back.peers.find((peer) => peer.name === name)).toMatchObject({
          bytesSent: bytesReceived,
          bytesReceived: bytesSent,
        });
      }
      const report = look.workers[i]?.report;
      expect(report?.recent?.length).toBe(counts.sum((key) => own(key) && !oneway(key)));
      for (const { to, method, error = '', durationMs } of report?.recent ?? []) {
        expect(counts.all.has(`${name}>${to} ${method} ${error}`)).toBe(true);
        expect(durationMs / 1_000).toBeLessThanOrEqual(seconds);
      }
      for (const session of report?.sessions ?? []) {
        const there = (key: string): boolean => key.startsWith(`${name}>${session.name} `) && !oneway(key);
        const errors = counts.sum((key) => there(key) && !well(key));
        expect(session.calls ?? { calls: 0, errors: 0 }).toMatchObject({ calls: counts.sum(there), errors });
      }
    }
  },
  30_000,
);

/** Buckets add up to the count, and the sum of the times lies between the bounds of the buckets. */
function checkHistograms(all: readonly Histogram[], mostSeconds: number): void {
  for (const { counts, count, sumSeconds } of all) {
    expect(counts.reduce((a, b) => a + b)).toBe(count);
    expect(sumSeconds).toBeGreaterThan(0);
    expect(sumSeconds).toBeLessThanOrEqual(mostSeconds);
  }
}
