/** @file The send buffer of a Unix socket grows once it has carried a large chunk, and not before. */
import { afterEach, expect, test } from 'vitest';
import { native } from './native.ts';
import { SEND_BUFFER_BYTES } from './send-buffer.ts';
import type { SocketConnection } from './socket.ts';
import type { Connection } from './transport.ts';
import { unixTransport } from './unix.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const libc = native();
const getOption = libc?.func(
  'int getsockopt(int fd, int level, int name, _Out_ int *value, _Inout_ uint32_t *length)',
) as (fd: number, level: number, name: number, value: number[], length: number[]) => number;

function sendBuffer(connection: Connection): number {
  const { fd } = ((connection as SocketConnection).raw as unknown as { _handle: { fd: number } })._handle;
  const value = [0];
  expect(getOption(fd, 1, 7, value, [4])).toBe(0);
  return value[0] as number;
}

test.skipIf(libc === undefined)('both ends widen after their first large write', async () => {
  const accepted: Connection[] = [];
  const listener = await unixTransport().listen({}, (connection) => accepted.push(connection));
  cleanups.push(() => listener.close());
  const dialled = await unixTransport().dial(listener.endpoint);
  cleanups.push(() => dialled.destroy());
  await expect.poll(() => accepted.length).toBe(1);
  for (const [from, to] of [
    [dialled, accepted[0] as Connection],
    [accepted[0] as Connection, dialled],
  ] as const) {
    const before = sendBuffer(from);
    const memory = new Uint8Array(SEND_BUFFER_BYTES);
    to.attach({ nextBuffer: () => memory, received: () => undefined, closed: () => undefined });
    await new Promise((resolve) => from.write([new Uint8Array(64)], resolve));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(sendBuffer(from)).toBe(before);
    await new Promise((resolve) => from.write([new Uint8Array(SEND_BUFFER_BYTES)], resolve));
    await expect.poll(() => sendBuffer(from)).toBeGreaterThan(before);
  }
});
