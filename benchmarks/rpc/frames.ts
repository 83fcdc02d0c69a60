/** @file Bare frames as a contestant: what is left when calls, security, liveness and promises are taken away, and sessions or not. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Contestant } from '../measure.ts';
import { start } from '../processes.ts';

export async function startFrames(name: string, how: 'bare' | 'session' = 'bare'): Promise<Contestant> {
  const directory = mkdtempSync(join(tmpdir(), 'bench-'));
  const server = await start(new URL('./frames-server.ts', import.meta.url));
  const client = await start(new URL('./frames-client.ts', import.meta.url));
  await client.ask('dial', await server.ask('listen', directory, how), how);
  return {
    name,
    latency: (...args) => client.ask('latency', ...args) as Promise<number[]>,
    throughput: (...args) => client.ask('throughput', ...args) as Promise<number>,
    echo: () => undefined,
    close: async () => {
      await client.close();
      await server.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
