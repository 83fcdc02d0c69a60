/** @file Groups of parameters on several owners, schedules of their learning rates, and norms of their gradients, against one process. */
import { rpcClass, type RpcAgent, type WorkerInfo } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { nn, optim, rpcName, tensor, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { expectClean, useAgents } from '../test/agents.ts';
import { backward, context, DistributedOptimizer, getGradients } from './index.ts';
import { provideAutograd, sessionOf, type Autograd, type RemoteOptimizers } from './internal.ts';

const { at, agents } = useAgents('groups', 3);

/** Two parameters of one worker. */
class Pair {
  static readonly [rpcName] = 'groups/Pair';
  readonly weight: Tensor;
  readonly bias: Tensor;
  constructor(seed: number) {
    const values = Array.from({ length: 4 }, (_, i) => (((i + seed) * 7) % 5) / 3 - 0.5);
    this.weight = tensor(new Float32Array(values), { shape: [2, 2], requiresGrad: true });
    this.bias = tensor([seed / 4, -seed / 3], { requiresGrad: true });
  }
  forward(x: Tensor): Tensor {
    return x.matmul(this.weight).add(this.bias).tanh();
  }
  rrefs(): RRef<Tensor>[] {
    return [createRRef(this.weight), createRRef(this.bias)];
  }
  values(): unknown[] {
    return [this.weight.toArray(), this.bias.toArray()];
  }
  gradients(id: bigint): unknown[] {
    using gradients = getGradients(id);
    return [this.weight, this.bias].map((param) => gradients.get(param)?.toArray());
  }
}
rpcClass(Pair, { methods: ['forward', 'rrefs', 'values', 'gradients'] });

const x = tensor([
  [1, 2],
  [3, 4],
]);

interface Run {
  readonly optimizer: optim.Optimizer | DistributedOptimizer;
  readonly values: () => Promise<unknown[]>;
  /** One forward pass, one backward pass, clipping, and a step. */
  readonly step: (clip?: { maxNorm: number; normType?: number }) => Promise<number | undefined>;
}

interface DistributedRun extends Run {
  readonly optimizer: DistributedOptimizer;
  /** One forward pass and one backward pass. */
  readonly backward: (id: bigint) => Promise<void>;
  readonly gradients: (id: bigint) => Promise<unknown[]>;
}

/** Weights in one group and biases in the other, on two workers. */
async function distributed<O extends optim.Optimizer, A extends unknown[]>(
  Optimizer: (new (params: Iterable<Tensor>, ...args: A) => O) & { readonly [rpcName]: string },
  own: readonly [object, object],
  ...args: A
): Promise<DistributedRun> {
  const pairs = [remote('w1', Pair, [1]), remote('w2', Pair, [2])] as const;
  const [[w1, b1], [w2, b2]] = (await Promise.all(pairs.map((pair) => pair.rpcSync().rrefs()))) as [
    [RRef<Tensor>, RRef<Tensor>],
    [RRef<Tensor>, RRef<Tensor>],
  ];
  const groups = [
    { ...own[0], params: [w1, w2] },
    { ...own[1], params: [b2, b1] },
  ];
  const optimizer = await DistributedOptimizer.create(Optimizer, groups, ...args);
  const passBack = async (id: bigint): Promise<void> => {
    const hidden = await pairs[0].rpcSync().forward(x);
    const out = await pairs[1].rpcSync().forward(hidden);
    await backward(id, [out.sum()]);
  };
  return {
    optimizer,
    values: () => Promise.all(pairs.map((pair) => pair.rpcSync().values())),
    gradients: (id) => Promise.all(pairs.map((pair) => pair.rpcSync().gradients(id))),
    backward: passBack,
    step: (clip) =>
      context(async (id) => {
        await passBack(id);
        const { maxNorm, ...options } = clip ?? { maxNorm: 0 };
        const norm = clip === undefined ? undefined : await optimizer.clipGradNorm_(id, maxNorm, options);
        await optimizer.step(id);
        return norm;
      }),
  };
}

function local<O extends optim.Optimizer, A extends unknown[]>(
  Optimizer: new (params: Iterable<Tensor>, ...args: A) => O,
  own: readonly [object, object],
  ...args: A
): Run & { readonly optimizer: O } {
  const [one, two] = [new Pair(1), new Pair(2)];
  const groups = [
    { ...own[0], params: [one.weight, two.weight] },
    { ...own[1], params: [two.bias, one.bias] },
  ];
  const optimizer = new Optimizer(groups as unknown as Iterable<Tensor>, ...args);
  return {
    optimizer,
    values: () => Promise.resolve([one.values(), two.values()]),
    step: (clip) => {
      optimizer.zeroGrad();
      two.forward(one.forward(x)).sum().backward();
      const { maxNorm, ...options } = clip ?? { maxNorm: 0 };
      const norm = clip === undefined ? undefined : nn.utils.clipGradNorm_(optimizer.params, maxNorm, options).item();
      optimizer.step();
      return Promise.resolve(norm);
    },
  };
}

function flat(values: unknown): number[] {
  return (values as unknown[]).flat(Infinity) as number[];
}

describe('parameter groups', () => {
  it('step under options of their own, as in one process, to the bit', async () => {
    await at(0, async () => {
      const groups = [{ lr: 0.5 }, { momentum: 0.9, weightDecay: 0.1 }] as const;
      const [there, here] = [await distributed(optim.SGD, groups, { lr: 0.1 }), local(optim.SGD, groups, { lr: 0.1 })];
      for (let i = 0; i < 3; i++) for (const run of [there, here]) await run.step();
      expect(await there.values()).toEqual(await here.values());
      const shown = there.optimizer.paramGroups.map(({ params, ...options }) => [params.length, options]);
      expect(shown).toEqual(here.optimizer.paramGroups.map(({ params, ...options }) => [params.length, options]));
      expect(shown[0]).toEqual([2, expect.objectContaining({ lr: 0.5, momentum: 0, weightDecay: 0 })]);
    });
    await expectClean(agents);
  });

  it('take options that change between steps, and send no others', async () => {
    await at(0, async () => {
      const [there, here] = [
        await distributed(optim.Adam, [{}, {}], { lr: 0.1 }),
        local(optim.Adam, [{}, {}], { lr: 0.1 }),
      ];
      for (const run of [there, here]) {
        await run.step();
        const [weights, biases] = run.optimizer.paramGroups as unknown as Record<string, unknown>[];
        Object.assign(weights as object, { lr: 0.02, betas: [0.5, 0.9] });
        await run.step();
        await run.step();
        Object.assign(biases as object, { weightDecay: 0.3 });
        await run.step();
      }
      expect(await there.values()).toEqual(await here.values());
    });
  });

  it('keep their options when one does not fit, and say which', async () => {
    await at(0, async () => {
      const there = await distributed(optim.SGD, [{}, {}], { lr: 0.1 });
      const before = await there.values();
      there.optimizer.paramGroups[0].lr = -1;
      await expect(there.step()).rejects.toThrow(/Invalid learning rate: -1/i);
      expect(await there.values()).toEqual(before);
      there.optimizer.paramGroups[0].lr = 0.2;
      await there.step();
      const here = local(optim.SGD, [{ lr: 0.2 }, {}], { lr: 0.1 });
      await here.step();
      expect(await there.values()).toEqual(await here.values());
    });
  });

  it('of a step are those in force when it was called, before the last one is answered too', async () => {
    await at(0, async () => {
      const there = await distributed(optim.SGD, [{}, {}], { lr: 0.1 });
      const here = local(optim.SGD, [{}, {}], { lr: 0.1 });
      await here.step();
      await context(async (id) => {
        await there.backward(id);
        const steps = [there.optimizer.step(id)];
        for (const lr of [0.5, 0.1, 0.5]) {
          for (const { optimizer } of [there, here]) (optimizer.paramGroups[0] as { lr: number }).lr = lr;
          steps.push(there.optimizer.step(id));
          here.optimizer.step();
        }
        await Promise.all(steps);
      });
      expect(await there.values()).toEqual(await here.values());
    });
  });

  it('of a step are those in force after one that was given up, of which nobody knows what it did', async () => {
    await at(0, async () => {
      const there = await distributed(optim.SGD, [{}, {}], { lr: 0.1 });
      await context(async (id) => {
        await there.backward(id);
        const given = new AbortController();
        const [group] = there.optimizer.paramGroups;
        group.lr = 0.5;
        const first = there.optimizer.step(id, { signal: given.signal });
        given.abort(new Error('no longer wanted'));
        await expect(first).rejects.toThrow();
        group.lr = 0.1;
        await there.optimizer.gradNorm(id); // answered when that step is over, if the owners took it
        const [before, gradients] = [await there.values(), await there.gradients(id)];
        await there.optimizer.step(id);
        const want = flat(before).map((value, i) => value - 0.1 * (flat(gradients)[i] as number));
        const got = flat(await there.values());
        for (const [i, value] of want.entries()) expect(got[i]).toBeCloseTo(value, 5);
      });
    });
  });

  it('are refused by name where they are wrong', async () => {
    await at(0, async () => {
      await expect(distributed(optim.SGD, [{ momentun: 1 }, {}], { lr: 0.1 })).rejects.toThrow(/momentun.*momentum/);
      const groups = [{ params: [] }];
      await expect(DistributedOptimizer.create(optim.SGD, groups, { lr: 0.1 })).rejects.toThrow('in group 0');
      const mixed = [{ params: [createRRef(tensor([1], { requiresGrad: true }))] }, 3] as never;
      await expect(DistributedOptimizer.create(optim.SGD, mixed, { lr: 0.1 })).rejects.toThrow('group 1 is none');
      const wrong = [{ params: [tensor([1])] }] as never;
      await expect(DistributedOptimizer.create(optim.SGD, wrong, { lr: 0.1 })).rejects.toThrow(
        'parameter 0 of group 0',
      );
    });
  });
});

describe('schedules', () => {
  const { lrScheduler } = optim;
  it.each<[string, (optimizer: Run['optimizer']) => { step: () => void }]>([
    ['StepLR', (o) => new lrScheduler.StepLR(o, 2, { gamma: 0.5 })],
    ['CosineAnnealingLR', (o) => new lrScheduler.CosineAnnealingLR(o, 4)],
    ['LinearLR', (o) => new lrScheduler.LinearLR(o, { totalIters: 3 })],
    ['OneCycleLR, which changes momenta', (o) => new lrScheduler.OneCycleLR(o, { maxLr: 0.3, totalSteps: 6 })],
    ['CyclicLR', (o) => new lrScheduler.CyclicLR(o, { baseLr: 0.1, maxLr: 0.3, stepSizeUp: 2 })],
  ])('of %s change the learning rates on all owners', async (_name, schedule) => {
    await at(0, async () => {
      const options = { lr: 0.1, momentum: 0.5 };
      const groups = [{ lr: 0.2 }, {}] as const;
      const [there, here] = [await distributed(optim.SGD, groups, options), local(optim.SGD, groups, options)];
      for (const run of [there, here]) {
        const scheduler = schedule(run.optimizer);
        for (let i = 0; i < 5; i++) {
          await run.step();
          scheduler.step();
        }
      }
      expect(await there.values()).toEqual(await here.values());
      expect(there.optimizer.paramGroups.map(({ lr }) => lr)).toEqual(here.optimizer.paramGroups.map(({ lr }) => lr));
    });
  });

  it('that go on from a saved state put its rates in force on all owners', async () => {
    await at(0, async () => {
      const options = { lr: 1 };
      const groups = [{ lr: 0.5 }, {}] as const;
      const [first, next] = [
        await distributed(optim.SGD, groups, options),
        await distributed(optim.SGD, groups, options),
      ];
      const stepped = new lrScheduler.StepLR(first.optimizer, 2, { gamma: 0.5 });
      for (let i = 0; i < 5; i++) stepped.step();
      const resumed = new lrScheduler.StepLR(next.optimizer, 2, { gamma: 0.5 });
      resumed.loadStateDict(stepped.stateDict());
      expect(resumed.getLastLr()).toEqual([0.125, 0.25]);
      expect(next.optimizer.paramGroups.map(({ lr }) => lr)).toEqual([0.125, 0.25]);
      for (const run of [first, next]) await run.step();
      expect(await next.values()).toEqual(await first.values());
      // A local one has them in its own state.
      const here = local(optim.SGD, groups, options);
      new lrScheduler.StepLR(here.optimizer, 2, { gamma: 0.5 }).loadStateDict(stepped.stateDict());
      expect(here.optimizer.paramGroups.map(({ lr }) => lr)).toEqual([0.5, 1]);
    });
  });
});

describe('the norm of gradients on several workers', () => {
  it.each([
    { maxNorm: 0.05, normType: 2 },
    { maxNorm: 0.05, normType: 1 },
    { maxNorm: 0.05, normType: Infinity },
    { maxNorm: 1e6, normType: 2 },
  ])('is that of one process, and clips as there: $maxNorm, $normType', async (clip) => {
    await at(0, async () => {
      const [there, here] = [
        await distributed(optim.SGD, [{}, {}], { lr: 0.1 }),
        local(optim.SGD, [{}, {}], { lr: 0.1 }),
      ];
      for (let i = 0; i < 2; i++) expect(await there.step(clip)).toBeCloseTo((await here.step(clip)) as number, 6);
      const [ours, theirs] = [await there.values(), await here.values()] as [number[][][], number[][][]];
      for (const [i, value] of (ours.flat(Infinity) as unknown as number[]).entries())
        expect(value).toBeCloseTo((theirs.flat(Infinity) as unknown as number[])[i] as number, 6);
    });
    await expectClean(agents);
  });

  it('of doubles is a double, and clips them as in one process', async () => {
    await at(0, async () => {
      const made = (): Tensor[] => [0.1, 0.7].map((v) => tensor([v, v / 3], { dtype: 'float64', requiresGrad: true }));
      const [there, here] = [made(), made()];
      const loss = (params: readonly Tensor[]): Tensor =>
        (params[0] as Tensor)
          .mul(params[1] as Tensor)
          .exp()
          .sum();
      loss(here).backward();
      const norm = nn.utils.clipGradNorm_(here, 0.1).item();
      const optimizer = await DistributedOptimizer.create(
        optim.SGD,
        there.map((p) => createRRef(p)),
        { lr: 1 },
      );
      await context(async (id) => {
        await backward(id, [loss(there)]);
        expect(await optimizer.clipGradNorm_(id, 0.1)).toBeCloseTo(norm, 14);
        using gradients = getGradients(id);
        there.forEach((p, i) =>
          flat(gradients.get(p)?.toArray()).forEach((v, k) =>
            expect(v).toBeCloseTo(flat(here[i]?.grad?.toArray())[k] as number, 14),
          ),
        );
      });
      expect(Math.fround(norm)).not.toBe(norm);
    });
    await expectClean(agents);
  });

  it('adds up over passes, leaves handles that were given out alone, and is 0 where there are no gradients', async () => {
    await at(0, async () => {
      const pair = remote('w1', Pair, [1]);
      const optimizer = await DistributedOptimizer.create(optim.SGD, await pair.rpcSync().rrefs(), { lr: 0 });
      await context(async (id) => {
        expect(await optimizer.gradNorm(id)).toBe(0);
        const own = tensor([[1, 1]], { requiresGrad: true });
        const loss = (await pair.rpcSync().forward(own)).sum();
        await backward(id, [loss], { retainGraph: true });
        const once = await optimizer.gradNorm(id);
        await backward(id, [loss]);
        expect(await optimizer.gradNorm(id)).toBeCloseTo(2 * once, 5);
        using mine = getGradients(id);
        const before = mine.get(own)?.toArray();
        expect(await optimizer.clipGradNorm_(id, once / 4)).toBeCloseTo(2 * once, 5);
        expect(await optimizer.gradNorm(id)).toBeCloseTo(once / 4, 5);
        expect(mine.get(own)?.toArray()).toEqual(before);
        await optimizer.step(id);
      });
    });
    await expectClean(agents);
  });

  it('refuses limits and orders that are no numbers, and leaves the gradients as they are', async () => {
    await at(0, async () => {
      const param = tensor([1, 2], { requiresGrad: true });
      const optimizer = await DistributedOptimizer.create(optim.SGD, [createRRef(param)], { lr: 0.1 });
      await context(async (id) => {
        await backward(id, [param.mul(3).sum()]);
        await expect(optimizer.clipGradNorm_(id, undefined as never)).rejects.toThrow(
          'maxNorm is a number, got undefined',
        );
        await expect(optimizer.clipGradNorm_(id, '1' as never)).rejects.toThrow(
          "maxNorm is a number, got the text '1'",
        );
        const inf = optimizer.clipGradNorm_(id, 1, { normType: 'inf' as never });
        await expect(inf).rejects.toThrow("normType is a number, got the text 'inf'");
        expect(getGradients(id).get(param)?.toArray()).toEqual([3, 3]);
      });
      optimizer.dispose();
    });
  });

  it('refuses norms that are not finite when asked to, unknown options, other contexts, and disposed optimisers', async () => {
    await at(0, async () => {
      const param = tensor([1, 2], { requiresGrad: true });
      const optimizer = await DistributedOptimizer.create(optim.SGD, [createRRef(param)], { lr: 0.1 });
      await context(async (id) => {
        await backward(id, [param.mul(Infinity).sum()]);
        expect(await optimizer.gradNorm(id)).toBe(Infinity);
        await expect(optimizer.clipGradNorm_(id, 1, { errorIfNonfinite: true })).rejects.toThrow('is Infinity');
        await expect(optimizer.gradNorm(id, { normtype: 1 } as never)).rejects.toThrow(/normtype.*normType/);
        optimizer.dispose();
        await expect(optimizer.gradNorm(id)).rejects.toThrow('gradNorm(): this optimizer was disposed');
      });
      await expect(optimizer.clipGradNorm_(5n, 1)).rejects.toThrow('disposed');
    });
  });
});

describe('optimizers of a group of another kind', () => {
  it('that were made are let go of when another owner refuses', async () => {
    const [agent] = agents;
    const own = at(0, () => sessionOf());
    const made: string[] = [];
    const disposed: string[] = [];
    const create = (owner: WorkerInfo): Promise<RRef<unknown>> => {
      if (owner.name === 'w1') return Promise.reject(new Error('w1 has no such class'));
      made.push(owner.name);
      return Promise.resolve({ [Symbol.dispose]: () => disposed.push(owner.name) } as unknown as RRef<unknown>);
    };
    const optimizers: RemoteOptimizers = { create, step: () => Promise.resolve(undefined) };
    provideAutograd(agent as RpcAgent, Object.create(own, { optimizers: { value: optimizers } }) as Autograd);
    try {
      await at(0, async () => {
        const pairs = await Promise.all(['w1', 'w2'].map((name) => remote(name, Pair, [1]).rpcSync().rrefs()));
        const params = pairs.flat();
        await expect(DistributedOptimizer.create(optim.SGD, params, { lr: 0.1 })).rejects.toThrow('no such class');
        expect([made, disposed]).toEqual([['w2'], ['w2']]);
        const groups = [{ params, lr: 1 }];
        await expect(DistributedOptimizer.create(optim.SGD, groups, { lr: 0.1 })).rejects.toThrow(
          'optimizers in a group of PyTorch have no parameter groups: make an optimizer for each',
        );
      });
    } finally {
      provideAutograd(agent as RpcAgent, own);
    }
  });
});
