import { describe, expect, it } from 'vitest';
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, remote } from '@backwire/rref';
import { add, mul, type Tensor } from '@backwire/tensor';
import { expectClean, leaf, useAgents } from '../test/agents.ts';
import { context, getGradients } from './index.ts';

const { at, agents } = useAgents('rref-backward', 3);

const sumOf = rpcFunction('rref-backward/sumOf', async (a: Tensor, b: Tensor) =>
  (await rpcSync('w2', mul, [a, b])).sum(),
);
const words = rpcFunction('rref-backward/words', () => 'no tensor');

describe('RRef.backward', () => {
  it('runs on the owner for a user', async () => {
    await at(0, () =>
      context(async (id) => {
        const [a, b] = [leaf([2], 1), leaf([2], 2)];
        const sum = remote('w1', sumOf, [a, b]);
        await sum.backward(id);
        expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
        await expect(sum.backward(id)).rejects.toThrow(/Trying to backward through the graph a second time/);
        sum.dispose();
      }),
    );
    await expectClean(agents);
  });

  it('keeps the graph when told to, on every worker', async () => {
    await at(0, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        const sum = remote('w1', sumOf, [a, a]);
        await sum.backward(id, { retainGraph: true });
        await sum.backward(id);
        expect(getGradients(id).get(a)?.toArray()).toEqual([4, 4]);
        sum.dispose();
      }),
    );
  });

  it('runs from the owner itself, in the context or without', async () => {
    await at(0, async () => {
      const a = leaf([2], 3);
      await createRRef(a.mul(a).sum()).backward();
      expect(a.grad?.toArray()).toEqual([6, 6]);
      await context(async (id) => {
        const out = await rpcSync('w1', add, [a, a]);
        await createRRef(out.sum()).backward(id);
        expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
      });
      expect(a.grad?.toArray()).toEqual([6, 6]);
    });
  });

  it('says what is missing', async () => {
    await at(0, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        const sum = remote('w1', sumOf, [a, a]);
        await expect(sum.backward()).rejects.toThrow("User RRefs require 'dist_autograd_ctx_id' to be specified");
        await expect(sum.backward(1234n)).rejects.toThrow('Could not find autograd context with id: 1234');
        const text = remote('w1', words);
        await expect((text as unknown as typeof sum).backward(id)).rejects.toThrow(
          'RRef should contain a tensor for .backward()',
        );
        sum.dispose();
        text.dispose();
      }),
    );
    await expectClean(agents);
  });
});
