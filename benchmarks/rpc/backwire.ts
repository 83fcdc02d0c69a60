/** @file Backwire as a contestant: this process is worker 0, a second process is worker 1. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { createAgent, rpcAsync, type RpcAgent } from '@backwire/rpc';
import { zeros } from '@backwire/tensor';
import { echoRate, type Contestant } from '../measure.ts';
import { echo, nothing } from './served.ts';

/** How the two workers talk. */
export interface BackwireOptions {
  readonly transports: readonly string[];
  readonly channels: readonly string[];
}

/** Starts both workers. */
export async function startBackwire(name: string, options: BackwireOptions): Promise<Contestant> {
  const port = await freePort();
  const store = `tcp://127.0.0.1:${port}`;
  const flags = ['--import', 'tsx', '--conditions=@backwire/source'];
  const program = new URL('./backwire-worker.ts', import.meta.url).pathname;
  const env = { ...process.env, BACKWIRE_SECRET: SECRET, BENCH_STORE: store, BENCH_OPTIONS: JSON.stringify(options) };
  const child = spawn(process.execPath, [...flags, program], { env, stdio: ['pipe', 'inherit', 'inherit'] });
  process.env['BACKWIRE_SECRET'] = SECRET;
  const agent = await createAgent({ name: 'w0', rank: 0, worldSize: 2, store, ...agentOptions(options) });
  return {
    name,
    latency: (count) => agent.run(() => latency(count)),
    throughput: (count) => agent.run(() => throughput(count)),
    echo: (mib, count) => agent.run(() => echoes(mib, count)),
    close: async () => {
      await stop(agent);
      child.stdin.end();
      await once(child, 'close');
    },
  };
}

/** The parts of the agent's options that both sides share. */
export function agentOptions(options: BackwireOptions): { transports: never; channels: never } {
  // The names are checked by the agent itself.
  return options as unknown as { transports: never; channels: never };
}

const SECRET = 'only this benchmark knows';

async function latency(count: number): Promise<number[]> {
  const samples: number[] = [];
  for (let i = 0; i < count; i++) {
    const started = performance.now();
    await rpcAsync('w1', nothing);
    samples.push((performance.now() - started) * 1_000);
  }
  return samples;
}

async function throughput(count: number): Promise<number> {
  const started = performance.now();
  await Promise.all(Array.from({ length: count }, () => rpcAsync('w1', nothing)));
  return count / ((performance.now() - started) / 1_000);
}

async function echoes(mib: number, count: number): Promise<number> {
  const sent = zeros([mib * 262_144]);
  const started = performance.now();
  for (let i = 0; i < count; i++) {
    const back = await rpcAsync('w1', echo, [sent], { timeoutMs: 0 });
    if (back.size !== sent.size) throw new Error('another tensor came back');
    back.dispose();
  }
  const elapsed = performance.now() - started;
  sent.dispose();
  return echoRate(mib, count, elapsed);
}

async function stop(agent: RpcAgent): Promise<void> {
  await agent.shutdown({ graceful: false });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
