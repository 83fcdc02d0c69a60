/** @file `RpcTest`: joining, leaving, collectives, debugging, and tests that meet by a second process group. */
import assert from 'node:assert/strict';
import { allGather, barrier, rpcAsync, rpcSync, type CallOptions } from '@backwire/rpc';
import { createRRef, remote } from '@backwire/rref';
import { add, ones, rand, tensor, type Tensor } from '@backwire/tensor';
import { PyName, py, tupleOf } from '../../../src/index.ts';
import type { SystemName } from '../../../src/calls/names.ts';
import { PyInstance } from '../../../src/values/objects.ts';
import { RPC_TEST } from '../functions/common.ts';
import { state } from '../state.ts';
import { workerName, type Rank } from '../rank.ts';
import { comingAndGoing, equal, fails, inRpc, joining, mirrored, onesPlus, type Bodies } from './body.ts';
import { uneven } from './rpc-calls.ts';

const LEAVE_MS = 20_000;
const x = (): Tensor => ones([2, 2]);
const n = (rank: Rank): number => rank.rank + 1;

/** Joins, does its work as the program of the agent, and leaves with the others. */
async function between(rank: Rank, work: () => Promise<unknown>): Promise<void> {
  const agent = await rank.init();
  await agent.run(work);
  await agent.shutdown({ timeoutMs: LEAVE_MS });
}

const onesAt = (rank: Rank): Promise<void> =>
  rpcSync(rank.next(), add, [onesPlus(n(rank)), onesPlus(n(rank))]).then((sum) => equal(sum, onesPlus(n(rank), 1)));

/** `_test_barrier_helper`. */
async function barriers(rank: Rank, ids: readonly number[], threads = false): Promise<void> {
  const names = ids.map(workerName);
  const leader = names[0] as string;
  const isLeader = leader === rank.agent.name;
  await rpcSync(leader, inRpc('_reset_count'), []);
  if (!threads && isLeader) equal(state().barrierCount, 0);
  await barrier({ workers: names });
  await rpcSync(leader, inRpc('_increment_count'), []);
  await barrier({ workers: names });
  if (!threads && isLeader) equal(state().barrierCount, names.length);
}

const all = (rank: Rank): number[] => Array.from({ length: rank.size }, (_, i) => i);
const ofParity = (rank: Rank): number[] => all(rank).filter((id) => id % 2 === rank.rank % 2);

/** `_wait_all_workers`, once or twice. */
export const waiting =
  (name: string, arg: () => Tensor, times: number) =>
  async (rank: Rank): Promise<void> => {
    await rank.openPg();
    const agent = await rank.init();
    await agent.run(async () => {
      await uneven(rank, name, arg());
      for (let i = 0; i < times; i++) await allGather(null);
    });
    await rank.meet();
    await agent.shutdown({ graceful: false });
  };

/** The calls of `test_wait_all_exit_early_*`: one that hangs, and two that fail. */
const early =
  (failing: (rank: Rank) => Promise<unknown>, text: RegExp) =>
  async (rank: Rank): Promise<void> => {
    await rank.meet();
    const hangs = rpcAsync(rank.next(), inRpc('RpcTest.timed_out_rpc'), []);
    await fails(Promise.all([hangs, failing(rank), failing(rank)]), text);
    state().timedOut.set(undefined);
    await hangs;
  };

async function debugInfo(rank: Rank): Promise<void> {
  await rank.openPg();
  const counts = (): number[] => {
    const { num_owner_rrefs = 0, num_pending_users = 0 } = rank.agent.rrefs.debugInfo();
    return [num_owner_rrefs, num_pending_users];
  };
  const settled = async (owners: number): Promise<void> => {
    for (let i = 0; i < 100 && (counts()[0] !== owners || counts()[1] !== 0); i++)
      await new Promise((resolve) => setTimeout(resolve, 50));
    equal(counts(), [owners, 0]);
  };
  const rref = createRRef(rank.rank);
  equal(counts(), [0, 0]);
  await rank.meet();
  await rpcSync(rank.next(), inRpc('set_global_rref'), [rref]);
  await settled(1);
  await rank.meet();
  equal(counts(), [1, 0]);
  await rank.meet();
  await rpcSync(rank.next(), inRpc('clear_global_rref'), []);
  await settled(0);
  await rank.meet();
  const kept = [1, 2].map(() => remote(rank.next(), add, [x(), 1]));
  for (const each of kept) await each.toHere();
  await settled(2);
  await rank.meet();
  equal(counts(), [2, 0]);
  await rank.meet();
  for (const each of kept) each.dispose();
}

const leak = (rank: Rank): Promise<void> =>
  between(rank, async () => {
    // Python's ranks replace the function that lets go of what they hold; here it is this one.
    Object.defineProperty(rank.agent, 'settle', { value: () => Promise.resolve() });
    await rank.meet();
    const rref = remote(rank.next(), add, [x(), 1]);
    // The others leave without letting go, and do not wait for what this rank lets go of.
    await rref.toHere();
  });

export const rpcGroups: Bodies = {
  ...mirrored({
    test_all_gather: async (rank) =>
      equal(
        [...(await allGather(rank.rank))].sort(),
        all(rank).map((id) => [workerName(id), id]),
      ),
    test_all_gather_timeout: async (rank) => {
      rank.agent.caller.defaultTimeoutMs = 100;
      const slow = new PyInstance(new PyName(RPC_TEST, 'SlowPickleClass'), [], { state: tupleOf([0.5]) });
      const code = rank.rank === 0 ? 'barrier-broken' : 'deadline-exceeded';
      await assert.rejects(allGather(slow), { code });
      rank.agent.caller.defaultTimeoutMs = 60_000;
    },
    test_rpc_barrier_all: (rank) => barriers(rank, all(rank)),
    test_rpc_barrier_subset: (rank) => barriers(rank, ofParity(rank)),
    test_rpc_barrier_partial_subset: (rank) => barriers(rank, rank.rank % 2 === 1 ? ofParity(rank) : [rank.rank]),
    test_rpc_barrier_multithreaded: (rank) => Promise.all([1, 2, 3].map(() => barriers(rank, all(rank), true))),
    test_expected_src: async (rank) => {
      await rpcSync(rank.next(), inRpc('set_value'), [rank.rank]);
      equal(await state().value.value, (rank.rank + rank.size - 1) % rank.size);
    },
    test_debug_info: async (rank) => {
      const found = Object.keys(rank.agent.debugInfo());
      for (const part of [rank.agent.rrefs.debugInfo(), rank.agent.autograd.debugInfo()])
        for (const key of Object.keys(part)) assert.ok(found.includes(key), key);
    },
    test_disable_gil_profiling: async (rank) => {
      await rpcSync(rank.next(), add, [ones([1]), ones([1])]);
      await rpcSync(rank.next(), add, [ones([1]), ones([1])]);
    },
    test_dist_init_decorator: async () => undefined,
    test_py_raise_in_user_func: async (rank) => {
      await rank.meet();
      await fails(rpcAsync(rank.next(), inRpc('raise_func'), []), /Expected error/);
      await rank.meet();
    },
    test_custom_exception_throw_during_reconstruction: async (rank) => {
      await rank.openPg();
      if (rank.rank !== 0) {
        const call = rpcSync(workerName(0), inRpc('custom_raise_func'), []);
        await assert.rejects(call, { remoteName: 'CustomException' });
      }
      await rank.meet();
    },
    test_wait_all_exit_early_python: early((rank) => rpcAsync(rank.next(), inRpc('raise_func'), []), /Expected error/),
    test_wait_all_exit_early_builtin: early(
      (rank) => rpcAsync(rank.next(), add, [rand([10]), rand([5])]),
      /size of tensor/,
    ),
    test_wait_all_exit_early_script_function: early(
      (rank) => rpcAsync(rank.next(), py.script(`${RPC_TEST}.raise_func_script`), ['Expected error']),
      /Expected error/,
    ),
    test_rref_context_debug_info: debugInfo,
    test_deadlock: async (rank) => {
      if (rank.rank === 1)
        await rpcAsync(rank.next(), inRpc('RpcTest._slow_add'), [ones([2]), ones([2])], { timeoutMs: 15_000 });
      await rank.openPg();
    },
    test_rpc_profiling_async_function: (rank) => rank.openPg(),
    test_rpc_profiling_async_function_single_threaded: (rank) => rank.openPg(),
    test_function_not_on_callee: async (rank) => {
      if (rank.rank === 1) {
        // Python takes the name out of its module, and this worker what it serves under it.
        state().withdrawn.add('foo_add');
        await rpcSync(workerName(0), inRpc('set_value'), [rank.rank]);
      }
      if (rank.rank === 0) {
        await state().value.value;
        await assert.rejects(rpcSync(workerName(1), inRpc('foo_add'), []), /RPC pickler does not serialize/);
      }
    },
  }),
  test_register_rpc_backend_and_set_and_start_rpc_backend: {
    does: 'comes to the store, and no further: the backend of the test is a stub',
    own: true,
    run: (rank) => rank.arrive(),
  },
  ...joining({
    test_wait_all_workers_dense: waiting('heavy_rpc', () => ones([100, 100]), 1),
    test_wait_all_workers_twice_dense: waiting('heavy_rpc', () => ones([100, 100]), 2),
    test_shutdown_followed_by_rpc: async (rank) => {
      await between(rank, () => onesAt(rank));
      await assert.rejects(async () => rank.agent.run(() => rpcSync(rank.next(), add, [x(), x()])));
    },
    test_reinit: (rank) =>
      between(rank, async () => {
        await rank.meet();
      }),
    test_local_shutdown: async (rank) => {
      const agent = await rank.init();
      await agent.shutdown({ graceful: false });
    },
    test_local_shutdown_with_rpc: async (rank) => {
      const agent = await rank.init();
      await agent.run(() => onesAt(rank));
      await rank.meet();
      await agent.shutdown({ graceful: false });
    },
    test_handle_send_exceptions: async (rank) => {
      const agent = await rank.init({ rpcTimeoutMs: 10_000 });
      await rank.meet();
      if (rank.rank === 1) await agent.run(() => untilDown(rank.next()));
      await agent.shutdown({ graceful: false });
    },
    test_set_and_get_default_rpc_timeout: async (rank) => {
      const agent = await rank.init({ rpcTimeoutMs: 500 });
      equal(agent.caller.defaultTimeoutMs, 500);
      await agent.shutdown({ timeoutMs: LEAVE_MS });
    },
    test_use_rref_after_shutdown: async (rank) => {
      const agent = await rank.init();
      const rref = agent.run(() => remote(rank.next(), add, [x(), x()]));
      await agent.shutdown({ timeoutMs: LEAVE_MS });
      await fails((async () => rref.toHere())(), /Cannot call to_here\(\) on it after deletion\./);
    },
    test_init_pg_then_rpc: async (rank) => {
      await rank.openPg();
      await between(rank, async () => {
        equal(await rpcSync(rank.next(), add, [x(), 1]), onesPlus(2, 1));
        await rank.meet();
      });
    },
    test_init_rpc_then_pg: (rank) =>
      between(rank, async () => {
        await rank.openPg();
        equal(await rpcSync(rank.next(), add, [x(), 1]), onesPlus(2, 1));
        await rank.meet();
      }),
    test_rref_leak: leak,
    test_ignore_rref_leak: leak,
    test_wait_all_workers_timeout: async (rank) => {
      await rank.openPg();
      const agent = await rank.init();
      await assert.rejects(agent.shutdown({ timeoutMs: 10 }));
      await rank.meet();
    },
    test_shutdown_errors: async (rank) => {
      await rank.openPg();
      const agent = await rank.init();
      if (rank.rank === 0) await assert.rejects(agent.shutdown({ timeoutMs: LEAVE_MS }));
      else {
        // Python replaces these two functions of its module; here they are replaced in the agent.
        const own = agent.offered.find('torch.distributed.rpc.api', '_broadcast_to_followers') as SystemName;
        agent.offered.answer(own.path, (args, from) => {
          own.run(args, from);
          throw new Error('simulation');
        });
        Object.defineProperty(agent, 'settle', { value: () => Promise.reject(new Error('simulation rref')) });
        await fails(agent.shutdown({ timeoutMs: LEAVE_MS }), /simulation rref/);
      }
      await rank.meet();
    },
    test_duplicate_name_2: (rank) =>
      assert.rejects(rank.init({ name: workerName(rank.rank % (rank.size - 1)) }), /is not unique/),
  }),
  ...comingAndGoing({
    test_init_rpc_twice: async (rank) => {
      await rank.openPg();
      await between(rank, async () => undefined);
      await rank.meet();
      await between(rank, async () => {
        equal(await rpcSync(rank.next(), add, [x(), 1]), onesPlus(2, 1));
        equal(await rpcSync(rank.next(), inRpc('foo_add'), []), tensor([2]));
      });
    },
  }),
};

/** `wait_until_node_failure`. */
export async function untilDown(name: string): Promise<void> {
  const noop = py<() => void>('torch.testing._internal.dist_utils.noop');
  const options: CallOptions = { timeoutMs: 2_000 };
  for (;;) {
    try {
      await rpcSync(name, noop, [], options);
    } catch {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
