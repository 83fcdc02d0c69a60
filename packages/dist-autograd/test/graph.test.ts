import { describe, expect, it } from 'vitest';
import { rpcAsync, rpcFunction } from '@backwire/rpc';
import { remote } from '@backwire/rref';
import { add, noGrad, sparseCooTensor, tensor, type Tensor } from '@backwire/tensor';
import { expectClean, filled, graphOf, leaf, useAgents } from './agents.ts';
import { backward, context, getGradients } from '../src/index.ts';
import { sessionOf } from '../src/internal.ts';

const { at, agents } = useAgents('graph', 3);

const plus = rpcFunction('graph/plus', (a: Tensor, b: Tensor) => a.add(b));
const plusOn = rpcFunction('graph/plusOn', async (to: string, a: Tensor, b: Tensor) => rpcAsync(to, plus, [a, b]));
const plusRemotelyOn = rpcFunction('graph/plusRemotelyOn', async (to: string, a: Tensor, b: Tensor) =>
  remote(to, plus, [a, b]).toHere(),
);
const swallow = rpcFunction('graph/swallow', (_: Tensor): void => undefined);
const sumAll = rpcFunction('graph/sumAll', (list: readonly Tensor[]) =>
  list.reduce((sum, t) => sum.add(t), filled([2, 2], 0)),
);
/** As `rpcAsync`, by way of an RRef. */
const callRemotely = ((to: string, fn: typeof sumAll, args: [Tensor[]]) =>
  remote(to, fn, args).toHere()) as unknown as typeof rpcAsync;
const held = leaf([2], 5);
const giveHeld = rpcFunction('graph/giveHeld', (a: Tensor) => a.add(held));

const dense = (): [Tensor, Tensor] => [leaf([2, 2], 1), leaf([2, 2], 2)];
const sparse = (): [Tensor, Tensor] => {
  const make = (): Tensor => {
    const t = sparseCooTensor(
      tensor(
        [
          [0, 1],
          [1, 0],
        ],
        { dtype: 'int64' },
      ),
      tensor([1, 2]),
      [2, 2],
    );
    t.requiresGrad = true;
    return t;
  };
  return [make(), make()];
};

/** [send functions, receive functions, known workers] of a context on this worker. */
function view(id: bigint): [number, number, number[]] {
  const { sends, recvCount, known } = sessionOf().find(id);
  return [sends.size, recvCount, [...known.keys()].sort()];
}
async function viewOn(worker: string, id: bigint): Promise<[number, number, number[]]> {
  const seen = await rpcAsync(worker, graphOf, [id]);
  return [seen!.sends, seen!.recvs, seen!.known];
}

describe.each([
  ['dense', dense],
  ['sparse', sparse],
] as const)('the graph of a call, %s', (_, tensors) => {
  it.each([
    ['an operation', async (a: Tensor, b: Tensor) => rpcAsync('w1', add, [a, b])],
    ['a function', async (a: Tensor, b: Tensor) => rpcAsync('w1', plus, [a, b])],
    ['an operation, remotely', async (a: Tensor, b: Tensor) => remote('w1', add, [a, b]).toHere()],
    ['a function, remotely', async (a: Tensor, b: Tensor) => remote('w1', plus, [a, b]).toHere()],
  ] as const)('has a send and a receive function on each side: %s', async (_name, call) => {
    await at(0, () =>
      context(async (id) => {
        const [a, b] = tensors();
        const sum = await call(a, b);
        expect(sum.gradFn?.name).toBe('RecvRpcBackward');
        expect(view(id)).toEqual([1, 1, [1]]);
        const [send] = sessionOf().find(id).sends.values();
        expect(send?.nextFunctions.map((fn) => fn?.name)).toEqual(['AccumulateGrad', 'AccumulateGrad']);
        const there = await rpcAsync('w1', graphOf, [id]);
        expect([there?.sends, there?.recvs, there?.known]).toEqual([1, 1, [0]]);
        expect(there?.sendEdges).toHaveLength(1);
      }),
    );
    await expectClean(agents);
  });

  it.each([
    ['nested', plusOn],
    ['nested, remotely', plusRemotelyOn],
  ] as const)('has them on each worker of three: %s', async (_name, fn) => {
    await at(0, () =>
      context(async (id) => {
        const [a, b] = tensors();
        await rpcAsync('w1', fn, ['w2', a, b]);
        expect(view(id)).toEqual([1, 1, [1]]);
        expect(await viewOn('w1', id)).toEqual([2, 2, [0, 2]]);
        const last = await rpcAsync('w1', viewFrom, ['w2', id]);
        expect(last).toEqual([1, 1, [1]]);
      }),
    );
    await expectClean(agents);
  });

  it.each([
    ['there and back', plusOn],
    ['there and back, remotely', plusRemotelyOn],
  ] as const)('has two pairs where a call returns to its caller: %s', async (_name, fn) => {
    await at(0, () =>
      context(async (id) => {
        const [a, b] = tensors();
        await rpcAsync('w1', fn, ['w0', a, b]);
        expect(view(id)).toEqual([2, 2, [1]]);
        expect(await viewOn('w1', id)).toEqual([2, 2, [0]]);
      }),
    );
    await expectClean(agents);
  });

  it('has all of it on one worker that calls itself', async () => {
    await at(0, () =>
      context(async (id) => {
        const [a, b] = tensors();
        await rpcAsync('w0', plus, [a, b]);
        expect(view(id)).toEqual([2, 2, [0]]);
      }),
    );
    await expectClean(agents);
  });

  it.each([
    ['', async (a: Tensor, b: Tensor) => rpcAsync('w1', plus, [a, b])],
    [', remotely', async (a: Tensor, b: Tensor) => remote('w1', plus, [a, b]).toHere()],
  ] as const)(
    'has no functions where nothing requires grad, but the context reaches the peer%s',
    async (_name, call) => {
      await at(0, () =>
        context(async (id) => {
          const [a, b] = tensors().map((t) => t.detach()) as [Tensor, Tensor];
          const sum = await call(a, b);
          expect(sum.requiresGrad).toBe(false);
          expect(view(id)).toEqual([0, 0, [1]]);
          expect(await viewOn('w1', id)).toEqual([0, 0, []]);
        }),
      );
      await expectClean(agents);
    },
  );
});

const viewFrom = rpcFunction('graph/viewFrom', (worker: string, id: bigint) => viewOn(worker, id));

describe('the graph', () => {
  it('has one send function for a function that returns nothing', async () => {
    await at(0, () =>
      context(async (id) => {
        await rpcAsync('w1', swallow, [leaf([2], 1)]);
        expect(view(id)).toEqual([1, 0, [1]]);
        expect((await viewOn('w1', id)).slice(0, 2)).toEqual([0, 1]);
      }),
    );
  });

  it.each([
    ['dense', rpcAsync],
    ['dense, remotely', callRemotely],
    ['sparse', rpcAsync],
    ['sparse, remotely', callRemotely],
  ] as const)('leads only to the tensors of a list that require grad: %s', (kind, call) =>
    at(0, () =>
      context(async (id) => {
        const make = (i: number): Tensor => (kind.startsWith('sparse') ? sparse()[0] : leaf([2, 2], i));
        const list = Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? make(i) : make(i).detach()));
        const out = await call('w1', sumAll, [list]);
        const [send] = sessionOf().find(id).sends.values();
        expect(send?.nextFunctions).toHaveLength(5);
        await backward(id, [out.sum()]);
        const grads = getGradients(id);
        expect(grads.size).toBe(5);
        expect(grads.get(list[4]!)?.toDense().toArray()).toEqual([
          [1, 1],
          [1, 1],
        ]);
      }),
    ),
  );

  it.each([
    ['', async (a: Tensor) => rpcAsync('w1', giveHeld, [a])],
    [', remotely', async (a: Tensor) => remote('w1', giveHeld, [a]).toHere()],
  ] as const)('records for a leaf of the callee when only the result requires grad%s', (_name, call) =>
    at(0, () =>
      context(async (id) => {
        const out = await call(filled([2], 1));
        expect(view(id)).toEqual([0, 1, [1]]);
        await backward(id, [out.sum()]);
        expect(getGradients(id).size).toBe(0);
        expect(await rpcAsync('w1', heldGrad, [id])).toEqual([1, 1]);
      }),
    ),
  );

  it('keeps the flags of mixed arguments, and records nothing without grad mode', async () => {
    await at(0, () =>
      context(async (id) => {
        expect(await rpcAsync('w1', flags, [leaf([1], 1), filled([1], 1)])).toEqual([true, false]);
        const before = view(id)[0];
        const y = await noGrad(() => rpcAsync('w1', add, [leaf([1], 1), leaf([1], 1)]));
        expect(view(id)[0]).toBe(before);
        expect([y.requiresGrad, y.isLeaf]).toEqual([true, true]);
      }),
    );
  });
});

const heldGrad = rpcFunction('graph/heldGrad', (id: bigint) => getGradients(id).get(held)?.toArray());
const flags = rpcFunction('graph/flags', (...list: Tensor[]) => list.map((t) => t.requiresGrad));
