/** @file How long what a process group is asked for waits for members that do not come, and what is said then. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { nn, ones, Parameter, zeros, type Tensor } from '@backwire/tensor';
import { processGroup, rpcInfo } from '../src/index.ts';
import { GROUP_TIMEOUT_MS } from '../src/base/limits.ts';
import { openMeetings, startCluster, until, type Cluster } from './cluster.ts';

vi.mock(import('../src/base/limits.ts'), async (original) => ({
  ...(await original()),
  GROUP_TIMEOUT_MS: 400,
}));

class One extends nn.Module {
  readonly weight: Parameter;
  constructor(size: number) {
    super();
    this.weight = new Parameter(zeros([size]));
  }
  forward(slope: number): Tensor {
    return this.weight.sum().mul(slope);
  }
}

let cluster: Cluster;
beforeEach(async () => {
  cluster = await startCluster(3);
});
afterEach(() => cluster.close());

const pass = (model: nn.DistributedDataParallel<One>): Promise<unknown> =>
  model.backward(model.forward(1)).then(
    () => 'passed',
    (error: unknown) => error,
  );

it('is half an hour, in production', async () => {
  const real = await vi.importActual('../src/base/limits.ts');
  expect([real.GROUP_TIMEOUT_MS, GROUP_TIMEOUT_MS]).toEqual([1_800_000, 400]);
});

it.each([
  ['a small gradient, by the limit of all groups', 2, {}, '0.40'],
  ['a large one', 50_000, {}, '0.40'],
  ['one of its own', 2, { timeoutMs: 150 }, '0.15'],
])('ends a pass of replicas that some never come to, for all: %s', async (_, size, options, seconds) => {
  const models = cluster.agents.map(
    (agent) => new nn.DistributedDataParallel(new One(size), { group: processGroup({ agent, ...options }) }),
  );
  expect(await Promise.all(models.map(pass))).toEqual(['passed', 'passed', 'passed']);
  // It throws between forward and backward, and goes on with something else.
  const errors = await Promise.all(models.slice(0, 2).map(pass));
  const text = `worker 'w2' did not come to allReduce() of the group of replica 1 within ${seconds} s`;
  for (const error of errors) expect(String(error)).toContain(text);
  expect(errors.map((error) => rpcInfo(error)?.code)).toContain('deadline-exceeded');
  expect(String(await pass(models[2]!))).toContain(text);
  await until(() => openMeetings(cluster) === 0, 'nothing waits');
});

it('is that of each call which names none', async () => {
  const group = (rank: number, options = {}): nn.ProcessGroup => processGroup({ agent: cluster.at(rank), ...options });
  await Promise.all([
    expect(group(0).allReduce(ones([2]))).rejects.toThrow(`workers 'w1', 'w2' did not come to allReduce() within 0.40`),
    expect(group(1, { timeoutMs: 100 }).broadcast(ones([2]), 1)).rejects.toThrow(
      `'w0', 'w2' did not come to broadcast()`,
    ),
  ]);
  const found = [0, 1, 2].map(async (rank) => {
    // Later than all others would wait.
    if (rank === 2) await new Promise((resolve) => setTimeout(resolve, 700));
    return (
      await group(rank, { timeoutMs: rank === 0 ? 0 : 100 }).allReduce(ones([1]), 'sum', { timeoutMs: 5_000 })
    ).item();
  });
  expect(await Promise.all(found)).toEqual([3, 3, 3]);
  const brief = group(0).allReduce(ones([2]), 'sum', { timeoutMs: 50 });
  await expect(brief).rejects.toThrow("workers 'w1', 'w2' did not come to allReduce() within 0.05 s");
  expect(() => group(0, { timeoutMs: -1 })).toThrow(RangeError);
});
