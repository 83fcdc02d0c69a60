/** @file A worker that its group has removed: contexts of others and passes in progress are over there, its own contexts are still its own. */
import { expect, it } from 'vitest';
import { errorMatching } from '@backwire/testing';
import { rpcAsync, RpcError, rpcFunction } from '@backwire/rpc';
import type { Tensor } from '@backwire/tensor';
import { backward, context, distAutogradDebugInfo, getGradients } from '../src/index.ts';
import { leaf, useAgents } from './agents.ts';

const double = rpcFunction('autograd-fenced/double', (x: Tensor) => x.mul(2));
const through = rpcFunction('autograd-fenced/through', async (x: Tensor) => (await rpcAsync('w2', double, [x])).mul(3));
const group = useAgents('autograd-fenced', 3, { graceful: false });

const counters = (rank: number): number[] => group.at(rank, () => Object.values(distAutogradDebugInfo()));

it('keeps nothing of the contexts of others, and fails its own passes', async () => {
  await group.at(0, () =>
    context(async (id) => {
      const y = await rpcAsync('w1', through, [leaf([2], 1)]);
      // Nothing depends on it, so that the pass in fast mode waits for it.
      await rpcAsync('w1', double, [leaf([2], 1)]);
      const theirs = backward(id, [y.sum()], { mode: 'fast', timeoutMs: 60_000 });
      void theirs.catch(() => undefined);
      await expect.poll(() => counters(1)).toEqual([1, 1]);
      await group.at(1, () =>
        context(async (own) => {
          const x = leaf([2], 1);
          await backward(own, [x.mul(5).sum()]);
          const z = await rpcAsync('w2', double, [x]);
          await rpcAsync('w2', double, [x]);
          const ours = backward(own, [z.sum()], { mode: 'fast', timeoutMs: 60_000 });
          const failed = expect(ours).rejects.toThrow(
            errorMatching(RpcError, { code: 'fenced', message: 'the group has removed this worker' }),
          );
          await expect.poll(() => counters(1)).toEqual([2, 2]);
          (group.agents[1] as unknown as { fenced(): void }).fenced();
          await failed;
          expect(counters(1)).toEqual([0, 1]);
          expect(getGradients(own).get(x)?.toArray()).toEqual([5, 5]);
        }),
      );
      expect(counters(1)).toEqual([0, 0]);
      await group.agents[1]!.shutdown({ graceful: false });
      await expect(theirs).rejects.toThrow(RpcError);
    }),
  );
});
