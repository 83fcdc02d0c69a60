/** @file Ports between threads: agents in worker threads call each other, shared memory is seen and not copied, a thread that ends is noticed. */
import { connect, createServer, type AddressInfo } from 'node:net';
import { Worker } from 'node:worker_threads';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { freePort } from '@backwire/testing';
import { fromBytes, tensor, type Tensor } from '@backwire/tensor';
import { createAgent, rpcAsync, remoteFunction, rpcInfo, type RpcAgent } from '../index.ts';
import type { Agent } from '../agent/agent.ts';
import { resolveSecurity } from '../security/policy.ts';
import { portTransport } from './port.ts';
import { createTransports } from './select.ts';
import type { ByteSink, Connection } from './transport.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A worker thread that runs test/thread.ts, whose loader has to be registered inside of it. */
function startThread(data: object): Worker {
  const url = (name: string): string =>
    JSON.stringify(pathToFileURL(createRequire(import.meta.url).resolve(name)).href);
  const program = `import(${url('tsx/esm/api')}).then(({ register }) => (register(), import(${url('../../test/thread.ts')})))`;
  const worker = new Worker(program, {
    eval: true,
    workerData: data,
    execArgv: ['--conditions=@backwire/source'],
  });
  cleanups.push(() => worker.terminate());
  return worker;
}

async function group(): Promise<{ agent: RpcAgent; worker: Worker }> {
  const store = `tcp://127.0.0.1:${await freePort()}`;
  const worker = startThread({ store, transports: ['port', 'unix'] });
  const failed = new Promise<never>((_, reject) => worker.once('error', reject));
  failed.catch(() => undefined);
  const starting = createAgent({ name: 'main', rank: 0, worldSize: 2, store, transports: ['port', 'unix'] });
  const agent = await Promise.race([starting, failed]);
  cleanups.push(() => agent.shutdown({ graceful: false }));
  return { agent, worker };
}

describe('agents in two threads', { timeout: 60_000 }, () => {
  let agent: RpcAgent;
  let worker: Worker;
  const endings: (() => unknown)[] = [];
  beforeAll(async () => {
    ({ agent, worker } = await group());
    // The threads outlive each test; the last one ends them.
    endings.push(...cleanups.splice(0));
  }, 60_000);
  afterAll(async () => {
    for (const end of endings.reverse()) await end();
  });

  test('choose the port before the socket, and call each other with tensors', async () => {
    await agent.run(async () => {
      const scale = remoteFunction<(x: Tensor, by: number) => Tensor>('thread/scale');
      const small = await rpcAsync('thread', scale, [tensor([1, 2]), 3]);
      expect(small.toArray()).toEqual([3, 6]);
      const size = 2_000_000;
      const large = await rpcAsync('thread', scale, [tensor(new Float32Array(size).fill(1.5), { shape: [size] }), 2]);
      const data = large.dataSync();
      expect([data.length, data[0], data[size - 1]]).toEqual([size, 3, 3]);
    });
    expect((agent as Agent).members.find('thread').link?.connection.kind).toBe('port');
  });

  test('send tensors over shared memory as they are, which stays whole for the sender', async () => {
    const size = 1_000_000;
    const shared = new Float32Array(new SharedArrayBuffer(size * 4)).fill(2);
    await agent.run(async () => {
      const scale = remoteFunction<(x: Tensor, by: number) => Tensor>('thread/scale');
      const x = fromBytes(new Uint8Array(shared.buffer), [size], 'float32');
      const y = await rpcAsync('thread', scale, [x, 2]);
      expect(y.dataSync()[size - 1]).toBe(4);
      expect(x.dataSync()[0]).toBe(2);
      expect(shared.byteLength).toBe(size * 4);
      expect(shared.every((each) => each === 2)).toBe(true);
    });
  });

  test('a thread that ends in the middle of a call fails it at once, with its name', async () => {
    const started = performance.now();
    await agent.run(async () => {
      const hang = remoteFunction<() => Promise<void>>('thread/hang');
      const waiting = rpcAsync('thread', hang).catch((error: unknown) => error);
      await rpcAsync('thread', remoteFunction<() => void>('thread/nothing'));
      await worker.terminate();
      const info = rpcInfo(await waiting);
      expect(info?.code).toMatch(/peer-died|unavailable/);
      expect(info?.peer?.name).toBe('thread');
    });
    console.log(`a worker thread was terminated: error after ${Math.round(performance.now() - started)} ms`);
  });
});

describe.each([undefined, ['port']])('a group of threads over %s', { timeout: 60_000 }, (transports) => {
  test('ends by itself after a clean shutdown', async () => {
    const store = `tcp://127.0.0.1:${await freePort()}`;
    const threads = [0, 1].map((rank) => startThread({ store, rank, transports, ends: true }));
    const codes = threads.map(
      (worker) => new Promise((resolve, reject) => void worker.once('error', reject).once('exit', resolve)),
    );
    // Nobody ends them: each has to run out of things to wait for.
    expect(await Promise.all(codes)).toEqual([0, 0]);
  });
});

test('where they do not work, as in Deno, the refusal says what does', () => {
  const versions = { value: { ...process.versions, deno: '2.9.0' } };
  vi.stubGlobal('process', Object.create(process, { versions }));
  cleanups.push(() => vi.unstubAllGlobals());
  const open = resolveSecurity({ mode: 'none', iUnderstand: true });
  expect(() => createTransports(['port'], open, 'g')).toThrow(
    /none of the transports port works here; leave transports out, or name some of those that do: memory, (unix, )?tcp/,
  );
});

describe('inside one thread', () => {
  async function pair(): Promise<[Connection, Connection]> {
    const transport = portTransport();
    let accepted: Connection | undefined;
    const listener = await transport.listen({}, (connection) => (accepted = connection));
    const dialled = await transport.dial(listener.endpoint);
    cleanups.push(() => (dialled.destroy(), accepted?.destroy(), listener.close()));
    return [dialled, accepted as Connection];
  }

  test('the memory of the writer is never taken away', async () => {
    const [left, right] = await pair();
    const kept = new Uint8Array(3_000_000).fill(7);
    let bytes = 0;
    const sink: ByteSink = {
      nextBuffer: () => new Uint8Array(65_536),
      received: (count) => void (bytes += count),
      closed: () => undefined,
    };
    right.attach(sink);
    await new Promise<void>((resolve, reject) =>
      left.write([kept, kept.subarray(5, 10)], (error) => (error === undefined ? resolve() : reject(error))),
    );
    expect(bytes).toBe(3_000_005);
    expect(kept.byteLength).toBe(3_000_000);
    expect(kept.every((byte) => byte === 7)).toBe(true);
  });

  test('shared memory may be changed once it was flushed, and not before', async () => {
    const [left, right] = await pair();
    const shared = new Uint8Array(new SharedArrayBuffer(1_000_000)).fill(1);
    const seen: number[] = [];
    let buffer = new Uint8Array(0);
    const sink: ByteSink = {
      nextBuffer: () => (buffer = new Uint8Array(100_000)),
      received: (count) => void seen.push(...new Set(buffer.subarray(0, count))),
      closed: () => undefined,
    };
    let flushed = false;
    left.write([shared], () => {
      flushed = true;
      shared.fill(9);
    });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(flushed).toBe(false);
    right.attach(sink);
    while (!flushed) await new Promise((resolve) => setTimeout(resolve, 1));
    expect(new Set(seen)).toEqual(new Set([1]));
  });

  test('two ends that cross close, each when the last that it sent was taken', { timeout: 5_000 }, async () => {
    const [left, right] = await pair();
    const closed = [left, right].map(
      (connection) =>
        new Promise<Error | undefined>((resolve) => {
          const buffer = new Uint8Array(64);
          connection.attach({ nextBuffer: () => buffer, received: () => undefined, closed: resolve });
        }),
    );
    // Called by a socket, both have looked for what arrived before anything does, so that only what was taken can close them.
    const knocked = createServer((socket) => {
      socket.destroy();
      for (const connection of [left, right]) {
        connection.write([new Uint8Array(10)]);
        connection.close();
      }
    });
    cleanups.push(() => knocked.close());
    knocked.listen(0, '127.0.0.1', () => connect((knocked.address() as AddressInfo).port, '127.0.0.1'));
    expect(await Promise.all(closed)).toEqual([undefined, undefined]);
  });

  test.each(['port://nowhere', 'port://1', 'port://-1-2', 'unix:///x'])('%s is no address of it', async (endpoint) => {
    const error = rpcInfo(
      await portTransport()
        .dial(endpoint)
        .catch((e: unknown) => e),
    );
    expect(error?.code).toBe('invalid-argument');
  });

  test('a thread that is not there is said not to listen', async () => {
    const error = rpcInfo(
      await portTransport()
        .dial('port://999999-1')
        .catch((e: unknown) => e),
    );
    expect(error).toMatchObject({ code: 'unavailable' });
    expect(error?.message).toContain('nobody listens');
  });
});
