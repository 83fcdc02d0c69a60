/** @file Long values in etcd: what a client knows of one is neither read nor sent to be compared once more, and is never mistaken for what is there now. */
import { isInstalled } from '@backwire/testing';
import { afterEach, describe, expect, test } from 'vitest';
import { cleanUp, cleanups, proxy, serve, type Served } from '../../test/store-servers.ts';
import { openStore } from './open.ts';
import type { Store, StoreEvent } from './store.ts';

afterEach(cleanUp);

const SIZE = 400_000;
const long = (fill: number): Uint8Array => new Uint8Array(SIZE).fill(fill);
/** What a value is full of, since a difference of so many bytes cannot be shown; undefined for nothing, or for no such value. */
const fillOf = (value: Uint8Array | undefined): number | undefined =>
  value !== undefined && Buffer.compare(value, long(value[0] ?? 0)) === 0 ? value[0] : undefined;
const outcome = ({ ok, current }: Awaited<ReturnType<Store['compareAndSet']>>): unknown[] => [ok, fillOf(current)];
/** What etcd says it in. */
const TOLD = (SIZE * 4) / 3;
/** Less than any of the values. */
const LITTLE = 10_000;

describe.skipIf(!isInstalled('etcd'))('a long value', { timeout: 60_000 }, () => {
  /** Two clients; `moved` resolves with the bytes that the first was answered while it did something. */
  async function setUp(): Promise<{ server: Served; near: Store; far: Store; moved: Moved }> {
    const server = await serve('etcd');
    const { store: far } = await openStore(`etcd://127.0.0.1:${server.port}`, { group: 'g', timeoutMs: 30_000 });
    const { port, received } = await proxy(server.port);
    const { store: near } = await openStore(`etcd://127.0.0.1:${port}`, { group: 'g' });
    cleanups.push(
      () => far.close(),
      () => near.close(),
    );
    const moved: Moved = async (what) => {
      const before = received();
      await what();
      return received() - before;
    };
    return { server, near, far, moved };
  }
  type Moved = (what: () => Promise<unknown>) => Promise<number>;

  test('that was read, and is watched, is set without being read again, and read without travelling', async () => {
    const { near, far, moved } = await setUp();
    const events = near.watch('view')[Symbol.asyncIterator]();
    await near.get('view');
    await far.set('view', long(1));
    // Told before anything is counted.
    await events.next();
    expect(fillOf(await near.get('view'))).toBe(1);
    const set = async (): Promise<void> => {
      for (const i of [1, 2, 3])
        expect(outcome(await near.compareAndSet('view', long(i), long(i + 1)))).toEqual([true, i + 1]);
      expect(fillOf(await near.get('view'))).toBe(4);
    };
    // The watch is told of each.
    expect(await moved(set)).toBeLessThan(3 * TOLD + LITTLE);
    expect(fillOf(await far.get('view'))).toBe(4);
  });

  test('that a watch told is known', async () => {
    const { near, far, moved } = await setUp();
    const events = near.watch('view')[Symbol.asyncIterator]();
    await near.get('view');
    await far.set('view', long(1));
    expect(fillOf(((await events.next()).value as StoreEvent).value)).toBe(1);
    const read = async (): Promise<void> => expect(fillOf(await near.get('view'))).toBe(1);
    expect(await moved(read)).toBeLessThan(LITTLE);
  });

  test.each([true, false])('that another has changed is found as it is: watched %s', async (isWatched) => {
    const { near, far, moved } = await setUp();
    if (isWatched) near.watch('view');
    await far.set('view', long(1));
    await near.get('view');
    await far.set('view', long(2));
    const lose = async (): Promise<void> =>
      expect(outcome(await near.compareAndSet('view', long(1), long(3)))).toEqual([false, 2]);
    const once = isWatched ? TOLD : 0;
    expect(await moved(lose)).toBeLessThan(once + TOLD + LITTLE);
    expect(await moved(lose)).toBeLessThan(isWatched ? LITTLE : TOLD + LITTLE);
    await far.set('view', long(4));
    expect(fillOf(await near.get('view'))).toBe(4);
    await far.set('view', long(1));
    expect(outcome(await near.compareAndSet('view', long(1), long(5)))).toEqual([true, 5]);
    await far.delete('view');
    expect(outcome(await near.compareAndSet('view', long(5), long(6)))).toEqual([false, undefined]);
    expect(await near.get('view')).toBeUndefined();
  });

  test('is what its readers make of their own, and of nobody else', async () => {
    const { near, far } = await setUp();
    near.watch('view');
    await far.set('view', long(1));
    for (let i = 0; i < 2; i++) (await near.get('view'))?.fill(9);
    const { current } = await near.compareAndSet('view', long(2), long(3));
    current?.fill(9);
    const wanted = long(2);
    const { current: set } = await near.compareAndSet('view', long(1), wanted);
    expect(fillOf(set)).toBe(2);
    wanted.fill(9);
    expect(fillOf(await near.get('view'))).toBe(2);
  });

  test.each([true, false])(
    'of an etcd that comes back with nothing in it, and counts the same, is no more: watched %s',
    async (isWatched) => {
      const { server, near, far } = await setUp();
      if (isWatched) near.watch('view');
      await far.set('view', long(1));
      await near.get('view');
      await server.kill();
      server.wipe();
      server.start();
      const again = (): Promise<unknown> => far.set('view', long(2)).then(() => 'set', String);
      await expect.poll(again, { timeout: 20_000 }).toBe('set');
      expect(fillOf(await near.get('view'))).toBe(2);
      expect(outcome(await near.compareAndSet('view', long(1), long(3)))).toEqual([false, 2]);
      expect(outcome(await near.compareAndSet('view', long(2), long(3)))).toEqual([true, 3]);
    },
  );
});
