/** @file Data parallel over workers of which one begins anew: old replicas are refused, new ones meet. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Random } from '@backwire/testing';
import { full, nn, Parameter, tensor, zeros, type Tensor } from '@backwire/tensor';
import type { Agent } from '../src/agent/agent.ts';
import { createAgent, processGroup, rpcInfo } from '../src/index.ts';
import { openMeetings, startCluster, until, type Cluster } from './cluster.ts';

class One extends nn.Module {
  readonly weight = new Parameter(zeros([4]));
  forward(slope: number): Tensor {
    return this.weight.mul(full([4], slope)).sum();
  }
}
type Replica = nn.DistributedDataParallel<One>;

const workers = ['w0', 'w1', 'w2'];
let cluster: Cluster;
beforeEach(async () => {
  cluster = await startCluster(3);
});
afterEach(() => cluster.close());

const groupAt = (rank: number): nn.ProcessGroup => processGroup({ agent: cluster.at(rank), workers });
const over = (group: nn.ProcessGroup): Replica => new nn.DistributedDataParallel(new One(), { group });
const replicas = (): Replica[] => workers.map((_, rank) => over(groupAt(rank)));

/** What came of a pass on those ranks: the gradient or the error. */
async function pass(all: readonly Replica[], ranks = [0, 1, 2]): Promise<unknown[]> {
  const found: unknown[] = [];
  for (const rank of ranks) {
    const model = all[rank] as Replica;
    model.module.weight.grad = null;
    model.backward(model.forward(3 * rank)).then(
      () => (found[rank] = model.module.weight.grad?.dataSync()[0]),
      (error: unknown) => (found[rank] = error),
    );
  }
  await until(() => Object.keys(found).length === ranks.length, 'all passes are over', 6_000);
  return ranks.map((rank) => found[rank]);
}

/** A worker goes without a word, and another of its name comes. `known`: when the others have heard of it. */
async function restart(rank: number, known = true): Promise<void> {
  await cluster.at(rank).shutdown({ graceful: false });
  const { store } = cluster;
  const agent = await createAgent({ name: `w${rank}`, rank, worldSize: 3, store, initTimeoutMs: 20_000 });
  cluster.agents[rank] = agent;
  const { incarnation } = agent as unknown as Agent;
  const knows = (other: unknown): boolean =>
    (other as Agent).members.others().some((one) => one.worker.name === `w${rank}` && one.incarnation === incarnation);
  if (known) await until(() => cluster.agents.every((one, i) => i === rank || knows(one)), 'all know of the new one');
}

function expectBroken(outcomes: readonly unknown[]): void {
  for (const outcome of outcomes) {
    expect(outcome).toBeInstanceOf(Error);
    expect(rpcInfo(outcome as Error)?.code, String(outcome)).toBe('barrier-broken');
  }
}

it('refuses old replicas once a worker has begun anew, and has new ones meet', async () => {
  const old = replicas();
  expect(await pass(old)).toEqual([3, 3, 3]);
  await restart(1);
  const outcomes = await pass(old, [0, 2]);
  expectBroken(outcomes);
  for (const outcome of outcomes) expect((outcome as Error).message).toMatch(/'w1' has begun anew/);
  await until(() => openMeetings(cluster) === 0, 'nothing waits');
  expect(await pass(replicas())).toEqual([3, 3, 3]);
});

it('has new replicas meet over the groups that there were, beside old ones that are refused', async () => {
  const groups = workers.map((_, rank) => groupAt(rank));
  const old = groups.map(over);
  expect(await pass(old)).toEqual([3, 3, 3]);
  await restart(1);
  groups[1] = groupAt(1);
  const all = groups.map(over);
  expect(await pass(all)).toEqual([3, 3, 3]);
  expectBroken(await pass(old, [0, 2]));
  expect(await pass(all)).toEqual([3, 3, 3]);
  const sums = groups.map((group, rank) => group.allReduce(tensor([rank]), 'sum', { timeoutMs: 5_000 }));
  expect((await Promise.all(sums)).map((sum) => sum.item())).toEqual([3, 3, 3]);
});

it('breaks passes that come while a worker begins anew, whenever each hears of it', { timeout: 60_000 }, async () => {
  for (let seed = 1; seed <= 8; seed++) {
    const random = new Random(seed);
    const old = replicas();
    await pass(old);
    const lost = random.int(0, 3);
    const rest = [0, 1, 2].filter((rank) => rank !== lost);
    const outcomes = rest.map(async (rank) => {
      await sleep(random.int(0, 400));
      return (await pass(old, [rank]))[0];
    });
    await restart(lost, false);
    expectBroken(await Promise.all(outcomes));
    await until(
      () =>
        workers.every(
          (_, rank) =>
            cluster.agents.length === 3 && (cluster.at(rank) as unknown as Agent).members.others().length === 2,
        ),
      'all are there',
    );
    await restart(lost);
    expect(await pass(replicas()), `seed ${seed}`).toEqual([3, 3, 3]);
  }
});
