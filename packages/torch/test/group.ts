/** @file Static groups of our own workers in one process. */
import { freePort } from '@backwire/testing';
import type { Agent } from '../src/agent.ts';
import type { TorchOptions } from '../src/options.ts';
import { member } from './member.ts';

/** Workers n0, n1 … of one group. */
export async function group(size: number, channels?: TorchOptions['channels']): Promise<Agent[]> {
  const port = await freePort();
  return Promise.all(
    Array.from({ length: size }, (_, rank) =>
      member({
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

export function leave(agents: readonly Agent[]): Promise<unknown> {
  return Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 10_000, onLeak: 'throw' })));
}
