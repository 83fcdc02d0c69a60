/** @file Holding a lease from a ticket alone: what each store says of it, over connections that break. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer as createHttp } from 'node:http';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { findKeys } from '../security/secret.ts';
import { embeddedStore } from '../stores/embedded.ts';
import { serveStore } from '../stores/embedded-server.ts';
import type { EmbeddedTicket, HolderEvents, LeaseHolder, LeaseTicket } from '../stores/ticket.ts';
import { Certificates, hasOpenssl } from '../../test/certificates.ts';
import { tlsTransport, type TlsProof } from '../transports/tls.ts';
import { readAge } from './keep-alive.ts';
import { SharedLinks } from './embedded-holder.ts';
import { holderOf } from './lease-holder.ts';

const secret = 'sixteen bytes and more';
const keys = findKeys({ secret });

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function hold(ticket: LeaseTicket): {
  holder: LeaseHolder;
  events: { [K in keyof HolderEvents]: ReturnType<typeof vi.fn> };
} {
  const events = { again: vi.fn(), lost: vi.fn() };
  const holder = holderOf(ticket, events, new SharedLinks());
  cleanups.push(() => holder.close());
  return { holder, events };
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => new Promise((resolve) => server.close(resolve)));
  return (server.address() as AddressInfo).port;
}

/** Passes on what comes to another port, and counts the connections; `cut` breaks them. */
async function proxyTo(port: number): Promise<{ port: number; connections: () => number; cut: () => void }> {
  let connections = 0;
  const open = new Set<Socket>();
  const server = createServer((near) => {
    connections++;
    const far = connect(port, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from);
      from.on('error', () => undefined).on('close', () => to.destroy());
      from.pipe(to);
    }
  });
  const cut = (): void => {
    for (const socket of open) socket.destroy();
    open.clear();
  };
  const own = await listen(server);
  cleanups.push(cut);
  return { port: own, connections: () => connections, cut };
}

async function embedded(): Promise<{
  store: Awaited<ReturnType<typeof embeddedStore>>;
  lease: { revoke(): Promise<void> };
  ticket: EmbeddedTicket;
  connections: () => number;
  cut: () => void;
}> {
  const server = await serveStore({ secret });
  const store = await embeddedStore({ endpoint: server.endpoint, keys });
  cleanups.push(
    () => server.close(),
    () => store.close(),
  );
  const lease = await store.lease(60_000);
  const { port, connections, cut } = await proxyTo(Number(new URL(server.endpoint).port));
  const ticket = store.ticket(lease, 'age') as EmbeddedTicket;
  return { store, lease, ticket: { ...ticket, endpoint: `tcp://127.0.0.1:${port}` }, connections, cut };
}

test('an embedded store is told the age, also over a connection made anew, and says when the lease is gone', async () => {
  const { store, lease, ticket, cut } = await embedded();
  const { holder, events } = hold(ticket);
  expect(await holder.hold(17)).toBe(true);
  expect(await readAge(store, 'age')).toBe(17);
  expect(events.again).not.toHaveBeenCalled();
  cut();
  await vi.waitFor(() => expect(events.again).toHaveBeenCalledTimes(1), { timeout: 20_000 });
  expect(await holder.hold(4_321)).toBe(true);
  expect(await readAge(store, 'age')).toBe(4_321);
  await lease.revoke();
  expect(await holder.hold(0)).toBe(false);
  expect(await readAge(store, 'age')).toBeUndefined();
});

test('an embedded store is not told anything by one that does not hold its secret', async () => {
  const { store, ticket, connections } = await embedded();
  const { holder, events } = hold({ ...ticket, keys: findKeys({ secret: 'another secret of many bytes' }) });
  const holding = expect(holder.hold(17)).rejects.toMatchObject({ code: 'failed-precondition' });
  await vi.waitFor(() => expect(connections()).toBeGreaterThan(3), { timeout: 20_000 });
  holder.close();
  await holding;
  expect(await readAge(store, 'age')).toBeUndefined();
  expect(events.lost).not.toHaveBeenCalled();
});

test.skipIf(!hasOpenssl)('an embedded store under TLS with certificates is told the age', async () => {
  const certificates = new Certificates().make('w0');
  cleanups.push(() => certificates.remove());
  const proof: TlsProof = certificates.security('w0');
  const server = await serveStore({ secret, transport: tlsTransport(proof) });
  const store = await embeddedStore({ endpoint: server.endpoint, transport: tlsTransport(proof) });
  cleanups.push(
    () => server.close(),
    () => store.close(),
  );
  const ticket = structuredClone(store.ticket(await store.lease(60_000), 'age')) as EmbeddedTicket;
  expect(ticket).toMatchObject({ tls: proof, endpoint: server.endpoint });
  const { holder } = hold(ticket);
  expect(await holder.hold(17)).toBe(true);
  expect(await readAge(store, 'age')).toBe(17);
});

/** A server that answers each command of a client with what `answer` says, byte by byte. */
async function redisThat(answer: (command: readonly string[]) => string): Promise<{ url: string; cut: () => void }> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    let unread = '';
    socket.setNoDelay(true);
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      unread += bytes.toString('latin1');
      for (let command = take(); command !== undefined; command = take())
        for (const byte of answer(command)) socket.write(byte, 'latin1');
    });
    const take = (): string[] | undefined => {
      const lines = unread.split('\r\n');
      const count = Number(lines[0]?.slice(1));
      if (unread === '' || lines.length < 2 * count + 2) return undefined;
      const used = lines.slice(0, 2 * count + 1);
      unread = unread.slice(used.join('\r\n').length + 2);
      return used.filter((_, i) => i > 0 && i % 2 === 0);
    };
  });
  const port = await listen(server);
  const cut = (): void => {
    for (const socket of open) socket.destroy();
    open.clear();
  };
  cleanups.push(cut);
  return { url: `redis://some%20one:pass%20word@127.0.0.1:${port}/3`, cut };
}

const ofRedis = (url: string): LeaseTicket => {
  const script = { text: 'return 1', sha: 'e0e1', parameters: ['1', 'values', 'changes'] };
  return { kind: 'redis', ttlMs: 60_000, url, script, id: 'lease', ageKey: 'ä/age' };
};

test('Redis is greeted, told the age on every connection, and says when the lease is gone', async () => {
  const said: string[][] = [];
  let [alive, known] = [true, false];
  const { url, cut } = await redisThat((command) => {
    said.push([...command]);
    if (command[0] === 'EVAL') known = true;
    else if (command[0] !== 'EVALSHA') return '+OK\r\n';
    if (!known) return '-NOSCRIPT No matching script.\r\n';
    return alive ? '*1\r\n:1\r\n' : '*1\r\n:0\r\n';
  });
  const { holder, events } = hold(ofRedis(url));
  await vi.waitFor(() => expect(events.again).toHaveBeenCalledTimes(1), { timeout: 20_000 });
  expect(await holder.hold(17)).toBe(true);
  const age = Buffer.from('ä/age').toString('latin1');
  const held = ['1', 'values', 'changes', 'hold', 'lease', age, '17'];
  expect(said).toEqual([
    ['AUTH', 'some one', 'pass word'],
    ['SELECT', '3'],
    ['EVALSHA', 'e0e1', ...held],
    ['EVAL', 'return 1', ...held],
  ]);
  said.length = 0;
  cut();
  await vi.waitFor(() => expect(events.again).toHaveBeenCalledTimes(2), { timeout: 20_000 });
  expect(await holder.hold(18)).toBe(true);
  expect(said.map(([name]) => name)).toEqual(['AUTH', 'SELECT', 'EVALSHA']);
  alive = false;
  expect(await holder.hold(19)).toBe(false);
});

test.each([
  [
    'refuses',
    (command: readonly string[]) =>
      command[0]?.startsWith('EVAL') === true ? '-NOAUTH Authentication required.\r\n' : '-ERR\r\n',
  ],
  ['floods', () => 'x'.repeat(70_000)],
])('a Redis that %s ends no lease', async (_, answer) => {
  const { url } = await redisThat(answer);
  const { holder, events } = hold(ofRedis(url));
  await vi.waitFor(() => expect(events.again).toHaveBeenCalled(), { timeout: 20_000 });
  await expect(holder.hold(17)).rejects.toMatchObject({ code: 'unavailable' });
  expect(events.lost).not.toHaveBeenCalled();
});

test('commands that wait for Redis fail when the connection breaks', async () => {
  const { url, cut } = await redisThat((command) => (command[0]?.startsWith('EVAL') === true ? '' : '+OK\r\n'));
  const { holder, events } = hold(ofRedis(url));
  await vi.waitFor(() => expect(events.again).toHaveBeenCalled(), { timeout: 20_000 });
  const holding = holder.hold(17);
  cut();
  await expect(holding).rejects.toMatchObject({ code: 'unavailable' });
});

test.each<[string, object, boolean | 'unknown']>([
  ['that it lasts', { result: { TTL: '5' } }, true],
  ['that nothing is left', { result: { ID: '7' } }, false],
  ['nothing of it', { error: { message: 'no leader' } }, 'unknown'],
])('etcd says %s', async (_, answer, expected) => {
  const puts: unknown[] = [];
  const server = createHttp((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      if (request.url === '/v3/kv/put') puts.push(JSON.parse(text));
      response.end(JSON.stringify(request.url === '/v3/kv/put' ? {} : answer));
    });
  });
  const endpoint = `http://127.0.0.1:${await listen(server)}`;
  // Nobody is at the first.
  const endpoints = ['http://127.0.0.1:9', endpoint];
  const { holder } = hold({ kind: 'etcd', ttlMs: 5_000, endpoints, id: '7', ageKey: 'YWdl' });
  if (expected === 'unknown') await expect(holder.hold(17)).rejects.toMatchObject({ code: 'unavailable' });
  else expect(await holder.hold(17)).toBe(expected);
  expect(puts).toEqual(expected === true ? [{ key: 'YWdl', value: 'MTc=', lease: '7' }] : []);
});

test('etcd, which writes everything to disk, is told the age of a holder that is busy, and once that it is not', async () => {
  const ages: string[] = [];
  let renewals = 0;
  let refusing = false;
  const server = createHttp((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      const isPut = request.url === '/v3/kv/put';
      if (!isPut) renewals++;
      if (isPut) ages.push(Buffer.from((JSON.parse(text) as { value: string }).value, 'base64').toString());
      if (isPut && refusing) response.statusCode = 503;
      response.end(JSON.stringify(isPut ? {} : { result: { TTL: '5' } }));
    });
  });
  const endpoints = [`http://127.0.0.1:${await listen(server)}`];
  const { holder } = hold({ kind: 'etcd', ttlMs: 5_000, endpoints, id: '7', ageKey: 'YWdl' });
  for (const age of [0, 3, 999, 1_000, 3_000, 5_000, 20, 40]) expect(await holder.hold(age)).toBe(true);
  expect(ages).toEqual(['0', '1000', '3000', '5000', '20']);
  // As often as the ages, and not again before a fourth of its time is over.
  expect(renewals).toBe(5);
  expect(await holder.hold(2_000)).toBe(true);
  refusing = true;
  await expect(holder.hold(1)).rejects.toMatchObject({ code: 'unavailable' });
  refusing = false;
  for (const age of [2, 3]) expect(await holder.hold(age)).toBe(true);
  expect(ages.slice(5)).toEqual(['2000', '1', '2']);
});

test('etcd is told the age of a holder that stays busy as often as its lease is renewed', async () => {
  const ages: number[] = [];
  const server = createHttp((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      if (request.url === '/v3/kv/put')
        ages.push(Number(Buffer.from((JSON.parse(text) as { value: string }).value, 'base64').toString()));
      response.end(JSON.stringify({ result: { TTL: '16' } }));
    });
  });
  const endpoints = [`http://127.0.0.1:${await listen(server)}`];
  const { holder } = hold({ kind: 'etcd', ttlMs: 16_000, endpoints, id: '7', ageKey: 'YWdl' });
  for (let age = 0; age <= 20_000; age += 500) expect(await holder.hold(age)).toBe(true);
  expect(ages).toEqual([0, 1_000, 5_000, 9_000, 13_000, 17_000]);
  // Another time that it is busy, which has only begun.
  for (const age of [1_500, 1_900, 100, 1_200]) await holder.hold(age);
  expect(ages.slice(6)).toEqual([1_500, 100, 1_200]);
});

test('an etcd that is slow is asked by one renewal at a time', async () => {
  let [asked, open] = [0, 0];
  const server = createHttp((request, response) => {
    asked++;
    open++;
    request.resume();
    setTimeout(() => {
      open--;
      response.end(JSON.stringify({ result: { TTL: '5' } }));
    }, 100);
  });
  const endpoints = [`http://127.0.0.1:${await listen(server)}`];
  const { holder } = hold({ kind: 'etcd', ttlMs: 5_000, endpoints, id: '7', ageKey: 'YWdl' });
  let most = 0;
  const held = Array.from({ length: 20 }, () => holder.hold(2_000));
  const looking = setInterval(() => (most = Math.max(most, open)), 5);
  expect(await Promise.all(held)).toEqual(held.map(() => true));
  clearInterval(looking);
  expect([most, asked]).toEqual([1, 2]);
  expect(await holder.hold(3_250)).toBe(true);
  expect(asked).toBe(4);
});

test('a file changes with every beat', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'backwire-holder-'));
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'beat');
  const { holder } = hold({ kind: 'file', ttlMs: 1_000, path });
  expect(existsSync(path)).toBe(false);
  expect(await holder.hold(0)).toBe(true);
  const first = readFileSync(path, 'utf8');
  expect(await holder.hold(0)).toBe(true);
  expect(readFileSync(path, 'utf8')).not.toBe(first);
  rmSync(folder, { recursive: true });
  await expect(holder.hold(0)).rejects.toMatchObject({ code: 'ENOENT' });
});

test('a connection to Redis that does not come about is given up and made again', { timeout: 30_000 }, async () => {
  // It takes connections and never answers: TLS does not begin.
  let connections = 0;
  const open = new Set<Socket>();
  const port = await listen(
    createServer((socket) => {
      connections++;
      open.add(socket.on('error', () => undefined));
    }),
  );
  cleanups.push(() => open.forEach((socket) => socket.destroy()));
  const script = { text: '', sha: '', parameters: [] };
  hold({ kind: 'redis', ttlMs: 60_000, url: `rediss://127.0.0.1:${port}`, script, id: 'lease', ageKey: 'age' });
  await expect.poll(() => connections, { timeout: 20_000 }).toBe(2);
});
