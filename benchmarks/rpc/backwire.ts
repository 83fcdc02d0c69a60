/** @file Backwire as a contestant: worker 0 measures, worker 1 serves. */
import type { Contestant } from '../measure.ts';
import { freePort, start } from '../processes.ts';

/** How the two workers talk. */
export interface BackwireOptions {
  readonly transports: readonly string[];
  readonly channels?: readonly string[];
}

/** The two workers, and what only they can be asked. */
export interface BackwireContestant extends Contestant {
  /** The highest resident memory during `count` echoes, in MiB. */
  peak(mib: number, count: number): Promise<{ client: number; server: number }>;
}

/** Starts both workers. */
export async function startBackwire(name: string, options: BackwireOptions): Promise<BackwireContestant> {
  const env = {
    BACKWIRE_SECRET: 'only this benchmark knows',
    BENCH_STORE: `tcp://127.0.0.1:${await freePort()}`,
    BENCH_OPTIONS: JSON.stringify(options),
  };
  const worker = await start(new URL('./backwire-worker.ts', import.meta.url), env);
  const client = await start(new URL('./backwire-client.ts', import.meta.url), env);
  return {
    name,
    latency: (...args) => client.ask('latency', ...args) as Promise<number[]>,
    throughput: (...args) => client.ask('throughput', ...args) as Promise<number>,
    echo: (...args) => client.ask('echo', ...args) as Promise<number>,
    peak: (...args) => client.ask('peak', ...args) as Promise<{ client: number; server: number }>,
    close: async () => {
      await client.close();
      await worker.close();
    },
  };
}

/** In a worker: the options that both share. The names are checked by the agent itself. */
export function agentOptions(): { worldSize: number; store: string; transports: never; channels: never } {
  const { transports, channels } = JSON.parse(process.env['BENCH_OPTIONS'] ?? '{}') as BackwireOptions;
  return {
    worldSize: 2,
    store: process.env['BENCH_STORE'] ?? '',
    transports: transports as never,
    channels: (channels ?? []) as never,
  };
}
