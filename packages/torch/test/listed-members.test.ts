/** @file A dynamic group whose list in the store is not what its members make of it: the error says who, which key, and what to do. */
import type { WorkerInfo } from '@backwire/rpc';
import { resolveSecurity, serveStore, torchClient } from '@backwire/rpc/internal';
import { afterEach, expect, it } from 'vitest';
import { MEMBERS, storePrefix } from '../src/group/store-text.ts';
import { member } from './member.ts';
import { GroupStore } from '../src/joining/store.ts';
import type { TorchOptions } from '../src/options.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A store of torch's kind with this list of members in it, and how a worker joins there. */
async function listing(members: string, addresses: Record<string, string> = {}) {
  const security = resolveSecurity({ mode: 'none', iUnderstand: true }, { bind: '127.0.0.1' });
  const server = await serveStore({ host: '127.0.0.1', port: 0, torch: true, security });
  cleanups.push(() => server.close());
  const place = server.endpoint.replace(/^\w+:/, 'tcp:');
  const store = new GroupStore(await torchClient(place), storePrefix(0), place);
  cleanups.push(() => store.close());
  await store.set(MEMBERS, members);
  for (const [name, address] of Object.entries(addresses)) await store.set(`addrs/${name}`, address);
  const joining = async (more: Partial<TorchOptions> = {}) => {
    const options = { name: 'node', membership: 'dynamic', initMethod: place, trustNetwork: true, ...more } as const;
    const agent = await member(options);
    cleanups.push(() => agent.shutdown({ graceful: false, timeoutMs: 2_000 }));
    return agent;
  };
  return { store, place, joining };
}

it('names a listed member that has no address, within the time of the caller, and stays out of the list', async () => {
  const { store, place, joining } = await listing('ghost-7,');
  const started = performance.now();
  await expect(joining({ initTimeoutMs: 600 })).rejects.toMatchObject({
    code: 'deadline-exceeded',
    peer: { name: 'ghost', id: 7 },
    message: expect.stringMatching(
      new RegExp(
        `worker 'ghost' with id 7 is a member of the group and has no address: 'rpc_prefix_0/addrs/ghost' in the store at ${place}.*evict 'ghost' if it is dead`,
      ),
    ) as string,
  });
  expect(performance.now() - started).toBeLessThan(8_000);
  expect(await store.text(MEMBERS)).toBe('ghost-7,');
  await joining({ initTimeoutMs: 5_000, evict: ['ghost'] });
  expect(await store.text(MEMBERS)).toMatch(/^node-\d+,$/);
});

it.each([
  ['no end', 'ghost-7', {}, 'decode-error', /names\/_ALL_WORKER_INFOS' in the store at tcp:.*without an end/],
  ['no id', 'ghost,', {}, 'decode-error', /names\/_ALL_WORKER_INFOS' in the store at tcp:.*'ghost'.*no name and id/],
  [
    'another transport',
    'ghost-7,',
    { ghost: 'shm://1' },
    'decode-error',
    /address of worker 'ghost', 'rpc_prefix_0\/addrs\/ghost' in the store at tcp:.*'shm:\/\/1'/,
  ],
] as const)('names the key and the store of a list with %s', async (_, members, addresses, code, message) => {
  const { joining } = await listing(members, addresses);
  await expect(joining({ initTimeoutMs: 5_000 })).rejects.toMatchObject({
    name: 'RpcError',
    code,
    message: expect.stringMatching(message) as string,
  });
});

it('is in the list no more after a member would not have it, and the others are told', async () => {
  const { store, joining } = await listing('');
  const first = await joining({ name: 'first', rank: 3, initTimeoutMs: 5_000 });
  const told: unknown[] = [];
  first.offered.answer('torch.distributed.rpc._utils._update_group_membership', ([who, , , joins]) => {
    told.push([(who as WorkerInfo).name, joins]);
    if (joins === true) throw new Error('no more workers');
    return null;
  });
  const second = { name: 'second', rank: 4, initTimeoutMs: 5_000 };
  await expect(joining(second)).rejects.toThrow('no more workers');
  expect(await store.text(MEMBERS)).toBe('first-3,');
  expect(told).toEqual([
    ['second', true],
    ['second', false],
  ]);
});
