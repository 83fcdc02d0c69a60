/** @file Leases of processes that compute, stop and die, against a store in another process. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { storeFlags } from '@backwire/testing';
import { afterEach, expect, test } from 'vitest';
import { findKeys, type Keys } from '../security/secret.ts';
import { embeddedStore } from '../stores/embedded.ts';
import { serveStore } from '../stores/embedded-server.ts';
import { memoryStore } from '../stores/memory.ts';
import { openStore } from '../stores/open.ts';
import { prefixStore } from '../stores/prefix.ts';
import { tlsTransport } from '../transports/tls.ts';
import { readAge } from './keep-alive.ts';
import { keepAlive } from './thread.ts';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const secret = 'sixteen bytes and more';
const keys = findKeys({ secret });

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Runs a program of this package in a process of its own; `line` is the first line it prints. */
async function run(program: string): Promise<{ child: ChildProcess; line: string }> {
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', '--conditions=@backwire/source', '--input-type=module', '-e', program],
    {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  cleanups.push(() => child.kill('SIGKILL'));
  const line = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', resolve);
    child.once('exit', (code) => reject(new Error(`the program ended with ${code}`)));
  });
  return { child, line };
}

const source = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href);

async function serve(): Promise<string> {
  const { line } = await run(`
    const { serveStore } = await import(${source('../stores/embedded-server.ts')});
    console.log((await serveStore({ secret: ${JSON.stringify(secret)} })).endpoint);`);
  return line;
}

function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** A process that holds a lease of `ttlMs` with the key 'member/x' and tells its pid. */
const member = (endpoint: string, ttlMs: number): Promise<{ child: ChildProcess }> =>
  run(`
    const { embeddedStore } = await import(${source('../stores/embedded.ts')});
    const { keepAlive } = await import(${source('./thread.ts')});
    const { findKeys } = await import(${source('../security/secret.ts')});
    const store = await embeddedStore({ endpoint: ${JSON.stringify(endpoint)}, keys: findKeys({ secret: ${JSON.stringify(secret)} }) });
    const lease = await store.lease(${ttlMs});
    await keepAlive(store, lease, { ageKey: 'age/x' }).started;
    await store.set('member/x', Buffer.from('1'), { lease });
    console.log(process.pid);`);

test('a main loop that is stuck for longer than its lease keeps it, and others can read how long', async () => {
  const endpoint = await serve();
  const inner = await embeddedStore({ endpoint, keys });
  const store = prefixStore(inner, 'group/', { owned: true });
  cleanups.push(() => store.close());
  const lease = await store.lease(600);
  const alive = keepAlive(store, lease, { ageKey: 'age/me' });
  cleanups.push(() => alive.stop());
  expect(alive.kind).toBe('thread');
  await alive.started;
  expect(await readAge(store, 'age/me')).toBeLessThan(5_000);
  const controller = new AbortController();
  const ages: number[] = [];
  const reading = (async () => {
    for await (const event of store.watch('age/', { signal: controller.signal })) {
      expect(event).toMatchObject({ type: 'put', key: 'age/me' });
      ages.push(Number(Buffer.from(event.value ?? []).toString()));
    }
  })();
  await store.get('x');
  block(2_500);
  await new Promise((resolve) => setTimeout(resolve, 300));
  controller.abort();
  await reading;
  expect(Math.max(...ages)).toBeGreaterThan(1_500);
  expect(await readAge(store, 'age/me')).toBeDefined();
  await alive.stop();
  await alive.stop();
  await lease.revoke();
  expect(await readAge(store, 'age/me')).toBeUndefined();
});

/** Stores whose servers are programs of this machine, where they are installed. */
const others: [
  string,
  string | undefined,
  (directory: string, port: number, peer: number) => { address: string; args: string[] },
][] = [
  ['file', undefined, (directory) => ({ address: `file://${directory}`, args: [] })],
  [
    'redis',
    'redis-server',
    (directory, port) => ({
      address: `redis://:pass%20word@127.0.0.1:${port}/3`,
      args: [...storeFlags('redis', directory, port, 0), '--requirepass', 'pass word'],
    }),
  ],
  [
    'etcd',
    'etcd',
    (directory, port, peer) => ({
      address: `etcd://127.0.0.1:${port}`,
      args: storeFlags('etcd', directory, port, peer),
    }),
  ],
];

for (const [name, program, describeServer] of others) {
  const missing = program !== undefined && spawnSync('which', [program]).status !== 0;
  test.skipIf(missing)(
    `a stuck main loop keeps its lease in ${name}${missing ? ` (skipped: no ${program})` : ''}`,
    { timeout: 60_000 },
    async () => {
      const directory = mkdtempSync(join(tmpdir(), 'backwire-test-'));
      cleanups.push(() => rmSync(directory, { recursive: true, force: true }));
      const { address, args } = describeServer(directory, await freePort(), await freePort());
      if (program !== undefined) {
        const server = spawn(program, args, { stdio: 'ignore' });
        cleanups.push(() => server.kill('SIGKILL'));
      }
      const { store } = await openStore(address, { group: 'g', timeoutMs: 30_000 });
      cleanups.push(() => store.close());
      // Somebody else has to judge: what holds the lease cannot see itself late.
      const { child: judge, line } = await run(`
      const { openStore } = await import(${source('../stores/open.ts')});
      const { store } = await openStore(${JSON.stringify(address)}, { group: 'g' });
      void (async () => { for await (const event of store.watch('')) process.stderr.write(''); })();
      console.log('ready');`);
      expect(line).toBe('ready');
      // etcd rounds up to its own minimum of about two seconds.
      const lease = await store.lease(1_000);
      const alive = keepAlive(store, lease, { ageKey: 'age/me' });
      cleanups.push(() => alive.stop());
      await alive.started;
      expect(alive.kind).toBe('thread');
      block(5_000);
      expect(await readAge(store, 'age/me')).toBeDefined();
      let lost = false;
      void lease.lost.then(() => (lost = true));
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(lost).toBe(false);
      judge.kill('SIGKILL');
    },
  );
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test('the thread gets through TLS as well', async () => {
  const proof = { mode: 'psk', group: 'store', keys: keys as Keys } as const;
  const server = await serveStore({ secret, transport: tlsTransport(proof) });
  const store = await embeddedStore({ endpoint: server.endpoint, transport: tlsTransport(proof) });
  cleanups.push(
    () => server.close(),
    () => store.close(),
  );
  const alive = keepAlive(store, await store.lease(60_000), { ageKey: 'age/me' });
  cleanups.push(() => alive.stop());
  await alive.started;
  expect([alive.kind, server.clients]).toEqual(['thread', 2]);
  expect(await readAge(store, 'age/me')).toBeDefined();
});

test('all leases of a process are held by one thread over one connection, until the last is let go', async () => {
  const server = await serveStore({ secret });
  cleanups.push(() => server.close());
  const stores = await Promise.all([1, 2, 3].map(() => embeddedStore({ endpoint: server.endpoint, keys })));
  cleanups.push(() => Promise.all(stores.map((store) => store.close())));
  const held = await Promise.all(
    stores.map(async (store, i) => {
      const lease = await store.lease(60_000);
      const alive = keepAlive(store, lease, { ageKey: `age/${i}` });
      await alive.started;
      return { store, lease, alive };
    }),
  );
  expect(server.clients).toBe(4);
  const [first, second, third] = held as [(typeof held)[0], (typeof held)[0], (typeof held)[0]];
  for (const [i, { store }] of held.entries()) expect(await readAge(store, `age/${i}`)).toBeDefined();
  // What ends one ends no other.
  await first.alive.stop();
  await first.lease.revoke();
  await second.lease.revoke();
  expect(
    (await Promise.all(held.map(({ store }, i) => readAge(store, `age/${i}`)))).map((age) => age !== undefined),
  ).toEqual([false, false, true]);
  expect(server.clients).toBe(4);
  await second.alive.stop();
  await third.alive.stop();
  await expect.poll(() => server.clients).toBe(3);
  // Another thread is started for the next.
  const again = keepAlive(first.store, await first.store.lease(60_000), { ageKey: 'age/again' });
  cleanups.push(() => again.stop());
  await again.started;
  expect([again.kind, await readAge(first.store, 'age/again')]).toEqual(['thread', expect.any(Number)]);
});

test('without the thread the same program loses its lease', async () => {
  const endpoint = await serve();
  const store = await embeddedStore({ endpoint, keys });
  cleanups.push(() => store.close());
  const lease = await store.lease(600);
  const alive = keepAlive(store, lease, { ageKey: 'age/me', thread: false });
  expect(alive.kind).toBe('loop');
  await alive.started;
  block(2_500);
  expect((await lease.lost).message).toMatch(/lease/);
  expect(await readAge(store, 'age/me')).toBeUndefined();
});

test('a killed process loses its lease in about a second, far less than its time to live', async () => {
  const endpoint = await serve();
  const { child } = await member(endpoint, 60_000);
  const store = await embeddedStore({ endpoint, keys });
  cleanups.push(() => store.close());
  const gone = store.watch('member/')[Symbol.asyncIterator]();
  expect(await store.get('member/x')).toBeDefined();
  const killed = performance.now();
  child.kill('SIGKILL');
  expect((await gone.next()).value).toMatchObject({ type: 'delete', key: 'member/x' });
  const took = performance.now() - killed;
  expect(took).toBeGreaterThan(500);
  expect(took).toBeLessThan(20_000);
});

test('a server that stood still for longer than every lease ends none of them', async () => {
  const { child, line } = await run(`
    const { serveStore } = await import(${source('../stores/embedded-server.ts')});
    console.log((await serveStore({ secret: ${JSON.stringify(secret)} })).endpoint);`);
  const store = await embeddedStore({ endpoint: line, keys });
  cleanups.push(() => store.close());
  const lease = await store.lease(900);
  await store.set('member/x', Buffer.from('1'), { lease });
  let lost = false;
  void lease.lost.then(() => (lost = true));
  child.kill('SIGSTOP');
  await new Promise((resolve) => setTimeout(resolve, 3_500));
  child.kill('SIGCONT');
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(await store.get('member/x')).toBeDefined();
  expect(lost).toBe(false);
});

test('a stopped process loses its lease when it is not renewed', async () => {
  const endpoint = await serve();
  const { child } = await member(endpoint, 1_500);
  const store = await embeddedStore({ endpoint, keys });
  cleanups.push(() => store.close());
  const gone = store.watch('member/')[Symbol.asyncIterator]();
  expect(await store.get('member/x')).toBeDefined();
  child.kill('SIGSTOP');
  expect((await gone.next()).value).toMatchObject({ type: 'delete', key: 'member/x' });
  child.kill('SIGCONT');
});

test('a store inside the process needs no thread', async () => {
  const store = memoryStore();
  const lease = await store.lease(1_000);
  const alive = keepAlive(store, lease, { ageKey: 'age/me' });
  await alive.started;
  expect([alive.kind, await readAge(store, 'age/me')]).toEqual(['loop', 0]);
  await alive.stop();
  await store.close();
});
