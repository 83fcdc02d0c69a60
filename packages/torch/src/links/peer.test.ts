/** @file What a listener sees of a worker that has left before its connections were there. */
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { WorkerInfo } from '@backwire/rpc';
import { tcpTransport } from '@backwire/rpc/internal';
import { expect, it } from 'vitest';
import { DEFAULT_TORCH_LIMITS } from '../limits.ts';
import { readPacket } from '../pipe/packets.ts';
import { TorchPeer } from './peer.ts';

// torch's own listener hears of nobody any more after a connection that ended without a word.
it('closes no connection without having said who it is', async () => {
  const heard: Promise<Uint8Array>[] = [];
  const server = createServer((socket) => {
    const bytes: Buffer[] = [];
    socket.on('data', (chunk) => bytes.push(chunk)).on('error', () => undefined);
    heard.push(once(socket, 'end').then(() => Buffer.concat(bytes)));
    socket.once('end', () => socket.end());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const failures: unknown[] = [];
  const peer = new TorchPeer(new WorkerInfo('py0', 0), `127.0.0.1:${(server.address() as AddressInfo).port}`, {
    name: 'web',
    transport: tcpTransport(),
    limits: DEFAULT_TORCH_LIMITS,
    channels: ['basic'],
    dialTimeoutMs: 5_000,
    onDown: () => undefined,
    onAnswer: () => undefined,
  });
  const body = { type: 0x102, body: new Uint8Array(1), tensors: [] };
  peer.request(body, { resolve: () => undefined, reject: (error) => failures.push(error) });
  await peer.close();
  expect(failures).toMatchObject([{ code: 'cancelled' }]);
  while (heard.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const [said] = (await Promise.all(heard)) as [Uint8Array];
  expect(readPacket(said.subarray(8), DEFAULT_TORCH_LIMITS)).toEqual({ kind: 'spontaneous', name: 'web' });
  server.close();
  await once(server, 'close');
});
