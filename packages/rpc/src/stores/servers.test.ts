/** @file Stores in servers that are not ours: what happens when such a server is away, comes back, or a client of it dies. */
import { afterEach, describe, expect, test } from 'vitest';
import { freePort, isInstalled } from '@backwire/testing';
import { cleanUp, cleanups, proxy, serve, type Served } from '../../test/store-servers.ts';
import { openStore } from './open.ts';
import type { Store } from './store.ts';

afterEach(cleanUp);

const kinds = [
  { name: 'etcd', program: 'etcd', durable: true },
  { name: 'redis', program: 'redis-server', durable: false },
] as const;

for (const { name, program, durable } of kinds) {
  const missing = !isInstalled(name);
  const title = missing ? `${name} (skipped: no ${program} on this machine)` : name;
  describe.skipIf(missing)(title, { timeout: 60_000 }, () => {
    async function setUp(): Promise<Served & { address: string; store: Store }> {
      const server = await serve(name);
      const address = `${name}://127.0.0.1:${server.port}`;
      const { store } = await openStore(address, { group: 'g', timeoutMs: 30_000 });
      cleanups.push(() => store.close());
      return { ...server, address, store };
    }

    test('a server that is not there is named when the time is up', async () => {
      const port = await freePort();
      await expect(openStore(`${name}://127.0.0.1:${port}`, { timeoutMs: 400 })).rejects.toMatchObject({
        code: 'deadline-exceeded',
        message: expect.stringMatching(new RegExp(`${port}`)) as string,
      });
      const controller = new AbortController();
      const opening = openStore(`${name}://127.0.0.1:${port}`, { timeoutMs: 0, signal: controller.signal });
      setTimeout(() => controller.abort(), 100);
      await expect(opening).rejects.toMatchObject({ code: 'cancelled' });
    });

    test('a killed server fails requests in seconds; after a restart all goes on', async () => {
      const { store, kill, start } = await setUp();
      await store.set('k', Buffer.from('v'));
      const events = store.watch('')[Symbol.asyncIterator]();
      await store.get('k');
      await kill();
      await expect(store.set('k', Buffer.from('w'))).rejects.toMatchObject({ code: 'unavailable' });
      start();
      await expect
        .poll(() => store.add('n', 1n).catch((error: unknown) => String(error)), { timeout: 20_000 })
        .toBeTypeOf('bigint');
      expect((await store.get('k')) !== undefined).toBe(durable);
      // Either the watch goes on from where it was, or it says that it may have missed something.
      const next = (await events.next()).value as { type: string; key: string };
      expect([`resync `, 'put n']).toContain(`${next.type} ${next.key}`);
    });

    test('a server that comes back with nothing in it: watches resync, waits go on, leases are lost', async () => {
      const { store, kill, start, wipe } = await setUp();
      // More changes than the new server will have seen, so that its own count says nothing.
      for (let i = 0; i < 20; i++) await store.set('k', Buffer.from(`${i}`));
      const lease = await store.lease(3_000);
      const events = store.watch('')[Symbol.asyncIterator]();
      await store.get('k');
      const waiting = store.wait(['later'], { timeoutMs: 50_000 });
      const resynced = (async () => {
        while (((await events.next()).value as { type: string }).type !== 'resync');
      })();
      await kill();
      wipe();
      start();
      await resynced;
      await lease.lost;
      await expect
        .poll(() => store.set('later', Buffer.from('v')).catch((error: unknown) => String(error)), { timeout: 20_000 })
        .toBeUndefined();
      await waiting;
      const next = (await events.next()).value as { type: string; key: string };
      expect(`${next.type} ${next.key}`).toBe('put later');
    });

    test('forty agents of a process are one client, which asks and is told once', async () => {
      const server = await setUp();
      const { port, open, received } = await proxy(server.port);
      const near = Array.from({ length: 40 }, () => openStore(`${name}://127.0.0.1:${port}`, { group: 'g' }));
      const stores = (await Promise.all(near)).map(({ store }) => store);
      cleanups.push(() => Promise.all(stores.map((store) => store.close())));
      const [one] = stores as [Store];
      const own = stores.map((store, i) => store.watch(`own/${i}/`)[Symbol.asyncIterator]());
      const told = stores.map((store) => store.watch('view')[Symbol.asyncIterator]());
      await one.set('view', Buffer.alloc(100_000, 1));
      for (const events of told) expect((await events.next()).value).toMatchObject({ type: 'put', key: 'view' });
      // One client's: commands and changes of Redis, streams and requests of etcd.
      expect(open.size).toBeLessThan(60);
      const before = received();
      const values = await Promise.all(stores.map((store) => store.get('view')));
      expect(values.every((value) => value?.byteLength === 100_000)).toBe(true);
      expect(received() - before).toBeLessThan(400_000);
      const sums = await Promise.all(stores.map((store) => store.add('n', 1n)));
      expect(sums.map(Number).sort((x, y) => x - y)).toEqual(stores.map((_, i) => i + 1));
      await Promise.all(stores.map((store, i) => store.set(`own/${i}/k`, Buffer.from(`${i}`))));
      for (const [i, events] of own.entries())
        expect((await events.next()).value).toMatchObject({ type: 'put', key: `own/${i}/k` });
      await Promise.all(stores.slice(1).map((store) => store.close()));
      expect(await one.get('own/7/k')).toEqual(Uint8Array.from(Buffer.from('7')));
      await one.close();
      // Redis closes at once, what fetch keeps open for etcd a little later.
      if (name === 'redis') await expect.poll(() => open.size).toBe(0);
    });

    test('the lease of a client that vanished runs out', async () => {
      const { address, store } = await setUp();
      const other = await openStore(address, { group: 'g' });
      const lease = await other.store.lease(1_000);
      await other.store.set('member', Buffer.from('x'), { lease });
      const gone = store.watch('member')[Symbol.asyncIterator]();
      await store.get('member');
      // As a process that was killed: its timers stop, and nothing is said.
      clearInterval((lease as unknown as { id: { timer: NodeJS.Timeout } }).id.timer);
      expect((await gone.next()).value).toMatchObject({ type: 'delete', key: 'member' });
      await expect(other.store.set('member', Buffer.from('x'), { lease })).rejects.toMatchObject({
        code: 'failed-precondition',
      });
      await other.store.close();
    });
  });
}
