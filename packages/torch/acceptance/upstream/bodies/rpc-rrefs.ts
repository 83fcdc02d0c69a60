/** @file `RpcTest`: RRefs, proxies and objects. */
import assert from 'node:assert/strict';
import { rpcAsync, rpcSync } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { context, getGradients } from '@backwire/dist-autograd';
import { add, full, ones, rand, tensor, type Tensor } from '@backwire/tensor';
import { PyName, py, tupleOf } from '../../../src/index.ts';
import { PyInstance } from '../../../src/values/objects.ts';
import { RPC_TEST, plus, type Value } from '../functions/common.ts';
import { type AsyncExecutionClass, MyClass } from '../functions/rpc-classes.ts';
import { multiLayer, forwardChain } from '../functions/rpc-calling.ts';
import { serveTrainers } from '../functions/trainer.ts';
import type { Rank } from '../rank.ts';
import { equal, fails, inRpc, mirrored, onesPlus, type Bodies } from './body.ts';

const n = (rank: Rank): number => rank.rank + 1;
const x = (): Tensor => ones([2, 2]);

const addHere = (rank: Rank, ...args: readonly unknown[]): RRef<Tensor> => remote(rank.next(), add, args as never);

async function builtinRemote(rank: Rank): Promise<void> {
  equal(await addHere(rank, x(), x()).toHere(), onesPlus(2, 1));
}

/** `_test_multi_remote_call` over `make`, whose argument grows. */
async function many(rank: Rank, make: (to: string, size: number) => RRef<unknown>, value: number): Promise<void> {
  let size = n(rank);
  const made: [RRef<unknown>, number][] = [];
  for (let i = 0; i < 10; i++) {
    size += i;
    made.push([make(rank.next(), size), size]);
  }
  for (const [rref, each] of made) equal(await rref.toHere(), full([each, each], value));
}

async function proxyTensor(rref: RRef<Tensor>): Promise<void> {
  const expected = onesPlus(2, 4);
  equal([...((await (rref.rpcSync() as never as { size(): Promise<number[]> }).size()) ?? [])], [2, 2]);
  equal(await rref.rpcAsync().add(1), expected.add(1));
  equal(await rref.remote().view([1, 4]).toHere(), expected.view([1, 4]));
}

async function proxyClass(rank: Rank, to: string | number): Promise<void> {
  const mine = to === rank.rank;
  const rref = mine ? createRRef(new MyClass(7)) : remote(to, inRpc<(a: number) => MyClass>('MyClass'), [7]);
  const get = async (): Promise<unknown[]> => [
    await rref.rpcSync().get_value(),
    await rref.rpcAsync().get_value(),
    await rref.remote().get_value().toHere(),
  ];
  equal(await get(), [7, 7, 7]);
  equal(await rref.rpcSync().increment_value(1), null);
  equal(await rref.rpcAsync().increment_value(1), null);
  equal(await rref.remote().increment_value(1).toHere(), null);
  equal(await get(), [10, 10, 10]);
  equal(await rref.rpcSync().my_instance_method(2), 12);
  equal(await rref.rpcAsync().my_instance_method(3), 13);
  equal(await rref.remote().my_instance_method(4).toHere(), 14);
  equal(await rref.rpcSync().my_static_method(9), false);
  equal(await rref.rpcAsync().my_static_method(10), false);
  equal(await rref.remote().my_static_method(11).toHere(), true);
  for (const size of [2, 3, 4])
    equal(await rref.rpcSync().my_class_method(2, ones([size, size])), full([size, size], 3));
}

async function asyncProxy(rank: Rank, how: 'plain' | 'remote'): Promise<void> {
  const rref = remote(rank.next(), inRpc<() => AsyncExecutionClass>('AsyncExecutionClass'), []);
  // A method that Python has decorated is named so, as its proxies do after asking for its class.
  const invoke = py.asyncExecution<(...args: unknown[]) => Tensor>(
    'torch.distributed.rpc.rref_proxy._local_invoke_async_execution',
  );
  let sum: Tensor = full([2, 2], 0);
  for (const method of ['static_async_add', 'class_async_add', 'bound_async_add']) {
    const args = [rref, method, tupleOf([rank.next(2), x(), x(), onesPlus(2, 1)]), new Map()];
    const value =
      how === 'plain' ? await rpcSync(rank.next(), invoke, args) : await remote(rank.next(), invoke, args).toHere();
    sum = sum.add(value);
  }
  equal(sum, full([2, 2], 12));
}

async function userShare(rank: Rank): Promise<void> {
  const a = remote(rank.next(), inRpc('my_function'), [x(), 1, 2]);
  const b = remote(rank.next(), inRpc('my_function'), [x(), 3, 4]);
  equal(await remote(rank.next(2), inRpc('my_rref_function'), [a, b]).toHere(), full([2, 2], 12));
}

async function nested(rank: Rank, times: number): Promise<void> {
  const all = Array.from({ length: times }, () => remote(rank.next(), inRpc('nested_rref'), [rank.next(2)]));
  for (const each of all) {
    const [a, b] = (await each.toHere()) as [RRef<Tensor>, RRef<Tensor>];
    equal(await a.toHere(), onesPlus(2, 1));
    equal(await b.toHere(), onesPlus(2, 2));
  }
}

const ofClass = (name: string): PyName => new PyName(RPC_TEST, `MyClass.${name}`);
const callMethod = inRpc<(...args: unknown[]) => unknown>('_call_method_on_rref');

async function typed(rank: Rank): Promise<void> {
  equal(await addHere(rank, ones([2]), 1).typeName(), 'Tensor');
  equal(await remote(rank.next(), inRpc('MyClass'), [0]).typeName(), 'MyClass');
}

async function typedHere(): Promise<void> {
  equal(await createRRef(ones([2])).typeName(), 'Tensor');
  equal((await createRRef(new MyClass(0)).typeName()).split('.').at(-1), 'MyClass');
}

const typeFails = (rank: Rank): Promise<void> =>
  fails(remote(rank.next(), inRpc('raise_func'), []).typeName(), /Expected error/);

async function chain(rank: Rank): Promise<void> {
  const rref = addHere(rank, onesPlus(n(rank)), 1);
  let found = await forwardChain((rank.rank + 1) % rank.size, rank.size, rref, 8);
  for (let i = 0; i < 8; i++) found = await (found as [RRef<unknown>])[0].toHere();
  equal(found, onesPlus(n(rank), 1));
}

async function ownerBackward(rank: Rank): Promise<void> {
  const t1 = rand([10, 10], { requiresGrad: true });
  await createRRef(t1.sum().add(t1.sum())).backward();
  equal(t1.grad, full([10, 10], 2));
  for (const times of [1, 2])
    await context(async (id) => {
      const rref = createRRef((await rpcSync(rank.next(), add, [t1, t1])).sum());
      for (let i = 1; i <= times; i++) await rref.backward(id, { retainGraph: i < times });
      equal(getGradients(id).get(t1), full([10, 10], 2 * times));
    });
  await fails(createRRef(rand([10])).backward(), /does not require grad/);
  await fails(createRRef(rand([10], { requiresGrad: true })).backward(), /scalar/);
  await fails(
    createRRef(rand([10], { requiresGrad: true }).sum()).backward(100n),
    /Could not find autograd context with id: 100/,
  );
  await fails(
    (createRRef('foo') as unknown as RRef<Tensor>).backward(),
    /RRef should contain a tensor for \.backward\(\)/,
  );
}

async function userBackward(rank: Rank): Promise<void> {
  const t = rand([10], { requiresGrad: true });
  await context(async (id) => {
    const rref = remote(rank.next(), inRpc('RpcTest._sum'), [t]);
    await rref.backward(id, { retainGraph: true });
    await rref.backward(id);
    equal(getGradients(id).get(t), full([10], 2));
  });
  await context(async (id) => {
    const rref = remote(rank.next(), inRpc('RpcTest._identity'), ['foo']);
    await fails(rref.backward(id), /RRef should contain a tensor for \.backward\(\)/);
    await fails(rref.backward(), /User RRefs require 'dist_autograd_ctx_id' to be specified/);
  });
}

async function confirmed(rank: Rank, how: 'plain' | 'remote'): Promise<void> {
  const rref = remote(rank.next(2), add, [full([2, 2], 0), 1]);
  const check = inRpc('check_rref_confirmed');
  equal(
    how === 'plain' ? await rpcSync(rank.next(), check, [rref]) : await remote(rank.next(), check, [rref]).toHere(),
    true,
  );
}

async function onRRef(rank: Rank): Promise<void> {
  const rref = remote(rank.next(), inRpc('MyClass'), [10]);
  const owner = rref.owner();
  await rpcSync(owner, callMethod, [ofClass('increment_value'), rref, 2]);
  await rpcAsync(owner, callMethod, [ofClass('increment_value'), rref, 5]);
  await remote(owner, callMethod, [ofClass('increment_value'), rref, 7]).toHere();
  equal(await rpcSync(rank.next(), callMethod, [ofClass('get_value'), rref]), 24);
}

async function refArgs(rank: Rank, b: number, d: number, sum: number): Promise<void> {
  const rrefs = [addHere(rank, x(), b), addHere(rank, x(), d)];
  equal(await remote(rank.next(), inRpc('my_rref_function'), rrefs).toHere(), full([2, 2], sum));
}

async function selfArg(rank: Rank, to: string): Promise<void> {
  const rref = remote(rank.rank, inRpc<(a: Tensor, b: number, c: number) => Value>('my_function'), [x(), 1, 3]);
  const adding = inRpc<(rref: RRef<Value>, value: Value) => Value>('add_rref_to_value');
  equal(await rpcSync(to, adding, [rref, plus(x(), 1)]), full([2, 2], 7));
  equal(await rpcAsync(to, adding, [rref, x()]), full([2, 2], 6));
}

async function selfRemoteArg(rank: Rank, to: string): Promise<void> {
  const rref = remote(rank.rank, inRpc('my_function'), [x(), 1, 3]);
  equal(await remote(to, inRpc('add_rref_to_value'), [rref, x()]).toHere(), full([2, 2], 6));
}

const instance = (a: number): PyInstance =>
  new PyInstance(new PyName(RPC_TEST, 'MyClass'), [], { state: new Map([['a', a]]) });

/** A method with the object that goes along. */
function boundMethod(rank: Rank): Promise<unknown> {
  return rpcSync(rank.next(), inRpc('MyClass.my_instance_method'), [instance(2), n(rank)]);
}

export const rpcRRefs: Bodies = mirrored({
  test_self_py_udf_remote: async (rank) =>
    equal(await remote(rank.rank, inRpc('my_function'), [x(), 1, 3]).toHere(), full([2, 2], 5)),
  test_self_remote_rref_as_rpc_arg: (rank) => selfArg(rank, rank.next()),
  test_self_remote_rref_as_self_rpc_arg: (rank) => selfArg(rank, rank.agent.name),
  test_self_remote_rref_as_remote_arg: (rank) => selfRemoteArg(rank, rank.next()),
  test_self_remote_rref_as_self_remote_arg: (rank) => selfRemoteArg(rank, rank.agent.name),
  test_rref_proxy_non_exist: async (rank) => {
    const rref = remote(rank.next(), inRpc('my_function'), [x(), 1, 3]) as RRef<{ non_exist(): void }>;
    await fails(rref.rpcSync().non_exist(), /has no attribute 'non_exist'/);
    await fails(rref.rpcAsync().non_exist(), /has no attribute 'non_exist'/);
    await fails(rref.remote().non_exist().toHere(), /has no attribute 'non_exist'/);
  },
  test_rref_proxy_tensor: (rank) => proxyTensor(remote(rank.next(), inRpc('my_function'), [x(), 1, 3]) as RRef<Tensor>),
  test_rref_proxy_tensor_self: async () => {
    const rref = createRRef(onesPlus(2, 4));
    equal(await rref.rpcAsync().add(1), full([2, 2], 6));
    equal(await rref.remote().view([1, 4]).toHere(), full([1, 4], 5));
  },
  test_rref_proxy_reuse: async (rank) => {
    const rref = remote(rank.next(), inRpc('my_function'), [x(), 1, 3]) as RRef<Tensor>;
    await proxyTensor(rref);
    await proxyTensor(rref);
  },
  test_rref_proxy_class: (rank) => proxyClass(rank, rank.next()),
  test_rref_proxy_class_self: (rank) => proxyClass(rank, rank.rank),
  test_async_class_method: async (rank) =>
    equal(
      await rpcSync(
        rank.next(),
        py.asyncExecution<(...args: unknown[]) => Tensor>(`${RPC_TEST}.AsyncExecutionClass.class_async_add`),
        [rank.next(2), x(), 1, 2],
      ),
      onesPlus(2, 3),
    ),
  test_async_class_rref_proxy: (rank) => asyncProxy(rank, 'plain'),
  test_async_class_rref_proxy_async: (rank) => asyncProxy(rank, 'plain'),
  test_async_class_rref_proxy_remote: (rank) => asyncProxy(rank, 'remote'),
  test_py_class_constructor: async (rank) => {
    const made = (await rpcSync(rank.next(), inRpc('MyClass'), [n(rank)])) as MyClass;
    assert.ok(made instanceof MyClass);
    equal(made.a, n(rank));
  },
  test_py_class_instance_method: async (rank) => equal(await boundMethod(rank), n(rank) + 2),
  test_py_class_static_method: async (rank) =>
    equal(await rpcSync(rank.next(), inRpc('MyClass.my_static_method'), [n(rank) + 10]), true),
  test_py_class_method: async (rank) =>
    equal(await rpcSync(rank.next(), inRpc('MyClass.my_class_method'), [n(rank), n(rank) + 1]), 2 * n(rank) + 1),
  test_py_multi_async_call: async (rank) => {
    const first = rpcAsync(rank.next(), inRpc('MyClass.my_static_method'), [n(rank) + 10]);
    const second = rpcAsync(rank.next(), py('builtins.min'), [n(rank), n(rank) + 1]);
    equal([await first, await second], [true, n(rank)]);
  },
  test_builtin_remote_ret: builtinRemote,
  test_builtin_remote_self: async (rank) =>
    equal(await remote(rank.rank, add, [x(), x()]).localValue(), onesPlus(2, 1)),
  test_multi_builtin_remote_ret: (rank) =>
    many(rank, (to, size) => remote(to, add, [ones([size, size]), ones([size, size])]), 2),
  test_py_udf_remote: async (rank) => {
    const named = py.kwargs({ a: n(rank), b: n(rank) + 1, c: n(rank) + 2 });
    equal(await remote(rank.next(), inRpc('my_function'), [named]).toHere(), 3 * n(rank) + 3);
  },
  test_multi_py_udf_remote: (rank) =>
    many(
      rank,
      (to, size) => {
        const each = ones([size, size]);
        return remote(to, inRpc('my_function'), [py.kwargs({ a: each, b: each, c: each })]);
      },
      3,
    ),
  test_py_rref_args: (rank) => refArgs(rank, 1, 2, 5),
  test_remote_same_worker: (rank) => refArgs(rank, 2, 1, 5),
  test_py_rref_args_user_share: userShare,
  test_py_rpc_rref_args: async (rank) => {
    const a = remote(rank.next(), inRpc('my_function'), [x(), 1, 2]);
    const b = remote(rank.next(), inRpc('my_function'), [x(), 3, 4]);
    equal(await rpcSync(rank.next(), inRpc('my_rref_function'), [a, b]), full([2, 2], 12));
  },
  test_nested_remote: async (rank) =>
    equal(await remote(rank.next(), inRpc('nested_remote'), [rank.next(2)]).toHere(), onesPlus(2, 3)),
  test_nested_rref: (rank) => nested(rank, 1),
  test_nested_rref_stress: (rank) => nested(rank, 20),
  test_multi_layer_nested_async_rpc: async (rank) => multiLayer((rank.rank + 1) % rank.size, rank.size, 20),
  test_remote_with_exception: async (rank) => {
    await fails(remote(rank.next(), inRpc('raise_func'), []).toHere(), /Expected error/);
    await fails(remote(rank.rank, inRpc('no_result'), [10]).toHere(), /positional argument/);
  },
  test_rpc_return_rref: async (rank) => {
    const rref = (await rpcSync(rank.next(), inRpc('rpc_return_rref'), [rank.next(2)])) as RRef<Tensor>;
    equal(await rref.toHere(), onesPlus(2, 1));
  },
  test_rref_forward_chain: chain,
  test_local_rref_no_fork: async () => equal(await createRRef(35).localValue(), 35),
  test_local_value_not_on_owner: (rank) =>
    fails(
      addHere(rank, ones([1]), ones([1])).localValue(),
      new RegExp(
        `For UserRRef\\(rref_id=GloballyUniqueId\\(created_on=${rank.rank}, local_id=0\\), fork_id=GloballyUniqueId\\(created_on=${rank.rank}, local_id=1\\)\\), can't call localValue\\(\\) on user WorkerInfo\\(id=${rank.rank}, name=worker${rank.rank}\\)`,
      ),
    ),
  test_return_local_rrefs: async (rank) => {
    const rrefs = (await rpcSync(rank.next(), inRpc('get_rref_list'), [[1, 2, 3]])) as RRef<unknown>[];
    for (const rref of rrefs) await rpcSync(rref.owner(), callMethod, [ofClass('increment_value'), rref, 10]);
    const found = rrefs.map((rref) => rpcSync(rref.owner(), callMethod, [ofClass('get_value'), rref]));
    equal(await Promise.all(found), [11, 12, 13]);
  },
  test_rref_type_blocking: typed,
  test_rref_type_non_blocking: typed,
  test_rref_type_owner_blocking: typedHere,
  test_rref_type_owner_non_blocking: typedHere,
  test_rref_type_with_error_blocking: typeFails,
  test_rref_type_with_error_non_blocking: typeFails,
  test_rref_type_slow_init: async (rank) =>
    equal(await remote(rank.next(), inRpc('RpcTest._slow_add'), [ones([2]), 1]).typeName(), 'Tensor'),
  test_owner_equality: async (rank) => {
    const [a, b] = [addHere(rank, ones([1]), 1), addHere(rank, ones([1]), 1)];
    await a.toHere();
    await b.toHere();
    equal(a.owner().id, b.owner().id);
    equal(createRRef(40).owner().id, rank.rank);
    assert.notEqual(createRRef(40).owner().id, a.owner().id);
  },
  test_pass_local_rrefs: async (rank) => {
    const rref = createRRef(40);
    const adding = inRpc('add_rref_to_value');
    equal(await rpcSync(rank.next(), adding, [rref, 50]), 90);
    equal(await rpcAsync(rank.next(), adding, [rref, 50]), 90);
    equal(await remote(rank.next(), adding, [rref, 50]).toHere(), 90);
  },
  test_call_method_on_rref: onRRef,
  test_rref_str: async (rank) => {
    const id = (local: number): string => `GloballyUniqueId(created_on=${rank.rank}, local_id=${local})`;
    equal(createRRef(rank.rank).toString(), `OwnerRRef(${id(0)})`);
    equal(addHere(rank, x(), 1).toString(), `UserRRef(RRefId = ${id(1)}, ForkId = ${id(2)})`);
  },
  test_non_garbage_collected_user_rref_due_to_local_circular_dependency: async (rank) => {
    addHere(rank, onesPlus(rank.rank), 2);
  },
  test_user_rrefs_confirmed: (rank) => confirmed(rank, 'plain'),
  test_user_rrefs_confirmed_remote: (rank) => confirmed(rank, 'remote'),
  test_rref_get_future: async (rank) => {
    if (rank.rank !== 0) return;
    equal(await remote(rank.next(), add, [tensor(1), 1]).toHere(), tensor(2));
    equal(await remote(rank.next(), inRpc('foo_add'), []).toHere(), tensor([2]));
    equal(await remote(rank.next(), py.script(`${RPC_TEST}.my_script_func`), [tensor(1)]).toHere(), tensor(2));
  },
  test_owner_rref_backward: ownerBackward,
  test_user_rref_backward: userBackward,
  test_my_parameter_server: (rank) => serveTrainers(rank, false),
  test_rref_timeout: async (rank) => {
    if (rank.rank !== 0) return;
    const rref = remote(rank.next(), inRpc('my_sleep_func'), [2], { timeoutMs: 10 });
    await fails(rref.toHere(), /RPC ran for more than|RRef creation/);
    await fails(rref.toHere(), /RRef creation/);
    await registered(rank.next());
  },
});

/** As `wait_until_owners_and_forks_on_rank`: the owner knows of one fork of one value. */
async function registered(owner: string): Promise<void> {
  const counts = py<() => readonly string[]>('torch.testing._internal.dist_utils.get_num_owners_and_forks');
  for (const end = performance.now() + 20_000; ;) {
    const found = [...(await rpcSync(owner, counts, []))].map(Number);
    if (found.every((count) => count === 1)) return;
    if (performance.now() > end) assert.fail(`owners and forks at ${owner}: ${found.join(', ')}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
