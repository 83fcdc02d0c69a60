/** @file Handlers of one-way calls: nobody waits for them, and they hear all the same that their caller or their agent is gone. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { callContext, getWorkerInfos, rpcFunction, rpcInfo, rpcOneway } from '../src/index.ts';
import type { Agent } from '../src/agent/agent.ts';
import { plainText } from '../src/base/plain-text.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

const ends: (string | undefined)[] = [];
const untilAborted = rpcFunction('oneway/untilAborted', async () => {
  const { signal } = callContext();
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  ends.push(rpcInfo(signal.reason)?.code);
});

const refuse = rpcFunction('oneway/refuse', (text: string) => {
  throw new TypeError(`cannot take ${text}`);
});

const got: number[] = [];
const take = rpcFunction('oneway/take', (bytes: Uint8Array) => void got.push(bytes.length));

let cluster: Cluster;
afterEach(async () => {
  await cluster.close();
  ends.length = 0;
  got.length = 0;
});

/** Two workers, of which 'w1' runs two one-way calls of 'w0'. */
async function start(): Promise<Agent> {
  cluster = await startCluster(2);
  for (let i = 0; i < 2; i++) cluster.at(0).run(() => rpcOneway('w1', untilAborted, []));
  const callee = cluster.at(1) as Agent;
  await until(() => callee.dispatcher.handlers.active === 2, 'both run');
  return callee;
}

describe('the signal of a one-way call', () => {
  it('aborts when its caller is gone, and no handler of its is waited for any more', async () => {
    const callee = await start();
    await cluster.at(0).shutdown({ graceful: false });
    await until(() => ends.length === 2, 'both have heard of it');
    expect(ends).toEqual(['peer-died', 'peer-died']);
    await until(() => callee.dispatcher.handlers.active === 0, 'both are over');
    expect([...callee.dispatcher.open].flatMap(({ open }) => [...open])).toEqual([]);
  });

  it('aborts when its own agent closes', async () => {
    await start();
    await cluster.at(1).shutdown({ graceful: false });
    await until(() => ends.length === 2, 'both have heard of it');
  });
});

it('one-way calls that run are among the open ones, each by itself', async () => {
  const callee = await start();
  const open = [...callee.dispatcher.open].flatMap(({ open: calls }) => [...calls.values()]);
  expect(open.map(({ definition, state }) => [definition?.name, state])).toEqual([
    ['oneway/untilAborted', 'running'],
    ['oneway/untilAborted', 'running'],
  ]);
});

it('a failure is logged in one line, whatever its caller gave it to say', async () => {
  const warned = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  try {
    cluster = await startCluster(2);
    cluster.at(0).run(() => rpcOneway('w1', refuse, ['a\u009b2J\u001b[2J\nb\u202ec\u2028d']));
    await until(() => warned.mock.calls.length === 1, 'it is logged');
    const text = String(warned.mock.calls[0]?.[0]);
    expect(text).toContain(String.raw`cannot take a\u009b2J\u001b[2J\nb\u202ec\u2028d`);
    expect(text).toBe(plainText(text));
  } finally {
    warned.mockRestore();
  }
});

describe('a one-way call just before its caller leaves', () => {
  it.each([
    ['a group that grows', false, 1],
    ['a group that grows', false, 2 ** 25],
    ['a group of a size', true, 1],
    ['a group of a size', true, 2 ** 25],
  ])('arrives, the first thing that goes between them, in %s (sized: %s), of %i bytes', async (_, sized, bytes) => {
    cluster = await startCluster(2, {}, sized);
    const [caller, callee] = [cluster.at(0), cluster.at(1)];
    await until(() => caller.run(() => getWorkerInfos()).length === 2, 'they know each other');
    caller.run(() => rpcOneway('w1', take, [new Uint8Array(bytes)]));
    await Promise.all(sized ? [caller.shutdown(), callee.shutdown()] : [caller.shutdown()]);
    expect(got).toEqual([bytes]);
  });

  it('arrives where the two only ever met others', async () => {
    cluster = await startCluster(3);
    cluster.at(1).run(() => rpcOneway('w2', take, [new Uint8Array(3)]));
    await Promise.all(cluster.agents.map((agent) => agent.shutdown()));
    expect(got).toEqual([3]);
  });
});
