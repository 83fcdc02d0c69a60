/** @file Static groups of our own workers in one process. */
import { freePort } from '@backwire/testing';
import type { TorchAgent } from '../src/agent.ts';
import { createTorchAgent } from '../src/join.ts';
import type { TorchOptions } from '../src/options.ts';

/** Workers n0, n1 … of one group. */
export async function group(size: number, channels?: TorchOptions['channels']): Promise<TorchAgent[]> {
  const port = await freePort();
  return Promise.all(
    Array.from({ length: size }, (_, rank) =>
      createTorchAgent({
        name: `n${rank}`,
        rank,
        worldSize: size,
        initMethod: `tcp://127.0.0.1:${port}`,
        trustNetwork: true,
        initTimeoutMs: 20_000,
        generation: 0,
        channels,
      }),
    ),
  );
}

export function leave(agents: readonly TorchAgent[]): Promise<unknown> {
  return Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 10_000, onLeak: 'throw' })));
}
