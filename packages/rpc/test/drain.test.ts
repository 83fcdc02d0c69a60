/** @file A worker that leaves: what it runs is finished, what is new is refused before it is sent, and the others hear of it. */
import { afterEach, describe, expect, it } from 'vitest';
import { tensor, type Tensor } from '@backwire/tensor';
import type { Agent } from '../src/agent/agent.ts';
import {
  createAgent,
  RpcError,
  rpcFunction,
  rpcInfo,
  rpcOneway,
  rpcStream,
  rpcSync,
  type RpcAgent,
  type RpcOptions,
} from '../src/index.ts';
import { until } from './cluster.ts';

let running = 0;
const runs: string[] = [];
let release = (): void => undefined;
const held = rpcFunction('drain/held', async (what: string) => {
  runs.push(what);
  running++;
  await new Promise<void>((resolve) => (release = resolve));
  running--;
  return `${what} finished`;
});
const note = rpcFunction('drain/note', (what: string) => void runs.push(what));
const double = rpcFunction('drain/double', (x: Tensor) => x.mul(2));
const count = rpcFunction('drain/count', async function* () {
  yield 1;
  await new Promise<void>((resolve) => (release = resolve));
  yield 2;
});

const open: RpcAgent[] = [];
let stores = 0;
afterEach(async () => {
  release();
  await Promise.all(open.splice(0).map((agent) => agent.shutdown({ graceful: false })));
  runs.length = 0;
  running = 0;
});

/** Workers of an open group, who know each other and have links. */
async function start(...names: string[]): Promise<RpcAgent[]> {
  const options: Partial<RpcOptions> = {
    store: `memory://drain-${stores++}`,
    transports: ['unix'],
    membership: 'dynamic',
  };
  const agents = await Promise.all(names.map((name) => createAgent({ name, ...options })));
  open.push(...agents);
  for (const agent of agents) await until(() => agent.debugInfo()['agent.peers'] === names.length - 1);
  for (const agent of agents) for (const name of names) await agent.run(() => rpcSync(name, note, ['met']));
  runs.length = 0;
  return agents;
}
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );

describe('a worker that leaves', () => {
  it('tells the others at once: new calls fail without being sent, certainly not run, and may go elsewhere', async () => {
    const [a, b] = (await start('a', 'b', 'c')) as [RpcAgent, RpcAgent];
    const call = a.run(() => rpcSync('b', held, ['first']));
    await until(() => running === 1);
    const left = b.shutdown();
    const peer = (a as Agent).members.find('b');
    await until(() => peer.draining, 'the notice came');
    const sent = peer.bytesSent;
    const late = a.run(() => failure(rpcSync('b', note, ['late'])));
    expect(rpcInfo(await late)).toMatchObject({ code: 'draining', executed: 'no', retryable: true });
    expect((await late) as Error).toMatchObject({
      message: expect.stringContaining("worker 'b' is leaving") as string,
    });
    expect(() => a.run(() => rpcOneway('b', note, ['late']))).toThrow(/draining/);
    expect(peer.bytesSent - sent).toBeLessThan(100);
    await a.run(() => rpcSync('c', note, ['elsewhere']));
    release();
    expect(await call).toBe('first finished');
    await left;
    expect(runs).toEqual(['first', 'elsewhere']);
    await until(() => a.debugInfo()['agent.peers'] === 1, 'the group knows');
  });

  it('finishes streams and results with tensors', async () => {
    const [a, b] = (await start('a', 'b')) as [RpcAgent, RpcAgent];
    const stream = a.run(() => rpcStream('b', count));
    expect(await stream.next()).toEqual({ done: false, value: 1 });
    const [x] = await Promise.all([a.run(() => rpcSync('b', double, [tensor(new Float32Array(500_000).fill(1))]))]);
    expect(x.dataSync()[499_999]).toBe(2);
    const left = b.shutdown();
    await until(() => (a as Agent).members.find('b').draining);
    release();
    expect(await stream.next()).toEqual({ done: false, value: 2 });
    expect((await stream.next()).done).toBe(true);
    await left;
  });

  it('may still call the others until it is gone', async () => {
    const [a, b] = (await start('a', 'b')) as [RpcAgent, RpcAgent];
    const call = a.run(() => rpcSync('b', held, ['first']));
    await until(() => running === 1);
    const left = b.shutdown();
    await b.run(() => rpcSync('a', note, ['from the one that leaves']));
    release();
    expect(await call).toBe('first finished');
    await left;
    expect(runs).toContain('from the one that leaves');
  });

  it('makes calls that were on their way certain not to have run, even when the link breaks before their answer', async () => {
    const [a, b] = (await start('a', 'b')) as [RpcAgent, RpcAgent];
    const kept = a.run(() => failure(rpcSync('b', held, ['first'])));
    await until(() => running === 1);
    const peer = (a as Agent).members.find('b');
    const before = peer.sender.session.lastSent;
    const crossing = a.run(() => failure(rpcSync('b', note, ['crossing'])));
    peer.lastServed = before;
    (a as Agent).caller.calls.failAll(peer, (executed) => new RpcError('unavailable', 'cut', { executed }));
    expect([await crossing, await kept]).toMatchObject([{ executed: 'no' }, { executed: 'maybe' }]);
    release();
    await b.shutdown({ graceful: false });
  });

  it('is told of on links that come up later, too', async () => {
    const options: Partial<RpcOptions> = {
      store: `memory://drain-${stores++}`,
      transports: ['unix'],
      membership: 'dynamic',
    };
    const a = await createAgent({ name: 'a', ...options });
    const b = await createAgent({ name: 'b', ...options });
    open.push(a, b);
    await until(() => a.debugInfo()['agent.peers'] === 1);
    const self = b.run(() => rpcSync('b', held, ['own']));
    await until(() => running === 1);
    const left = b.shutdown();
    const info = rpcInfo(await a.run(() => failure(rpcSync('b', note, ['late']))));
    expect(info).toMatchObject({ code: 'draining', executed: 'no' });
    await until(() => (a as Agent).members.find('b').draining);
    release();
    expect(await self).toBe('own finished');
    await left;
    expect(runs).toEqual(['own']);
  });
});
