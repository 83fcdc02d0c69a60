/** @file The trainers of `test_my_parameter_server`: methods of the test case itself, which its ranks send along. */
import { createRRef, type RRef } from '@backwire/rref';
import { rpcAsync } from '@backwire/rpc';
import { nn, rand, zeros, type Tensor } from '@backwire/tensor';
import { PyName, py, type TorchAgent } from '../../../src/index.ts';
import { PyInstance } from '../../../src/values/objects.ts';
import { RPC_TEST } from './common.ts';
import { MyParameterServer } from './rpc-classes.ts';

/** The module in which the driver has the test cases. */
const CASES = 'mixed_tests';

interface Server {
  average(rref: RRef<Server>, iteration: number, gradient: Tensor): Tensor;
  get_gradient(rref: RRef<Server>): Tensor;
}

/** Ten rounds with a model of its own; what the server averaged is what it keeps. */
async function train(rref: RRef<Server>, sparse: boolean): Promise<null> {
  const bag = new nn.EmbeddingBag(10, 10, { sparse });
  // Python has decorated the server's `average`; here the method is called as it is.
  const average = py.asyncExecution<(...args: unknown[]) => Tensor>(
    'torch.distributed.rpc.rref_proxy._local_invoke_async_execution',
  );
  for (let i = 0; i < 10; i++) {
    const ids = zeros([10, 10], { dtype: 'int64' });
    bag
      .forward(ids)
      .sub(rand([10, 10]))
      .square()
      .mean()
      .backward();
    const gradient = bag.weight.grad as Tensor;
    const averaged = await rpcAsync(rref.owner(), average, [
      rref,
      'average',
      py.tuple<unknown>(rref, i, gradient),
      new Map(),
    ]);
    const kept = await rref.rpcSync().get_gradient(rref);
    if (!averaged.toDense().allClose(kept.toDense())) throw new Error('the server kept another gradient');
  }
  return null;
}

class Case {
  _trainer_func(rref: RRef<Server>, sparse: boolean): Promise<null> {
    return train(rref, sparse);
  }
}

/** Lets the other ranks name the method by the case that they send. */
export function offerTrainers(agent: TorchAgent): void {
  for (const name of ['MixedRpcTest', 'MixedTensorPipeAgentRpcTest']) {
    class OwnCase extends Case {}
    agent.offer(`${CASES}.${name}`, OwnCase, ['_trainer_func']);
  }
}

/** The rank that serves. */
interface Serving {
  readonly size: number;
  next(distance: number): string;
}

/** The server here, and its trainers on the other ranks. */
export async function serveTrainers(rank: Serving, sparse: boolean): Promise<void> {
  const rref = createRRef(new MyParameterServer(rank.size - 1));
  const name = sparse ? 'MixedTensorPipeAgentRpcTest' : 'MixedRpcTest';
  const one = new PyInstance(new PyName(CASES, name), [], { state: new Map([['of', 'a test']]) });
  const trainer = py<(...args: unknown[]) => unknown>(`${RPC_TEST}.RpcTestCommon._trainer_func`);
  await Promise.all([1, 2, 3].map((distance) => rpcAsync(rank.next(distance), trainer, [one, rref, sparse])));
}
