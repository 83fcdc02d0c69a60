/** @file The client of an embedded store before a server that lies, breaks off, or says other things: all ends, with the store's name. */
import { afterEach, describe, expect, test } from 'vitest';
import { lyingStore, type Answer } from '../../test/lying-store.ts';
import { bytes, cleanUp, cleanups, within } from '../../test/store-servers.ts';
import { RpcError } from '../base/errors.ts';
import { tcpTransport } from '../transports/tcp.ts';
import { embeddedStore, EmbeddedStore } from './embedded.ts';
import { Op, blob, frame, u32, u8 } from './protocol.ts';
import type { Store } from './store.ts';

afterEach(cleanUp);

/** Everything that is answered with something. */
const requests: Record<string, (store: Store) => Promise<unknown>> = {
  set: (store) => store.set('k', bytes('v')),
  get: (store) => store.get('k'),
  add: (store) => store.add('n', 1n),
  compareAndSet: (store) => store.compareAndSet('k', null, bytes('v')),
  delete: (store) => store.delete('k'),
  list: (store) => store.list(''),
  lease: (store) => store.lease(60_000),
};

async function ask(store: Store, ms: number): Promise<Record<string, unknown>> {
  const asked = Object.entries(requests).map(async ([name, request]) => {
    const outcome = request(store).catch((error: unknown) => error);
    return [name, await within(outcome, ms)] as const;
  });
  return Object.fromEntries(await Promise.all(asked));
}

const announced = (id: number, length: number): Uint8Array => {
  const head = frame(Op.REPLY, id, []);
  new DataView(head.buffer).setUint32(1, length, true);
  return head;
};

describe('a server whose answers break the connection', { timeout: 60_000 }, () => {
  test.each<[string, string, Answer]>([
    [
      'are empty',
      'a frame ends before its fields; is that a store of this library?',
      (connection, id) => connection.write([frame(Op.REPLY, id, [])]),
    ],
    [
      'refuse without saying why',
      'a frame ends before its fields; is that a store of this library?',
      (connection, id) => connection.write([frame(Op.REPLY, id, [u8(1), u32(50)])]),
    ],
    [
      'are of no kind that there is',
      'an unknown frame 153 from the store; is that a store of this library?',
      (connection, id) => connection.write([frame(0x99, id, [])]),
    ],
    [
      'are longer than any',
      'a reply of 4294967295 bytes, at most 134217728 are taken; is that a store of this library?',
      (connection, id) => connection.write([announced(id, 0xffff_ffff)]),
    ],
  ])(
    'since they %s: each request fails with its words, and it is not dialled without pause',
    async (_, why, answer) => {
      const server = await lyingStore(answer);
      const store = await embeddedStore({ endpoint: server.endpoint });
      cleanups.push(() => store.close());
      const outcomes = await ask(store, 30_000);
      for (const [name, outcome] of Object.entries(outcomes)) {
        expect([name, outcome]).toEqual([name, expect.any(RpcError)]);
        expect(outcome).toMatchObject({
          code: 'unavailable',
          executed: 'maybe',
          message: `the connection to the store at ${server.endpoint} broke: ${why} [unavailable]`,
        });
      }
      expect(server.dials()).toBeLessThan(30);
    },
  );

  test('since it hangs up on each request: those that may be repeated are, some times', async () => {
    const server = await lyingStore((connection) => connection.destroy());
    const store = await embeddedStore({ endpoint: server.endpoint });
    cleanups.push(() => store.close());
    for (const outcome of Object.values(await ask(store, 30_000)))
      expect(outcome).toMatchObject({ code: 'unavailable' });
    expect(server.dials()).toBeLessThan(30);
  });
});

test('an answer that is none to what was asked is named as that, and as what may have been done', async () => {
  const server = await lyingStore((connection, id) => connection.write([frame(Op.REPLY, id, [u8(0)])]));
  const store = await embeddedStore({ endpoint: server.endpoint });
  cleanups.push(() => store.close());
  const { set, ...others } = await ask(store, 5_000);
  expect(set).toBeUndefined();
  for (const outcome of Object.values(others))
    expect(outcome).toMatchObject({
      code: 'protocol-error',
      executed: 'maybe',
      message: `the store at ${server.endpoint} gave an answer that cannot be read: a frame ends before its fields; is that a store of this library? [protocol-error]`,
    });
});

test('a server that says other things all the while is not waited for without end', async () => {
  const server = await lyingStore((connection) => {
    const chatter = setInterval(() => connection.write([frame(Op.LEASE_LOST, 7, [])]), 20);
    cleanups.push(() => clearInterval(chatter));
  });
  const store = new EmbeddedStore(
    { endpoint: server.endpoint, transport: tcpTransport(), keys: undefined, silenceMs: 100 },
    {},
  );
  cleanups.push(() => store.close());
  await store.connect(undefined, 5_000);
  for (const outcome of Object.values(await ask(store, 5_000)))
    expect(outcome).toMatchObject({
      code: 'unavailable',
      executed: 'maybe',
      message: `the store at ${server.endpoint} tells other things and has not answered in 400 ms [unavailable]`,
    });
});

test('a wait ends with its time, whatever the server does', async () => {
  const server = await lyingStore(() => undefined);
  const store = await embeddedStore({ endpoint: server.endpoint });
  cleanups.push(() => store.close());
  const waiting = store.wait(['k'], { timeoutMs: 100 }).catch((error: unknown) => error);
  expect(await within(waiting, 5_000)).toMatchObject({
    code: 'deadline-exceeded',
    message:
      'some keys not in the store after 100 ms, which cannot be asked: it has not answered in 1000 ms [deadline-exceeded]',
  });
});

test('who listens there and is no store is named', async () => {
  const listener = await tcpTransport().listen({ host: '127.0.0.1' }, (connection) =>
    connection.write([bytes('HTTP/1.1 400 Bad Request\r\n\r\n'.repeat(4))]),
  );
  cleanups.push(() => listener.close());
  await expect(embeddedStore({ endpoint: listener.endpoint, timeoutMs: 5_000 })).rejects.toMatchObject({
    code: 'unauthenticated',
    message: `the store at ${listener.endpoint}: the peer does not speak this protocol [unauthenticated]`,
  });
});

test('answers of random bytes settle every request', { timeout: 60_000 }, async () => {
  let state = 1;
  const random = (below: number): number => (state = (state * 48_271) % 2_147_483_647) % below;
  const server = await lyingStore((connection, id, op) => {
    const body = Uint8Array.from({ length: random(60) }, () => random(256));
    const parts = random(3) === 0 ? [body] : [u8(random(2)), random(2) === 0 ? blob(body) : body];
    const kind = random(12) === 0 ? op : random(8) === 0 ? Op.EVENT : Op.REPLY;
    const whole = frame(kind, random(10) === 0 ? random(50) : id, parts);
    connection.write([random(10) === 0 ? whole.subarray(0, random(whole.length)) : whole]);
    if (random(15) === 0) connection.close();
  });
  for (let round = 0; round < 12; round++) {
    const store = new EmbeddedStore(
      { endpoint: server.endpoint, transport: tcpTransport(), keys: undefined, silenceMs: 300 },
      {},
    );
    await store.connect(undefined, 5_000);
    for (const [name, outcome] of Object.entries(await ask(store, 20_000)))
      expect([round, name, outcome]).not.toEqual([round, name, 'late']);
    await store.close();
  }
});

test('a server that hangs up after each answer is dialled at once, but not without pause: a watch goes on', async () => {
  const server = await lyingStore((connection, id) => {
    connection.write([frame(Op.REPLY, id, [u8(0)])]);
    connection.close();
  });
  const store = await embeddedStore({ endpoint: server.endpoint });
  cleanups.push(() => store.close());
  const watch = store.watch('')[Symbol.asyncIterator]();
  const started = performance.now();
  for (let i = 0; i < 3; i++) await within(watch.next(), 5_000);
  expect(performance.now() - started).toBeLessThan(1_000);
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  expect(server.dials()).toBeLessThan(60);
  await within(watch.next(), 5_000);
});
