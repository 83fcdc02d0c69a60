/** @file Handles on RRefs in messages that were not understood, or came too late: nobody keeps anything of them. */
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { tensor } from '@backwire/tensor';
import { freePort } from '@backwire/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { member } from './member.ts';
import { py } from '../src/py.ts';
import { group, leave } from './group.ts';
import { Python, torchVersion, withTorch } from './python.ts';

const counts = (agent: Agent): Record<string, unknown> => agent.rrefs.debugInfo();
const nothing = { num_owner_rrefs: 0, num_forks: 0, num_pending_users: 0, num_pending_children: 0 };

describe('between workers of this kind', () => {
  let release = (): void => undefined;
  const late = rpcFunction('unread.late', async (...values: unknown[]) => {
    await new Promise<void>((resolve) => (release = resolve));
    return values;
  });
  const same = rpcFunction('unread.same', (value: unknown) => value);
  let agents: Agent[];
  beforeEach(async () => {
    agents = await group(3);
  });

  it('lets go of those in an answer that comes after its call was given up', async () => {
    const [first, second] = agents as [Agent, Agent];
    let made = false;
    second.offer('unread.own', async () => {
      await new Promise<void>((resolve) => (release = resolve));
      made = true;
      return [second.run(() => createRRef(7)), tensor([1])];
    });
    await expect(first.run(() => rpcSync('n1', py('unread.own'), [], { timeoutMs: 50 }))).rejects.toMatchObject({
      code: 'deadline-exceeded',
    });
    release();
    await expect.poll(() => made).toBe(true);
    await expect.poll(() => counts(second)).toMatchObject(nothing);
    await leave(agents);
  });

  it('lets go of those behind an object of a class that is not offered', async () => {
    const [first, second] = agents as [Agent, Agent];
    class Thing {
      readonly of = 1;
    }
    second.offer('unread.Thing', Thing);
    second.offer('unread.own', () => [new Thing(), second.run(() => createRRef(7))]);
    await expect(first.run(() => rpcSync('n1', py('unread.own'), []))).rejects.toMatchObject({
      code: 'decode-error',
      message: expect.stringContaining("names 'unread.Thing', which is not offered here") as string,
    });
    await expect.poll(() => counts(second)).toMatchObject(nothing);
    await leave(agents);
  });

  it('keeps nothing for a member that is gone from the group', async () => {
    const [first] = agents as [Agent];
    const own = first.run(() => createRRef(1));
    const held: RRef<unknown> = first.run(() => remote('n1', same, [2]));
    await held.confirmed();
    const open = first.run(() => rpcSync('n2', late, [own, held])).catch((error: unknown) => error);
    await expect.poll(() => counts(first)).toMatchObject({ num_owner_rrefs: 1, num_pending_children: 0 });
    first.forget('n2');
    expect(await open).toMatchObject({ code: 'cancelled' });
    expect(counts(first)).toMatchObject(nothing);
    // What cannot be told to an owner that is gone is no failure of who lets go.
    first.forget('n1');
    held.dispose();
    await first.rrefs.drain(1_000);
    release();
    await Promise.all(agents.map((agent) => agent[Symbol.asyncDispose]()));
  });
});

describe.skipIf(torchVersion === undefined)(withTorch, { timeout: 120_000 }, () => {
  let node: Agent;
  let pythons: Python[] = [];
  beforeEach(async () => {
    const init = `tcp://127.0.0.1:${await freePort()}`;
    const started = [0, 1].map((rank) => Python.start({ name: `py${rank}`, rank, size: 3, init, timeout: 20 }));
    pythons = started.map(({ python }) => python);
    const options = { name: 'node', rank: 2, worldSize: 3, initMethod: init, trustNetwork: true, generation: 0 };
    [node] = await Promise.all([member(options), ...started.map(({ ready }) => ready)]);
  }, 120_000);
  afterEach(async () => {
    await Promise.all(pythons.map((python) => python.kill()));
  });

  it('lets go of those that a third worker could not read, and keeps no group from its end', async () => {
    const own = node.run(() => createRRef(tensor([1, 2])));
    const held: RRef<unknown> = node.run(() => remote('py1', py<(n: number) => unknown>('torch.ones'), [2]));
    await held.confirmed();
    const no = py<(...args: unknown[]) => unknown>('no.such');
    const given = [own, held];
    await expect(node.run(() => rpcSync('py0', no, given))).rejects.toThrow(/No module named 'no'/);
    // Given up before the answer, which says the same.
    await expect(node.run(() => rpcSync('py0', no, given, { timeoutMs: 0.01 }))).rejects.toThrow();
    await expect(node.run(() => remote('py0', no, given)).confirmed()).rejects.toThrow(/No module named 'no'/);
    const kept = [counts(node)['num_forks'], counts(node)['num_pending_children']];
    expect(kept).toEqual([3, 3]);
    own.dispose();
    held.dispose();
    await vi.waitFor(() => expect(counts(node)).toMatchObject(nothing), { timeout: 15_000, interval: 100 });
    // One that is in doubt when the group ends is waited for no longer.
    const another: RRef<unknown> = node.run(() => remote('py1', py<(n: number) => unknown>('torch.ones'), [2]));
    await another.confirmed();
    await expect(node.run(() => rpcSync('py0', no, [another]))).rejects.toThrow(/No module named 'no'/);
    const left = node.shutdown({ timeoutMs: 20_000, onLeak: 'throw' });
    expect(await Promise.all(pythons.map((python) => python.end()))).toEqual([0, 0]);
    await left;
  });
});
