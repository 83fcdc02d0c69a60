/** @file Who waits for all others of a static group learns that one of them has died, however it waits and without a time limit. */
import { allGather, barrier, rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, remote } from '@backwire/rref';
import { ones } from '@backwire/tensor';
import { afterEach, describe, expect, it } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { group } from './group.ts';

let release = (): void => undefined;
const held = rpcFunction('lost.held', () => new Promise<null>((resolve) => (release = () => resolve(null))));
const same = rpcFunction('lost.same', (value: unknown) => value);

let agents: Agent[] = [];
afterEach(async () => {
  release();
  await Promise.all(agents.map((agent) => agent[Symbol.asyncDispose]().catch(() => undefined)));
});

/** What leaving fails with, without a time limit. */
const leaving = (agent: Agent): Promise<unknown> =>
  agent.shutdown().then(
    () => 'left',
    (error: unknown) => error,
  );
/** As a process that is killed: its connections end, and it says nothing. */
const kill = (agent: Agent): Promise<void> => agent[Symbol.asyncDispose]();
const broken = (name: string): object => ({
  code: 'barrier-broken',
  message: expect.stringContaining(`worker '${name}' is gone`) as string,
});
const soon = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

it('leaves a group of which one is dead', async () => {
  agents = await group(3);
  await kill(agents[2]!);
  await soon(50);
  const [first, second] = await Promise.all(agents.slice(0, 2).map(leaving));
  expect(first).toMatchObject(broken('n2'));
  expect(second).toMatchObject(broken('n0')); // which collects, and has given up
});

it('leaves when one dies that it waits for', async () => {
  agents = await group(3);
  const left = agents.slice(0, 2).map(leaving);
  await soon(100);
  await kill(agents[2]!);
  const [first, second] = await Promise.all(left);
  expect(first).toMatchObject(broken('n2'));
  expect(second).toMatchObject(broken('n0'));
});

it('leaves when one dies after all have come to leave, while it waits for its last call', async () => {
  agents = await group(3);
  const [first, second, third] = agents as [Agent, Agent, Agent];
  const open = third.run(() => rpcSync('n0', held)).catch(() => undefined);
  const left = [leaving(first), leaving(second)];
  const third_ = third.shutdown({ timeoutMs: 500 }).catch(() => undefined);
  const errors = await Promise.all(left);
  expect(errors[0]).toMatchObject(broken('n2'));
  expect(errors[1]).toMatchObject({ code: 'barrier-broken' });
  await Promise.all([open, third_]);
});

it('fails a collective that begins when one of its workers is dead', async () => {
  agents = await group(3);
  await kill(agents[2]!);
  await soon(50);
  const [first] = agents as [Agent];
  await expect(first.run(() => barrier())).rejects.toMatchObject(broken('n2'));
});

describe('a worker that has no connection to the one that died', () => {
  it.each([
    ['before it waits', 0],
    ['while it waits', 2_500],
  ])(
    'is told so: %s',
    async (_, after) => {
      agents = await group(4);
      const [, second, third] = agents as [Agent, Agent, Agent];
      if (after === 0) await kill(agents[3]!);
      const waits = [second, third].map((agent) => agent.run(() => barrier()).catch((error: unknown) => error));
      await soon(after);
      if (after > 0) await kill(agents[3]!);
      for (const wait of waits) expect(await wait).toMatchObject(broken('n3'));
    },
    15_000,
  );

  it('waits no longer where those that collect have been told', async () => {
    agents = await group(3);
    const waits = agents.slice(0, 2).map((agent) => agent.run(() => allGather(1)).catch((error: unknown) => error));
    await soon(100);
    await kill(agents[2]!);
    for (const wait of waits) expect(await wait).toMatchObject(broken('n2'));
  }, 15_000);
});

it('takes a worker for alive whose connection ended, and that answers', async () => {
  agents = await group(2);
  const [first, second] = agents as [Agent, Agent];
  await first.run(() => rpcSync('n1', same, [ones([1])]));
  await first.members.find('n1').close();
  await Promise.all([first, second].map((agent) => agent.run(() => barrier())));
  expect(await Promise.all([leaving(first), leaving(second)])).toEqual(['left', 'left']);
});

it('keeps nothing for a call with RRefs that was never sent', async () => {
  agents = await group(3);
  const [first, second, third] = agents as [Agent, Agent, Agent];
  const own = first.run(() => createRRef(1));
  const held = first.run(() => remote('n1', same, [2]));
  expect(await held.toHere()).toBe(2);
  await kill(third);
  await soon(50);
  const given = (timeoutMs?: number): Promise<unknown> =>
    first.run(() => rpcSync('n2', same, [[own, held]], { timeoutMs }));
  await expect(given()).rejects.toMatchObject({ code: 'unavailable' });
  // Given up before it is known that nobody listens.
  await expect(given(0.001)).rejects.toMatchObject({ executed: expect.stringMatching(/no|maybe/) as string });
  held.dispose();
  const nothing = { num_owner_rrefs: 0, num_forks: 0, num_pending_users: 0, num_pending_children: 0 };
  await expect.poll(() => [first, second].map((agent) => agent.debugInfo())).toMatchObject([nothing, nothing]);
});

it('says of one who collects and dies before it has heard of anybody that it is gone', async () => {
  agents = await group(2);
  const [first, second] = agents as [Agent, Agent];
  await second.run(() => rpcSync('n0', same, [1]));
  const left = leaving(second);
  await kill(first);
  expect(await left).toMatchObject(broken('n0'));
});

/** As a network that cuts the connection to a worker that lives. */
function cut(peer: object): void {
  const line = Reflect.get(peer, 'line') as { dialler: { pipe: { fail(error: Error): void } } };
  line.dialler.pipe.fail(new Error('cut'));
}

it('tells of a dead worker once, however often it is called', async () => {
  agents = await group(3);
  const [first, , third] = agents as [Agent, Agent, Agent];
  const down: string[] = [];
  first.on('peer-down', ({ name }) => down.push(name));
  await first.run(() => rpcSync('n2', same, [1]));
  await kill(third);
  await expect.poll(() => down).toEqual(['n2']);
  for (let i = 0; i < 3; i++)
    await expect(first.run(() => rpcSync('n2', same, [i]))).rejects.toMatchObject({ code: 'unavailable' });
  expect(down).toEqual(['n2']);
});

it('tells of a worker again that has answered since', async () => {
  agents = await group(2);
  const [first] = agents as [Agent];
  const down: string[] = [];
  first.on('peer-down', ({ name }) => down.push(name));
  for (let times = 1; times <= 3; times++) {
    await first.run(() => rpcSync('n1', same, [1]));
    cut(first.members.find('n1'));
    expect(down).toHaveLength(times);
  }
});

it('tells of a dead worker that only a barrier has found', async () => {
  agents = await group(4);
  const [, second, , fourth] = agents as [Agent, Agent, Agent, Agent];
  const down: string[] = [];
  second.on('peer-down', ({ name }) => down.push(name));
  await kill(fourth);
  await expect(second.run(() => barrier())).rejects.toMatchObject(broken('n3'));
  expect(down).toEqual(['n3']);
});
