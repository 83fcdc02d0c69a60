/** @file WebSocket connections over sockets with the browser's interface alone, driven by hand: what left, and when it is over. */
import { afterEach, expect, test, vi } from 'vitest';
import { MAX_MESSAGE_BYTES, WebSocketConnection, type AnyWebSocket } from './websocket-connection.ts';

afterEach(() => {
  vi.useRealTimers();
});

/** What a browser has; nothing happens to it but what a test does. */
class PlainSocket implements AnyWebSocket {
  binaryType = '';
  bufferedAmount = 0;
  closes = 0;
  private readonly listeners = new Map<string, (event: never) => void>();

  send(data: Uint8Array): void {
    this.bufferedAmount += data.byteLength;
  }

  close(): void {
    this.closes++;
  }

  addEventListener(type: string, listener: (event: never) => void): void {
    this.listeners.set(type, listener);
  }

  tell(type: 'message' | 'close', event: object): void {
    this.listeners.get(type)?.(event as never);
  }
}

const PLAIN = { encrypted: false, authenticated: false };

/** A connection whose sink notes what came, and how it ended. */
function connected(): {
  socket: PlainSocket;
  connection: WebSocketConnection;
  seen: { bytes: number; ends: (Error | undefined)[] };
} {
  const socket = new PlainSocket();
  const connection = new WebSocketConnection(socket, 'ws://x/', PLAIN);
  const seen: { bytes: number; ends: (Error | undefined)[] } = { bytes: 0, ends: [] };
  const memory = new Uint8Array(1024);
  connection.attach({
    nextBuffer: () => memory,
    received: (count) => (seen.bytes += count),
    closed: (error) => seen.ends.push(error),
  });
  return { socket, connection, seen };
}

test('what has left is noticed when a message comes, for timers of a hidden page hardly run', () => {
  vi.useFakeTimers();
  const { socket, connection, seen } = connected();
  const flushed: (Error | undefined)[] = [];
  connection.write([new Uint8Array(MAX_MESSAGE_BYTES)], (error) => flushed.push(error));
  connection.write([new Uint8Array(10)], (error) => flushed.push(error));
  socket.bufferedAmount = 10;
  socket.tell('message', { data: new ArrayBuffer(3) });
  expect([flushed, connection.bufferedBytes, connection.sentBytes, seen.bytes]).toEqual([
    [undefined],
    10,
    MAX_MESSAGE_BYTES,
    3,
  ]);
  socket.bufferedAmount = 0;
  socket.tell('message', { data: new ArrayBuffer(3) });
  expect(flushed).toEqual([undefined, undefined]);
  expect(vi.getTimerCount()).toBe(0);
});

test('it is over once it is destroyed, however long the browser waits for the peer', async () => {
  const { socket, connection, seen } = connected();
  const flushed = new Promise<Error | undefined>((resolve) => connection.write([new Uint8Array(10)], resolve));
  const why = new Error('nothing was heard');
  connection.destroy(why);
  expect([seen.ends, socket.closes]).toEqual([[], 1]);
  expect(await flushed).toBe(why);
  expect([seen.ends, connection.closed, connection.bufferedBytes]).toEqual([[why], true, 0]);
  // A minute later.
  socket.tell('message', { data: new ArrayBuffer(3) });
  socket.tell('close', { code: 1006 });
  expect([seen.ends, seen.bytes]).toEqual([[why], 0]);
});

test('one whose peer does not answer its closing is over after ten seconds', async () => {
  vi.useFakeTimers();
  const { connection, seen } = connected();
  connection.close();
  await vi.advanceTimersByTimeAsync(9_999);
  expect(seen.ends).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(seen.ends).toEqual([undefined]);
});

test('a message that is longer than any ends it', async () => {
  const { socket, connection, seen } = connected();
  socket.tell('message', { data: new ArrayBuffer(MAX_MESSAGE_BYTES) });
  expect([seen.bytes, connection.closed]).toEqual([MAX_MESSAGE_BYTES, false]);
  socket.tell('message', { data: new ArrayBuffer(MAX_MESSAGE_BYTES + 1) });
  await expect.poll(() => seen.ends).toHaveLength(1);
  expect([seen.bytes, String(seen.ends[0])]).toEqual([MAX_MESSAGE_BYTES, expect.stringContaining('longer than any')]);
});

test.each([
  ['hello', 'a message that is not binary [protocol-error]'],
  [
    new ArrayBuffer(MAX_MESSAGE_BYTES + 1),
    `a message of ${MAX_MESSAGE_BYTES + 1} bytes, which is longer than any [protocol-error]`,
  ],
])(
  'a message that no peer of this library sends ends it, and says so in words that reach the caller',
  async (data, message) => {
    const { socket, seen } = connected();
    socket.tell('message', { data });
    await Promise.resolve();
    expect(seen.ends).toEqual([expect.objectContaining({ code: 'protocol-error', message })]);
  },
);
