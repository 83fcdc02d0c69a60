/** @file Links that break: sessions go on, in order and once; peers that are gone fail what waits for them. */
import { errorMatching } from '@backwire/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { add, ones, tensor, type Tensor } from '@backwire/tensor';
import {
  barrier,
  callContext,
  rpcAsync,
  RpcError,
  rpcFunction,
  rpcInfo,
  rpcOneway,
  rpcSync,
  type RpcAgent,
  type RpcOptions,
  type WorkerInfo,
} from '../src/index.ts';
import type { Agent } from '../src/agent/agent.ts';
import { CONGESTED_BODY_BYTES } from '../src/base/limits.ts';
import type { Peer } from '../src/session/peer.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

const echo = rpcFunction('sessions/echo', (x: unknown) => x);
const runs = new Map<number, number>();
const once = rpcFunction('sessions/once', async (i: number) => {
  runs.set(i, (runs.get(i) ?? 0) + 1);
  await new Promise((resolve) => setTimeout(resolve, i % 3));
  return i;
});
const order: number[] = [];
const inOrder = rpcFunction('sessions/inOrder', (i: number) => void order.push(i));
const hang = rpcFunction('sessions/hang', async () => {
  const { signal } = callContext();
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
});
const sum = rpcFunction('sessions/sum', (x: Tensor) => x.sum().item());

let cluster: Cluster | undefined;
afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
  runs.clear();
  order.length = 0;
});
async function start(options: Partial<RpcOptions> = {}, size = 2): Promise<Cluster> {
  cluster = await startCluster(size, { transports: ['unix'], ...options });
  return cluster;
}
/** The link of one agent to another, as the tests break it. */
function peerOf(agent: RpcAgent, name: string): Peer {
  return (agent as Agent).members.find(name);
}
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );

describe('a link that breaks', () => {
  it('does not bring a worker to a barrier that it has given up meanwhile', async () => {
    const { at } = await start();
    await at(1).run(() => rpcSync('w0', echo, [1]));
    const peer = peerOf(at(1), 'w0');
    const unreachable = (executed: 'no' | 'maybe' | 'yes'): RpcError =>
      new RpcError('unavailable', 'w0 cannot be reached', { executed });
    peer.reset(unreachable('no'));
    const given = failure(at(1).run(() => barrier()));
    (at(1) as Agent).caller.calls.failAll(peer, unreachable);
    expect(rpcInfo(await given)?.code).toBe('barrier-broken');
    // Over the next link everything comes that was sent before.
    expect(await at(1).run(() => rpcSync('w0', echo, [2]))).toBe(2);
    const alone = await failure(at(0).run(() => barrier({ timeoutMs: 300 })));
    expect((alone as Error).message).toContain("'w1'");
    await Promise.all([0, 1].map((i) => at(i).run(() => barrier({ timeoutMs: 10_000 }))));
  });

  it('does not lose, repeat or reorder calls', async () => {
    const { at } = await start();
    const calls: Promise<number>[] = [];
    let reconnected = 0;
    at(0).on('peer-reconnected', () => reconnected++);
    for (let i = 0; i < 400; i++) {
      calls.push(at(0).run(() => rpcAsync('w1', once, [i])));
      at(0).run(() => rpcOneway('w1', inOrder, [i]));
      if (i % 80 === 40) {
        await until(() => peerOf(at(0), 'w1').up, 'the link is up');
        peerOf(i % 160 === 40 ? at(0) : at(1), i % 160 === 40 ? 'w1' : 'w0').reset(new Error('cut by the test'));
      }
      if (i % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 400 }, (_, i) => i));
    expect([...runs.values()].every((count) => count === 1)).toBe(true);
    await until(() => order.length === 400, 'one-way calls arrived');
    expect(order).toEqual(Array.from({ length: 400 }, (_, i) => i));
    expect(reconnected).toBeGreaterThan(0);
  });

  it.each(['before', 'during', 'after'])('goes on with a tensor that is on its way (%s)', async (when) => {
    const { at } = await start();
    await at(0).run(() => rpcSync('w1', echo, [1]));
    const size = 8_000_000;
    const x = tensor(new Float32Array(size).fill(1), { shape: [size] });
    const call = at(0).run(() => rpcAsync('w1', echo, [x]));
    const there = peerOf(at(1), 'w0');
    if (when === 'during') await until(() => there.bytesReceived > 2_000_000, 'part of it is there');
    if (when === 'after') await until(() => there.bytesReceived > size * 4, 'all of it is there');
    peerOf(at(0), 'w1').reset(new Error('cut by the test'));
    const y = (await call) as Tensor;
    expect(y.size).toBe(size);
    expect(y.sum().item()).toBe(size);
    expect(peerOf(at(0), 'w1').sender.session.bodies.pendingBytes).toBe(0);
  });

  it('is cut many times while tensors travel, and every one arrives whole', async () => {
    const { at } = await start();
    const size = 400_000;
    const calls = Array.from({ length: 24 }, (_, i) =>
      at(0).run(() => rpcAsync('w1', sum, [tensor(new Float32Array(size).fill(i), { shape: [size] })])),
    );
    let cuts = 0;
    const knife = setInterval(() => {
      if (!peerOf(at(0), 'w1').up) return;
      cuts++;
      peerOf(cuts % 2 === 0 ? at(0) : at(1), cuts % 2 === 0 ? 'w1' : 'w0').reset(new Error('cut by the test'));
    }, 7);
    try {
      const sums = await Promise.all(calls);
      expect(sums).toEqual(Array.from({ length: 24 }, (_, i) => i * size));
      expect(cuts).toBeGreaterThan(0);
    } finally {
      clearInterval(knife);
    }
  });

  it('is not dialled without pause where each breaks as soon as it is up, and carries what waits once one holds', async () => {
    const { at } = await start();
    await at(0).run(() => rpcSync('w1', echo, [1]));
    let cuts = 0;
    const knife = setInterval(() => {
      if (!peerOf(at(0), 'w1').up) return;
      cuts++;
      peerOf(at(0), 'w1').reset(new Error('cut by the test'));
    }, 2);
    const call = at(0).run(() => rpcAsync('w1', echo, [2]));
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    clearInterval(knife);
    expect(cuts).toBeGreaterThan(2);
    expect(cuts).toBeLessThan(40);
    await expect(call).resolves.toBe(2);
  });

  it('still cancels handlers', async () => {
    const { at } = await start();
    const controller = new AbortController();
    const call = at(0).run(() => rpcSync('w1', hang, [], { signal: controller.signal }));
    await until(() => at(1).debugInfo()['agent.server_active_calls'] === 1, 'the handler runs');
    peerOf(at(0), 'w1').reset(new Error('cut by the test'));
    controller.abort();
    expect(rpcInfo(await failure(call))?.code).toBe('cancelled');
    await until(() => at(1).debugInfo()['agent.server_active_calls'] === 0, 'the handler ended');
  });
});

describe('a peer that goes away', () => {
  it('fails what waits for it with its name when it leaves', async () => {
    const { at } = await start({ rpcTimeoutMs: 10_000 }, 4);
    const failed = failure(at(0).run(() => rpcSync('w1', hang)));
    await until(() => at(1).debugInfo()['agent.server_active_calls'] === 1, 'the handler runs');
    await at(1).shutdown({ graceful: false });
    const peer = { name: 'w1' };
    const error = await failed;
    const left = "worker 'w1' has left the group";
    expect(error).toEqual(errorMatching(RpcError, { code: 'unavailable', executed: 'maybe', peer, message: left }));
    const [message, gone] = [new RegExp(`^${left}; .*could not find destination (name w1|id 1)`), 'unavailable'];
    for (const to of ['w1', 1, (error as RpcError).peer as WorkerInfo]) {
      for (const call of [
        () => rpcSync(to, echo, [1]),
        () => rpcAsync(to, echo, [1]),
        () => rpcAsync(to, add, [ones([1]), 3]),
      ]) {
        const later = await failure(at(0).run<Promise<unknown>>(call));
        expect(later).toEqual(errorMatching(RpcError, { code: gone, executed: 'no', peer, message }));
      }
      expect(() => at(0).run(() => rpcOneway(to, echo, [1]))).toThrow(
        errorMatching(RpcError, { code: gone, executed: 'no', peer, message }),
      );
    }
    // The others are there as before, until all of them leave in the same way.
    for (const to of ['w2', 'w3']) expect(await at(0).run(() => rpcSync(to, echo, [1]))).toBe(1);
    await Promise.all([0, 2, 3].map((rank) => at(rank).shutdown({ graceful: false })));
  });

  it('ends what it asked of others', async () => {
    const { at } = await start();
    const call = at(0).run(() => rpcSync('w1', hang));
    call.catch(() => undefined);
    await until(() => at(1).debugInfo()['agent.server_active_calls'] === 1, 'the handler runs');
    await at(0).shutdown({ graceful: false });
    expect(rpcInfo(await failure(call))?.code).toBe('unavailable');
    await until(() => at(1).debugInfo()['agent.server_active_calls'] === 0, 'the handler was told');
  });

  it('is removed by the view when its lease ends, and learns that itself', async () => {
    const { at } = await start();
    const failed = failure(at(0).run(() => rpcSync('w1', hang)));
    await until(() => at(1).debugInfo()['agent.server_active_calls'] === 1, 'the handler runs');
    const events: string[] = [];
    at(0).on('peer-down', (peer) => events.push(`down ${peer.name}`));
    at(1).on('fenced', () => events.push('fenced'));
    (at(0) as Agent).members.sessionLost(peerOf(at(0), 'w1'), 'the test says so');
    const info = rpcInfo(await failed);
    expect(info?.code).toBe('peer-died');
    expect(info?.peer?.name).toBe('w1');
    await until(() => events.length === 2, 'both were told');
    expect(events.sort()).toEqual(['down w1', 'fenced']);
    const later = rpcInfo(await failure(at(0).run(() => rpcSync('w1', echo, [1]))));
    expect(later).toMatchObject({ code: 'peer-died', executed: 'no', peer: { name: 'w1' } });
    for (const to of ['w0', 0, 'w1']) {
      const own = rpcInfo(await failure(at(1).run(() => rpcSync(to, echo, [1]))));
      expect(own).toMatchObject({ code: 'fenced', executed: 'no' });
    }
  });
});

describe('limits', () => {
  it('refuse calls past the buffer, certainly not run', async () => {
    const { at } = await start({ limits: { maxBufferedBytesPerPeer: 200_000, maxInboundCalls: 4 } });
    const text = 'x'.repeat(50_000);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 2_000 }, () => at(0).run(() => rpcAsync('w1', echo, [text]))),
    );
    const refused = outcomes
      .filter((outcome) => outcome.status === 'rejected')
      .map((outcome) => rpcInfo(outcome.reason));
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.every((info) => info?.code === 'resource-exhausted' && info.executed === 'no')).toBe(true);
    expect(await at(0).run(() => rpcSync('w1', echo, ['still alive']))).toBe('still alive');
  });

  it('let calls pass that are larger than the whole window', async () => {
    const { at } = await start({ limits: { maxBufferedBytesPerPeer: 100_000 } });
    const x = tensor(new Float32Array(1_000_000).fill(1), { shape: [1_000_000] });
    expect(await at(0).run(() => rpcSync('w1', sum, [x]))).toBe(1_000_000);
  });

  it('hold calls back until earlier ones are over', async () => {
    const { at } = await start({ limits: { maxInboundCalls: 3 } });
    const answers = await Promise.all(
      Array.from({ length: 500 }, (_, i) => at(0).run(() => rpcAsync('w1', once, [i]))),
    );
    expect(answers).toEqual(Array.from({ length: 500 }, (_, i) => i));
  });

  it('hold handlers back while their answers are not taken', async () => {
    const { at } = await start();
    const text = 'x'.repeat(60_000);
    const give = rpcFunction('sessions/give', () => text);
    await at(0).run(() => rpcSync('w1', echo, [1]));
    const there = peerOf(at(1), 'w0').sender;
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, there.session.pendingBytes)), 1);
    const answers = await Promise.all(Array.from({ length: 1_500 }, () => at(0).run(() => rpcAsync('w1', give))));
    clearInterval(watch);
    expect(answers.every((answer) => answer.length === text.length)).toBe(true);
    expect(most).toBeLessThan(40 * 1024 * 1024);
  });

  it('hold handlers back while large storages of their answers are not taken', async () => {
    const { at } = await start();
    const bytes = 8 * 1024 * 1024;
    const large = tensor(new Float32Array(bytes / 4), { shape: [bytes / 4] });
    let given = 0;
    const give = rpcFunction('sessions/give-large', () => (given++, large));
    await at(0).run(() => rpcSync('w1', echo, [1]));
    let taken = 0;
    let most = 0;
    const answers = Array.from({ length: 60 }, async () => {
      const answer = await at(0).run(() => rpcAsync('w1', give));
      most = Math.max(most, given - taken++);
      expect(answer.shape).toEqual(large.shape);
      answer.dispose();
    });
    await Promise.all(answers);
    expect(given).toBe(60);
    expect(most * bytes).toBeLessThanOrEqual(CONGESTED_BODY_BYTES + 4 * bytes);
    expect(peerOf(at(1), 'w0').sender.session.bodies.pendingBytes).toBeLessThanOrEqual(bytes);
  });

  it('refuse messages that are too long', async () => {
    const { at } = await start({ limits: { maxMessageBytes: 1_000_000 } });
    const x = tensor(new Float32Array(1_000_000), { shape: [1_000_000] });
    const error = await failure(at(0).run(() => rpcSync('w1', sum, [x])));
    expect(error).toBeInstanceOf(RpcError);
    expect((error as RpcError).code).toBe('resource-exhausted');
    expect(await at(0).run(() => rpcSync('w1', echo, [2]))).toBe(2);
  });
});
