/** @file Connections with checksums: all bytes in order whatever their sizes, and none of those that were altered. */
import { connect, createServer, type Socket } from 'node:net';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { tensor, type Tensor } from '@backwire/tensor';
import type { Agent } from '../agent/agent.ts';
import { rpcAsync, rpcFunction, type Security } from '../index.ts';
import { leavesHost } from '../connect/dial.ts';
import { memoryPair } from './memory.ts';
import { CheckedConnection } from './checked-connection.ts';
import type { ByteSink, Connection } from './transport.ts';
import { tcpTransport } from './tcp.ts';
import { startCluster, until } from '../../test/cluster.ts';

const KIB = 1024;
const echo = rpcFunction('checked/echo', (x: Tensor) => x);
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Takes what comes in rooms of these sizes, in turn. */
class Collector implements ByteSink {
  readonly got: Uint8Array[] = [];
  bytes = 0;
  error: Error | undefined;
  isClosed = false;
  private room = new Uint8Array(0);
  private turn = 0;
  private readonly rooms: readonly number[];
  constructor(rooms: readonly number[]) {
    this.rooms = rooms;
  }
  nextBuffer(): Uint8Array {
    return (this.room = new Uint8Array(this.rooms[this.turn++ % this.rooms.length] as number));
  }
  received(count: number): void {
    this.got.push(this.room.slice(0, count));
    this.bytes += count;
  }
  closed(error?: Error): void {
    this.isClosed = true;
    this.error = error;
  }
  all(): Buffer {
    return Buffer.concat(this.got);
  }
}

/** A TCP proxy to `port` that shows what goes to the server to `change`, which may alter it. */
async function proxy(
  port: number,
  change: (bytes: Buffer, offset: number) => void,
  back: (bytes: Buffer) => void = () => undefined,
  listen: { host: string; port: number } = { host: '127.0.0.1', port: 0 },
): Promise<number> {
  const sockets: Socket[] = [];
  const server = createServer((client) => {
    const inner = connect(port, '127.0.0.1');
    sockets.push(client, inner);
    let offset = 0;
    client.on('data', (bytes: Buffer) => {
      change(bytes, offset);
      offset += bytes.length;
      inner.write(bytes);
    });
    inner.on('data', (bytes: Buffer) => {
      back(bytes);
      client.write(bytes);
    });
    for (const [one, other] of [
      [client, inner],
      [inner, client],
    ] as const) {
      one.on('error', () => other.destroy());
      one.on('close', () => other.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(listen.port, listen.host, resolve));
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as { port: number }).port;
}

async function tcpPair(change: (bytes: Buffer, offset: number) => void): Promise<[Connection, Connection]> {
  let accepted!: (connection: Connection) => void;
  const other = new Promise<Connection>((resolve) => (accepted = resolve));
  const listener = await tcpTransport().listen({}, accepted);
  cleanups.push(() => listener.close());
  const port = await proxy(Number(listener.endpoint.split(':').at(-1)), change);
  const near = await tcpTransport().dial(`tcp://127.0.0.1:${port}`);
  const far = await other;
  cleanups.push(
    () => near.destroy(),
    () => far.destroy(),
  );
  return [new CheckedConnection(near), new CheckedConnection(far)];
}

const SIZES = [1, 7, 8, 100, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 300_000, 1024 * KIB, 1024 * KIB + 1, 3_000_000];

describe('bytes', () => {
  test('arrive as they were written, whatever the sizes of chunks and of rooms', async () => {
    const sizes = fc.array(fc.constantFrom(...SIZES), { minLength: 1, maxLength: 6 });
    const someRooms = fc.array(fc.constantFrom(1, 100, 64 * KIB, 5_000_000), { minLength: 1, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(fc.array(sizes, { minLength: 1, maxLength: 4 }), someRooms, async (writes, roomSizes) => {
        const rooms = roomSizes.every((size) => size === 1) ? [...roomSizes, 64 * KIB] : roomSizes;
        const [a, b] = memoryPair();
        const [near, far] = [new CheckedConnection(a), new CheckedConnection(b)];
        const sink = new Collector(rooms);
        far.attach(sink);
        const sent: Buffer[] = [];
        let flushed = 0;
        for (const chunks of writes) {
          const made = chunks.map((size) => Buffer.alloc(size, sent.length + 1));
          sent.push(...made);
          near.write(made, () => flushed++);
        }
        const all = Buffer.concat(sent);
        await until(() => sink.bytes === all.length && flushed === writes.length, 'all is here');
        expect(sink.all().equals(all)).toBe(true);
        near.destroy();
        far.destroy();
      }),
      { numRuns: 30, seed: 14 },
    );
  });

  test('go on to another sink where they stood, in the middle of a record too', async () => {
    const [near, far] = await tcpPair(() => undefined);
    const bytes = Buffer.from(Uint8Array.from({ length: 900_000 }, (_, i) => (i * 7) >> 3));
    const first = new Collector([2_000_000]);
    far.attach(first);
    near.write([bytes.subarray(0, 10), bytes.subarray(10)]);
    await until(() => first.bytes >= 10, 'something is here');
    far.attach(undefined);
    const second = new Collector([2_000_000]);
    far.attach(second);
    await until(() => first.bytes + second.bytes === bytes.length, 'all is here');
    expect(Buffer.concat([first.all(), second.all()]).equals(bytes)).toBe(true);
  });

  test.each(SIZES)('of a record of %i bytes of which one is altered never reach the sink', async (size) => {
    for (const where of [0, 3, 4, 8, 8 + Math.floor((Math.min(size, 1024 * KIB) - 1) / 2)]) {
      const [near, far] = await tcpPair((bytes, offset) => {
        if (where >= offset && where < offset + bytes.length)
          bytes.writeUInt8(bytes.readUInt8(where - offset) ^ 0x10, where - offset);
      });
      const sink = new Collector([64 * KIB, 2_000_000]);
      far.attach(sink);
      near.write([Buffer.alloc(size, 5)]);
      // A length that was altered to a larger one waits for more.
      const more = setInterval(() => near.write([Buffer.alloc(100_000)]), 1);
      await until(() => sink.isClosed, `the connection ended (${where})`);
      clearInterval(more);
      expect(sink.bytes).toBe(0);
      expect(sink.error?.message).toMatch('altered on the way');
    }
  });
});

describe('agents over TCP in the clear', () => {
  /** Two agents of which w0 reaches w1 through a proxy, which alters a byte of what is under way when it is told to. */
  async function altered(security: Security): Promise<{ flip(to: 'w0' | 'w1', at: number): Promise<number> }> {
    let armed: { to: 'w0' | 'w1'; at: number } | undefined;
    let flips = 0;
    const cluster = await startCluster(2, (rank) => ({
      transports: ['tcp'],
      security,
      ...(rank === 1 ? { advertise: '127.0.0.2' } : {}),
    }));
    cleanups.push(() => cluster.close());
    const { endpoints } = (cluster.at(0) as Agent).members.find('w1').member;
    const port = Number(endpoints[0]?.address.split(':').at(-1));
    const change = (to: 'w0' | 'w1') => (bytes: Buffer) => {
      if (armed?.to !== to) return;
      if (armed.at >= bytes.length) {
        armed.at -= bytes.length;
        return;
      }
      bytes.writeUInt8(bytes.readUInt8(armed.at) ^ 0x40, armed.at);
      armed = undefined;
      flips++;
    };
    await proxy(port, change('w1'), change('w0'), { host: '127.0.0.2', port });
    const call = async (size: number): Promise<number> => {
      const sent = Float32Array.from({ length: size }, (_, i) => i % 1_000);
      const back = await cluster.at(0).run(() => rpcAsync('w1', echo, [tensor(sent)], { timeoutMs: 20_000 }));
      const got = await back.data('float32');
      return got.reduce((wrong, value, i) => wrong + (Object.is(value, sent[i]) ? 0 : 1), 0);
    };
    expect(await call(10)).toBe(0);
    return {
      async flip(to, at) {
        armed = { to, at };
        const wrong = await call(at < 2_000 ? 1_000 : 300_000);
        expect(flips).toBe(1);
        flips = 0;
        return wrong;
      },
    };
  }

  // In the elements of a tensor inside of its frame, and of one beside it.
  const places = [900, 500_000, 1_100_000];

  test('notice an altered tensor, and send it again: the values are right', async () => {
    const { flip } = await altered({ mode: 'hmac', secret: 'a secret for tests only', checksums: true });
    for (const to of ['w1', 'w0'] as const)
      for (const at of [...places, 10, 60, 300_000]) expect(await flip(to, at), `${to} ${at}`).toBe(0);
  });

  test('have checksums wherever bytes leave the host, if nobody says otherwise', () => {
    for (const far of ['tcp://10.0.0.5:4711', 'tcp://[fd00::1]:4711', 'tcp://host.example:1'])
      expect(leavesHost(far)).toBe(true);
    for (const near of [
      'tcp://127.0.0.1:4711',
      'tcp://127.0.0.2:1',
      'tcp://[::1]:4711',
      'tcp://localhost:1',
      'unix:///run/x',
    ])
      expect(leavesHost(near)).toBe(false);
  });

  test('do not without checksums', async () => {
    const { flip } = await altered({ mode: 'hmac', secret: 'a secret for tests only', checksums: false });
    for (const to of ['w1', 'w0'] as const) for (const at of places) expect(await flip(to, at)).toBe(1);
  });
});
