/** @file An etcd that answers that it cannot do it now: what may be asked again is, everything else fails with its words. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { etcdStore } from './etcd.ts';
import type { Store } from './store.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A store in a server that refuses the next `refusals()` requests. */
async function busy(): Promise<{ store: Store; asked: string[]; refuse: (times: number) => void }> {
  const asked: string[] = [];
  let left = 0;
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      asked.push(request.url ?? '');
      const isRefused = left-- > 0;
      response.statusCode = isRefused ? 503 : 200;
      const done = { header: { revision: '5' }, succeeded: true, ID: '7' };
      response.end(JSON.stringify(isRefused ? { code: 14, message: 'etcdserver: no leader' } : done));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => server.close());
  const store = await etcdStore({ endpoints: [`http://127.0.0.1:${(server.address() as AddressInfo).port}`] });
  cleanups.push(() => store.close());
  asked.length = 0;
  return { store, asked, refuse: (times) => (left = times) };
}

test('what may be asked again is, until it is done', async () => {
  const { store, asked, refuse } = await busy();
  for (const [path, ask] of [
    ['/v3/kv/put', () => store.set('k', Uint8Array.of(1))],
    ['/v3/kv/range', () => store.get('k')],
    ['/v3/kv/range', () => store.list('k')],
    ['/v3/lease/grant', () => store.lease(60_000)],
  ] as const) {
    refuse(2);
    await ask();
    expect(asked.splice(0)).toEqual([path, path, path]);
  }
});

test('what may have been done is not asked again, and fails with what etcd said', async () => {
  const { store, asked, refuse } = await busy();
  refuse(1);
  const failure = { code: 'unavailable', executed: 'maybe', message: expect.stringContaining('no leader') as string };
  await expect(store.compareAndSet('k', null, Uint8Array.of(1))).rejects.toMatchObject(failure);
  expect(asked.splice(0)).toEqual(['/v3/kv/txn']);
});

test('one that cannot do it for long fails with what etcd said', async () => {
  const { store, asked, refuse } = await busy();
  refuse(100);
  await expect(store.get('k')).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringContaining('no leader') as string,
  });
  expect(asked.length).toBe(6);
  refuse(0);
});

test('one that ends every watch is asked for another less and less often', async () => {
  let watches = 0;
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (request.url !== '/v3/watch') return response.end(JSON.stringify({ header: { revision: '5' } }));
      watches++;
      return response.end(`${JSON.stringify({ result: { created: true, header: { revision: '5' } } })}\n`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => server.close());
  const store = await etcdStore({ endpoints: [`http://127.0.0.1:${(server.address() as AddressInfo).port}`] });
  cleanups.push(() => store.close());
  const events = store.watch('view')[Symbol.asyncIterator]();
  expect((await events.next()).value).toMatchObject({ type: 'resync' });
  await new Promise((resolve) => setTimeout(resolve, 4_000));
  // 0, 0.2, 0.6, 1.4, 3.0 s, and so on every two.
  expect(watches).toBeLessThan(8);
  expect(watches).toBeGreaterThan(3);
});
