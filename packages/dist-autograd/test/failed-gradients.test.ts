/** @file Gradients that are asked for right after a pass that failed: whoever is asked, and through whom, has nothing of it any more. */
import { expect, it } from 'vitest';
import { rpcAsync, rpcFunction } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import { tensor, type Tensor } from '@backwire/tensor';
import { backward, context, getGradients } from '../src/index.ts';
import { AutogradSession } from '../src/extension.ts';
import { expectClean, leaf, useAgents } from './agents.ts';

const { agents, at } = useAgents('failed-gradients', 4);
const weight = tensor([1, 1], { requiresGrad: true });
const weighed = rpcFunction('failed-gradients/weighed', (x: Tensor) => x.mul(weight));
const through = rpcFunction('failed-gradients/through', (x: Tensor) => rpcAsync('w2', weighed, [x]));
const gradient = rpcFunction(
  'failed-gradients/gradient',
  (id: bigint) => getGradients(id).get(weight)?.toArray() ?? null,
);
const gradientOf = rpcFunction('failed-gradients/gradientOf', (to: string, id: bigint) => rpcAsync(to, gradient, [id]));
const trains = rpcFunction('failed-gradients/trains', (id: bigint) => failing(1, id));

function sessionAt(rank: number): AutogradSession {
  const session = (agents[rank] as ExtensionHost).session('dist-autograd');
  if (!(session instanceof AutogradSession)) throw new Error('no extension');
  return session;
}

/** A pass of `origin` that is given up when w2, which it comes to through `between`, has done its part. */
async function failing(origin: number, id: bigint): Promise<void> {
  const between = origin === 0 ? 'w1' : 'w3';
  const y = await rpcAsync(between, through, [leaf([2], 1)]);
  const giveUp = new AbortController();
  const { gradients } = sessionAt(2).find(id);
  const commit = gradients.commit.bind(gradients);
  gradients.commit = (...what) => {
    commit(...what);
    gradients.commit = commit;
    giveUp.abort();
  };
  await expect(backward(id, [y.sum()], { signal: giveUp.signal })).rejects.toThrow('cancelled');
}

/** Runs `fn` while no abort comes to a worker from another but through `late`. */
async function withLateAborts(rank: number, fn: () => Promise<void>): Promise<void> {
  const { runner } = sessionAt(rank);
  const late: (() => void)[] = [];
  const onAbort = runner.onAbort.bind(runner);
  runner.onAbort = (...said) => void late.push(() => onAbort(...said));
  await fn();
  runner.onAbort = onAbort;
  for (const said of late) said();
}

it.each([
  ['itself', (id: bigint) => rpcAsync('w2', gradient, [id])],
  ['through a worker that is new to the context', (id: bigint) => rpcAsync('w3', gradientOf, ['w2', id])],
])('a worker whom the one in between has told nothing yet is asked %s', async (_, ask) => {
  await at(0, () =>
    context((id) =>
      withLateAborts(1, async () => {
        await failing(0, id);
        expect(await ask(id)).toBeNull();
        // The next pass goes by the graph that is there.
        const y = await rpcAsync('w2', weighed, [leaf([2], 3)]);
        await backward(id, [y.sum()]);
        expect(await ask(id)).toEqual([3, 3]);
      }),
    ),
  );
  await expectClean(agents);
});

it('the pass is that of a worker which has not made the context, nor met the one that is asked', async () => {
  await at(0, () =>
    context((id) =>
      withLateAborts(3, async () => {
        await rpcAsync('w1', trains, [id]);
        expect(await rpcAsync('w1', gradientOf, ['w2', id])).toBeNull();
      }),
    ),
  );
  await expectClean(agents);
});
