import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { ChaosProxy, type ChaosOptions } from './chaos-proxy.ts';
import { eventually } from './leaks.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function echoServer(path?: string): Promise<Server> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) =>
    path === undefined ? server.listen(0, '127.0.0.1', resolve) : server.listen(path, resolve),
  );
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  return server;
}

interface Client {
  readonly socket: Socket;
  readonly chunks: Buffer[];
  bytes(): Buffer;
  closed: string | undefined;
}

async function open(options: Omit<ChaosOptions, 'target'>): Promise<{ proxy: ChaosProxy; client: Client }> {
  const server = await echoServer();
  const proxy = await ChaosProxy.start({ target: { port: (server.address() as AddressInfo).port }, ...options });
  cleanups.push(() => proxy.close());
  return { proxy, client: await dial(proxy) };
}

async function dial(proxy: ChaosProxy): Promise<Client> {
  const socket = connect({ ...proxy.address, allowHalfOpen: true });
  const client: Client = { socket, chunks: [], bytes: () => Buffer.concat(client.chunks), closed: undefined };
  socket.on('data', (chunk: Buffer) => client.chunks.push(chunk));
  socket.on('error', (error: NodeJS.ErrnoException) => (client.closed = error.code));
  socket.on('close', () => (client.closed ??= 'closed'));
  cleanups.push(() => socket.destroy());
  await eventually('connected or refused', () => !socket.connecting || client.closed);
  return client;
}

const pattern = (length: number): Buffer => Buffer.from(Uint8Array.from({ length }, (_, i) => (i * 31) & 255));

describe('ChaosProxy', () => {
  it('passes bytes both ways unchanged, in slices and under back pressure', async () => {
    const { client } = await open({ up: { sliceBytes: 1_000 }, down: { sliceBytes: 777, jitterMs: 0.2 } });
    const sent = pattern(3_000_000);
    client.socket.write(sent);
    await eventually('all came back', () => client.bytes().length >= sent.length, 20_000);
    expect(client.bytes().equals(sent)).toBe(true);
  });

  it('delays and throttles', async () => {
    const { client } = await open({ up: { latencyMs: 60 }, down: { bytesPerSecond: 100_000 } });
    const started = performance.now();
    client.socket.write(pattern(20_000));
    await eventually('all came back', () => client.bytes().length === 20_000);
    expect(performance.now() - started).toBeGreaterThan(200);
  });

  it('holds everything in a blackhole and lets it go in order afterwards', async () => {
    const { proxy, client } = await open({});
    proxy.blackhole(true);
    client.socket.write('one ');
    client.socket.write('two');
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(client.bytes().length).toBe(0);
    proxy.blackhole(false);
    await eventually('echo', () => client.bytes().toString() === 'one two');
  });

  it('flips single bits, the same ones for the same seed', async () => {
    const flipped: string[] = [];
    for (let round = 0; round < 2; round++) {
      const { client } = await open({ seed: 5, up: { flip: 1 } });
      client.socket.write(Buffer.alloc(64));
      await eventually('echo', () => client.bytes().length === 64);
      flipped.push(client.bytes().toString('hex'));
    }
    expect(flipped[0]).toBe(flipped[1]);
    const bits = [...Buffer.from(flipped[0]!, 'hex')].reduce(
      (sum, byte) => sum + byte.toString(2).replaceAll('0', '').length,
      0,
    );
    expect(bits).toBe(1);
  });

  it.each(['flip', 'reset', 'end', 'lose'] as const)('strikes at an exact byte (%s)', async (how) => {
    const { proxy, client } = await open({ up: { strike: { at: 10, how } } });
    const sent = pattern(16);
    client.socket.write(sent.subarray(0, 7));
    await eventually('what comes before', () => client.bytes().length === 7);
    client.socket.write(sent.subarray(7));
    if (how === 'flip') {
      await eventually('echo', () => client.bytes().length === 16);
      const differing = [...client.bytes().keys()].filter((i) => client.bytes()[i] !== sent[i]);
      expect(differing).toEqual([10]);
    } else if (how === 'reset') {
      await eventually('reset', () => client.closed);
      expect(client.closed).toBe('ECONNRESET');
    } else {
      if (how === 'end') await once(client.socket, 'end');
      await eventually('what comes before', () => client.bytes().length === 10);
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(client.bytes().equals(sent.subarray(0, 10))).toBe(true);
      expect(client.closed).toBeUndefined();
    }
    expect(proxy.struck).toBe(1);
  });

  it('resets all connections, or each by chance, and refuses new ones', async () => {
    const { proxy, client } = await open({});
    expect(proxy.connections).toBe(1);
    expect(proxy.resetAll()).toBe(1);
    await eventually('reset', () => client.closed);
    expect(client.closed).toBe('ECONNRESET');
    expect(proxy.connections).toBe(0);
    proxy.up.reset = 1;
    const unlucky = await dial(proxy);
    unlucky.socket.write('x');
    await eventually('reset', () => unlucky.closed);
    proxy.refusing = true;
    const refused = await dial(proxy);
    await eventually('refused', () => refused.closed);
    expect(proxy.connections).toBe(0);
  });

  it('passes a half-close on and can make one', async () => {
    const { proxy, client } = await open({});
    client.socket.write('last');
    client.socket.end();
    await once(client.socket, 'end');
    expect(client.bytes().toString()).toBe('last');
    const other = await dial(proxy);
    await eventually('open', () => proxy.connections === 1);
    proxy.halfClose('down');
    await once(other.socket, 'end');
    expect(other.socket.writable).toBe(true);
  });

  it('goes away when the target is gone', async () => {
    const proxy = await ChaosProxy.start({ target: { port: 1 } });
    cleanups.push(() => proxy.close());
    const client = await dial(proxy);
    await eventually('closed', () => client.closed);
    expect(proxy.connections).toBe(0);
  });

  it('works over Unix sockets', async () => {
    const path = join(tmpdir(), `echo-${process.pid}-${Date.now()}.sock`);
    await echoServer(path);
    const proxy = await ChaosProxy.start({ target: { path } });
    cleanups.push(() => proxy.close());
    const client = await dial(proxy);
    client.socket.write('unix');
    await eventually('echo', () => client.bytes().toString() === 'unix');
    const ended = once(client.socket, 'end');
    proxy.resetAll();
    await ended;
  });
});
