/** @file What the rank that is played here does in each of PyTorch's tests. */
import { autogradContexts } from './autograd-contexts.ts';
import { autogradFailures } from './autograd-failures.ts';
import { autogradPasses } from './autograd-passes.ts';
import type { Bodies, Body } from './body.ts';
import { modules } from './modules.ts';
import { optimizers } from './optimizer.ts';
import { rpcCalls } from './rpc-calls.ts';
import { rpcGroups } from './rpc-groups.ts';
import { rpcRRefs } from './rpc-rrefs.ts';
import { tensorPipe } from './tensorpipe.ts';

const SERVES: Body = { does: 'answers the calls of the other ranks', run: () => undefined };

/** Tests in which each rank looks at torch's own API, and no group is joined. */
const ALONE: Body = {
  does: 'nothing: the test is of the API of Python, without a group',
  own: true,
  run: () => undefined,
};
const alone: Bodies = Object.fromEntries(
  [
    'test_build_rpc_profiling_key',
    'test_cannot_infer_backend_from_options',
    'test_dynamic_rpc_init_rpc_without_rank',
    'test_invalid_names',
    'test_tensorpipe_options_throw_on_timedelta_timeout',
    'test_use_rpc_pickler',
    'test_world_size_one',
    'test_world_size_one_sparse',
    'test_wrong_types',
  ].map((test) => [test, ALONE]),
);

/** What cannot be played by a worker of another kind. */
const NOT_PORTABLE: Readonly<Record<string, string>> = {
  test_pg_init_no_rpc_init: 'DistributedDataParallel, with all collectives of its process group, and no RPC',
  test_duplicate_name: 'calls a private entry of torch with a store of its own, whose keys have no prefix',
};

/** Why a test is not run; undefined for one that is. */
export function notPortable(test: string): string | undefined {
  return NOT_PORTABLE[test];
}

/** Tests that torch's own ranks do not end at times, in groups of torch alone, too. */
const HANGING: Readonly<Record<string, string>> = {
  test_dynamic_rpc_init_rpc:
    'a rank of torch that waits for its turn to leave holds its connection to the store, which its answer to a rank that joins needs',
};

/** Why ranks of torch do not end a test at times; undefined for all others. */
export function hangsInTorch(test: string): string | undefined {
  return HANGING[test];
}

const BY_CLASS: Readonly<Record<string, Bodies>> = {
  RpcTest: { ...alone, ...rpcCalls, ...rpcRRefs, ...rpcGroups },
  DistAutogradTest: { ...autogradContexts, ...autogradPasses, ...autogradFailures },
  DistOptimizerTest: optimizers,
  RemoteModuleTest: modules,
  ThreeWorkersRemoteModuleTest: modules,
  TensorPipeAgentRpcTest: { ...alone, ...tensorPipe },
};

export function bodyOf(name: string, test: string): Body {
  return BY_CLASS[name]?.[test] ?? SERVES;
}
