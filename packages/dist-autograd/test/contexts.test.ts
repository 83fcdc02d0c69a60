import { describe, expect, it } from 'vitest';
import { errorMatching } from '@backwire/testing';
import { RemoteError, rpcAsync, RpcError, rpcFunction, rpcOneway, rpcSync, waitAll } from '@backwire/rpc';
import { remote } from '@backwire/rref';
import { add, matmul, sparseCooTensor, tensor, type Tensor } from '@backwire/tensor';
import { ambient } from '@backwire/tensor/internal';
import { expectClean, filled, leaf, unknownContext, useAgents } from './agents.ts';
import { backward, context, distAutogradDebugInfo, getGradients } from '../src/index.ts';
import { AutogradSession, sessionOf } from '../src/internal.ts';
import { localId, publicId } from '../src/protocol/ids.ts';

const { at, everywhere, agents } = useAgents('contexts', 4, { onLeak: 'throw' });

const plus = rpcFunction('contexts/plus', (a: Tensor, b: Tensor) => a.add(b));
const addOn = rpcFunction('contexts/addOn', (a: Tensor, b: Tensor, to: number) => rpcSync(to, plus, [a, b]));
const addNumbers = rpcFunction('contexts/addNumbers', (a: number, b: number) => a + b);
/** PyTorch's sparse example. */
function sparse(requiresGrad: boolean): Tensor {
  const rows = tensor([[0, 1, 1], [2, 0, 2]], { dtype: 'int64' }); // prettier-ignore
  return Object.assign(sparseCooTensor(rows, tensor([3.2, 4.1, 5.3]), [3, 3]), { requiresGrad });
}
/** PyTorch's tests without gradients send one tensor as both arguments. */
const twice = (t: Tensor): [Tensor, Tensor] => [t, t];
/** Whether each worker has the context. */
const known = (id: bigint): boolean[] => agents.map((agent) => sessionOf(agent).contexts.find(id) !== undefined);
/** Runs `fn` on every worker at once, in a context of its own, which it does not know once it has left it. */
const everywhereInContext = (fn: (rank: number, id: bigint) => Promise<void>): Promise<bigint[]> =>
  everywhere(async (rank) => {
    const left = await context(async (id) => {
      await fn(rank, id);
      return id;
    });
    expect(() => sessionOf().find(left)).toThrow(unknownContext(left));
    return left;
  });
/** The contexts that each of the workers has left. */
async function expectForgotten(ids: readonly bigint[]): Promise<void> {
  await expect.poll(() => ids.flatMap(known), { timeout: 10_000 }).toEqual(Array(16).fill(false));
  await expectClean(agents);
}
const nothing = rpcFunction('contexts/nothing', () => undefined);
const failing = rpcFunction('contexts/failing', (_: Tensor): Tensor => {
  throw new TypeError('no such sum');
});
const currentId = rpcFunction('contexts/currentId', async () => {
  await new Promise((resolve) => setTimeout(resolve, 1));
  return ambient().contextId ?? null;
});
const oneway = {
  arrived: (_context: bigint | undefined): void => undefined,
  fn: rpcFunction('contexts/oneway', (_: unknown): void => {
    oneway.arrived(ambient().contextId);
  }),
};
const gate = { open: (): void => undefined, wait: Promise.resolve() };
const gated = rpcFunction('contexts/gated', async (a: Tensor) => {
  await gate.wait;
  return a.mul(2);
});
function closeGate(): void {
  gate.wait = new Promise((resolve) => (gate.open = resolve));
}

describe('context', () => {
  it('shows an inspector what there is, and asks for no call outside of one', () =>
    at(0, async () => {
      const [first] = agents;
      const session = sessionOf(first);
      if (!(session instanceof AutogradSession)) throw new TypeError('another kind of autograd');
      expect(session.requestsWhile).toBe('contextId');
      expect(session.inspect()).toEqual({ contexts: [], total: 0, passes: 0 });
      await context(async (id) => {
        const sum = (await rpcSync('w1', add, [leaf([2], 1), filled([2], 1)])).sum();
        await backward(id, [sum]);
        const { contexts, total, passes } = session.inspect() as { contexts: unknown[]; total: number; passes: number };
        expect([total, passes]).toEqual([1, 0]);
        expect(contexts).toMatchObject([
          { id: String(id), knownWorkers: ['w1'], sendFunctions: 1, recvFunctions: 1, gradients: 1 },
        ]);
      });
    }));

  it('does not wait for one-way calls, and records only those that gradients can come back through', () =>
    at(0, async () => {
      const seen: unknown[] = [];
      oneway.arrived = (value) => void seen.push(value);
      await context(async (id) => {
        rpcOneway('w1', oneway.fn, [1]);
        expect(sessionOf().find(id).callsInFlight).toBe(0);
        expect(sessionOf().find(id).known.size).toBe(0);
      });
      await context(async (id) => {
        rpcOneway('w1', oneway.fn, [leaf([2], 1)]);
        expect(sessionOf().find(id).sends.size).toBe(1);
        expect(() => rpcOneway('w1', oneway.fn, [[leaf([2], 1), () => 0]])).toThrow(TypeError);
        expect(sessionOf().find(id).callsInFlight).toBe(0);
        await expect.poll(() => seen.length).toBe(2);
      });
      expect(seen[0]).toBe(undefined);
      expect(typeof seen[1]).toBe('bigint');
      await expectClean(agents);
    }));

  it('numbers contexts as torch does and forgets them on leaving', async () => {
    await everywhere(async (rank) => {
      const ids: bigint[] = [];
      const first = await context(async (id) => id);
      expect(first >> 48n).toBe(BigInt(rank));
      // The last id of the last life is the last before the worker's bits; there is none after it.
      expect(publicId(rank, localId(1_023, 2 ** 38 - 1))).toBe((BigInt(rank) << 48n) + 281_474_976_710_655n);
      expect(() => localId(1_023, 2 ** 38)).toThrow(new RangeError('the counter of autograd ids has wrapped around'));
      for (let i = 0; i < 200; i++) {
        await context(async (id) => {
          ids.push(id);
          expect(sessionOf().find(id).id).toBe(id);
          expect(id >> 48n).toBe(BigInt(rank));
        });
      }
      expect(ids).toEqual(Array.from({ length: 200 }, (_, i) => first + BigInt(i) + 1n));
      for (const id of ids)
        for (const find of [getGradients, (gone: bigint) => sessionOf().find(gone)])
          expect(() => find(id)).toThrow(unknownContext(id));
    });
  });

  it('refuses a second one inside', async () => {
    await everywhere(() =>
      context(async () => {
        const message = 'Already have an autograd context id for this thread.';
        await expect(context(async () => undefined)).rejects.toThrow(
          errorMatching(RpcError, { code: 'failed-precondition', message }),
        );
      }),
    );
    await expectClean(agents);
  });

  it('returns what its body returns, and lets its error through', async () => {
    await at(0, async () => {
      expect(await context(async (id) => typeof id)).toBe('bigint');
      await expect(context(async () => Promise.reject(new RangeError('own error')))).rejects.toThrow(
        new RangeError('own error'),
      );
    });
    await expectClean(agents);
  });

  it.each([
    ['tensors that require grad', add, () => [leaf([3, 3], 1), leaf([3, 3], 0)]],
    ['tensors that do not', add, () => twice(filled([3, 3], 1))],
    ['sparse tensors that require grad', add, () => [sparse(true), sparse(true)]],
    ['sparse tensors that do not', add, () => twice(sparse(false))],
    ['no tensors', addNumbers as unknown as typeof add, () => [1, 1]],
  ] as const)('is released on every worker that saw it: %s', async (_, fn, args) => {
    const left = await everywhereInContext(async (rank, id) => {
      // The same to all three.
      const sent = args() as [Tensor, Tensor];
      for (const to of [0, 1, 2, 3].filter((other) => other !== rank)) {
        await rpcSync(to, fn, sent);
        await rpcSync(to, nothing);
      }
      expect(known(id)).toEqual([true, true, true, true]);
    });
    await expectForgotten(left);
  });

  it.each([
    ['tensors', () => [leaf([3, 3], 1), leaf([3, 3], 0)]],
    ['sparse tensors', () => [sparse(true), sparse(true)]],
  ] as const)('is released on a worker that another one brought into it, of %s', async (_, args) => {
    const left = await everywhereInContext(async (rank, id) => {
      const [next, last] = [(rank + 1) % 4, (rank + 2) % 4];
      await rpcSync(next, addOn, [...(args() as [Tensor, Tensor]), last]);
      expect(known(id)).toEqual([0, 1, 2, 3].map((worker) => [rank, next, last].includes(worker)));
      expect([...sessionOf().find(id).known.keys()]).toEqual([next]);
    });
    await expectForgotten(left);
  });

  it('records the peers, also without tensors that require grad', async () => {
    await everywhere((rank) =>
      context(async (id) => {
        const others = [0, 1, 2, 3].filter((other) => other !== rank);
        const [a, b] = [filled([3, 3], 1), filled([3, 3], 0)];
        for (const requiresGrad of [false, true]) {
          for (const t of [a, b]) t.requiresGrad = requiresGrad;
          for (const to of others) {
            expect((await rpcSync(to, add, [a, b])).requiresGrad).toBe(requiresGrad);
            await rpcSync(to, nothing);
          }
          expect([...sessionOf().find(id).known.keys()]).toEqual(others);
        }
      }),
    );
  });

  it('survives an error of a call', async () => {
    await everywhere((rank) =>
      context(async (id) => {
        const next = (rank + 1) % 4;
        const a = leaf([2, 2], 1);
        await expect(rpcAsync(next, failing, [a])).rejects.toThrow(new TypeError('no such sum'));
        const message = `On WorkerInfo(id=${next}, name=w${next}):\nShapeError: matmul(): mat1 and mat2 shapes cannot be multiplied (3x3 and 6x6)`;
        await expect(rpcSync(next, matmul, [leaf([3, 3], 1), leaf([6, 6], 1)])).rejects.toThrow(
          errorMatching(RemoteError, { code: 'remote-error', remoteName: 'ShapeError', message }),
        );
        const y = await rpcAsync(next, add, [a, a]);
        await backward(id, [y.sum()]);
        expect(getGradients(id).get(a)?.toArray()).toEqual([
          [2, 2],
          [2, 2],
        ]);
      }),
    );
    await expectClean(agents);
  });

  it('follows a handler across await', async () => {
    await at(0, () => context(async (id) => expect(await rpcAsync('w1', currentId)).toBe(id)));
  });

  it('waits on leaving for a call in flight', async () => {
    closeGate();
    let left = false;
    const pending: { result?: Promise<Tensor> } = {};
    const leaving = at(0, () =>
      context(async () => {
        pending.result = rpcAsync('w1', gated, [leaf([2], 3)]);
      }),
    ).then(() => (left = true));
    await at(0, () => rpcSync('w1', nothing));
    expect(left).toBe(false);
    gate.open();
    await leaving;
    expect((await pending.result)?.toArray()).toEqual([6, 6]);
    await expectClean(agents);
  });

  it('cancels calls in flight when its body throws', async () => {
    closeGate();
    const pending: { result?: Promise<unknown> } = {};
    const thrown = new Error('enough');
    await expect(
      at(0, () =>
        context(async () => {
          pending.result = rpcAsync('w1', gated, [leaf([2], 3)]).catch((error: unknown) => error);
          throw thrown;
        }),
      ),
    ).rejects.toBe(thrown);
    expect(await pending.result).toEqual(errorMatching(RpcError, { code: 'cancelled', message: 'cancelled' }));
    gate.open();
    await expectClean(agents);
  });

  it('refuses calls of code that goes on after it was left', async () => {
    const late: { call?: () => Promise<Tensor> } = {};
    await at(0, async () => {
      await context(async () => {
        const a = leaf([2], 1);
        const { AsyncResource } = await import('node:async_hooks');
        const here = new AsyncResource('late');
        late.call = () => here.runInAsyncScope(async () => rpcAsync('w1', add, [a, a]));
      });
      const message = "Couldn't find autograd context data for current autograd context id";
      await expect(late.call?.()).rejects.toThrow(errorMatching(RpcError, { code: 'failed-precondition', message }));
    });
  });

  it('counts contexts and passes', async () => {
    await at(0, () =>
      context(async () => {
        await waitAll(() => void rpcAsync('w1', nothing));
        expect(distAutogradDebugInfo()).toEqual({ num_current_backward_passes: 0, num_autograd_contexts: 1 });
      }),
    );
    await expectClean(agents);
  });

  it('makes an RRef in it release with the rest', async () => {
    await at(0, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        const sum = remote('w1', add, [a, a]);
        await backward(id, [(await sum.toHere()).sum()]);
        expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
        sum.dispose();
      }),
    );
    await expectClean(agents);
  });
});
