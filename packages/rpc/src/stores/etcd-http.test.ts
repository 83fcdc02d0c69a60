/** @file HTTP for etcd: what is asked at once is bounded, and nobody waits for somebody who has given up. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { RpcError } from '../base/errors.ts';
import { EtcdApi } from './etcd-api.ts';
import { Turns } from './etcd-http.ts';
import { etcdStore } from './etcd.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A server whose answers are given by hand. */
async function slow(): Promise<{ endpoint: string; open: ServerResponse[]; sockets: Set<Socket>; most: () => number }> {
  const open: ServerResponse[] = [];
  const sockets = new Set<Socket>();
  let most = 0;
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      open.push(response);
      most = Math.max(most, open.length);
    });
  });
  server.on('connection', (socket) => sockets.add(socket.on('close', () => sockets.delete(socket))));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(
    () => server.close(),
    () => server.closeAllConnections(),
  );
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, open, sockets, most: () => most };
}

const answer = (response: ServerResponse | undefined): void => void response?.end('{}');
const settled = async (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 50));

test('of a thousand requests 32 are under way, and all of them are answered', async () => {
  const { endpoint, open, sockets, most } = await slow();
  const api = new EtcdApi([endpoint]);
  let done = 0;
  const all = Array.from({ length: 1_000 }, (_, i) => api.call('/v3/kv/put', { key: i }).then(() => done++));
  await expect.poll(() => open.length).toBe(32);
  await settled();
  expect([open.length, done]).toEqual([32, 0]);
  const answering = setInterval(() => open.splice(0).forEach(answer), 1);
  cleanups.push(() => clearInterval(answering));
  await Promise.all(all);
  expect([done, most()]).toEqual([1_000, 32]);
  expect(sockets.size).toBeLessThanOrEqual(32);
});

test('those that wait longer than a request may take are not lost while others are answered', async () => {
  const { endpoint, open } = await slow();
  const api = new EtcdApi([endpoint], { requestMs: 300 });
  const all = Array.from({ length: 128 }, () => api.call('/v3/kv/range', {}));
  // The last ones are answered after more than twice that time.
  const answering = setInterval(() => answer(open.shift()), 8);
  cleanups.push(() => clearInterval(answering));
  expect(await Promise.all(all)).toHaveLength(128);
});

test('a server that answers nothing fails all of them in the time of one', async () => {
  const { endpoint } = await slow();
  const api = new EtcdApi([endpoint], { requestMs: 1_000 });
  const began = performance.now();
  const ended = await Promise.allSettled(Array.from({ length: 200 }, () => api.call('/v3/kv/range', {})));
  expect(ended.map(({ status }) => status)).toEqual(Array(200).fill('rejected'));
  expect(ended.map((one) => (one as PromiseRejectedResult).reason.code as unknown)).toEqual(
    Array(200).fill('unavailable'),
  );
  // Not one after another, which would be seven times as long.
  expect(performance.now() - began).toBeLessThan(5_000);
});

test('one server that answers nothing does not hold up another', async () => {
  const [hung, other] = [await slow(), await slow()];
  const silent = new EtcdApi([hung.endpoint], { requestMs: 2_000 });
  const lost = Promise.allSettled(Array.from({ length: 64 }, () => silent.call('/v3/kv/put', {})));
  await expect.poll(() => hung.open.length).toBe(32);
  const answering = setInterval(() => other.open.splice(0).forEach(answer), 1);
  cleanups.push(() => clearInterval(answering));
  const began = performance.now();
  const prompt = new EtcdApi([other.endpoint]);
  await Promise.all(Array.from({ length: 64 }, () => prompt.call('/v3/kv/put', {})));
  expect(performance.now() - began).toBeLessThan(1_500);
  expect((await lost).map(({ status }) => status)).toEqual(Array(64).fill('rejected'));
});

test('whoever gives up in the line is told that nothing was asked, and nothing is', async () => {
  const turns = new Turns();
  let end = (): void => undefined;
  const ended = new Promise<void>((resolve) => (end = resolve));
  const first = Array.from({ length: 32 }, () => turns.take(new AbortController().signal, () => ended));
  const [waits, was] = [new AbortController(), new AbortController()];
  was.abort();
  let asked = 0;
  const ask = async (): Promise<number> => asked++;
  const given = [turns.take(waits.signal, ask), turns.take(was.signal, ask)];
  const last = turns.take(new AbortController().signal, ask);
  waits.abort();
  for (const one of given) await expect(one).rejects.toMatchObject({ code: 'NOT_ASKED' });
  end();
  await Promise.all(first);
  expect([await last, asked]).toEqual([0, 1]);
  // Its time was over when its turn came.
  await expect(turns.take(was.signal, ask)).rejects.toMatchObject({ code: 'NOT_ASKED' });
  expect(asked).toBe(1);
});

test('whoever gives up waiting leaves the line, and whoever gives up an answer its place in it', async () => {
  const { endpoint, open } = await slow();
  const api = new EtcdApi([endpoint]);
  const giveUp = new AbortController();
  const first = Array.from({ length: 32 }, (_, i) => api.call('/v3/kv/put', {}, i < 16 ? giveUp.signal : undefined));
  const second = Array.from({ length: 8 }, () => api.call('/v3/kv/put', {}, giveUp.signal));
  const third = Array.from({ length: 8 }, () => api.call('/v3/kv/put', {}));
  await expect.poll(() => open.length).toBe(32);
  giveUp.abort();
  for (const one of [...first.slice(0, 16), ...second]) await expect(one).rejects.toMatchObject({ code: 'cancelled' });
  // Eight of the sixteen places are taken by those who are left.
  await expect.poll(() => open.length).toBe(40);
  open.splice(0).forEach(answer);
  await Promise.all([...first.slice(16), ...third]);
  const rest = Array.from({ length: 40 }, () => api.call('/v3/kv/put', {}));
  await expect.poll(() => open.length).toBe(32);
  const answering = setInterval(() => open.splice(0).forEach(answer), 1);
  cleanups.push(() => clearInterval(answering));
  await Promise.all(rest);
});

test('an answer that is no JSON, or broken off, fails as an endpoint that does not answer', async () => {
  const { endpoint, open } = await slow();
  const store = etcdStore({ endpoints: [endpoint], timeoutMs: 5_000 });
  await expect.poll(() => open.length).toBe(1);
  answer(open.shift());
  const opened = await store;
  const [html, half] = [opened.compareAndSet('a', null, new Uint8Array(1)), opened.delete('b')];
  await expect.poll(() => open.length).toBe(2);
  open.shift()?.end('<html>');
  const broken = open.shift();
  broken?.writeHead(200, { 'content-length': '100' }).write('{"deleted":');
  setTimeout(() => broken?.destroy(), 20);
  for (const one of [html, half]) await expect(one).rejects.toMatchObject({ code: 'unavailable', executed: 'maybe' });
  const closing = setInterval(() => open.splice(0).forEach(answer), 1);
  cleanups.push(() => clearInterval(closing));
  await opened.close();
});

test('who answers and is no etcd is said to, within the time to open a store', async () => {
  const { endpoint, open } = await slow();
  const opening = etcdStore({ endpoints: [endpoint], timeoutMs: 300 });
  const answering = setInterval(() => open.splice(0).forEach((one) => one.writeHead(404).end('<html>')), 1);
  cleanups.push(() => clearInterval(answering));
  await expect(opening).rejects.toMatchObject({
    code: 'deadline-exceeded',
    message: expect.stringContaining(
      `etcd at ${endpoint}: it answers what is no object in JSON, with status 404: is that etcd's port for clients?`,
    ) as string,
  });
});

test('an etcd that has too much to do is asked again; one whose disk is full says so at once', async () => {
  const { endpoint, open } = await slow();
  const opening = etcdStore({ endpoints: [endpoint], timeoutMs: 5_000 });
  await expect.poll(() => open.length).toBe(1);
  answer(open.shift());
  const store = await opening;
  const refuse = (message: string): void =>
    void open
      .shift()
      ?.writeHead(429)
      .end(JSON.stringify({ code: 8, message }));
  const set = store.set('k', new Uint8Array(1));
  await expect.poll(() => open.length).toBe(1);
  refuse('etcdserver: too many requests');
  await expect.poll(() => open.length, { timeout: 3_000 }).toBe(1);
  answer(open.shift());
  await set;
  const full = store.set('k', new Uint8Array(1));
  await expect.poll(() => open.length).toBe(1);
  refuse('etcdserver: mvcc: database space exceeded');
  await expect(full).rejects.toMatchObject({ code: 'resource-exhausted' });
  const closing = setInterval(() => open.splice(0).forEach(answer), 1);
  cleanups.push(() => clearInterval(closing));
  await store.close();
});

test('a server that answers nothing is not waited for longer than a store may take to open', async () => {
  const { endpoint } = await slow();
  const began = performance.now();
  await expect(etcdStore({ endpoints: [endpoint], timeoutMs: 300 })).rejects.toMatchObject({
    code: 'deadline-exceeded',
    message: `no store at ${endpoint} in 300 ms: etcd at ${endpoint} does not answer [deadline-exceeded]`,
  });
  expect(performance.now() - began).toBeLessThan(2_000);
  const controller = new AbortController();
  const cancelled = etcdStore({ endpoints: [endpoint], timeoutMs: 0, signal: controller.signal });
  setTimeout(() => controller.abort(), 50);
  await expect(cancelled).rejects.toMatchObject({ code: 'cancelled' });
});

const kv = { key: 'YQ==', value: 'NQ==', mod_revision: '1', create_revision: '1', version: '1' };
test.each([
  ['null', null],
  ['a number', 5],
  ['a list', []],
  ['entries that are a number', { kvs: 5, responses: 7, header: 9, ID: 3 }],
  ['entries that are nothing', { kvs: [null], responses: [null], header: null, ID: null }],
  ['entries without keys', { kvs: [{}], responses: [{ response_range: { kvs: [{}] } }], ID: {} }],
  [
    'entries whose fields are of other kinds',
    { kvs: [{ ...kv, value: 7 }], responses: [{ response_range: { kvs: [{ ...kv, version: 1 }] } }] },
  ],
  ['the prototype of its entries', JSON.parse('{"__proto__":{"kvs":[]},"ID":["1"]}') as unknown],
])('an etcd that answers %s is told of in words', async (_, told) => {
  const { endpoint, open } = await slow();
  const opening = etcdStore({ endpoints: [endpoint], timeoutMs: 5_000 });
  await expect.poll(() => open.length).toBe(1);
  answer(open.shift());
  const store = await opening;
  const asked = [
    store.get('k'),
    store.list(''),
    store.add('k', 1n),
    store.compareAndSet('k', null, new Uint8Array(1)),
    store.lease(9_000),
  ];
  const answering = setInterval(() => open.splice(0).forEach((one) => one.end(JSON.stringify(told))), 1);
  cleanups.push(() => clearInterval(answering));
  for (const one of await Promise.allSettled(asked)) {
    // That there is nothing, and that it lost a race, can be said like this.
    if (one.status === 'rejected') {
      expect(one.reason).toBeInstanceOf(RpcError);
      expect((one.reason as Error).message).toMatch(/is that etcd's port for clients\?|changed by too many/);
    }
  }
  expect((await Promise.allSettled(asked)).filter(({ status }) => status === 'rejected').length).toBeGreaterThan(0);
  clearInterval(answering);
  const closing = setInterval(() => open.splice(0).forEach(answer), 1);
  cleanups.push(() => clearInterval(closing));
  await store.close();
});

test('lines come whole, however they are cut, and a long one is not looked through again and again', async () => {
  const { endpoint, open } = await slow();
  const api = new EtcdApi([endpoint]);
  const seen: unknown[] = [];
  const stop = new AbortController();
  const watching = api.watch(
    { key: 'YQ==', range_end: 'Yg==' },
    (revision) => seen.push(revision),
    (events) => seen.push(events),
    stop.signal,
  );
  await expect.poll(() => open.length).toBe(1);
  const [stream] = open as [ServerResponse];
  const value = 'x'.repeat(3_000_000);
  const told = `{"result":{"created":true,"header":{"revision":"7"}}}\n\n{"result":{"events":[{"kv":{"key":"YQ==","value":"${value}"}}]}}\n`;
  const began = performance.now();
  for (let at = 0; at < told.length; at += 997) {
    if (!stream.write(told.slice(at, at + 997))) await new Promise((resolve) => stream.once('drain', resolve));
  }
  await expect.poll(() => seen.length, { timeout: 20_000 }).toBe(2);
  expect(seen).toEqual([7, [{ kv: { key: 'YQ==', value } }]]);
  expect(performance.now() - began).toBeLessThan(5_000);
  stop.abort();
  await watching.catch(() => undefined);
});
