/** @file Functions of `dist_autograd_test`. */
import { backward, context, getGradients } from '@backwire/dist-autograd';
import { rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import { add, customFunction, matmul, mul, ones, rpcName, sub, type DType, type Tensor } from '@backwire/tensor';
import { py } from '../../../src/index.ts';
import { workerName } from '../rank.ts';
import { state } from '../state.ts';
import { AUTOGRAD_TEST, named, offer, plus, requiring, sleep, sparse } from './common.ts';

type To = string | number;

const sparseTensor = (coalesced = false, requiresGrad = true, dtype: DType = 'float32'): Tensor => {
  const made = sparse([3.2, 4.1, 5.3], [3, 3], dtype);
  const all = coalesced ? made.coalesce() : made;
  return requiresGrad ? requiring(all) : all;
};

/** Fails when gradients come by, as long as the test wants it. */
export const simulateError = customFunction({
  forward: (_, x) => x.clone(),
  backward: (_, grad) => {
    if (state().failsInBackward) throw new Error('Simulate error on backward pass');
    return [grad];
  },
});

const multiDot = (...factors: Tensor[]): Tensor => factors.reduce((product, factor) => matmul(product, factor));
const transposed = (x: Tensor): Tensor => x.transpose(0, 1);

function complexUdf(t1: Tensor, t2: Tensor): Tensor {
  const t3 = matmul(t1, transposed(t2));
  const t4 = matmul(t2, transposed(t3));
  const t5 = matmul(t3, transposed(t4));
  return multiDot(t1, t2, t3, t4, t5);
}

function withError(t1: Tensor, t2: Tensor): Tensor {
  const t3 = add(t1, t2);
  return multiDot(t1, t2, t3, simulateError(t3));
}

async function nestedError(a: Tensor, b: Tensor, dst: number): Promise<Tensor> {
  const t1 = mul(a, b);
  const t2 = add(t1, b);
  const failing = py<typeof withError>(`${AUTOGRAD_TEST}.DistAutogradTest._python_udf_with_backward_error`);
  return multiDot(t1, t2, await rpcSync(workerName(dst), failing, [t1, t2]));
}

async function nestedUdf(t1: Tensor, t2: Tensor, dst: number): Promise<Tensor> {
  const t3 = mul(t1, t2);
  const t4 = add(t1, t2);
  const sum = await rpcSync(workerName(dst), py<typeof add>(`${AUTOGRAD_TEST}.my_py_add`), [t3, t4]);
  return mul(mul(mul(mul(t1, t2), t3), t4), sum);
}

async function nestedCall(t1: Tensor, t2: Tensor, dst: number, size: number, hops: number): Promise<Tensor> {
  const next = (dst + 1) % size;
  if (hops === 0) return rpcSync(workerName(next), py<typeof add>(`${AUTOGRAD_TEST}.my_py_add`), [t1, t2]);
  const again = py<typeof nestedCall>(`${AUTOGRAD_TEST}.my_py_nested_call`);
  return rpcSync(workerName(next), again, [t1, t2, next, size, hops - 1]);
}

function setRpcDone(id: bigint | number | null, distance: number): null {
  const { contexts, known, rpcDone } = state();
  rpcDone[distance]?.set(undefined);
  if (id !== null) {
    contexts[distance] = BigInt(id);
    known.add(BigInt(id));
  }
  return null;
}

async function rrefAdd(rref: RRef<Tensor>, t2: Tensor): Promise<Tensor> {
  return add(await rref.localValue(), t2);
}

async function compareOwner(id: bigint | number, rref: RRef<Tensor>, expected: Tensor): Promise<boolean> {
  const found = getGradients(BigInt(id)).get(await rref.localValue());
  if (found === undefined || (found.sparse === undefined) !== (expected.sparse === undefined))
    throw new Error('no gradient of that kind');
  return found.toDense().eq(expected.toDense()).all().item() === 1;
}

/** A trainer of `test_trainer_ps`; `adding` is the function that it calls at the server. */
const trainer =
  (adding: typeof py.script) =>
  async (rref: RRef<Tensor>, t2: Tensor, ps: string, distance: number): Promise<null> => {
    await context(async (id) => {
      const name = adding === py.script ? 'my_script_ref_add' : 'my_rref_add';
      const ret = await rpcSync(ps, adding<typeof rrefAdd>(`${AUTOGRAD_TEST}.${name}`), [rref, t2]);
      await backward(id, [ret.sum()]);
      await rpcSync(ps, py<typeof setRpcDone>(`${AUTOGRAD_TEST}._set_rpc_done`), [id, distance]);
      await rpcSync(ps, py(`${AUTOGRAD_TEST}._check_rpc_done`), [0], { timeoutMs: 60_000 });
    });
    return null;
  };

export const createTensor = (): Tensor => ones([3, 3], { requiresGrad: true });

offer(AUTOGRAD_TEST, {
  _set_rpc_done: setRpcDone,
  _check_rpc_done: async (distance: number) => {
    await state().rpcDone[distance]?.value;
    return null;
  },
  _torch_ones: (shape: readonly number[], requires: boolean | { requires_grad?: boolean } = false) => {
    const made = ones([...shape]);
    const wanted = typeof requires === 'object' ? requires.requires_grad === true : requires;
    return wanted ? requiring(made) : made;
  },
  _compare_owner_value: compareOwner,
  create_tensor: createTensor,
  create_torchscript_tensor: createTensor,
  build_sparse_tensor: named(['coalesce', 'requires_grad', 'dtype'], sparseTensor),
  my_py_add: (a: Tensor, b: Tensor) => add(a, b),
  my_scalar_add: plus,
  my_rref_add: rrefAdd,
  my_script_add: (a: Tensor, b: Tensor) => add(a, b),
  my_script_ref_add: async (rref: RRef<Tensor>, t2: Tensor) => add(await rref.toHere(), t2),
  my_nested_rref_add: (dst: To, rref: RRef<Tensor>, t2: Tensor) =>
    rpcSync(dst, py<typeof rrefAdd>(`${AUTOGRAD_TEST}.my_rref_add`), [rref, t2]),
  ret_requires_grad: () => state().requiresGrad,
  my_py_nested_call: nestedCall,
  _run_trainer: trainer(py),
  _run_trainer_torchscript: trainer(py.script),
});

class DistAutogradTest {
  static readonly [rpcName] = `${AUTOGRAD_TEST}.DistAutogradTest`;
}
rpcClass(DistAutogradTest, { methods: [] });

interface Embedding {
  readonly weight: Tensor;
  forward(ids: Tensor, offsets: Tensor, weights: Tensor): Tensor;
}

const ofTest = {
  _complex_python_udf: complexUdf,
  _python_udf_with_backward_error: withError,
  _nested_rpc_call_backward_error: nestedError,
  _nested_python_udf: nestedUdf,
  _mixed_requires_grad_operaton: (t1: Tensor, t2: Tensor): Tensor => (t2.requiresGrad ? sub(t1, t2) : mul(t1, t2)),
  _test_nested_backward_accumulate_grads: (t1: Tensor, t2: Tensor, dst: number) =>
    rpcSync(workerName(dst), add, [t1, t2]),
  _slow_add: async (t1: Tensor, t2: Tensor) => {
    await sleep(1);
    return requiring(add(t1, t2));
  },
  _call_remote_embedding: async (rref: RRef<Embedding>, ids: Tensor, offsets: Tensor, weights: Tensor) =>
    (await rref.localValue()).forward(ids, offsets, weights),
  _get_grad: async (rref: RRef<Embedding>, id: bigint | number): Promise<Tensor> =>
    getGradients(BigInt(id)).get((await rref.localValue()).weight) as Tensor,
};
for (const [name, fn] of Object.entries(ofTest))
  rpcFunction(`${AUTOGRAD_TEST}.DistAutogradTest.${name}`, fn as (...args: never[]) => unknown);
