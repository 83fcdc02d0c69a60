/** @file What a worker is told while it leaves in good order: nothing that sounds as if it had been put out. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Agent } from '../src/agent/agent.ts';
import { createAgent, rpcAsync, rpcFunction } from '../src/index.ts';
import type { FailureDetectorOptions } from '../src/membership/failure-detector.ts';
import type { Group } from '../src/membership/group.ts';
import { lifeOf, type Life } from '../src/protocol/membership.ts';
import { startCluster, until } from './cluster.ts';

const echo = rpcFunction('shutdown-events/echo', (x: number) => x);

it.each([0, 3])(
  'no worker of a store that is slow to tell is fenced by leaving (a group of %i)',
  async (worldSize) => {
    const folder = mkdtempSync(join(tmpdir(), 'backwire-events-'));
    try {
      for (let round = 0; round < 3; round++) {
        const store = `file://${join(folder, `${round}`)}`;
        const size = worldSize === 0 ? {} : { worldSize };
        const agents = await Promise.all(
          [0, 1, 2].map((rank) => createAgent({ name: `w${rank}`, rank, ...size, store, initTimeoutMs: 20_000 })),
        );
        const fenced: string[] = [];
        for (const agent of agents) agent.on('fenced', () => fenced.push(agent.name));
        await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 20_000 })));
        expect(fenced).toEqual([]);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  60_000,
);

it('one that leaves while it cannot tell the store is told by its goodbye to have left, and is written so', async () => {
  const cluster = await startCluster(3);
  try {
    const [near, unmet, leaver] = [cluster.at(0), cluster.at(1), cluster.at(2)];
    expect(await near.run(() => rpcAsync('w2', echo, [7]))).toBe(7);
    const events: string[] = [];
    for (const agent of [near, unmet])
      for (const event of ['peer-left', 'peer-down'] as const)
        agent.on(event, ({ name }) => events.push(`${agent.name}: ${event} ${name}`));
    // The store neither hears of it, nor ends the lease.
    const { store: group } = leaver as unknown as { store: Group };
    group.leave = () => Promise.reject(new Error('the store is away'));
    const close = group.close.bind(group);
    group.close = () => Promise.resolve();
    await leaver.shutdown({ graceful: false });
    await until(() => events.length === 2, 'both have heard of it');
    expect(events.sort()).toEqual(['w0: peer-left w2', 'w1: peer-left w2']);
    expect((near as Agent).membership.stored.departed.map(({ name, how }) => `${name} ${how}`)).toEqual(['w2 left']);
    await close();
  } finally {
    await cluster.close();
  }
});

it('one that said goodbye has left, although its process is found gone before the store says anything', async () => {
  const cluster = await startCluster(2);
  try {
    const [near, leaver] = [cluster.at(0), cluster.at(1)];
    expect(await near.run(() => rpcAsync('w1', echo, [7]))).toBe(7);
    const events: string[] = [];
    for (const event of ['peer-left', 'peer-down'] as const)
      near.on(event, ({ name }) => events.push(`${event} ${name}`));
    const { store: group, members } = near as unknown as { store: Group; members: Deciding };
    let isAsked = false;
    // A store that is silent, rather than away: nothing is known of it for seconds.
    group.refresh = () => ((isAsked = true), new Promise(() => undefined));
    const { store: left } = leaver as unknown as { store: Group };
    left.leave = () => Promise.reject(new Error('the store does not answer'));
    const close = left.close.bind(left);
    left.close = () => Promise.resolve();
    const [life] = (near as Agent).membership.view.members.filter(({ name }) => name === 'w1').map(lifeOf);
    await leaver.shutdown({ graceful: false });
    await until(() => isAsked, 'the store is asked about the goodbye');
    members.detector.options.onDecided([life as Life]);
    await until(() => events.length === 1, 'it is said');
    expect(events).toEqual(['peer-left w1']);
    await close();
  } finally {
    await cluster.close();
  }
});

/** What the members are told by what they agree on. */
interface Deciding {
  readonly detector: { readonly options: Pick<FailureDetectorOptions, 'onDecided'> };
}
