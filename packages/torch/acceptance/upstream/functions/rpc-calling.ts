/** @file Functions of `rpc_test` that make calls of their own. */
import { rpcAsync, rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { add, ones, zerosLike, type Tensor } from '@backwire/tensor';
import { py } from '../../../src/index.ts';
import { state } from '../state.ts';
import { workerName } from '../rank.ts';
import { RPC_TEST, call, offer, plus, sleep, tuple, type Value } from './common.ts';
import { MyClass } from './rpc-classes.ts';
import { sparseTensor } from './rpc-plain.ts';

type To = string | number;

const sumAt = (to: To, x: unknown, y: unknown): Promise<Tensor> => rpcAsync(to, add, [x as Tensor, y as Tensor]);

async function chained(to: To, x: Tensor, y: Value, z: Value): Promise<Value> {
  return plus(await sumAt(to, x, y), z);
}

async function fanout(to: To, x: Tensor, count: number, step: number): Promise<Tensor> {
  const parts = Array.from({ length: count }, (_, i) =>
    i === 0 ? sumAt(to, x, step) : rpcAsync(to, add, [0 as never, step]),
  );
  let sum = zerosLike(x);
  for (const part of parts) sum = add(sum, await part);
  return sum;
}

/** Calls itself at the next rank, and waits for nothing. */
export function multiLayer(dst: number, size: number, ttl: number): number | null {
  if (ttl <= 0) return null;
  const next = py<typeof multiLayer>(`${RPC_TEST}.multi_layer_nested_async_rpc`);
  rpcAsync(workerName(dst), next, [(dst + 1) % size, size, ttl - 1]).catch(() => undefined);
  return 0;
}

export async function forwardChain(dst: number, size: number, rref: RRef<unknown>, ttl: number): Promise<unknown> {
  if (ttl <= 0) return rref.toHere();
  const next = py<typeof forwardChain>(`${RPC_TEST}.rref_forward_chain`);
  return [remote(workerName(dst), next, [(dst + 1) % size, size, rref, ttl - 1])];
}

const onesAnd = (dst: To, value: number): RRef<Tensor> => remote(dst, add, [ones([2, 2]), value]);
const sparseAt = (dst: To): RRef<Tensor> => remote(dst, add, [sparseTensor(), sparseTensor()]);

async function bothHere(a: RRef<Value>, b: RRef<Value>): Promise<Value> {
  return plus(await a.toHere(), await b.toHere());
}

offer(RPC_TEST, {
  _call_method_on_rref: async (method: unknown, rref: RRef<unknown>, ...args: unknown[]) =>
    (await call(method, await rref.localValue(), ...args)) ?? null,
  get_rref_list: (values: readonly number[]) => values.map((value) => createRRef(new MyClass(value))),
  get_events_from_profile: async (rref: RRef<{ process_global_function_events: unknown }>) =>
    (await rref.localValue()).process_global_function_events,
  add_rref_to_value: async (rref: RRef<Value>, value: Value) => plus(await rref.toHere(), value),
  my_rref_function: bothHere,
  nested_rpc: (dst: To) => rpcSync(dst, add, [ones([2, 2]), 1]),
  nested_rpc_sparse: (dst: To) => rpcSync(dst, add, [sparseTensor(), sparseTensor()]),
  multi_layer_nested_async_rpc: multiLayer,
  nested_rref: (dst: To) => tuple(onesAnd(dst, 1), onesAnd(dst, 2)),
  nested_rref_sparse: (dst: To) => tuple(sparseAt(dst), sparseAt(dst)),
  nested_remote: (dst: To) => onesAnd(dst, 3).toHere(),
  nested_remote_sparse: (dst: To) => sparseAt(dst).toHere(),
  rref_forward_chain: forwardChain,
  rpc_return_rref: (dst: To) => onesAnd(dst, 1),
  set_global_rref: (rref: RRef<unknown>) => {
    state().rref = rref;
    return null;
  },
  clear_global_rref: () => {
    state().rref?.dispose();
    state().rref = undefined;
    return null;
  },
  check_rref_confirmed: (rref: RRef<unknown>) => rref.confirmedByOwner(),
  add_use_future_cb: chained,
  add_use_future_set_result: chained,
  add_use_future_nested_cb: async (to: To, x: Tensor, y: Value, z: Value) => sumAt(to, await sumAt(to, x, y), z),
  async_raise_func: () => {
    throw new Error('Expected error');
  },
  async_wrong_type: () => {
    throw new Error(
      'Functions decorated with @rpc.async_function must return a torch.futures.Future object, got a tensor',
    );
  },
  async_add: sumAt,
  slow_add: async (x: Tensor, y: Tensor) => {
    await sleep(1);
    return add(x, y);
  },
  slow_async_add: (to: To, x: Tensor, y: Tensor, device = 'cpu') =>
    rpcAsync(to, py<(a: Tensor, b: Tensor, device: string) => Tensor>(`${RPC_TEST}.slow_add`), [x, y, device]),
  async_add_with_future_ctor: chained,
  async_add_chained: chained,
  async_add_chained_multi: async (to: To, x: Tensor, count: number, step: number) => {
    let sum: Value = await sumAt(to, x, 0);
    for (let i = 0; i < count; i++) sum = plus(sum, step);
    return sum;
  },
  async_add_nested: async (to: To, x: Tensor, y: Value, z: Value) =>
    plus(await rpcAsync(to, py.asyncExecution<typeof sumAt>(`${RPC_TEST}.async_add`), [to, x, y]), z),
  async_add_multi_fanout: fanout,
});

rpcFunction(`${RPC_TEST}.AsyncExecutionClass.static_async_add`, chained);
