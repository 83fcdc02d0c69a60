/** @file PyTorch's tests of gradients through calls, with the programs and the comparisons of the originals: dense, and with sparse tensors. */
import { describe, expect, it } from 'vitest';
import { createAgent, getWorkerInfo, rpcAsync, rpcFunction, rpcSync } from '@backwire/rpc';
import { remote, rrefs, type RRef } from '@backwire/rref';
import {
  add,
  bmm,
  cos,
  customFunction,
  deviceMemory,
  div,
  matmul,
  mul,
  nn,
  ones,
  openHostDevice,
  rand,
  randn,
  runBackward,
  sparseCooTensor,
  stack,
  tensor,
  type DType,
  type Tensor,
} from '@backwire/tensor';
import { backward, context, distAutograd, getGradients } from '../src/index.ts';
import { useAgents } from './agents.ts';
import { local, sameAsLocal, shown, summed, total, valuesOf, WAYS, WAYS_TO_SELF } from './local.ts';

const { at, everywhere } = useAgents('upstream', 4, { onLeak: 'throw' });
/** The worker so many after this one. */
const after = (rank: number, by: number): string => `w${(rank + by) % 4}`;

/** As PyTorch's sparse example: three entries, two of them in a row. Those of two tensors differ by `more`, so that gradients do where they should. */
function sparse(more = 0, requiresGrad = true, dtype: DType = 'float32'): Tensor {
  const rows = tensor([[0, 2, 2], [2, 0, 2]], { dtype: 'int64' }); // prettier-ignore
  const t = sparseCooTensor(rows, tensor([3 + more, 4 + 2 * more, 5 - more], { dtype }), [3, 3]);
  t.requiresGrad = requiresGrad;
  return t;
}
/** Small whole numbers, whose sums do not depend on their order. */
function dense(more = 0, requiresGrad = true, dtype: DType = 'float32'): Tensor {
  return tensor(
    new Float64Array(9).map((_, i) => 1 + ((i + more) % 5)),
    { shape: [3, 3], dtype, requiresGrad },
  );
}
const plus = rpcFunction('upstream/plus', (a: Tensor, b: Tensor) => a.add(b)) as unknown as typeof add;
const nestedUdf = rpcFunction('upstream/nested-udf', async (a: Tensor, b: Tensor, to: number) => {
  const [c, d] = [a.mul(b), a.add(b)];
  const res = await rpcSync(to, plus, [c, d]);
  return a.mul(b).mul(c).mul(d).mul(res);
});
const nestedAdd = rpcFunction('upstream/nested-add', (a: Tensor, b: Tensor, to: number) => rpcSync(to, add, [a, b]));
const mixed = rpcFunction('upstream/mixed', (a: Tensor, b: Tensor) =>
  b.requiresGrad ? a.sub(b) : a.mul(b),
) as unknown as typeof add;
const make = rpcFunction('upstream/make', (kind: string) => (kind === 'sparse' ? sparse() : dense()));
const rrefAdd = rpcFunction('upstream/rref-add', async (held: RRef<Tensor>, b: Tensor) =>
  (await held.localValue()).add(b),
);
const nestedRRefAdd = rpcFunction('upstream/nested-rref-add', (owner: string, held: RRef<Tensor>, b: Tensor) =>
  rpcSync(owner, rrefAdd, [held, b]),
);
const ownersGradient = rpcFunction('upstream/owners-gradient', async (id: bigint, held: RRef<Tensor>) =>
  shown(getGradients(id).get(await held.localValue())),
);

describe.each([
  ['dense', dense],
  ['sparse', sparse],
] as const)('%s gradients are those of one process', (kind, build) => {
  it('of an addition on another worker', () =>
    everywhere(() => {
      const [a, b] = [build(), build(1)];
      return sameAsLocal([a, b], async (run) => [total(await run(add, a, b))]);
    }));

  it('of an addition on this worker, by a call to itself', () =>
    everywhere(() => {
      const [a, b] = [build(), build(1)];
      return sameAsLocal([a, b], async (run) => [total(await run(add, a, b))], WAYS_TO_SELF);
    }));

  it('of a function', () =>
    everywhere(() => {
      const [a, b] = [build(), build(1)];
      return sameAsLocal([a, b], async (run) => [total(await run(plus, a, b))]);
    }));

  it('and leave .grad alone, before and after a pass here has filled it', () =>
    everywhere((rank) =>
      context(async (id) => {
        const [a, b] = [build(), build(1)];
        const loss = total(await rpcSync(after(rank, 1), add, [a, b]));
        await backward(id, [loss], { retainGraph: true });
        expect([a.grad, b.grad]).toEqual([null, null]);
        total(add(a, b)).backward();
        const before = [a.grad, b.grad];
        expect(before.map((grad) => grad?.layout)).toEqual([a.layout, b.layout]);
        const values = before.map(shown);
        expect([a, b].map((t) => shown(getGradients(id).get(t)))).toEqual(values);
        expect(getGradients(id).size).toBe(2);
        await backward(id, [loss]);
        expect([a.grad === before[0], b.grad === before[1]]).toEqual([true, true]);
        expect([a.grad, b.grad].map(shown)).toEqual(values);
      }),
    ));

  it('of two dtypes', () =>
    everywhere(() => {
      const [a, b] = [build(0, true, 'float32'), build(1, true, 'float64')];
      return sameAsLocal([a, b], async (run) => [total(await run(add, a, b))]);
    }));

  it('where one of two arguments requires none', () =>
    everywhere(async () => {
      const [a, b] = [build(), build(1, false)];
      for (const run of WAYS)
        await context(async (id) => {
          const out = await run(mixed, a, b);
          const product = a.mul(b);
          expect(shown(out)).toEqual(shown(product));
          await backward(id, [total(out)]);
          expect([a.requiresGrad, b.requiresGrad]).toEqual([true, false]);
          const grads = getGradients(id);
          expect([grads.get(b), grads.size]).toEqual([undefined, 1]);
          expect(summed(grads.get(a))).toEqual(summed(b));
        });
    }));

  it('of a function that calls another, and multiplies what comes back', () =>
    everywhere(async (rank) => {
      const [a, b] = [build(), build(1)];
      const expected = await local([a, b], async () => {
        const [c, d] = [a.mul(b), a.add(b)];
        return [total(a.mul(b).mul(c).mul(d).mul(c.add(d)))];
      });
      await context(async (id) => {
        const loss = await rpcSync(after(rank, 1), nestedUdf, [a, b, (rank + 2) % 4]);
        await backward(id, [total(loss)]);
        const grads = getGradients(id);
        expect([a, b].map((t) => shown(grads.get(t)))).toEqual(expected);
        expect(grads.size).toBe(2);
      });
    }));

  it('summed over two passes through a nested call', () =>
    everywhere((rank) =>
      context(async (id) => {
        const [a, b] = [build(), build(1)];
        const once = await local([a, b], async () => [total(add(a, b))]);
        const loss = total(await rpcSync(after(rank, 1), nestedAdd, [a, b, (rank + 2) % 4]));
        await backward(id, [loss], { retainGraph: true });
        expect([a, b].map((t) => shown(getGradients(id).get(t)))).toEqual(once);
        await backward(id, [loss]);
        for (let i = 0; i < 2; i++) runBackward([total(add(a, b))]);
        expect([a, b].map((t) => summed(getGradients(id).get(t)))).toEqual([a.grad, b.grad].map(summed));
        expect([a, b].map((t) => getGradients(id).get(t)?.layout)).toEqual([a.layout, b.layout]);
        const doubled = (once[0] as { values: number[][] }).values.map((row) => row.map((x) => 2 * x));
        expect(valuesOf(a.grad)).toEqual(doubled);
      }),
    ));

  it('summed over a thousand passes, each compared', { timeout: 120_000 }, () =>
    everywhere((rank) =>
      context(async (id) => {
        const [a, b] = [build(), build(1)];
        const loss = total(await rpcSync((rank + 1) % 4, add, [a, b]));
        const here = total(add(a, b));
        for (let i = 0; i < 1000; i++) {
          await backward(id, [loss], { retainGraph: true });
          runBackward([here], undefined, { retainGraph: true });
          for (const t of [a, b]) {
            const grad = getGradients(id).get(t)!;
            for (const each of [grad, t.grad!]) expect([each.layout, each.dtype]).toEqual([t.layout, t.dtype]);
            expect(grad.toDense().equal(t.grad!.toDense())).toBe(true);
          }
        }
        expect((valuesOf(a.grad) as number[][])[2]?.[2]).toBe(1000);
      }),
    ),
  );

  it('over many round trips to three workers in turn, of five tensors of which two require none', () =>
    everywhere(() => {
      const leaves = [true, false, true, false, true].map((requiresGrad, i) => build(i, requiresGrad));
      const [a, b, c, d, e] = leaves as [Tensor, Tensor, Tensor, Tensor, Tensor];
      return sameAsLocal(leaves, async (run) => {
        let value = await run(add, a, b);
        value = await run(mul, c, value);
        const stacks = [await run(stack, [d, value]), await run(stack, [e, value])] as const;
        const [first, second] = kind === 'sparse' ? [mul, mul] : [bmm, matmul];
        value = await run(first, ...stacks);
        return [total(await run(second, value, value))];
      });
    }));

  it.each([
    ['its owner', 1, 1],
    ['this worker, to itself', 0, 0],
    ['a third worker, which asks the owner', 1, 2],
  ])('of a leaf behind an RRef that is added by %s', async (_, ofOwner, ofCallee) => {
    await everywhere(async (rank) => {
      const [owner, callee] = [after(rank, ofOwner), after(rank, ofCallee)];
      const [a, b] = [build(), build(1)];
      const [ofHeld, ofOwn] = await local([a, b], async (run) => [total(await run(add, a, b))]);
      await context(async (id) => {
        const held = remote(owner, make, [kind]);
        const sum =
          callee === owner ? remote(callee, rrefAdd, [held, b]) : remote(callee, nestedRRefAdd, [owner, held, b]);
        await backward(id, [total(await sum.toHere())]);
        expect(shown(getGradients(id).get(b))).toEqual(ofOwn);
        expect(await rpcSync(owner, ownersGradient, [id, held])).toEqual(ofHeld);
        for (const rref of [held, sum]) rref.dispose();
      });
    });
  });

  it('of leaves at one owner, made and added there by three workers at once, each in a context of its own', async () => {
    const [a, b] = [build(), build(1)];
    const [ofHeld, ofOwn] = await local([a, b], async (run) => [total(await run(add, a, b))]);
    const outcomes = await Promise.all([1, 2, 3].map((rank) => at(rank, () => driveOwner('w0', build(1)))));
    expect(outcomes).toEqual([1, 2, 3].map(() => ({ ofHeld: [ofHeld], ofOwn: [ofOwn] })));
  });

  it('of one leaf at each of four servers, in the contexts of the other three, its trainers, all at once', async () => {
    await Promise.all([0, 1, 2, 3].map((server) => at(server, () => serve(kind, build))));
  });
});

/** One of several workers that add to a leaf of their own behind an RRef, all at one owner: the gradients here and there, and no others. */
const driveOwner = (owner: string, b: Tensor): Promise<{ ofHeld: unknown; ofOwn: unknown }> =>
  context(async (id) => {
    using held = remote(owner, make, [b.layout === 'sparse_coo' ? 'sparse' : 'dense']);
    using sum = remote(owner, rrefAdd, [held, b]);
    await backward(id, [total(await sum.toHere())]);
    const own = getGradients(id);
    return {
      ofHeld: await rpcSync(owner, allGradients, [id, held]),
      ofOwn: [...own].map(([t, grad]) => (t === b ? shown(grad) : 'of something else')),
    };
  });
const allGradients = rpcFunction('upstream/all-gradients', async (id: bigint, held: RRef<Tensor>) => {
  const leafHere = await held.localValue();
  return [...getGradients(id)].map(([t, grad]) => (t === leafHere ? shown(grad) : 'of something else'));
});

/** What the trainers of a server told it, and what lets them go: by the server's id, as all of them are in this process. */
interface Post {
  /** The trainers' contexts, by their ids. */
  readonly contexts: Map<number, bigint>;
  readonly released: Promise<void>;
}
const posts = new Map<number, Post>();
const postHere = (): Post => posts.get(getWorkerInfo().id)!;
const setDone = rpcFunction('upstream/set-done', (id: bigint, trainer: number) => {
  postHere().contexts.set(trainer, id);
});
const untilReleased = rpcFunction('upstream/until-released', () => postHere().released);
/** Gradients by which contexts are told from one another. */
const weightOf = (server: number, trainer: number): number => 1 + server + 4 * trainer;

/** A trainer: its pass reaches the leaf at its server, which then looks at the context that is held here until it has. */
const train = rpcFunction('upstream/train', (held: RRef<Tensor>, b: Tensor) =>
  context(async (id) => {
    const server = held.owner();
    const sum = await rpcSync(server, rrefAdd, [held, b]);
    await backward(id, [total(sum).mul(weightOf(server.id, getWorkerInfo().id))]);
    await rpcSync(server, setDone, [id, getWorkerInfo().id]);
    await rpcSync(server, untilReleased);
    return shown(getGradients(id).get(b));
  }),
);

/** A server that holds a leaf, whose gradient it looks at in the contexts of its three trainers while these hold them. */
async function serve(kind: string, build: typeof dense): Promise<void> {
  const server = getWorkerInfo().id;
  const trainers = [1, 2, 3].map((distance) => (server + distance) % 4);
  const contexts = new Map<number, bigint>();
  let release = (): void => undefined;
  posts.set(server, { contexts, released: new Promise((resolve) => (release = resolve)) });
  const [a, b] = [build(), build(1)];
  const expected = await Promise.all(
    trainers.map((trainer) =>
      local([a, b], async (run) => [total(await run(add, a, b)).mul(weightOf(server, trainer))]),
    ),
  );
  using held = remote(server, make, [kind]);
  const gradients = trainers.map((trainer) => rpcAsync(trainer, train, [held, b]));
  try {
    await expect.poll(() => contexts.size, { timeout: 10_000 }).toBe(3);
    for (const [i, trainer] of trainers.entries()) {
      // The trainer holds its context, so the server's gradients of it are still there.
      const grads = getGradients(contexts.get(trainer)!);
      expect(grads.size).toBe(1);
      // The owner's own leaf is meant by what it fetches, too.
      for (const leafHere of [await held.toHere(), await held.localValue()])
        expect(shown(grads.get(leafHere))).toEqual(expected[i]?.[0]);
    }
  } finally {
    release();
  }
  expect(await Promise.all(gradients)).toEqual(expected.map(([, ofOwn]) => ofOwn));
}

it('gradients go back by the device map, to where the tensors were', async () => {
  for (const device of ['host:0', 'host:1']) openHostDevice(device);
  const agents = await Promise.all(
    [0, 1].map((rank) =>
      createAgent({
        name: `w${rank}`,
        rank,
        worldSize: 2,
        store: 'memory://upstream-devices',
        extensions: [rrefs(), distAutograd()],
        ...(rank === 0 ? { deviceMaps: { w1: { 'host:0': 'host:1' } } } : {}),
      }),
    ),
  );
  try {
    await agents[0]!.run(() =>
      context(async (id) => {
        const [a, b] = [dense(0, false), dense(1, false)].map((t) => t.to('host:0')) as [Tensor, Tensor];
        for (const t of [a, b]) t.requiresGrad = true;
        const c = tensor([2], { requiresGrad: true });
        const out = await rpcSync('w1', whereAdded, [a, b]);
        expect([out.place, out.sum.device, deviceMemory('host:1') > 0]).toEqual(['host:1', 'host:0', true]);
        // One way through the other device, one that stays here, and one from the cpu.
        await backward(id, [out.sum.mul(a).mul(c.to('host:0')).sum()]);
        const grads = [a, b, c].map((t) => getGradients(id).get(t)!);
        expect(grads.map(({ device }) => device)).toEqual(['host:0', 'host:0', 'cpu']);
        const expected = await local([a, b, c], async () => [a.add(b).mul(a).mul(c.to('host:0')).sum()]);
        expect(grads.map(shown)).toEqual(expected);
      }),
    );
  } finally {
    await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 10_000 })));
  }
});
const whereAdded = rpcFunction('upstream/where-added', (a: Tensor, b: Tensor) => ({ place: a.device, sum: a.add(b) }));

it('gradients of four roots, each through a call, are summed', () =>
  everywhere(() => {
    const [a, b] = [rand([3, 3]).add(1), rand([3, 3]).add(1)].map((t) =>
      Object.assign(t.detach(), { requiresGrad: true }),
    );
    return sameAsLocal([a!, b!], async (run) => [
      (await run(add, a!, b!)).sum(),
      (await run(mul, a!, b!)).sum(),
      (await run(cos, a!)).sum(),
      (await run(div, a!, b!)).sum(),
    ]);
  }));

describe('the memory of gradients', () => {
  /** A function that is its first argument, or the sum of two, and shows the gradient that came to it. */
  function watching(inputs: 1 | 2): { readonly apply: (...ts: Tensor[]) => Tensor; last: () => Tensor } {
    let seen: Tensor | undefined;
    const apply = customFunction({
      forward: (_ctx, ...ts: Tensor[]) => (inputs === 1 ? ts[0]!.clone() : ts[0]!.add(ts[1]!)),
      backward: (_ctx, grad) => {
        seen = grad;
        return inputs === 1 ? [grad] : [grad, grad];
      },
    });
    return { apply, last: () => seen! };
  }
  const leaf = (...shape: number[]): Tensor => randn(shape, { requiresGrad: true });
  const values = (t: Tensor): unknown => (t.sparse?.values ?? t).storage;

  // PyTorch gives a leaf that alone gets a gradient that very memory. Here what a program has seen is never what is added to later.
  it("is a leaf's own: not what a function saw, not that of another leaf", () =>
    at(0, async () => {
      const [a, b] = [leaf(5, 6), leaf(5, 6)];
      await context(async (id) => {
        const one = watching(1);
        const loss = one.apply(a).select(0, 1).select(0, 0);
        await backward(id, [loss], { retainGraph: true });
        const [grad, seen] = [getGradients(id).get(a)!, one.last()];
        const before = shown(seen);
        expect(shown(grad)).toEqual(before);
        await backward(id, [loss]);
        expect([shown(seen), shown(grad)]).toEqual([before, before]);
        expect((valuesOf(getGradients(id).get(a)) as number[][])[1]?.[0]).toBe(2);
      });
      await context(async (id) => {
        const two = watching(2);
        await backward(id, [two.apply(a, b).select(0, 1).select(0, 0)]);
        const [x, y] = [getGradients(id).get(a)!, getGradients(id).get(b)!];
        expect(shown(x)).toEqual(shown(y));
        // Changing one must not show in the other.
        x.add_(1);
        expect(shown(x)).not.toEqual(shown(y));
      });
    }));

  it('of a gradient that is no memory of its own is copied', () =>
    at(0, async () => {
      const [a, b] = [leaf(5, 6), leaf(5, 6)];
      const two = watching(2);
      const expanded = customFunction({
        forward: (_ctx, _x: Tensor) => tensor([1]),
        backward: () => [ones([1]).expand([5, 6])],
      });
      await context(async (id) => {
        await backward(id, [expanded(two.apply(a, b)).sum()]);
        for (const t of [a, b]) {
          const grad = getGradients(id).get(t)!;
          expect(grad.toArray()).toEqual(ones([5, 6]).toArray());
          expect(values(grad)).not.toBe(values(two.last()));
        }
      });
    }));

  it('of sparse gradients of an embedding stays sparse, over many passes too', () =>
    at(0, () =>
      context(async (id) => {
        const bag = new nn.EmbeddingBag(10, 3, { sparse: true });
        const ids = tensor([1, 2, 4, 5, 4, 3, 2, 9], { dtype: 'int64' });
        const weight = bag.parameters()[0]!;
        const loss = bag.forward(ids, tensor([0, 4], { dtype: 'int64' })).sum();
        await backward(id, [loss], { retainGraph: true });
        const first = getGradients(id).get(weight)!;
        expect(first.layout).toBe('sparse_coo');
        const once = valuesOf(first) as number[][];
        expect(once[4]).toEqual([0.5, 0.5, 0.5]);
        for (let i = 0; i < 10; i++) await backward(id, [loss], { retainGraph: true });
        expect(getGradients(id).get(weight)!.layout).toBe('sparse_coo');
        expect(valuesOf(getGradients(id).get(weight))).toEqual(once.map((row) => row.map((x) => 11 * x)));
        expect(valuesOf(first)).toEqual(once);
      }),
    ));
});
