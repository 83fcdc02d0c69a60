/** @file The stores of the suite `scale`, each with a count of what is asked of it: requests, and bytes both ways. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStore, serveStore, tcpTransport, type Connection, type Transport } from '@backwire/rpc/internal';
import { freePort } from '../processes.ts';

/** What a store has done so far. */
interface StoreCount {
  readonly requests: number;
  readonly bytes: number;
  /** Milliseconds of processor time, where it is known. */
  readonly busyMs: number;
}

export interface CountedStore {
  /** What workers open. */
  readonly address: string;
  /** What workers need in their environment. */
  readonly env: Readonly<Record<string, string>>;
  count(): Promise<StoreCount>;
  close(): Promise<void>;
}

export type StoreKind = 'embedded' | 'redis' | 'etcd';
export const STORE_KINDS: readonly StoreKind[] = ['embedded', 'redis', 'etcd'];

const SERVERS = { redis: 'redis-server', etcd: 'etcd' } as const;
/** The first byte of an answer of an embedded store. */
const REPLY = 0x60;

/** Why a store of this kind cannot be measured here; undefined where it can. */
export function whyNot(kind: StoreKind): string | undefined {
  if (kind === 'embedded') return undefined;
  const program = SERVERS[kind];
  return spawnSync('which', [program]).status === 0 ? undefined : `no ${program} on this machine`;
}

export function startStore(kind: StoreKind): Promise<CountedStore> {
  return kind === 'embedded' ? embedded() : served(kind);
}

/** Served by this process, as by a launcher, which counts at its own end of every connection. */
async function embedded(): Promise<CountedStore> {
  const secret = 'the secret of the suite, made for this alone';
  const connections: Connection[] = [];
  let requests = 0;
  const tcp = tcpTransport();
  const counting: Transport = {
    ...{ name: tcp.name, domain: tcp.domain, isViable: () => tcp.isViable() },
    dial: (endpoint, options) => tcp.dial(endpoint, options),
    listen: (options, onConnection) =>
      tcp.listen(options, (connection) => {
        connections.push(connection);
        const write = connection.write.bind(connection);
        connection.write = (chunks, onFlushed) => {
          if (chunks[0]?.[0] === REPLY) requests++;
          write(chunks, onFlushed);
        };
        onConnection(connection);
      }),
  };
  const server = await serveStore({ secret, transport: counting });
  return {
    address: `tcp://127.0.0.1:${server.port}`,
    env: { BACKWIRE_SECRET: secret, BACKWIRE_STORE_HOSTED: '1' },
    count: async () => ({
      requests,
      bytes: connections.reduce((sum, { sentBytes, receivedBytes }) => sum + sentBytes + receivedBytes, 0),
      busyMs: (process.cpuUsage().user + process.cpuUsage().system) / 1_000,
    }),
    close: () => server.close(),
  };
}

/** A server of its own, which counts by itself. */
async function served(kind: 'redis' | 'etcd'): Promise<CountedStore> {
  const directory = mkdtempSync(join(tmpdir(), 'backwire-bench-'));
  const [port, peerPort] = [await freePort(), await freePort()];
  const [url, peer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
  const args = {
    redis: ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', directory, '--save', '', '--loglevel', 'warning'],
    etcd: [
      ...['--data-dir', directory, '--listen-client-urls', url, '--advertise-client-urls', url],
      ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer, '--initial-cluster', `default=${peer}`],
    ],
  };
  const child = spawn(SERVERS[kind], args[kind], { stdio: 'ignore' });
  const gone = new Promise((resolve) => child.once('exit', resolve).once('error', resolve));
  const close = async (): Promise<void> => {
    child.kill('SIGKILL');
    await gone;
    rmSync(directory, { recursive: true, force: true });
  };
  const address = `${kind}://127.0.0.1:${port}`;
  try {
    const { store } = await openStore(address, { timeoutMs: 30_000 });
    await store.close();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    address,
    env: { BACKWIRE_SECRET: 'the secret of the suite, made for this alone' },
    count: () => (kind === 'redis' ? countRedis(port) : countEtcd(url)),
    close,
  };
}

async function countRedis(port: number): Promise<StoreCount> {
  const text = await new Promise<string>((resolve, reject) => {
    let said = '';
    const socket = connect(port, '127.0.0.1', () => socket.write('INFO everything\r\nQUIT\r\n'));
    socket.on('data', (bytes) => (said += bytes.toString('latin1')));
    socket.on('end', () => resolve(said));
    socket.on('error', reject);
  });
  const number = (pattern: RegExp): number => Number(pattern.exec(text)?.[1] ?? 0);
  const bytes = number(/total_net_input_bytes:(\d+)/) + number(/total_net_output_bytes:(\d+)/);
  const busyMs = 1_000 * (number(/used_cpu_user:(\S+)/) + number(/used_cpu_sys:(\S+)/));
  const requests = number(/cmdstat_eval:calls=(\d+)/) + number(/cmdstat_evalsha:calls=(\d+)/);
  return { requests, bytes, busyMs };
}

async function countEtcd(url: string): Promise<StoreCount> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const sum = (name: string): number =>
    [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))].reduce((all, [, n]) => all + Number(n), 0);
  const bytes = sum('etcd_network_client_grpc_received_bytes_total') + sum('etcd_network_client_grpc_sent_bytes_total');
  return { requests: sum('grpc_server_handled_total'), bytes, busyMs: 1_000 * sum('process_cpu_seconds_total') };
}
