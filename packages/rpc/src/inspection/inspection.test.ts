/** @file Looking at groups from outside: what is seen, who may see it, and that nothing changes by it. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  createAgent,
  rpcAsync,
  rpcFunction,
  rpcSync,
  type RpcAgent,
  type RpcOptions,
  type Security,
} from '../index.ts';
import type { Agent } from '../agent/agent.ts';
import { Certificates, hasOpenssl } from '../../test/certificates.ts';
import { until } from '../../test/cluster.ts';
import { MAX_INSPECTORS } from './limits.ts';
import { Inspector, type GroupLook, type InspectorOptions } from './inspector.ts';
import type { CallObserver } from '../base/observed-call.ts';
import type { WorkerReport } from './report.ts';

const double = rpcFunction('inspection.test/double', (x: number) => 2 * x);
const gate: { open: () => void } = { open: () => undefined };
const wait = rpcFunction('inspection.test/wait', (_secret: string) => new Promise<void>((done) => (gate.open = done)));
const fail = rpcFunction('inspection.test/fail', (text: string): number => {
  throw new RangeError(text);
});

const SECRET = 'a secret of sixteen bytes or more';
const agents: RpcAgent[] = [];
const inspectors: Inspector[] = [];
afterEach(async () => {
  gate.open();
  await Promise.all(inspectors.splice(0).map((inspector) => inspector.close()));
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});

let groups = 0;
async function group(size: number, options: Partial<RpcOptions> = {}): Promise<string> {
  const store = `memory://inspection-${++groups}`;
  const start = (rank: number): Promise<RpcAgent> =>
    createAgent({ name: `w${rank}`, rank, worldSize: size, store, ...options });
  agents.push(...(await Promise.all(Array.from({ length: size }, (_, rank) => start(rank)))));
  return store;
}
async function look(options: InspectorOptions): Promise<Inspector> {
  const inspector = await Inspector.open(options);
  inspectors.push(inspector);
  return inspector;
}
const at = (rank: number): RpcAgent => agents[rank] as RpcAgent;
const report = (seen: GroupLook, name: string): WorkerReport => {
  const found = seen.workers.find((worker) => worker.name === name)?.report;
  if (found === undefined) throw new Error(`no report of ${name}`);
  return found;
};

describe('a look', () => {
  it('shows workers, sessions, calls in flight with their age, and no argument of them', async () => {
    const endpoint = await group(3);
    const inspector = await look({ endpoint });
    await at(0).run(() => rpcSync('w1', double, [4]));
    const open = at(0).run(() => rpcAsync('w2', wait, ['hunter2']));
    await until(async () => {
      const [call] = report(await inspector.look(), 'w2').incoming.calls;
      return call !== undefined && (call.ageMs ?? 0) > 20;
    }, 'the handler runs for a while');
    const seen = await inspector.look();
    expect(seen).toMatchObject({ group: 'default', size: 3 });
    expect(seen.workers.map(({ name, id, state }) => [name, id, state])).toEqual([
      ['w0', 0, 'up'],
      ['w1', 1, 'up'],
      ['w2', 2, 'up'],
    ]);
    const first = report(seen, 'w0');
    expect(first.pid).toBe(process.pid);
    expect(first.metrics.calls_sent).toBe(2);
    expect(first.outgoing).toMatchObject({ total: 1 });
    expect(first.outgoing.calls).toMatchObject([{ peer: 'w2', method: 'inspection.test/wait', state: 'async' }]);
    expect(first.outgoing.calls[0]?.ageMs).toBeGreaterThan(20);
    expect(first.outgoing.calls[0]?.leftMs).toBeGreaterThan(50_000);
    expect(first.sessions.find(({ name }) => name === 'w1')).toMatchObject({ up: true, state: 'open', reconnects: 0 });
    const [handled] = report(seen, 'w2').incoming.calls;
    expect(handled).toMatchObject({ peer: 'w0', method: 'inspection.test/wait', state: 'running' });
    expect(handled?.ageMs).toBeGreaterThan(20);
    expect(report(seen, 'w2').budgets.find(({ name }) => name === 'handlers')).toEqual({
      name: 'handlers',
      used: 1,
      limit: 1_024,
    });
    expect(JSON.stringify(seen)).not.toContain('hunter2');
    gate.open();
    await open;
  });

  it('goes through any one worker as well', async () => {
    await group(2, { transports: ['tcp'] });
    const listener = (at(1) as Agent).listeners[0];
    const inspector = await look({ endpoint: listener?.endpoint ?? '' });
    expect((await inspector.look()).workers.map(({ name, state }) => [name, state])).toEqual([
      ['w0', 'up'],
      ['w1', 'up'],
    ]);
  });

  it('tells of calls that ended, each once, while it is asked to', async () => {
    const inspector = await look({ endpoint: await group(2) });
    await at(0).run(() => rpcSync('w1', double, [1]));
    expect(report(await inspector.look({ recent: true }), 'w0').recent).toEqual([]);
    await at(0).run(() => rpcSync('w1', double, [1]));
    await at(0).run(() => rpcSync('w1', fail, ['the value 42']).catch(() => undefined));
    const seen = await inspector.look({ recent: true });
    expect(report(seen, 'w0').recent).toMatchObject([
      { n: 1, to: 'w1', method: 'inspection.test/double', kind: 'sync' },
      { n: 2, to: 'w1', method: 'inspection.test/fail', error: 'RangeError' },
    ]);
    expect(report(seen, 'w0').sessions[0]?.calls).toMatchObject({ calls: 2, errors: 1 });
    // What a handler said may hold values.
    expect(JSON.stringify(seen)).not.toContain('the value 42');
    expect(report(await inspector.look({ recent: true }), 'w0').recent).toEqual([]);
  });

  it('counts calls to a worker that comes back from nothing', async () => {
    const store = `memory://inspection-${++groups}`;
    const start = (name: string): Promise<RpcAgent> => createAgent({ name, membership: 'dynamic', store });
    agents.push(await start('a'), await start('b'));
    const inspector = await look({ endpoint: store });
    await inspector.look({ recent: true });
    for (let i = 0; i < 5; i++) await at(0).run(() => rpcSync('b', double, [i]));
    await agents.pop()?.shutdown();
    agents.push(await start('b'));
    await until(() => at(0).debugInfo()['agent.peers'] === 1, 'the return');
    await at(0).run(() => rpcSync('b', double, [1]));
    const seen = await inspector.look({ recent: true });
    expect(report(seen, 'a').sessions).toMatchObject([{ name: 'b', calls: { calls: 1, errors: 0 } }]);
    expect(seen.workers.map(({ clockAheadMs }) => clockAheadMs)).toEqual([0, 0]);
  });

  it('says that a worker died, and which one left', async () => {
    const store = `memory://inspection-${++groups}`;
    const start = (name: string): Promise<RpcAgent> => createAgent({ name, membership: 'dynamic', store });
    agents.push(await start('a'), await start('b'));
    const inspector = await look({ endpoint: store });
    expect((await inspector.look()).workers.map(({ name, state }) => [name, state])).toEqual([
      ['a', 'up'],
      ['b', 'up'],
    ]);
    await agents.pop()?.[Symbol.asyncDispose]();
    expect((await inspector.look()).workers.map(({ name, state }) => [name, state])).toEqual([
      ['a', 'up'],
      ['b', 'left'],
    ]);
  });

  it('counts what went to those who are gone, and as failed what could not be sent', async () => {
    const store = `memory://inspection-${++groups}`;
    const start = (name: string): Promise<RpcAgent> => createAgent({ name, membership: 'dynamic', store });
    agents.push(await start('a'), await start('b'));
    for (let i = 0; i < 20; i++) await at(0).run(() => rpcSync('b', double, [i]));
    const unsendable = at(0).run(() => rpcSync('b', double, [Symbol('x') as unknown as number]));
    await expect(unsendable).rejects.toThrow(TypeError);
    const before = at(0).metrics();
    expect(before).toMatchObject({ calls_sent: 20, calls_failed: 1 });
    const refused = at(0).run(() => rpcAsync('b', double, [1], { signal: AbortSignal.abort() }));
    await expect(refused).rejects.toMatchObject({ code: 'cancelled' });
    const draining = vi.spyOn((at(0) as Agent).members.find('b'), 'draining', 'get').mockReturnValue(true);
    await expect(at(0).run(() => rpcAsync('b', double, [1]))).rejects.toMatchObject({ code: 'draining' });
    draining.mockRestore();
    const misused = at(0).run(() => rpcAsync('b', double, [1], { timeoutMs: -1 }));
    await expect(misused).rejects.toThrow(RangeError);
    expect(at(0).metrics()).toMatchObject({ calls_sent: 20, calls_failed: 3, calls_open: 0 });
    await agents.pop()?.shutdown();
    await until(() => at(0).debugInfo()['agent.peers'] === 0, 'the departure');
    const after = at(0).metrics();
    expect(after['peers']).toEqual([]);
    expect(after['bytes_sent']).toBeGreaterThanOrEqual(before['bytes_sent'] as number);
    expect(after['bytes_received']).toBeGreaterThanOrEqual(before['bytes_received'] as number);
  });

  it('finds the only group of a store, and asks which when there are several', async () => {
    const store = `memory://inspection-${++groups}`;
    await expect(Inspector.open({ endpoint: store })).rejects.toMatchObject({ code: 'not-found' });
    agents.push(await createAgent({ name: 'x', worldSize: 1, group: 'one', store }));
    expect((await look({ endpoint: store })).group).toBe('one');
    agents.push(await createAgent({ name: 'x', worldSize: 1, group: 'two', store }));
    await expect(Inspector.open({ endpoint: store })).rejects.toThrow('choose one of one, two');
    expect((await (await look({ endpoint: store, group: 'two' })).look()).workers).toHaveLength(1);
  });
});

describe('whoever looks', () => {
  it('is not part of the group, and holds up no shutdown', async () => {
    const endpoint = await group(2);
    const before = (await (await look({ endpoint })).look()).epoch;
    const inspector = await look({ endpoint });
    const seen = await inspector.look({ recent: true });
    expect(seen.epoch).toBe(before);
    expect(seen.workers).toHaveLength(2);
    for (const agent of agents) expect(agent.debugInfo()['agent.peers']).toBe(1);
    const began = performance.now();
    await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ timeoutMs: 20_000 })));
    expect(performance.now() - began).toBeLessThan(10_000);
    const after = await inspector.look();
    expect(after.workers.map(({ state }) => state)).toEqual(['left', 'left']);
  });

  it('has to know the secret', async () => {
    await group(1, { transports: ['tcp'], security: { mode: 'hmac', secret: SECRET } });
    const endpoint = (at(0) as Agent).listeners[0]?.endpoint ?? '';
    const wrong = Inspector.open({
      endpoint,
      security: { mode: 'hmac', secret: `another ${SECRET}` },
      timeoutMs: 2_000,
    });
    await expect(wrong).rejects.toMatchObject({ code: 'unauthenticated' });
    const right = await look({ endpoint, security: { mode: 'hmac', secret: SECRET } });
    expect((await right.look()).workers.map(({ state }) => state)).toEqual(['up']);
  });

  it('comes over TLS where the group does', async () => {
    const security = { mode: 'psk', secret: SECRET } as const;
    await group(2, { transports: ['tcp'], security });
    const endpoint = (at(0) as Agent).listeners[0]?.endpoint ?? '';
    expect(endpoint).toMatch(/^tls:/);
    const seen = await (await look({ endpoint, security })).look();
    expect(seen.workers.map(({ state }) => state)).toEqual(['up', 'up']);
    expect(report(seen, 'w0').sessions).toHaveLength(1);
  });

  it.skipIf(!hasOpenssl)('shows a certificate where the group does, of any name that the group trusts', async () => {
    const certificates = new Certificates().make('w0').make('w1').make('looker');
    const of = (name: string): Security => certificates.security(name);
    try {
      const store = `memory://inspection-${++groups}`;
      const start = (rank: number): Promise<RpcAgent> =>
        createAgent({ name: `w${rank}`, rank, worldSize: 2, store, transports: ['tcp'], security: of(`w${rank}`) });
      agents.push(...(await Promise.all([start(0), start(1)])));
      const endpoint = (at(0) as Agent).listeners[0]?.endpoint ?? '';
      const seen = await (await look({ endpoint, security: of('looker') })).look();
      expect(seen.workers.map(({ state }) => state)).toEqual(['up', 'up']);
      const secret = { mode: 'psk', secret: SECRET } as const;
      await expect(Inspector.open({ endpoint, security: secret, timeoutMs: 2_000 })).rejects.toMatchObject({
        name: 'RpcError',
      });
    } finally {
      certificates.remove();
    }
  });

  it('costs calls nothing once it has gone', async () => {
    const endpoint = await group(2);
    const { observers } = at(0) as Agent;
    expect(observers.current).toBeUndefined();
    const inspector = await look({ endpoint });
    await inspector.look();
    expect(observers.current).toBeUndefined();
    await inspector.look({ recent: true });
    expect(observers.current).toBeDefined();
    await inspector.close();
    await until(() => observers.current === undefined, 'the end of the watching');
  });

  it('is hung up on when there are too many, and when it talks nonsense', async () => {
    const endpoint = await group(1, { transports: ['tcp'] });
    const all = await Promise.all(Array.from({ length: MAX_INSPECTORS }, () => look({ endpoint })));
    for (const inspector of all) await inspector.look();
    const more = await look({ endpoint, timeoutMs: 1_000 });
    expect((await more.look()).workers).toMatchObject([{ state: 'silent' }]);
    await all[0]?.close();
    await until(() => true);
    await sleep(50);
    expect((await more.look()).workers).toMatchObject([{ state: 'up' }]);
    // A stranger gets nothing, and the agent goes on.
    const [, host = '', port = ''] = /tcp:\/\/(.+):(\d+)/.exec((at(0) as Agent).listeners[0]?.endpoint ?? '') ?? [];
    const socket = connect(Number(port), host);
    socket.write('{"ask":"report"}');
    socket.resume();
    await once(socket, 'close');
    expect(await at(0).run(() => rpcSync('w0', double, [21]))).toBe(42);
  });
});

describe('an observer', () => {
  it('sees both sides of every call, and its absence costs nothing', async () => {
    await group(2);
    const seen: string[] = [];
    const observer: CallObserver = {
      called: ({ label }) => seen.push(`called ${label.name}`),
      settled: ({ label }, error) => seen.push(`settled ${label.name} ${error === undefined ? 'well' : 'badly'}`),
      handling: ({ definition }) => seen.push(`handling ${definition?.name ?? ''}`),
      handled: ({ definition }, error) =>
        seen.push(`handled ${definition?.name ?? ''} ${error === undefined ? 'well' : 'badly'}`),
    };
    const stop = [at(0), at(1)].map((agent) => (agent as Agent).observers.add(observer));
    await at(0).run(() => rpcSync('w1', double, [1]));
    await at(0).run(() => rpcSync('w1', fail, ['x']).catch(() => undefined));
    for (const end of stop) end();
    await at(0).run(() => rpcSync('w1', double, [1]));
    const names = ['inspection.test/double', 'inspection.test/fail'];
    expect(seen).toEqual([
      `called ${names[0]}`,
      `handling ${names[0]}`,
      `handled ${names[0]} well`,
      `settled ${names[0]} well`,
      `called ${names[1]}`,
      `handling ${names[1]}`,
      `handled ${names[1]} badly`,
      `settled ${names[1]} badly`,
    ]);
  });

  it('sees calls on the diagnostics channels of node', async () => {
    await group(2);
    const { tracingChannel } = await import('node:diagnostics_channel');
    const seen: string[] = [];
    const handlers = (side: string) => ({
      start: (message: object) => seen.push(`${side} start ${JSON.stringify(message)}`),
      asyncEnd: (message: object) => seen.push(`${side} end ${(message as { method: string }).method}`),
      error: (message: object) => seen.push(`${side} error ${String((message as { error: unknown }).error)}`),
    });
    const sides = ['call', 'handle'].map((side) => [tracingChannel(`backwire:rpc.${side}`), handlers(side)] as const);
    for (const [channel, subscribers] of sides) channel.subscribe(subscribers as never);
    try {
      await at(0).run(() => rpcSync('w1', double, [1]));
      await at(0).run(() => rpcSync('w1', fail, ['no']).catch(() => undefined));
    } finally {
      for (const [channel, subscribers] of sides) channel.unsubscribe(subscribers as never);
    }
    await at(0).run(() => rpcSync('w1', double, [1]));
    expect(seen).toContain('call start {"method":"inspection.test/double","kind":"sync","peer":"w1"}');
    expect(seen).toContain('handle start {"method":"inspection.test/double","kind":"handler","peer":"w0"}');
    expect(seen.filter((line) => line === 'call end inspection.test/double')).toHaveLength(1);
    expect(seen).toContain('handle error RangeError: no');
    expect(seen).toContain('call error RangeError: no');
    expect((at(0) as Agent).observers.current).toBeUndefined();
  });
});
