/** @file Data parallel over workers with unequal numbers of batches, for several models in one loop; buffers; and who differs from whom. */
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Random } from '@backwire/testing';
import { nn, optim, Parameter, randn, zeros, type Tensor } from '@backwire/tensor';
import { processGroup, rpcInfo } from '../src/index.ts';
import { openMeetings, startCluster, until, type Cluster } from './cluster.ts';

const WORKERS = 3;
let cluster: Cluster;
beforeEach(async () => {
  cluster = await startCluster(WORKERS);
});
afterEach(() => cluster.close());

class One extends nn.Module {
  readonly weight = new Parameter(zeros([2]));
  readonly seen: Tensor;
  constructor(dtype: 'int64' | 'float32' = 'int64') {
    super();
    this.seen = this.registerBuffer('seen', zeros([], { dtype }));
  }
  forward(slope: number): Tensor {
    this.seen.add_(1);
    return this.weight.sum().mul(slope);
  }
}
type Replica = nn.DistributedDataParallel<One>;

const replica = (rank: number): Replica =>
  new nn.DistributedDataParallel(new One(), { group: processGroup({ agent: cluster.at(rank) }) });

describe('join() of several models', () => {
  it(
    'answers the passes of each as long as any worker makes some, and leaves all with the same',
    { timeout: 60_000 },
    async () => {
      for (let seed = 1; seed <= 25; seed++) {
        const random = new Random(seed);
        const models = random.int(1, 4);
        /** Which model each pass is with. Each worker comes to an end of its own. */
        const order = Array.from({ length: 12 }, () => random.int(0, models));
        const plans = cluster.agents.map(() => order.slice(0, random.int(0, 13)));
        const about = `seed ${seed}: ${JSON.stringify(plans)}`;
        const counts = plans.map((plan) =>
          Array.from({ length: models }, (_, m) => plan.filter((one) => one === m).length),
        );
        const found = await Promise.all(
          plans.map(async (plan, rank) => {
            const own = Array.from({ length: models }, () => replica(rank));
            const pauses = new Random(`${seed}/${rank}`);
            const optimizers = own.map((model) => new optim.SGD(model.parameters(), { lr: 1 }));
            const [first, ...beside] = own as [Replica, ...Replica[]];
            const loop = async (): Promise<void> => {
              for (const m of plan) {
                for (let i = pauses.int(0, 5); i > 0; i--) await turn();
                const model = own[m] as Replica;
                optimizers[m]?.zeroGrad();
                await model.backward(model.forward(3 * (rank + 1)));
                optimizers[m]?.step();
              }
            };
            await first.join(loop, ...beside);
            return own.map(({ module }) => [...(module.weight.toArray() as number[]), Number(module.seen.item())]);
          }),
        );
        const wanted = Array.from({ length: models }, (_, m) => {
          const most = Math.max(...counts.map((of) => of[m] as number));
          let weight = 0;
          for (let pass = 0; pass < most; pass++)
            for (const [rank, of] of counts.entries()) if (pass < (of[m] as number)) weight -= rank + 1;
          return [weight, weight, most];
        });
        for (const one of found) expect(one, about).toEqual(wanted);
      }
    },
  );

  it('tells the others in whichever model they are when the loop of one throws', async () => {
    const outcomes = await Promise.all(
      cluster.agents.map(async (_, rank) => {
        const [first, second] = [replica(rank), replica(rank)];
        return first
          .join(async () => {
            await first.backward(first.forward(1));
            if (rank === 1) throw new Error('no more');
            await (rank === 0 ? first : second).backward((rank === 0 ? first : second).forward(1));
          }, second)
          .catch((error: unknown) => error as Error);
      }),
    );
    expect((outcomes[1] as Error).message).toBe('no more');
    for (const rank of [0, 2]) {
      expect(rpcInfo(outcomes[rank])?.code).toBe('failed-precondition');
      expect((outcomes[rank] as Error).message).toMatch(/'w[012]' makes no further pass.*no more/s);
    }
    await until(() => openMeetings(cluster) === 0, 'nothing waits');
  });

  it.each([
    ['one worker leaves a model out', [[0, 1], [0], [0, 1]]],
    [
      'one worker names another one',
      [
        [0, 1],
        [0, 2],
        [0, 1],
      ],
    ],
    ['the order differs too', [[0, 1], [1], [1, 0]]],
  ])('tells all where %s, whichever they make passes with', async (_, named) => {
    for (const begin of [0, 1])
      for (const passes of [0, 1, 3]) {
        const outcomes = await Promise.all(
          cluster.agents.map(async (__, rank) => {
            const made = [replica(rank), replica(rank), replica(rank)];
            const [first, ...beside] = (named[rank] as number[]).map((model) => made[model]) as [Replica, ...Replica[]];
            const loop = async (): Promise<void> => {
              const all = [first, ...beside];
              for (let i = 0; i < passes; i++) {
                const model = all[(begin + i) % all.length] as Replica;
                await model.backward(model.forward(1));
              }
            };
            return first.join(loop, ...beside).catch((error: unknown) => error as Error);
          }),
        );
        for (const outcome of outcomes)
          expect((outcome as Error).message).toMatch(
            /join\(\) was called with other models on workers? 'w\d'(, 'w\d')* than here|makes no further pass.*join\(\) was called with other models/,
          );
        expect(outcomes.filter((outcome) => (outcome as Error).message.startsWith('join()')).length).toBeGreaterThan(0);
        await until(() => openMeetings(cluster) === 0, 'nothing waits');
      }
  });

  it('of groups that overlap may differ where the others have no part', async () => {
    const ends = await Promise.all(
      cluster.agents.map(async (agent, rank) => {
        const whole = replica(rank);
        if (rank === 2) return whole.join(() => Promise.resolve(rank));
        const group = processGroup({ agent, workers: ['w0', 'w1'] });
        const part = new nn.DistributedDataParallel(new One(), { group });
        return whole.join(async () => {
          if (rank === 1) await part.backward(part.forward(1));
          return rank;
        }, part);
      }),
    );
    expect(ends).toEqual([0, 1, 2]);
  });

  it('refuses models of one process group, whose passes come in one order, and one that is joined already', async () => {
    const group = processGroup({ agent: cluster.at(0) });
    const [one, other] = [0, 1].map(() => new nn.DistributedDataParallel(new One(), { group })) as [Replica, Replica];
    const nothing = (): Promise<void> => Promise.resolve();
    await expect(one.join(nothing, other)).rejects.toThrow('join() of several models needs a processGroup() for each');
    await expect(one.join(nothing, one)).rejects.toThrow('join() of several models needs a processGroup() for each');
    const alone = new nn.DistributedDataParallel(new One());
    expect(await alone.join(() => Promise.resolve(5), new nn.DistributedDataParallel(new One()))).toBe(5);
  });
});

describe('synchronize()', () => {
  it('copies buffers too', async () => {
    const models = cluster.agents.map((agent) => {
      const group = processGroup({ agent });
      return new nn.DistributedDataParallel(new nn.BatchNorm1d(3), { group });
    });
    for (const [rank, model] of models.entries())
      for (let i = 0; i <= rank; i++) model.forward(randn([4, 3]).add(rank));
    const states = (): unknown[] =>
      models.map((model) => [...model.module.stateDict()].map(([name, t]) => [name, t.toArray()]));
    const wanted = states()[1];
    expect(states()[0]).not.toEqual(wanted);
    await Promise.all(models.map((model) => model.synchronize(1)));
    expect(states()).toEqual([wanted, wanted, wanted]);
  });

  it.each([
    [
      'parameter 1 of 2',
      (rank: number): nn.Linear =>
        Object.assign(new nn.Linear(2, 3), rank === 2 && { bias: new Parameter(zeros([4])) }),
      'bias',
    ],
    ['buffer 0 of 1', (rank: number): One => new One(rank === 2 ? 'float32' : 'int64'), 'seen'],
  ])('says to each worker who has another %s', async (which, make, name) => {
    const outcomes = await Promise.all(
      cluster.agents.map(async (agent, rank) => {
        const model = new nn.DistributedDataParallel(make(rank) as One, { group: processGroup({ agent }) });
        return model.synchronize().catch((error: unknown) => (error as Error).message);
      }),
    );
    const others = ["'w2'", "'w2'", "'w0', 'w1'"];
    for (const [rank, text] of outcomes.entries()) {
      expect(text).toContain(`the replicas of this group differ in ${which}, '${name}', which has shape [`);
      expect(text).toMatch(new RegExp(`is another on ${others[rank]}$`));
    }
  });
});
