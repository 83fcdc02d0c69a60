/** @file What becomes of leases, watches and changes when a server of a store starts anew, is silent, or its answer is lost. */
import { afterEach, describe, expect, test } from 'vitest';
import { openStore } from '../src/stores/open.ts';
import type { Store } from '../src/stores/store.ts';
import { EtcdApi } from '../src/stores/etcd-api.ts';
import { isInstalled } from '@backwire/testing';
import { bytes, cleanUp, cleanups, proxy, serve, sleep, text, within, type Served } from './store-servers.ts';

afterEach(cleanUp);
const opened = async (address: string): Promise<Store> => {
  const { store } = await openStore(address, { group: 'g', timeoutMs: 30_000 });
  cleanups.push(() => store.close());
  return store;
};

describe('close of a shared store', { timeout: 60_000 }, () => {
  for (const kind of ['redis', 'etcd'] as const)
    test.skipIf(!isInstalled(kind))(
      `${kind}: closing ends the leases at once, as a store of one's own does`,
      async () => {
        const server = await serve(kind);
        const address = `${kind}://127.0.0.1:${server.port}`;
        const near = await opened(address);
        const other = await opened(`${address.replace('127.0.0.1', 'localhost')}`);
        const lease = await near.lease(10_000);
        await near.set('member', bytes('x'), { lease });
        expect(text(await other.get('member'))).toBe('x');
        const began = performance.now();
        await near.close();
        while ((await other.get('member')) !== undefined && performance.now() - began < 15_000) await sleep(50);
        expect(performance.now() - began).toBeLessThan(8_000);
      },
    );
});

/** One that answers already: the first endpoint is the one that is used. */
async function serving(): Promise<Served> {
  const server = await serve('etcd');
  await opened(`etcd://127.0.0.1:${server.port}`);
  return server;
}

describe.skipIf(!isInstalled('etcd'))('etcd that started anew', { timeout: 60_000 }, () => {
  test('a watch that begins after etcd came back empty is told of changes', async () => {
    const server = await serve('etcd');
    const store = await opened(`etcd://127.0.0.1:${server.port}`);
    for (let i = 0; i < 50; i++) await store.set('k', bytes(`${i}`));
    await server.kill();
    server.wipe();
    server.start();
    await expect.poll(() => store.get('k').catch(() => 'out of reach'), { timeout: 20_000 }).toBeUndefined();
    const events = store.watch('later')[Symbol.asyncIterator]();
    await store.set('later', bytes('v'));
    expect(await within(events.next(), 3_000)).toMatchObject({ value: { type: 'put', key: 'later' } });
  });

  test('compareAndSet compares with what is there, not with what an etcd that is gone had', async () => {
    const server = await serve('etcd');
    const near = await opened(`etcd://127.0.0.1:${server.port}`);
    const other = await opened(`etcd://localhost:${server.port}`);
    expect((await near.compareAndSet('k', null, bytes('mine'))).ok).toBe(true);
    await server.kill();
    server.wipe();
    server.start();
    await expect.poll(() => other.get('k').catch(() => 'out of reach'), { timeout: 20_000 }).toBeUndefined();
    expect((await other.compareAndSet('k', null, bytes('theirs'))).ok).toBe(true);
    const done = await near.compareAndSet('k', bytes('mine'), bytes('mine 2'));
    expect({ ok: done.ok, current: text(done.current) }).toEqual({ ok: false, current: 'theirs' });
  });
});

/** A store with two endpoints, of which the first loses the answer of one transaction once it is told to. */
async function losing(): Promise<{ store: Store; loseAnswer: () => void }> {
  const server = await serving();
  let cut = false;
  const a = await proxy(server.port, (request) => {
    if (!cut || !request.includes('/v3/kv/txn')) return 'pass';
    cut = false;
    return 'cut';
  });
  const b = await proxy(server.port);
  const store = await opened(`etcd://127.0.0.1:${a.port},127.0.0.1:${b.port}`);
  return { store, loseAnswer: () => void (cut = true) };
}

describe.skipIf(!isInstalled('etcd'))('several endpoints', { timeout: 90_000 }, () => {
  test('an addition whose answer was lost is not made a second time', async () => {
    const { store, loseAnswer } = await losing();
    expect(await store.add('n', 1n)).toBe(1n);
    loseAnswer();
    const sum = await store.add('n', 1n).catch((error: unknown) => (error as { code: string }).code);
    const now = text(await store.get('n'));
    expect({ sum, now }).toEqual({ sum: 'unavailable', now: '2' });
  });
  test('compareAndSet whose answer was lost does not say that another was first', async () => {
    const { store, loseAnswer } = await losing();
    await store.get('n');
    loseAnswer();
    const done = await store.compareAndSet('n', null, bytes('v')).then(
      ({ ok }) => ok,
      (error: unknown) => (error as { code: string }).code,
    );
    expect(done).not.toBe(false);
  });
  test('a request at an endpoint that is silent goes on to the next in its time, also while the next answers others', async () => {
    const server = await serving();
    const a = await proxy(server.port);
    const api = new EtcdApi([`http://127.0.0.1:${a.port}`, `http://127.0.0.1:${server.port}`], { requestMs: 500 });
    const ask = (): Promise<unknown> => api.call('/v3/kv/range', { key: 'aw==' });
    await expect
      .poll(
        () =>
          ask().then(
            () => true,
            () => false,
          ),
        { timeout: 20_000 },
      )
      .toBe(true);
    a.freeze();
    const began = performance.now();
    const first = ask();
    await sleep(300);
    const second = ask().then(() => performance.now() - began);
    await first;
    const until = performance.now() + 10_000;
    let took: number | undefined;
    void second.then((ms) => (took = ms));
    while (took === undefined && performance.now() < until) {
      await ask();
      await sleep(50);
    }
    expect(await within(second, 1)).toBeLessThan(2_500);
  });
  test('two watches go over to the other endpoint', async () => {
    const server = await serving();
    const a = await proxy(server.port);
    const b = await proxy(server.port);
    const store = await opened(`etcd://127.0.0.1:${a.port},127.0.0.1:${b.port}`);
    const [one, two] = [store.watch('x/1')[Symbol.asyncIterator](), store.watch('y/1')[Symbol.asyncIterator]()];
    await store.get('k');
    a.stop();
    const told = await within(Promise.all([one.next(), two.next()]), 15_000);
    expect(told).not.toBe('late');
  });
});

test.skipIf(!isInstalled('etcd'))(
  'a watch whose etcd is silent does not hold up requests for longer than their time',
  { timeout: 60_000 },
  async () => {
    const server = await serving();
    const a = await proxy(server.port);
    const store = await opened(`etcd://127.0.0.1:${a.port}`);
    a.freeze();
    store.watch('x');
    const got = await within(
      store.get('k').catch((error: unknown) => (error as { code: string }).code),
      25_000,
    );
    a.stop();
    expect(got).toBe('unavailable');
  },
);
