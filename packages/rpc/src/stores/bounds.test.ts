/** @file What one client of a store may have waiting there: each bound says so, and is that client's alone. */
import { connect } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { resolveSecurity } from '../security/policy.ts';
import { embeddedStore } from './embedded.ts';
import { serveStore, type StoreServer } from './embedded-server.ts';
import {
  ENTRY_OVERHEAD_BYTES,
  MAX_KEY_BYTES,
  MAX_LEASES_PER_CLIENT,
  MAX_PARKED_BYTES_PER_CLIENT,
  MAX_PARKED_PER_CLIENT,
} from './limits.ts';
import { Op, blob, frame, u32 } from './protocol.ts';
import type { Store } from './store.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function serve(): Promise<{ server: StoreServer; store: () => Promise<Store> }> {
  const server = await serveStore({ security: resolveSecurity({ mode: 'none', iUnderstand: true }) });
  cleanups.push(() => server.close());
  const open = async (): Promise<Store> => {
    const store = await embeddedStore({ endpoint: server.endpoint });
    cleanups.push(() => store.close());
    return store;
  };
  return { server, store: open };
}

/** What an unprotected client says first. */
const GREETING = Buffer.from('00cef7853c0d01020304', 'hex');

test('the keys of its waits take so much memory and no more', async () => {
  const { server, store } = await serve();
  const keys = 128;
  const key = blob(Buffer.alloc(MAX_KEY_BYTES, '/k'));
  const parts = [u32(keys), ...Array.from({ length: keys }, () => key)];
  const each = keys * (MAX_KEY_BYTES + ENTRY_OVERHEAD_BYTES);
  const fit = Math.floor(MAX_PARKED_BYTES_PER_CLIENT / each);
  const socket = connect(server.port, '127.0.0.1');
  cleanups.push(() => socket.destroy());
  const heard: Buffer[] = [];
  socket.on('data', (bytes) => heard.push(bytes));
  socket.write(GREETING);
  for (let id = 1; id <= fit + 3; id++) socket.write(frame(Op.WAIT, id, parts));
  const told = (): string => Buffer.concat(heard).toString('latin1');
  await expect.poll(() => told().split('resource-exhausted').length - 1).toBe(3);
  expect(told()).toContain(`the waits of a client name at most ${MAX_PARKED_BYTES_PER_CLIENT} bytes of keys`);
  // What it gives up makes room, and nobody else has noticed.
  socket.write(frame(Op.CANCEL, 1, []));
  socket.write(frame(Op.WAIT, fit + 4, parts));
  const other = await store();
  await other.set('k', Uint8Array.of(1));
  expect(await other.get('k')).toEqual(Uint8Array.of(1));
  expect(told().split('resource-exhausted').length - 1).toBe(3);
});

test('it holds so many leases, and may have others when it has let go of some', async () => {
  const { store } = await serve();
  const [one, other] = [await store(), await store()];
  const leases = await Promise.all(Array.from({ length: MAX_LEASES_PER_CLIENT }, () => one.lease(60_000)));
  await expect(one.lease(60_000)).rejects.toMatchObject({
    code: 'resource-exhausted',
    message: expect.stringContaining(`a client holds at most ${MAX_LEASES_PER_CLIENT} leases`) as string,
  });
  await (await other.lease(60_000)).revoke();
  await leases[0]!.revoke();
  await (await one.lease(60_000)).revoke();
});

test('a watch that is refused fails where it is followed', async () => {
  const { store } = await serve();
  const one = await store();
  const gone = new AbortController();
  const waits = Array.from({ length: MAX_PARKED_PER_CLIENT }, (_, i) =>
    one.wait([`k${i}`], { timeoutMs: 0, signal: gone.signal }).catch(() => undefined),
  );
  const events = one.watch('k')[Symbol.asyncIterator]();
  await expect(events.next()).rejects.toMatchObject({ code: 'resource-exhausted' });
  expect(await events.next()).toEqual({ value: undefined, done: true });
  gone.abort();
  await Promise.all(waits);
});

test(
  'one that watches the same thousands of times and does not read costs a long value a few times',
  { timeout: 60_000 },
  async () => {
    const { server, store } = await serve();
    const sane = await store();
    const greedy = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const socket = connect(server.port, '127.0.0.1');
        cleanups.push(() => socket.destroy());
        socket.on('error', () => undefined);
        socket.write(GREETING);
        for (let id = 1; id <= 500; id++) socket.write(frame(Op.WATCH, id, [blob(Buffer.from('/'))]));
        return socket;
      }),
    );
    for (const socket of greedy) socket.once('data', () => socket.pause());
    await sane.set('short', Uint8Array.of(1));
    const value = new Uint8Array(8 * 1024 * 1024);
    // Counted, since a machine may be busy; not by a mock, which keeps what it was called with.
    const { set } = Uint8Array.prototype;
    let copies = 0;
    cleanups.push(() => (Uint8Array.prototype.set = set));
    Uint8Array.prototype.set = function (this: Uint8Array, from, at) {
      if (from.length >= value.length) copies++;
      set.call(this, from, at);
    };
    await sane.set('long', value);
    // Each of the two thousand watches could cost two; a connection that is not read is cut off at 64 MiB, eight or so of them.
    expect(copies).toBeGreaterThan(0);
    expect(copies).toBeLessThan(4 * 2 * 12);
    expect(await sane.get('short')).toEqual(Uint8Array.of(1));
    await expect.poll(() => server.clients).toBe(1);
  },
);
