/** @file A dynamic group on a network of IPv6: addresses have their brackets once, in the store and where they are dialled. */
import { networkInterfaces } from 'node:os';
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { freePort } from '@backwire/testing';
import { serveStore, resolveSecurity, torchClient } from '@backwire/rpc/internal';
import { expect, it } from 'vitest';
import { addressKey, storePrefix } from '../src/group/store-text.ts';
import { GroupStore } from '../src/joining/store.ts';
import { member } from './member.ts';
import { Python, torchVersion, withTorch } from './python.ts';

const hasLoopback = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));
const double = rpcFunction('version-six.double', (x: number) => 2 * x);

it.skipIf(!hasLoopback)('its members publish where they listen as torch reads it, and call each other', async () => {
  const security = resolveSecurity({ mode: 'none', iUnderstand: true }, { bind: '::1' });
  const server = await serveStore({ host: '::1', port: 0, torch: true, security });
  const place = server.endpoint.replace(/^\w+:/, 'tcp:');
  const store = new GroupStore(await torchClient(place), storePrefix(0), place);
  const joining = (name: string): ReturnType<typeof member> =>
    member({ name, membership: 'dynamic', initMethod: place, trustNetwork: true, bind: '::1', initTimeoutMs: 10_000 });
  const first = await joining('a');
  const second = await joining('b');
  try {
    expect(await store.text(addressKey('a'))).toMatch(/^uv:\/\/\[::1\]:\d+$/);
    expect(await second.run(() => rpcSync('a', double, [3]))).toBe(6);
    expect(await first.run(() => rpcSync('b', double, [4]))).toBe(8);
  } finally {
    for (const each of [second, first]) await each.shutdown({ graceful: false, timeoutMs: 2_000 });
    store.close();
    await server.close();
  }
});

it.skipIf(!hasLoopback || torchVersion === undefined)(
  `a worker of Python calls one of them, ${withTorch}`,
  async () => {
    const init = `tcp://127.0.0.1:${await freePort()}`;
    const { python, ready } = Python.start({ name: 'py', rank: 0, init, stubs: ['versionsix.double'], timeout: 10 });
    try {
      await ready;
      rpcFunction('versionsix.double', (x: number) => 2 * x);
      const node = await member({
        ...{ name: 'node', membership: 'dynamic', initMethod: init, trustNetwork: true },
        bind: '::1',
        initTimeoutMs: 30_000,
      });
      expect(await python.run(`rpc.rpc_sync('node', versionsix.double, (21,))`)).toBe('42');
      await node.shutdown({ timeoutMs: 10_000 });
    } finally {
      await python.end();
    }
  },
  120_000,
);
