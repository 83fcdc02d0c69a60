/** @file Gradients of one program, run in one process and by calls: the same numbers. */
import { describe, expect, it } from 'vitest';
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { remote } from '@backwire/rref';
import { add, matmul, mul, runBackward, sparseCooTensor, stack, tensor, type Tensor } from '@backwire/tensor';
import { leaf, randomLeaf, useAgents } from './agents.ts';
import { backward, context, getGradients } from '../src/index.ts';

const { at } = useAgents('same-as-local', 4);

type Binary = typeof add;
type Run = (op: Binary, a: Tensor, b: Tensor) => Promise<Tensor>;
const rpcRun: Run = (op, a, b) => rpcSync('w1', op, [a, b]);
const remoteRun: Run = (op, a, b) => remote('w1', op, [a, b]).toHere();

/** Gradients in a context are those in `.grad` of the same program run here, but for the order of sums. */
async function sameAsLocal(leaves: Tensor[], program: (run: Run) => Promise<Tensor>, run: Run): Promise<void> {
  const root = await program(async (op, a, b) => op(a, b));
  runBackward([root]);
  const expected = leaves.map((t) => t.grad as Tensor);
  for (const t of leaves) t.grad = null;
  await context(async (id) => {
    const loss = await program(run);
    await backward(id, [loss]);
    const grads = getGradients(id);
    for (const [i, t] of leaves.entries()) expect(grads.get(t)?.toDense().allClose(expected[i]!.toDense())).toBe(true);
    expect(leaves.every((t) => t.grad === null)).toBe(true);
  });
}

const complicated = rpcFunction('same-as-local/complicated', (a: Tensor, b: Tensor) => {
  const c = a.mul(b);
  return c.mul(a).add(c.relu()).exp();
});

describe.each([
  ['rpc', rpcRun],
  ['remote', remoteRun],
] as const)('gradients are those of one process, by %s', (_, run) => {
  it('through one hop', () =>
    at(0, () => {
      const [a, b] = [randomLeaf(3, 3), randomLeaf(3, 3)];
      return sameAsLocal([a, b], async (r) => (await r(add, a, b)).sum(), run);
    }));

  it('through many round trips', () =>
    at(0, () => {
      const [a, b] = [randomLeaf(2, 2), randomLeaf(2, 2)];
      return sameAsLocal(
        [a, b],
        async (r) => {
          let t = await r(add, a, b);
          for (const op of [mul, matmul, add, mul, matmul] as Binary[]) t = await r(op, t, b);
          return t.sum();
        },
        run,
      );
    }));

  it('with different shapes', () =>
    at(0, () => {
      const ts = [randomLeaf(4, 6), randomLeaf(6, 3), randomLeaf(3, 5), randomLeaf(5, 1)] as [
        Tensor,
        Tensor,
        Tensor,
        Tensor,
      ];
      return sameAsLocal(
        ts,
        async (r) => {
          const left = await r(matmul as unknown as Binary, ts[0], ts[1]);
          const right = await r(matmul as unknown as Binary, ts[2], ts[3]);
          return (await r(matmul as unknown as Binary, left, right)).sum();
        },
        run,
      );
    }));

  it('with different dtypes', () =>
    at(0, () => {
      const a = randomLeaf(3);
      const b = tensor([1, 2, 3], { dtype: 'float64', requiresGrad: true });
      return sameAsLocal([a, b], async (r) => (await r(mul, a, b)).sum(), run);
    }));

  it('of sent tensors that are used in part', () =>
    at(0, () => {
      const ts = [randomLeaf(2, 2), randomLeaf(2, 2), randomLeaf(2, 2)] as [Tensor, Tensor, Tensor];
      return sameAsLocal(
        ts,
        async (r) => {
          const all = await r(mul, stack(ts), leaf([1], 2).detach());
          return (await r(matmul as unknown as Binary, all.select(0, 0), all.select(0, 2))).sum();
        },
        run,
      );
    }));

  it('of sparse tensors', () =>
    at(0, () => {
      const sparse = sparseCooTensor(
        tensor([[0, 1]], { dtype: 'int64' }),
        tensor([
          [1, 2],
          [3, 4],
        ]),
        [3, 2],
      );
      sparse.requiresGrad = true;
      const dense = randomLeaf(3, 2);
      return sameAsLocal([sparse, dense], async (r) => (await r(add, dense, sparse)).sum(), run);
    }));
});

describe('gradients of a function of many operations are those of one process', () => {
  it('runs through a function of many operations, and through itself', () =>
    at(0, async () => {
      const [a, b] = [randomLeaf(3), randomLeaf(3)];
      await sameAsLocal(
        [a, b],
        async (r) =>
          (r === rpcRun ? rpcSync('w1', complicated, [a, b]) : Promise.resolve(complicated(a, b))).then((t) => t.sum()),
        rpcRun,
      );
      await sameAsLocal(
        [a, b],
        async (r) =>
          (r === rpcRun ? rpcSync('w0', complicated, [a, b]) : Promise.resolve(complicated(a, b))).then((t) => t.sum()),
        rpcRun,
      );
    }));
});
