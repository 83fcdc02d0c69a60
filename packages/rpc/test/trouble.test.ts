/** @file What goes wrong around an agent, and how long it takes until somebody is told in clear words: each case prints its time. */
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { ChaosProxy, eventually, freePort, TestCluster } from '@backwire/testing';
import { full, type Tensor } from '@backwire/tensor';
import { afterEach, describe, expect, it } from 'vitest';
import type { Agent } from '../src/agent/agent.ts';
import { createAgent, rpcFunction, rpcInfo, rpcSync, type RpcAgent, type RpcOptions } from '../src/index.ts';
import { startCluster, until, type Cluster } from './cluster.ts';
import { redirect } from './proxied.ts';

let runs = 0;
const double = rpcFunction('trouble/double', (x: Tensor) => {
  runs++;
  return x.mul(2);
});
const echo = rpcFunction('trouble/echo', (x: unknown) => x);

const SECRET = { mode: 'hmac', secret: 'the secret of the trouble test' } as const;
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  runs = 0;
});

async function start(options: Partial<RpcOptions> | ((rank: number) => Partial<RpcOptions>)): Promise<Cluster> {
  const cluster = await startCluster(2, options);
  closing.push(() => cluster.close());
  return cluster;
}
/** Where an agent listens for TCP. */
function portOf(agent: RpcAgent): number {
  const { endpoint } = (agent as Agent).listeners.find((each) => each.endpoint.startsWith('tcp:')) as {
    endpoint: string;
  };
  return Number(endpoint.split(':').at(-1));
}
/** Makes every dial of `agent` go to `port`. */
function detour(agent: RpcAgent, port: number): void {
  redirect(agent, () => `tcp://127.0.0.1:${port}`);
}
async function stranger(port: number): Promise<{ socket: Socket; ended: Promise<Buffer> }> {
  const socket = connect(port, '127.0.0.1');
  closing.push(() => socket.destroy());
  const parts: Buffer[] = [];
  socket.on('data', (bytes: Buffer) => parts.push(bytes));
  socket.on('error', () => undefined);
  const ended = new Promise<Buffer>((resolve) => socket.once('close', () => resolve(Buffer.concat(parts))));
  await new Promise((resolve) => socket.once('connect', resolve));
  return { socket, ended };
}
/** What is promised at most, with the defaults; those here are shorter. */
const PROMISED_MS = 15_000;

async function timed<T>(what: string, promise: Promise<T>): Promise<T> {
  const began = performance.now();
  const value = await promise;
  const took = performance.now() - began;
  console.log(`${what}: ${Math.round(took)} ms`);
  expect(took).toBeLessThan(PROMISED_MS);
  return value;
}

describe('signals', { timeout: 60_000 }, () => {
  it('SIGKILL is told by name in about a second, SIGSTOP when the lease has run out; the others go on', async () => {
    const env = { MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(await freePort()), BACKWIRE_SECRET: SECRET.secret };
    const program = new URL('./worker.ts', import.meta.url);
    await using workers = new TestCluster({ program, worldSize: 4, args: ['signalled'], env });
    await workers.worker(0).line(/^ready/);
    workers.worker(1).kill('SIGKILL');
    expect(await timed('SIGKILL', workers.worker(0).line(/^failed w1/))).toBe('failed w1 peer-died maybe w1');
    workers.worker(2).kill('SIGSTOP');
    // Both of its threads stand still, so nothing renews its lease; liveness is a tenth of the defaults here.
    expect(await timed('SIGSTOP, with dead after 1.5 s', workers.worker(0).line(/^failed w2/))).toMatch(
      /^failed w2 (peer-died|unavailable) maybe w2$/,
    );
    expect(await workers.worker(0).line(/^others/)).toBe('others still here');
    workers.worker(2).kill('SIGKILL');
  });
});

describe('a socket that is reset in the middle of a tensor', () => {
  const size = 8_000_000;

  /** The call has begun to send its tensor, and not finished. */
  async function midway(
    options: Partial<RpcOptions>,
  ): Promise<{ proxy: ChaosProxy; answer: Promise<Tensor>; agent: RpcAgent }> {
    const cluster = await start({ transports: ['tcp'], security: SECRET, ...options });
    const agent = cluster.at(0);
    const proxy = await ChaosProxy.start({
      target: { port: portOf(cluster.at(1)) },
      up: { bytesPerSecond: 40_000_000 },
    });
    closing.push(() => proxy.close());
    for (const each of cluster.agents) detour(each, proxy.port);
    const answer = agent.run(() => rpcSync('w1', double, [full([size], 3)], { timeoutMs: 20_000 }));
    answer.catch(() => undefined);
    const peer = (agent as Agent).members.find('w1');
    await eventually('a part was sent', () => peer.bytesSent > 2_000_000);
    return { proxy, answer, agent };
  }

  it('goes on where it stood, and runs once', async () => {
    const { proxy, answer } = await midway({});
    expect(proxy.resetAll()).toBe(1);
    proxy.up.bytesPerSecond = Infinity;
    const y = await timed('reset in mid-tensor, the whole result', answer);
    expect(y.size).toBe(size);
    const data = y.dataSync();
    expect(data.every((value) => value === 6)).toBe(true);
    expect(runs).toBe(1);
    expect(proxy.accepted).toBeGreaterThan(1);
  });

  it('is an error that names the worker when it does not come back', async () => {
    const { proxy, answer } = await midway({ liveness: { reconnectGraceMs: 500 } });
    proxy.refusing = true;
    proxy.resetAll();
    const info = rpcInfo(
      await timed(
        'reset in mid-tensor and refused ever after',
        answer.catch((error: unknown) => error),
      ),
    );
    expect(info?.code).toMatch(/unavailable|peer-died/);
    expect(info?.peer?.name).toBe('w1');
    expect(runs).toBe(0);
  });
});

describe('strangers at the port of an agent', { timeout: 30_000 }, () => {
  it('HTTP is hung up on at once, and members still get in', async () => {
    const cluster = await start({ transports: ['tcp'], security: SECRET });
    const { socket, ended } = await stranger(portOf(cluster.at(1)));
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    expect((await timed('HTTP on the port', ended)).toString('latin1')).not.toContain('HTTP');
    expect(await cluster.at(0).run(() => rpcSync('w1', echo, ['member']))).toBe('member');
  });

  it('bytes that drip are cut off when the time for the handshake is up', async () => {
    const cluster = await start({ transports: ['tcp'], security: SECRET });
    const { socket, ended } = await stranger(portOf(cluster.at(1)));
    const hello = Uint8Array.of(0x42, 0x4b, 0x57, 0x52, 1, 1, 200, 0);
    let at = 0;
    const drip = setInterval(() => socket.write(Uint8Array.of(hello[at++] ?? 0)), 100);
    closing.push(() => clearInterval(drip));
    const calls = cluster.at(0).run(() => rpcSync('w1', echo, ['meanwhile']));
    await timed('slow drip, with 5 s for the handshake', ended);
    expect(await calls).toBe('meanwhile');
  });

  it('a recorded handshake is worth nothing when it is played again', async () => {
    const cluster = await start({ transports: ['tcp'], security: SECRET });
    const recorded: Buffer[] = [];
    const relay: Server = createServer((client) => {
      const target = connect(portOf(cluster.at(1)), '127.0.0.1');
      client.on('data', (bytes: Buffer) => {
        recorded.push(bytes);
        target.write(bytes);
      });
      target.on('data', (bytes: Buffer) => client.write(bytes));
      for (const socket of [client, target])
        socket.on('error', () => undefined).on('close', () => (client.destroy(), target.destroy()));
    });
    await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve));
    closing.push(() => relay.close());
    detour(cluster.at(0), (relay.address() as AddressInfo).port);
    expect(await cluster.at(0).run(() => rpcSync('w1', echo, ['recorded']))).toBe('recorded');

    const handled = cluster.at(1).metrics()['calls_handled'];
    const { socket, ended } = await stranger(portOf(cluster.at(1)));
    socket.write(Buffer.concat(recorded));
    const answer = await timed('a replayed handshake', ended);
    // A CHALLENGE with another nonce, then REJECT (type 5), and nothing of the session.
    expect(answer.at(-3)).toBe(5);
    expect(cluster.at(1).metrics()['calls_handled']).toBe(handled);
    expect(await cluster.at(0).run(() => rpcSync('w1', echo, ['still']))).toBe('still');
  });
});

it('another secret is an error in words, for both who joins and who is called', async () => {
  const other = { mode: 'hmac', secret: 'another secret altogether' } as const;
  const cluster = await start((rank) => ({ transports: ['tcp'], security: rank === 0 ? SECRET : other }));
  await until(() => cluster.at(0).debugInfo()['agent.peers'] === 1);
  const error: unknown = await timed(
    'another secret',
    cluster
      .at(0)
      .run(() => rpcSync('w1', echo, [1]))
      .catch((e: unknown) => e),
  );
  expect(rpcInfo(error)).toMatchObject({ code: 'unauthenticated', executed: 'no' });
  expect((error as Error).message).toMatch(/secret, group or security mode differ/);

  const port = await freePort();
  const store = `tcp://127.0.0.1:${port}`;
  const host = createAgent({ name: 'w0', rank: 0, membership: 'dynamic', store, security: SECRET });
  closing.push(async () => (await host).shutdown({ graceful: false }));
  await host;
  const refused: unknown = await timed(
    'another secret at the store',
    createAgent({ name: 'w1', rank: 1, membership: 'dynamic', store, security: other }).catch((e: unknown) => e),
  );
  expect(rpcInfo(refused)?.code).toBe('unauthenticated');
});
