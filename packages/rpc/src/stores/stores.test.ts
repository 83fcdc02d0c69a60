/** @file What every store promises, tried on each of them. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts, isInstalled, STORE_PROGRAMS, storeFlags, type StoreProgram } from '@backwire/testing';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { resolveSecurity } from '../security/policy.ts';
import { findKeys, type Keys } from '../security/secret.ts';
import { tlsTransport } from '../transports/tls.ts';
import { embeddedStore } from './embedded.ts';
import { shareStore } from './shared-store.ts';
import { serveStore } from './embedded-server.ts';
import { etcdStore } from './etcd.ts';
import { fileStore } from './file.ts';
import { memoryStore } from './memory.ts';
import { openStore } from './open.ts';
import { prefixStore } from './prefix.ts';
import { redisStore } from './redis.ts';
import type { Lease, Store, StoreEvent } from './store.ts';

/** Opens one more handle on the same contents. */
type Open = () => Promise<Store>;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Servers that some stores need; where a program is missing, its store is not tried, and the name of the suite says so. */
const servers = new Map<StoreProgram, Promise<string>>();
afterAll(() => {
  for (const stop of stops.splice(0)) stop();
});
const stops: (() => void)[] = [];

/** Starts the server once for this file; resolves with its endpoint. */
function start(name: StoreProgram): Promise<string> {
  let starting = servers.get(name);
  if (starting === undefined) servers.set(name, (starting = launch(name)));
  return starting;
}

async function launch(name: StoreProgram): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'backwire-test-'));
  const [port, peerPort] = (await freePorts(2)) as [number, number];
  const child = spawn(STORE_PROGRAMS[name], storeFlags(name, directory, port, peerPort), { stdio: 'ignore' });
  stops.push(() => {
    child.kill('SIGKILL');
    rmSync(directory, { recursive: true, force: true });
  });
  return `127.0.0.1:${port}`;
}

const kinds: [string, () => Promise<Open>, StoreProgram?][] = [
  [
    'memory',
    async () => {
      const name = randomUUID();
      return async () => memoryStore(name);
    },
  ],
  [
    'prefix',
    async () => {
      const name = randomUUID();
      return async () => prefixStore(memoryStore(name), 'group/', { owned: true });
    },
  ],
  [
    'embedded',
    async () => {
      const server = await serveStore({ security: resolveSecurity({ mode: 'none', iUnderstand: true }) });
      cleanups.push(() => server.close());
      return () => embeddedStore({ endpoint: server.endpoint });
    },
  ],
  [
    'embedded with a secret',
    async () => {
      const secret = 'sixteen bytes and more';
      const keys = findKeys({ secret });
      const server = await serveStore({ secret });
      cleanups.push(() => server.close());
      return () => embeddedStore({ endpoint: server.endpoint, keys });
    },
  ],
  [
    'embedded, on one connection for all',
    async () => {
      const server = await serveStore({ security: resolveSecurity({ mode: 'none', iUnderstand: true }) });
      cleanups.push(() => server.close());
      const { endpoint } = server;
      return () => shareStore(endpoint, {}, () => embeddedStore({ endpoint }));
    },
  ],
  [
    'embedded over TLS',
    async () => {
      const keys = findKeys({ secret: 'sixteen bytes and more' }) as Keys;
      const transport = tlsTransport({ mode: 'psk', group: 'store', keys });
      const server = await serveStore({ secret: 'sixteen bytes and more', transport });
      cleanups.push(() => server.close());
      return () => embeddedStore({ endpoint: server.endpoint, transport });
    },
  ],
  [
    'file',
    async () => {
      const directory = mkdtempSync(join(tmpdir(), 'backwire-test-'));
      cleanups.push(() => rmSync(directory, { recursive: true, force: true }));
      return () => fileStore(directory);
    },
  ],
  [
    'etcd',
    async () => {
      const endpoint = await start('etcd');
      const prefix = `${randomUUID()}/`;
      return () => etcdStore({ endpoints: [`http://${endpoint}`], prefix, timeoutMs: 20_000 });
    },
    'etcd',
  ],
  [
    'redis',
    async () => {
      const endpoint = await start('redis');
      const prefix = randomUUID();
      return () => redisStore({ url: `redis://${endpoint}`, prefix, timeoutMs: 20_000 });
    },
    'redis',
  ],
];

const text = (value: Uint8Array | undefined): string | undefined =>
  value === undefined ? undefined : Buffer.from(value).toString();
const bytes = (value: string): Uint8Array => Buffer.from(value);

/** The next `count` events as text. */
async function take(events: AsyncIterable<StoreEvent>, count: number): Promise<string[]> {
  const seen: string[] = [];
  for await (const event of events) {
    seen.push(event.type === 'put' ? `put ${event.key}=${text(event.value)}` : `${event.type} ${event.key}`);
    if (seen.length === count) break;
  }
  return seen;
}

for (const [name, prepare, needs] of kinds) suite(name, prepare, needs);

function suite(name: string, prepare: () => Promise<Open>, needs: StoreProgram | undefined): void {
  const skip = needs !== undefined && !isInstalled(needs);
  describe.skipIf(skip)(skip ? `${name} (skipped: no ${needs} on this machine)` : name, () => promises(prepare));
}

function promises(prepare: () => Promise<Open>): void {
  async function open(): Promise<{ a: Store; b: Store; more: Open }> {
    const more = await prepare();
    const tracked = async (): Promise<Store> => {
      const store = await more();
      cleanups.push(() => store.close());
      return store;
    };
    return { a: await tracked(), b: await tracked(), more: tracked };
  }

  test('what one sets the other gets, whatever the bytes', async () => {
    const { a, b } = await open();
    expect(await b.get('k')).toBeUndefined();
    await a.set('k', bytes('v1'));
    expect(text(await b.get('k'))).toBe('v1');
    await b.set('k', new Uint8Array(0));
    expect((await a.get('k'))?.byteLength).toBe(0);
    const all = Uint8Array.from({ length: 70_000 }, (_unused, i) => i * 7);
    await a.set('schlüssel/🔑/__proto__', all);
    expect(new Uint8Array((await b.get('schlüssel/🔑/__proto__')) as Uint8Array)).toEqual(all);
    expect(await b.get('__proto__')).toBeUndefined();
  });

  test('values are copies', async () => {
    const { a } = await open();
    const value = bytes('same');
    const setting = a.set('k', value);
    value.fill(0);
    await setting;
    const got = (await a.get('k')) as Uint8Array;
    expect(text(got)).toBe('same');
    got.fill(0);
    expect(text(await a.get('k'))).toBe('same');
  });

  test('add counts from nothing, down too, and fails on text', async () => {
    const { a, b } = await open();
    expect(await a.add('n', 3n)).toBe(3n);
    expect(await b.add('n', -5n)).toBe(-2n);
    expect(text(await a.get('n'))).toBe('-2');
    const many = await Promise.all(Array.from({ length: 40 }, (_unused, i) => (i % 2 === 0 ? a : b).add('many', 1n)));
    expect(many.map(Number).sort((x, y) => x - y)).toEqual(Array.from({ length: 40 }, (_unused, i) => i + 1));
    expect(await a.add('big', 2n ** 60n)).toBe(2n ** 60n);
    for (const word of ['one', '', '+5', ' 5', '-', '0'.repeat(20)]) {
      await a.set('word', bytes(word));
      await expect(a.add('word', 1n), word).rejects.toMatchObject({
        code: 'failed-precondition',
        message: expect.stringMatching(/^the value of '.*word' is not a number/) as string,
      });
      expect(text(await a.get('word'))).toBe(word);
    }
  });

  test('a counter may begin with zeros, and with a sign where it is zero', async () => {
    const { a, b } = await open();
    for (const [number, sum] of Object.entries({ '05': 6n, '-0': 1n, '000': 1n, '-0010': -9n, '1': 2n })) {
      await a.set('n', bytes(number));
      expect(await b.add('n', 1n), number).toBe(sum);
      expect(text(await a.get('n'))).toBe(`${sum}`);
    }
  });

  test('compareAndSet: one of many wins', async () => {
    const { a, b } = await open();
    expect(await a.compareAndSet('c', bytes('x'), bytes('y'))).toMatchObject({ ok: false, current: undefined });
    const tries = await Promise.all(
      Array.from({ length: 16 }, (_unused, i) => (i % 2 === 0 ? a : b).compareAndSet('c', null, bytes(`${i}`))),
    );
    expect(tries.filter((one) => one.ok)).toHaveLength(1);
    const won = tries.findIndex((one) => one.ok);
    for (const one of tries) expect(text(one.current)).toBe(`${won}`);
    expect((await b.compareAndSet('c', bytes('wrong'), bytes('z'))).ok).toBe(false);
    const done = await b.compareAndSet('c', bytes(`${won}`), bytes('z'));
    expect([done.ok, text(done.current), text(await a.get('c'))]).toEqual([true, 'z', 'z']);
    await a.set('empty', new Uint8Array(0));
    expect((await a.compareAndSet('empty', null, bytes('z'))).ok).toBe(false);
    expect((await a.compareAndSet('empty', new Uint8Array(0), bytes('z'))).ok).toBe(true);
  });

  test('compareAndSet asks for the value, whoever wrote it and how often', async () => {
    const { a, b } = await open();
    await a.set('k', bytes('x'));
    expect(text(await a.get('k'))).toBe('x');
    await b.set('k', bytes('y'));
    await b.set('k', bytes('x'));
    expect(await a.compareAndSet('k', bytes('x'), bytes('z'))).toMatchObject({ ok: true });
    await b.set('k', bytes('y'));
    const lost = await a.compareAndSet('k', bytes('z'), bytes('w'));
    expect([lost.ok, text(lost.current)]).toEqual([false, 'y']);
    await b.delete('k');
    expect(await a.compareAndSet('k', bytes('y'), bytes('w'))).toMatchObject({ ok: false, current: undefined });
    expect((await a.compareAndSet('k', null, bytes('v'))).ok).toBe(true);
    expect((await a.compareAndSet('k', bytes('v'), bytes('u'))).ok).toBe(true);
    expect(text(await b.get('k'))).toBe('u');
  });

  test('delete and list', async () => {
    const { a, b } = await open();
    await Promise.all(['p/b', 'p/a', 'q/c', 'p'].map((key) => a.set(key, bytes(key))));
    const found = await b.list('p/');
    expect([...found].map(([key, value]) => `${key}=${text(value)}`).sort()).toEqual(['p/a=p/a', 'p/b=p/b']);
    expect(await b.delete('p/a')).toBe(true);
    expect(await b.delete('p/a')).toBe(false);
    expect([...(await a.list('p/')).keys()]).toEqual(['p/b']);
    expect((await a.list('')).size).toBe(3);
    expect((await a.list('none')).size).toBe(0);
  });

  test('wait ends once every key is there', async () => {
    const { a, b } = await open();
    await a.wait([], { timeoutMs: 1000 });
    await a.set('w1', bytes(''));
    await b.wait(['w1'], { timeoutMs: 1000 });
    let done = false;
    const waiting = b.wait(['w1', 'w2', 'w3'], { timeoutMs: 20_000 }).then(() => (done = true));
    await a.set('w3', bytes(''));
    await a.get('w3');
    expect(done).toBe(false);
    await a.add('w2', 1n);
    await waiting;
  });

  test('wait says what is missing, can be cancelled, and ends when the store closes', async () => {
    const { a, b } = await open();
    await a.set('here', bytes(''));
    const late = b.wait(['here', 'not-here'], { timeoutMs: 60 });
    await expect(late).rejects.toMatchObject({
      code: 'deadline-exceeded',
      message: expect.stringMatching(/not-here' not in the store after 60 ms/) as string,
    });
    const reason = new Error('enough');
    const controller = new AbortController();
    const cancelled = b.wait(['not-here'], { timeoutMs: 0, signal: controller.signal });
    controller.abort(reason);
    await expect(cancelled).rejects.toMatchObject({ code: 'cancelled', cause: reason });
    await expect(b.wait(['x'], { timeoutMs: 0, signal: controller.signal })).rejects.toMatchObject({
      code: 'cancelled',
    });
    const closing = b.wait(['not-here'], { timeoutMs: 0 });
    const closed = expect(closing).rejects.toMatchObject({ code: 'failed-precondition' });
    await b.close();
    await closed;
    // The other handle is as it was, and the connection of the cancelled wait still works.
    await a.set('not-here', bytes('now'));
    await a.wait(['not-here'], { timeoutMs: 1000 });
  });

  test('watch tells changes in order, from the call on', async () => {
    const { a, b } = await open();
    await a.set('w/before', bytes('0'));
    const seen = take(b.watch('w/'), 5);
    // A watch that has to reach a server counts from its turn among the requests of its store.
    await b.get('w/before');
    await a.set('w/x', bytes('1'));
    await a.set('other', bytes('no'));
    await a.set('w/x', bytes('2'));
    await a.delete('w/x');
    await a.delete('w/none');
    await a.add('w/n', 4n);
    await a.compareAndSet('w/n', bytes('4'), bytes('5'));
    expect(await seen).toEqual(['put w/x=1', 'put w/x=2', 'delete w/x', 'put w/n=4', 'put w/n=5']);
  });

  test('one that follows what another follows already is told of what happens from then on, and of its own keys', async () => {
    const { a, b } = await open();
    const first = a.watch('f/')[Symbol.asyncIterator]();
    const singles = Array.from({ length: 6 }, (_unused, i) => take(a.watch(`f/${i}`), 2));
    for (let i = 0; i < 20; i++) {
      await a.set('f/all', bytes(`${i}`));
      const later = take(a.watch('f/'), 1);
      await a.get('f/all');
      await b.set('f/end', bytes(`${i}`));
      expect(await later).toEqual([`put f/end=${i}`]);
    }
    for (let i = 0; i < 6; i++) {
      await b.set(`f/${i}`, bytes('v'));
      await b.delete(`f/${i}`);
    }
    expect(await Promise.all(singles)).toEqual([0, 1, 2, 3, 4, 5].map((i) => [`put f/${i}=v`, `delete f/${i}`]));
    expect((await first.next()).value).toMatchObject({ type: 'put', key: 'f/all' });
    await first.return?.();
  });

  test('a watch ends with its signal, by leaving the loop, and with the store', async () => {
    const { a, b } = await open();
    const controller = new AbortController();
    const bySignal = take(a.watch('', { signal: controller.signal }), 99);
    const byClose = take(b.watch(''), 99);
    const left = a.watch('')[Symbol.asyncIterator]();
    await left.return?.();
    expect(await left.next()).toMatchObject({ done: true });
    controller.abort();
    expect(await bySignal).toEqual([]);
    await b.close();
    expect(await byClose).toEqual([]);
    expect(await take(a.watch('', { signal: controller.signal }), 1)).toEqual([]);
  });

  test('revoking a lease deletes its keys; a lease of one key can be replaced by none', async () => {
    const { a, b } = await open();
    const lease = await a.lease(5_000);
    await a.set('l/1', bytes('x'), { lease });
    expect((await a.compareAndSet('l/2', null, bytes('y'), { lease })).ok).toBe(true);
    await a.set('l/3', bytes('z'), { lease });
    await a.set('l/3', bytes('kept'));
    expect([...(await b.list('l/')).keys()].sort()).toEqual(['l/1', 'l/2', 'l/3']);
    const seen = take(b.watch('l/'), 2);
    await b.get('l/1');
    await lease.revoke();
    await lease.revoke();
    expect((await seen).sort()).toEqual(['delete l/1', 'delete l/2']);
    expect([...(await b.list('l/')).keys()]).toEqual(['l/3']);
    await expect(a.set('l/4', bytes(''), { lease })).rejects.toMatchObject({ code: 'failed-precondition' });
  });

  test('a lease outlives its time to live while its store is open, and ends when the store closes', async () => {
    const { a, b } = await open();
    const lease: Lease = await a.lease(300);
    await a.set('alive', bytes('1'), { lease });
    let lost: Error | undefined;
    void lease.lost.then((error) => (lost = error));
    await new Promise((resolve) => setTimeout(resolve, 900));
    expect(lost).toBeUndefined();
    expect(text(await b.get('alive'))).toBe('1');
    const gone = take(b.watch('alive'), 1);
    await b.get('alive');
    await a.close();
    expect(await gone).toEqual(['delete alive']);
    expect(await lease.lost).toBeInstanceOf(Error);
    await lease.revoke();
  });

  test('a lease of another store is refused', async () => {
    const { a, b } = await open();
    const lease = await b.lease(5_000);
    await expect(a.set('k', bytes(''), { lease })).rejects.toMatchObject({ code: 'invalid-argument' });
  });

  test('after close everything fails, and close may be repeated', async () => {
    const { a, b } = await open();
    await a.close();
    await a.close();
    await expect(a.get('k')).rejects.toMatchObject({ code: 'failed-precondition' });
    await expect(a.set('k', bytes(''))).rejects.toMatchObject({ code: 'failed-precondition' });
    await expect(a.lease(1000)).rejects.toMatchObject({ code: 'failed-precondition' });
    await b.set('k', bytes('fine'));
  });

  test('what is no key, value, number or time is refused, and leaves no trace', async () => {
    const { a, b } = await open();
    const wrong = <T>(value: unknown): T => value as T;
    const refused: (() => Promise<unknown>)[] = [
      ...[5, undefined, null, '\ud800', 'a\udc00b'].flatMap((key) => [
        () => a.set(wrong(key), bytes('x')),
        () => a.get(wrong(key)),
        () => a.add(wrong(key), 1n),
        () => a.delete(wrong(key)),
        () => a.list(wrong(key)),
        () => a.wait([wrong(key)], { timeoutMs: 50 }),
        () => a.compareAndSet(wrong(key), null, bytes('x')),
        async () => a.watch(wrong(key)),
      ]),
      ...['text', null, [1, 2], new Float32Array(2), new ArrayBuffer(2)].flatMap((value) => [
        () => a.set('k', wrong(value)),
        () => a.compareAndSet('k', null, wrong(value)),
      ]),
      ...['text', undefined].map((expected) => () => a.compareAndSet('k', wrong(expected), bytes('x'))),
      ...[1, 2n ** 63n, -(2n ** 63n) - 1n].map((delta) => () => a.add('k', wrong(delta))),
      ...['1000', Number.NaN, 1].map((ttl) => () => a.lease(wrong(ttl))),
      ...[Number.NaN, -1].map((timeoutMs) => () => a.wait(['k'], { timeoutMs })),
      () => a.wait(wrong('k'), { timeoutMs: 50 }),
      () => a.wait(['k'], wrong(undefined)),
    ];
    for (const each of refused) await expect(each()).rejects.toMatchObject({ code: 'invalid-argument' });
    expect((await b.list('')).size).toBe(0);
  });

  test('a sum past 64 bits fails and changes nothing; a time past what timers can is no limit', async () => {
    const { a } = await open();
    const most = 2n ** 63n - 1n;
    expect(await a.add('n', most)).toBe(most);
    for (const number of [`${most}`, '05']) {
      await a.set('n', bytes(number));
      await expect(a.add('n', most)).rejects.toMatchObject({
        code: 'failed-precondition',
        message: expect.stringMatching(`^the sum of '.*n' and ${most} is no signed 64-bit number`) as string,
      });
      expect(text(await a.get('n'))).toBe(number);
    }
    const waiting = a.wait(['late'], { timeoutMs: 1e12 });
    await a.set('late', bytes(''));
    await waiting;
  });

  test('keys and values past the limits are refused', async () => {
    const { a } = await open();
    await expect(a.set('k'.repeat(9_000), bytes(''))).rejects.toMatchObject({ code: 'invalid-argument' });
    await expect(a.set('k', new Uint8Array(9 * 1024 * 1024))).rejects.toMatchObject({ code: 'invalid-argument' });
    await expect(a.lease(1)).rejects.toMatchObject({ code: 'invalid-argument' });
    await a.set('k', bytes('still works'));
  });
}

test('openStore: addresses, objects, groups', async () => {
  const name = randomUUID();
  const one = await openStore(`memory://${name}`, { group: 'g' });
  const two = await openStore(`memory://${name}`);
  await one.store.set('k', bytes('v'));
  expect(text(await two.store.get('g/k'))).toBe('v');
  const three = await openStore(two.store, { group: 'g' });
  expect([one.owned, two.owned, three.owned]).toEqual([true, true, false]);
  await three.store.close();
  expect(text(await two.store.get('g/k'))).toBe('v');
  await one.store.close();
  await two.store.close();
  await expect(openStore('ftp://x')).rejects.toMatchObject({ code: 'invalid-argument' });
  await expect(openStore('memory://x', { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'cancelled' });
});

test('a watcher that falls behind is told to list again', async () => {
  const store = memoryStore();
  const events = store.watch('');
  for (let i = 0; i < 5_000; i++) await store.add('n', 1n);
  const seen = await take(events, 2);
  expect(seen[0]).toBe('resync ');
  await store.close();
});
