/** @file Groups of agents in one process, for tests. */
import type { Agent } from '../src/agent/agent.ts';
import { createAgent, type RpcAgent, type RpcOptions } from '../src/index.ts';

let groups = 0;

/** Agents 'w0', 'w1' … that share a store of their own; `close` shuts down those that still run. */
export interface Cluster {
  readonly agents: RpcAgent[];
  readonly store: string;
  /** The agent of a rank. */
  at(rank: number): RpcAgent;
  close(): Promise<void>;
}

/** Starts `size` agents at once, with options for all or by rank; of a group that grows if not `sized`. */
export async function startCluster(
  size: number,
  options: Partial<RpcOptions> | ((rank: number) => Partial<RpcOptions>) = {},
  sized = true,
): Promise<Cluster> {
  const store = `memory://cluster-${process.pid}-${groups++}`;
  const of = typeof options === 'function' ? options : () => options;
  const agents = await Promise.all(
    Array.from({ length: size }, (_, rank) =>
      createAgent({
        name: `w${rank}`,
        rank,
        ...(sized ? { worldSize: size } : {}),
        store,
        initTimeoutMs: 20_000,
        ...of(rank),
      }),
    ),
  );
  return {
    agents,
    store,
    at: (rank) => {
      const agent = agents[rank];
      if (agent === undefined) throw new RangeError(`no agent of rank ${rank}`);
      return agent;
    },
    close: async () => {
      await Promise.allSettled(agents.map((agent) => agent.shutdown({ graceful: false })));
    },
  };
}

/** Resolves when `condition` holds; rejects after a while. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what = 'a condition',
  timeoutMs = 10_000,
): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`${what} did not come true in ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** Meetings that are open at any worker. */
export function openMeetings({ agents }: Cluster): number {
  return agents.reduce((sum, agent) => {
    const { collectives } = agent as unknown as Agent;
    return sum + (collectives as unknown as { meetings: { size: number } }).meetings.size;
  }, 0);
}
