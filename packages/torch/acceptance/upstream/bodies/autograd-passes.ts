/** @file `DistAutogradTest`: backward passes from this rank and through it. */
import assert from 'node:assert/strict';
import { backward, context, getGradients } from '@backwire/dist-autograd';
import { rpcAsync, rpcSync, type AnyFn } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { add, bmm, cos, div, matmul, mul, ones, rand, stack, zeros, type Tensor } from '@backwire/tensor';
import { py } from '../../../src/index.ts';
import { AUTOGRAD_TEST } from '../functions/common.ts';
import { createTensor, simulateError } from '../functions/autograd.ts';
import { state } from '../state.ts';
import type { Rank } from '../rank.ts';
import { equal, fails, inAutograd, mirrored, onesPlus, type Bodies } from './body.ts';
import { added, grown, mine, Ring, type Mode } from './ring.ts';

const BOTH: readonly Mode[] = ['here', 'sync', 'remote'];

/** Runs `forward` here and elsewhere; the gradients of `leaves` have to be the same. */
async function same(
  rank: Rank,
  modes: readonly Mode[],
  leaves: readonly Tensor[],
  forward: (call: (fn: AnyFn, args: readonly unknown[], at?: unknown) => Promise<Tensor>) => Promise<Tensor | Tensor[]>,
): Promise<void> {
  let expected: readonly (Tensor | null)[] = [];
  const ring = new Ring(rank);
  for (const mode of modes)
    await context(async (id) => {
      const made = await forward((fn, args, at) => ring.call(mode, fn, args, at));
      const losses = Array.isArray(made) ? made : [made];
      if (mode === 'here') {
        losses.reduce((sum, loss) => sum.add(loss)).backward();
        expected = leaves.map((leaf) => leaf.grad?.clone() ?? null);
        return;
      }
      await backward(id, losses);
      const grads = getGradients(id);
      leaves.forEach((leaf, i) => {
        const found = grads.get(leaf);
        if (expected[i] === null) assert.equal(found, undefined);
        else equal(found, expected[i]);
      });
      equal(grads.size, expected.filter((each) => each !== null).length);
    });
}

/** `_backward_rref`: the tensor is of the RRef's owner, and its gradient, too. */
async function throughRRef(callee: string, owner: string): Promise<void> {
  const [t1, t2] = [grown(), grown()];
  add(t1, t2).sum().backward();
  await context(async (id) => {
    const kept = remote(owner, inAutograd('_torch_ones'), [[3, 3], py.kwargs({ requires_grad: true })]) as RRef<Tensor>;
    const made =
      callee === owner
        ? remote(callee, inAutograd('my_rref_add'), [kept, t2])
        : remote(callee, inAutograd('my_nested_rref_add'), [owner, kept, t2]);
    await backward(id, [((await made.toHere()) as Tensor).sum()]);
    equal(getGradients(id).get(t2), t2.grad);
    equal(await rpcSync(owner, inAutograd('_compare_owner_value'), [id, kept, t1.grad]), true);
  });
}

const trainers =
  (create: string, train: string) =>
  async (rank: Rank): Promise<void> => {
    const [t1, t2] = [createTensor(), zeros([3, 3], { requiresGrad: true })];
    add(t1, t2).sum().backward();
    const fn = create === 'create_tensor' ? inAutograd(create) : py.script(`${AUTOGRAD_TEST}.${create}`);
    const kept = remote(rank.rank, fn, []) as RRef<Tensor>;
    const futures = [1, 2, 3].map((distance) =>
      rpcAsync(rank.next(distance), inAutograd(train), [kept, t2, rank.agent.name, distance, false]),
    );
    for (const distance of [1, 2, 3]) await state().rpcDone[distance]?.value;
    for (const distance of [1, 2, 3])
      equal(getGradients(state().contexts[distance] as bigint).get(await kept.localValue()), t1.grad);
    state().rpcDone[0]?.set(undefined);
    await Promise.all(futures);
  };

async function twice(remoteCall: (t1: Tensor, t2: Tensor) => Promise<Tensor>, expected = 2): Promise<void> {
  const [t1, t2] = [grown(), grown()];
  matmulTwice(t1, t2);
  await context(async (id) => {
    const loss = (await remoteCall(t1, t2)).sum();
    await backward(id, [loss], { retainGraph: true });
    await backward(id, [loss]);
    if (expected === 2) equal(getGradients(id).get(t1), t1.grad);
  });
}

function matmulTwice(t1: Tensor, t2: Tensor): void {
  const product = matmul(t1, t2).sum();
  product.backward(undefined, { retainGraph: true });
  product.backward();
}

async function workload(): Promise<void> {
  await context(async (id) => {
    const [t1, t2] = [grown(), grown()];
    const t3 = await rpcSync('worker0', add, [t1, t2]);
    const t4 = await rpcSync('worker0', mul, [t2, t3]);
    const t5 = await rpcSync('worker0', matmul, [t3, t4]);
    await backward(id, [(await rpcSync('worker0', add, [t4, t5])).sum()]);
  });
}

export const autogradPasses: Bodies = {
  ...mirrored({
    test_dist_autograd_profiling: (rank) =>
      context(async (id) => backward(id, [(await rpcSync(rank.next(), add, [grown(), grown()])).sum()])),
    test_error_in_context: (rank) =>
      context(async () => {
        await assert.rejects(rpcSync(rank.next(), matmul, [grown(), grown([6, 6])]));
      }),
    test_backward_no_grad_on_tensor: async (rank) => {
      const [t1, t2] = [grown(), grown()];
      await context(async (id) => {
        const loss = (await rpcSync(rank.next(), add, [t1, t2])).sum();
        await backward(id, [loss], { retainGraph: true });
        equal([t1.grad, t2.grad], [null, null]);
        add(t1, t2).sum().backward();
        const before = t1.grad?.clone();
        await backward(id, [loss]);
        equal(t1.grad, before);
      });
    },
    test_backward_simple: async (rank) => {
      const [t1, t2] = [grown(), grown()];
      await same(rank, BOTH, [t1, t2], async (call) => (await call(add, [t1, t2])).sum());
    },
    test_backward_simple_self: async (rank) => {
      const [t1, t2] = [grown(), grown()];
      await context(async (id) => {
        await backward(id, [(await rpcSync(rank.rank, add, [t1, t2])).sum()]);
        equal([getGradients(id).get(t1), getGradients(id).get(t2)], [onesPlus(3), onesPlus(3)]);
      });
    },
    test_backward_rref: (rank) => throughRRef(rank.next(), rank.next()),
    test_backward_rref_multi: async (rank) => {
      if (rank.rank > 0) await throughRRef('worker0', 'worker0');
    },
    test_backward_rref_nested: (rank) => throughRRef(rank.next(), rank.next(2)),
    test_trainer_ps: trainers('create_tensor', '_run_trainer'),
    test_trainer_ps_torchscript_functions: trainers('create_torchscript_tensor', '_run_trainer_torchscript'),
    test_backward_multiple_round_trips: async (rank) => {
      const [t1, t2, t3, t4, t5] = [grown(), rand([3, 3]), grown(), rand([3, 3]), grown()];
      await same(rank, BOTH, [t1, t2, t3, t4, t5], async (call) => {
        const val = await call(mul, [t3, await call(add, [t1, t2])]);
        const s1 = await call(stack, [[t4, val]]);
        const s2 = await call(stack, [[t5, val]]);
        const product = await call(bmm, [s1, s2]);
        return (await call(matmul, [product, product])).sum();
      });
    },
    test_backward_different_tensor_dims: async (rank) => {
      const [t1, t2, t3, t4] = [grown([4, 6]), rand([6, 5]), grown([5, 7]), rand([7, 9])];
      const dot = py('torch.linalg.multi_dot');
      const here = (all: readonly Tensor[]): Tensor => all.reduce((a, b) => matmul(a, b));
      await same(rank, BOTH, [t1, t2, t3, t4], async (call) =>
        (await call(here as AnyFn, [[await call(matmul, [t1, t2]), t3, t4]], dot)).sum(),
      );
    },
    test_backward_unused_tensors: async (rank) => {
      const all = [grown(), grown(), grown()];
      await same(rank, BOTH, all, async (call) => {
        const s = await call(stack, [all]);
        return (await call(matmul, [s.narrow(0, 0, 1), s.narrow(0, 2, 1)])).sum();
      });
    },
    test_backward_autograd_engine_error: (rank) =>
      context(async (id) => {
        const [t1, t2] = [grown(), grown()];
        const sum = add(t1, t2);
        const ring = new Ring(rank);
        let value = await ring.call('sync', add, [t2, simulateError(mul(sum, sum))]);
        for (const op of [mul, matmul, div]) value = await ring.call('sync', op as AnyFn, [value, t2], op);
        await fails(backward(id, [value.sum()]), /Simulate error on backward pass/);
      }),
    test_backward_without_context: async (rank) => {
      const sum = await rpcSync(rank.next(), add, [grown(), grown()]);
      await fails((async () => backward(100n, [sum.sum()]))(), /Could not find autograd context with id: 100/);
    },
    test_backward_without_rpc: () =>
      context(async (id) => {
        const [t1, t2] = [grown(), grown()];
        await backward(id, [add(t1, t2).sum()]);
        equal([getGradients(id).size, getGradients(id).get(t1)], [2, onesPlus(3)]);
      }),
    test_backward_invalid_args: () =>
      context(async (id) => {
        const of = async (...args: unknown[]): Promise<void> => backward(...(args as Parameters<typeof backward>));
        await assert.rejects(of(id, null));
        await assert.rejects(of(null, null));
        await fails(of(id, []), /No tensors provided for gradient computation/);
        await fails(of(id, [rand([3, 3])]), /requires_?[gG]rad not set on/);
        await fails(of(id, [grown()]), /is not a scalar, all roots need to be scalar/);
        await fails(of(id, [grown([1])]), /does not have a valid gradient function/);
      }),
    test_backward_multiple_roots: async (rank) => {
      const [t1, t2] = [grown(), grown()];
      await same(rank, ['here', 'sync'], [t1, t2], async (call) => [
        (await call(add, [t1, t2])).sum(),
        (await call(mul, [t1, t2])).sum(),
        (await call(cos, [t1])).sum(),
        (await call(div, [t1, t2])).sum(),
      ]);
    },
    test_backward_simple_python_udf: async (rank) => {
      const [t1, t2] = [grown(), grown()];
      await same(rank, ['here', 'remote'], [t1, t2], async (call) => (await call(add, [t1, t2], added)).sum());
    },
    test_backward_simple_script_call: async (rank) => {
      const [t1, t2] = [grown(), grown()];
      const script = py.script(`${AUTOGRAD_TEST}.my_script_add`);
      await same(rank, ['here', 'sync', 'async', 'remote'], [t1, t2], async (call) =>
        (await call(add, [t1, t2], script)).sum(),
      );
    },
    test_backward_python_udf_error: async (rank) => {
      const [t1, t2] = [grown(), grown()];
      await context(async (id) => {
        const ring = new Ring(rank);
        const dst = (rank.rank + 2) % rank.size;
        const loss = await ring.call('sync', add, [t1, t2, dst], mine('_nested_rpc_call_backward_error'));
        await fails(backward(id, [loss.sum()]), /Simulate error on backward pass/);
      });
    },
    test_backwards_nested_python_udf: async (rank) => {
      const [t1, t2] = [grown(), grown()];
      const here = (): Tensor => {
        const [t3, t4] = [mul(t1, t2), add(t1, t2)];
        return mul(mul(mul(mul(t1, t2), t3), t4), add(t3, t4));
      };
      here().sum().backward();
      await context(async (id) => {
        const dst = (rank.rank + 2) % rank.size;
        const loss = (await rpcSync(rank.next(), mine('_nested_python_udf'), [t1, t2, dst])) as Tensor;
        await backward(id, [loss.sum()]);
        equal([getGradients(id).get(t1), getGradients(id).get(t2)], [t1.grad, t2.grad]);
      });
    },
    test_mixed_requires_grad: async (rank) => {
      const [t1, t2] = [grown(), rand([3, 3])];
      for (const mode of ['sync', 'remote'] as const)
        await context(async (id) => {
          const udf = mine('_mixed_requires_grad_operaton');
          const product = await new Ring(rank).call(mode, mul, [t1, t2], udf);
          equal(product, mul(t1, t2).detach());
          await backward(id, [product.sum()]);
          equal([getGradients(id).get(t1), getGradients(id).get(t2)], [t2, undefined]);
        });
    },
    test_async_dist_autograd: async (rank) => {
      await rank.openPg();
      if (rank.rank !== 0) await Promise.all(Array.from({ length: 20 }, workload));
      await rank.meet();
    },
    test_backward_accumulate_grads: (rank) => twice((t1, t2) => rpcSync(rank.next(), matmul, [t1, t2])),
    test_nested_backward_accumulate_grads: (rank) =>
      twice(
        (t1, t2) =>
          rpcSync(rank.next(), mine('_test_nested_backward_accumulate_grads'), [
            t1,
            t2,
            (rank.rank + 2) % rank.size,
          ]) as Promise<Tensor>,
        0,
      ),
    test_multiple_backward: (rank) =>
      context(async (id) => {
        const loss = (await rpcSync(rank.next(), add, [grown(), grown()])).sum();
        for (let i = 0; i < 1_000; i++) await backward(id, [loss], { retainGraph: true });
      }),
    test_backward_verify_hooks: async (rank) => {
      const [t1, t2] = [ones([3, 3], { requiresGrad: true }), ones([3, 3], { requiresGrad: true })];
      t1.registerHook((grad) => grad.mul(2));
      await same(rank, BOTH, [t1, t2], async (call) => (await call(matmul, [t1, t2])).sum());
    },
    test_thread_local_context_id: async (rank) => {
      const made = remote(rank.next(), mine('_slow_add'), [rand([3, 3]), rand([3, 3])]) as RRef<Tensor>;
      await context(async (id) => {
        await backward(id, [(await made.toHere()).sum()]);
        equal(await rpcSync(rank.next(), inAutograd('_compare_owner_value'), [id, made, onesPlus(3)]), true);
      });
    },
    test_backward_complex_python_udf: async (rank) => {
      const [t1, t2] = [grown(), grown()];
      const flip = (t: Tensor): Tensor => t.transpose(0, 1);
      const here = (): Tensor => {
        const t3 = matmul(t1, flip(t2));
        const t4 = matmul(t2, flip(t3));
        return [t1, t2, t3, t4, matmul(t3, flip(t4))].reduce((a, b) => matmul(a, b));
      };
      await same(rank, ['here', 'remote'], [t1, t2], async (call) =>
        (await call(here, [t1, t2], mine('_complex_python_udf'))).sum(),
      );
    },
  }),
};
