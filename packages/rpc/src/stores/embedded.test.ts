/** @file The embedded store: strangers, restarts, leases of lost connections, and the bytes of stock torch. */
import { randomBytes } from 'node:crypto';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { authenticate } from '../connect/authenticate.ts';
import { MAX_HALF_OPEN, STORE_GROUP } from '../security/handshake.ts';
import { resolveSecurity } from '../security/policy.ts';
import { findKeys } from '../security/secret.ts';
import { tcpTransport } from '../transports/tcp.ts';
import { EmbeddedLink } from './embedded-link.ts';
import { embeddedStore, type EmbeddedStore } from './embedded.ts';
import { serveStore, type ServeStoreOptions, type StoreServer } from './embedded-server.ts';
import { openStore } from './open.ts';
import { Op } from './protocol.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const open = resolveSecurity({ mode: 'none', iUnderstand: true });
const secret = 'sixteen bytes and more';
const keys = findKeys({ secret });
const bytes = (text: string): Uint8Array => Buffer.from(text);
const text = (value: Uint8Array | undefined): string | undefined =>
  value === undefined ? undefined : Buffer.from(value).toString();

async function serve(options: ServeStoreOptions = { security: open }): Promise<StoreServer> {
  const server = await serveStore(options);
  cleanups.push(() => server.close());
  return server;
}

async function client(server: StoreServer, options: object = {}): Promise<EmbeddedStore> {
  const store = await embeddedStore({ endpoint: server.endpoint, timeoutMs: 10_000, ...options });
  cleanups.push(() => store.close());
  return store;
}

/** A raw client: sends hex, expects hex. */
class Raw {
  readonly socket: Socket;
  private got = Buffer.alloc(0);
  private wake: (() => void) | undefined;
  closed = false;

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1');
    cleanups.push(() => this.socket.destroy());
    this.socket.on('error', () => undefined);
    this.socket.on('data', (data: Buffer) => {
      this.got = Buffer.concat([this.got, data]);
      this.wake?.();
    });
    this.socket.on('close', () => {
      this.closed = true;
      this.wake?.();
    });
  }
  send(hex: string): this {
    this.socket.write(Buffer.from(hex.replaceAll(' ', ''), 'hex'));
    return this;
  }
  async expect(hex: string): Promise<void> {
    const wanted = hex.replaceAll(' ', '');
    while (this.got.length * 2 < wanted.length && !this.closed)
      await new Promise<void>((resolve) => (this.wake = resolve));
    expect(this.got.subarray(0, wanted.length / 2).toString('hex')).toBe(wanted);
    this.got = this.got.subarray(wanted.length / 2);
  }
  async end(): Promise<void> {
    while (!this.closed) await new Promise<void>((resolve) => (this.wake = resolve));
    expect(this.got.toString('hex')).toBe('');
  }
}

const u64 = (value: number): string => Buffer.from(BigUint64Array.of(BigInt(value)).buffer).toString('hex');
const str = (value: string): string => u64(Buffer.byteLength(value)) + Buffer.from(value).toString('hex');
const HELLO = '00 cef7853c 0d 01020304';

describe('stock torch clients, byte for byte', () => {
  async function torch(server?: StoreServer): Promise<{ raw: Raw; server: StoreServer; store: EmbeddedStore }> {
    const one = server ?? (await serve());
    const raw = new Raw(one.port).send(HELLO);
    await raw.expect('01020304');
    return { raw, server: one, store: await client(one) };
  }

  test('set, get, add, append and delete, shared with our clients', async () => {
    const { raw, store } = await torch();
    // The capture of set('k', 'v1').
    raw.send('01 0200000000000000 2f6b 0200000000000000 7631');
    raw.send(`03 ${str('/k')}`);
    await raw.expect(str('v1'));
    expect(text(await store.get('k'))).toBe('v1');
    await store.set('k', bytes('v2'));
    raw.send(`09 ${str('/k')} ${str('+')} 03 ${str('/k')}`);
    await raw.expect(str('v2+'));
    raw.send(`04 ${str('/n')} ${u64(7)} 04 ${str('/n')} feffffffffffffff`);
    await raw.expect(u64(7) + u64(5));
    expect(await store.add('n', 1n)).toBe(6n);
    raw.send(`03 ${str('/n')} 03 ${str('/none')}`);
    await raw.expect(str('6') + u64(0));
    raw.send(`07 08 ${str('/k')} 08 ${str('/k')} 07`);
    await raw.expect(u64(2) + u64(1) + u64(0) + u64(1));
  });

  test('init of a group counts without a slash', async () => {
    const { raw } = await torch();
    raw.send(`04 ${str('init/')} ${u64(1)}`);
    await raw.expect(u64(1));
  });

  test('compare_set, with its answer for a missing key', async () => {
    const { raw } = await torch();
    raw.send(`02 ${str('/c')} ${str('x')} ${str('y')}`);
    await raw.expect(str('x'));
    raw.send(`02 ${str('/c')} ${str('')} ${str('y')}`);
    await raw.expect(str('y'));
    raw.send(`02 ${str('/c')} ${str('z')} ${str('w')}`);
    await raw.expect(str('y'));
    raw.send(`02 ${str('/c')} ${str('y')} ${str('w')}`);
    await raw.expect(str('w'));
  });

  test('check, wait, and a wait that is given up', async () => {
    const { raw, store } = await torch();
    raw.send(`05 ${u64(1)} ${str('/a')}`);
    await raw.expect('01');
    raw.send(`06 ${u64(2)} ${str('/a')} ${str('/b')}`);
    await store.set('a', bytes('1'));
    await store.set('b', bytes('1'));
    await raw.expect('00');
    raw.send(`05 ${u64(2)} ${str('/a')} ${str('/b')} 06 ${u64(1)} ${str('/a')}`);
    await raw.expect('00 00');
    raw.send(`06 ${u64(1)} ${str('/never')} 0c`);
    await raw.expect('01');
    await store.set('never', bytes('late'));
    raw.send(`0d 09080706`);
    await raw.expect('09080706');
  });

  test('a wait or a barrier on top of a wait takes its place', async () => {
    const { raw, store } = await torch();
    raw.send(
      `06 ${u64(1)} ${str('/a')} 06 ${u64(1)} ${str('/b')} 12 ${str('/bar')} ${u64(2)} 06 ${u64(1)} ${str('/c')}`,
    );
    raw.send('0d 01020304');
    await raw.expect('01020304');
    for (const key of ['a', 'b']) await store.set(key, bytes('1'));
    raw.send('0d 05060708');
    await raw.expect('05060708');
    await store.set('c', bytes('1'));
    await raw.expect('00');
  });

  test('many at once', async () => {
    const { raw } = await torch();
    raw.send(
      `0b ${u64(2)} ${str('/a')} ${str('1')} ${str('/b')} ${str('22')} 0a ${u64(3)} ${str('/b')} ${str('/x')} ${str('/a')}`,
    );
    await raw.expect(str('22') + str('') + str('1'));
    raw.send('11');
    await raw.expect(u64(2) + str('/a') + str('/b'));
  });

  test('queues', async () => {
    const { raw, server } = await torch();
    raw.send(`10 ${str('/q')} 0f ${str('/q')}`);
    await raw.expect(u64(0) + u64(0));
    const { raw: other } = await torch(server);
    other.send(`06 ${u64(1)} ${str('/q')}`);
    raw.send(`0e ${str('/q')} ${str('one')} 0e ${str('/q')} ${str('two')} 10 ${str('/q')}`);
    await raw.expect(u64(2));
    await other.expect('00');
    other.send(`0f ${str('/q')} 0f ${str('/q')} 0f ${str('/q')}`);
    await other.expect(u64(2) + str('one') + u64(1) + str('two') + u64(0));
    // As torch's server: deleting is for values.
    raw.send(`0e ${str('/q')} ${str('three')} 08 ${str('/q')} 10 ${str('/q')}`);
    await raw.expect(u64(0) + u64(1));
  });

  test('a barrier lets all go at once', async () => {
    const { raw, server } = await torch();
    const { raw: other } = await torch(server);
    raw.send(`12 ${str('/bar')} ${u64(2)}`);
    other.send(`12 ${str('/bar')} ${u64(2)}`);
    await Promise.all([raw.expect('00'), other.expect('00')]);
  });

  test.each([
    ['a wrong magic number', '00 00000000'],
    ['a key too long', `${HELLO} 03 ${u64(9_000)}`],
    ['a value too long', `${HELLO} 01 ${str('/k')} ${u64(2 ** 40)}`],
    ['a length of all ones', `${HELLO} 03 ffffffffffffffff`],
    ['too many keys', `${HELLO} 05 ${u64(200_000)}`],
    ['an unknown operation', `${HELLO} 13`],
    ['an operation of ours that does not exist', `${HELLO} 7f 00000000 01000000`],
    ['a frame of ours that is too long', `${HELLO} 50 ffffffff 01000000`],
    ['a frame of ours that ends too soon', `${HELLO} 50 04000000 01000000 09000000`],
  ])('%s ends the connection and nothing else', async (name, hex) => {
    const server = await serve();
    const store = await client(server);
    const raw = new Raw(server.port).send(hex);
    if (!name.startsWith('a wrong')) await raw.expect('01020304');
    await raw.end();
    await store.set('still', bytes('here'));
    expect(text(await store.get('still'))).toBe('here');
  });

  test('are not served where a secret is asked for, unless it is said so', async () => {
    const closed = await serve({ secret });
    await new Raw(closed.port).send(HELLO).end();
    const both = await serve({ secret, torch: true });
    await new Raw(both.port).send(HELLO).expect('01020304');
    expect(await (await client(both, { keys })).add('n', 1n)).toBe(1n);
  });
});

describe('strangers', () => {
  test.each([
    ['HTTP', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
    ['noise', Buffer.concat([Buffer.from([0xff]), randomBytes(3_000)])],
  ])('%s is hung up on', async (_, opening) => {
    const server = await serve({ secret });
    const raw = new Raw(server.port);
    raw.socket.write(opening);
    await raw.end();
  });

  test('with the wrong secret are told at once, not after the time to connect', async () => {
    const server = await serve({ secret });
    await expect(client(server, { keys: findKeys({ secret: 'another secret, as long' }) })).rejects.toMatchObject({
      code: 'unauthenticated',
    });
    await expect(client(server, { keys: undefined })).rejects.toMatchObject({ code: 'unauthenticated' });
    expect(text(await (await client(server, { keys })).get('k'))).toBeUndefined();
  });

  test('who only wait do not keep a member out', async () => {
    const server = await serve({ secret });
    const idle = Array.from({ length: MAX_HALF_OPEN + 10 }, () => new Raw(server.port));
    await idle[0]?.end();
    expect(await (await client(server, { keys })).add('n', 1n)).toBe(1n);
  });
});

describe('the server', () => {
  test('names a port that is taken', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    cleanups.push(() => taken.close());
    const { port } = taken.address() as AddressInfo;
    await expect(serve({ port, security: open })).rejects.toMatchObject({
      code: 'unavailable',
      message: `Address already in use: tcp://127.0.0.1:${port} [unavailable]`,
    });
  });

  test('of rank 0 says why it wants a port that is taken, and what to do', async () => {
    const server = await serve({ security: open });
    const address = server.endpoint.replace(/^[a-z]+:/, 'tcp:');
    const error = await openStore(address, { rank: 0, security: open }).catch((thrown: unknown) => thrown as Error);
    // Node would print each with a stack of its own, to say the same.
    expect((error as Error).cause).toBeUndefined();
    expect(error).toMatchObject({
      code: 'unavailable',
      message: `Address already in use: ${address}; rank 0 serves the store of its group there: is another worker of rank 0, or another program, running? Stop it, or give another MASTER_PORT or store [unavailable]`,
    });
  });

  test('is not open to other machines without a secret', async () => {
    const before = process.env['BACKWIRE_SECRET'];
    delete process.env['BACKWIRE_SECRET'];
    try {
      await expect(serveStore({ host: '0.0.0.0' })).rejects.toMatchObject({ code: 'invalid-argument' });
    } finally {
      if (before !== undefined) process.env['BACKWIRE_SECRET'] = before;
    }
  });

  test('can set keys itself, and lingers until its clients have gone', async () => {
    const server = await serve();
    const store = await client(server);
    server.set('launcher/exits/0', bytes('{}'));
    expect(text(await store.get('launcher/exits/0'))).toBe('{}');
    let closed = false;
    const closing = server.close({ lingerMs: 20_000 }).then(() => (closed = true));
    await store.set('late', bytes('but served'));
    expect(closed).toBe(false);
    await store.close();
    await closing;
  });
});

test('a client finds a server that starts later', async () => {
  const first = await serveStore({ security: open });
  const { port } = first;
  await first.close();
  const connecting = embeddedStore({ endpoint: `tcp://127.0.0.1:${port}`, timeoutMs: 20_000 });
  await new Promise((resolve) => setTimeout(resolve, 300));
  await serve({ port, security: open });
  const store = await connecting;
  expect(await store.add('n', 1n)).toBe(1n);
  await store.close();
});

test('a client gives up when its time is up, and says what was wrong', async () => {
  const first = await serveStore({ security: open });
  const { port } = first;
  await first.close();
  const start = performance.now();
  await expect(embeddedStore({ endpoint: `tcp://127.0.0.1:${port}`, timeoutMs: 300 })).rejects.toMatchObject({
    code: 'deadline-exceeded',
    message: expect.stringMatching(/ECONNREFUSED/) as string,
  });
  expect(performance.now() - start).toBeLessThan(5_000);
  const controller = new AbortController();
  const cancelled = embeddedStore({ endpoint: `tcp://127.0.0.1:${port}`, timeoutMs: 0, signal: controller.signal });
  controller.abort();
  await expect(cancelled).rejects.toMatchObject({ code: 'cancelled' });
});

test('a server that is up and silent is given up when it owes a reply, but not for a wait', async () => {
  // Lets the handshake through and then answers nothing.
  const listener = await tcpTransport().listen({}, (connection) => {
    authenticate(connection, { role: 'acceptor', group: STORE_GROUP }).then(
      () =>
        connection.attach({
          nextBuffer: () => new Uint8Array(256),
          received: () => undefined,
          closed: () => undefined,
        }),
      () => undefined,
    );
  });
  cleanups.push(() => listener.close());
  const events = { up: () => undefined, event: () => undefined, leaseLost: () => undefined };
  const link = new EmbeddedLink(
    { endpoint: listener.endpoint, transport: tcpTransport(), keys: undefined, silenceMs: 200 },
    events,
  );
  cleanups.push(() => link.close());
  await link.connect();
  let waited: unknown;
  const waiting = link
    .request(Op.WAIT, [], { repeatable: true, patient: true })
    .catch((error: unknown) => (waited = error));
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(waited).toBeUndefined();
  await expect(link.request(Op.ADD, [], { repeatable: false })).rejects.toMatchObject({ code: 'unavailable' });
  link.close();
  await waiting;
  expect(waited).toMatchObject({ code: 'failed-precondition' });
});

describe('after a restart of the server', () => {
  test('waits go on, watches resync, leases are lost, and the next requests are served', async () => {
    const first = await serve();
    const store = await client(first);
    const lease = await store.lease(60_000);
    await store.set('m', bytes('1'), { lease });
    const events = store.watch('')[Symbol.asyncIterator]();
    const waiting = store.wait(['later'], { timeoutMs: 20_000 });
    await store.get('m');
    await first.close();
    await serve({ port: first.port, security: open });
    expect(await store.get('m')).toBeUndefined();
    expect((await events.next()).value).toEqual({ type: 'resync', key: '' });
    expect((await lease.lost).message).toMatch(/lease/);
    await store.set('later', bytes('now'));
    await waiting;
    expect((await events.next()).value).toMatchObject({ type: 'put', key: 'later' });
    await expect(store.set('x', bytes(''), { lease })).rejects.toMatchObject({ code: 'failed-precondition' });
  });

  test('without one, requests fail in seconds and say why; closing ends what waits', async () => {
    const first = await serve();
    const store = await client(first);
    const events = store.watch('')[Symbol.asyncIterator]();
    await store.get('x');
    await first.close();
    const waiting = expect(store.wait(['x'], { timeoutMs: 0 })).rejects.toMatchObject({ code: 'failed-precondition' });
    await expect(store.get('x')).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(/out of reach/) as string,
    });
    await store.close();
    await waiting;
    expect(await events.next()).toMatchObject({ done: true });
  });
});

test('a lease survives a broken connection that comes back, and nobody else can end it', async () => {
  const server = await serve();
  const store = await client(server);
  const other = await client(server);
  const lease = await store.lease(60_000);
  await store.set('m', bytes('1'), { lease });
  // The guess of a lease id without its token.
  const { raw } = { raw: new Raw(server.port).send(HELLO) };
  await raw.expect('01020304');
  raw.send('5b 10000000 07000000 01000000 08000000 0000000000000000');
  await raw.expect('60 01000000 07000000 00');
  expect(text(await other.get('m'))).toBe('1');
  breakConnections(store);
  expect(text(await store.get('m'))).toBe('1');
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(text(await other.get('m'))).toBe('1');
});

test('what was sent before the connection broke may have been done; what only waited for one was not', async () => {
  const server = await serve();
  const store = await client(server);
  const link = (store as unknown as { link: { onReply: unknown; isUp: boolean } }).link;
  const { onReply } = link;
  link.onReply = () => undefined;
  const sent = store.add('n', 1n);
  const other = await client(server);
  await other.wait(['n'], { timeoutMs: 10_000 });
  breakConnections(store);
  await expect(sent).rejects.toMatchObject({ code: 'unavailable', executed: 'maybe', retryable: false });
  link.onReply = onReply;
  expect(text(await store.get('n'))).toBe('1');
  await server.close();
  await other.close();
  await expect.poll(() => link.isUp).toBe(false);
  await expect(store.add('n', 1n)).rejects.toMatchObject({ code: 'unavailable', executed: 'no', retryable: true });
});

test('a request that was sent before its store was closed may have been done', async () => {
  const server = await serve();
  const store = await client(server);
  const sent = store.add('n', 1n);
  const closed = store.close();
  await expect(sent).rejects.toMatchObject({ code: 'failed-precondition', executed: 'maybe', retryable: false });
  await expect(store.add('n', 1n)).rejects.toMatchObject({ code: 'failed-precondition', executed: 'no' });
  await closed;
  expect(text(await (await client(server)).get('n'))).toBe('1');
});

function breakConnections(store: EmbeddedStore): void {
  (store as unknown as { link: { connection: { destroy(): void } } }).link.connection.destroy();
}

test('rank 0 serves MASTER_ADDR and MASTER_PORT, others connect, and it closes last', async () => {
  const probe = await serveStore({ security: open });
  const { port } = probe;
  await probe.close();
  const before = { ...process.env };
  Object.assign(process.env, { MASTER_ADDR: '127.0.0.1', MASTER_PORT: `${port}` });
  try {
    const joining = openStore(undefined, { rank: 1, group: 'g', timeoutMs: 20_000 });
    const zero = await openStore(undefined, { rank: 0, group: 'g' });
    const one = await joining;
    await one.store.set('k', bytes('v'));
    expect(text(await zero.store.get('k'))).toBe('v');
    await expect(openStore(undefined, { rank: 0, group: 'g' })).rejects.toMatchObject({
      message: expect.stringMatching(/already in use.*:\d+/) as string,
    });
    const closing = zero.store.close();
    expect(text(await one.store.get('k'))).toBe('v');
    await one.store.close();
    await closing;
    process.env['BACKWIRE_STORE_HOSTED'] = '1';
    await expect(openStore(undefined, { rank: 0, timeoutMs: 200 })).rejects.toMatchObject({
      code: 'deadline-exceeded',
    });
    delete process.env['MASTER_ADDR'];
    await expect(openStore(undefined, { rank: 0 })).rejects.toMatchObject({ code: 'invalid-argument' });
  } finally {
    process.env = before;
  }
});
