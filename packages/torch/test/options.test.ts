/** @file Options of workers of a torch group that are refused, and what those come to that say where a worker listens. */
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { freePort } from '@backwire/testing';
import { expect, it } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { member } from './member.ts';
import type { TorchOptions } from '../src/options.ts';
import { leave } from './group.ts';

const same = rpcFunction('options.same', (value: unknown) => value);

async function joined(size: number, more: Partial<TorchOptions>): Promise<Agent[]> {
  const initMethod = `tcp://127.0.0.1:${await freePort()}`;
  const common = { worldSize: size, initMethod, trustNetwork: true, initTimeoutMs: 20_000, generation: 0, ...more };
  return Promise.all(Array.from({ length: size }, (_, rank) => member({ name: `n${rank}`, rank, ...common })));
}

it('listens where it is told, and tells the others another address where it is given one', async () => {
  const agents = await joined(1, { advertise: '203.0.113.7' });
  expect(agents[0]!.members.find('n0').address).toMatch(/^203\.0\.113\.7:\d+$/);
  await leave(agents);
});

it('listens on every address, and tells the others the one from which it reaches the store', async () => {
  const agents = await joined(2, { bind: '0.0.0.0' });
  for (const agent of agents)
    for (const name of ['n0', 'n1']) expect(agent.members.find(name).address).toMatch(/^127\.0\.0\.1:\d+$/);
  expect(await agents[0]!.run(() => rpcSync('n1', same, [1]))).toBe(1);
  await leave(agents);
});

it('refuses options that are not what they are to be', async () => {
  for (const [options, what] of [
    [{ evict: [5] }, /evict is a list of names, got 5/],
    [{ builtins: 'no' }, /builtins is true or false, got 'no'/],
  ] as [object, RegExp][])
    await expect(joined(1, options)).rejects.toThrow(what);
});

it('goes on after a shutdown or an eviction with options that it does not have', async () => {
  const agents = await joined(1, {});
  const [agent] = agents as [Agent];
  for (const [options, what] of [
    [{ timeoutMs: Number.NaN }, /must be non-negative/],
    [{ timeoutMs: -1 }, /must be non-negative/],
    [{ graceful: 'no' }, /graceful is true or false/],
    [{ onLeak: 'maybe' }, /onLeak is 'warn' or 'throw'/],
    [{ timeout: 5 }, /unknown option 'timeout'/],
    [null, /the options of shutdown\(\) are an object/],
  ] as [never, RegExp][])
    await expect(agent.shutdown(options)).rejects.toThrow(what);
  expect(agent.isClosed).toBe(false);
  expect(await agent.run(() => rpcSync('n0', same, [1]))).toBe(1);
  await leave(agents);
});
