/** Several replicated models in one context: in which order workers run them does not matter. */
import type { RpcAgent } from '@backwire/rpc';
import { processGroup } from '@backwire/rpc';
import { nn } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { expectClean, useAgents } from './agents.ts';
import { passOver, replicasAt, Slope, type Replica } from './replica-models.ts';
import { context } from '../src/index.ts';

const { agents, at } = useAgents('ddp-order', 3);

/** One pass on each worker, over replicas and their slopes in its own order. */
function passes(runs: readonly (readonly (readonly [Replica, number])[])[]): Promise<unknown[]> {
  return Promise.all(
    runs.map((own, rank) =>
      at(rank, () => context((id) => passOver(id, own, { timeoutMs: 4_000 }))).catch((error: unknown) => error),
    ),
  );
}

/** A group of the program's that asks another: nobody asks it for a seat. */
const asking = (group: nn.ProcessGroup): nn.ProcessGroup => ({
  rank: group.rank,
  size: group.size,
  allReduce: (...args) => group.allReduce(...args),
  broadcast: (...args) => group.broadcast(...args),
});

describe('replicas in one context', () => {
  it('of different groups are combined at the same time, whatever the order of their forwards', async () => {
    const [a, b] = [replicasAt(agents, [0, 1]), replicasAt(agents, [0, 1])];
    const found = await passes([
      [
        [a.get(0)!, 1],
        [b.get(0)!, 10],
      ],
      [
        [b.get(1)!, 30],
        [a.get(1)!, 3],
      ],
    ]);
    expect(found).toEqual([
      [2, 20],
      [20, 2],
    ]);
    await expectClean(agents);
  });

  it('of groups that overlap in a circle do not wait for each other', async () => {
    const [a, b, c] = [replicasAt(agents, [0, 1]), replicasAt(agents, [1, 2]), replicasAt(agents, [0, 2])];
    const found = await passes([
      [
        [a.get(0)!, 1],
        [c.get(0)!, 100],
      ],
      [
        [b.get(1)!, 10],
        [a.get(1)!, 3],
      ],
      [
        [c.get(2)!, 300],
        [b.get(2)!, 30],
      ],
    ]);
    expect(found).toEqual([
      [2, 200],
      [20, 2],
      [200, 20],
    ]);
    await expectClean(agents);
  });

  it.each([
    ['a process group', (group: nn.ProcessGroup) => () => group],
    ['classes that ask one process group', (group: nn.ProcessGroup) => () => asking(group)],
  ])('of %s are combined in the order in which they were made', async (_what, groupsOf) => {
    const workers = ['w0', 'w1'];
    const [first, second] = [0, 1].map((rank) => {
      const next = groupsOf(processGroup({ agent: agents[rank] as RpcAgent, workers }));
      return [0, 1, 2].map(() => new nn.DistributedDataParallel(new Slope(), { group: next() }));
    }) as [Replica[], Replica[]];
    const found = await passes([
      [
        [first[2]!, 100],
        [first[0]!, 1],
        [first[1]!, 10],
      ],
      [
        [second[1]!, 30],
        [second[2]!, 300],
        [second[0]!, 3],
      ],
    ]);
    expect(found).toEqual([
      [200, 2, 20],
      [20, 200, 2],
    ]);
    await expectClean(agents);
  });
});
