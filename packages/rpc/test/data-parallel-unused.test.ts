/**
 * @file Data parallel over models of which a pass needs some parameters only, other ones on each worker: what any worker has a gradient of is
 * the mean, with zeros of the others, and what none has is left as it was, as in one process.
 */
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Random } from '@backwire/testing';
import { nn, optim, Parameter, real, tensor, type Tensor } from '@backwire/tensor';
import { processGroup } from '../src/index.ts';
import { startCluster, type Cluster } from './cluster.ts';
import { dropping } from './wrapped-groups.ts';

const WORKERS = 3;
const DTYPES = ['float32', 'float64', 'float16', 'bfloat16', 'complex64'] as const;

let cluster: Cluster;
beforeEach(async () => {
  cluster = await startCluster(WORKERS);
});
afterEach(() => cluster.close());

/** As doubles; of complex numbers the real part. */
const wide = (t: Tensor): Tensor => (t.dtype === 'complex64' ? real(t) : t).to('float64');

/** Slopes by parameter; undefined where the pass does not come to it. */
type Use = readonly (number | undefined)[];

class Parts extends nn.Module {
  readonly parts: readonly Parameter[];
  readonly table: nn.Embedding;

  constructor(sizes: readonly number[], dtype: (typeof DTYPES)[number], sparse: boolean) {
    super();
    this.parts = sizes.map((size) => new Parameter(tensor(new Float64Array(size).fill(8)).to(dtype)));
    for (const [i, part] of this.parts.entries()) Object.assign(this, { [`part${i}`]: part });
    this.table = new nn.Embedding(4, 2, { sparse });
    this.table.loadStateDict(new Map([['weight', tensor([1, 2, 3, 4, 5, 6, 7, 8]).reshape([4, 2])]]));
  }

  get all(): readonly Parameter[] {
    return [...this.parts, this.table.weight];
  }

  forward(use: Use): Tensor {
    const terms = use.flatMap((slope, i) => {
      if (slope === undefined) return [];
      const part = this.parts[i] ?? this.table.forward(tensor([1, 1], { dtype: 'int64' }));
      return [wide(part.mul(slope).sum())];
    });
    return terms.reduce<Tensor>((sum, term) => sum.add(term), tensor(0).to('float64'));
  }
}

const gradsOf = (model: Parts): (unknown[] | null)[] =>
  model.all.map(({ grad }) => grad && (wide(grad.toDense()).reshape([-1]).toArray() as unknown[]));

/** The mean of what each has alone, zeros where it has none. */
function meanOf(alone: readonly Parts[]): (unknown[] | null)[] {
  return (alone[0] as Parts).all.map((_, i) => {
    const grads = alone.flatMap(({ all }) => all[i]?.grad ?? []);
    if (grads.length === 0) return null;
    const sum = grads.map((grad): Tensor => wide(grad.toDense())).reduce((a, b) => a.add(b));
    return sum.div(alone.length).reshape([-1]).toArray() as unknown[];
  });
}

it('has a gradient of what any worker needs, and none of what none does, whatever makes the mean', async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = new Random(seed);
    const sizes = Array.from({ length: random.int(1, 3) }, () => random.pick([0, 1, 5, 20_000]));
    const make = { dtype: random.pick(DTYPES), sparse: random.chance(0.5) };
    const [hooked, own, joined] = [random.chance(0.4), random.chance(0.3), random.chance(0.2)];
    const about = `seed ${seed}: ${JSON.stringify({ sizes, ...make, hooked, own, joined })}`;
    const model = (): Parts => new Parts(sizes, make.dtype, make.sparse);
    const bucketBytes = random.pick([1, 64, 2 ** 20]);
    const replicas = cluster.agents.map((agent) => {
      const group = processGroup({ agent });
      const replica = new nn.DistributedDataParallel(model(), { group: own ? dropping(group) : group, bucketBytes });
      if (hooked) replica.registerCommHook(null, (_, bucket) => group.allReduce(bucket.buffer().toDense(), 'mean'));
      return replica;
    });
    const steps = Array.from({ length: 3 }, () =>
      replicas.map((): Use => {
        const use = [...sizes, 0].map(() => (random.chance(0.5) ? random.int(-4, 4) * WORKERS : undefined));
        return use.every((slope) => slope === undefined) ? [3] : use;
      }),
    );
    const wanted = steps.map((uses) =>
      meanOf(
        uses.map((use) => {
          const alone = model();
          alone.forward(use).backward();
          return alone;
        }),
      ),
    );
    await Promise.all(
      replicas.map(async (replica, rank) => {
        const loop = async (): Promise<void> => {
          for (const [step, uses] of steps.entries()) {
            for (const parameter of replica.parameters()) parameter.grad = null;
            await replica.backward(replica.forward(uses[rank] as Use));
            expect(gradsOf(replica.module), `step ${step} of worker ${rank}; ${about}`).toEqual(wanted[step]);
          }
        };
        await (joined ? replica.join(loop) : loop());
      }),
    );
  }
});

it('does not train what no worker needs, though its optimizer remembers that it was needed', async () => {
  const alone = new Parts([2, 2], 'float32', false);
  const groups = cluster.agents.map((agent) => processGroup({ agent }));
  const ofOne = processGroup({ agent: cluster.at(0), workers: ['w0'] });
  const replicas = [ofOne, ...groups].map(
    (group) => new nn.DistributedDataParallel(new Parts([2, 2], 'float32', false), { group }),
  );
  const uses: Use[] = [[3, 3], [3], [undefined, 6], [3, 3]];
  const train = async (model: Parts, backward: (use: Use) => Promise<void> | void): Promise<unknown> => {
    const optimizer = new optim.SGD(model.all, { lr: 0.125, momentum: 0.5, weightDecay: 0.5 });
    for (const use of uses) {
      optimizer.zeroGrad();
      await backward(use);
      optimizer.step();
    }
    return model.all.map((parameter) => parameter.toArray());
  };
  const wanted = await train(alone, (use) => alone.forward(use).backward());
  for (const found of await Promise.all(
    replicas.map((replica) => train(replica.module, (use) => replica.backward(replica.forward(use)))),
  ))
    expect(found).toEqual(wanted);
});
