import { describe, expect, it } from 'vitest';
import { processGroup } from '@backwire/rpc';
import { manualSeed, nn, ones, type Tensor } from '@backwire/tensor';
import { expectClean, useAgents } from './agents.ts';
import { backward, context, getGradients } from '../src/index.ts';

const { at, agents } = useAgents('ddp-tags', 2);
type Replica = nn.DistributedDataParallel<nn.Linear>;
type Hook = (group: nn.ProcessGroup, bucket: nn.GradBucket) => Promise<Tensor>;

function replicas(rank: number, count: number, hook?: Hook): Replica[] {
  return at(rank, () => {
    const group = processGroup();
    return Array.from({ length: count }, () => {
      manualSeed(1);
      const ddp = new nn.DistributedDataParallel(new nn.Linear(1, 1, { bias: false }), { group });
      if (hook !== undefined) ddp.registerCommHook(group, hook);
      return ddp;
    });
  });
}

function step(rank: number, ddp: Replica, scale: number, timeoutMs: number): Promise<number | string | undefined> {
  return at(rank, () =>
    context(async (id) => {
      await backward(id, [ddp.forward(ones([1, 1]).mul(scale)).sum()], { timeoutMs });
      return getGradients(id).get(ddp.module.weight)?.item();
    }),
  ).catch((error: unknown) => (error as Error).message);
}

describe('gradients of replicas', () => {
  it('never meet those of another replica of the same group, and both hear which and whose', async () => {
    const [a, b] = [replicas(0, 2), replicas(1, 2)];
    const told = await Promise.all([step(0, a[0]!, 1, 9_000), step(1, b[1]!, 3, 9_000)]);
    for (const text of told)
      expect(text).toMatch(/worker 'w[01]' brought a value of replica \d, worker 'w[01]' one of replica \d/);
    const [c, d] = [replicas(0, 1)[0]!, replicas(1, 1)[0]!];
    expect(await Promise.all([step(0, c, 1, 9_000), step(1, d, 3, 9_000)])).toEqual([2, 2]);
    await expectClean(agents);
  });

  it('are withdrawn from a hook of the program too when their pass fails', async () => {
    const signals: AbortSignal[] = [];
    const hook: Hook = (group, bucket) => {
      signals.push(bucket.signal);
      return group.allReduce(bucket.buffer(), 'mean', { signal: bucket.signal, tags: bucket.tags });
    };
    const [a, b] = [replicas(0, 1, hook)[0]!, replicas(1, 1, hook)[0]!];
    expect(await Promise.all([step(0, a, 1, 9_000), step(1, b, 3, 9_000)])).toEqual([2, 2]);
    expect(await step(0, a, 1_000, 300)).toMatch('RPC ran for more than');
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false, true]);
    await new Promise((resolve) => setTimeout(resolve, 50));
    const mean = (rank: number): Promise<number> =>
      at(rank, async () => (await processGroup().allReduce(ones([1]), 'mean', { timeoutMs: 9_000 })).item());
    expect(await Promise.all([mean(1), mean(0)])).toEqual([1, 1]);
    await expectClean(agents);
  });

  it('do not wait for a hook that does not end when their pass fails', async () => {
    const hook: Hook = () => new Promise(() => undefined);
    expect(await step(0, replicas(0, 1, hook)[0]!, 1, 300)).toMatch('RPC ran for more than');
    await expectClean(agents);
  });
});
