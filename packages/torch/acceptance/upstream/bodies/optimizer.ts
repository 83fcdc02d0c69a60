/** @file `DistOptimizerTest`: optimisers made here over objects of Python. */
import assert from 'node:assert/strict';
import { DistributedOptimizer, backward, context } from '@backwire/dist-autograd';
import { rpcAsync } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { add, mm, optim, tensor, type Parameter, type Tensor } from '@backwire/tensor';
import { PyName } from '../../../src/index.ts';
import { OPTIMIZER_TEST } from '../functions/common.ts';
import type { Rank } from '../rank.ts';
import { equal, inOptimizer, mirrored, type Bodies } from './body.ts';
import { DRAWN } from '../functions/optimizer.ts';

const method = (name: string): PyName => new PyName(OPTIMIZER_TEST, `MyModule.${name}`);
const call = inOptimizer<(...args: unknown[]) => Tensor>('_call_method');
/** The second nine floats of torch's generator with the seed 0. */
const NEXT = [
  [0.6323062777519226, 0.3488934636116028, 0.40171730518341064],
  [0.022325754165649414, 0.16885894536972046, 0.2938884496688843],
  [0.518521785736084, 0.6976675987243652, 0.800011396408081],
];

type Make = (params: Parameter[]) => optim.Optimizer;
type Create = (params: RRef<Tensor>[]) => Promise<DistributedOptimizer>;

/** `_test_dist_optim_base`: the same step here, and on two owners. */
async function stepped(rank: Rank, make: Make, create: Create): Promise<void> {
  const [w1, w2] = [tensor(DRAWN, { requiresGrad: true }), tensor(DRAWN, { requiresGrad: true })];
  const [t1, t2] = [tensor(DRAWN, { requiresGrad: true }), tensor(NEXT, { requiresGrad: true })];
  const local = make([w1, w2] as never as Parameter[]);
  add(mm(w2, mm(w1, t2)), t1)
    .sum()
    .backward();
  local.step();
  const owners = [rank.next(1), rank.next(2)];
  const modules = owners.map((owner) => remote(owner, inOptimizer('MyModule'), []));
  const params = modules.map((module) => remote(module.owner(), call, [method('get_w'), module]));
  for (const param of params) equal(await param.toHere(), tensor(DRAWN, { requiresGrad: true }));
  const optimizer = await create(params);
  await context(async (id) => {
    const one = await rpcAsync(owners[0] as string, call, [method('forward'), modules[0], t2]);
    const two = await rpcAsync(owners[1] as string, call, [method('forward'), modules[1], one]);
    await backward(id, [add(two, t1).sum()]);
    await optimizer.step(id);
    for (const [i, own] of [w1, w2].entries()) {
      const found = await rpcAsync(owners[i] as string, call, [method('get_w'), modules[i]]);
      assert.equal(found.allClose(tensor(DRAWN)), false);
      assert.ok(found.allClose(own, { rtol: 1e-4, atol: 1e-5 }));
    }
  });
}

const both = <O extends object>(cls: new (params: never, options: O) => optim.Optimizer, options: O) =>
  [
    (params: Parameter[]) => new cls(params as never, options),
    (params: RRef<Tensor>[]) => DistributedOptimizer.create(cls as never, params, options as never),
  ] as [Make, Create];

export const optimizers: Bodies = mirrored({
  test_dist_optim: async (rank) => {
    await stepped(rank, ...both(optim.Adagrad, { lr: 0.05 }));
    await stepped(rank, ...both(optim.Adam, { lr: 1e-2, amsgrad: true }));
    await stepped(rank, ...both(optim.AdamW, { lr: 0.05, amsgrad: true }));
    await stepped(rank, ...both(optim.SGD, { lr: 0.05 }));
    await stepped(rank, ...both(optim.SGD, { lr: 1e-3, momentum: 1, weightDecay: 1, nesterov: true }));
    await stepped(rank, ...both(optim.Adadelta, { rho: 0.95 }));
    await stepped(rank, ...both(optim.RMSprop, { lr: 0.05 }));
    await stepped(rank, ...both(optim.Adamax, { lr: 0.05 }));
    await stepped(rank, ...both(optim.Rprop, { lr: 0.05 }));
  },
});
