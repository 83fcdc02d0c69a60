import { errorMatching, shown } from '@backwire/testing';
import { describe, expect, it, vi } from 'vitest';
import { getWorkerInfo, rpcClass, RpcError, rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { matmul, nn, optim, rpcName, tensor, type Tensor } from '@backwire/tensor';
import { expectClean, leaf, useAgents } from '../test/agents.ts';
import { BY_FUNCTIONS, MyModule } from '../test/one-weight.ts';
import { sessionOf } from './api.ts';
import { backward, context, DistributedOptimizer, RemoteModule } from './index.ts';

const { at, agents, everywhere } = useAgents('optimizer', 4, { onLeak: 'throw' });
/** The worker so many after this one. */
const after = (by: number): string => `w${(getWorkerInfo().id + by) % 4}`;

class Model {
  static readonly [rpcName] = 'optimizer/Model';
  readonly weight: Tensor;
  constructor(rows: number, cols: number) {
    const values = Array.from({ length: rows * cols }, (_, i) => ((i * 7) % 5) / 3 - 0.5);
    this.weight = tensor(new Float32Array(values), { shape: [rows, cols], requiresGrad: true });
  }
  forward(x: Tensor): Tensor {
    return matmul(this.weight, x);
  }
  weightRRef(): RRef<Tensor> {
    return createRRef(this.weight);
  }
  values(): unknown {
    return this.weight.toArray();
  }
  gradIsNull(): boolean {
    return this.weight.grad === null;
  }
}
rpcClass(Model, { methods: ['forward', 'weightRRef', 'values', 'gradIsNull'] });

/** Reads `.grad`, as an optimiser written for one process does. */
class ObjectSgd extends optim.SGD {
  static override readonly [rpcName] = 'optimizer/ObjectSgd' as never;
  static readonly seen: number[] = [];
  override step(...args: [] | [grads?: readonly (Tensor | null)[]]): void {
    ObjectSgd.seen.push(args.length);
    super.step();
  }
}
rpcClass(ObjectSgd, { methods: ['step'] });

class FailingStep extends optim.SGD {
  static override readonly [rpcName] = 'optimizer/FailingStep' as never;
  override step(): void {
    throw new Error('Error running optimizer.');
  }
}
rpcClass(FailingStep, { methods: ['step'] });

class FailingConstructor extends optim.SGD {
  static override readonly [rpcName] = 'optimizer/FailingConstructor' as never;
  constructor(params: Iterable<Tensor>, options: { lr: number }) {
    super(params, options);
    throw new Error('Error creating optimizer.');
  }
}
rpcClass(FailingConstructor, { methods: ['step'] });

class NotAnOptimizer {
  static readonly [rpcName] = 'optimizer/NotAnOptimizer';
}
rpcClass(NotAnOptimizer, { methods: [] });

const x = tensor([
  [1, 2],
  [3, 4],
  [5, 6],
]);

/** Two models on two workers, stepped twice. */
async function distributed(
  optimizer: typeof optim.SGD,
  options: { lr: number; momentum?: number },
): Promise<unknown[]> {
  const models = [remote('w1', Model, [4, 3]), remote('w2', Model, [2, 4])] as const;
  const params = await Promise.all(models.map((model) => model.rpcSync().weightRRef()));
  using opt = await DistributedOptimizer.create(optimizer, params, options);
  for (let i = 0; i < 2; i++) {
    await context(async (id) => {
      const hidden = await models[0].rpcSync().forward(x);
      const out = await models[1].rpcSync().forward(hidden);
      await backward(id, [out.sum()]);
      await opt.step(id);
    });
  }
  const values = await Promise.all(models.map((model) => model.rpcSync().values()));
  for (const rref of [...models, ...params]) rref.dispose();
  return values;
}

function local(options: { lr: number; momentum?: number }): unknown[] {
  const models = [new Model(4, 3), new Model(2, 4)] as const;
  const sgd = new optim.SGD(
    models.map((model) => model.weight),
    options,
  );
  for (let i = 0; i < 2; i++) {
    sgd.zeroGrad();
    models[1].forward(models[0].forward(x)).sum().backward();
    sgd.step();
  }
  return models.map((model) => model.values());
}

describe('DistributedOptimizer', () => {
  it('steps a model over two workers as one process does, with the same bits each run', async () => {
    const options = { lr: 0.05, momentum: 0.9 };
    const first = await at(0, () => distributed(optim.SGD, options));
    expect(first).toEqual(local(options));
    expect(await at(0, () => distributed(optim.SGD, options))).toEqual(first);
    await expectClean(agents);
  });

  it('lets go of the optimisers on their owners when it is disposed, once, and steps no more', async () => {
    const owned = (): number => Number(agents[1]?.debugInfo()['num_owner_rrefs']);
    // What the tests before this one let go of: their last notices may be under way.
    await expect.poll(owned).toBe(0);
    await at(0, async () => {
      const model = remote('w1', Model, [2, 3]);
      const param = await model.rpcSync().weightRRef();
      const before = owned();
      const opt = await DistributedOptimizer.create(optim.SGD, [param], { lr: 0.1, momentum: 0.9 });
      expect(owned()).toBe(before + 1);
      opt.dispose();
      opt.dispose();
      await expect.poll(owned).toBe(before);
      await context(async (id) => {
        await backward(id, [(await model.rpcSync().forward(x)).sum()]);
        await expect(opt.step(id)).rejects.toThrow('this optimizer was disposed');
      });
      {
        using other = await DistributedOptimizer.create(optim.SGD, [param], { lr: 0.1 });
        expect([typeof other.step, owned()]).toEqual(['function', before + 1]);
      }
      await expect.poll(owned).toBe(before);
      model.dispose();
      param.dispose();
    });
  });

  it('lends gradients to an optimiser that reads them from its parameters, and takes them back', async () => {
    const options = { lr: 0.05 };
    ObjectSgd.seen.length = 0;
    expect(await at(0, () => distributed(ObjectSgd as unknown as typeof optim.SGD, options))).toEqual(local(options));
    expect(ObjectSgd.seen).toEqual([0, 0, 0, 0]);
  });

  it.each(['SGD', 'Adam', 'AdamW', 'Adamax', 'RAdam', 'Adagrad', 'Adadelta', 'RMSprop', 'Rprop'] as const)(
    'leaves parameters without a gradient alone: %s',
    (name) =>
      at(0, async () => {
        const model = remote('w1', Model, [2, 3]);
        const unused = remote('w1', Model, [2, 3]);
        const before = await model.rpcSync().values();
        const params = [await unused.rpcSync().weightRRef(), await model.rpcSync().weightRRef()];
        const opt = await DistributedOptimizer.create(optim[name], params, { lr: 0.1 });
        await context(async (id) => {
          await opt.step(id);
          expect(await model.rpcSync().values()).toEqual(before);
          await backward(id, [(await model.rpcSync().forward(x)).sum()]);
          await opt.step(id);
        });
        expect(await unused.rpcSync().values()).toEqual(before);
        expect(await model.rpcSync().values()).not.toEqual(before);
        expect(await model.rpcSync().gradIsNull()).toBe(true);
      }),
  );

  it('accepts no parameters at all', () =>
    at(0, async () => {
      const opt = await DistributedOptimizer.create(optim.SGD, [], { lr: 0.1 });
      await context((id) => opt.step(id));
    }));

  it('takes RRefs to parameters only, and says so', () =>
    at(0, async () => {
      const loose = DistributedOptimizer.create as unknown as (...given: unknown[]) => Promise<unknown>;
      for (const params of [leaf([1], 1), null, 'w1'])
        await expect(loose(optim.SGD, params, { lr: 1 })).rejects.toThrow('takes a list of RRefs to parameters');
      const mixed = [createRRef(leaf([1], 1)), leaf([1], 1)];
      await expect(loose(optim.SGD, mixed, { lr: 1 })).rejects.toThrow('parameter 1 is none');
    }));

  it('takes each parameter once, also where two references lead to it', () =>
    at(0, async () => {
      const model = remote('w1', Model, [2, 3]);
      const [one, other] = [await model.rpcSync().weightRRef(), await model.rpcSync().weightRRef()];
      for (const params of [
        [one, other],
        [{ params: [one] }, { params: [other] }],
        [one, one],
      ] as RRef<Tensor>[][])
        await expect(DistributedOptimizer.create(optim.SGD, params, { lr: 0.1 })).rejects.toMatchObject({
          code: 'invalid-argument',
          message: expect.stringContaining('parameters 0 and 1 of those on one worker are references to one tensor'),
        });
      for (const rref of [model, one, other]) rref.dispose();
    }));

  it('raises what a constructor threw on its owner, and makes none of a class that is no optimiser', () =>
    everywhere(async () => {
      const models = [remote(after(1), MyModule), remote(after(2), MyModule)] as const;
      const params = models.map(BY_FUNCTIONS.weightRRef);
      await expect(DistributedOptimizer.create(FailingConstructor, params, { lr: 0.1 })).rejects.toThrow(
        new Error('Error creating optimizer.'),
      );
      await expect(DistributedOptimizer.create(NotAnOptimizer as never, params)).rejects.toThrow(
        errorMatching(RpcError, {
          code: 'invalid-argument',
          message: "class 'optimizer/NotAnOptimizer' is not an optimizer",
        }),
      );
      await expect(DistributedOptimizer.create(optim.SGD, params, { lr: -1 })).rejects.toThrow(
        errorMatching(RangeError, { message: 'Invalid learning rate' }),
      );
    }));

  it('raises what a step threw on its owner', () =>
    everywhere(async () => {
      const models = [remote(after(1), MyModule), remote(after(2), MyModule)] as const;
      const { weightRRef, weight, forward } = BY_FUNCTIONS;
      const params = models.map(weightRRef);
      const opt = await DistributedOptimizer.create(FailingStep, params, { lr: 0.1 });
      const values = () => Promise.all(models.map(async (model) => shown(await weight(model))));
      const before = await values();
      const [t1, t2] = [leaf([3, 3], 0.5), leaf([3, 3], 2)];
      await context(async (id) => {
        const output = await forward(models[1], await forward(models[0], t2));
        await backward(id, [output.add(t1).sum()]);
        await expect(opt.step(id)).rejects.toThrow(new Error('Error running optimizer.'));
      });
      expect(await values()).toEqual(before);
    }));

  it('says that nothing was trained when forward ran outside of the context', () =>
    at(0, async () => {
      const model = remote('w1', Model, [2, 3]);
      const before = await model.rpcSync().values();
      const opt = await DistributedOptimizer.create(optim.SGD, [await model.rpcSync().weightRRef()], { lr: 0.1 });
      const outside = await model.rpcSync().forward(x);
      await context(async (id) => {
        const trained = backward(id, [outside.sum()]).then(() => opt.step(id));
        await expect(trained).rejects.toThrow(/call forward and backward inside context\(\)/);
      });
      // Another context's forward is as good as none.
      const other = await context(() => model.rpcSync().forward(x));
      await context(async (id) => {
        const trained = backward(id, [other.sum()]).then(() => opt.step(id));
        await expect(trained).rejects.toThrow('Autograd context no longer valid!');
      });
      expect(await model.rpcSync().values()).toEqual(before);
    }));

  it('warns once of a step in a context that has had no pass', () =>
    at(0, async () => {
      const model = remote('w1', Model, [2, 3]);
      const opt = await DistributedOptimizer.create(optim.SGD, [await model.rpcSync().weightRRef()], { lr: 0.1 });
      const warned = vi.spyOn(sessionOf().logger, 'warn').mockImplementation(() => undefined);
      try {
        await context(async (id) => {
          await opt.step(id);
          await opt.step(id);
          expect(warned.mock.calls.map(([, text]) => text)).toEqual([
            `step(): no backward pass has run in context ${id}, so nothing was trained: await backward(id, [loss]) before it, with this context's id`,
          ]);
          await backward(id, [(await model.rpcSync().forward(x)).sum()]);
          await opt.step(id);
          expect(warned).toHaveBeenCalledTimes(1);
        });
      } finally {
        warned.mockRestore();
      }
    }));

  it('is done before its context ends, also when nobody awaits it', () =>
    at(0, async () => {
      const model = remote('w1', Model, [2, 3]);
      const before = await model.rpcSync().values();
      const opt = await DistributedOptimizer.create(optim.SGD, [await model.rpcSync().weightRRef()], { lr: 0.1 });
      let stepped: Promise<void> | undefined;
      await context(async (id) => {
        await backward(id, [(await model.rpcSync().forward(x)).sum()]);
        stepped = opt.step(id);
      });
      await stepped;
      expect(await model.rpcSync().values()).not.toEqual(before);
    }));

  it('says to await a pass that the end of its context has cut off', () =>
    at(0, async () => {
      const model = remote('w1', Model, [2, 3]);
      let pass: Promise<unknown> | undefined;
      await context(async (id) => {
        pass = backward(id, [(await model.rpcSync().forward(x)).sum()]).catch((error: unknown) => error);
      });
      expect(String(await pass)).toMatch(/released during the backward pass: await backward\(\) before/);
    }));

  it('is made by create() only, and so are remote modules', () => {
    type Loose = new (...given: unknown[]) => unknown;
    const [Optimizer, Module] = [DistributedOptimizer, RemoteModule] as unknown as [Loose, Loose];
    expect(() => new Optimizer(optim.SGD, [], { lr: 1 })).toThrow('made by await DistributedOptimizer.create(');
    expect(() => new Module('w1/cpu', optim.SGD, [])).toThrow('made by await RemoteModule.create(');
  });

  it('does not step while a pass is under way, and says to await it', () =>
    at(0, async () => {
      const model = remote('w1', Model, [2, 3]);
      const before = await model.rpcSync().values();
      const opt = await DistributedOptimizer.create(optim.SGD, [await model.rpcSync().weightRRef()], { lr: 0.1 });
      await context(async (id) => {
        const pass = backward(id, [(await model.rpcSync().forward(x)).sum()]);
        await expect(opt.step(id)).rejects.toThrow(/still in progress.*await backward\(\) first/);
        expect(await model.rpcSync().values()).toEqual(before);
        await pass;
        await opt.step(id);
        expect(await model.rpcSync().values()).not.toEqual(before);
      });
    }));

  it('nor while one that the owner of an RRef was asked for is', () =>
    at(0, async () => {
      const model = remote('w1', Model, [2, 3]);
      const before = await model.rpcSync().values();
      const opt = await DistributedOptimizer.create(optim.SGD, [await model.rpcSync().weightRRef()], { lr: 0.1 });
      await context(async (id) => {
        const loss = remote('w1', lossOf, [model]);
        const pass = loss.backward(id);
        await expect(opt.step(id)).rejects.toThrow('await backward() first');
        await pass;
        await opt.step(id);
        expect(await model.rpcSync().values()).not.toEqual(before);
      });
    }));

  it('says what an RRef leads to that is no parameter', () =>
    at(0, async () => {
      const made = (value: unknown) =>
        DistributedOptimizer.create(optim.SGD, [createRRef(value) as never], { lr: 0.1 });
      await expect(made(new nn.Linear(1, 1))).rejects.toThrow(
        'an RRef to a tensor of its worker, got one to an object of class Linear: ask its owner for RRefs to the tensors',
      );
    }));

  it('clips under an idempotency key, which is that of the change alone', () =>
    at(0, async () => {
      using weight = remote('w1', Model, [1, 1]);
      using param = await weight.rpcSync().weightRRef();
      using optimizer = await DistributedOptimizer.create(optim.SGD, [param], { lr: 1 });
      await context(async (id) => {
        await backward(id, [(await weight.rpcSync().forward(tensor([[8]]))).sum()]);
        const clipped = () => optimizer.clipGradNorm_(id, 2, { idempotencyKey: `clip-${id}` });
        expect(await clipped()).toBe(8);
        expect(await optimizer.gradNorm(id)).toBeCloseTo(2, 5);
      });
    }));

  it('names a context that is unknown', () =>
    at(0, async () => {
      const opt = await DistributedOptimizer.create(optim.SGD, [createRRef(leaf([2], 1))], { lr: 0.1 });
      await expect(opt.step(99n)).rejects.toThrow('Could not find autograd context with id: 99');
    }));

  it('serves many clients of one parameter', async () => {
    await at(1, async () => {
      const weight = createRRef(leaf([2], 10));
      await Promise.all([0, 2].map((rank) => rpcSync(rank, client, [weight])));
      expect((await weight.localValue()).toArray()).toEqual([7.5, 7.5]);
    });
    await expectClean(agents);
  });
});

const lossOf = rpcFunction('optimizer/loss', async (model: RRef<Model>) => (await model.localValue()).forward(x).sum());
const double = rpcFunction('optimizer/double', async (weight: RRef<Tensor>) => (await weight.localValue()).mul(1));
const client = rpcFunction('optimizer/client', async (weight: RRef<Tensor>) => {
  const opt = await DistributedOptimizer.create(optim.SGD, [weight], { lr: 0.125 });
  for (let i = 0; i < 10; i++) {
    await context(async (id) => {
      await backward(id, [(await rpcSync('w1', double, [weight])).sum()]);
      await opt.step(id);
    });
  }
});
