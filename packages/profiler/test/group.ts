/** @file Groups of agents in one process that can be profiled, and functions that they serve. */
import { afterEach } from 'vitest';
import { createAgent, rpcFunction, type Extension, type RpcAgent } from '@backwire/rpc';
import type { Tensor } from '@backwire/tensor';
import { profiling, type ProfileEvent } from '../src/index.ts';

interface Groups {
  /** Starts agents `w0`, `w1`, …, which end after the test; those of `without` cannot be profiled and have none of `more`. */
  group(count: number, without?: readonly number[], more?: readonly Extension[]): Promise<readonly RpcAgent[]>;
  /** Runs `fn` on one of those that were started last. */
  on<T>(rank: number, fn: () => T): T;
}

/** Groups for the tests of a file, which is named. */
export function useGroups(file: string): Groups {
  let agents: readonly RpcAgent[] = [];
  let counter = 0;
  afterEach(async () => {
    const ending = agents;
    agents = [];
    await Promise.all(ending.map((agent) => agent.shutdown({ timeoutMs: 10_000, onLeak: 'throw' })));
  });
  return {
    group: async (count, without = [], more = []) => {
      const store = `memory://${file}-${++counter}`;
      const start = (rank: number): Promise<RpcAgent> =>
        createAgent({
          name: `w${rank}`,
          rank,
          worldSize: count,
          store,
          extensions: without.includes(rank) ? [] : [profiling(), ...more],
        });
      return (agents = await Promise.all(Array.from({ length: count }, (_, rank) => start(rank))));
    },
    on: (rank, fn) => {
      const agent = agents[rank];
      if (agent === undefined) throw new Error(`no agent ${rank}`);
      return agent.run(fn);
    },
  };
}

export const names = (events: readonly ProfileEvent[]): string[] => events.map(({ name }) => name);

export const double = rpcFunction('profiling.test/double', (x: Tensor) => x.add(x));
/** An addition, some time, and a product. */
export const slow = rpcFunction('profiling.test/slow', async (x: Tensor, ms: number) => {
  const before = x.add(1);
  await new Promise((done) => setTimeout(done, ms));
  return before.mul(2);
});
