import { shown } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { barrier, rpcAsync, rpcFunction, rpcSync } from '@backwire/rpc';
import { remote } from '@backwire/rref';
import { add, noGrad, sparseCooTensor, stack, tensor, type Tensor } from '@backwire/tensor';
import { AccumulateGrad, ambient, gradEdge, runWith } from '@backwire/tensor/internal';
import { expectClean, filled, leaf, unknownContext, useAgents } from './agents.ts';
import { total } from './local.ts';
import { backward, context, getGradients } from '../src/index.ts';
import { sessionOf } from '../src/internal.ts';

const { at, everywhere, agents } = useAgents('graph', 4, { onLeak: 'throw' });
/** The worker so many after this one. */
const after = (rank: number, by = 1): number => (rank + by) % 4;
/** Outside of the context, in which this has no part. */
const outside = <T>(fn: () => T): T => runWith({ contextId: undefined }, fn);
/** All workers have come so far. */
const meet = (): Promise<void> => outside(() => barrier());
const contextsAt = (rank: number): unknown => agents[rank]?.debugInfo()['num_autograd_contexts'];
const sorted = (...ids: number[]): number[] => ids.toSorted((a, b) => a - b);

const plus = rpcFunction('graph/plus', (a: Tensor, b: Tensor) => a.add(b));
/** Calls on to the next of four workers, `hops` times more before the last adds. */
const nested = rpcFunction('graph/nested', async (to: number, a: Tensor, b: Tensor, hops: number): Promise<Tensor> => {
  const next = (to + 1) % 4;
  return hops > 0 ? rpcSync(next, nested, [next, a, b, hops - 1]) : rpcSync(next, plus, [a, b]);
});
const swallow = rpcFunction('graph/swallow', (_: Tensor): void => undefined);
const nothing = rpcFunction('graph/nothing', () => undefined);
const held = leaf([3, 3], 5);
const giveHeld = rpcFunction('graph/giveHeld', () => held);

const dense = (): [Tensor, Tensor] => [leaf([2, 2], 1), leaf([2, 2], 2)];
const sparseLeaf = (value: number): Tensor => {
  const at = tensor([[0, 1], [1, 0]], { dtype: 'int64' }); // prettier-ignore
  return Object.assign(sparseCooTensor(at, tensor([value, value + 1]), [2, 2]), { requiresGrad: true });
};
const sparse = (): [Tensor, Tensor] => [sparseLeaf(1), sparseLeaf(1)];

/** [send functions, receive functions, known workers] of a context on this worker. */
function view(id: bigint): [number, number, number[]] {
  const { sends, recvCount, known } = sessionOf().find(id);
  return [sends.size, recvCount, [...known.keys()].sort()];
}
const viewHere = rpcFunction('graph/view', view);

/** What follows each send function of a context on this worker: functions by name, numbered as they come, and what follows those. */
const sendsOf = rpcFunction('graph/sendsOf', (id: bigint): [string, number, [string, number][]][][] => {
  const numbers = new Map<unknown, number>();
  const number = (fn: unknown): number => numbers.get(fn) ?? (numbers.set(fn, numbers.size), numbers.size - 1);
  return [...sessionOf().find(id).sends.values()].map((send) =>
    send.nextFunctions.map((fn) => [
      fn?.name ?? '',
      number(fn),
      (fn?.nextFunctions ?? []).map((next) => [next?.name ?? '', number(next)] as [string, number]),
    ]),
  );
});
/** As a worker that ran an addition has it: one function, whose two inputs came in one message. */
const ADDITION = [['AddBackward0', 0, [['RecvRpcBackward', 1], ['RecvRpcBackward', 1]]]]; // prettier-ignore
/** As a worker that called on has them: the two that it got and sent on, and the answer that it got and sent back. */
const HANDED_ON = [
  [['RecvRpcBackward', 0, []], ['RecvRpcBackward', 0, []]], // prettier-ignore
  [['RecvRpcBackward', 1, []]],
];

/** The arguments lead to their leaves, and the result comes from the receive function at this place. */
function expectOrigin(id: bigint, args: readonly Tensor[], result: Tensor, at: number): void {
  const { sends, recvs } = sessionOf().find(id);
  const [send] = sends.values();
  const edges = args.map((t) => gradEdge(t)!);
  expect(edges.map(({ node }) => node.name)).toEqual(args.map(() => 'AccumulateGrad'));
  expect(send!.nextFunctions).toHaveLength(args.length);
  for (const [i, { node, inputIndex }] of edges.entries()) {
    expect(send!.nextFunctions[i]).toBe(node);
    expect(node).toBeInstanceOf(AccumulateGrad);
    expect((node as AccumulateGrad).variable).toBe(args[i]);
    expect([inputIndex, send!.nextEdges[i]?.inputIndex]).toEqual([0, 0]);
  }
  expect(result.gradFn).toBe([...recvs.values()].flatMap((own) => [...own.values()])[at]);
}

describe.each([
  ['dense', dense],
  ['sparse', sparse],
] as const)('the graph of a call, %s', (_, tensors) => {
  it.each([
    ['an operation', async (to: number, a: Tensor, b: Tensor) => rpcSync(to, add, [a, b])],
    ['a function', async (to: number, a: Tensor, b: Tensor) => rpcSync(to, plus, [a, b])],
    ['an operation, remotely', async (to: number, a: Tensor, b: Tensor) => remote(to, add, [a, b]).toHere()],
    ['a function, remotely', async (to: number, a: Tensor, b: Tensor) => remote(to, plus, [a, b]).toHere()],
  ] as const)('has a send and a receive function on each side: %s', async (_name, call) => {
    await everywhere(async (rank) => {
      const next = after(rank);
      const left = await context(async (id) => {
        const [a, b] = tensors();
        const sum = await call(next, a, b);
        await meet();
        // That of this worker and that of the one before, whose calls it ran.
        expect(contextsAt(rank)).toBe(2);
        expect(ambient().contextId).toBe(id);
        expect(view(id)).toEqual([1, 1, [next]]);
        expectOrigin(id, [a, b], sum, 0);
        expect(await rpcSync(next, viewHere, [id])).toEqual([1, 1, [rank]]);
        expect(await rpcSync(next, sendsOf, [id])).toEqual([ADDITION]);
        // Calls in the context that carry no tensors, such as these two, add nothing.
        expect(view(id)).toEqual([1, 1, [next]]);
        expectOrigin(id, [a, b], sum, 0);
        await meet();
        return id;
      });
      expect(() => sessionOf().find(left)).toThrow(unknownContext(left));
      expect(ambient().contextId).toBe(undefined);
    });
    await expectClean(agents);
  });

  it.each([
    ['nested', async (to: number, a: Tensor, b: Tensor) => rpcSync(to, nested, [to, a, b, 1])],
    ['nested, remotely', async (to: number, a: Tensor, b: Tensor) => remote(to, nested, [to, a, b, 1]).toHere()],
  ] as const)('has them on each worker of four: %s', async (_name, call) => {
    await everywhere((rank) =>
      context(async (id) => {
        const [first, second, last] = [after(rank, 1), after(rank, 2), after(rank, 3)];
        const [a, b] = tensors();
        const sum = await call(first, a, b);
        await meet();
        // Those of all four, each of which calls on through the others.
        expect(contextsAt(rank)).toBe(4);
        expect(ambient().contextId).toBe(id);
        expect(view(id)).toEqual([1, 1, [first]]);
        expectOrigin(id, [a, b], sum, 0);
        // The second and the last have no part in it by this worker's own calls.
        const seen = <T>(worker: number, fn: (id: bigint) => T): Promise<Awaited<T>> =>
          outside(() => rpcSync(worker, fn as never, [id] as never));
        expect(await seen(first, viewHere)).toEqual([2, 2, sorted(rank, second)]);
        expect(await seen(first, sendsOf)).toEqual(HANDED_ON);
        expect(await seen(second, viewHere)).toEqual([2, 2, sorted(first, last)]);
        expect(await seen(second, sendsOf)).toEqual(HANDED_ON);
        expect(await seen(last, viewHere)).toEqual([1, 1, [second]]);
        expect(await seen(last, sendsOf)).toEqual([ADDITION]);
        // Calls in the context that carry no tensors add nothing to any of the four.
        for (const [worker, pairs] of [
          [first, 2],
          [second, 2],
          [last, 1],
        ] as const)
          expect((await rpcSync(worker, viewHere, [id])).slice(0, 2)).toEqual([pairs, pairs]);
        expect(view(id)).toEqual([1, 1, sorted(first, second, last)]);
        expectOrigin(id, [a, b], sum, 0);
        await meet();
      }),
    );
    await expectClean(agents);
  });

  it.each([
    [
      'there and back',
      async (rank: number, a: Tensor, b: Tensor) => rpcSync(after(rank), nested, [after(rank, 3), a, b, 0]),
    ],
    [
      'there and back, remotely',
      async (rank: number, a: Tensor, b: Tensor) => remote(after(rank), nested, [after(rank, 3), a, b, 0]).toHere(),
    ],
  ] as const)('has two pairs where a call returns to its caller: %s', async (_name, call) => {
    await everywhere((rank) =>
      context(async (id) => {
        const next = after(rank);
        const [a, b] = tensors();
        const sum = await call(rank, a, b);
        await meet();
        // That of this worker and that of the one before, whose calls it ran.
        expect(contextsAt(rank)).toBe(2);
        expect(ambient().contextId).toBe(id);
        // A call in the context that carries no tensors adds nothing.
        expect(await rpcSync(next, viewHere, [id])).toEqual([2, 2, [rank]]);
        expect(view(id)).toEqual([2, 2, [next]]);
        expectOrigin(id, [a, b], sum, 1);
        const [, answer] = sendsOf(id);
        expect(answer?.map(([name, , next]) => [name, next.map(([each]) => each)])).toEqual([
          ['AddBackward0', ['RecvRpcBackward', 'RecvRpcBackward']],
        ]);
        expect(answer?.[0]?.[2][0]).toEqual(answer?.[0]?.[2][1]);
        expect(await rpcSync(next, viewHere, [id])).toEqual([2, 2, [rank]]);
        expect(await rpcSync(next, sendsOf, [id])).toEqual(HANDED_ON);
        await meet();
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
    ['', async (to: number, a: Tensor, b: Tensor) => rpcSync(to, add, [a, b]), 0],
    [', remotely', async (to: number, a: Tensor, b: Tensor) => remote(to, add, [a, b]).toHere(), 1],
  ] as const)(
    'has no functions where nothing requires grad, but the context reaches the peer%s',
    async (_name, call, reached) => {
      await everywhere((rank) =>
        context(async (id) => {
          const next = after(rank);
          const [a, b] = tensors().map((t) => t.detach()) as [Tensor, Tensor];
          const sum = await call(next, a, b);
          expect(sum.requiresGrad).toBe(false);
          await meet();
          // An operation says nothing of a context that it has no part in; what is fetched, or a function, might have one, so they are told.
          expect(contextsAt(rank)).toBe(1 + reached);
          await meet();
          await rpcSync(next, nothing);
          expect(view(id)).toEqual([0, 0, [next]]);
          await meet();
          // That of the one before stays when the function has ended.
          expect(contextsAt(rank)).toBe(2);
          expect(await outside(() => rpcSync(next, viewHere, [id]))).toEqual([0, 0, []]);
          await meet();
        }),
      );
      await expectClean(agents);
    },
  );
});

describe('the graph', () => {
  it('has one send function for a function that returns nothing', async () => {
    await at(0, () =>
      context(async (id) => {
        await rpcAsync('w1', swallow, [leaf([2], 1)]);
        expect(view(id)).toEqual([1, 0, [1]]);
        expect((await rpcSync('w1', viewHere, [id])).slice(0, 2)).toEqual([0, 1]);
      }),
    );
  });

  it.each([
    ['dense', false],
    ['dense, remotely', true],
    ['sparse', false],
    ['sparse, remotely', true],
  ])('leads only to the tensors of a list that require grad: %s', async (kind, remotely) => {
    await everywhere((rank) =>
      context(async (id) => {
        const make = (i: number): Tensor => (kind.startsWith('sparse') ? sparseLeaf(i) : leaf([2, 2], i));
        const list = Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? make(i) : make(i).detach()));
        const next = after(rank);
        const out = remotely ? await remote(next, stack, [list]).toHere() : await rpcSync(next, stack, [list]);
        const expected = stack(list);
        expect(out.layout).toBe(kind.startsWith('sparse') ? 'sparse_coo' : 'strided');
        expect(shown(out)).toEqual(shown(expected));
        expect(view(id)).toEqual([1, 1, [next]]);
        const even = list.filter((_, i) => i % 2 === 0);
        expectOrigin(id, even, out, 0);
        await backward(id, [total(out)]);
        const grads = getGradients(id);
        expect(grads.size).toBe(5);
        total(expected).backward();
        for (const t of even) {
          expect(t.grad?.layout).toBe(t.layout);
          expect(shown(grads.get(t)!)).toEqual(shown(t.grad!));
        }
      }),
    );
  });

  it.each([
    ['', async (to: number) => rpcSync(to, giveHeld)],
    [', remotely', async (to: number) => remote(to, giveHeld).toHere()],
  ] as const)('records for a leaf of the callee when only the result requires grad%s', async (_name, call) => {
    await everywhere((rank) =>
      context(async (id) => {
        const next = after(rank);
        const out = await call(next);
        expect(view(id)).toEqual([0, 1, [next]]);
        await backward(id, [out.sum()]);
        expect(getGradients(id).size).toBe(0);
        expect(await rpcSync(next, heldGrad, [id])).toEqual([1, shown(filled([3, 3], 1))]);
      }),
    );
  });

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

const heldGrad = rpcFunction('graph/heldGrad', (id: bigint) => [
  getGradients(id).size,
  shown(getGradients(id).get(held)!),
]);
const flags = rpcFunction('graph/flags', (...list: Tensor[]) => list.map((t) => t.requiresGrad));
