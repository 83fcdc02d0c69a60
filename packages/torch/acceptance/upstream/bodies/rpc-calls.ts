/** @file `RpcTest`: calls, and what fails. */
import assert from 'node:assert/strict';
import { type WorkerInfo, rpcAsync, rpcSync, waitAll } from '@backwire/rpc';
import { remote } from '@backwire/rref';
import { add, full, ones, tensor, zeros, type Tensor } from '@backwire/tensor';
import { py } from '../../../src/index.ts';
import { RPC_TEST } from '../functions/common.ts';
import type { Rank } from '../rank.ts';
import { MODES, equal, fails, inRpc, mirrored, onesPlus } from './body.ts';

const TIMEOUT = /RPC ran for more than/;
const n = (rank: Rank): number => rank.rank + 1;
const nextRank = (rank: Rank): number => (rank.rank + 1) % rank.size;

const addOnes = async (rank: Rank): Promise<void> =>
  equal(await rpcSync(rank.next(), add, [onesPlus(n(rank)), onesPlus(n(rank))]), onesPlus(n(rank), 1));

/** Calls the next rank, which calls the one after it. */
async function through(
  rank: Rank,
  name: string,
  args: readonly unknown[],
  expected: unknown,
  modes = [0],
): Promise<void> {
  // What Python has decorated is said to be so; its other functions are called as they are.
  const fn = /async_add/.test(name) ? py.asyncExecution(`${RPC_TEST}.${name}`) : inRpc(name);
  for (const mode of modes) equal(await MODES[mode]!(rank.next(), fn, [rank.next(2), ...args]), expected);
}

const x = (): Tensor => ones([2, 2]);
const threes = (): readonly unknown[] => [x(), 1, 2];

async function stress(
  rank: Rank,
  fn: ReturnType<typeof inRpc>,
  repeat: number,
  args: readonly unknown[],
): Promise<void> {
  const calls = Array.from({ length: repeat }, () => rpcAsync(rank.next(), fn, args as never));
  for (const value of await Promise.all(calls)) assert.equal(value, 0);
}

/** `_run_uneven_workload`, which rank 0 drives. */
export async function uneven(rank: Rank, name: string, arg: Tensor): Promise<void> {
  if (rank.rank !== 0) return;
  for (const to of ['worker1', 'worker2']) {
    const calls = Array.from({ length: 30 }, () => rpcAsync(to, inRpc(name), [arg]));
    for (const value of await Promise.all(calls)) assert.equal(value, 0);
  }
}

async function sendToRank(rank: Rank): Promise<void> {
  for (const mode of MODES) equal(await mode(nextRank(rank), add as never, [x(), 1]), onesPlus(2, 1));
  for (const to of [rank.size + 1, -1, nextRank(rank) + 0.5])
    for (const mode of MODES) await assert.rejects(async () => mode(to, add as never, [x(), 1]));
}

async function timeouts(rank: Rank): Promise<void> {
  const slow = inRpc<(seconds: number) => Tensor>('my_sleep_func');
  await fails(rpcAsync(rank.next(), slow, [1], { timeoutMs: 100 }), TIMEOUT);
  await rpcAsync(rank.next(), slow, [1]);
  await fails(rpcSync(rank.next(), slow, [1], { timeoutMs: 100 }), TIMEOUT);
  const before = rank.agent.caller.defaultTimeoutMs;
  rank.agent.caller.defaultTimeoutMs = 1;
  await fails(rpcAsync(rank.next(), slow, [1]), TIMEOUT);
  await rpcAsync(rank.next(), slow, [1], { timeoutMs: 5_000 });
  await rpcSync(rank.next(), slow, [1], { timeoutMs: 0 });
  rank.agent.caller.defaultTimeoutMs = before;
}

async function defaultTimeout(rank: Rank): Promise<void> {
  const slow = inRpc<(seconds: number) => Tensor>('my_sleep_func');
  const { caller } = rank.agent;
  const before = caller.defaultTimeoutMs;
  caller.defaultTimeoutMs = 1;
  const all = Array.from({ length: 10 }, () => rpcAsync(rank.next(), slow, [1]));
  for (const each of all) await fails(each, TIMEOUT);
  caller.defaultTimeoutMs = 200_000;
  const long = rpcAsync(rank.next(), slow, [1]);
  caller.defaultTimeoutMs = 1;
  await fails(rpcAsync(rank.next(), slow, [1]), TIMEOUT);
  await long;
  caller.defaultTimeoutMs = 0;
  await rpcAsync(rank.next(), slow, [1]);
  caller.defaultTimeoutMs = before;
}

const raises = (rank: Rank): Promise<unknown> => rpcAsync(rank.next(), inRpc('raise_func'), []);

async function allFail(rank: Rank, count: number): Promise<void> {
  const calls = Array.from({ length: count }, () => raises(rank));
  await fails(Promise.all(calls), /Expected error/);
  for (const each of calls) await fails(each, /Expected error/);
}

const async =
  (name: string, modes = [0]) =>
  (rank: Rank): Promise<void> =>
    through(rank, name, threes(), onesPlus(2, 3), modes);
const multi =
  (name: string, mode: number) =>
  (rank: Rank): Promise<void> =>
    through(rank, name, [x(), 20, 3], onesPlus(2, 60), [mode]);
const failing =
  (name: string, mode: number, text: RegExp) =>
  (rank: Rank): Promise<void> => {
    const fn = name.startsWith('async_') ? py.asyncExecution(`${RPC_TEST}.${name}`) : inRpc(name);
    return fails((async () => MODES[mode]!(rank.next(), fn, []))(), text);
  };
const WRONG = /Functions decorated with @rpc\.async_function must return a torch\.futures\.Future object,/;
const FUTURE = /Can not pickle torch\.futures\.Future/;

export const rpcCalls = mirrored({
  test_worker_id: async (rank) => {
    equal(rank.agent.self.name, `worker${rank.rank}`);
    equal(rank.agent.members.find(rank.next()).worker.name, rank.next());
    assert.throws(() => rank.agent.members.find('WorkerUnknown'), /WorkerUnknown/);
  },
  test_get_worker_infos: async (rank) => {
    const others = rank.agent.members.others().map(({ worker }) => worker);
    const all = new Map([...others, rank.agent.self].map(({ id, name }) => [id, name]));
    equal(
      [...all.keys()].sort(),
      Array.from({ length: rank.size }, (_, i) => i),
    );
    for (const [id, name] of all) equal(name, `worker${id}`);
  },
  test_self_add: async (rank) => {
    equal(await rpcAsync(rank.agent.self, add, [x(), 1]), onesPlus(2, 1));
    equal(await rpcSync(rank.agent.self, add, [x(), 1]), onesPlus(2, 1));
  },
  test_send_to_rank: sendToRank,
  test_worker_info_pickle: async (rank) => {
    const found = await rpcSync(rank.next(), inRpc<(info: WorkerInfo) => WorkerInfo>('identity'), [rank.agent.self]);
    equal([found.id, found.name], [rank.rank, `worker${rank.rank}`]);
  },
  test_add: addOnes,
  test_add_with_id: async (rank) => {
    const info = rank.agent.members.find(rank.next()).worker;
    equal(await rpcSync(info, add, [onesPlus(n(rank)), onesPlus(n(rank))]), onesPlus(n(rank), 1));
  },
  test_async_add: addOnes,
  test_add_done_callback: addOnes,
  test_callback_simple: addOnes,
  test_callback_multi: addOnes,
  test_future_done: addOnes,
  test_int_callee: async (rank) =>
    equal(await rpcSync(nextRank(rank), inRpc('RpcTest.return_callee_id'), []), nextRank(rank)),
  test_scalar_add: async (rank) =>
    equal(await rpcSync(rank.next(), add, [onesPlus(n(rank)), n(rank)]), onesPlus(n(rank), n(rank))),
  test_nonzero: async (rank) => {
    const given = ones([rank.size, rank.size]);
    given.select(0, rank.rank).select(0, rank.rank).fill_(0);
    equal(await rpcSync(rank.next(), py<(t: Tensor) => Tensor>('torch.nonzero'), [given]), given.nonzero());
  },
  test_multi_rpc: async (rank) => {
    for (let i = 0; i < 20; i++) equal(await rpcSync(rank.next(), add, [x(), x()]), onesPlus(2, 1));
  },
  test_future_wait_twice: (rank) => allFail(rank, 20),
  test_wait_all_with_exception: (rank) => allFail(rank, 10),
  test_wait_all_with_partial_exception: async (rank) => {
    const good = Array.from({ length: 10 }, () => rpcAsync(rank.next(), add, [ones([2]), 1]));
    await fails(Promise.all([...good, raises(rank)]), /Expected error/);
  },
  test_graceful_shutdown_with_uneven_workload: (rank) => uneven(rank, 'heavy_rpc', ones([100, 100])),
  test_py_built_in: async (rank) =>
    equal(await rpcSync(rank.next(), py('builtins.min'), [n(rank), n(rank) + 1, n(rank) + 2]), n(rank)),
  test_py_user_defined: async (rank) => {
    const named = py.kwargs({ a: n(rank), b: n(rank) + 1, c: n(rank) + 2 });
    equal(await rpcSync(rank.next(), inRpc('my_function'), [named]), 3 * n(rank) + 3);
  },
  test_py_no_return_result: async (rank) => equal(await rpcSync(rank.next(), inRpc('no_result'), []), null),
  test_py_tensors: async (rank) => {
    const args = [onesPlus(n(rank)), onesPlus(n(rank))];
    equal(await rpcSync(rank.next(), inRpc('my_tensor_function'), args), onesPlus(n(rank), 1));
  },
  test_py_tensors_multi_async_call: async (rank) => {
    const calls = Array.from({ length: 100 }, (_, i) =>
      rpcAsync(rank.next(), inRpc('my_tensor_function'), [ones([i, i]), ones([i, i])]),
    );
    for (const [i, value] of (await Promise.all(calls)).entries()) equal(value, full([i, i], 2));
  },
  test_py_function_exception: async (rank) => {
    await fails(rpcSync(rank.next(), inRpc('no_result'), [10]), /no_result\(\) takes 0 positional arguments/);
  },
  test_py_raise_in_user_func_escaped_str: (rank) =>
    fails(rpcAsync(rank.next(), inRpc('raise_func_escape'), []), /\nFirst line of error \n next line of error \n last/),
  test_nested_rpc: async (rank) =>
    equal(await rpcSync(rank.next(), inRpc('nested_rpc'), [`worker${rank.rank}`]), onesPlus(2, 1)),
  test_stress_light_rpc: (rank) => stress(rank, inRpc('light_rpc'), 1_000, []),
  test_stress_heavy_rpc: (rank) => stress(rank, inRpc('heavy_rpc'), 20, [ones([100, 100])]),
  test_stress_heavy_rpc_torchscript: (rank) =>
    stress(
      rank,
      py.script<() => unknown>('torch.testing._internal.distributed.rpc.rpc_test.heavy_rpc_torchscript'),
      20,
      [ones([100, 100])],
    ),
  test_rpc_timeouts: timeouts,
  test_default_timeout_used: defaultTimeout,
  test_wait_all: async (rank) => {
    let call: Promise<Tensor> | undefined;
    await waitAll(async () => {
      call = rpcAsync(rank.next(), add, [x(), 1]);
    });
    equal(await call, onesPlus(2, 1));
  },
  test_wait_all_multiple_call: async (rank) =>
    waitAll(async () => {
      for (let i = 0; i < 20; i++) {
        const call = rpcAsync(rank.next(), add, [ones([i, i]), 1]);
        equal(await rpcSync(rank.next(), add, [ones([i, i]), 1]), full([i, i], 2));
        equal(await call, full([i, i], 2));
      }
    }),
  test_wait_all_timeout: (rank) =>
    fails(
      waitAll(async () => {
        void rpcAsync(rank.next(), inRpc('my_sleep_func'), [1], { timeoutMs: 100 });
      }),
      TIMEOUT,
    ),
  test_wait_all_raise_in_user_func: (rank) =>
    fails(
      waitAll(async () => {
        void raises(rank);
      }),
      /Expected error/,
    ),
  test_wait_all_raise_in_body: () =>
    fails(
      waitAll(async () => {
        throw new RangeError('Expected error');
      }),
      /Expected error/,
    ),
  test_non_cont_tensors: async (rank) => {
    if (rank.rank !== 0) return;
    const view = tensor(Array.from({ length: 25 }, (_, i) => i))
      .reshape([5, 5])
      .narrow(1, 2, 2);
    const back = await rpcSync(rank.next(), inRpc<(a: Tensor, b: Tensor) => Tensor>('non_cont_test'), [
      view,
      view.contiguous(),
    ]);
    equal(back, view);
    assert.equal(back.isContiguous, false);
  },
  test_callback_chain: async (rank) => {
    let call: Promise<Tensor> = rpcAsync(rank.next(), add, [onesPlus(n(rank)), 1]);
    for (let i = 0; i < 20; i++) call = call.then((value) => value.add(1));
    equal(await call, onesPlus(n(rank), 21));
  },
  test_callback_in_rpc: (rank) => through(rank, 'add_use_future_cb', threes(), onesPlus(2, 3)),
  test_callback_with_ret: async (rank) => {
    const first = await rpcAsync(rank.next(), add, [x(), 1]);
    equal((await rpcAsync(rank.next(), add, [first, 1])).add(1), onesPlus(2, 3));
  },
  test_callback_with_error: async (rank) => {
    const call = raises(rank).catch((error: Error) => {
      assert.match(error.message, /Expected error/);
      throw new Error('Another expected error');
    });
    await fails(call, /Another expected error/);
  },
  test_future_done_exception: (rank) => fails(raises(rank), /Expected error/),
  test_mark_future_twice: async (rank) => equal(await rpcAsync(rank.next(), add, [zeros([2, 2]), 1]), onesPlus(2)),
  test_future_in_rpc: (rank) => through(rank, 'add_use_future_set_result', threes(), onesPlus(2, 3)),
  test_future_nested_callback: (rank) => through(rank, 'add_use_future_nested_cb', threes(), onesPlus(2, 3)),
  test_async_function_raise: failing('async_raise_func', 0, /Expected error/),
  test_async_function_raise_async: failing('async_raise_func', 1, /Expected error/),
  test_async_function_raise_remote: failing('async_raise_func', 2, /Expected error/),
  test_async_function_wrong_return_type: failing('async_wrong_type', 0, WRONG),
  test_async_function_wrong_return_type_async: failing('async_wrong_type', 1, WRONG),
  test_async_function_wrong_return_type_remote: failing('async_wrong_type', 2, WRONG),
  test_async_function_simple: (rank) => through(rank, 'async_add', [x(), 1], onesPlus(2, 1)),
  test_async_function_with_future_ctor: async('async_add_with_future_ctor'),
  test_async_function_with_future_ctor_remote: async('async_add_with_future_ctor', [2]),
  test_async_function_chained: async('async_add_chained'),
  test_async_function_chained_remote: async('async_add_chained', [2]),
  test_async_function_nested: async('async_add_nested'),
  test_async_function_nested_remote: async('async_add_nested', [2]),
  test_async_static_method: async('AsyncExecutionClass.static_async_add'),
  test_async_static_method_remote: async('AsyncExecutionClass.static_async_add', [2]),
  test_async_function_multi_chained: multi('async_add_chained_multi', 0),
  test_async_function_multi_chained_async: multi('async_add_chained_multi', 1),
  test_async_function_multi_chained_remote: multi('async_add_chained_multi', 2),
  test_async_function_multi_fanout: multi('async_add_multi_fanout', 0),
  test_async_function_multi_fanout_async: multi('async_add_multi_fanout', 1),
  test_async_function_multi_fanout_remote: multi('async_add_multi_fanout', 2),
  test_return_future: failing('return_future', 0, FUTURE),
  test_return_future_async: failing('return_future', 1, FUTURE),
  test_return_future_remote: failing('return_future', 2, FUTURE),
  test_remote_throw: (rank) =>
    fails(remote(rank.next(), inRpc('raise_or_inc'), [ones([2])]).toHere(), /Expected error/),
});
