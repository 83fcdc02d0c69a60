/** @file The servers: they answer every trainer's gradient with the mean of all trainers', when the last one is there. */
import { rpcName, Tensor } from '@backwire/tensor';
import { rpcClass } from '@backwire/rpc';
import { sparseRpcFormatToTensor, sparseTensorToRpcFormat } from '@backwire/wire';
import { type Metrics, MetricsLogger } from './metrics.ts';

/** Indices, values and size of a sparse tensor. */
export type SparseParts = readonly [Tensor, Tensor, readonly number[]];
/** A gradient as it travels. */
export type Gradient = Tensor | SparseParts;

interface Waiting {
  readonly done: (gradient: Gradient) => void;
  readonly fail: (error: Error) => void;
}

/** Adds gradients up as they come. */
export class AverageParameterServer {
  static readonly [rpcName]: string = 'examples/AverageParameterServer';
  protected readonly trainerCount: number;
  /** The gradients of the current batch, by bucket. */
  protected readonly gradients = new Map<number, Tensor[]>();
  private readonly waiting = new Map<number, Waiting[]>();
  private readonly logger = new MetricsLogger();
  private batchNumber = 0;
  private averages = 0;

  constructor(trainerCount: number) {
    this.trainerCount = trainerCount;
  }

  /** Answered when `trainerCount` trainers have sent their gradient of this bucket and batch. */
  averageGradient(batchNumber: number, bucketIndex: number, gradient: Gradient): Promise<Gradient> {
    if (batchNumber < this.batchNumber)
      throw new RangeError(`a gradient of batch ${batchNumber} came after one of batch ${this.batchNumber}`);
    if (batchNumber > this.batchNumber) {
      this.batchNumber = batchNumber;
      this.clearBatch(`batch ${batchNumber} has begun`);
    }
    const key = `${batchNumber},${bucketIndex}`;
    const callers = this.waiting.get(bucketIndex) ?? [];
    if (callers.length === 0) {
      this.logger.recordStart('parameter_server_straggler_metric', key, 'param_index_straggler');
      this.logger.recordStart('parameter_server_batch_metric', key, 'param_index_batch');
      this.waiting.set(bucketIndex, callers);
    }
    this.take(bucketIndex, gradient instanceof Tensor ? gradient : sparseRpcFormatToTensor(gradient));
    return new Promise((done, fail) => {
      callers.push({ done, fail });
      if (callers.length === this.trainerCount) this.answer(bucketIndex, key, callers);
    });
  }

  /** Forgets gradients and metrics. */
  resetState(): void {
    this.batchNumber = 0;
    this.clearBatch('the server was reset');
    this.logger.clear();
  }

  getMetrics(): Metrics {
    return this.logger.processedMetrics();
  }

  /** Keeps one trainer's gradient. */
  protected take(bucket: number, gradient: Tensor): void {
    const sum = this.gradients.get(bucket)?.[0];
    this.gradients.set(bucket, [sum === undefined ? gradient : sum.add(gradient)]);
  }

  /** The mean of what was kept. (The original computes it and then answers with the sum.) */
  private average(bucket: number): Tensor {
    const key = String(this.averages++);
    this.logger.recordStart('method_metric', key, 'average computation');
    const [first, ...more] = this.gradients.get(bucket) ?? [];
    if (first === undefined) throw new TypeError(`bucket ${bucket} has no gradient`);
    const mean = more.reduce((sum, gradient) => sum.add(gradient), first).div(this.trainerCount);
    this.logger.recordEnd('method_metric', key);
    return mean;
  }

  private answer(bucket: number, key: string, callers: readonly Waiting[]): void {
    this.logger.recordEnd('parameter_server_straggler_metric', key);
    const mean = this.average(bucket);
    const gradient = mean.layout === 'sparse_coo' ? sparseTensorToRpcFormat(mean) : mean;
    for (const { done } of callers) done(gradient);
    this.logger.recordEnd('parameter_server_batch_metric', key);
  }

  private clearBatch(why: string): void {
    const left = [...this.waiting.values()].flat();
    this.waiting.clear();
    this.gradients.clear();
    // Those of a batch that is complete have been answered, and hear nothing of this.
    for (const { fail } of left) fail(new Error(`the gradient was not averaged: ${why}`));
  }
}
rpcClass(AverageParameterServer, { methods: ['averageGradient', 'resetState', 'getMetrics'] });

/** Keeps gradients and adds them up when all are there. */
export class AverageBatchParameterServer extends AverageParameterServer {
  static override readonly [rpcName]: string = 'examples/AverageBatchParameterServer';

  protected override take(bucket: number, gradient: Tensor): void {
    this.gradients.set(bucket, [...(this.gradients.get(bucket) ?? []), gradient]);
  }
}
rpcClass(AverageBatchParameterServer, { methods: ['averageGradient', 'resetState', 'getMetrics'] });

export const SERVERS = { AverageParameterServer, AverageBatchParameterServer } as const;
