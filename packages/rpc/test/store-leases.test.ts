/** @file Leases that a thread renews through lost answers, scripts of Redis that are gone or of another version, and passwords in errors. */
import { afterEach, describe, expect, test } from 'vitest';
import { holderOf } from '../src/liveness/lease-holder.ts';
import type { SharedLinks } from '../src/liveness/embedded-holder.ts';
import type { Store } from '../src/stores/store.ts';
import { openStore } from '../src/stores/open.ts';
import { isInstalled } from '@backwire/testing';
import { bytes, cleanUp, cleanups, proxy, redisSays, serve, sleep, text } from './store-servers.ts';

afterEach(cleanUp);
const opened = async (address: string): Promise<Store> => {
  const { store } = await openStore(address, { timeoutMs: 30_000 });
  cleanups.push(() => store.close());
  return store;
};
const noEvents = { again: () => undefined, lost: () => undefined };
const noLinks = undefined as unknown as SharedLinks;

describe.skipIf(!isInstalled('etcd'))('leases in etcd beside a thread', { timeout: 60_000 }, () => {
  for (const ttlMs of [2_000, 3_000, 5_000, 8_000])
    test(`one renewal that is never answered does not end a lease of ${ttlMs} ms of a busy worker`, async () => {
      const server = await serve('etcd');
      let swallow = false;
      const a = await proxy(server.port, (request) => {
        if (!swallow || !request.includes('/v3/lease/keepalive')) return 'pass';
        swallow = false;
        return 'swallow';
      });
      const store = await opened(`etcd://127.0.0.1:${server.port}`);
      const lease = await store.lease(ttlMs);
      const ticket = (store as unknown as { ticket(lease: unknown, key: string): { endpoints: string[] } }).ticket(
        lease,
        'age',
      );
      // The main loop computes: only the thread renews.
      clearInterval((lease as unknown as { id: { timer: NodeJS.Timeout } }).id.timer);
      const holder = holderOf({ ...ticket, endpoints: [`http://127.0.0.1:${a.port}`] } as never, noEvents, noLinks);
      let alive: boolean | undefined = true;
      const began = performance.now();
      const log: string[] = [];
      const renew = (): void =>
        void holder.hold(5_000).then(
          (is) => (alive = is),
          (error: unknown) => log.push(`${Math.round(performance.now() - began)}: ${String(error)}`),
        );
      renew();
      const timer = setInterval(renew, Math.min(ttlMs / 3, 2_000));
      cleanups.push(() => (clearInterval(timer), holder.close()));
      await sleep(300);
      swallow = true;
      await sleep(ttlMs * 2 + 1_500);
      expect(text(await store.get('age'))).toBe('5000');
      expect(alive).toBe(true);
    });
});

describe.skipIf(!isInstalled('redis'))('Redis', { timeout: 60_000 }, () => {
  test('a list has what an earlier version of the script has set', async () => {
    const server = await serve('redis');
    const store = await opened(`redis://127.0.0.1:${server.port}`);
    await redisSays(server.port, 'HSET', '{backwire}/values', 'old/k', 'v');
    expect(text(await store.get('old/k'))).toBe('v');
    expect([...(await store.list('old/')).keys()]).toEqual(['old/k']);
  });
  test('a wrong password is refused as such, and not shown', async () => {
    const server = await serve('redis');
    await opened(`redis://127.0.0.1:${server.port}`);
    await redisSays(server.port, 'CONFIG', 'SET', 'requirepass', 'right');
    const opening = openStore(`redis://:sEcReT@127.0.0.1:${server.port}/0`, { timeoutMs: 1_000 });
    const error = (await opening.catch((thrown: unknown) => thrown)) as Error;
    expect(error).toMatchObject({ code: 'unauthenticated' });
    expect(`${String(error)} ${String(error.cause)}`).not.toContain('sEcReT');
  });
  test('what is set without waiting is in order after a restart of Redis', async () => {
    const server = await serve('redis');
    const store = await opened(`redis://127.0.0.1:${server.port}`);
    await redisSays(server.port, 'SCRIPT', 'FLUSH');
    const all = Array.from({ length: 50 }, (_, i) => store.set('k', bytes(`${i}`)));
    await Promise.all(all);
    expect(text(await store.get('k'))).toBe('49');
  });
  test('watches at once after a flush of the scripts miss nothing', async () => {
    const server = await serve('redis');
    const store = await opened(`redis://127.0.0.1:${server.port}`);
    await redisSays(server.port, 'SCRIPT', 'FLUSH');
    const events = store.watch('k')[Symbol.asyncIterator]();
    void store.set('k', bytes('1'));
    const seen: string[] = [];
    void (async () => {
      for (;;) {
        const { value, done } = (await events.next()) as { value: { type: string }; done?: boolean };
        if (done) return;
        seen.push(value.type);
      }
    })();
    await sleep(500);
    expect(seen.length).toBeGreaterThan(0);
  });
});

test('no error shows a password', { timeout: 30_000 }, async () => {
  const secret = 'sEcReT';
  const shown: string[] = [];
  for (const address of [
    `etcd://u:${secret}@127.0.0.1:1`,
    `etcds://u:${secret}@127.0.0.1:1,127.0.0.1:2`,
    `tcp://u:${secret}@127.0.0.1:1`,
    `redis://u:${secret}@127.0.0.1:1/0?prefix=%zz`,
    `redis://u:${secret}@127.0.0.1:1`,
    `redis://u:${secret}?@127.0.0.1:1`,
    `redis://u:${secret}@127.0.0.1:1/%zz`,
    `redis://u:%zz${secret}@127.0.0.1:1`,
    `redis://u:${secret}@127.0.0.1:1/nonumber`,
    `Redis://u:${secret}@127.0.0.1:1`,
    `postgres://u:${secret}@127.0.0.1:1`,
    `file://u:${secret}@127.0.0.1/x`,
  ]) {
    const error = await openStore(address, { timeoutMs: 300, rank: 1 }).then(
      ({ store }) => store.close(),
      (e: unknown) => e as Error,
    );
    const all: string[] = [];
    for (let e: unknown = error; e instanceof Error && all.length < 5; e = e.cause) all.push(String(e));
    if (all.join().includes(secret)) shown.push(`${address} -> ${all.join(' <- ')}`);
  }
  expect(shown).toEqual([]);
});
