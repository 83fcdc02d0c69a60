/** @file Addresses of members in the store of a group, and what is said of one that is none. */
import { expect, it } from 'vitest';
import { awaitAddress, publishAddress } from './addresses.ts';
import { register } from './static.ts';
import { GroupStore } from './store.ts';

/** A store of torch's kind, in memory, with the prefix of a group's first life. */
function storeOf(values: Record<string, string> = {}): { readonly store: GroupStore; text(key: string): string } {
  const held = new Map(Object.entries(values).map(([key, value]) => [`p/${key}`, Buffer.from(value)]));
  const client = {
    set: async (key: string, value: Uint8Array) => void held.set(key, Buffer.from(value)),
    wait: async ([key]: string[]) => held.has(key as string),
    multiGet: async ([key]: string[]) => [held.get(key as string)],
    compareAndSet: async (_key: string, _expected: Uint8Array, desired: Uint8Array) => desired,
  };
  return { store: new GroupStore(client as never, 'p', 'tcp://s:1'), text: (key) => String(held.get(`p/${key}`)) };
}

it.each(['10.0.0.1:80', '[::1]:80'])('%s is read as it was published', async (address) => {
  const { store } = storeOf();
  await publishAddress(store, 'w', address);
  expect(await awaitAddress(store, 'w', 1_000)).toBe(address);
});

it('one that is none fails the joining of a static group with the worker, the key and the store', async () => {
  const { store, text } = storeOf({ 'names/0': 'node', 'names/1': 'other', 'addrs/other': 'shm://1' });
  const members = { add: () => undefined };
  const agent = { id: 0, name: 'node', members } as never;
  await expect(register(store, agent, ['node', 'other'], '10.0.0.1:80', () => 1_000)).rejects.toMatchObject({
    name: 'RpcError',
    code: 'decode-error',
    message: expect.stringContaining(
      "the address of worker 'other', 'p/addrs/other' in the store at tcp://s:1, cannot be read",
    ) as string,
  });
  expect(text('addrs/node')).toContain('10.0.0.1:80');
});
