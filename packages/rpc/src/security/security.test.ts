/** @file Who gets in, who does not, and how soon each side is told. */
import { hkdfSync, randomBytes, scryptSync } from 'node:crypto';
import { connect } from 'node:net';
import { processorMs } from '@backwire/testing';
import { afterEach, describe, expect, test } from 'vitest';
import { newSecret } from '../base/ids.ts';
import { memoryPair } from '../transports/memory.ts';
import { tcpTransport } from '../transports/tcp.ts';
import type { ByteSink, Connection } from '../transports/transport.ts';
import { authenticate, type AuthenticateOptions, type Authenticated } from '../connect/authenticate.ts';
import { createAcceptor } from '../connect/accept.ts';
import { MAX_HALF_OPEN } from './handshake.ts';
import { sha256 } from './digest.ts';
import { deriveKey, findKeys, keyIdIn, type Keys } from './secret.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const keysOf = (secret: string): Keys => findKeys({ secret, env: {} }) as Keys;
const ours = keysOf('sixteen bytes and more');
const old = keysOf('the secret of last month');
const both: Keys = [ours[0], old[0]];
const idOf = (keys: Keys | undefined): string | undefined => keys && keyIdIn(keys[0], 'g');
const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString();

/** A server that authenticates whoever comes, and what came of each. */
async function server(
  options: Partial<AuthenticateOptions> = {},
): Promise<{ endpoint: string; port: number; outcomes: Promise<Authenticated>[]; next(): Promise<Authenticated> }> {
  const outcomes: Promise<Authenticated>[] = [];
  const waiting: ((outcome: Promise<Authenticated>) => void)[] = [];
  const listener = await tcpTransport().listen({}, (connection) => {
    const outcome = authenticate(connection, {
      role: 'acceptor',
      group: 'g',
      keys: ours,
      claim: Buffer.from('server'),
      ...options,
    });
    outcome.catch(() => undefined);
    outcomes.push(outcome);
    waiting.shift()?.(outcome);
  });
  cleanups.push(() => listener.close());
  const next = (): Promise<Authenticated> =>
    new Promise((resolve, reject) => waiting.push((outcome) => void outcome.then(resolve, reject)));
  return { endpoint: listener.endpoint, port: Number(listener.endpoint.split(':').at(-1)), outcomes, next };
}

async function client(endpoint: string, options: Partial<AuthenticateOptions> = {}): Promise<Authenticated> {
  const connection = await tcpTransport().dial(endpoint);
  cleanups.push(() => connection.destroy());
  return authenticate(connection, { role: 'dialer', group: 'g', keys: ours, claim: Buffer.from('client'), ...options });
}

function collect(connection: Connection, count: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let got = '';
    const memory = new Uint8Array(64);
    const sink: ByteSink = {
      nextBuffer: () => memory,
      received: (n) => {
        got += text(memory.subarray(0, n));
        if (got.length >= count) resolve(got);
      },
      closed: (error) => reject(error ?? new Error(`closed after '${got}'`)),
    };
    connection.attach(sink);
  });
}

describe('peers that hold the secret', () => {
  test('get in, learn the other side claims, and lose no byte of what follows', async () => {
    const { endpoint, next } = await server();
    const accepted = next().then((peer) => {
      // At once, so that it travels with the last record.
      peer.connection.write([Buffer.from('from the server')]);
      return peer;
    });
    const dialled = await client(endpoint);
    dialled.connection.write([Buffer.from('from the client')]);
    expect(text(dialled.claim)).toBe('server');
    const peer = await accepted;
    expect([text(peer.claim), peer.keyId, dialled.keyId]).toEqual(['client', idOf(ours), idOf(ours)]);
    expect(await collect(dialled.connection, 15)).toBe('from the server');
    expect(await collect(peer.connection, 15)).toBe('from the client');
  });

  test('either key is good while keys are being changed', async () => {
    const { endpoint } = await server({ keys: both });
    expect((await client(endpoint, { keys: ours })).keyId).toBe(idOf(ours));
    expect((await client(endpoint, { keys: old })).keyId).toBe(idOf(old));
    const older = await server({ keys: old });
    await expect(client(older.endpoint, { keys: both })).rejects.toMatchObject({ code: 'unauthenticated' });
  });

  test('security off on both sides works, on one side it does not', async () => {
    const open = await server({ keys: undefined });
    expect((await client(open.endpoint, { keys: undefined })).keyId).toBeUndefined();
    await expect(client(open.endpoint)).rejects.toMatchObject({ code: 'unauthenticated' });
    const closed = await server();
    await expect(client(closed.endpoint, { keys: undefined })).rejects.toMatchObject({ code: 'unauthenticated' });
  });

  test('a connection inside the process needs no secret, only the group', async () => {
    const run = (group: string): Promise<unknown> => {
      const [a, b] = memoryPair();
      return Promise.all([
        authenticate(a, { role: 'dialer', group: 'g', keys: ours }),
        authenticate(b, { role: 'acceptor', group, keys: old }),
      ]);
    };
    await run('g');
    await expect(run('other')).rejects.toMatchObject({ code: 'unauthenticated' });
  });
});

describe('peers that do not', () => {
  const wrong: [string, Partial<AuthenticateOptions>][] = [
    ['another secret', { keys: keysOf('another secret, as long as it') }],
    ['another group', { group: 'h' }],
  ];
  test.each(wrong)('%s: both sides are told at once, the dialer in words', async (_, options) => {
    const { endpoint, outcomes } = await server();
    const start = performance.now();
    const error = await client(endpoint, options).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: 'unauthenticated',
      message: expect.stringMatching(/secret, group or security mode differ/) as string,
    });
    expect(performance.now() - start).toBeLessThan(4_500);
    await expect(outcomes[0]).rejects.toMatchObject({ code: 'unauthenticated' });
  });

  test.each([
    ['a web browser', Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')],
    ['a TLS client', Buffer.from('16030100f8010000f40303', 'hex')],
    ['noise', randomBytes(5_000)],
    ['a torch client', Buffer.from('00cef7853c0d01020304', 'hex')],
    ['a record out of order', Buffer.concat([Buffer.from('BKWR'), Buffer.from([2, 3, 32, 0]), Buffer.alloc(32)])],
    [
      'a hello with an endless claim',
      Buffer.concat([Buffer.from('BKWR'), Buffer.from([2, 1, 255, 255]), Buffer.alloc(65_535)]),
    ],
    ['a hello too short', Buffer.concat([Buffer.from('BKWR'), Buffer.from([2, 1, 3, 0]), Buffer.alloc(3)])],
  ])('%s is hung up on at once and told nothing', async (_, opening) => {
    const { port, next } = await server();
    const outcome = next();
    const refused = expect(outcome).rejects.toMatchObject({ code: 'unauthenticated' });
    const socket = connect(port, '127.0.0.1');
    let heard = 0;
    socket.on('data', (bytes: Buffer) => (heard += bytes.length));
    socket.on('error', () => undefined);
    socket.write(opening);
    await new Promise((resolve) => socket.once('close', resolve));
    await refused;
    expect(heard).toBe(0);
  });

  test('another version of the handshake: both sides are told which there are', async () => {
    const { port, next } = await server();
    const refused = expect(next()).rejects.toMatchObject({ code: 'version-mismatch' });
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    const heard: Buffer[] = [];
    socket.on('data', (bytes: Buffer) => heard.push(bytes));
    socket.write(Buffer.concat([Buffer.from('BKWR'), Buffer.from([1, 1, 41, 0]), Buffer.alloc(41)]));
    await refused;
    await new Promise((resolve) => socket.once('close', resolve));
    // A record of the version that this side has, from which the other one reads it.
    expect(Buffer.concat(heard)).toEqual(Buffer.from('BKWR\x02\x05\0\0'));
    const old = await tcpTransport().listen({}, (connection) => {
      connection.attach({ nextBuffer: () => new Uint8Array(100), received: () => undefined, closed: () => undefined });
      connection.write([Buffer.from('BKWR\x01\x05\0\0')]);
    });
    cleanups.push(() => old.close());
    await expect(client(old.endpoint)).rejects.toMatchObject({
      code: 'version-mismatch',
      message: expect.stringContaining('handshake version 1, this side has 2') as string,
    });
  });

  test('a slow drip is cut off when its time is up, however busy it is', async () => {
    const { port, next } = await server({ timeoutMs: 400 });
    const refused = expect(next()).rejects.toMatchObject({ code: 'deadline-exceeded' });
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    const hello = Buffer.concat([Buffer.from('BKWR'), Buffer.from([2, 1, 0, 4]), Buffer.alloc(1_024)]);
    let at = 0;
    const drip = setInterval(() => socket.write(hello.subarray(at, ++at)), 10);
    cleanups.push(() => clearInterval(drip));
    await refused;
    await new Promise((resolve) => socket.once('close', resolve));
  });

  test('a silent server is given up', async () => {
    const listener = await tcpTransport().listen({}, () => undefined);
    cleanups.push(() => listener.close());
    await expect(client(listener.endpoint, { timeoutMs: 150 })).rejects.toMatchObject({ code: 'deadline-exceeded' });
  });

  test('a server that goes away in the middle is not mistaken for a refusal', async () => {
    const listener = await tcpTransport().listen({}, (connection) => {
      connection.attach({
        nextBuffer: () => new Uint8Array(100),
        received: () => connection.destroy(),
        closed: () => undefined,
      });
    });
    cleanups.push(() => listener.close());
    await expect(client(listener.endpoint)).rejects.toMatchObject({ code: 'unavailable' });
  });

  test('cancelling closes the connection', async () => {
    const listener = await tcpTransport().listen({}, () => undefined);
    cleanups.push(() => listener.close());
    const controller = new AbortController();
    const connection = await tcpTransport().dial(listener.endpoint);
    const pending = authenticate(connection, { role: 'dialer', group: 'g', keys: ours, signal: controller.signal });
    controller.abort(new Error('enough'));
    await expect(pending).rejects.toMatchObject({ code: 'cancelled' });
    const again = await tcpTransport().dial(listener.endpoint);
    await expect(
      authenticate(again, { role: 'dialer', group: 'g', keys: ours, signal: controller.signal }),
    ).rejects.toMatchObject({ code: 'cancelled' });
  });
});

describe('secrets that can be guessed', () => {
  test.each([
    'password12345678',
    'passwordpassword',
    'P@ssw0rdP@ssw0rd',
    '1234567890123456',
    'aaaaaaaaaaaaaaab',
    'abababababababab',
    'qwertyuiopasdfgh',
    'changemechangeme',
    'hunter2hunter2hunter2',
    'letmein-letmein-letmein',
    'Summer2024Summer2024',
    'my-secret-password',
    'secret-secret-secret',
    'backwire-secret-1',
    '0123456789abcdef',
    'admin-admin-admin1',
    'aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb',
    '00112233445566778899aabbccddeeff',
    'letmeinletmeinplease',
    '1111222233334444555566667777',
    'abcdabcdabcd-abcdabcdabcd',
  ])("'%s' is refused, with how to make one", (secret) => {
    expect(() => findKeys({ secret, env: {} })).toThrow(/not random enough.*openssl rand -base64 32/);
    expect(() => findKeys({ secret: Buffer.from(secret) })).toThrow('not random enough');
    expect(() => findKeys({ env: { BACKWIRE_SECRET: secret } })).toThrow(/BACKWIRE_SECRET .*not random enough/);
  });

  test('what a generator draws never is, in whatever letters', () => {
    for (let i = 0; i < 2_000; i++) {
      const bytes = randomBytes(i % 2 === 0 ? 16 : 32);
      for (const secret of [bytes.toString('hex'), bytes.toString('base64'), bytes.toString('base64url'), newSecret()])
        expect(() => findKeys({ secret, env: {} }), secret).not.toThrow();
      expect(() => findKeys({ secret: bytes }), bytes.toString('hex')).not.toThrow();
    }
  });

  test('a long one takes no long time to judge', () => {
    const took = processorMs(() => {
      findKeys({ secret: randomBytes(100_000), env: {} });
      findKeys({ secret: randomBytes(75_000).toString('base64'), env: {} });
    });
    expect(took).toBeLessThan(2_000);
  });

  test('nor are a few words that one thought of', () => {
    for (const secret of [
      'summer-holiday-2024',
      'correct-horse-battery-staple',
      'a secret for tests only',
      'what every member knows',
    ])
      expect(() => findKeys({ secret, env: {} }), secret).not.toThrow();
  });

  test('a captured hello names the key by what is another in each group, and costs scrypt for each guess', () => {
    const [key] = ours;
    expect(keyIdIn(key, 'g')).not.toBe(keyIdIn(key, 'h'));
    const fast = sha256(Buffer.from('backwire key id\0'), key.secret).subarray(0, 8);
    expect(keyIdIn(key, 'g')).not.toBe(Buffer.from(fast).toString('hex'));
    const root = scryptSync(key.secret, 'backwire group\0g', 32, { N: 16_384, r: 8, p: 1 });
    const derived = (purpose: string): Buffer =>
      Buffer.from(hkdfSync('sha256', root, 'g', `backwire ${purpose} v2`, 32));
    expect(keyIdIn(key, 'g')).toBe(derived('key id').subarray(0, 8).toString('hex'));
    // What proves the secret as well, or a guess would be tried on that.
    for (const purpose of ['hmac', 'tls-psk', 'websocket token'])
      expect(Buffer.from(deriveKey(key, 'g', purpose))).toEqual(derived(purpose));
  });

  test('it is worked out once for each group', () => {
    const [key] = keysOf('the secret of a fresh group');
    const took = (): number =>
      processorMs(() => {
        for (let i = 0; i < 100; i++) keyIdIn({ secret: Uint8Array.from(key.secret) }, 'fresh');
      });
    const first = took();
    expect(took()).toBeLessThan(first / 2);
  });
});

test('many who only wait do not keep a member out', async () => {
  let refused = 0;
  let admitted!: (peer: Authenticated) => void;
  const peer = new Promise<Authenticated>((resolve) => (admitted = resolve));
  const door = createAcceptor({
    group: 'g',
    keys: ours,
    claim: Buffer.from('server'),
    onPeer: admitted,
    onRefused: () => refused++,
  });
  const listener = await tcpTransport().listen({}, door);
  cleanups.push(() => listener.close());
  const port = Number(listener.endpoint.split(':').at(-1));
  const idle = Array.from({ length: MAX_HALF_OPEN + 10 }, () =>
    connect(port, '127.0.0.1').on('error', () => undefined),
  );
  cleanups.push(() => idle.forEach((socket) => socket.destroy()));
  await Promise.all(idle.slice(0, 10).map((socket) => new Promise((resolve) => socket.once('close', resolve))));
  expect(refused).toBeGreaterThanOrEqual(10);
  expect(text((await client(listener.endpoint)).claim)).toBe('server');
  expect(text((await peer).claim)).toBe('client');
});

test('all members of a large group may come at once', async () => {
  let admitted = 0;
  const door = createAcceptor({ group: 'g', keys: ours, claim: Buffer.from('server'), onPeer: () => admitted++ });
  const listener = await tcpTransport().listen({}, door);
  cleanups.push(() => listener.close());
  const claims = await Promise.all(
    Array.from({ length: 300 }, async () => text((await client(listener.endpoint)).claim)),
  );
  expect(new Set(claims)).toEqual(new Set(['server']));
  expect(admitted).toBe(300);
});
