/** @file Stores of one process on one connection: how many connections there are, and that no user notices another. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, expect, test } from 'vitest';
import { rpcInfo } from '../base/errors.ts';
import { resolveSecurity } from '../security/policy.ts';
import { tcpTransport } from '../transports/tcp.ts';
import type { Connection, Transport } from '../transports/transport.ts';
import { embeddedStore } from './embedded.ts';
import { serveStore } from './embedded-server.ts';
import { shareStore } from './shared-store.ts';
import type { Store } from './store.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A server that keeps its connections and the replies it sent. */
async function counted(): Promise<{ endpoint: string; connections: Connection[]; replies: () => number }> {
  const connections: Connection[] = [];
  let replies = 0;
  const tcp = tcpTransport();
  const transport: Transport = {
    ...{ name: tcp.name, domain: tcp.domain, isViable: () => tcp.isViable() },
    dial: (endpoint, options) => tcp.dial(endpoint, options),
    listen: (options, onConnection) =>
      tcp.listen(options, (connection) => {
        connections.push(connection);
        const write = connection.write.bind(connection);
        connection.write = (chunks, onFlushed) => {
          if (chunks[0]?.[0] === 0x60) replies++;
          write(chunks, onFlushed);
        };
        onConnection(connection);
      }),
  };
  const server = await serveStore({ security: resolveSecurity({ mode: 'none', iUnderstand: true }), transport });
  cleanups.push(() => server.close());
  return { endpoint: server.endpoint, connections, replies: () => replies };
}

function share(endpoint: string, options: { signal?: AbortSignal; timeoutMs?: number } = {}): Promise<Store> {
  const opening = shareStore(endpoint, options, (timeoutMs) => embeddedStore({ endpoint, ...options, timeoutMs }));
  cleanups.push(() =>
    opening.then(
      (store) => store.close(),
      () => undefined,
    ),
  );
  return opening;
}

test('two hundred users open one connection, which the last of them closes', async () => {
  const { endpoint, connections } = await counted();
  const stores = await Promise.all(Array.from({ length: 200 }, () => share(endpoint)));
  expect(connections.length).toBe(1);
  for (const store of stores.slice(1)) await store.close();
  await stores[0]!.set('k', Uint8Array.of(1));
  expect(connections[0]!.closed).toBe(false);
  await stores[0]!.close();
  await expect.poll(() => connections[0]!.closed).toBe(true);
  const again = await share(endpoint);
  expect(await again.get('k')).toEqual(Uint8Array.of(1));
  expect(connections.length).toBe(2);
});

test('the 257th user opens a second connection', async () => {
  const { endpoint, connections } = await counted();
  await Promise.all(Array.from({ length: 257 }, () => share(endpoint)));
  expect(connections.length).toBe(2);
});

test('one that gives up opening fails alone, and the others get their store', async () => {
  const { endpoint } = await counted();
  const controller = new AbortController();
  const first = share(endpoint, { signal: controller.signal });
  const others = [share(endpoint), share(endpoint)];
  controller.abort(new Error('not wanted'));
  await expect(first).rejects.toMatchObject({ code: 'cancelled' });
  for (const store of await Promise.all(others)) expect(await store.get('k')).toBeUndefined();
});

test('many who wait for a store that does not come are told when their time is over, not one after the other', async () => {
  const endpoint = 'tcp://127.0.0.1:9';
  const began = performance.now();
  const codes = await Promise.all(
    Array.from({ length: 8 }, () =>
      share(endpoint, { timeoutMs: 1_000 }).then(
        () => 'open',
        (error: unknown) => rpcInfo(error)?.code,
      ),
    ),
  );
  expect(codes).toEqual(codes.map(() => 'deadline-exceeded'));
  expect(performance.now() - began).toBeLessThan(7_000);
});

test('nothing of an answer is kept', async () => {
  const { endpoint } = await counted();
  const store = await share(endpoint);
  await store.set('k', new Uint8Array(10));
  const held: WeakRef<Uint8Array>[] = [];
  for (let i = 0; i < 50; i++) held.push(new WeakRef((await store.get('k'))!));
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  await new Promise((resolve) => setTimeout(resolve, 10));
  collect();
  expect(held.filter((value) => value.deref() !== undefined).length).toBeLessThan(5);
});

test('a watch that begins while the server is away begins once, and disturbs nobody', async () => {
  const { endpoint, connections } = await counted();
  const store = await share(endpoint);
  connections[0]!.destroy();
  // Until the client has noticed, what it sends is lost with the connection.
  await expect.poll(() => connections[0]!.closed).toBe(true);
  await store.get('k').catch(() => undefined);
  connections.at(-1)!.destroy();
  await new Promise((resolve) => setTimeout(resolve, 20));
  const controller = new AbortController();
  const events = store.watch('k', { signal: controller.signal });
  store.watch('other', { signal: AbortSignal.abort() });
  const count = connections.length;
  for (let i = 1n; i <= 5n; i++) expect(await store.add('n', 1n)).toBe(i);
  expect(connections.length - count).toBeLessThanOrEqual(1);
  await store.set('k', Uint8Array.of(1));
  const types: string[] = [];
  for await (const { type } of events) if (types.push(type) === 1 || type === 'put') break;
  expect(types.length).toBeGreaterThan(0);
  controller.abort();
});

test('one that joins an opening has a time of its own', async () => {
  const endpoint = 'tcp://127.0.0.1:9';
  const patient = share(endpoint, { timeoutMs: 2_000 });
  const began = performance.now();
  await expect(share(endpoint, { timeoutMs: 200 })).rejects.toThrow();
  expect(performance.now() - began).toBeLessThan(1_500);
  await expect(patient).rejects.toMatchObject({ code: 'deadline-exceeded' });
});

test('what one holds and follows ends with it, and what another does goes on', async () => {
  const { endpoint } = await counted();
  const [a, b] = await Promise.all([share(endpoint), share(endpoint)]);
  const [ofA, ofB] = [await a.lease(5_000), await b.lease(5_000)];
  await a.set('a', Uint8Array.of(1), { lease: ofA });
  await b.set('b', Uint8Array.of(2), { lease: ofB });
  const seen: string[] = [];
  const following = (async () => {
    for await (const { type, key } of b.watch('')) seen.push(`${type} ${key}`);
  })();
  const waiting = a.wait(['never'], { timeoutMs: 0 });
  await Promise.all([a.close(), expect(waiting).rejects.toMatchObject({ code: 'failed-precondition' })]);
  expect(await ofA.lost).toBeInstanceOf(Error);
  await expect.poll(() => seen).toEqual(['delete a']);
  expect(await b.get('b')).toEqual(Uint8Array.of(2));
  await b.close();
  await following;
});

test('many who follow one prefix or ask for one key at once cost the store one', async () => {
  const { endpoint, connections, replies } = await counted();
  const stores = await Promise.all(Array.from({ length: 20 }, () => share(endpoint)));
  await stores[0]!.set('k/1', new Uint8Array(100_000));
  const firsts = stores.map((store) => store.watch('k/')[Symbol.asyncIterator]().next());
  await stores[0]!.get('k/2');
  const [before, sent] = [replies(), connections[0]!.sentBytes];
  const values = await Promise.all(stores.map((store) => store.get('k/1')));
  expect(values.map((value) => value?.length)).toEqual(stores.map(() => 100_000));
  // The first, and one for all who asked while it was on its way.
  expect(replies() - before).toBe(2);
  expect(connections[0]!.sentBytes - sent).toBeLessThan(250_000);
  values[0]!.fill(7);
  expect(values.slice(1).every((value) => value?.[0] === 0)).toBe(true);
  const told = connections[0]!.sentBytes;
  await stores[0]!.set('k/1', new Uint8Array(50_000));
  expect((await Promise.all(firsts)).map(({ value }) => (value as { key: string }).key)).toEqual(
    stores.map(() => 'k/1'),
  );
  expect(connections[0]!.sentBytes - told).toBeLessThan(60_000);
});

test('a question sees what its asker has written before it', async () => {
  const { endpoint } = await counted();
  const [a, b] = await Promise.all([share(endpoint), share(endpoint)]);
  for (let i = 1; i <= 50; i++) {
    const other = b.get('k');
    await a.set('k', Uint8Array.of(i));
    const [own, again] = await Promise.all([a.get('k'), b.get('k')]);
    expect([own?.[0], again?.[0]]).toEqual([i, i]);
    await other;
  }
});

test('the time that is over is said in whole milliseconds', async () => {
  const endpoint = 'tcp://127.0.0.1:1';
  for (const timeoutMs of [150, 149.5])
    await expect(share(endpoint, { timeoutMs })).rejects.toMatchObject({
      code: 'deadline-exceeded',
      message: expect.stringContaining(' in 150 ms') as string,
    });
});
