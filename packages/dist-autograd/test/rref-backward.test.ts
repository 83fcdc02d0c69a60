import { errorMatching, shown } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { RemoteError, RpcError, rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { add, AutogradError, mul, rand, type Tensor } from '@backwire/tensor';
import { expectClean, filled, leaf, randomLeaf, unknownContext, useAgents } from './agents.ts';
import { backward, context, getGradients } from '../src/index.ts';

const { at, agents, everywhere } = useAgents('rref-backward', 4, { onLeak: 'throw' });
/** The worker after this one. */
const after = (rank: number): string => `w${(rank + 1) % 4}`;

const sumOf = rpcFunction('rref-backward/sumOf', async (a: Tensor, b: Tensor) =>
  (await rpcSync('w2', mul, [a, b])).sum(),
);
const sumAll = rpcFunction('rref-backward/sumAll', (x: Tensor) => x.sum());
const words = rpcFunction('rref-backward/words', () => 'no tensor');
const echo = rpcFunction('rref-backward/echo', (x: unknown) => x);

describe('a second handle that toHere gives on the owner', () => {
  it('leads to the gradient of the leaf, used here or elsewhere, and so does the first', async () => {
    await at(0, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        const second = await createRRef(a).toHere();
        expect(second).not.toBe(a);
        const out = await rpcSync('w1', mul, [second, leaf([2], 3)]);
        await backward(id, [out.sum()]);
        const grads = getGradients(id);
        expect([grads.get(a)?.toArray(), grads.get(second)?.toArray()]).toEqual([
          [3, 3],
          [3, 3],
        ]);
        expect(grads.get(a.alias())).toBeUndefined();
      }),
    );
    await expectClean(agents);
  });
});

const noTensor = errorMatching(RpcError, {
  code: 'failed-precondition',
  message: 'RRef should contain a tensor for .backward()',
});
const noContext = errorMatching(RpcError, {
  code: 'failed-precondition',
  message: "User RRefs require 'dist_autograd_ctx_id' to be specified",
});

describe('RRef.backward', () => {
  it('runs on the owner for a user', async () => {
    await at(0, () =>
      context(async (id) => {
        const [a, b] = [leaf([2], 1), leaf([2], 2)];
        const sum = remote('w1', sumOf, [a, b]);
        await sum.backward(id);
        expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
        await expect(sum.backward(id)).rejects.toThrow(
          errorMatching(RemoteError, {
            code: 'remote-error',
            remoteName: 'AutogradError',
            message: 'Trying to backward through the graph a second time',
          }),
        );
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
        await expect(sum.backward()).rejects.toThrow(noContext);
        await expect(sum.backward(1234n)).rejects.toThrow(unknownContext(1234n));
        const text = remote('w1', words);
        await expect((text as unknown as typeof sum).backward(id)).rejects.toThrow(noTensor);
        sum.dispose();
        text.dispose();
      }),
    );
    await expectClean(agents);
  });

  it('of an owner does all that PyTorch tests: here, in a context, twice, and what cannot be a root', async () => {
    await everywhere(async (rank) => {
      const t1 = randomLeaf(10, 10);
      const twos = filled([10, 10], 2);
      await createRRef(t1.sum().add(t1.sum())).backward();
      expect(shown(t1.grad!)).toEqual(shown(twos));
      await context(async (id) => {
        const t2 = await rpcSync(after(rank), add, [t1, t1]);
        await createRRef(t2.sum()).backward(id);
        expect(shown(getGradients(id).get(t1)!)).toEqual(shown(twos));
      });
      await context(async (id) => {
        const t2 = await rpcSync(after(rank), add, [t1, t1]);
        const rref = createRRef(t2.sum());
        await rref.backward(id, { retainGraph: true });
        await rref.backward(id);
        expect(shown(getGradients(id).get(t1)!)).toEqual(shown(filled([10, 10], 4)));
      });
      // What happens in contexts stays there.
      expect(shown(t1.grad!)).toEqual(shown(twos));
      await expect(createRRef(rand([10])).backward()).rejects.toThrow(
        errorMatching(AutogradError, { message: 'tensors does not require grad and does not have a grad_fn' }),
      );
      await expect(createRRef(randomLeaf(10)).backward()).rejects.toThrow(
        errorMatching(AutogradError, { message: 'grad can be implicitly created only for scalar outputs' }),
      );
      await expect(createRRef(randomLeaf(10).sum()).backward(100n)).rejects.toThrow(unknownContext(100n));
      await expect((createRRef('foo') as unknown as RRef<Tensor>).backward()).rejects.toThrow(noTensor);
    });
    await expectClean(agents);
  });

  it('of a user does all that PyTorch tests: twice, with a value that is no tensor, and without a context', async () => {
    await everywhere(async (rank) => {
      const t = randomLeaf(10);
      await context(async (id) => {
        const rref = remote(after(rank), sumAll, [t]);
        await rref.backward(id, { retainGraph: true });
        await rref.backward(id);
        expect(shown(getGradients(id).get(t)!)).toEqual(shown(filled([10], 2)));
        expect(t.grad).toBeNull();
        rref.dispose();
      });
      await context(async (id) => {
        const rref = remote(after(rank), echo, ['foo']) as unknown as RRef<Tensor>;
        await expect(rref.backward(id)).rejects.toThrow(noTensor);
        await expect(rref.backward()).rejects.toThrow(noContext);
        rref.dispose();
      });
    });
    await expectClean(agents);
  });
});
