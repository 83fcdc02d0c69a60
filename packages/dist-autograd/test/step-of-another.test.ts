/** @file A step by a worker that the owner of the parameters never met in the context: it takes nothing of passes that failed. */
import { expect, it } from 'vitest';
import { rpcAsync, rpcFunction } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import { remote } from '@backwire/rref';
import { optim, tensor, type Tensor } from '@backwire/tensor';
import { backward, context, DistributedOptimizer } from '../src/index.ts';
import { AutogradSession } from '../src/extension.ts';
import { expectClean, leaf, useAgents } from './agents.ts';

const { agents, at } = useAgents('step-of-another', 4);
const weight = tensor([1, 1], { requiresGrad: true });
const weightOf = rpcFunction('step-of-another/weight', () => weight);
const weighed = rpcFunction('step-of-another/weighed', (x: Tensor) => x.mul(weight));
const through = rpcFunction('step-of-another/through', (x: Tensor) => rpcAsync('w2', weighed, [x]));
let optimizer: DistributedOptimizer;
const norm = rpcFunction('step-of-another/norm', (id: bigint) => optimizer.gradNorm(id));
const step = rpcFunction('step-of-another/step', (id: bigint) => optimizer.step(id));

function sessionAt(rank: number): AutogradSession {
  const session = (agents[rank] as ExtensionHost).session('dist-autograd');
  if (!(session instanceof AutogradSession)) throw new Error('no extension');
  return session;
}

it('sees and takes no gradients of the failed pass, of which only the stepper has told the owner', async () => {
  const params = at(3, () => [remote('w2', weightOf)]);
  optimizer = await at(3, () => DistributedOptimizer.create(optim.SGD, params, { lr: 1 }));
  await at(0, () =>
    context(async (id) => {
      const x = leaf([2], 1);
      await backward(id, [(await rpcAsync('w1', through, [x])).sum()]);
      const again = await rpcAsync('w1', through, [x]);
      const { runner } = sessionAt(1);
      const late: (() => void)[] = [];
      const onAbort = runner.onAbort.bind(runner);
      runner.onAbort = (...said) => void late.push(() => onAbort(...said));
      const giveUp = new AbortController();
      const { gradients } = sessionAt(2).find(id);
      const commit = gradients.commit.bind(gradients);
      gradients.commit = (...what) => {
        commit(...what);
        giveUp.abort();
      };
      await expect(backward(id, [again.sum()], { signal: giveUp.signal })).rejects.toThrow('cancelled');
      expect(await rpcAsync('w3', norm, [id])).toBeCloseTo(Math.SQRT2, 5);
      await rpcAsync('w3', step, [id]);
      runner.onAbort = onAbort;
      for (const said of late) said();
      expect(weight.toArray()).toEqual([0, 0]);
    }),
  );
  optimizer.dispose();
  for (const param of params) param.dispose();
  await expectClean(agents);
});
