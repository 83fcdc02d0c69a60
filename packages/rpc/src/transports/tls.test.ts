/** @file TLS: who is let in by key and by certificate, and what strangers see. */
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { connect as connectTls, createServer, type TLSSocket } from 'node:tls';
import { ChaosProxy } from '@backwire/testing';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { authenticate } from '../connect/authenticate.ts';
import { MAX_HALF_OPEN, RECORD_HEAD_BYTES } from '../security/handshake.ts';
import { resolveSecurity } from '../security/policy.ts';
import { findKeys, type Keys } from '../security/secret.ts';
import { Certificates, hasOpenssl } from '../../test/certificates.ts';
import { cmaTransport } from './cma.ts';
import { createTransports } from './select.ts';
import { refuseWhere, tlsTransport, type TlsProof } from './tls.ts';
import type { ByteSink, Connection, Listener } from './transport.ts';

const keysOf = (secret: string): Keys => findKeys({ secret, env: {} }) as Keys;
const keys = keysOf('sixteen bytes and more');
const old = keysOf('the secret of last month');
const psk = (group: string, by: Keys): TlsProof => ({ mode: 'psk', group, keys: by });

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function listen(proof: TlsProof): Promise<{ listener: Listener; accepted: Connection[]; port: number }> {
  const accepted: Connection[] = [];
  const listener = await tlsTransport(proof).listen({}, (connection) => accepted.push(connection));
  cleanups.push(
    () => listener.close(),
    () => accepted.forEach((connection) => connection.destroy()),
  );
  return { listener, accepted, port: Number(listener.endpoint.split(':').at(-1)) };
}

async function dial(proof: TlsProof, endpoint: string): Promise<Connection> {
  const connection = await tlsTransport(proof).dial(endpoint);
  cleanups.push(() => connection.destroy());
  return connection;
}

/** Takes what comes, and tells the end. */
function sinkOf(closed: (error: Error | undefined) => void): ByteSink {
  const memory = new Uint8Array(1_024);
  return { nextBuffer: () => memory, received: () => undefined, closed };
}

const refused = { code: 'unauthenticated' };

describe('a pre-shared key', () => {
  test('both ends know the same binding, and each connection its own', async () => {
    const { listener, accepted } = await listen(psk('g', keys));
    const one = await dial(psk('g', keys), listener.endpoint);
    const two = await dial(psk('g', keys), listener.endpoint);
    await expect.poll(() => accepted.length).toBe(2);
    expect(one.protection).toMatchObject({ encrypted: true, authenticated: true });
    const hex = (connection: Connection | undefined): string =>
      Buffer.from(connection?.protection.binding ?? []).toString('hex');
    expect(accepted.map(hex).sort()).toEqual([hex(one), hex(two)].sort());
    expect(hex(one)).not.toBe(hex(two));
  });

  test('another secret or group is refused in words', async () => {
    const { listener, accepted } = await listen(psk('g', keys));
    await expect(dial(psk('g', old), listener.endpoint)).rejects.toMatchObject(refused);
    await expect(dial(psk('h', keys), listener.endpoint)).rejects.toMatchObject(refused);
    expect(accepted).toHaveLength(0);
  });

  test('two keys are good while they are being changed', async () => {
    const { listener } = await listen(psk('g', [keys[0], old[0]]));
    await dial(psk('g', keys), listener.endpoint);
    await dial(psk('g', old), listener.endpoint);
  });

  test.each(['up', 'down'] as const)(
    'a byte that was altered on its way %s ends the connection, on both sides',
    async (way) => {
      const { listener, accepted, port } = await listen(psk('g', keys));
      const proxy = await ChaosProxy.start({ target: { port } });
      cleanups.push(() => proxy.close());
      const near = await dial(psk('g', keys), listener.endpoint.replace(`:${port}`, `:${proxy.port}`));
      await expect.poll(() => accepted.length).toBe(1);
      const far = accepted[0] as Connection;
      const ends = [near, far].map((connection) => new Promise((resolve) => connection.attach(sinkOf(resolve))));
      proxy[way].flip = 1;
      (way === 'up' ? near : far).write([new Uint8Array(100)]);
      const errors = await Promise.all(ends);
      expect(errors.every((error) => error instanceof Error)).toBe(true);
      expect([near.closed, far.closed]).toEqual([true, true]);
    },
  );

  test('strangers are hung up on; members still get in', async () => {
    const { listener, port, accepted } = await listen(psk('g', keys));
    for (const opening of ['GET / HTTP/1.1\r\n\r\n', 'BKWR'.repeat(100)]) {
      const socket = connect(port, '127.0.0.1').on('error', () => undefined);
      socket.resume();
      socket.write(opening);
      await new Promise((resolve) => socket.once('close', resolve));
    }
    const idle = Array.from({ length: MAX_HALF_OPEN + 10 }, () =>
      connect(port, '127.0.0.1').on('error', () => undefined),
    );
    cleanups.push(() => idle.forEach((socket) => socket.destroy()));
    await new Promise((resolve) => idle[0]?.once('close', resolve));
    await dial(psk('g', keys), listener.endpoint);
    await expect.poll(() => accepted.length).toBe(1);
  });

  test('the handshake of the group runs inside, bound to the connection', async () => {
    const { listener, accepted } = await listen(psk('g', keys));
    const one = await dial(psk('g', keys), listener.endpoint);
    await expect.poll(() => accepted.length).toBe(1);
    const server = authenticate(accepted[0] as Connection, { role: 'acceptor', group: 'g', claim: Buffer.from('s') });
    const client = authenticate(one, { role: 'dialer', group: 'g', claim: Buffer.from('c') });
    expect([Buffer.from((await server).claim).toString(), Buffer.from((await client).claim).toString()]).toEqual([
      'c',
      's',
    ]);
  });

  test('an endpoint that speaks no TLS is an error, not a wait', async () => {
    const server = await import('node:net').then(({ createServer: plain }) =>
      plain((socket) => void socket.end('hello, who is there?\n')),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    cleanups.push(() => server.close());
    const { port } = server.address() as { port: number };
    await expect(dial(psk('g', keys), `tls://127.0.0.1:${port}`)).rejects.toMatchObject({
      code: expect.stringMatching(/unauthenticated|unavailable/) as string,
    });
    await expect(dial(psk('g', keys), 'tls://127.0.0.1:1')).rejects.toMatchObject({ code: 'unavailable' });
  });
});

/** Made by the openssl program; without it these tests are skipped. */
describe.skipIf(!hasOpenssl)('certificates of both sides (made with openssl)', () => {
  let made: Certificates;
  beforeAll(() => {
    made = new Certificates(['ca', 'other'])
      .make('ps', { alternative: 'DNS:ps,DNS:ps.example' })
      .make('trainer', { alternative: 'DNS:trainer,DNS:trainer.example' })
      .make('stranger', { authority: 'other' });
  });
  afterAll(() => made.remove());

  const proof = (name: string, authority = 'ca'): TlsProof => made.security(name, authority);

  test('each side learns the names of the other', async () => {
    const { listener, accepted } = await listen(proof('ps'));
    const one = await dial(proof('trainer'), listener.endpoint);
    await expect.poll(() => accepted.length).toBe(1);
    const names = ['ps', 'ps.example', 'trainer', 'trainer.example', 'stranger', ''];
    expect(names.filter((name) => one.protection.carries?.(name))).toEqual(['ps', 'ps.example']);
    expect(names.filter((name) => accepted[0]?.protection.carries?.(name))).toEqual(['trainer', 'trainer.example']);
  });

  test('one that the authority did not sign is refused, on either side', async () => {
    const { listener, accepted } = await listen(proof('ps'));
    await expect(dial(proof('trainer', 'other'), listener.endpoint)).rejects.toMatchObject(refused);
    const late = await dial(proof('stranger'), listener.endpoint);
    // TLS 1.3 lets a client finish before the server has judged its certificate: then the server says no, and hangs up.
    await expect(authenticate(late, { role: 'dialer', group: 'g' })).rejects.toMatchObject(refused);
    expect(accepted).toHaveLength(0);
  });

  test('one who has none is hung up on and told nothing, and who resumes what he began is not let in either', async () => {
    const { listener, port, accepted } = await listen(proof('ps'));
    const told: Buffer[] = [];
    const knock = (given: object): Promise<Buffer[]> =>
      new Promise((resolve) => {
        const tickets: Buffer[] = [];
        const ca = readFileSync(made.path('ca.pem'));
        const socket = connectTls({ port, ca, checkServerIdentity: () => undefined, ...given });
        socket.on('session', (ticket: Buffer) => tickets.push(ticket)).on('error', () => undefined);
        socket.on('data', (bytes) => told.push(bytes)).once('close', () => resolve(tickets));
        socket.once('end', () => socket.destroy());
      });
    for (const session of await knock({})) await knock({ session });
    expect(told).toEqual([]);
    const own = { key: readFileSync(made.path('stranger.key')), cert: readFileSync(made.path('stranger.pem')) };
    const tickets = await knock(own);
    expect(tickets.length).toBeGreaterThan(0);
    for (const session of tickets) for (const more of [{}, own]) await knock({ session, ...more });
    expect(told.every((bytes) => bytes.byteLength === RECORD_HEAD_BYTES)).toBe(true);
    expect(accepted).toHaveLength(0);
    await dial(proof('trainer'), listener.endpoint);
    await expect.poll(() => accepted.length).toBe(1);
    // A worker is let in by its certificate, and not by having been let in before.
    const trainer = { key: readFileSync(made.path('trainer.key')), cert: readFileSync(made.path('trainer.pem')) };
    const kept = new Promise<Buffer>((resolve) => {
      const socket = connectTls({
        port,
        ca: readFileSync(made.path('ca.pem')),
        checkServerIdentity: () => undefined,
        ...trainer,
      });
      socket.on('error', () => undefined).once('session', resolve);
      cleanups.push(() => socket.destroy());
    });
    const session = await kept;
    await expect.poll(() => accepted.length).toBe(2);
    await knock({ session, ...trainer });
    expect(accepted).toHaveLength(2);
  });

  test('a server with a certificate instead of the key is not taken for a member', async () => {
    const server = createServer({
      key: readFileSync(made.path('ps.key')),
      cert: readFileSync(made.path('ps.pem')),
    });
    server.on('secureConnection', (socket: TLSSocket) => socket.on('error', () => undefined));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    cleanups.push(() => server.close());
    const { port } = server.address() as { port: number };
    await expect(dial(psk('g', keys), `tls://127.0.0.1:${port}`)).rejects.toMatchObject(refused);
  });

  const damaged = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
  test.each([
    [
      'a key of another certificate',
      { key: 'trainer.key' },
      /security.cert and security.key cannot be used: .*key values mismatch/,
    ],
    ['a certificate that is damaged', { cert: damaged }, /security.cert and security.key cannot be used: /],
    ['an authority that is damaged', { ca: damaged }, /security.ca cannot be used: /],
    ['a key for an authority', { ca: 'ps.key' }, /security.ca cannot be used: there is no certificate in it/],
  ])('%s is named, by who listens and by who dials', async (_what, wrong, message) => {
    const given = Object.entries(wrong).map(([name, text]) => [name, text === damaged ? text : made.path(text)]);
    const transport = tlsTransport({ ...proof('ps'), ...Object.fromEntries(given) } as TlsProof);
    const error = { code: 'invalid-argument', message: expect.stringMatching(message) as string };
    await expect(transport.listen({}, () => undefined)).rejects.toMatchObject(error);
    await expect(transport.dial('tls://127.0.0.1:1')).rejects.toMatchObject(error);
  });

  test('a file that is none is named', async () => {
    await expect(
      tlsTransport({ ...proof('ps'), cert: '/nowhere.pem' } as TlsProof).listen({}, () => undefined),
    ).rejects.toMatchObject({
      code: 'invalid-argument',
      message: expect.stringMatching(/nowhere.pem/) as string,
    });
  });
});

test('the security mode chooses what tcp means', () => {
  const names = (mode: 'psk' | 'hmac'): string[] =>
    createTransports(['tcp', 'unix'], resolveSecurity({ mode, secret: 'sixteen bytes and more' }), 'g').map(
      (transport) => transport.name,
    );
  expect(names('psk')).toEqual(['tls', 'unix']);
  expect(names('hmac')).toEqual(['tcp', 'unix']);
  const open = resolveSecurity({ mode: 'none', iUnderstand: true });
  const withCma = createTransports(undefined, open, 'g', ['cma', 'inline']).map((transport) => transport.name);
  expect(withCma.filter((each) => each !== 'cma')).toEqual(['memory', 'port', 'unix', 'tcp']);
  if (cmaTransport().isViable()) expect(withCma.indexOf('cma')).toBe(withCma.indexOf('unix') - 1);
  expect(() => createTransports(undefined, open, 'g', ['telepathy'])).toThrow(/telepathy/);
  expect(() => createTransports(['pigeon'], resolveSecurity({ mode: 'none', iUnderstand: true }), 'g')).toThrow(
    /pigeon/,
  );
});

test.each([
  ['psk', { bun: '1.4.0' }, /^security of mode 'psk' .* Bun 1\.4\.0 .*mode: 'mtls'/],
  ['psk', { electron: '40.0.0' }, /Electron 40\.0\.0 .*mode: 'mtls'/],
  ['psk', { deno: '2.8.0' }, /^security of mode 'psk' .* Deno 2\.8\.0 .*Bun with certificates/],
  ['mtls', { deno: '2.8.0' }, /^security of mode 'mtls' .* Deno 2\.8\.0 .*mode: 'hmac'/],
  ['mtls', { bun: '1.4.0' }, undefined],
  ['psk', {}, undefined],
] as const)('%s on a runtime with versions %o', (mode, others, why) => {
  const refuse = (): void => refuseWhere(mode, { node: '26.3.0', ...others });
  if (why === undefined) refuse();
  else expect(refuse).toThrow(expect.objectContaining({ code: 'failed-precondition', message: expect.stringMatching(why) as string })); // prettier-ignore
});
