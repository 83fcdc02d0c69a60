/** @file A trainer: the dummy model, replicated, on its share of the dummy data. */
import { crossEntropy, manualSeed, nn, optim, type Tensor, tensor } from '@backwire/tensor';
import { processGroup, rpcFunction } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import { generator, permutation } from '../shared/random.ts';
import type { DataConfiguration, ModelConfiguration } from './configurations.ts';
import { HOOKS, type HookState } from './hooks.ts';
import { type Metrics, MetricsLogger } from './metrics.ts';
import type { AverageParameterServer } from './server.ts';

const LEARNING_RATE = 1e-4;

/** Word numbers [samples, sample_length] and targets [samples]. */
export type DataBatch = readonly [Tensor, Tensor];

/** Random samples that use only a part of the words, cut into batches. */
export function dummyData(configuration: DataConfiguration, batchSize: number, seed: number): DataBatch[] {
  const { max_val, sample_count, sample_length, sparsity_percentage } = configuration;
  const random = generator(seed, 1);
  const used = permutation(max_val, random).subarray(0, Math.floor((max_val * (100 - sparsity_percentage)) / 100));
  const inputs = BigInt64Array.from({ length: sample_count * sample_length }, () =>
    BigInt(used[Math.floor(random() * used.length)] ?? 0),
  );
  const targets = BigInt64Array.from({ length: sample_count }, () => BigInt(Math.floor(random() * max_val)));
  return Array.from({ length: Math.ceil(sample_count / batchSize) }, (_, i): DataBatch => {
    const [from, to] = [i * batchSize, Math.min((i + 1) * batchSize, sample_count)];
    const x = inputs.slice(from * sample_length, to * sample_length);
    return [
      tensor(x, { dtype: 'int64', shape: [to - from, sample_length] }),
      tensor(targets.slice(from, to), { dtype: 'int64' }),
    ];
  });
}

/** An embedding bag, then linear layers, then softmax. */
class DummyModel extends nn.Module {
  readonly embedding: nn.EmbeddingBag;
  readonly dense: nn.Linear[];

  constructor(configuration: ModelConfiguration) {
    super();
    const { num_embeddings, embedding_dim, dense_input_size, dense_output_size, sparse } = configuration;
    this.embedding = new nn.EmbeddingBag(num_embeddings, embedding_dim, { sparse });
    this.dense = Array.from(
      { length: configuration.dense_layers_count },
      () => new nn.Linear(dense_input_size, dense_output_size),
    );
  }

  forward(x: Tensor): Tensor {
    return this.dense.reduce((y, layer) => layer.forward(y), this.embedding.forward(x)).softmax(1);
  }
}

/** What a trainer is told. */
export interface TrainerTask {
  readonly trainers: readonly string[];
  readonly model: ModelConfiguration;
  readonly hook: string;
  readonly backend: string;
  readonly epochs: number;
  readonly seed: number;
}

/** Trains on `data` and answers with what it measured. */
export const runTrainer = rpcFunction(
  'examples/run_trainer',
  async (
    task: TrainerTask,
    data: readonly DataBatch[],
    server: RRef<AverageParameterServer> | null,
  ): Promise<Metrics> => {
    manualSeed(task.seed);
    const logger = new MetricsLogger();
    const group = processGroup({ workers: task.trainers });
    const state: HookState = { group, server, logger, backend: task.backend, batch: -1 };
    const model = new nn.DistributedDataParallel(new DummyModel(task.model), { group });
    const hook = HOOKS[task.hook];
    if (hook === undefined) throw new RangeError(`there is no hook '${task.hook}'`);
    model.registerCommHook(state, hook);
    const optimizer = new optim.SGD(model.parameters(), { lr: LEARNING_RATE });
    for (let epoch = 0; epoch < task.epochs; epoch++) {
      for (const [index, [x, y]] of data.entries()) {
        const key = `${epoch},${index}`;
        state.batch++;
        logger.recordStart('batch_level_metric', key, 'batch_all');
        optimizer.zeroGrad();
        logger.recordStart('forward_metric', key, 'forward_pass');
        const loss = crossEntropy(model.forward(x), y);
        logger.recordEnd('forward_metric', key);
        logger.recordStart('backward_metric', key, 'backward');
        await model.backward(loss);
        logger.recordEnd('backward_metric', key);
        optimizer.step();
        logger.recordEnd('batch_level_metric', key);
      }
    }
    return logger.processedMetrics();
  },
);
