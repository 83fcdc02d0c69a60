/** @file What is wrong with contexts, roots and their order is said in words. */
import { describe, expect, it } from 'vitest';
import { errorMatching } from '@backwire/testing';
import { createAgent, RpcError, rpcFunction, rpcSync } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';
import { add, DisposedError, mul, optim, type Tensor } from '@backwire/tensor';
import { expectClean, filled, leaf, unknownContext, useAgents } from './agents.ts';
import { backward, context, distAutograd, DistributedOptimizer, getGradients } from '../src/index.ts';

const { at, agents, everywhere } = useAgents('misuse', 4, { onLeak: 'throw' });

const plus = rpcFunction('misuse/plus', (a: number, b: number) => a + b);

describe('misuse', () => {
  it('of an optimizer says that it takes a class, and what parameters are', () =>
    at(0, async () => {
      const create = DistributedOptimizer.create as unknown as (...given: unknown[]) => Promise<unknown>;
      const takes = 'a DistributedOptimizer takes a class such as optim.SGD first, then parameters and options; got ';
      const sgd = new optim.SGD([leaf([1], 1)], { lr: 1 });
      await expect(create([], optim.SGD, { lr: 1 })).rejects.toThrow(`${takes}a list`);
      await expect(create('SGD', [], { lr: 1 })).rejects.toThrow(`${takes}the text 'SGD'`);
      await expect(create(sgd, [], { lr: 1 })).rejects.toThrow(`${takes}an object of class SGD`);
      await expect(create(optim.SGD, Promise.resolve([]), { lr: 1 })).rejects.toThrow(
        'a DistributedOptimizer takes a list of RRefs to parameters, got a Promise: await it',
      );
    }));

  it('of roots says what was given, and what they are', () =>
    at(0, () =>
      context(async (id) => {
        const give = backward as unknown as (id: bigint, roots: unknown) => Promise<void>;
        await expect(give(id, leaf([1], 1).sum())).rejects.toThrow(
          'roots must be a list of tensors, as in backward(id, [loss]); got an object of class Tensor',
        );
        await expect(give(id, [Promise.resolve()])).rejects.toThrow('root 0 is not a tensor, got a Promise: await it');
      }),
    ));

  it('of gradients and options says what they are', () =>
    at(0, () =>
      context(async (id) => {
        const x = leaf([1], 1);
        const wrong = (given: object): Promise<void> => backward(id, [x.mul(2).sum()], given);
        await expect(wrong({ signal: new AbortController() })).rejects.toThrow('signal is an AbortSignal, got');
        await expect(wrong({ retainGraph: 'no' })).rejects.toThrow("retainGraph is true or false, got 'no'");
        await wrong({ retainGraph: false });
        using gradients = getGradients(id);
        expect(gradients.get(x)?.toArray()).toEqual([2]);
        expect(() => gradients.get('x' as never)).toThrow("a tensor is asked for, got the text 'x'");
      }),
    ));

  it('names the context that is unknown', () =>
    everywhere(async (rank) => {
      const a = leaf([2], 1);
      const root = (await rpcSync((rank + 1) % 4, add, [a, a])).sum();
      await expect(backward(100n, [root])).rejects.toThrow(unknownContext(100n));
      expect(() => getGradients(100n)).toThrow(unknownContext(100n));
      await expect(backward(-1n, [a.sum()])).rejects.toThrow(unknownContext(-1n));
    }));

  it('says of a context that has ended why it has', () =>
    at(0, async () => {
      let ended = 0n;
      await context(async (id) => void (ended = id));
      const why = `Could not find autograd context with id: ${ended}; it has ended: context() ends it when what`;
      await expect(backward(ended, [leaf([1], 1)])).rejects.toThrow(why);
      expect(() => getGradients(ended)).toThrow(why);
      // One that will be, and one of another worker.
      for (const id of [ended + 1n, ended | (1n << 48n)])
        expect(() => getGradients(id)).toThrow(new RegExp(`with id: ${id} \\[not-found\\]$`));
    }));

  it('says what a context id is, and what context() runs', () =>
    at(0, async () => {
      const expected = 'a context id is a bigint: it is what context() gives its function, as in context(async (id) =>';
      await expect(backward(undefined as never, [leaf([1], 1)])).rejects.toThrow(`${expected} { … }); got undefined`);
      await expect(backward([leaf([1], 1)] as never, 1n as never)).rejects.toThrow(`${expected} { … }); got a list`);
      expect(() => getGradients(5 as never)).toThrow(`${expected} { … }); got 5`);
      await expect(context(undefined as never)).rejects.toThrow('context() runs a function, as in context(async');
    }));

  it('names what is wrong with roots', () =>
    everywhere(() =>
      context(async (id) => {
        const a = leaf([2], 1);
        const loose = backward as unknown as (id: unknown, roots: unknown) => Promise<void>;
        for (const [own, roots] of [
          [id, null],
          [null, null],
          [undefined, [a.sum()]],
          [id, a.sum()],
          [id, [3]],
        ]) {
          await expect(loose(own, roots)).rejects.toThrow(
            errorMatching(TypeError, { message: 'incompatible function arguments' }),
          );
        }
        const freed = a.sum();
        freed.dispose();
        for (const [roots, message] of [
          [[], 'No tensors provided for gradient computation.'],
          [[filled([3, 3], 1)], 'requires_grad not set on'],
          [[leaf([3, 3], 1)], 'is not a scalar, all roots need to be scalar'],
          [[a.mul(2)], 'is not a scalar, all roots need to be scalar'],
          [[leaf([1], 1)], 'does not have a valid gradient function.'],
        ] as const)
          await expect(backward(id, roots)).rejects.toThrow(
            errorMatching(RpcError, { code: 'invalid-argument', message }),
          );
        await expect(backward(id, [a.sum(), freed])).rejects.toThrow(
          errorMatching(DisposedError, { message: 'root 1 was disposed' }),
        );
        await backward(id, [a.mul(2).sum().reshape([1])]);
        expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
      }),
    ));

  it('refuses a mode that there is not', () =>
    at(0, () =>
      context(async (id) => {
        const root = leaf([1], 2).mul(3).sum();
        await expect(backward(id, [root], { mode: 'x' as 'fast' })).rejects.toThrow(
          "mode of a backward pass is 'smart'",
        );
        await backward(id, [root], { mode: 'smart' });
      }),
    ));

  it('fails where the graph was freed, with the node that freed it', () =>
    at(0, async () => {
      await context(async (id) => {
        const [a, b] = [leaf([2], 1), leaf([2], 2)];
        const loss = (await rpcSync('w1', mul, [a, b])).sum();
        await backward(id, [loss]);
        await expect(backward(id, [loss])).rejects.toThrow(
          /Error on Node 0: (Error on Node 1: )?Trying to backward through the graph a second time/,
        );
        expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
      });
      await expectClean(agents);
    }));

  it('refuses a tensor of another context, in words that say whether that one is gone', () =>
    at(0, async () => {
      const received = (): Promise<Tensor> => rpcSync('w1', add, [leaf([2], 1), leaf([2], 1)]);
      const [kept, ended] = await context(async (id) => [await received(), id] as const);
      await context(async (id) => {
        const error = await backward(id, [kept.sum()]).catch(String);
        expect(error).toContain('Error on Node 0: Autograd context no longer valid!');
        expect(error).toContain(
          `: a tensor received in autograd context ${ended}, which has ended, cannot take part in a backward pass of context ${id}; make the call that gave it inside this context(), or detach() it to take it as a constant`,
        );
        // As it says:
        await backward(id, [(await received()).add(kept.detach()).sum()]);
      });
      let letGo: () => void = () => undefined;
      const used = new Promise<void>((resolve) => (letGo = resolve));
      let give: (lent: readonly [Tensor, bigint]) => void = () => undefined;
      const lent = new Promise<readonly [Tensor, bigint]>((resolve) => (give = resolve));
      const lender = context(async (id) => {
        give([await received(), id]);
        await used;
      });
      const [theirs, open] = await lent;
      await context((id) =>
        expect(backward(id, [theirs.sum()])).rejects.toThrow(
          `Error on Node 0: a tensor received in autograd context ${open} cannot take part in a backward pass of context ${id}; make the call`,
        ),
      );
      letGo();
      await lender;
      await expectClean(agents);
    }));

  it('calls a peer that has no extension at all as outside of a context, unless gradients are wanted', async () => {
    const store = 'memory://one-bare';
    const group = await Promise.all([
      createAgent({ name: 'w0', rank: 0, worldSize: 2, store, extensions: [rrefs(), distAutograd()] }),
      createAgent({ name: 'w1', rank: 1, worldSize: 2, store }),
    ]);
    await group[0].run(() =>
      context(async () => {
        expect((await rpcSync('w1', add, [filled([2], 1), filled([2], 1)])).toArray()).toEqual([2, 2]);
        expect(await rpcSync('w1', plus, [1, 2])).toBe(3);
        await expect(rpcSync('w1', add, [leaf([2], 1), leaf([2], 1)])).rejects.toThrow(
          "worker 'w1' has no extension 'dist-autograd'",
        );
      }),
    );
    await Promise.all(group.map((agent) => agent.shutdown({ timeoutMs: 10_000 })));
  });

  it('needs the extension', async () => {
    const bare = await createAgent({ name: 'bare', rank: 0, worldSize: 1, store: 'memory://bare' });
    await bare.run(() =>
      expect(context(async () => undefined)).rejects.toThrow("worker 'bare' has no extension 'dist-autograd'"),
    );
    await bare.shutdown();
  });
});
