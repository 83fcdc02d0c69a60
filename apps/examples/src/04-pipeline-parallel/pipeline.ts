/** @file The pipeline as the master sees it: it sends micro-batches in at one end and trains all of it. */
import { concat, crossEntropy, fromBytes, noGrad, optim, tensor, type Tensor } from '@backwire/tensor';
import { remote, type RRef } from '@backwire/rref';
import { backward, context, DistributedOptimizer } from '@backwire/dist-autograd';
import { type Batch, batchOf, type Digits } from '../shared/mnist.ts';
import type { Span } from '../shared/timeline.ts';
import { Stage1, Stage2, Stage3 } from './stages.ts';

/** Digits in one forward pass while testing. */
const TEST_BATCH = 500;

/** The three stages as the master sees them. */
export class Pipeline {
  private readonly first: RRef<Stage1>;
  private readonly second: RRef<Stage2>;
  private readonly third: RRef<Stage3>;
  private optimizer: DistributedOptimizer | undefined;

  constructor(seed: number) {
    this.first = remote('stage1', Stage1, [seed]);
    this.second = remote('stage2', Stage2, [seed]);
    this.third = remote('stage3', Stage3, [seed]);
  }

  async optimizeWith(lr: number): Promise<void> {
    const parameters = await Promise.all([
      this.first.rpcSync().parameterRRefs(),
      this.second.rpcSync().parameterRRefs(),
      this.third.rpcSync().parameterRRefs(),
    ]);
    this.optimizer = await DistributedOptimizer.create(optim.Adam, parameters.flat(), { lr });
  }

  /** Sends `x` through in `microBatches` parts, back again, and steps the parameters. The loss. */
  train({ x, y }: Examples, microBatches: number): Promise<number> {
    return context(async (id) => {
      const size = (x.shape[0] ?? 0) / microBatches;
      const parts = Array.from({ length: microBatches }, (_, i) => this.forward(i, x.narrow(0, i * size, size)));
      const loss = crossEntropy(concat(await Promise.all(parts)), y);
      await backward(id, [loss]);
      await this.optimizer?.step(id);
      return loss.item();
    });
  }

  /** Logits of images. Only references pass through here: each stage fetches its input from the one before. */
  async forward(micro: number, x: Tensor): Promise<Tensor> {
    using one = this.first.remote().forward(micro, x);
    using two = this.second.remote().forward(micro, one);
    return await this.third.rpcAsync().forward(micro, two);
  }

  /** What the stages did since the last call. */
  takeSpans(): Promise<Span[][]> {
    return Promise.all([
      this.first.rpcSync().takeSpans(),
      this.second.rpcSync().takeSpans(),
      this.third.rpcSync().takeSpans(),
    ]);
  }

  /** The share of the first `total` digits that the network gets right. */
  async accuracy(test: Digits, total: number): Promise<number> {
    let right = 0;
    for (let from = 0; from < total; from += TEST_BATCH) {
      const rows = Uint32Array.from({ length: Math.min(TEST_BATCH, total - from) }, (_, i) => from + i);
      const logits = await noGrad(() => this.forward(0, toTensors(batchOf(test, rows)).x));
      const guesses = await logits.argMax(1).data('int64');
      right += guesses.reduce((sum, guess, i) => sum + (Number(guess) === test.labels[from + i] ? 1 : 0), 0);
    }
    return right / total;
  }

  dispose(): void {
    for (const stage of [this.first, this.second, this.third]) stage.dispose();
  }
}

/** Images [n, 1, 28, 28] and labels [n]. */
export interface Examples {
  readonly x: Tensor;
  readonly y: Tensor;
}

/** A batch as tensors. */
export function toTensors({ x, y, count: size }: Batch): Examples {
  return {
    x: fromBytes(new Uint8Array(x.buffer), [size, 1, 28, 28], 'float32'),
    y: tensor(y, { dtype: 'int64' }),
  };
}
