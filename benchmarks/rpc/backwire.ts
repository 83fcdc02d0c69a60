/** @file Backwire as a contestant: worker 0 measures, worker 1 serves. */
import type { RpcOptions } from '@backwire/rpc';
import type { Contestant } from '../measure.ts';
import { freePort, start } from '../processes.ts';
import { hooks } from './hooks.ts';

/** How the two workers talk. */
export interface BackwireOptions {
  readonly transports: readonly string[];
  readonly channels?: readonly string[];
  /** With an extension that has a hook on each way. */
  readonly hooks?: boolean;
  /** More handlers at once than usual. */
  readonly maxConcurrentCalls?: number;
}

/** The two workers, and what only they can be asked. */
export interface BackwireContestant extends Contestant {
  /** The highest resident memory during `count` echoes, in MiB. */
  peak(mib: number, count: number): Promise<{ client: number; server: number }>;
  /** What so many open calls cost, in MiB of heap and buffers. */
  openCalls(count: number): Promise<{ client: number; server: number }>;
}

/** Starts both workers. */
export async function startBackwire(name: string, options: BackwireOptions): Promise<BackwireContestant> {
  const env = {
    BACKWIRE_SECRET: 'only this benchmark knows',
    BENCH_STORE: `tcp://127.0.0.1:${await freePort()}`,
    BENCH_OPTIONS: JSON.stringify(options),
  };
  const worker = await start(new URL('./backwire-worker.ts', import.meta.url), env, ['--expose-gc']);
  const client = await start(new URL('./backwire-client.ts', import.meta.url), env, ['--expose-gc']);
  return {
    name,
    latency: (...args) => client.ask('latency', ...args) as Promise<number[]>,
    throughput: (...args) => client.ask('throughput', ...args) as Promise<number>,
    echo: (...args) => client.ask('echo', ...args) as Promise<number>,
    openCalls: (...args) => client.ask('openCalls', ...args) as Promise<{ client: number; server: number }>,
    peak: (...args) => client.ask('peak', ...args) as Promise<{ client: number; server: number }>,
    close: async () => {
      await client.close();
      await worker.close();
    },
  };
}

/** In a worker: the options that both share. Names are checked by the agent itself. */
export function agentOptions(): RpcOptionsOfBoth {
  const options = JSON.parse(process.env['BENCH_OPTIONS'] ?? '{}') as BackwireOptions;
  const { transports, channels = [], hooks: hooked = false, maxConcurrentCalls = 1024 } = options;
  return {
    worldSize: 2,
    store: process.env['BENCH_STORE'] ?? '',
    transports,
    channels,
    maxConcurrentCalls,
    extensions: hooked ? [hooks] : [],
  };
}

type RpcOptionsOfBoth = Required<
  Pick<RpcOptions, 'worldSize' | 'store' | 'transports' | 'channels' | 'maxConcurrentCalls' | 'extensions'>
>;
