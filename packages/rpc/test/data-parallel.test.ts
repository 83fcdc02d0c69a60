/** @file DistributedDataParallel over a group of workers: whose its gradients are, and what it frees. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { manualSeed, memory, nn, optim, Parameter, randn, tensor, zeros, type Tensor } from '@backwire/tensor';
import type { Agent } from '../src/agent/agent.ts';
import { ask, GIVEN_UP } from '../src/agent/collective-calls.ts';
import { createAgent, getWorkerInfos, processGroup } from '../src/index.ts';
import { startCluster, until, type Cluster } from './cluster.ts';
import { inheriting, keeping } from './wrapped-groups.ts';

let cluster: Cluster;
beforeEach(async () => {
  cluster = await startCluster(2);
});
afterEach(() => cluster.close());

/** Large enough that two members collect its gradients. */
class Net extends nn.Module {
  readonly hidden = new nn.Linear(300, 150);
  readonly output = new nn.Linear(150, 4);

  forward(x: Tensor): Tensor {
    return this.output.forward(this.hidden.forward(x).relu());
  }
}

/** The same everywhere. */
function net(): Net {
  manualSeed(7);
  return new Net();
}

type Replica = nn.DistributedDataParallel<Net>;

/** A replica at each worker, over its group or what `wrap` makes of that. */
function replicas(wrap = (group: nn.ProcessGroup): nn.ProcessGroup => group): Replica[] {
  return cluster.agents.map((agent) => new nn.DistributedDataParallel(net(), { group: wrap(processGroup({ agent })) }));
}

const lossOf = (model: Replica | Net, x: Tensor): Tensor => model.forward(x).square().mean();
const batches = (): Tensor[] => [0, 1].map((rank) => randn([8, 300]).mul(rank + 1));
const values = (grads: readonly (Tensor | null)[]): unknown[] => grads.map((grad) => grad?.toArray());
const gradsOf = (model: nn.Module): (Tensor | null)[] => model.parameters().map((p) => p.grad);

const pass = (all: readonly Replica[], xs: readonly Tensor[]): Promise<unknown> =>
  Promise.all(all.map((replica, rank) => replica.backward(lossOf(replica, xs[rank] as Tensor))));

/** The mean of what each worker has alone. */
function meanOf(xs: readonly Tensor[]): Tensor[] {
  const [one, other] = xs.map((x) => {
    const own = net();
    lossOf(own, x).backward();
    return gradsOf(own) as Tensor[];
  }) as [Tensor[], Tensor[]];
  return one.map((grad, i) => grad.add(other[i] as Tensor).div(2));
}

it('has the mean of what each worker has alone, on all workers', async () => {
  const xs = batches();
  const all = replicas();
  await pass(all, xs);
  for (const replica of all) expect(values(gradsOf(replica))).toEqual(values(meanOf(xs)));
});

it('frees what each pass leaves, without the collector', async () => {
  const all = replicas();
  const optimizers = all.map((replica) => new optim.SGD(replica.parameters(), { lr: 0.1, momentum: 0.9 }));
  const xs = batches();
  const step = async (): Promise<void> => {
    for (const optimizer of optimizers) optimizer.zeroGrad();
    const losses = all.map((replica, rank) => lossOf(replica, xs[rank] as Tensor));
    await Promise.all(all.map((replica, rank) => replica.backward(losses[rank] as Tensor)));
    for (const optimizer of optimizers) optimizer.step();
    for (const loss of losses) loss.dispose();
    await new Promise((resolve) => setImmediate(resolve));
  };
  for (let i = 0; i < 3; i++) await step();
  // What `lossOf` leaves of a forward pass is the program's own.
  const forward = (): void => xs.forEach((x, rank) => void lossOf(all[rank] as Replica, x));
  const grown = async (run: () => unknown): Promise<number> => {
    const before = memory().bytes;
    for (let i = 0; i < 10; i++) await run();
    return memory().bytes - before;
  };
  const large = 300 * 150 * 4;
  const [withPass, alone] = [await grown(step), await grown(forward)];
  expect(withPass - alone).toBeLessThan(large);
});

it('frees the gradients that it makes of what a hook answers', async () => {
  const all = replicas();
  for (const replica of all) replica.registerCommHook(null, (_, bucket) => bucket.buffer());
  const xs = batches();
  const step = async (): Promise<void> => {
    for (const replica of all) replica.zeroGrad();
    const losses = all.map((replica, rank) => lossOf(replica, xs[rank] as Tensor));
    await Promise.all(all.map((replica, rank) => replica.backward(losses[rank] as Tensor)));
    for (const loss of losses) loss.dispose();
    await new Promise((resolve) => setImmediate(resolve));
  };
  await step();
  const before = memory().bytes;
  for (let i = 0; i < 10; i++) await step();
  // The buffer of each pass is the hook's.
  const buffers = 10 * all.length * 300 * 150 * 4;
  expect(memory().bytes - before).toBeLessThan(1.5 * buffers);
});

it('leaves a gradient that the program has looked at as it was', async () => {
  const xs = batches();
  const all = replicas();
  for (const [rank, replica] of all.entries()) lossOf(replica, xs[rank] as Tensor).backward();
  const local = all.map((replica) => gradsOf(replica));
  const before = local.map(values);
  await pass(all, xs);
  const combined = all.map((replica) => gradsOf(replica));
  const after = combined.map(values);
  await pass(all, xs);
  expect(local.map(values)).toEqual(before);
  expect(combined.map(values)).toEqual(after);
});

it("leaves the answers of a program's own all-reduce to it", async () => {
  const answers: Tensor[] = [];
  const given: Tensor[] = [];
  const all = replicas((group) =>
    Object.assign(Object.create(group) as nn.ProcessGroup, {
      allReduce: async (...args: Parameters<nn.ProcessGroup['allReduce']>): Promise<Tensor> => {
        given.push(args[0]);
        const answer = await group.allReduce(...args);
        answers.push(answer);
        return answer;
      },
    }),
  );
  await pass(all, batches());
  await pass(all, batches());
  for (const one of [...answers, ...given]) expect(one.sum().item()).not.toBeNaN();
});

it('leaves what a hook has seen and answered to it', async () => {
  const seen: Tensor[] = [];
  const all = replicas();
  for (const replica of all)
    replica.registerCommHook(seen, (kept, bucket) => {
      kept.push(bucket.buffer());
      return bucket.buffer();
    });
  await pass(all, batches());
  const before = values(seen);
  await pass(all, batches());
  expect(values(seen.slice(0, before.length))).toEqual(before);
});

it('refuses, on all workers, replicas whose parameters are not the same', async () => {
  const cases: readonly [nn.Linear, nn.Linear, RegExp][] = [
    [new nn.Linear(300, 150), new nn.Linear(150, 300), /replicas of this group differ in parameter 0 of 2/],
    [new nn.Linear(300, 150), new nn.Linear(300, 150, { bias: false }), /brought a tensor of shape/],
  ];
  for (const [one, other, text] of cases) {
    const outcomes = await Promise.allSettled(
      [one, other].map((model, rank) => {
        const replica = new nn.DistributedDataParallel(model, { group: processGroup({ agent: cluster.at(rank) }) });
        return replica.backward(replica.forward(randn([2, model.weight.shape[1] as number])).sum());
      }),
    );
    for (const outcome of outcomes) expect(String((outcome as PromiseRejectedResult).reason)).toMatch(text);
  }
});

it('refuses, on all workers, replicas of which other parameters are frozen, before their first pass and after it', async () => {
  class Pair extends nn.Module {
    readonly a = new Parameter(zeros([3]));
    readonly b = new Parameter(zeros([3]));
    forward(): Tensor {
      return this.a.sum().add(this.b.sum().mul(10));
    }
  }
  const frozen = [
    [['a'], ['b']],
    [['a'], []],
  ] as const;
  for (const names of frozen)
    for (const first of [true, false]) {
      const all = cluster.agents.map(
        (agent) => new nn.DistributedDataParallel(new Pair(), { group: processGroup({ agent }) }),
      );
      const passes = (): Promise<PromiseSettledResult<void>[]> =>
        Promise.allSettled(all.map((replica) => replica.backward(replica.forward())));
      if (!first) expect((await passes()).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
      for (const [rank, replica] of all.entries())
        for (const name of names[rank as 0 | 1]) replica.module[name].requiresGrad = false;
      for (const { reason } of (await passes()) as PromiseRejectedResult[])
        expect(String(reason)).toMatch(/replicas of this group differ in parameter [01] of 2|of bucket layout/);
    }
});

it('synchronizes no replicas whose parameters are not the same, on any worker', async () => {
  const cases: readonly [nn.Module, nn.Module, RegExp][] = [
    [new nn.Linear(2, 3), new nn.Linear(2, 4), /replicas of this group differ in parameter 0 of 2/],
    [new nn.Linear(2, 3), new nn.Linear(2, 3, { bias: false }), /brought a tensor of shape/],
  ];
  for (const [one, other, text] of cases) {
    const outcomes = await Promise.allSettled(
      [one, other].map((model, rank) => {
        const group = processGroup({ agent: cluster.at(rank) });
        return new nn.DistributedDataParallel(model as nn.Linear, { group }).synchronize();
      }),
    );
    for (const outcome of outcomes) expect(String((outcome as PromiseRejectedResult).reason)).toMatch(text);
  }
});

it('counts replicas anew with a worker that begins anew', async () => {
  await pass(replicas(), batches());
  await pass(replicas(), batches());
  await cluster.at(1).shutdown({ graceful: false });
  await until(() => cluster.at(0).run(getWorkerInfos).length === 1, 'the other has heard of it');
  const { store } = cluster;
  cluster.agents[1] = await createAgent({ name: 'w1', rank: 1, worldSize: 2, store, initTimeoutMs: 20_000 });
  await until(() => cluster.at(0).run(getWorkerInfos).length === 2, 'the other knows of the new one');
  const all = replicas();
  await pass(all, batches());
  const [one, other] = all.map((replica) => values(gradsOf(replica)));
  expect(one).toEqual(other);
});

const wrappers = [
  ['inherits from one', inheriting],
  ['asks one', keeping],
] as const;

it.each(wrappers)('has groups of its own for each wrapper that %s', async (_what, wrapped) => {
  const [first, second] = [replicas(wrapped), replicas(wrapped)];
  const xs = [batches(), batches()] as const;
  const order = [
    [first, second],
    [second, first],
  ];
  // Each worker comes to the two in its own order.
  await Promise.all(
    order.map((all, rank) =>
      Promise.all(
        all.map((replica) => {
          const x = xs[replica === first ? 0 : 1][rank] as Tensor;
          return (replica[rank] as Replica).backward(lossOf(replica[rank] as Replica, x));
        }),
      ),
    ),
  );
  for (const [i, all] of [first, second].entries())
    for (const replica of all) expect(values(gradsOf(replica))).toEqual(values(meanOf(xs[i] as Tensor[])));
});

it('goes on whatever a member says of replicas that are not its own, or says that makes no sense', async () => {
  await cluster.close();
  cluster = await startCluster(3);
  const workers = ['w0', 'w1'];
  const all = [0, 1].map(
    (rank) => new nn.DistributedDataParallel(net(), { group: processGroup({ agent: cluster.at(rank), workers }) }),
  );
  const lines = new Set<string>();
  const spy = vi.spyOn((cluster.at(0) as unknown as Agent).collectives, 'arrive');
  await pass(all, batches());
  for (const [, { key }] of spy.mock.calls) lines.add(key.split('\n')[0]?.split('/')[2] ?? '');
  const [line] = [...lines] as [string];
  const stranger = cluster.at(2) as unknown as Agent;
  const says = (...args: unknown[]): Promise<string> =>
    ask(stranger, 'w0', GIVEN_UP, args, { timeoutMs: 5_000 }).then(
      () => 'taken',
      (error: unknown) => (error as Error).message,
    );
  for (const args of [
    [workers, line, 1, 0, false, 'not mine'],
    [['w0', 'w1', 7], line, 1, 0, false, 'x'],
    ['w2', line, 1, 0, false, 'x'],
    [['w2', 'y'.repeat(2 ** 17)], line, 1, 0, false, 'x'],
    [['w2', ...workers], 'x'.repeat(65), 1, 0, false, 'x'],
    [['w2', ...workers], line, '1', 0, false, 'x'],
    [['w2', ...workers], line, 1, -1, false, 'x'],
    [['w2', ...workers], line, 1, {}, false, 'x'],
    [['w2', ...workers], line, 1, 0, false, 'x'.repeat(1_025)],
    [['w2', ...workers], line, 1, 0, false, { length: 1 }],
    [],
  ])
    expect(await says(...args)).toContain('malformed re');
  // Of its own, but not one that there is.
  expect(await says(['w2', ...workers], line, 1, 0, false, 'x')).toBe('taken');
  expect(lines.size).toBe(1);
  await pass(all, batches());
  const [one, other] = all.map((replica) => values(gradsOf(replica)));
  expect(one).toEqual(other);
});

it('frees the dense forms of sparse gradients, too', async () => {
  const tables = cluster.agents.map(() => new nn.Embedding(5_000, 16, { sparse: true }));
  const all = tables.map(
    (table, rank) => new nn.DistributedDataParallel(table, { group: processGroup({ agent: cluster.at(rank) }) }),
  );
  const ids = tensor([1, 2, 3]).to('int64');
  const step = async (): Promise<void> => {
    const losses = all.map((replica) => replica.forward(ids).sum());
    await Promise.all(all.map((replica, rank) => replica.backward(losses[rank] as Tensor)));
    for (const loss of losses) loss.dispose();
    for (const table of tables) expect(table.weight.grad?.layout).toBe('strided');
    for (const table of tables) table.weight.grad?.dispose();
    for (const table of tables) table.weight.grad = null;
    await new Promise((resolve) => setImmediate(resolve));
  };
  await step();
  const before = memory().bytes;
  for (let i = 0; i < 10; i++) await step();
  expect(memory().bytes - before).toBeLessThan(5_000 * 16 * 4);
});
