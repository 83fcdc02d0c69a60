/** @file The communication hooks: who averages the gradients of a bucket. */
import type { nn, Tensor } from '@backwire/tensor';
import type { RRef } from '@backwire/rref';
import { sparseRpcFormatToTensor, sparseTensorToRpcFormat } from '@backwire/wire';
import type { MetricsLogger } from './metrics.ts';
import type { AverageParameterServer } from './server.ts';

/** What a hook knows: the trainer it works for, and where in the training it is. */
export interface HookState {
  readonly group: nn.ProcessGroup;
  readonly server: RRef<AverageParameterServer> | null;
  readonly logger: MetricsLogger;
  readonly backend: string;
  /** Counts batches from 0 over all epochs. */
  batch: number;
}

type Hook = (state: HookState, bucket: nn.GradBucket) => Promise<Tensor>;

/** All-reduce among the trainers. */
const allreduceHook: Hook = (state, bucket) => allReduce(state, bucket, state.backend);

/** Two groups in the original: sparse gradients by gloo, dense ones by nccl. Here one group does both. */
const hybridHook: Hook = (state, bucket) =>
  isSparse(bucket)
    ? reduced(state, bucket, 'hook_c10d_metric', 'gloo_sparse_allreduce')
    : allReduce(state, bucket, 'nccl');

/** Every bucket goes to the server. */
const rpcHook: Hook = (state, bucket) => processBucketWithRemoteServer(state, bucket);

/** Sparse buckets go to the server, dense ones are all-reduced. */
const sparseRpcHook: Hook = (state, bucket) =>
  isSparse(bucket) ? processBucketWithRemoteServer(state, bucket) : allReduce(state, bucket, state.backend);

export const HOOKS: Readonly<Record<string, Hook>> = {
  allreduce_hook: allreduceHook,
  hybrid_hook: hybridHook,
  rpc_hook: rpcHook,
  sparse_rpc_hook: sparseRpcHook,
};

/** Sends the bucket to the server, which answers with the mean over its trainers. The call is measured, without the conversions around it. */
async function processBucketWithRemoteServer(state: HookState, bucket: nn.GradBucket): Promise<Tensor> {
  const { server, batch } = state;
  if (server === null) throw new TypeError('this hook needs a server');
  const gradient = bucket.buffer();
  const sparse = isSparse(bucket);
  const sent = sparse ? sparseTensorToRpcFormat(gradient) : gradient;
  const mean = await measured(state, bucket, 'hook_future_metric', sparse ? 'rpc_sparse' : 'rpc_dense', () =>
    server.rpcAsync().averageGradient(batch, bucket.index, sent),
  );
  return 'layout' in mean ? mean : sparseRpcFormatToTensor(mean);
}

function allReduce(state: HookState, bucket: nn.GradBucket, backend: string): Promise<Tensor> {
  const label = `${backend}_${isSparse(bucket) ? 'sparse' : 'dense'}_allreduce`;
  return reduced(state, bucket, 'hook_future_metric', label);
}

/** The mean over all trainers. Their sparse gradients have other rows each: the mean is dense. */
function reduced(state: HookState, bucket: nn.GradBucket, type: string, label: string): Promise<Tensor> {
  const gradient = bucket.buffer();
  const sent = isSparse(bucket) ? gradient.toDense() : gradient;
  return measured(state, bucket, type, label, () => state.group.allReduce(sent, 'mean'));
}

/** A measurement ends with what it measures, however that ends. */
async function measured<T>(
  { logger, batch }: HookState,
  bucket: nn.GradBucket,
  type: string,
  label: string,
  work: () => Promise<T>,
): Promise<T> {
  const key = `${batch},${bucket.index}`;
  logger.recordStart(type, key, label);
  try {
    return await work();
  } finally {
    logger.recordEnd(type, key);
  }
}

function isSparse(bucket: nn.GradBucket): boolean {
  return bucket.buffer().layout === 'sparse_coo';
}
