/** @file gRPC for Node as a contestant, over a Unix socket, without TLS. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Contestant } from '../measure.ts';
import { start } from '../processes.ts';

/** Larger messages take it seconds each. */
const MAX_ECHO_MIB = 64;

/** Starts a server and a process that measures. */
export async function startGrpc(): Promise<Contestant> {
  const directory = mkdtempSync(join(tmpdir(), 'bench-'));
  const address = `unix:${join(directory, 's')}`;
  const server = await start(new URL('./grpc-server.ts', import.meta.url));
  await server.ask('listen', address);
  const client = await start(new URL('./grpc-client.ts', import.meta.url));
  await client.ask('dial', address);
  // A tenth of the calls: it takes ten times as long for each.
  const tenth = (count: number): number => Math.ceil(count / 10);
  return {
    name: 'gRPC (grpc-js)',
    latency: (payload, count) => client.ask('latency', payload, tenth(count)) as Promise<number[]>,
    throughput: (payload, count, inFlight) =>
      client.ask('throughput', payload, tenth(count), inFlight) as Promise<number>,
    echo: (mib, count) =>
      mib > MAX_ECHO_MIB ? undefined : (client.ask('echo', mib, Math.min(4, count)) as Promise<number>),
    close: async () => {
      await client.close();
      await server.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
