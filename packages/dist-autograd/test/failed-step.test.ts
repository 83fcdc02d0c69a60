/** @file A step right after a pass that failed: owners that hear of the failure late, from whomever, take nothing of it into the step. */
import { beforeEach, expect, it } from 'vitest';
import { rpcAsync, rpcFunction } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import { remote } from '@backwire/rref';
import { noGrad, optim, tensor, type Tensor } from '@backwire/tensor';
import { backward, context, DistributedOptimizer } from '../src/index.ts';
import { AutogradSession } from '../src/extension.ts';
import { expectClean, leaf, useAgents } from './agents.ts';

const { agents, at } = useAgents('failed-step', 4);
const weight = tensor([1, 1], { requiresGrad: true });
const weightOf = rpcFunction('failed-step/weight', () => weight);
const weighed = rpcFunction('failed-step/weighed', (x: Tensor) => x.mul(weight));
const through = rpcFunction('failed-step/through', (x: Tensor) => rpcAsync('w2', weighed, [x]));
let optimizer: DistributedOptimizer;
const norm = rpcFunction('failed-step/norm', (id: bigint) => optimizer.gradNorm(id));
const step = rpcFunction('failed-step/step', (id: bigint) => optimizer.step(id));

beforeEach(() => void noGrad(() => weight.fill_(1)));

function sessionAt(rank: number): AutogradSession {
  const session = (agents[rank] as ExtensionHost).session('dist-autograd');
  if (!(session instanceof AutogradSession)) throw new Error('no extension');
  return session;
}

/** A context of w0 with a pass that ended well and one that failed, of which the worker in between has told nobody before `use` is over. */
function afterFailure(use: (id: bigint) => Promise<void>): Promise<void> {
  return context(async (id) => {
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
    await use(id);
    runner.onAbort = onAbort;
    for (const said of late) said();
    expect(weight.toArray()).toEqual([0, 0]);
  });
}

it('takes no gradients of the failed pass, although the worker in between has not handed the failure on', async () => {
  await at(0, async () => {
    const params = [remote('w2', weightOf)];
    const own = await DistributedOptimizer.create(optim.SGD, params, { lr: 1 });
    await afterFailure((id) => own.step(id));
    own.dispose();
    for (const param of params) param.dispose();
  });
  await expectClean(agents);
});

it('by a worker that the owner never met in the context: sees and takes no gradients of the failed pass', async () => {
  const params = at(3, () => [remote('w2', weightOf)]);
  optimizer = await at(3, () => DistributedOptimizer.create(optim.SGD, params, { lr: 1 }));
  await at(0, () =>
    afterFailure(async (id) => {
      expect(await rpcAsync('w3', norm, [id])).toBeCloseTo(Math.SQRT2, 5);
      await rpcAsync('w3', step, [id]);
    }),
  );
  optimizer.dispose();
  for (const param of params) param.dispose();
  await expectClean(agents);
});
