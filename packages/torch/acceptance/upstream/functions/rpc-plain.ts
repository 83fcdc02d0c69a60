/** @file Functions of `rpc_test` that compute, wait or fail, as this worker has them. */
import { add, mul, ones, relu, sigmoid, tensor, type Tensor } from '@backwire/tensor';
import { ambient } from '@backwire/tensor/internal';
import { currentAgent } from '@backwire/rpc';
import type { Agent } from '../../../src/agent.ts';
import { PyName } from '../../../src/index.ts';
import { PyException } from '../../../src/values/objects.ts';
import { state } from '../state.ts';
import { DIST_UTILS, RPC_TEST, named, offer, plus, sleep, sparse, tuple, type Value } from './common.ts';

const EXPECTED = 'Expected error';
const ESCAPED = '\nFirst line of error \n next line of error \n last line of error';

export const sparseTensor = (coalesced = false): Tensor => {
  const made = sparse([3, 4, 5], [2, 3], 'int64');
  return coalesced ? made.coalesce() : made;
};

const myFunction = (a: unknown, b: unknown, c: unknown): Value => plus(plus(a, b), c);

/** As Python's, in the tensors that it got. */
export const myContainerSum = (a: readonly Tensor[]): Tensor =>
  a.slice(1).reduce((sum, each) => add(sum, each), a[0] as Tensor);

function complexFunction(
  list: readonly Tensor[],
  { tensors }: { tensors: readonly unknown[] },
  dict: Map<string, Tensor>,
) {
  const sum = list[0] as Tensor;
  for (const each of list) sum.add_(each);
  for (const each of dict.values()) sum.add_(each);
  return tuple(sum, tensors[0], tensors[1], tensors[2]);
}

/** `heavy_rpc`: as many operations, one after the other. */
function heavy(x: Tensor): number {
  let value = x;
  for (let i = 1; i < 100; i++) value = value.mul(i).div(i + 1);
  return 0;
}

function noResult(...args: readonly unknown[]): null {
  if (args.length > 0) throw new TypeError(`no_result() takes 0 positional arguments but ${args.length} was given`);
  return null;
}

function customError(): PyException {
  return new PyException(new PyName(RPC_TEST, 'CustomException'), ['foo']);
}

/** Tells a profile of what torch has as an operation of its own, and tensors here have not. */
function marked<T>(name: string, run: () => T): T {
  const { profile } = ambient();
  const token = profile?.begin(name, []);
  try {
    return run();
  } finally {
    profile?.end(token, undefined);
  }
}

function udfWithOps(_device?: number, recorded = false): null {
  const run = (): void => {
    const t = add(
      marked('aten::ones', () => ones([1])),
      marked('aten::ones', () => ones([1])),
    );
    sigmoid(marked('aten::clamp_min', () => relu(mul(t, t))));
  };
  if (recorded) marked('##forward##', run);
  else run();
  return null;
}

const raise = (error: Error): never => {
  throw error;
};

offer(RPC_TEST, {
  foo_add: () => {
    if (state().withdrawn.has('foo_add'))
      throw new Error('foo_add is gone: the default RPC pickler does not serialize function code');
    return add(ones([1]), ones([1]));
  },
  udf_with_torch_ops: udfWithOps,
  _increment_count: () => {
    state().barrierCount++;
    return null;
  },
  _reset_count: () => {
    state().barrierCount = 0;
    return null;
  },
  set_value: (value: unknown) => {
    state().value.set(value);
    return null;
  },
  wait_for_value_future: () => state().value.value,
  set_and_check_done: async (value: unknown) => {
    state().value.set(value);
    return state().done.value;
  },
  run_nested_pickle: ({ t }: { t: Tensor }, x: Tensor) => add(t, x),
  build_sparse_tensor: sparseTensor,
  non_cont_test: (view: Tensor, contiguous: Tensor) => {
    if (view.eq(contiguous).all().item() !== 1) throw new Error('t_view is not equal to t_cont!');
    return view;
  },
  my_function: named(['a', 'b', 'c'], myFunction),
  my_tensor_function: plus,
  my_container_sum: myContainerSum,
  my_sleep_func: async (seconds: number = 1) => {
    await sleep(seconds);
    return mul(tensor(1, { dtype: 'int64' }), tensor(1, { dtype: 'int64' }));
  },
  my_complex_tensor_function: complexFunction,
  delayed_add: async (a: unknown, b: unknown, seconds: number = 0.05) => {
    await sleep(seconds);
    return plus(a, b);
  },
  identity: (value: unknown) => value,
  no_result: noResult,
  raise_or_inc: (value: Tensor) => {
    if (value.size === 2) throw new RangeError(EXPECTED);
    return add(value, 1);
  },
  light_rpc: () => 0,
  heavy_rpc: heavy,
  heavy_rpc_sparse: heavy,
  heavy_rpc_torchscript: heavy,
  my_script_func: (x: Tensor) => add(x, x),
  raise_func: () => raise(new RangeError(EXPECTED)),
  custom_raise_func: () => raise(customError()),
  raise_func_script: (text: string) => raise(new Error(text)),
  raise_func_escape: () => raise(new RangeError(ESCAPED)),
  fail_on_fut: () => null,
  return_future: () => raise(new Error('Can not pickle torch.futures.Future')),
  'RpcTest.return_callee_id': () => currentAgent().id,
  'RpcTest._slow_add': async (x: Tensor, y: Value) => {
    await sleep(1);
    return plus(x, y);
  },
  'RpcTest._sum': (x: Tensor) => x.sum(),
  'RpcTest._identity': (x: unknown) => x,
  'RpcTest.timed_out_rpc': async () => {
    await state().timedOut.value;
    return null;
  },
});

offer('builtins', { min: (...numbers: number[]) => Math.min(...numbers) });

/** Counts as torch gives them: texts. */
function counts(): Map<string, string> {
  const { num_owner_rrefs, num_forks, num_pending_users, num_pending_futures } = (
    currentAgent() as unknown as Agent
  ).rrefs.debugInfo();
  return new Map(
    Object.entries({ num_owner_rrefs, num_forks, num_pending_users, num_pending_futures }).map(([name, count]) => [
      name,
      String(count),
    ]),
  );
}

offer(RPC_TEST, { get_rref_debug_info: counts });
offer(DIST_UTILS, {
  noop: () => null,
  get_num_owners_and_forks: () => {
    const found = counts();
    return tuple(found.get('num_owner_rrefs'), found.get('num_forks'));
  },
});
