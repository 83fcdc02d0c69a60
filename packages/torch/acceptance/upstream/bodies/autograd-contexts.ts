/** @file `DistAutogradTest`: contexts, what they record of calls, and when they are gone. */
import assert from 'node:assert/strict';
import { backward, context, getGradients } from '@backwire/dist-autograd';
import { rpcSync, type AnyFn } from '@backwire/rpc';
import { add, ones, stack, zeros } from '@backwire/tensor';
import { state } from '../state.ts';
import { workerName, type Rank } from '../rank.ts';
import { equal, fails, inAutograd, mirrored, onesPlus, type Bodies } from './body.ts';
import { added, done, grown, Ring, type Fn, type Mode } from './ring.ts';

/** `_test_graph` and its like, without the nodes of torch's own graph: the pass over it gives the same gradients. */
const graph =
  (fn: Fn | 'add', mode: Mode) =>
  async (rank: Rank): Promise<void> => {
    await rank.openPg();
    await context(async (id) => {
      const [t1, t2] = [ones([3, 3], { requiresGrad: true }), zeros([3, 3], { requiresGrad: true })];
      const ring = new Ring(rank);
      const sum = await ring.call(mode, add, [t1, t2], fn === 'add' ? add : fn);
      await rpcSync(rank.next(), done, [id, 1]);
      const own = rank.agent.autograd.find(id);
      equal([own.sends.size, [...own.recvs.values()].reduce((n, each) => n + each.size, 0)], [1, 1]);
      assert.equal(sum.requiresGrad, true);
      await state().rpcDone[1]?.value;
      equal(rank.agent.autograd.find(state().contexts[1] as bigint).sends.size, 1);
      await rank.meet();
    });
  };

const nestedGraph =
  (mode: Mode) =>
  async (rank: Rank): Promise<void> => {
    await rank.openPg();
    await context(async (id) => {
      const [t1, t2] = [ones([3, 3], { requiresGrad: true }), zeros([3, 3], { requiresGrad: true })];
      const dst = (rank.rank + 1) % rank.size;
      const nested = inAutograd('my_py_nested_call');
      equal(await new Ring(rank).call(mode, add, [t1, t2, dst, rank.size, 1], nested), onesPlus(3));
      await rank.meet();
      for (const distance of [1, 2, 3]) await rpcSync(rank.next(distance), done, [id, distance]);
      await rank.meet();
      equal(rank.agent.autograd.find(id).sends.size, 1);
      for (const [distance, sends] of [
        [1, 2],
        [2, 2],
        [3, 1],
      ] as const)
        equal(rank.agent.autograd.find(state().contexts[distance] as bigint).sends.size, sends);
      await rank.meet();
    });
  };

const itself =
  (mode: Mode) =>
  async (rank: Rank): Promise<void> => {
    await rank.openPg();
    await context(async (id) => {
      const [t1, t2] = [ones([3, 3], { requiresGrad: true }), zeros([3, 3], { requiresGrad: true })];
      const before = (rank.rank + rank.size - 1) % rank.size;
      const nested = inAutograd('my_py_nested_call');
      equal(await new Ring(rank).call(mode, add, [t1, t2, before, rank.size, 0], nested), onesPlus(3));
      await rpcSync(rank.next(), done, [id, 1]);
      equal(rank.agent.autograd.find(id).sends.size, 2);
      await state().rpcDone[1]?.value;
      equal(rank.agent.autograd.find(state().contexts[1] as bigint).sends.size, 2);
      await rank.meet();
    });
  };

const noGraph =
  (mode: Mode) =>
  async (rank: Rank): Promise<void> => {
    await rank.openPg();
    await context(async (id) => {
      await new Ring(rank).call(mode, add, [ones([3, 3]), zeros([3, 3])]);
      await rpcSync(rank.next(), done, [id, 1]);
      const own = rank.agent.autograd.find(id);
      equal([own.sends.size, own.recvs.size], [0, 0]);
      await state().rpcDone[1]?.value;
      rank.agent.autograd.find(state().contexts[1] as bigint);
      await rank.meet();
    });
  };

const onReturn =
  (mode: Mode) =>
  async (rank: Rank): Promise<void> => {
    await rank.openPg();
    await context(async (id) => {
      const ret = await new Ring(rank).call(mode, ones, [], inAutograd('ret_requires_grad'));
      await backward(id, [ret.sum()]);
      await rpcSync(rank.next(), done, [id, 1]);
      await state().rpcDone[1]?.value;
      const grads = getGradients(state().contexts[1] as bigint);
      equal(grads.size, 1);
      equal(grads.get(state().requiresGrad), onesPlus(3));
      await rank.meet();
    });
  };

const complexArgs =
  (mode: Mode) =>
  (rank: Rank): Promise<void> =>
    context(async (id) => {
      const all = Array.from({ length: 10 }, (_, i) => ones([3, 3], { requiresGrad: i % 2 === 0 }));
      const ring = new Ring(rank);
      equal(await ring.call(mode, stack, [all], stack), stack(all));
      const own = rank.agent.autograd.find(id);
      equal(own.sends.size, 1);
      equal([...own.known.keys()], [ring.id]);
    });

/** `context_cleanup_test_helper`. */
const cleanup =
  (fn: Fn | 'add', args: (rank: Rank) => readonly unknown[], nested = false) =>
  async (rank: Rank): Promise<void> => {
    await rank.openPg();
    let ended = -1n;
    await context(async (id) => {
      ended = id;
      const distances = nested ? [1] : [1, 2, 3];
      for (const distance of distances) {
        await rpcSync(rank.next(distance), fn === 'add' ? add : fn, args(rank) as never);
        await rpcSync(rank.next(distance), done, [id, 1]);
        if (nested) await rpcSync(rank.next(2), done, [id, 2]);
      }
    });
    assert.throws(() => rank.agent.autograd.find(ended));
    await rank.meet();
    await cleanedUp(rank);
  };

/** `_all_contexts_cleaned_up`. */
async function cleanedUp(rank: Rank): Promise<void> {
  const open = (): bigint[] => [...state().known].filter((id) => rank.agent.autograd.contexts.find(id) !== undefined);
  for (let i = 0; i < 200 && open().length > 0; i++) await new Promise((resolve) => setTimeout(resolve, 50));
  equal(open(), []);
}

async function debugging(rank: Rank): Promise<void> {
  await rank.openPg();
  const [t1, t2] = [grown(), grown()];
  let ended = -1n;
  await context(async (id) => {
    ended = id;
    let value = t1;
    for (const _ of [1, 2])
      for (let other = 0; other < rank.size; other++)
        if (other !== rank.rank) value = await rpcSync(workerName(other), add, [value, t2]);
    await backward(id, [value.sum()]);
    const { num_autograd_contexts: count } = rank.agent.autograd.debugInfo();
    assert.ok(count >= 1 && count <= 4, String(count));
  });
  for (const distance of [1, 2, 3]) await rpcSync(rank.next(distance), done, [ended, distance]);
  await rank.meet();
  equal(rank.agent.autograd.debugInfo().num_current_backward_passes, 0);
  await cleanedUp(rank);
  equal(rank.agent.autograd.debugInfo().num_autograd_contexts, 0);
}

export const autogradContexts: Bodies = mirrored({
  test_autograd_context: async (rank) => {
    const ids: bigint[] = [];
    for (let i = 0; i < 200; i++)
      await context(async (id) => {
        equal(rank.agent.autograd.find(id).id, id);
        equal(Number(id >> 48n), rank.rank);
        ids.push(id);
      });
    for (const id of ids)
      assert.throws(() => rank.agent.autograd.find(id), new RegExp(`Could not find autograd context with id: ${id}`));
  },
  test_nested_context: () =>
    context(async () => {
      await fails(
        context(async () => undefined),
        /Already have an autograd context id for this thread/,
      );
    }),
  test_graph_for_builtin_call: graph('add', 'sync'),
  test_graph_for_python_call: graph(added as never, 'sync'),
  test_graph_for_builtin_remote_call: graph('add', 'remote'),
  test_graph_for_python_remote_call: graph(added as never, 'remote'),
  test_graph_for_py_nested_call: nestedGraph('sync'),
  test_graph_for_py_nested_remote_call: nestedGraph('remote'),
  test_graph_for_py_nested_call_itself: itself('sync'),
  test_graph_for_py_nested_remote_call_itself: itself('remote'),
  test_no_graph_with_tensors_not_require_grad: noGraph('sync'),
  test_no_graph_with_tensors_not_require_grad_remote: noGraph('remote'),
  test_grad_only_on_return_value: onReturn('sync'),
  test_grad_only_on_return_value_remote: onReturn('remote'),
  test_rpc_complex_args: complexArgs('sync'),
  test_remote_complex_args: complexArgs('remote'),
  test_context_cleanup_tensor_with_grad: cleanup('add', () => [
    ones([3, 3], { requiresGrad: true }),
    zeros([3, 3], { requiresGrad: true }),
  ]),
  test_context_cleanup_tensor_no_grad: cleanup('add', () => [ones([3, 3]), ones([3, 3])]),
  test_context_cleanup_no_tensors: cleanup(inAutograd<AnyFn>('my_scalar_add'), () => [1, 1]),
  test_context_cleanup_nested_rpc: cleanup(
    inAutograd<AnyFn>('my_py_nested_call'),
    (rank) => {
      const t2 = zeros([3, 3], { requiresGrad: true });
      return [ones([3, 3], { requiresGrad: true }), t2, (rank.rank + 1) % rank.size, rank.size, 0];
    },
    true,
  ),
  test_worker_ids_recorded: (rank) =>
    context(async (id) => {
      for (const requiresGrad of [false, true]) {
        for (const distance of [1, 2, 3]) {
          await rpcSync(rank.next(distance), add, [ones([3, 3], { requiresGrad }), zeros([3, 3], { requiresGrad })]);
          await rpcSync(rank.next(distance), done, [id, 1]);
        }
        equal(rank.agent.autograd.find(id).known.size, 3);
      }
    }),
  test_debug_info: debugging,
});
