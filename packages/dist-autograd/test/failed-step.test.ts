/** @file A step right after a pass that failed: owners that hear of the failure from others take nothing of it into the step. */
import { expect, it } from 'vitest';
import { rpcAsync, rpcFunction } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import { remote } from '@backwire/rref';
import { optim, tensor, type Tensor } from '@backwire/tensor';
import { backward, context, DistributedOptimizer } from '../src/index.ts';
import { AutogradSession } from '../src/extension.ts';
import { expectClean, leaf, useAgents } from './agents.ts';

const { agents, at } = useAgents('failed-step', 3);
const weight = tensor([1, 1], { requiresGrad: true });
const weightOf = rpcFunction('failed-step/weight', () => weight);
const weighed = rpcFunction('failed-step/weighed', (x: Tensor) => x.mul(weight));
const through = rpcFunction('failed-step/through', (x: Tensor) => rpcAsync('w2', weighed, [x]));

function sessionAt(rank: number): AutogradSession {
  const session = (agents[rank] as ExtensionHost).session('dist-autograd');
  if (!(session instanceof AutogradSession)) throw new Error('no extension');
  return session;
}

it('takes no gradients of the failed pass, although the worker in between has not handed the failure on', async () => {
  await at(0, async () => {
    const params = [remote('w2', weightOf)];
    const optimizer = await DistributedOptimizer.create(optim.SGD, params, { lr: 1 });
    await context(async (id) => {
      const x = leaf([2], 1);
      await backward(id, [(await rpcAsync('w1', through, [x])).sum()]);
      const again = await rpcAsync('w1', through, [x]);
      const { runner } = sessionAt(1);
      const late: (() => void)[] = [];
      const onAbort = runner.onAbort.bind(runner);
      runner.onAbort = (...said) => void late.push(() => onAbort(...said));
      const giveUp = new AbortController();
      // The pass is given up when the far worker is done with its part, and has not said so yet.
      const { gradients } = sessionAt(2).find(id);
      const commit = gradients.commit.bind(gradients);
      gradients.commit = (...what) => {
        commit(...what);
        giveUp.abort();
      };
      const pass = backward(id, [again.sum()], { signal: giveUp.signal });
      await expect(pass).rejects.toThrow('cancelled');
      await optimizer.step(id);
      runner.onAbort = onAbort;
      for (const said of late) said();
      expect(weight.toArray()).toEqual([0, 0]);
    });
    optimizer.dispose();
    for (const param of params) param.dispose();
  });
  await expectClean(agents);
});
