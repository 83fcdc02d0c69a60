import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAgent, rpcClass, rpcFunction, rpcSync, type RpcAgent } from '@backwire/rpc';
import { createRRef, remote, rrefs, type RRef } from '@backwire/rref';
import { crossEntropy, manualSeed, nn, optim, rpcName, tensor, type Parameter, type Tensor } from '@backwire/tensor';
import { backward, context, distAutograd, DistributedOptimizer, getGradients, RemoteModule } from '../src/index.ts';

class ParameterServer {
  static readonly [rpcName] = 'test/ParameterServer';
  readonly model: nn.Sequential<[nn.Linear, nn.Linear]>;
  constructor(seed: number) {
    manualSeed(seed);
    this.model = new nn.Sequential(new nn.Linear(4, 8), new nn.Linear(8, 2));
  }
  forward(x: Tensor): Tensor {
    return this.model.forward(x);
  }
  parameterRRefs(): RRef<Parameter>[] {
    return this.model.parameters().map((p) => createRRef(p));
  }
  gradientsOf(id: bigint): [Tensor, Tensor][] {
    return [...getGradients(id)].map(([p, g]) => [p, g]);
  }
  values(): unknown[] {
    return this.model.parameters().map((p) => p.toArray());
  }
}
rpcClass(ParameterServer, { methods: ['forward', 'parameterRRefs', 'gradientsOf', 'values'] });

const gradCount = rpcFunction('test/gradCount', (id: bigint) => getGradients(id).size);

let agents: RpcAgent[];
beforeAll(async () => {
  agents = await Promise.all(
    ['trainer', 'ps'].map((name, rank) =>
      createAgent({ name, rank, worldSize: 2, store: 'memory://programs', extensions: [rrefs(), distAutograd()] }),
    ),
  );
});
afterAll(async () => {
  await Promise.all((agents ?? []).map((agent) => agent.shutdown({ timeoutMs: 10_000 })));
});
const trainer = <T>(fn: () => T): T => agents[0]!.run(fn);

const x = tensor([
  [1, 0, 2, 1],
  [0, 1, 1, 3],
  [2, 2, 0, 1],
]);
const y = tensor([0, 1, 0], { dtype: 'int64' });

describe('the parameter-server program', () => {
  it('trains, with the bits of a single process', async () => {
    const local = new ParameterServer(7);
    const sgd = new optim.SGD(local.model.parameters(), { lr: 0.05, momentum: 0.9 });
    const expected: number[] = [];
    for (let i = 0; i < 5; i++) {
      const loss = crossEntropy(local.forward(x), y);
      expected.push(loss.item());
      sgd.zeroGrad();
      loss.backward();
      sgd.step();
    }
    const seen: number[] = [];
    const values = await trainer(async () => {
      const ps = remote('ps', ParameterServer, [7]);
      const params = await ps.rpcSync().parameterRRefs();
      const opt = await DistributedOptimizer.create(optim.SGD, params, { lr: 0.05, momentum: 0.9 });
      for (let i = 0; i < 5; i++) {
        await context(async (id) => {
          const loss = crossEntropy(await ps.rpcAsync({ timeoutMs: 5_000 }).forward(x), y);
          seen.push(loss.item());
          await backward(id, [loss]);
          await opt.step(id);
        });
      }
      return ps.rpcSync().values();
    });
    expect(seen).toEqual(expected);
    expect(values).toEqual(local.values());
  });

  it('hands out gradients that outlive the context', async () => {
    await trainer(async () => {
      const ps = remote('ps', ParameterServer, [7]);
      const grads = await context(async (id) => {
        await backward(id, [crossEntropy(await ps.rpcAsync().forward(x), y)]);
        return ps.rpcSync().gradientsOf(id);
      });
      expect(grads).toHaveLength(4);
      for (const [p, g] of grads) expect(g.shape).toEqual(p.shape);
      const own = new ParameterServer(7);
      crossEntropy(own.forward(x), y).backward();
      const byParameter = new Map(grads.map(([p, g]) => [JSON.stringify(p.toArray()), g.toArray()]));
      for (const p of own.model.parameters()) {
        expect(byParameter.get(JSON.stringify(p.toArray()))).toEqual(p.grad!.toArray());
      }
    });
  });
});

describe('RemoteModule', () => {
  it('runs forward there, and trains through a pipeline', async () => {
    await trainer(async () => {
      const embedding = await RemoteModule.create('ps/cpu', nn.Linear, [4, 4]);
      const pipeline = new nn.Sequential(embedding, new nn.Linear(4, 2));
      await context(async (id) => {
        await backward(id, [crossEntropy(await pipeline.forward(x), y)]);
        expect(getGradients(id).size).toBe(2);
        const remoteGrads = await rpcSync('ps', gradCount, [id]);
        expect(remoteGrads).toBe(2);
      });
      expect(await embedding.remoteParameters()).toHaveLength(2);
      expect(embedding.getModuleRRef().ownerName()).toBe('ps');
    });
  });
});
