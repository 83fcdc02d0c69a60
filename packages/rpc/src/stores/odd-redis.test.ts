/** @file What answers as a Redis and is none, or another's words: every request ends, with its name; what others publish hurts nobody. */
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { isInstalled } from '@backwire/testing';
import { afterEach, describe, expect, test } from 'vitest';
import { bytes, cleanUp, cleanups, redisSays, serve } from '../../test/store-servers.ts';
import { RpcError } from '../base/errors.ts';
import { openStore } from './open.ts';
import type { Store } from './store.ts';

afterEach(cleanUp);

/** The words of a command at the beginning of `text`, and what follows it; undefined while it has not come as a whole. */
function command(text: string): { words: string[]; rest: string } | undefined {
  const words: string[] = [];
  const head = /^\*(\d+)\r\n/.exec(text);
  if (head === null) return undefined;
  let at = head[0].length;
  for (let left = Number(head[1]); left > 0; left--) {
    const length = /^\$(\d+)\r\n/.exec(text.slice(at, at + 24));
    if (length === null) return undefined;
    const from = at + length[0].length;
    at = from + Number(length[1]) + 2;
    if (text.length < at) return undefined;
    words.push(text.slice(from, at - 2));
  }
  return { words, rest: text.slice(at) };
}

/** A server that answers each script as `answer` says, once the store is open. */
async function odd(answer: string | undefined): Promise<{ store: Store; url: string }> {
  let isOpen = false;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    let unread = '';
    socket.on('data', (chunk) => {
      unread += chunk.toString('latin1');
      for (let next = command(unread); next !== undefined; next = command(unread)) {
        const [name = '', channel = ''] = next.words;
        unread = next.rest;
        if (name === 'SUBSCRIBE') socket.write(`*3\r\n$9\r\nsubscribe\r\n$${channel.length}\r\n${channel}\r\n:1\r\n`);
        else if (!name.startsWith('EVAL')) socket.write('+OK\r\n');
        else if (!isOpen) socket.write('*1\r\n:1\r\n');
        else if (answer !== undefined) socket.write(answer);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const url = `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { store } = await openStore(url, { timeoutMs: 10_000 });
  cleanups.push(() => store.close());
  isOpen = true;
  return { store, url };
}

describe('a server whose answer to a script is', { timeout: 30_000 }, () => {
  test.each([
    ['no list', '+OK\r\n'],
    ['nothing', '*-1\r\n'],
    ['an empty list', '*0\r\n'],
    ['a list of something else', '*2\r\n$1\r\na\r\n$1\r\nb\r\n'],
    ['numbers where bytes are due', '*2\r\n:1\r\n:7\r\n'],
  ])('%s is named', async (_, answer) => {
    const { store, url } = await odd(answer);
    const asked = [store.get('k'), store.list(''), store.add('n', 1n), store.compareAndSet('k', null, bytes('v'))];
    for (const one of await Promise.allSettled(asked))
      expect(one).toMatchObject({
        status: 'rejected',
        reason: {
          code: 'protocol-error',
          executed: 'maybe',
          message: `Redis at ${url} gave an answer that cannot be read: is that a Redis? [protocol-error]`,
        },
      });
  });

  test('words where a number is due is named by a counter', async () => {
    const { store } = await odd('*2\r\n:1\r\n$7\r\ngarbage\r\n');
    await expect(store.add('n', 1n)).rejects.toMatchObject({ code: 'protocol-error' });
  });

  test('of another protocol fails in seconds', async () => {
    const { store, url } = await odd('HTTP/1.1 400 Bad Request\r\n\r\n');
    for (const one of await Promise.allSettled([store.get('k'), store.set('k', bytes('v')), store.lease(9_000)])) {
      const { reason } = one as PromiseRejectedResult;
      expect(reason).toBeInstanceOf(RpcError);
      expect((reason as Error).message).toContain(`Redis at ${url}: `);
    }
  });
});

test('a server that is no Redis says why it was not opened', async () => {
  const server = createServer(
    (socket) => void socket.on('error', () => undefined).end('HTTP/1.1 400 Bad Request\r\n\r\n'),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => server.close());
  const url = `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await expect(openStore(url, { timeoutMs: 500 })).rejects.toMatchObject({
    code: 'deadline-exceeded',
    message: expect.stringMatching(new RegExp(`^no Redis at ${url} in \\d+ ms: .+`)) as string,
  });
});

const missing = !isInstalled('redis');
describe.skipIf(missing)(
  missing ? 'redis (skipped: no redis-server on this machine)' : 'redis',
  { timeout: 30_000 },
  () => {
    test('what others publish beside a store ends no connection, and a failure tells its own reason', async () => {
      const { port } = await serve('redis');
      const url = `redis://127.0.0.1:${port}`;
      const { store } = await openStore(url, { timeoutMs: 20_000 });
      cleanups.push(() => store.close());
      const seen: string[] = [];
      const stop = new AbortController();
      cleanups.push(() => stop.abort());
      void (async () => {
        for await (const { type, key } of store.watch('', { signal: stop.signal })) seen.push(`${type} ${key}`);
      })();
      await store.get('k');
      for (const message of ['', 'p', 'pppp']) await redisSays(port, 'PUBLISH', '{backwire}/changes', message);
      await store.set('k', bytes('v'));
      await expect.poll(() => seen).toEqual(['put k']);
      await redisSays(port, 'DEL', '{backwire}/values');
      await redisSays(port, 'SET', '{backwire}/values', 'of somebody else');
      await expect(store.get('k')).rejects.toMatchObject({
        code: 'unavailable',
        message: expect.stringMatching(new RegExp(`^Redis at ${url}: .*WRONGTYPE`)) as string,
      });
    });
  },
);
