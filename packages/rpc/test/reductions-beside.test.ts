/** @file Reductions beside each other: of one group, more than may wait for a worker; of a program, beside those of its replicas; in hooks, over other groups. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import { Random } from '@backwire/testing';
import { full, memory, nn, Parameter, tensor, zeros, type Tensor } from '@backwire/tensor';
import { allGather, barrier, processGroup, rpcAsync, rpcFunction, rpcInfo, type RpcOptions } from '../src/index.ts';
import { openMeetings, startCluster, until, type Cluster } from './cluster.ts';

let cluster: Cluster;
afterEach(() => cluster.close());

const MIB = 2 ** 20;

class Weights extends nn.Module {
  readonly weight = new Parameter(zeros([2]));
  readonly other = new Parameter(zeros([2]));
  forward(slope: number): Tensor {
    return this.weight.sum().add(this.other.sum()).mul(slope);
  }
}
type Replica = nn.DistributedDataParallel<Weights>;

const replicas = (bucketBytes = 1): { groups: nn.ProcessGroup[]; all: Replica[] } => {
  const groups = cluster.agents.map((agent) => processGroup({ agent }));
  return { groups, all: groups.map((group) => new nn.DistributedDataParallel(new Weights(), { group, bucketBytes })) };
};

const valueOf = (p: Parameter): unknown => p.grad?.dataSync()[0];

/** All of them, or an error where one takes too long. */
async function every<T>(all: readonly Promise<T>[], timeoutMs = 8_000): Promise<(T | Error)[]> {
  const over: (T | Error)[] = [];
  for (const [i, one] of all.entries())
    one.then(
      (value) => (over[i] = value),
      (error: unknown) => (over[i] = error as Error),
    );
  await until(() => Object.keys(over).length === all.length, 'all are over', timeoutMs);
  return over;
}

it.each([2, 3])(
  '%i workers reduce more at once than may wait for one of them, each with its own',
  { timeout: 60_000 },
  async (size) => {
    cluster = await startCluster(size, { limits: { maxBufferedBytesPerPeer: MIB } });
    for (let round = 0; round < 6; round++) {
      const groups = cluster.agents.map((agent) => processGroup({ agent }));
      const sums = groups.map((group) =>
        Promise.all(Array.from({ length: 40 }, (_, k) => group.allReduce(full([50_000], k), 'mean'))),
      );
      for (const own of await every(sums, 20_000)) {
        const found = (own as Tensor[]).map((t) => [t.dataSync()[0], t.dataSync()[49_999]]);
        expect(found).toEqual(Array.from({ length: 40 }, (_, k) => [k, k]));
        for (const t of own as Tensor[]) t.dispose();
      }
    }
  },
);

it('a reduction of the program never meets what replicas of its group ask each other', async () => {
  cluster = await startCluster(2);
  for (let round = 0; round < 10; round++)
    for (const joins of [false, true]) {
      const { groups, all } = replicas();
      all[0]!.module.weight.registerHook(() => {
        throw new Error('no luck');
      });
      const sums = all.map(async (model, rank) => {
        const pass = (): Promise<void> => model.backward(model.forward(1));
        await (joins ? model.join(pass) : pass()).catch(() => undefined);
        const sevens = tensor([7], { dtype: 'float64' });
        return (await (groups[rank] as nn.ProcessGroup).allReduce(sevens, 'mean')).item();
      });
      expect(await every(sums), `round ${round}`).toEqual([7, 7]);
    }
  await until(() => openMeetings(cluster) === 0, 'nothing waits');
});

it('the gradients of a pass are those of when it was asked for, in the first pass too', async () => {
  cluster = await startCluster(2);
  const { all } = replicas();
  for (let round = 0; round < 2; round++) {
    const passes = all.map(async (model, rank) => {
      const { weight } = model.module;
      const pass = model.backward(model.forward(2 + 2 * rank));
      weight.grad = null;
      await pass;
      return valueOf(weight);
    });
    expect(await every(passes)).toEqual([3, 3]);
    for (const model of all) for (const p of model.parameters()) p.grad = null;
  }
});

it('passes that one worker waits for and another does not, in the first two and in join', async () => {
  cluster = await startCluster(2);
  const gradients = (model: Replica, k: number): Map<Tensor, Tensor> =>
    new Map(model.parameters().map((p) => [p, full([2], k)]));
  const first = (found: Map<Parameter, Tensor>): unknown => [...found.values()][0]?.dataSync()[0];
  const both = async (model: Replica, ks: readonly number[], waits: boolean): Promise<unknown[]> => {
    const found: unknown[] = [];
    if (waits) for (const k of ks) found.push(first(await model.reduceGradients(gradients(model, k))));
    else found.push(...(await Promise.all(ks.map((k) => model.reduceGradients(gradients(model, k))))).map(first));
    return found;
  };
  for (const joins of [false, true]) {
    const { all } = replicas();
    const passes = all.map((model, rank) => {
      const run = (): Promise<unknown[]> => both(model, [10, 20], rank === 0);
      return joins ? model.join(run) : run();
    });
    expect(await every(passes)).toEqual([
      [10, 20],
      [10, 20],
    ]);
  }
  for (const counts of [
    [2, 1],
    [1, 3],
  ]) {
    const { all } = replicas();
    const passes = all.map((model, rank) =>
      model.join(() =>
        both(
          model,
          Array.from({ length: counts[rank] as number }, () => 10),
          false,
        ),
      ),
    );
    const found = await every(passes);
    // One that has ended counts as zero.
    expect(found).toEqual(counts.map((count) => Array.from({ length: count }, (_, i) => (i === 0 ? 10 : 5))));
  }
});

it('hooks ask groups of some of the workers, and of more than their own', async () => {
  cluster = await startCluster(4);
  // Two by two: the sum over one's own pair, then over its counterparts.
  const pairs = [
    ['w0', 'w1'],
    ['w2', 'w3'],
  ];
  const counterparts = [
    ['w0', 'w2'],
    ['w1', 'w3'],
  ];
  const has = (all: readonly string[][], rank: number): string[] =>
    all.find((one) => one.includes(`w${rank}`)) as string[];
  const { all } = replicas();
  for (const [rank, model] of all.entries()) {
    const agent = cluster.at(rank);
    const [pair, counterpart] = [pairs, counterparts].map((one) => has(one, rank)) as [string[], string[]];
    const [inner, outer] = [pair, counterpart].map((workers) => processGroup({ agent, workers })) as [
      nn.ProcessGroup,
      nn.ProcessGroup,
    ];
    const random = new Random(rank);
    model.registerCommHook(null, async (_, bucket) => {
      await sleep(random.int(0, 4));
      const mean = await inner.allReduce(bucket.buffer(), 'mean');
      await barrier({ agent, workers: pair });
      const gathered = await allGather(rank, { agent, workers: counterpart });
      expect([...gathered.keys()].sort()).toEqual(counterpart);
      return outer.allReduce(mean, 'mean');
    });
  }
  const passes = (): Promise<unknown>[] =>
    all.map(async (model, rank) => {
      for (const p of model.parameters()) p.grad = null;
      await model.backward(model.forward(rank));
      return [valueOf(model.module.weight), valueOf(model.module.other)];
    });
  for (let n = 0; n < 3; n++) expect(await every(passes())).toEqual([0, 1, 2, 3].map(() => [1.5, 1.5]));
  await cluster.close();

  cluster = await startCluster(3);
  const two = [0, 1].map((rank) => {
    const agent = cluster.at(rank);
    const model = new nn.DistributedDataParallel(new Weights(), {
      group: processGroup({ agent, workers: ['w0', 'w1'] }),
    });
    const everybody = processGroup({ agent });
    model.registerCommHook(null, (_, bucket) => everybody.allReduce(bucket.buffer(), 'sum'));
    return model;
  });
  // Who is in no pass may only meet it in one of its own: here nobody does, and the pass ends with its signal.
  const over = new AbortController();
  const grads = (model: Replica): Map<Tensor, Tensor> => new Map(model.parameters().map((p) => [p, full([2], 1)]));
  const left = two.map((model) =>
    model.reduceGradients(grads(model), { signal: over.signal }).then(() => 'done', String),
  );
  await sleep(200);
  over.abort(new Error('enough'));
  for (const outcome of await every(left)) expect(outcome).toContain('enough');
  await until(() => openMeetings(cluster) === 0, 'nothing waits');
});

it.each([2, 3, 5])(
  'hooks of %i workers broadcast from whom they like, and name their values as they like',
  async (size) => {
    cluster = await startCluster(size);
    for (let seed = 1; seed <= 8; seed++) {
      const { groups, all } = replicas();
      for (const [rank, model] of all.entries()) {
        const random = new Random(`${seed}/${rank}`);
        const group = groups[rank] as nn.ProcessGroup;
        model.registerCommHook(null, async (_, bucket) => {
          await sleep(random.int(0, 6));
          const mean = await group.allReduce(bucket.buffer(), 'mean', { tags: { layer: bucket.index } });
          await sleep(random.int(0, 3));
          return group.broadcast(mean, bucket.index % size);
        });
      }
      const passes = all.map(async (model, rank) => {
        await model.backward(model.forward(rank));
        return valueOf(model.module.weight);
      });
      expect(await every(passes), `seed ${seed}`).toEqual(all.map(() => (size - 1) / 2));
    }
  },
);

it('hooks that come to their buckets in opposite orders, of a worker that takes few calls at once, from the first pass on', async () => {
  for (const calls of [1, 2, 4, 16]) {
    const options = (rank: number): Partial<RpcOptions> => (rank === 0 ? { limits: { maxInboundCalls: calls } } : {});
    cluster = await startCluster(3, options);
    class Many extends nn.Module {
      readonly parts = Array.from({ length: 20 }, () => new Parameter(zeros([2])));
      constructor() {
        super();
        this.parts.forEach((part, i) => Object.assign(this, { [`p${i}`]: part }));
      }
    }
    const all = cluster.agents.map((agent, rank) => {
      const group = processGroup({ agent });
      const model = new nn.DistributedDataParallel(new Many() as Many & { forward: () => Tensor }, {
        group,
        bucketBytes: 1,
      });
      model.registerCommHook(null, async (_, bucket) => {
        await sleep(rank === 2 ? 40 - 2 * bucket.index : 0);
        return group.allReduce(bucket.buffer(), 'mean');
      });
      return model;
    });
    const passes = all.map(async (model, rank) => {
      const found = await model.reduceGradients(new Map(model.module.parts.map((p, i) => [p, full([2], rank * i)])));
      return model.module.parts.map((p) => found.get(p)?.dataSync()[0]);
    });
    const means = Array.from({ length: 20 }, (_, i) => i);
    expect(await every(passes), `${calls} calls`).toEqual([means, means, means]);
    await cluster.close();
  }
});

it('waits that a timer cannot have are no limit, and what a hook throws is what its worker hears', async () => {
  cluster = await startCluster(2);
  const groups = cluster.agents.map((agent) => processGroup({ agent }));
  const sums = groups.map(async (group, rank) => {
    await sleep(rank * 50);
    return (await group.allReduce(tensor([rank]), 'sum', { timeoutMs: 3e9 })).item();
  });
  expect(await every(sums)).toEqual([1, 1]);
  const { all } = replicas();
  for (const model of all)
    model.registerCommHook(null, () => {
      throw undefined as unknown as Error;
    });
  const [one] = await Promise.all(
    all.map((model) =>
      model.backward(model.forward(1)).then(
        () => 'done',
        (error: unknown) => [error],
      ),
    ),
  );
  expect([undefined, expect.stringContaining('makes no further pass')]).toContainEqual(
    (one as unknown[])[0] instanceof Error ? String((one as Error[])[0]?.message) : (one as unknown[])[0],
  );
});

it('a worker shuts down from what a hook has started', async () => {
  cluster = await startCluster(2);
  const { all, groups } = replicas();
  const ends: Promise<void>[] = [];
  for (const [rank, model] of all.entries())
    model.registerCommHook(null, (_, bucket) => {
      if (rank === 0 && bucket.isLast) ends.push(sleep(30).then(() => cluster.at(0).shutdown({ timeoutMs: 5_000 })));
      return (groups[rank] as nn.ProcessGroup).allReduce(bucket.buffer(), 'mean');
    });
  await Promise.all(all.map((model) => model.backward(model.forward(1))));
  ends.push(cluster.at(1).shutdown({ timeoutMs: 5_000 }));
  expect(await every(ends)).toEqual([undefined, undefined]);
});

it('synchronizing leaves no handle', async () => {
  cluster = await startCluster(2);
  const { all } = replicas();
  const synchronize = (): Promise<unknown> => Promise.all(all.map((model) => model.synchronize()));
  await synchronize();
  const before = memory().tensors;
  for (let n = 0; n < 20; n++) await synchronize();
  expect(memory().tensors - before).toBeLessThan(10);
});

it('what waits for room has the time limits of its own caller, not those of who waits before it', async () => {
  cluster = await startCluster(2, { limits: { maxBufferedBytesPerPeer: MIB } });
  const [one, other] = [cluster.at(0), cluster.at(1)];
  const over = new AbortController();
  const signal = over.signal;
  const group = processGroup({ agent: other });
  // Nobody comes to these: they fill what the other worker takes and what may wait for it, so that the handler's call is the first that waits.
  const unmet = Array.from({ length: 3 }, () =>
    group.allReduce(zeros([MIB / 8]), 'sum', { signal }).catch(() => undefined),
  );
  await sleep(30);
  const waits = rpcFunction('beside/waits', () => group.allReduce(zeros([1])));
  const limited = one
    .run(() => rpcAsync('w1', waits, [], { timeoutMs: 1_000 }))
    .catch((error: unknown) => rpcInfo(error)?.code);
  await sleep(30);
  const first = barrier({ agent: other, timeoutMs: 6_000 });
  // Both go while the handler runs, which waits in vain.
  over.abort();
  await Promise.all(unmet);
  expect(await limited).toBe('deadline-exceeded');
  await sleep(200);
  const met = [first, barrier({ agent: one, timeoutMs: 6_000 })].map((one) => one.then(() => 'met'));
  expect(await every(met)).toEqual(['met', 'met']);
});
