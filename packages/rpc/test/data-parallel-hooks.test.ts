/** @file What hooks of data-parallel passes call of their groups: each bucket meets for itself, and a pass that failed anywhere ends all waits. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import { Random } from '@backwire/testing';
import { full, nn, Parameter, tensor, zeros, type Tensor } from '@backwire/tensor';
import { allGather, barrier, processGroup, rpcInfo } from '../src/index.ts';
import { openMeetings, startCluster, until, type Cluster } from './cluster.ts';
import { asking, dropping, inheriting } from './wrapped-groups.ts';

let cluster: Cluster;
afterEach(() => cluster.close());

/** Three parameters of one shape, whose gradients differ. */
class Three extends nn.Module {
  readonly a = new Parameter(zeros([4]));
  readonly b = new Parameter(zeros([4]));
  readonly c = new Parameter(zeros([4]));
  forward(slope: number): Tensor {
    const terms = this.parameters().map((p, i) => p.mul(full([4], slope * 10 ** i)).sum());
    return terms.reduce((sum, term) => sum.add(term));
  }
}

type Replica = nn.DistributedDataParallel<Three>;
type Hook = (group: nn.ProcessGroup, bucket: nn.GradBucket, rank: number) => Tensor | Promise<Tensor>;

interface Made {
  readonly groups: readonly nn.ProcessGroup[];
  readonly all: readonly Replica[];
}

/** A replica on each worker, each parameter in a bucket of its own. */
function replicas(hook?: Hook, wrap = (group: nn.ProcessGroup): nn.ProcessGroup => group): Made {
  const groups = cluster.agents.map((agent) => wrap(processGroup({ agent })));
  const all = groups.map((group, rank) => {
    const model = new nn.DistributedDataParallel(new Three(), { group, bucketBytes: 1 });
    if (hook !== undefined) model.registerCommHook(null, (_, bucket) => hook(group, bucket, rank));
    return model;
  });
  return { groups, all };
}

/** What each worker has after a pass: its gradients' values, or its error. Nobody waits for ever. */
async function pass(all: readonly Replica[]): Promise<unknown[]> {
  const over: unknown[] = [];
  for (const [rank, model] of all.entries()) {
    const end = (outcome: unknown): void => void (over[rank] = outcome);
    for (const parameter of model.parameters()) parameter.grad = null;
    model
      .backward(model.forward(1 + 2 * rank))
      .then(() => end(model.parameters().map((p) => p.grad?.dataSync()[0])), end);
  }
  await until(() => Object.keys(over).length === all.length, 'all passes are over', 5_000);
  return over;
}

/** The worker at fault has its own error, all others one that names it, and nothing is left waiting. */
async function expectTold(outcomes: readonly unknown[], at: number, own: string): Promise<void> {
  for (const [rank, outcome] of outcomes.entries()) {
    expect((outcome as Error).message).toContain(own);
    if (rank === at) continue;
    expect(rpcInfo(outcome as Error)?.code).toBe('failed-precondition');
    expect((outcome as Error).message).toContain(`worker 'w${at}' makes no further pass`);
  }
  await until(() => openMeetings(cluster) === 0, 'nothing waits');
}

const MEAN = [2, 20, 200];

const kinds = ['signal and tags', 'the signal', 'nothing'] as const;
it.each(kinds)(
  'hooks that wait for something before they reduce get the mean of their bucket, giving on %s',
  async (kind) => {
    cluster = await startCluster(2);
    for (let seed = 1; seed <= 10; seed++) {
      const random = new Random(seed);
      const { all } = replicas(async (group, bucket) => {
        await sleep(random.int(0, 6));
        const { signal, tags } = bucket;
        const given = kind === 'nothing' ? {} : kind === 'the signal' ? { signal } : { signal, tags };
        return group.allReduce(bucket.buffer(), 'mean', given);
      });
      expect(await pass(all), `seed ${seed}`).toEqual([MEAN, MEAN]);
    }
  },
);

it('hooks of several rounds, each with what the last one gave, as those that compress', async () => {
  cluster = await startCluster(2);
  const random = new Random(3);
  const { all } = replicas(async (group, bucket) => {
    let value = bucket.buffer();
    for (let round = 0; round < 3; round++) {
      value = await group.allReduce(value, 'mean');
      await sleep(random.int(0, 4));
    }
    return value;
  });
  expect(await pass(all)).toEqual([MEAN, MEAN]);
});

it('hooks that gather, from all workers and in groups of others beside their own', async () => {
  cluster = await startCluster(2);
  const random = new Random(4);
  const beside = cluster.agents.map((agent) => processGroup({ agent }));
  const { all } = replicas(async (_, bucket, rank) => {
    await sleep(random.int(0, 4));
    const gathered = await cluster.at(rank).run(() => allGather(bucket.buffer()));
    const sum = [...gathered.values()].reduce((a, b) => a.add(b));
    await cluster.at(rank).run(() => barrier());
    return (beside[rank] as nn.ProcessGroup).allReduce(sum.div(2), 'mean');
  });
  expect(await pass(all)).toEqual([MEAN, MEAN]);
});

const waits: readonly [string, Hook][] = [
  ['give on the signal only', (group, { signal, ...bucket }) => group.allReduce(bucket.buffer(), 'mean', { signal })],
  ['give on nothing', (group, bucket) => group.allReduce(bucket.buffer(), 'mean')],
  [
    'gather',
    async (_, bucket, rank) => {
      const all = await cluster.at(rank).run(() => allGather(bucket.buffer()));
      return [...all.values()][0] as Tensor;
    },
  ],
  [
    'wait for the signal of the bucket',
    (_, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      }),
  ],
];
it.each(waits)('tells hooks that %s of a hook that threw on another worker', async (_what, hook) => {
  cluster = await startCluster(3);
  const { all } = replicas((group, bucket, rank) => {
    if (rank === 1 && bucket.index === 1) throw new Error('no luck');
    return hook(group, { ...bucket, buffer: () => bucket.buffer(), signal: bucket.signal }, rank);
  });
  await expectTold(await pass(all), 1, 'no luck');
});

const wrappers: readonly [string, (group: nn.ProcessGroup) => nn.ProcessGroup, number][] = [
  ['asks for everything', asking, 1],
  [
    'inherits',
    (group) =>
      Object.assign(inheriting(group), { allReduce: (t: Tensor, op?: 'sum' | 'mean') => group.allReduce(t, op) }),
    1,
  ],
  ['spreads', (group) => ({ ...group, allReduce: (t, op) => group.allReduce(t, op) }), 1],
  // Nobody knows of it before it has reduced once.
  ['keeps its rank and size', dropping, 2],
];
it.each(wrappers)(
  'tells the others of a failure, over a group of the program that %s and drops options',
  async (_what, wrap, at) => {
    cluster = await startCluster(3);
    const { all } = replicas(undefined, wrap);
    const mean = [3, 30, 300];
    for (let n = 1; n < at; n++) expect(await pass(all)).toEqual([mean, mean, mean]);
    (all[2] as Replica).module.b.registerHook(() => {
      throw new Error('no luck');
    });
    await expectTold(await pass(all), 2, 'no luck');
  },
);

it('names who differs to each of three workers, never two that agree', async () => {
  for (let seed = 1; seed <= 6; seed++) {
    cluster = await startCluster(3);
    const random = new Random(seed);
    const { all } = replicas();
    await pass(all);
    (all[0] as Replica).module.a.requiresGrad = false;
    const outcomes = await Promise.all(
      all.map(async (model, rank) => {
        await sleep(random.int(0, 8));
        return model.backward(model.forward(rank)).catch((error: unknown) => error);
      }),
    );
    for (const outcome of outcomes) expect((outcome as Error).message, `seed ${seed}`).toContain("'w0'");
    await until(() => openMeetings(cluster) === 0, 'nothing waits');
    await cluster.close();
  }
});

it('refuses, on all workers, a hook that only one of them has', async () => {
  cluster = await startCluster(2);
  for (const first of [true, false]) {
    const { all } = replicas();
    if (!first) await pass(all);
    (all[0] as Replica).registerCommHook(null, (_, bucket) => bucket.buffer());
    for (const outcome of await pass(all))
      expect((outcome as Error).message).toMatch(/a communication hook on some of its workers|of bucket layout/);
    await until(() => openMeetings(cluster) === 0, 'nothing waits');
  }
});

it('synchronizes from one worker or from none: another rank on one of them is an error on all', async () => {
  cluster = await startCluster(3);
  for (const [from, text] of [
    [7, /no member has rank 7/],
    [-1, /no member has rank -1/],
    [0.5, /no member has rank 0.5/],
    [2, /of sender/],
  ] as const) {
    const { all } = replicas();
    const over: unknown[] = [];
    for (const [rank, model] of all.entries())
      void model.synchronize(rank === 1 ? from : 0).catch((error: unknown) => (over[rank] = error));
    await until(() => Object.keys(over).length === 3, 'all have heard of it', 5_000);
    for (const error of over) expect((error as Error).message).toMatch(text);
    await until(() => openMeetings(cluster) === 0, 'nothing waits');
  }
});

it('makes the passes of one replica one after the other, also where the program does not wait for the first', async () => {
  cluster = await startCluster(2);
  const random = new Random(5);
  const { all } = replicas(async (group, bucket) => {
    await sleep(random.int(0, 6));
    return group.allReduce(bucket.buffer(), 'mean');
  });
  await pass(all);
  const values = await Promise.all(
    all.map(async (model, rank) => {
      const gradients = (k: number): Map<Tensor, Tensor> =>
        new Map(model.parameters().map((p, i) => [p, full([4], (1 + 2 * rank) * k * 10 ** i)]));
      const [one, other] = await Promise.all([
        model.reduceGradients(gradients(1)),
        model.reduceGradients(gradients(5)),
      ]);
      return [one, other].map((found) =>
        [...found.values()].map((t) => t.dataSync()[0]).sort((a, b) => Number(a) - Number(b)),
      );
    }),
  );
  for (const value of values) expect(value).toEqual([MEAN, MEAN.map((x) => 5 * x)]);
});

it(
  'passes of more bytes than may wait for a worker, on time and with one that comes late',
  { timeout: 30_000 },
  async () => {
    const MIB = 2 ** 20;
    cluster = await startCluster(2, { limits: { maxBufferedBytesPerPeer: 4 * MIB } });
    class Large extends nn.Module {
      readonly parts = Array.from({ length: 10 }, (_, i) => {
        const part = new Parameter(zeros([MIB / 2]));
        (this as unknown as Record<string, Parameter>)[`p${i}`] = part;
        return part;
      });
      forward(slope: number): Tensor {
        return this.parts.map((p) => p.sum().mul(slope)).reduce((a, b) => a.add(b));
      }
    }
    for (const late of [0, 200])
      for (const hooked of [false, true]) {
        const random = new Random(6);
        const all = cluster.agents.map((agent) => {
          const group = processGroup({ agent });
          const model = new nn.DistributedDataParallel(new Large(), { group, bucketBytes: 2 * MIB });
          if (hooked)
            model.registerCommHook(null, async (_, bucket) => {
              await sleep(random.int(0, 5));
              return group.allReduce(bucket.buffer(), 'mean');
            });
          return model;
        });
        await Promise.all(
          all.map(async (model, rank) => {
            if (rank === 0) await sleep(late);
            await model.backward(model.forward(2 * rank));
          }),
        );
        for (const model of all)
          for (const { grad } of model.module.parts)
            expect([grad?.dataSync()[0], grad?.sum().item()]).toEqual([1, MIB / 2]);
      }
  },
);

it('tells the others of a failure also where too much waits for them to take any more', async () => {
  const MIB = 2 ** 20;
  cluster = await startCluster(2, { limits: { maxBufferedBytesPerPeer: MIB } });
  const { all } = replicas();
  await pass(all);
  const over = new AbortController();
  const group = processGroup({ agent: cluster.at(1) });
  // Nobody comes to these: the first fill what the other worker takes, the next what may wait for it.
  const unmet = Array.from({ length: 8 }, () =>
    group.allReduce(zeros([MIB / 8]), 'sum', { signal: over.signal }).catch(() => undefined),
  );
  (all[1] as Replica).module.a.registerHook(() => {
    throw new Error('no luck');
  });
  // They are on their way.
  await sleep(50);
  const outcomes = pass(all);
  await sleep(300);
  over.abort();
  await Promise.all(unmet);
  await expectTold(await outcomes, 1, 'no luck');
});

it('refuses a pass with a model in a hook of that model, which would wait for itself', async () => {
  cluster = await startCluster(2);
  const { all } = replicas(async (group, bucket, rank) => {
    const model = all[rank] as Replica;
    await sleep(1);
    await model.backward(model.forward(1));
    return group.allReduce(bucket.buffer(), 'mean');
  });
  for (const outcome of await pass(all)) expect((outcome as Error).message).toContain('can make no pass with that one');
  await until(() => openMeetings(cluster) === 0, 'nothing waits');
});

it('what a hook has started and left is of no pass any more when that is over', async () => {
  cluster = await startCluster(2);
  const sumAt = async (rank: number): Promise<unknown> =>
    (await processGroup({ agent: cluster.at(rank) }).allReduce(tensor([rank + 1]), 'sum', { timeoutMs: 5_000 })).item();
  let begin = (): void => undefined;
  const begun = new Promise<void>((resolve) => (begin = resolve));
  let later: Promise<unknown> | undefined;
  const { all } = replicas((group, bucket, rank) => {
    if (rank === 0 && bucket.isLast) later = begun.then(() => sumAt(0));
    return group.allReduce(bucket.buffer(), 'mean');
  });
  expect(await pass(all)).toEqual([MEAN, MEAN]);
  begin();
  expect(await Promise.all([later, sumAt(1)])).toEqual([3, 3]);
});

it('has new replicas over the same groups at once, as soon as each worker has heard of a failure', async () => {
  cluster = await startCluster(3);
  for (let seed = 1; seed <= 40; seed++) {
    const random = new Random(seed);
    const lost = random.int(0, 3);
    const { groups, all } = replicas();
    const delays = groups.map(() => random.int(0, 4));
    const outcomes = await Promise.all(
      all.map(async (model, rank) => {
        if (rank === lost)
          model.module[random.pick(['a', 'b'] as const)].registerHook(() => {
            throw new Error('no luck');
          });
        await sleep(delays[rank]);
        await model.backward(model.forward(1)).catch(() => undefined);
        const next = new nn.DistributedDataParallel(new Three(), {
          group: groups[rank] as nn.ProcessGroup,
          bucketBytes: 1,
        });
        return next.backward(next.forward(1 + 2 * rank)).then(
          () => next.parameters().map((p) => p.grad?.dataSync()[0]),
          (error: unknown) => error,
        );
      }),
    );
    const mean = [3, 30, 300];
    expect(outcomes, `seed ${seed}`).toEqual([mean, mean, mean]);
  }
});
