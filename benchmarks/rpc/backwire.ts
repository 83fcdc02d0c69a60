/** @file Backwire as a contestant: worker 0 measures, worker 1 serves. */
import type { RpcOptions, Security, Store } from '@backwire/rpc';
import { openStore } from '@backwire/rpc/internal';
import type { Contestant } from '../measure.ts';
import { freePort, start } from '../processes.ts';
import { hooks } from './hooks.ts';

/** How the two workers talk. */
export interface BackwireOptions {
  readonly transports: readonly string[];
  readonly channels?: readonly string[];
  /** 'hooks': one that has a hook on each way; 'all': references, autograd and the profiler. @default none */
  readonly extensions?: 'hooks' | 'all';
  /** @default the agent's own: an HMAC handshake on one host */
  readonly security?: Security;
  /** Whether a thread keeps the lease alive; otherwise the main loop does. @default true */
  readonly thread?: boolean;
  /** More handlers at once than usual. */
  readonly maxConcurrentCalls?: number;
}

/** The two workers, and what only they can be asked. */
export interface BackwireContestant extends Contestant {
  /** The highest resident memory during `count` echoes, in MiB. */
  peak(mib: number, count: number): Promise<{ client: number; server: number }>;
  /** What so many open calls cost, in MiB of heap and buffers. */
  openCalls(count: number): Promise<{ client: number; server: number }>;
  /** Microseconds from a link that is lost to the answer over the next one, `count` times. */
  reconnect(count: number): Promise<number[]>;
}

/** The programs of worker 1 and worker 0. */
export const BACKWIRE_PROGRAMS: readonly [URL, URL] = [
  new URL('./backwire-worker.ts', import.meta.url),
  new URL('./backwire-client.ts', import.meta.url),
];

/** Starts both workers. */
export async function startBackwire(
  name: string,
  options: BackwireOptions,
  programs: readonly URL[] = BACKWIRE_PROGRAMS,
): Promise<BackwireContestant> {
  const env = {
    BACKWIRE_SECRET: 'only this benchmark knows',
    BENCH_STORE: `tcp://127.0.0.1:${await freePort()}`,
    BENCH_OPTIONS: JSON.stringify(options),
  };
  const worker = await start(programs[0] as URL, env, ['--expose-gc']);
  const client = await start(programs[1] as URL, env, ['--expose-gc']);
  return {
    name,
    latency: (...args) => client.ask('latency', ...args) as Promise<number[]>,
    throughput: (...args) => client.ask('throughput', ...args) as Promise<number>,
    echo: (...args) => client.ask('echo', ...args) as Promise<number>,
    openCalls: (...args) => client.ask('openCalls', ...args) as Promise<{ client: number; server: number }>,
    reconnect: (...args) => client.ask('reconnect', ...args) as Promise<number[]>,
    peak: (...args) => client.ask('peak', ...args) as Promise<{ client: number; server: number }>,
    close: async () => {
      await client.close();
      await worker.close();
    },
  };
}

/** In a worker: the options of rank 0 or 1. Names are checked by the agent itself. */
export async function agentOptions(rank: number): Promise<RpcOptions> {
  const options = JSON.parse(process.env['BENCH_OPTIONS'] ?? '{}') as BackwireOptions;
  const { transports, channels = [], extensions, security, thread = true, maxConcurrentCalls = 1024 } = options;
  const address = process.env['BENCH_STORE'] ?? '';
  return {
    name: `w${rank}`,
    rank,
    worldSize: 2,
    store: thread ? address : withoutThread((await openStore(address, { rank })).store),
    transports,
    channels,
    maxConcurrentCalls,
    extensions:
      extensions === 'all'
        ? (await import('./all-extensions.ts')).allExtensions()
        : extensions === 'hooks'
          ? [hooks]
          : [],
    ...(security === undefined ? {} : { security }),
  };
}

/** The same store, but nobody else can be given a part in holding its leases: whoever has one renews it in the main loop. */
function withoutThread(store: Store): Store {
  return new Proxy(store, {
    get: (target, key) => {
      if (key === 'ticket') return undefined;
      const value: unknown = Reflect.get(target, key);
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value;
    },
  });
}
