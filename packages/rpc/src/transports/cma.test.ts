/** @file Reading from the sender's memory: between processes, from a sender that dies, and where it is not possible. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { CmaConnection } from './cma-connection.ts';
import { crossMemory, type CrossMemory } from './cma-memory.ts';
import { cmaTransport } from './cma.ts';
import { memoryPair } from './memory.ts';
import type { Connection } from './transport.ts';

const MIB = 1024 * 1024;
const memory = crossMemory();
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Reads until `count` bytes or the end. */
function read(connection: Connection, count: number, size = MIB): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Uint8Array[] = [];
    let total = 0;
    let buffer = new Uint8Array(0);
    connection.attach({
      nextBuffer: () => (buffer = new Uint8Array(size)),
      received: (n) => {
        parts.push(buffer.subarray(0, n));
        if ((total += n) === count) resolve(Buffer.concat(parts));
      },
      closed: (error) => reject(error ?? new Error(`closed after ${total} bytes`)),
    });
  });
}

/** Both know by then whether they can read from each other. */
async function meet(a: Connection, b: Connection): Promise<void> {
  const there = read(b, 1);
  a.write([Buffer.from('x')]);
  await there;
  const back = read(a, 1);
  b.write([Buffer.from('y')]);
  await back;
}

const digest = (bytes: Uint8Array): string => createHash('sha1').update(bytes).digest('hex');
const pattern = (length: number): Uint8Array => Uint8Array.from({ length }, (_, i) => (i * 31) >> 3);

describe.skipIf(memory === undefined)(
  `cross-memory reads${memory === undefined ? ' (skipped: no koffi, or not Linux)' : ''}`,
  () => {
    const real = memory as CrossMemory;

    /** Counts the bytes that were read from memory. */
    function counting(): CrossMemory & { bytes: number } {
      const counted = {
        bytes: 0,
        addressOf: (chunk: Uint8Array) => real.addressOf(chunk),
        read: (pid: number, ...rest: [Parameters<CrossMemory['read']>[1], Parameters<CrossMemory['read']>[2]]) => {
          counted.bytes += rest[1].length === 3 ? (rest[1][1]?.byteLength ?? 0) : 0;
          return real.read(pid, ...rest);
        },
      };
      return counted;
    }

    test('large chunks are read from memory, small ones are not, and all come in order', async () => {
      const [left, right] = memoryPair();
      const seen = counting();
      const [a, b] = [new CmaConnection(left, real), new CmaConnection(right, seen)];
      await meet(a, b);
      const large = pattern(9 * MIB + 5);
      const view = large.subarray(3, 3 + 300 * 1024);
      const whole = Buffer.concat([Buffer.from('head'), large, Buffer.from('between'), view, Buffer.alloc(100_000, 7)]);
      const reading = read(b, whole.byteLength, 333_333);
      let flushed: Error | undefined | null = null;
      a.write(
        [Buffer.from('head'), large, Buffer.from('between'), view, Buffer.alloc(100_000, 7)],
        (error) => (flushed = error),
      );
      expect(a.bufferedBytes).toBe(whole.byteLength);
      expect(digest(await reading)).toBe(digest(whole));
      await expect.poll(() => flushed).toBeUndefined();
      expect([seen.bytes, a.bufferedBytes, a.sentBytes]).toEqual([
        large.byteLength + view.byteLength,
        0,
        1 + whole.byteLength,
      ]);
      a.destroy();
    });

    test('where the memory cannot be read, everything goes through the socket', async () => {
      const [left, right] = memoryPair();
      const denied: CrossMemory = { addressOf: (chunk) => real.addressOf(chunk), read: () => false };
      const [a, b] = [new CmaConnection(left, real), new CmaConnection(right, denied)];
      await meet(a, b);
      const large = pattern(2 * MIB);
      const reading = read(b, large.byteLength);
      a.write([large]);
      expect(digest(await reading)).toBe(digest(large));
      a.destroy();
    });

    test('memory that was let go, or is of somebody else, ends the connection instead of being delivered', async () => {
      const [left, right] = memoryPair();
      let stale = false;
      const cheating: CrossMemory = {
        addressOf: (chunk) => real.addressOf(chunk),
        read: (pid, ranges, into) => {
          const whole = real.read(pid, ranges, into);
          // As if another process had the number by now.
          if (stale) into.at(-1)?.fill(0xee);
          return whole;
        },
      };
      const [a, b] = [new CmaConnection(left, real), new CmaConnection(right, cheating)];
      await meet(a, b);
      stale = true;
      const reading = read(b, MIB);
      const flushed = new Promise<Error | undefined>((resolve) => a.write([pattern(MIB)], resolve));
      await expect(reading).rejects.toMatchObject({ code: 'unavailable' });
      expect(await flushed).toBeInstanceOf(Error);
    });

    test('more than there are slots for goes on through the socket', async () => {
      const [left, right] = memoryPair();
      const [a, b] = [new CmaConnection(left, real), new CmaConnection(right, real)];
      await meet(a, b);
      const chunk = pattern(256 * 1024);
      const reading = read(b, 150 * chunk.byteLength);
      for (let i = 0; i < 150; i++) a.write([chunk]);
      const got = await reading;
      expect(digest(got.subarray(-chunk.byteLength))).toBe(digest(chunk));
      await expect.poll(() => a.bufferedBytes).toBe(0);
      a.destroy();
    });

    test.each([
      ['an unknown frame', 'ff'.repeat(24)],
      ['an offer before HELLO', `0400000009${'00'.repeat(19)}`],
      ['an offer past the limits', `0400${'ff'.repeat(22)}`],
      ['an end of what was never offered', `05${'00'.repeat(23)}`],
    ])('%s ends the connection', async (_, hex) => {
      const [left, right] = memoryPair();
      const connection = new CmaConnection(right, real);
      const ended = read(connection, 1);
      left.attach({ nextBuffer: () => new Uint8Array(64), received: () => undefined, closed: () => undefined });
      left.write([Buffer.from(hex, 'hex')]);
      await expect(ended).rejects.toBeInstanceOf(Error);
    });

    /** Offers of one byte each by a peer that takes none of the answers but what `reads` says. */
    async function offering(
      offers: number,
      reads: (left: Connection) => void,
    ): Promise<{ right: Connection; bytes: () => number; ended: Promise<unknown> }> {
      const [left, right] = memoryPair();
      const connection = new CmaConnection(right, real);
      let bytes = 0;
      const memory = new Uint8Array(64);
      const ended = new Promise<unknown>((resolve) =>
        connection.attach({
          nextBuffer: () => memory,
          received: (count) => (bytes += count),
          closed: resolve,
        }),
      );
      reads(left);
      const guards = Buffer.alloc(24, 1);
      guards.writeBigUInt64LE(0n, 16);
      const frame = (type: number, length: number, address: bigint): Buffer => {
        const head = Buffer.alloc(24);
        head.writeUInt8(type, 0);
        head.writeUInt32LE(length, 4);
        head.writeBigUInt64LE(address, 8);
        return head;
      };
      left.write([frame(1, process.pid, real.addressOf(guards)), guards.subarray(0, 16)]);
      for (let i = 0; i < offers; i += 50) {
        left.write(Array.from({ length: 50 }, () => frame(4, 1, real.addressOf(guards))));
        await new Promise((resolve) => setImmediate(resolve));
      }
      return { right, bytes: () => bytes, ended };
    }

    test('a peer that offers on and on and reads no answers loses the connection, one that reads them does not', async () => {
      const deaf = await offering(3_000, () => undefined);
      expect(await deaf.ended).toMatchObject({ code: 'protocol-error' });
      expect(deaf.bytes()).toBeLessThanOrEqual(1_024);
      const memory = new Uint8Array(4_096);
      const fair = await offering(3_000, (left) =>
        left.attach({ nextBuffer: () => memory, received: () => undefined, closed: () => undefined }),
      );
      await expect.poll(fair.bytes).toBe(3_000);
      fair.right.destroy();
    });

    test('between processes; a sender that is killed in the middle is noticed', { timeout: 60_000 }, async () => {
      let accept!: (connection: Connection) => void;
      const incoming = new Promise<Connection>((resolve) => (accept = resolve));
      const listener = await cmaTransport().listen({}, accept);
      cleanups.push(() => listener.close());
      const program = `
      const { cmaTransport } = await import(${JSON.stringify(new URL('./cma.ts', import.meta.url).href)});
      const c = await cmaTransport().dial(${JSON.stringify(listener.endpoint)});
      const more = () => c.write([new Uint8Array(${4 * MIB})], more);
      c.attach({ nextBuffer: () => new Uint8Array(16), received: () => {
        c.write([Uint8Array.from({ length: ${12 * MIB} }, (_, i) => (i * 31) >> 3)], more);
      }, closed: () => process.exit() });`;
      const child = spawn(
        process.execPath,
        ['--import', 'tsx', '--conditions=@backwire/source', '--input-type=module', '-e', program],
        {
          cwd: fileURLToPath(new URL('../../../../', import.meta.url)),
          stdio: ['ignore', 'inherit', 'inherit'],
        },
      );
      cleanups.push(() => child.kill('SIGKILL'));
      const connection = await incoming;
      // In pieces that two threads read.
      const reading = read(connection, 12 * MIB, 8 * MIB);
      connection.write([Buffer.from('go')]);
      expect(digest(await reading)).toBe(digest(pattern(12 * MIB)));
      child.kill('SIGKILL');
      await once(child, 'exit');
      await expect(read(connection, Infinity, 8 * MIB)).rejects.toBeInstanceOf(Error);
    });
  },
);
