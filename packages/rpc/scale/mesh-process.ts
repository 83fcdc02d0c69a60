/** @file One process of the mesh: starts its share of the workers, calls every other worker from each, and says how long it took. */
import { createAgent, rpcFunction, rpcSync, type RpcAgent } from '../src/index.ts';

/** What the parent says. */
export type Order =
  | { readonly do: 'start'; readonly ranks: readonly number[]; readonly workers: number; readonly store: string }
  | { readonly do: 'mesh'; readonly workers: number }
  | { readonly do: 'end' };

const whoami = rpcFunction('mesh/whoami', (rank: number) => rank);
const agents = new Map<number, RpcAgent>();

async function start({ ranks, workers, store }: Extract<Order, { do: 'start' }>): Promise<void> {
  await Promise.all(
    ranks.map(async (rank) => {
      const agent = await createAgent({ name: `w${rank}`, rank, worldSize: workers, store, initTimeoutMs: 240_000 });
      agents.set(rank, agent);
    }),
  );
}

/** Every worker calls every other one, itself included: each link of the group is up afterwards. */
async function mesh(workers: number): Promise<number> {
  const calls = [...agents.values()].flatMap((agent) =>
    Array.from({ length: workers }, (_, rank) =>
      agent.run(() => rpcSync(`w${rank}`, whoami, [rank], { timeoutMs: 0 })),
    ),
  );
  const answers = await Promise.all(calls);
  if (answers.some((answer, i) => answer !== i % workers)) throw new Error('a wrong answer');
  const linked = [...agents.values()].every((agent) => agent.debugInfo()['agent.connected_peers'] === workers - 1);
  if (!linked) throw new Error('a link is not up');
  return calls.length;
}

process.on('message', (order: Order) => {
  const work = async (): Promise<object> => {
    if (order.do === 'start') return (await start(order), { rss: process.memoryUsage().rss });
    if (order.do === 'mesh') return { calls: await mesh(order.workers), rss: process.memoryUsage().rss };
    await Promise.all([...agents.values()].map((agent) => agent.shutdown({ graceful: false })));
    setImmediate(() => process.exit());
    return {};
  };
  work().then(
    (result) => process.send?.(result),
    (error: unknown) => process.send?.({ error: error instanceof Error ? error.stack : String(error) }),
  );
});
process.send?.('up');
