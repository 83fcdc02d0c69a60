/** @file PyTorch's programs of a distributed optimizer, with each of them: two modules on two workers, a pass and a step, as in one process. */
import { shown } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { getWorkerInfo } from '@backwire/rpc';
import { remote } from '@backwire/rref';
import { manualSeed, optim, rand, type Tensor } from '@backwire/tensor';
import { expectClean, useAgents } from '../test/agents.ts';
import { BY_FUNCTIONS, BY_PROXIES, MyModule, type Way } from '../test/one-weight.ts';
import { backward, context, DistributedOptimizer } from './index.ts';

const { agents, everywhere } = useAgents('optimizer-steps', 4, { onLeak: 'throw' });
/** The worker so many after this one. */
const after = (by: number): string => `w${(getWorkerInfo().id + by) % 4}`;

const WAYS = [BY_FUNCTIONS, BY_PROXIES];

/**
 * PyTorch's program: two modules after one another on two workers, a pass and a step, and the same here.
 * @returns the weights before, there, and here.
 */
async function stepOf(
  name: OptimizerName,
  options: object,
  way: Way,
  second = true,
): Promise<Record<'before' | 'there' | 'here', unknown[]>> {
  manualSeed(1);
  const [t1, t2] = [rand([3, 3]), rand([3, 3])].map((t) => Object.assign(t, { requiresGrad: true })) as [
    Tensor,
    Tensor,
  ];
  const own = [new MyModule(), new MyModule(second)] as const;
  const weights = own.map(({ w }) => w);
  const before = weights.map(shown);
  const optimizer = new (optim[name] as typeof optim.SGD)(weights, options as { lr: number });
  own[1].forward(own[0].forward(t2)).add(t1).sum().backward();
  optimizer.step();

  const modules = [remote(after(1), MyModule), remote(after(2), MyModule, [second])] as const;
  // Of what a method gives there, as in PyTorch's test.
  const params = modules.map(way.weightRRef);
  expect(await Promise.all(params.map(async (param) => shown(await param.toHere())))).toEqual(before);
  using distributedOptimizer = await DistributedOptimizer.create(optim[name], params, options as { lr: number }); // prettier-ignore
  return await context(async (id) => {
    const hidden = await way.forward(modules[0], t2);
    const loss = (await way.forward(modules[1], hidden)).add(t1).sum();
    await backward(id, [loss]);
    await distributedOptimizer.step(id);
    const there = await Promise.all(modules.map(async (module) => shown(await way.weight(module))));
    for (const rref of [...modules, ...params]) rref.dispose();
    return { before, there, here: weights.map(shown) };
  });
}
type OptimizerName = 'Adagrad' | 'Adam' | 'AdamW' | 'SGD' | 'Adadelta' | 'RMSprop' | 'Adamax' | 'RAdam' | 'Rprop';
const ADADELTA = { rho: 0.95 };

describe('a step of two modules on two workers', () => {
  const OPTIMIZERS: readonly [OptimizerName, object][] = [
    ['Adagrad', { lr: 0.05 }],
    ['Adam', { lr: 1e-2, amsgrad: true }],
    ['AdamW', { lr: 0.05, amsgrad: true }],
    ['SGD', { lr: 0.05 }],
    ['SGD', { lr: 1e-3, momentum: 1, weightDecay: 1, nesterov: true }],
    ['Adadelta', ADADELTA],
    ['RMSprop', { lr: 0.05 }],
    ['Adamax', { lr: 0.05 }],
    ['RAdam', { lr: 0.05, decoupledWeightDecay: true, weightDecay: 0.1 }],
    ['Rprop', { lr: 0.05 }],
  ];
  it('changes both weights as one process does, by every optimizer', async () => {
    await everywhere(async () => {
      for (const [name, options, way] of OPTIMIZERS.flatMap((each) => WAYS.map((way) => [...each, way] as const))) {
        const { before, there, here } = await stepOf(name, options, way);
        for (const i of [0, 1]) expect([name, there[i]]).not.toEqual([name, before[i]]);
        expect([name, there]).toEqual([name, here]);
      }
    });
    await expectClean(agents);
  });

  it('leaves the weight alone that requires no gradient, as one process does', async () => {
    await everywhere(async () => {
      for (const [name, options] of [
        ['SGD', { lr: 0.05 }],
        ['RMSprop', { lr: 0.05 }],
        ['Rprop', { lr: 0.05 }],
        ['Adadelta', ADADELTA],
      ] as const) {
        const { before, there, here } = await stepOf(name, options, BY_PROXIES, false);
        expect([name, there[0]]).not.toEqual([name, before[0]]);
        expect([name, there[1]]).toEqual([name, before[1]]);
        expect([name, there]).toEqual([name, here]);
      }
    });
    await expectClean(agents);
  });
});
