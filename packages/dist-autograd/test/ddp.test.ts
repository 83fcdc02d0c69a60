/** Data-parallel modules inside of distributed autograd contexts: their gradients are the group's, on every trainer. */
import { shown } from '@backwire/testing';
import { barrier, processGroup, rpcClass, rpcFunction, rpcSync, type RpcAgent } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import {
  concat,
  manualSeed,
  nn,
  noGrad,
  randn,
  rpcName,
  tensor,
  zeros,
  type Parameter,
  type Tensor,
} from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { expectClean, useAgents } from './agents.ts';
import { backward, context, getGradients, RemoteModule } from '../src/index.ts';

const TRAINERS = ['w0', 'w1', 'w2', 'w3'];
const PARAMETER_SERVER = 'w4';
const MASTER = 5;
const { at, agents } = useAgents('ddp', 6, { onLeak: 'throw' });

interface Batch {
  readonly dense: Tensor;
  readonly sparse: Tensor;
  readonly values: Tensor;
}

/** A linear layer of ones, but for its first weight. */
function linear(from: number, to: number): nn.Linear {
  const layer = new nn.Linear(from, to, { bias: false });
  const weights = new Float32Array(from * to).fill(1);
  weights[0] = -1;
  noGrad(() => layer.weight.copy_(tensor(weights, { shape: [to, from] })));
  return layer;
}

class RemoteEm extends nn.Module {
  static readonly [rpcName] = 'ddp/RemoteEm';
  readonly em: nn.EmbeddingBag;
  constructor(count: number, dim: number) {
    super();
    this.em = new nn.EmbeddingBag(count, dim);
    noGrad(() => this.em.weight.copy_(tensor(new Float32Array(count * dim).fill(0.5), { shape: [count, dim] })));
  }
  forward(ids: Tensor): Tensor {
    const offsets = tensor(
      Array.from({ length: ids.size }, (_, i) => i),
      { dtype: 'int64' },
    );
    return this.em.forward(ids, offsets);
  }
}
rpcClass(RemoteEm, { methods: ['forward'] });

class RemoteNet extends nn.Module {
  static readonly [rpcName] = 'ddp/RemoteNet';
  readonly fc: nn.Linear;
  constructor(from: number, to: number) {
    super();
    this.fc = linear(from, to);
  }
  forward(x: Tensor): Tensor {
    return this.fc.forward(x).relu();
  }
}
rpcClass(RemoteNet, { methods: ['forward'] });

type Mode = 'none' | 'outside' | 'inside';

class HybridModel extends nn.Module {
  readonly fc1 = linear(2, 2);
  readonly fc2: nn.Linear | nn.DistributedDataParallel<nn.Linear>;
  private readonly em: RRef<RemoteEm>;
  private readonly net: RRef<RemoteNet>;
  constructor(em: RRef<RemoteEm>, net: RRef<RemoteNet>, group: nn.ProcessGroup | undefined) {
    super();
    this.em = em;
    this.net = net;
    const fc2 = linear(3, 1);
    this.fc2 = group === undefined ? fc2 : new nn.DistributedDataParallel(fc2, { group });
  }
  async forward({ dense, sparse }: Batch): Promise<Tensor> {
    const looked = await this.em.rpcSync().forward(sparse);
    expect(looked.shape).toEqual([dense.shape[0], 3]);
    const x = concat([this.fc1.forward(dense), looked], 1);
    return this.fc2.forward(await this.net.rpcSync().forward(x));
  }
}

class Trainer {
  static readonly [rpcName] = 'ddp/Trainer';
  private readonly model: HybridModel;
  private readonly wrapped: nn.DistributedDataParallel<HybridModel> | undefined;
  private readonly own: readonly Parameter[];
  private readonly shared: readonly Parameter[];
  constructor(em: RRef<RemoteEm>, net: RRef<RemoteNet>, mode: Mode) {
    const group = mode === 'none' ? undefined : processGroup({ workers: TRAINERS });
    this.model = new HybridModel(em, net, mode === 'inside' ? group : undefined);
    if (mode === 'outside' && group !== undefined) this.wrapped = new nn.DistributedDataParallel(this.model, { group });
    const [fc1, fc2] = [this.model.fc1.parameters(), this.model.fc2.parameters()];
    this.shared = mode === 'outside' ? [...fc1, ...fc2] : mode === 'inside' ? fc2 : [];
    this.own = mode === 'outside' ? [] : mode === 'inside' ? fc1 : [...fc1, ...fc2];
  }

  /** The gradients of the last batch: of shared parameters, and of the trainer's own. Uneven, a batch is two, or one with `less`. */
  async train(batch: Batch, less: boolean, uneven: boolean): Promise<[shared: Tensor[], own: Tensor[]]> {
    const batches = uneven ? halves(batch).slice(0, less ? 1 : 2) : [batch];
    let last: [Tensor[], Tensor[]] = [[], []];
    const loop = async (): Promise<void> => {
      for (const part of batches) {
        last = await context(async (id) => {
          const out = await (this.wrapped ?? this.model).forward(part);
          // As in PyTorch's test every output is multiplied with all values, of the other half too.
          await backward(id, [out.mul(batch.values).sum()]);
          const gradients = getGradients(id);
          expect(gradients.size).toBe(2);
          const take = (parameters: readonly Parameter[]): Tensor[] =>
            parameters.map((parameter) => gradients.get(parameter) as Tensor);
          return [take(this.shared), take(this.own)];
        });
      }
    };
    await (uneven && this.wrapped !== undefined ? this.wrapped.join(loop) : loop());
    return last;
  }
}
rpcClass(Trainer, { methods: ['train'] });

/** Sixteen examples, each with another of the same features and the opposite value, split over the trainers. */
function examples(): Batch[] {
  const rows: [x: number, y: number, id: number, value: number][] = [];
  for (const value of [-1, 1])
    for (const x of [-1 * value, value])
      for (const y of [value, -1 * value]) for (const id of [0, 1]) rows.push([x, y, id, value]);
  return TRAINERS.map((_, i) => {
    const own = rows.slice(4 * i, 4 * i + 4);
    return {
      dense: tensor(own.map(([x, y]) => [x, y])),
      sparse: tensor(
        own.map(([, , id]) => id),
        { dtype: 'int64' },
      ),
      values: tensor(own.map(([, , , value]) => value)),
    };
  });
}

/** The same in two halves. */
function halves({ dense, sparse, values }: Batch): Batch[] {
  return [0, 2].map((from) => ({
    dense: dense.narrow(0, from, 2),
    sparse: sparse.narrow(0, from, 2),
    values: values.narrow(0, from, 2),
  }));
}

function hybrid(mode: Mode, uneven = false): Promise<void> {
  return at(MASTER, async () => {
    const em = remote(PARAMETER_SERVER, RemoteEm, [2, 3]);
    const net = remote(PARAMETER_SERVER, RemoteNet, [5, 3]);
    const trainers = TRAINERS.map((name) => remote(name, Trainer, [em, net, mode]));
    const batches = examples();
    for (let round = 0; round < 3; round++) {
      const answers = await Promise.all(
        trainers.map((trainer, i) => trainer.rpcAsync().train(batches[i] as Batch, uneven && i < 2, uneven)),
      );
      for (const [rank, [shared, own]] of answers.entries()) {
        const wrapped = mode === 'none' ? 0 : mode === 'inside' ? 1 : 2;
        expect([shared.length, own.length]).toEqual([wrapped, 2 - wrapped]);
        // Of the first layer and of the second.
        for (const [i, grad] of (mode === 'inside' ? [...own, ...shared] : [...shared, ...own]).entries())
          expect([grad.layout, grad.dtype, grad.shape]).toEqual(['strided', 'float32', i === 0 ? [2, 2] : [1, 3]]);
        // The examples cancel each other, in the mean over the trainers and nowhere else.
        if (!uneven) for (const grad of shared) expect(grad.equal(zeros(grad.shape))).toBe(true);
        for (const grad of own) expect(grad.equal(zeros(grad.shape))).toBe(false);
        // Trainers whose last batch was in the same pass have the same.
        const like = answers[uneven && rank >= 2 ? 2 : 0];
        shared.forEach((grad, i) => expect(grad.equal(like?.[0][i] as Tensor)).toBe(true));
      }
    }
    for (const rref of [em, net, ...trainers]) rref.dispose();
    await expectClean(agents);
  });
}

describe('a model whose embedding and middle are elsewhere', () => {
  it('trains without data parallelism', () => hybrid('none'));
  it('has no gradients left where its examples cancel: the whole model is wrapped', () => hybrid('outside'));
  it('is wrapped as a whole, with uneven inputs', () => hybrid('outside', true));
  it('has no gradients left in the part that is wrapped', () => hybrid('inside'));
});

/** Runs `fn` on every trainer at once, each with a seed of its own. */
async function onTrainers<T>(fn: (rank: number, group: nn.ProcessGroup) => Promise<T>): Promise<T[]> {
  return Promise.all(
    TRAINERS.map((_, rank) =>
      at(rank, () => {
        manualSeed(rank);
        return fn(rank, processGroup({ workers: TRAINERS, agent: agents[rank] as RpcAgent }));
      }),
    ),
  );
}

/** The same kind of tensor, and in each entry nearly the same value. */
function expectClose(found: Tensor, expected: Tensor, tolerance: number): void {
  expect([found.layout, found.dtype, found.shape]).toEqual([expected.layout, expected.dtype, expected.shape]);
  expect(found.allClose(expected, { rtol: tolerance, atol: tolerance / 10 })).toBe(true);
}

const norm = (x: Tensor): Tensor => x.mul(x).sum().pow(0.5);

const gradientOfWeight = rpcFunction('ddp/gradientOfWeight', async (module: RRef<nn.Linear>, id: bigint) =>
  getGradients(id).get((await module.localValue()).weight),
);

/** PyTorch joins even inputs, too: its `join(False)` is about what the mean is divided by. */
async function comparison({ uneven, joined }: { uneven: boolean; joined: boolean }): Promise<void> {
  const all = await onTrainers(async (rank, group) => {
    const net = new nn.Linear(2, 3);
    const replica = new nn.DistributedDataParallel(net, { group });
    const inputs = Array.from({ length: uneven && rank % 2 === 0 ? 3 : 1 }, () => randn([3, 2]));
    const loop = async (): Promise<Tensor[][]> => {
      const steps: Tensor[][] = [];
      for (const input of inputs) {
        const distributed = await context(async (id) => {
          await backward(id, [norm(replica.forward(input))]);
          return getGradients(id);
        });
        for (const parameter of net.parameters()) parameter.grad = null;
        const loss = norm(replica.forward(input));
        await replica.backward(loss);
        for (const parameter of net.parameters()) {
          const grad = distributed.get(parameter) as Tensor;
          expectClose(grad, parameter.grad as Tensor, 1e-6);
        }
        steps.push(net.parameters().map((parameter) => distributed.get(parameter) as Tensor));
      }
      return steps;
    };
    return joined ? replica.join(loop) : loop();
  });
  // The mean of a step is the same on all that take part in it, though models and inputs are not; the first takes part in every one.
  for (const steps of all)
    for (const [step, grads] of steps.entries())
      grads.forEach((grad, i) => expect(grad.equal(all[0]?.[step]?.[i] as Tensor)).toBe(true));
  await expectClean(agents);
}

/** A replica on a worker that does not begin the pass. */
class Shard {
  static readonly [rpcName] = 'ddp/Shard';
  private readonly net = new nn.Linear(2, 1, { bias: false });
  private readonly replica: nn.DistributedDataParallel<nn.Linear>;
  constructor(members: readonly string[]) {
    this.replica = new nn.DistributedDataParallel(this.net, { group: processGroup({ workers: members }) });
  }
  fail(text: string): void {
    this.replica.registerCommHook(text, (said) => {
      throw new RangeError(said);
    });
  }
  forward(x: Tensor): Tensor {
    return this.replica.forward(x);
  }
  gradient(id: bigint): Tensor | undefined {
    return getGradients(id).get(this.net.weight);
  }
}
rpcClass(Shard, { methods: ['fail', 'forward', 'gradient'] });

describe('replicas on workers that a pass only comes through', () => {
  it('combine their gradients before the pass is over', () =>
    at(MASTER, async () => {
      const shards = ['w0', 'w1'].map((name) => remote(name, Shard, [['w0', 'w1']]));
      const inputs = [tensor([[1, 2]]), tensor([[3, 6]])];
      for (let pass = 0; pass < 2; pass++) {
        await context(async (id) => {
          const outs = await Promise.all(shards.map((shard, i) => shard.rpcSync().forward(inputs[i] as Tensor)));
          await backward(id, [concat(outs, 0).sum()]);
          for (const shard of shards) expect((await shard.rpcSync().gradient(id))?.toArray()).toEqual([[2, 4]]);
        });
      }
      for (const shard of shards) shard.dispose();
      await expectClean(agents);
    }));

  it('fail the pass when their group does, and leave no gradients', () =>
    at(MASTER, async () => {
      const shard = remote('w0', Shard, [['w0']]);
      await shard.rpcSync().fail('no bucket today');
      await context(async (id) => {
        const out = await shard.rpcSync().forward(tensor([[1, 2]]));
        await expect(backward(id, [out.sum()])).rejects.toThrow('no bucket today');
        expect(await shard.rpcSync().gradient(id)).toBeUndefined();
      });
      shard.dispose();
      await expectClean(agents);
    }));
});

describe('data-parallel gradients', () => {
  it('are the same by the local engine and in a context, inside of join and without it', async () => {
    for (const joined of [false, true]) await comparison({ uneven: false, joined });
  });

  it('are the same with uneven inputs', () => comparison({ uneven: true, joined: true }));

  it('are the same where they are sparse', async () => {
    await onTrainers(async (_, group) => {
      const model = new nn.EmbeddingBag(10, 3, { sparse: true });
      const replica = new nn.DistributedDataParallel(model, { group });
      const ids = tensor(
        Array.from({ length: 10 }, () => Math.floor(Math.abs(randn([1]).item()) * 10) % 10),
        { dtype: 'int64' },
      );
      const offsets = tensor([0, 4], { dtype: 'int64' });
      await replica.backward(replica.forward(ids, offsets).sum());
      await context(async (id) => {
        await backward(id, [replica.forward(ids, offsets).sum()]);
        const gradients = getGradients(id);
        expect(gradients.size).toBe(1);
        const [local, inContext] = [model.weight.grad as Tensor, gradients.get(model.weight) as Tensor];
        expect(shown(inContext)).toEqual(shown(local));
      });
    });
    await expectClean(agents);
  });

  it('are those of a local model when a layer before them is on w0, with and without its device', async () => {
    for (const device of ['w0/cpu', 'w0']) {
      const all = await onTrainers(async (_, group) => {
        const remoteLayer = await RemoteModule.create(device, nn.Linear, [10, 5, { bias: false }]);
        const layer1 = new nn.Linear(10, 5, { bias: false });
        const [weights] = await Promise.all(
          (await remoteLayer.remoteParameters()).map((parameter) => parameter.toHere()),
        );
        noGrad(() => layer1.weight.copy_(weights as Tensor));
        const layer2 = new nn.Linear(5, 1);
        const inputs = randn([10, 10]);
        const replica = new nn.DistributedDataParallel(layer2, { group });
        await replica.backward(replica.forward(layer1.forward(inputs)).sum());
        return context(async (id) => {
          const out = await remoteLayer.forward(inputs);
          await backward(id, [replica.forward(out).sum()]);
          // Every trainer's pass has come through w0 before anyone looks: what was put into the wrong context would be there.
          await barrier({ workers: TRAINERS });
          const grad = getGradients(id).get(layer2.weight) as Tensor;
          expectClose(grad, layer2.weight.grad as Tensor, 1e-6);
          // The layer before it is nobody's replica: its gradient is this trainer's alone.
          const there = (await rpcSync('w0', gradientOfWeight, [remoteLayer.getModuleRRef(), id])) as Tensor;
          expectClose(there, layer1.weight.grad as Tensor, 1e-6);
          return grad;
        });
      });
      for (const grad of all) expect(grad.equal(all[0] as Tensor)).toBe(true);
    }
  });
});
