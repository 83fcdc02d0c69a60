/** @file Metrics of agents: histograms, the text of Prometheus, and its scrapes over HTTP. */
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { createAgent, registerErrorType, rpcAsync, RpcError, rpcFunction, rpcSync, type RpcAgent } from '@backwire/rpc';
import { BUCKETS, CallHistograms, type Histogram } from '../src/metrics/call-histograms.ts';
import { measureCalls, metricsText, profile, profiling, serveMetrics, type MetricsServer } from '../src/index.ts';
import { prometheusText } from '../src/metrics/prometheus.ts';

const quick = rpcFunction('metrics.test/quick', (x: number) => x);
const slow = rpcFunction('metrics.test/slow', () => new Promise<void>((done) => setTimeout(done, 30)));
let letGo = (): void => undefined;
const holds = rpcFunction('metrics.test/holds', () => new Promise<void>((done) => (letGo = done)));
const bad = rpcFunction('metrics.test/bad', (_x: string): void => {
  throw new RangeError('a value: sesame');
});

class OutOfTea extends Error {}
class OutOfMilk extends Error {}
registerErrorType(OutOfMilk);
const noTea = rpcFunction('metrics.test/noTea', (): void => {
  throw new OutOfTea('sesame');
});
const fails = rpcFunction('metrics.test/fails', async (what: string): Promise<void> => {
  if (what === 'own') throw new OutOfTea('sesame');
  if (what === 'registered') throw new OutOfMilk('sesame');
  if (what === 'hop') await rpcSync('w0', noTea);
  if (what === 'wrapped') throw new OutOfMilk('sesame', { cause: new RpcError('unavailable', 'x') });
  if (what === 'text') throw 'sesame';
  throw new RpcError('not-found', 'sesame');
});

const agents: RpcAgent[] = [];
const servers: MetricsServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});
let groups = 0;
async function pair(): Promise<[RpcAgent, RpcAgent]> {
  const store = `memory://metrics-${++groups}`;
  const start = (rank: number): Promise<RpcAgent> => createAgent({ name: `w${rank}`, rank, worldSize: 2, store });
  const made = await Promise.all([start(0), start(1)]);
  agents.push(...made);
  return made;
}

/** The value of the line that begins with `name` and has all `labels`. */
function value(text: string, name: string, labels: Record<string, string> = {}): number {
  const wanted = Object.entries(labels).map(([key, label]) => `${key}="${label}"`);
  const line = text
    .split('\n')
    .find((each) => each.startsWith(`${name}{`) && wanted.every((label) => each.includes(label)));
  return Number(line?.slice(line.lastIndexOf(' ') + 1) ?? Number.NaN);
}

describe('metrics', () => {
  it('count calls, bytes and links, and time calls on both sides, by function and outcome', async () => {
    const [first, second] = await pair();
    measureCalls(first);
    measureCalls(second);
    await first.run(async () => {
      for (let i = 0; i < 5; i++) await rpcSync('w1', quick, [i]);
      await rpcSync('w1', slow);
      await rpcSync('w1', bad, ['x']).catch(() => undefined);
    });
    const text = metricsText(first);
    expect(value(text, 'backwire_calls_sent_total', { worker: 'w0', group: 'default' })).toBe(7);
    expect(value(text, 'backwire_calls_failed_total')).toBe(1);
    expect(value(text, 'backwire_calls_open')).toBe(0);
    expect(value(text, 'backwire_peers_up')).toBe(1);
    expect(value(text, 'backwire_reconnects_total', { peer: 'w1' })).toBe(0);
    expect(value(text, 'backwire_sent_bytes_total', { peer: 'w1' })).toBeGreaterThan(100);
    const client = 'rpc_client_call_duration_seconds';
    expect(value(text, `${client}_count`, { rpc_method: 'metrics.test/quick' })).toBe(5);
    expect(value(text, `${client}_bucket`, { rpc_method: 'metrics.test/quick', le: '+Inf' })).toBe(5);
    expect(value(text, `${client}_bucket`, { rpc_method: 'metrics.test/slow', le: '0.01' })).toBe(0);
    expect(value(text, `${client}_bucket`, { rpc_method: 'metrics.test/slow', le: '60' })).toBe(1);
    expect(value(text, `${client}_sum`, { rpc_method: 'metrics.test/slow' })).toBeGreaterThan(0.028);
    expect(value(text, `${client}_count`, { rpc_method: 'metrics.test/bad', error_type: 'RangeError' })).toBe(1);
    const server = metricsText(second);
    expect(value(server, 'backwire_calls_handled_total', { worker: 'w1' })).toBe(7);
    expect(value(server, 'rpc_server_call_duration_seconds_count', { rpc_method: 'metrics.test/quick' })).toBe(5);
    expect(value(server, 'rpc_server_call_duration_seconds_count', { error_type: 'RangeError' })).toBe(1);
    expect(text + server).not.toContain('sesame');
  });

  it('name what a handler threw by its class on both sides, known there or not, and failures by their code', async () => {
    const [first, second] = await pair();
    measureCalls(first);
    measureCalls(second);
    await first.run(async () => {
      for (const what of ['own', 'registered', 'hop', 'wrapped', 'text', 'code'])
        await rpcSync('w1', fails, [what]).catch(() => undefined);
      await rpcSync('w1', slow, [], { timeoutMs: 5 }).catch(() => undefined);
    });
    const outcomes = (all: readonly Histogram[], method: string): (readonly [string, number])[] =>
      all.filter((each) => each.method === method).map(({ error, count }) => [error, count] as const);
    const expected = [
      ['OutOfTea', 2], // once from a hop further
      ['OutOfMilk', 2],
      ['string', 1],
      ['not-found', 1],
    ];
    expect(outcomes(measureCalls(first).client, 'metrics.test/fails')).toEqual(expected);
    expect(outcomes(measureCalls(second).server, 'metrics.test/fails')).toEqual(expected);
    expect(outcomes(measureCalls(first).client, 'metrics.test/slow')).toEqual([['deadline-exceeded', 1]]);
  });

  it.each([
    ['plain', false],
    ['wrapped', true],
  ])(
    'count calls that wait in line as long as somebody waits for them, by why that ended: %s ones',
    async (_, wrapped) => {
      const store = `memory://metrics-${++groups}`;
      const start = (rank: number): Promise<RpcAgent> =>
        createAgent({ name: `w${rank}`, rank, worldSize: 2, store, maxConcurrentCalls: 1, extensions: [profiling()] });
      const [first, second] = await Promise.all([start(0), start(1)]);
      agents.push(first, second);
      measureCalls(second);
      const left = new AbortController();
      const make = (): Promise<unknown>[] => [
        ...[1, 2, 3].map((x) => rpcAsync('w1', quick, [x], { timeoutMs: 50 })),
        rpcAsync('w1', quick, [4], { signal: left.signal }),
      ];
      await first.run(async () => {
        const held = rpcAsync('w1', holds);
        const calls = wrapped ? (await profile(make)).value : make();
        setTimeout(() => left.abort(), 50);
        await Promise.allSettled(calls);
        const ofQuick = (): Histogram[] =>
          measureCalls(second).server.filter(({ method }) => method === 'metrics.test/quick');
        await expect
          .poll(() => ofQuick().map(({ error, count }) => [error, count]))
          .toEqual([
            ['deadline-exceeded', 3],
            ['cancelled', 1],
          ]);
        // None of them waits for the slot, nor counts as running.
        expect(second.metrics()).toMatchObject({ handlers_running: 1, handlers_queued: 0 });
        letGo();
        await held;
      });
    },
  );

  it('show what is open while it is open', async () => {
    const [first, second] = await pair();
    const open = first.run(() => rpcAsync('w1', slow));
    while (second.metrics()['handlers_running'] === 0) await new Promise((done) => setTimeout(done, 1));
    expect(value(metricsText(first), 'backwire_calls_open')).toBe(1);
    expect(value(metricsText(second), 'backwire_handlers_running')).toBe(1);
    await open;
    expect(value(metricsText(first), 'backwire_calls_open')).toBe(0);
  });

  it('are answered to a scrape on loopback, and to nothing else', async () => {
    const [first] = await pair();
    const server = await serveMetrics({ agent: first, port: 0 });
    servers.push(server);
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
    await first.run(() => rpcSync('w1', quick, [1]));
    const response = await fetch(server.url);
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    const text = await response.text();
    expect(value(text, 'backwire_calls_sent_total')).toBe(1);
    checkFormat(text);
    expect((await fetch(server.url.replace('/metrics', '/'))).status).toBe(404);
    expect((await fetch(server.url, { method: 'POST' })).status).toBe(405);
    expect(await (await fetch(server.url, { method: 'HEAD' })).text()).toBe('');
    await expect(serveMetrics({ agent: first, port: Number(new URL(server.url).port) })).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(/^metrics cannot be served on .*: listen EADDRINUSE/) as string,
    });
    await server.close();
    await expect(fetch(server.url)).rejects.toThrow();
  });

  it.each(['', null, 5, ['127.0.0.1']])('are not served where no address is meant: %o', async (host) => {
    const [first] = await pair();
    await expect(serveMetrics({ agent: first, port: 0, host: host as string })).rejects.toThrow(
      /^serveMetrics\(\): host is the name or address to listen on, got .+ \[invalid-argument\]$/,
    );
  });

  it('survive clients that hang', async () => {
    const [first] = await pair();
    const server = await serveMetrics({ agent: first, port: 0 });
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
    await new Promise((done) => socket.once('connect', done));
    socket.on('error', () => undefined);
    socket.write('GET /metr');
    await server.close();
    socket.destroy();
  });

  it('take no more connections than a few, and hang up on who says nothing', async () => {
    const [first] = await pair();
    const server = await serveMetrics({ agent: first, port: 0 });
    servers.push(server);
    let closed = 0;
    const silent = Array.from({ length: 300 }, () =>
      connect(Number(new URL(server.url).port), '127.0.0.1')
        .resume()
        .on('error', () => undefined)
        .on('close', () => closed++),
    );
    try {
      await expect.poll(() => closed, { timeout: 4_000 }).toBeGreaterThanOrEqual(236);
      await expect.poll(() => closed, { timeout: 15_000 }).toBe(300);
      expect((await fetch(server.url)).status).toBe(200);
    } finally {
      for (const socket of silent) socket.destroy();
    }
  }, 25_000);
});

/** What a server answers to `request`, written as it stands. */
async function raw(url: string, request: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  let text = '';
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
  socket.write(request);
  await new Promise((done, failed) => socket.once('close', done).once('error', failed));
  return text.split('\r\n')[0] ?? '';
}

describe('a scrape', () => {
  it('of a path that is no URL gets an answer, and the worker goes on', async () => {
    const [first] = await pair();
    const server = await serveMetrics({ agent: first, port: 0 });
    servers.push(server);
    for (const path of ['//', '//[', 'http://[', '*', '/%', '/metrics/../x'])
      expect(await raw(server.url, `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)).toMatch(
        / 40[04] /,
      );
    expect((await fetch(`${server.url}?x=1`)).status).toBe(200);
  });

  it('by a name that is not of this host is refused on loopback', async () => {
    const [first] = await pair();
    const server = await serveMetrics({ agent: first, port: 0, host: '127.0.0.1' });
    servers.push(server);
    const by = (host: string): Promise<string> =>
      raw(server.url, `GET /metrics HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    for (const host of ['evil.example', 'evil.example:9464', '127.0.0.1.evil.example', 'localhost.evil.example'])
      expect(await by(host), host).toMatch(/ 403 /);
    for (const host of ['127.0.0.1', '127.0.0.1:9464', 'localhost:1', 'LOCALHOST', '[::1]:9464'])
      expect(await by(host), host).toMatch(/ 200 /);
    expect(await raw(server.url, 'GET /metrics HTTP/1.0\r\n\r\n')).toMatch(/ 200 /);
  });
});

describe('the text', () => {
  it('escapes what names may hold', () => {
    const histogram: Histogram = { method: 'a"b\\c\nd', error: '', counts: [1], count: 1, sumSeconds: 0.5 };
    const text = prometheusText({
      worker: 'w',
      group: 'g',
      metrics: { ...agentless, extensions: { num_owner_rrefs: 3, num_collected_rrefs: 2, num_new_things: 4 } },
      client: [histogram],
      server: [],
    });
    expect(text).toContain(String.raw`rpc_method="a\"b\\c\nd"`);
    expect(value(text, 'backwire_rrefs_owned')).toBe(3);
    expect(text).toContain('# TYPE backwire_rrefs_collected_total counter\n');
    expect(value(text, 'backwire_rrefs_collected_total')).toBe(2);
    expect(value(text, 'backwire_extension', { name: 'num_new_things' })).toBe(4);
    checkFormat(text);
  });
});

describe('histograms', () => {
  it('put a call into the right bucket, and keep names and outcomes within bounds', () => {
    const all = new CallHistograms();
    const call = (name: string, seconds: number, error?: unknown): void =>
      all.settled(
        {
          id: 1,
          peer: { worker: { name: 'w1', id: 1 } as never },
          label: { kind: 'sync', name },
          startedAt: performance.now() - seconds * 1000,
        },
        error,
      );
    for (const seconds of [0.000_001, 0.004, 7, 1_000]) call('f', seconds);
    const [found] = all.client;
    expect(found?.counts[BUCKETS.indexOf(0.005)]).toBe(1);
    expect(found?.counts[BUCKETS.indexOf(10)]).toBe(1);
    expect(found?.counts.at(-1)).toBe(1);
    expect(found?.counts.reduce((a, b) => a + b)).toBe(4);
    for (let i = 0; i < 1_500; i++) call(`f${i}`, 0.001);
    expect(all.client.length).toBeLessThanOrEqual(1_001);
    expect(all.client.find(({ method }) => method === 'other')?.count).toBe(501);
    for (let i = 0; i < 100; i++) call('f', 0.001, Object.assign(new Error('x'), { name: `Own${i}` }));
    const outcomes = all.client.filter(({ method }) => method === 'f');
    // Success, thirty-two classes, and the others together.
    expect(outcomes).toHaveLength(34);
    expect(outcomes.find(({ error }) => error === 'other')?.count).toBe(68);
    // No number of classes that a peer throws hides what the system says.
    call('f', 0.001, new RpcError('peer-died', 'x'));
    expect(all.client.find(({ error }) => error === 'peer-died')?.count).toBe(1);
  });
});

const agentless = {
  calls_sent: 0,
  calls_failed: 0,
  calls_handled: 0,
  calls_open: 0,
  handlers_running: 0,
  handlers_queued: 0,
  bytes_sent: 0,
  bytes_received: 0,
  pending_bytes: 0,
  reconnects: 0,
  peers_up: 0,
  peers: [],
};

/** Every line is a comment or a sample of the text format, and every metric is announced once, before its samples. */
function checkFormat(text: string): void {
  expect(text.endsWith('\n')).toBe(true);
  const announced = new Set<string>();
  for (const line of text.slice(0, -1).split('\n')) {
    const type = /^# TYPE ([a-z_]+) (counter|gauge|histogram)$/.exec(line)?.[1];
    if (type !== undefined) {
      expect(announced.has(type), line).toBe(false);
      announced.add(type);
      continue;
    }
    if (/^# HELP [a-z_]+ \S.*$/.test(line)) continue;
    const name = /^([a-z_]+)\{([a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+\} -?[\d.e+-]+$/.exec(line)?.[1];
    expect(name, line).toBeDefined();
    expect(announced.has((name ?? '').replace(/_(bucket|sum|count)$/, '')) || announced.has(name ?? ''), line).toBe(
      true,
    );
  }
}
