/** @file What every transport promises, tried on each of them. */
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { runWith, ambient } from '@backwire/tensor/internal';
import { cmaTransport } from './cma.ts';
import { memoryTransport } from './memory.ts';
import { portTransport } from './port.ts';
import { findKeys, type Keys } from '../security/secret.ts';
import { tcpTransport } from './tcp.ts';
import { tlsTransport } from './tls.ts';
import type { ByteSink, Connection, Listener, Transport } from './transport.ts';
import { unixTransport } from './unix.ts';
import { webSocketTransport } from './websocket.ts';

const MIB = 1024 * 1024;

/** Collects what arrives, through buffers of a chosen size. */
class Collector implements ByteSink {
  readonly parts: Uint8Array[] = [];
  bytes = 0;
  end: { error: Error | undefined } | undefined;
  readonly whenClosed: Promise<Error | undefined>;
  onBytes: (() => void) | undefined;
  private buffer = new Uint8Array(0);
  private readonly size: number;
  private resolveClosed!: (error: Error | undefined) => void;

  constructor(size = 64 * 1024) {
    this.size = size;
    this.whenClosed = new Promise((resolve) => (this.resolveClosed = resolve));
  }
  nextBuffer(): Uint8Array {
    return (this.buffer = new Uint8Array(this.size));
  }
  received(count: number): void {
    expect(this.end).toBeUndefined();
    expect(count).toBeGreaterThan(0);
    expect(count).toBeLessThanOrEqual(this.size);
    this.bytes += count;
    this.parts.push(this.buffer.subarray(0, count));
    this.onBytes?.();
  }
  closed(error?: Error): void {
    expect(this.end).toBeUndefined();
    this.end = { error };
    this.resolveClosed(error);
  }
  async until(count: number): Promise<Buffer> {
    if (this.bytes < count) {
      await new Promise<void>((resolve, reject) => {
        this.onBytes = () => {
          if (this.bytes >= count) resolve();
        };
        void this.whenClosed.then(() => reject(new Error(`closed after ${this.bytes} of ${count} bytes`)));
      });
    }
    return Buffer.concat(this.parts);
  }
  text(): string {
    return Buffer.concat(this.parts).toString();
  }
}

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function listen(
  transport: Transport,
  onConnection: (connection: Connection) => void,
  host?: string,
): Promise<Listener> {
  const listener = await transport.listen({ host }, onConnection);
  cleanups.push(() => listener.close());
  return listener;
}

/** An address of this process alone: a port that is let go of there is not taken by another test meanwhile. Linux has them all. */
const OWN_HOST =
  process.platform === 'linux' ? `127.91.${(process.pid >> 8) & 255}.${(process.pid & 127) + 1}` : undefined;

async function pair(
  transport: Transport,
  host?: string,
): Promise<{ dialled: Connection; accepted: Connection; listener: Listener }> {
  let accept!: (connection: Connection) => void;
  const incoming = new Promise<Connection>((resolve) => (accept = resolve));
  const listener = await listen(transport, accept, host);
  const dialled = await transport.dial(listener.endpoint);
  const accepted = await incoming;
  cleanups.push(() => {
    dialled.destroy();
    accepted.destroy();
  });
  return { dialled, accepted, listener };
}

const flushed = (connection: Connection, chunks: Uint8Array[]): Promise<Error | undefined> =>
  new Promise((resolve) => connection.write(chunks, (error) => resolve(error)));
const bytes = (text: string): Uint8Array => Buffer.from(text);
const turns = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
};

const secret = 'sixteen bytes and more';
const psk = { mode: 'psk', group: 'g', keys: findKeys({ secret }) as Keys } as const;

const transports: [string, () => Transport][] = [
  ['tcp', tcpTransport],
  ['unix', unixTransport],
  ['memory', memoryTransport],
  ['port', portTransport],
  ['tls', () => tlsTransport(psk)],
  ['ws', () => webSocketTransport(psk)],
  ...(cmaTransport().isViable() ? [['cma', cmaTransport] as [string, () => Transport]] : []),
];

test.each([
  ['tcp', tcpTransport()],
  ['tls', tlsTransport(psk)],
])(
  '%s tells a host that is advertised, and its own where the address is one for WebSockets',
  async (name, transport) => {
    for (const [advertise, host] of [
      ['localhost', 'localhost'],
      ['::1', '[::1]'],
      ['wss://example.com/backwire', '127.0.0.1'],
    ]) {
      const listener = await transport.listen({ advertise }, () => undefined);
      cleanups.push(() => listener.close());
      expect(listener.endpoint.replace(/\d+$/, '')).toBe(`${name}://${host}:`);
    }
  },
);

describe.each(transports)('%s', (name, make) => {
  test('its endpoints carry its name', async () => {
    const { listener, dialled, accepted } = await pair(make());
    expect(listener.endpoint.startsWith(`${name}://`)).toBe(true);
    expect(dialled.kind).toBe(name);
    expect(accepted.kind).toBe(name);
    expect(dialled.remote).toBe(listener.endpoint);
  });

  test('bytes arrive in order, both ways, from the dialled and from the accepted side', async () => {
    const { dialled, accepted } = await pair(make());
    const [left, right] = [new Collector(7), new Collector(1000)];
    dialled.attach(left);
    accepted.attach(right);
    let text = '';
    for (let i = 0; i < 500; i++) {
      dialled.write([bytes(`a${i},`), bytes(`b${i};`)]);
      accepted.write([bytes(`x${i},`), new Uint8Array(0), bytes(`y${i};`)]);
      text += `a${i},b${i};`;
    }
    expect((await right.until(text.length)).toString()).toBe(text);
    expect((await left.until(text.length)).toString()).toBe(text.replaceAll('a', 'x').replaceAll('b', 'y'));
    expect(right.bytes).toBe(accepted.receivedBytes);
    expect(dialled.sentBytes).toBe(text.length);
  });

  test('bytes sent before a sink is attached wait for it', async () => {
    const { dialled, accepted } = await pair(make());
    dialled.write([bytes('early')]);
    await turns(20);
    const sink = new Collector();
    accepted.attach(sink);
    expect((await sink.until(5)).toString()).toBe('early');
  });

  test('large writes of many parts arrive whole', async () => {
    const { dialled, accepted } = await pair(make());
    const body = randomBytes(24 * MIB);
    const parts = [
      body.subarray(0, 1),
      body.subarray(1, 5 * MIB),
      body.subarray(5 * MIB, 5 * MIB + 3),
      body.subarray(5 * MIB + 3),
    ];
    const sink = new Collector(1 * MIB);
    accepted.attach(sink);
    expect(await flushed(dialled, parts)).toBeUndefined();
    const digest = (value: Uint8Array): string => createHash('sha1').update(value).digest('hex');
    expect(digest(await sink.until(body.byteLength))).toBe(digest(body));
    expect(dialled.bufferedBytes).toBe(0);
    expect(dialled.sentBytes).toBe(body.byteLength);
  });

  test('more parts than one system call takes', async () => {
    const { dialled, accepted } = await pair(make());
    const sink = new Collector();
    accepted.attach(sink);
    const parts = Array.from({ length: 5000 }, (_, i) => bytes(`${i} `));
    dialled.write(parts);
    const whole = Buffer.concat(parts);
    expect((await sink.until(whole.byteLength)).equals(whole)).toBe(true);
  });

  test('a sink reads no further than it asks, and the next one gets the rest', async () => {
    const { dialled, accepted } = await pair(make());
    const exact = (count: number): Promise<string> =>
      new Promise((resolve, reject) => {
        const memory = new Uint8Array(count);
        let at = 0;
        accepted.attach({
          nextBuffer: () => memory.subarray(at),
          received: (n) => {
            at += n;
            if (at < count) return;
            accepted.attach(undefined);
            resolve(Buffer.from(memory).toString());
          },
          closed: (error) => reject(error ?? new Error('closed')),
        });
      });
    dialled.write([bytes('onetwotthree-and-then-the-rest')]);
    expect(await exact(3)).toBe('one');
    await turns(3);
    expect(await exact(4)).toBe('twot');
    expect(await exact(5)).toBe('three');
    const rest = new Collector(4);
    accepted.attach(rest);
    expect((await rest.until(18)).toString()).toBe('-and-then-the-rest');
  });

  test('one sink replaces another in the middle of the stream; nothing is lost and the old memory is left alone', async () => {
    const { dialled, accepted } = await pair(make());
    const first = new Collector(16);
    accepted.attach(first);
    dialled.write([bytes('first')]);
    await first.until(5);
    const armed = first.nextBuffer();
    const second = new Collector(16);
    accepted.attach(second);
    await turns(3);
    dialled.write([bytes('second')]);
    expect((await second.until(6)).toString()).toBe('second');
    expect(first.text()).toBe('first');
    expect(armed.every((byte) => byte === 0)).toBe(true);
  });

  test('a slow reader holds the writer up, and the counters say so', async () => {
    const { dialled, accepted } = await pair(make());
    const total = 32 * MIB;
    let done = false;
    const written = flushed(dialled, [new Uint8Array(total)]).then((error) => {
      done = true;
      return error;
    });
    await turns(50);
    expect(done).toBe(false);
    expect(dialled.bufferedBytes).toBeGreaterThan(0);
    expect(dialled.sentBytes + dialled.bufferedBytes).toBe(total);
    const sink = new Collector(256 * 1024);
    accepted.attach(sink);
    await sink.until(256 * 1024);
    accepted.attach(undefined);
    await turns(10);
    const paused = accepted.receivedBytes;
    await turns(50);
    expect(accepted.receivedBytes).toBe(paused);
    accepted.attach(sink);
    await sink.until(total);
    expect(await written).toBeUndefined();
    expect(dialled.bufferedBytes).toBe(0);
  });

  test('close sends what was written, and what the peer still had to say arrives', async () => {
    const { dialled, accepted } = await pair(make());
    const [left, right] = [new Collector(), new Collector()];
    dialled.attach(left);
    accepted.attach(right);
    const body = randomBytes(3 * MIB);
    accepted.write([body]);
    dialled.write([body]);
    dialled.close();
    dialled.close();
    expect(await right.whenClosed).toBeUndefined();
    expect(await left.whenClosed).toBeUndefined();
    expect(Buffer.concat(right.parts).equals(body)).toBe(true);
    expect(Buffer.concat(left.parts).equals(body)).toBe(true);
    expect([dialled.closed, accepted.closed]).toEqual([true, true]);
  });

  test('writing after close reports it and throws nothing', async () => {
    const { dialled, accepted } = await pair(make());
    accepted.attach(new Collector());
    dialled.close();
    expect(await flushed(dialled, [bytes('late')])).toBeInstanceOf(Error);
    dialled.destroy();
    dialled.destroy();
    expect(await flushed(dialled, [bytes('later')])).toBeInstanceOf(Error);
  });

  test('destroy in the middle of a write: every callback comes once, with the reason; the peer hears of it', async () => {
    const { dialled, accepted } = await pair(make());
    const sink = new Collector(4096);
    accepted.attach(sink);
    const own = new Collector();
    dialled.attach(own);
    const outcomes: (Error | undefined)[][] = [];
    for (let i = 0; i < 4; i++) {
      const calls: (Error | undefined)[] = [];
      outcomes.push(calls);
      dialled.write([new Uint8Array(16 * MIB)], (error) => calls.push(error));
    }
    await sink.until(4096);
    const reason = new Error('no longer wanted');
    dialled.destroy(reason);
    await sink.whenClosed;
    expect(await own.whenClosed).toBe(reason);
    await turns(5);
    expect(outcomes.map((calls) => calls.length)).toEqual([1, 1, 1, 1]);
    expect(outcomes[3]?.[0]).toBeInstanceOf(Error);
    expect(sink.bytes).toBeLessThan(64 * MIB);
  });

  test('a sink that throws costs its connection and nothing else', async () => {
    const { dialled, accepted, listener } = await pair(make());
    let end: Error | undefined;
    const ended = new Promise<void>((resolve) => {
      accepted.attach({
        nextBuffer: () => new Uint8Array(16),
        received: () => {
          throw new Error('bad frame');
        },
        closed: (error) => {
          end = error;
          resolve();
        },
      });
    });
    const other = new Collector();
    dialled.attach(other);
    dialled.write([bytes('x')]);
    await ended;
    expect(end?.message).toBe('bad frame');
    await other.whenClosed;
    const again = await make().dial(listener.endpoint);
    expect(again.closed).toBe(false);
    again.destroy();
  });

  test('attaching to a closed connection says so', async () => {
    const { dialled, accepted } = await pair(make());
    accepted.attach(new Collector());
    dialled.destroy();
    const sink = new Collector();
    await turns(20);
    dialled.attach(sink);
    expect(await sink.whenClosed).toBeUndefined();
  });

  test('a closed listener refuses at once; its connections live on', async () => {
    const { dialled, accepted, listener } = await pair(make(), OWN_HOST);
    await listener.close();
    await listener.close();
    await expect(make().dial(listener.endpoint)).rejects.toMatchObject({ code: 'unavailable' });
    const sink = new Collector();
    accepted.attach(sink);
    dialled.write([bytes('still here')]);
    expect((await sink.until(10)).toString()).toBe('still here');
  });

  test('dialling can be cancelled', async () => {
    const { listener } = await pair(make());
    const reason = new Error('changed my mind');
    const gone = AbortSignal.abort(reason);
    await expect(make().dial(listener.endpoint, { signal: gone })).rejects.toMatchObject({
      code: 'cancelled',
      cause: reason,
    });
  });

  test('what arrives does not run in the ambient state of the dialler', async () => {
    const seen: (bigint | undefined)[] = [];
    let accept!: (connection: Connection) => void;
    const incoming = new Promise<Connection>((resolve) => (accept = resolve));
    const transport = make();
    const listener = await runWith({ contextId: 7n }, () => listen(transport, accept));
    const dialled = await runWith({ contextId: 8n }, () => transport.dial(listener.endpoint));
    const accepted = await incoming;
    const spy = (connection: Connection): Promise<void> =>
      new Promise((resolve) =>
        connection.attach({
          nextBuffer: () => new Uint8Array(8),
          received: () => {
            seen.push(ambient().contextId);
            resolve();
          },
          closed: () => undefined,
        }),
      );
    const both = Promise.all([spy(dialled), spy(accepted)]);
    dialled.write([bytes('a')]);
    accepted.write([bytes('b')]);
    await both;
    expect(seen).toEqual([undefined, undefined]);
    dialled.destroy();
    accepted.destroy();
  });
});

describe.each(transports.filter(([name]) => name === 'tcp' || name === 'unix'))(
  '%s between processes',
  (name, make) => {
    test('a killed peer is noticed as soon as its socket closes', async () => {
      const sink = new Collector();
      let accept!: (connection: Connection) => void;
      const incoming = new Promise<Connection>((resolve) => (accept = resolve));
      const listener = await listen(make(), accept);
      const url = new URL(`./${name}.ts`, import.meta.url).href;
      const program = `const t = await import(${JSON.stringify(url)});
      const c = await t.${name}Transport().dial(${JSON.stringify(listener.endpoint)});
      c.write([Buffer.from('hello')]); setInterval(() => {}, 1000);`;
      const root = dirname(fileURLToPath(new URL('../../../../package.json', import.meta.url)));
      const child = spawn(
        process.execPath,
        ['--import', 'tsx', '--conditions=@backwire/source', '--input-type=module', '-e', program],
        {
          stdio: 'inherit',
          cwd: root,
        },
      );
      cleanups.push(() => child.kill('SIGKILL'));
      const accepted = await incoming;
      accepted.attach(sink);
      await sink.until(5);
      child.kill('SIGKILL');
      await once(child, 'exit');
      const killed = performance.now();
      await sink.whenClosed;
      expect(performance.now() - killed).toBeLessThan(10_000);
      expect(await flushed(accepted, [bytes('anyone?')])).toBeInstanceOf(Error);
    });
  },
);

test('tcp names a taken port', async () => {
  const first = await tcpTransport().listen({}, () => undefined);
  cleanups.push(() => first.close());
  const port = Number(first.endpoint.split(':').at(-1));
  await expect(tcpTransport().listen({ port }, () => undefined)).rejects.toMatchObject({
    code: 'unavailable',
    message: `Address already in use: tcp://127.0.0.1:${port} [unavailable]`,
  });
});

test.each(['tcp://nowhere', 'tcp://h:99999', 'unix:///x:1', 'tcp://a:1/../', 'tcp://:1'])(
  'tcp refuses the endpoint %s',
  async (endpoint) => {
    await expect(tcpTransport().dial(endpoint)).rejects.toMatchObject({ code: 'invalid-argument' });
  },
);

test('tcp gives up on a host that does not answer', async () => {
  // An address reserved for documentation: the way there is missing or leads nowhere.
  await expect(tcpTransport().dial('tcp://192.0.2.1:9', { timeoutMs: 150 })).rejects.toMatchObject({
    code: expect.stringMatching(/deadline-exceeded|unavailable/) as string,
  });
});
