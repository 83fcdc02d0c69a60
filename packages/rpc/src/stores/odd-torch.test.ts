/** @file A server that greets as torch's store does and then answers something else: what is asked fails with what came, and takes no memory. */
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { cleanUp, cleanups } from '../../test/store-servers.ts';
import { i64 } from './protocol.ts';
import { torchClient, type TorchClient } from './torch-client.ts';

afterEach(cleanUp);

/** A client of a server that answers its first request with `answer`. */
async function odd(
  answer: (socket: Socket) => void,
  requestMs?: number,
): Promise<{ client: TorchClient; endpoint: string }> {
  const server = createServer((socket) => {
    cleanups.push(() => socket.destroy());
    socket.on('error', () => undefined);
    socket.once('data', (greeting) => {
      socket.write(greeting.subarray(-4));
      socket.once('data', () => answer(socket));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => server.close());
  const endpoint = `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = await torchClient(endpoint, { timeoutMs: 5_000, requestMs });
  cleanups.push(() => client.close());
  return { client, endpoint };
}

test.each<[string, bigint, string, (client: TorchClient) => Promise<unknown>]>([
  [
    'a value that is too long',
    2n ** 62n,
    'a value of 4611686018427387904 bytes, at most 8388608 are taken',
    (client) => client.multiGet(['k']),
  ],
  [
    'a value of less than nothing',
    -5n,
    'a value of -5 bytes, at most 8388608 are taken',
    (client) => client.multiGet(['k']),
  ],
  ['too many keys', 2n ** 40n, 'a list of 1099511627776 keys, at most 131072 are taken', (client) => client.listKeys()],
])('%s is named', async (_, told, why, ask) => {
  const { client, endpoint } = await odd((socket) => socket.write(i64(told)));
  await expect(ask(client)).rejects.toMatchObject({
    code: 'protocol-error',
    executed: 'maybe',
    message: `${endpoint} is no store of torch, or a broken one: ${why} [protocol-error]`,
  });
});

test('keys without end are taken up to a bound', { timeout: 30_000 }, async () => {
  const key = Buffer.alloc(8 * 1024 * 1024, 'k');
  const { client } = await odd((socket) => {
    socket.write(i64(100_000n));
    const more = (): void => {
      while (!socket.destroyed && socket.write(Buffer.concat([i64(BigInt(key.length)), key])));
      socket.once('drain', more);
    };
    more();
  });
  await expect(client.listKeys()).rejects.toMatchObject({
    code: 'protocol-error',
    message: expect.stringContaining('a list of more than 67108864 bytes, which is all that is taken') as string,
  });
});

test('a server that goes is said to have gone', async () => {
  const { client, endpoint } = await odd((socket) => socket.destroy());
  await expect(client.add('k', 1n)).rejects.toMatchObject({
    code: 'unavailable',
    message: `the store at ${endpoint} went away [unavailable]`,
  });
});

test.each<[string, (client: TorchClient) => Promise<unknown>]>([
  ['a count', (client) => client.add('k', 1n)],
  ['a value that is set', (client) => client.set('k', new Uint8Array(1))],
  ['the end of a wait that is called off', (client) => client.wait(['k'], 10)],
])('a server that has fallen silent is given up: %s', async (_, ask) => {
  const { client, endpoint } = await odd(() => undefined, 200);
  await expect(ask(client)).rejects.toMatchObject({
    code: 'unavailable',
    executed: 'maybe',
    message: `the store at ${endpoint} has not answered in 200 ms [unavailable]`,
  });
  // What it says later would be taken for the answer of something else.
  await expect(client.add('k', 1n)).rejects.toMatchObject({ code: 'unavailable' });
});

test('a server that does not greet is given up', async () => {
  const server = createServer((socket) => cleanups.push(() => socket.destroy()));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => server.close());
  const endpoint = `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await expect(torchClient(endpoint, { requestMs: 100 })).rejects.toMatchObject({
    message: `the store at ${endpoint} has not answered in 100 ms [unavailable]`,
  });
});

test('who waits for a key waits as long as it takes', async () => {
  const { client } = await odd((socket) => setTimeout(() => socket.write(Uint8Array.of(0)), 400), 100);
  expect(await client.wait(['k'])).toBe(true);
});
