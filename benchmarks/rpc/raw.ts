/** @file Raw sockets as a contestant: no protocol at all, and memory that is used again for every message. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Contestant } from '../measure.ts';
import { start } from '../processes.ts';

/** Starts a process that measures and one that sends back what it gets. */
export async function startRaw(kind: 'unix' | 'tcp'): Promise<Contestant> {
  const directory = kind === 'unix' ? mkdtempSync(join(tmpdir(), 'bench-')) : '';
  const server = await start(new URL('./raw-server.ts', import.meta.url));
  const client = await start(new URL('./raw-client.ts', import.meta.url));
  const places = (await server.ask('listen', directory)) as unknown[];
  await server.ask('dial', await client.ask('listen', directory));
  await client.ask('dial', ...places);
  return {
    name: kind === 'unix' ? 'raw Unix socket' : 'raw TCP socket',
    latency: (payload, count) =>
      payload === 'nothing' ? (client.ask('latency', payload, count) as Promise<number[]>) : undefined,
    throughput: (payload, ...args) =>
      payload === 'nothing' ? (client.ask('throughput', payload, ...args) as Promise<number>) : undefined,
    echo: (...args) => client.ask('echo', ...args) as Promise<number>,
    close: async () => {
      await client.close();
      await server.close();
      if (directory !== '') rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** The memory bandwidth of one copy of `mib` MiB, GiB per second. */
export function copyRate(mib: number, count: number): number {
  const from = Buffer.alloc(mib * 1_048_576, 1);
  const to = Buffer.alloc(from.length);
  from.copy(to);
  const started = performance.now();
  for (let i = 0; i < count; i++) from.copy(to);
  return (mib * count) / 1_024 / ((performance.now() - started) / 1_000);
}
