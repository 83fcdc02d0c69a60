/** @file `TensorPipeAgentRpcTest`: the same with sparse tensors, times of RRefs, and groups that grow. */
import assert from 'node:assert/strict';
import { rpcAsync, rpcSync } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { add, ones, tensor, type Tensor } from '@backwire/tensor';
import { py } from '../../../src/index.ts';
import { sparseTensor as sparse, myContainerSum } from '../functions/rpc-plain.ts';
import type { MyClass } from '../functions/rpc-classes.ts';
import type { Value } from '../functions/common.ts';
import { serveTrainers } from '../functions/trainer.ts';
import { workerName, type Rank } from '../rank.ts';
import { MODES, comingAndGoing, equal, fails, inRpc, joining, mirrored, type Bodies } from './body.ts';
import { waiting } from './rpc-groups.ts';

const LEAVE_MS = 20_000;
const TIMEOUT = /RPC ran for more than|RRef creation/;
const times = (factor: number): Tensor => sparse().mul(factor);

async function selfArg(rank: Rank, to: string, how: 'call' | 'remote'): Promise<void> {
  const rref = remote(rank.rank, inRpc<(...all: Value[]) => Value>('my_function'), [sparse(), sparse(), sparse()]);
  const adding = inRpc<(rref: RRef<Value>, value: Value) => Value>('add_rref_to_value');
  if (how === 'remote') return equal(await remote(to, adding, [rref, sparse()]).toHere(), times(4));
  equal(await rpcSync(to, adding, [rref, times(2)]), times(5));
  equal(await rpcAsync(to, adding, [rref, sparse()]), times(4));
}

async function getTypeTimeout(rank: Rank): Promise<void> {
  const slow = remote(rank.next(), inRpc('MyClass'), [ones([2, 2]), true]);
  await fails(slow.typeName({ timeoutMs: 500 }), TIMEOUT);
  await slow.toHere();
}

async function proxyTimeout(rank: Rank): Promise<void> {
  const rref = remote(rank.next(), inRpc('MyClass'), [ones([2, 2])]) as RRef<MyClass>;
  await rref.toHere();
  const options = { timeoutMs: 2_000 };
  await fails(rref.rpcSync(options).my_slow_method(ones([2, 2])), TIMEOUT);
  await fails(rref.rpcAsync(options).my_slow_method(ones([2, 2])), TIMEOUT);
  await fails(
    rref
      .remote(options)
      .my_slow_method(ones([2, 2]))
      .toHere(),
    /RPC ran for more than|timed out/,
  );
  const slow = remote(rank.next(), inRpc('MyClass'), [ones([2, 2]), true]) as RRef<MyClass>;
  await fails(slow.rpcSync({ timeoutMs: 10 }).my_instance_method(ones([2, 2])), TIMEOUT);
  await slow.toHere();
}

/** Several RRefs whose sum is asked of some rank. */
async function summed(rank: Rank, to: string, how: 'call' | 'remote', factor: number): Promise<void> {
  const make = (): RRef<unknown> =>
    factor === 4
      ? remote(rank.next(), add, [sparse(), sparse()])
      : remote(rank.next(), inRpc('my_function'), [sparse(), sparse(), sparse()]);
  const args = [make(), make()];
  const sum = inRpc('my_rref_function');
  equal(how === 'call' ? await rpcSync(to, sum, args) : await remote(to, sum, args).toHere(), times(factor));
}

async function nested(rank: Rank, count: number): Promise<void> {
  const all = Array.from({ length: count }, () => remote(rank.next(), inRpc('nested_rref_sparse'), [rank.next(2)]));
  for (const each of all)
    for (const rref of (await each.toHere()) as RRef<Tensor>[]) equal(await rref.toHere(), times(2));
}

/** Joins a dynamic group under the rank that the test gives, as Python's ranks do. */
async function dynamically(rank: Rank, work: () => Promise<unknown>): Promise<void> {
  const agent = await rank.initDynamic();
  await agent.run(work);
  // Everybody's calls have ended before anybody leaves.
  await rank.meet();
  await agent.shutdown({ timeoutMs: LEAVE_MS });
}

const one = (): Tensor => tensor(1, { dtype: 'int64' });

export const tensorPipe: Bodies = {
  ...mirrored({
    test_rref_get_type_timeout_blocking: getTypeTimeout,
    test_rref_get_type_timeout_non_blocking: getTypeTimeout,
    test_op_with_invalid_args: (rank) => assert.rejects(async () => rpcSync(rank.next(), add as never, [] as never)),
    test_rref_proxy_timeout: proxyTimeout,
    test_my_parameter_server_sparse: (rank) => serveTrainers(rank, true),
    test_send_to_rank_sparse: async (rank) => {
      for (const coalesced of [false, true])
        for (const mode of MODES)
          equal(await mode(rank.next(), add as never, [sparse(coalesced), sparse(coalesced)]), times(2));
    },
    test_self_py_udf_remote_sparse: async (rank) =>
      equal(await remote(rank.rank, inRpc('my_function'), [sparse(), sparse(), sparse()]).toHere(), times(3)),
    test_self_remote_rref_as_rpc_arg_sparse: (rank) => selfArg(rank, rank.next(), 'call'),
    test_self_remote_rref_as_self_rpc_arg_sparse: (rank) => selfArg(rank, rank.agent.name, 'call'),
    test_self_remote_rref_as_remote_arg_sparse: (rank) => selfArg(rank, rank.next(), 'remote'),
    test_self_remote_rref_as_self_remote_arg_sparse: (rank) => selfArg(rank, rank.agent.name, 'remote'),
    test_multi_rpc_sparse: async (rank) => {
      for (let i = 0; i < 20; i++) {
        const x = times(i + rank.rank + 1);
        equal(await rpcSync(rank.next(), add, [x, x]), x.mul(2));
      }
    },
    test_py_sparse_tensors_in_container: async (rank) => {
      const all = [sparse(), sparse()];
      equal(await rpcSync(rank.next(), inRpc('my_container_sum'), [all]), myContainerSum(all));
    },
    test_nested_rpc_sparse: async (rank) =>
      equal(await rpcSync(rank.next(), inRpc('nested_rpc_sparse'), [rank.agent.name]), times(2)),
    test_stress_heavy_rpc_sparse: async (rank) => {
      const calls = Array.from({ length: 20 }, () => rpcAsync(rank.next(), inRpc('heavy_rpc_sparse'), [sparse()]));
      for (const value of await Promise.all(calls)) equal(value, 0);
    },
    test_builtin_remote_ret_sparse: async (rank) =>
      equal(await remote(rank.next(), add, [sparse(), sparse()]).toHere(), times(2)),
    test_builtin_remote_self_sparse: async (rank) =>
      equal(await remote(rank.rank, add, [sparse(), sparse()]).localValue(), times(2)),
    test_multi_builtin_remote_ret_sparse: async (rank) => {
      const all = Array.from({ length: 10 }, () => remote(rank.next(), add, [sparse(), sparse()]));
      for (const each of all) equal(await each.toHere(), times(2));
    },
    test_multi_py_udf_remote_sparse: async (rank) => {
      const args = (): [ReturnType<typeof py.kwargs>] => [py.kwargs({ a: sparse(), b: sparse(), c: sparse() })];
      const all = Array.from({ length: 10 }, () => remote(rank.next(), inRpc('my_function'), args()));
      for (const each of all) equal(await each.toHere(), times(3));
    },
    test_py_rref_args_sparse: (rank) => summed(rank, rank.next(), 'remote', 4),
    test_py_rref_args_user_share_sparse: (rank) => summed(rank, rank.next(2), 'remote', 6),
    test_py_rpc_rref_args_sparse: (rank) => summed(rank, rank.next(), 'call', 6),
    test_nested_remote_sparse: async (rank) =>
      equal(await remote(rank.next(), inRpc('nested_remote_sparse'), [rank.next(2)]).toHere(), times(2)),
    test_nested_rref_sparse: (rank) => nested(rank, 1),
    test_nested_rref_stress_sparse: (rank) => nested(rank, 20),
  }),
  ...joining({
    test_wait_all_workers_sparse: waiting('heavy_rpc_sparse', sparse, 1),
    test_wait_all_workers_twice_sparse: waiting('heavy_rpc_sparse', sparse, 2),
    test_mismatched_type_for_options: (rank) => rank.arrive(),
    test_infer_backend_from_options: async (rank) => {
      // The test leaves nobody's group.
      await rank.init();
    },
  }),
  ...comingAndGoing({
    test_dynamic_rpc_init_rpc: async (rank) => {
      const agent = await rank.initDynamic();
      await agent.shutdown({ timeoutMs: LEAVE_MS });
    },
    test_dynamic_rpc_new_rank_can_communicated_with_existing_rank: async (rank) => {
      await rank.openPg();
      const first = rank.rank === 0 ? await rank.initDynamic() : undefined;
      await rank.meet();
      if (first === undefined)
        return dynamically(rank, async () => equal(await rpcSync(workerName(0), add, [one(), one()]), one().add(1)));
      await rank.meet();
      await first.shutdown({ timeoutMs: LEAVE_MS });
    },
    test_dynamic_rpc_existing_rank_can_communicate_with_new_rank: async (rank) => {
      await rank.openPg();
      const first = rank.rank === 0 ? await rank.initDynamic() : undefined;
      await rank.meet();
      const agent = first ?? (await rank.initDynamic());
      await rank.meet();
      if (first !== undefined)
        await first.run(async () => {
          for (let other = 1; other < rank.size; other++)
            equal(await rpcSync(workerName(other), add, [one(), one()]), one().add(1));
        });
      await rank.meet();
      await agent.shutdown({ timeoutMs: LEAVE_MS });
    },
    test_dynamic_and_static_init_rpc_together: async (rank) => {
      await rank.openPg();
      const last = rank.size - 1;
      if (rank.rank < last) await rank.init({ worldSize: last });
      await rank.meet();
      if (rank.rank === last) await assert.rejects(rank.initDynamic(), /static/);
    },
  }),
};
