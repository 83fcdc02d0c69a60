/** @file DataLoader: batches of a data set, in the order of a sampler, some of them made ahead. */
import { kindOf } from '../given.ts';
import { checkArguments } from '../arguments.ts';
import { defaultCollate, type Batch } from './collate.ts';
import type { Dataset } from './dataset.ts';
import { checkLoaderOptions, type DataLoaderOptions } from './loader-options.ts';
import { BatchSampler, Draws, RandomSampler, SequentialSampler, type Sampler } from './samplers.ts';
import { asDataset, END, isStream, Numbered, Streamed, type SampleStream, type Source } from './sources.ts';
import { WorkerEpochs } from './worker-epochs.ts';
import type { Wanted } from './worker-messages.ts';
import { planOf } from './worker-plan.ts';
import { ASYNC_DISPOSE } from '../disposal.ts';

/**
 * `for await (const [x, y] of loader)`: one epoch. A batch's samples are asked for at once, and batches come in order. With `prefetch` the
 * next are asked for meanwhile: a data set whose samples come from files or other workers then loads beside the training. With `numWorkers`
 * threads make the batches, and give their memory over. The first error ends the epoch; leaving the loop asks for nothing more, and ends the
 * epoch's threads; `close` ends those that outlive it.
 * @example
 * ```ts
 * const set = new data.TensorDataset(arange(5).reshape([5, 1]), arange(5));
 * for await (const [x, y] of new data.DataLoader(set, { batchSize: 2 })) {
 *   console.log(x!.shape, y!.toArray()); // [ 2, 1 ] [ 0n, 1n ]
 * }
 * ```
 */
export class DataLoader<T, B = Batch<T>> implements AsyncIterable<B> {
  readonly dataset: Dataset<T> | readonly T[] | SampleStream<T>;
  private readonly batches: Sampler<number[]> | undefined;
  /** Without batches: the order of single samples. */
  private readonly singles: Sampler | undefined;
  private readonly collate: (samples: T[]) => B | Promise<B>;
  private readonly prefetch: number;
  private readonly batchSize: number | null;
  private readonly dropLast: boolean;
  /** Of each epoch, where the random numbers of threads begin; drawn without threads, too, so that what follows is the same. */
  private readonly seeds: Draws;
  private readonly workers: WorkerEpochs<B> | undefined;

  /**
   * @throws TypeError for options that exclude each other, and for a data set or a function that threads cannot find; RangeError for sizes that
   * are no whole numbers; TensorError for `numWorkers` where there are no threads.
   */
  constructor(dataset: Dataset<T> | readonly T[] | SampleStream<T>, options: DataLoaderOptions<T, B> = {}) {
    if (typeof (dataset as unknown) !== 'object' || (dataset as unknown) === null)
      throw new TypeError(`data.DataLoader: dataset is a list, a data set or a stream, got ${kindOf(dataset)}`);
    const stream = isStream(dataset);
    checkArguments('data.DataLoader', [dataset, options]);
    checkLoaderOptions(options, stream);
    const { batchSize = 1, dropLast = false, prefetch = 0, numWorkers = 0 } = options;
    this.dataset = dataset;
    this.batchSize = batchSize;
    this.dropLast = dropLast;
    this.prefetch = prefetch;
    this.seeds = new Draws(options.seed);
    this.collate = options.collate ?? ((samples) => defaultCollate(samples) as B);
    if (numWorkers > 0) this.workers = new WorkerEpochs(planOf(dataset, stream, options), options);
    if (stream) return;
    this.singles = options.sampler ?? orderOf(dataset, options);
    if (batchSize !== null) this.batches = options.batchSampler ?? new BatchSampler(this.singles, batchSize, dropLast);
  }

  /** Batches in an epoch. @throws TypeError for a stream, whose end nobody knows. */
  get length(): number {
    const sampler = this.batches ?? this.singles;
    if (sampler === undefined) throw new TypeError('DataLoader: a stream of samples has no length');
    return sampler.length;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<B, void, undefined> {
    const seed = this.seeds.epoch().below(MAX_SEED);
    if (this.workers !== undefined) return yield* this.workers.run({ order: this.wanted(), seed });
    const source = this.open();
    const pending: Promise<B | typeof END>[] = [];
    try {
      for (;;) {
        for (let next; pending.length <= this.prefetch && (next = source.next()) !== undefined;) {
          // It is thrown where the program comes to it; if it never does, nobody asked for it.
          next.catch(() => undefined);
          pending.push(next);
        }
        const batch = await (pending.shift() ?? END);
        if (batch === END) return;
        yield batch;
      }
    } finally {
      await source.close();
    }
  }

  /** Ends the threads that wait for another epoch, and those of an epoch that runs, which fails. A later epoch has new ones. */
  async close(): Promise<void> {
    await this.workers?.close();
  }

  [ASYNC_DISPOSE](): Promise<void> {
    return this.close();
  }

  private open(): Source<B> {
    const { dataset, batchSize, dropLast } = this;
    if (isStream(dataset)) return new Streamed(dataset, { batchSize, dropLast, collate: this.collate });
    const samples: Dataset<T> = asDataset(dataset);
    if (this.batches !== undefined)
      return new Numbered(this.batches, async (indices) =>
        this.collate(await Promise.all(indices.map(async (i) => samples.get(i)))),
      );
    // Without batches, B is T.
    return new Numbered(this.singles ?? new SequentialSampler(samples), async (i) => samples.get(i) as Promise<B>);
  }

  /** What threads are asked for, one after the other. */
  private wanted(): Iterator<Wanted> {
    return (this.batches ?? this.singles)?.[Symbol.iterator]() ?? endless();
  }
}

/** With the number of a thread added, and many more, it is still exact. */
const MAX_SEED = 2 ** 48;

function* endless(): Iterator<undefined> {
  for (;;) yield undefined;
}

function orderOf<T, B>(dataset: { readonly length: number }, options: DataLoaderOptions<T, B>): Sampler {
  const { shuffle = false, seed } = options;
  return shuffle ? new RandomSampler(dataset, seed === undefined ? {} : { seed }) : new SequentialSampler(dataset);
}
