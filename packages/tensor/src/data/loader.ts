/** @file DataLoader: batches of a data set, in the order of a sampler, some of them made ahead. */
import { checkOptionNames, optionNames } from '../option-names.ts';
import { defaultCollate, type Batch } from './collate.ts';
import type { Dataset } from './dataset.ts';
import { BatchSampler, RandomSampler, SequentialSampler, type Sampler } from './samplers.ts';

/** Samples one after the other, for data sets that have no numbers: a file that is read, a queue. Each epoch iterates anew. */
export type SampleStream<T> = Iterable<T> | AsyncIterable<T>;

/** How a `DataLoader` chooses, orders, batches and fetches samples. */
export interface DataLoaderOptions<T, B> {
  /** Samples in a batch; null for the samples themselves. @default 1 */
  batchSize?: number | null;
  /** Another random order each epoch. @default false */
  shuffle?: boolean;
  /** The order, in place of `shuffle`: a DistributedSampler, say. */
  sampler?: Sampler;
  /** The numbers in each batch, in place of `batchSize`, `shuffle`, `sampler` and `dropLast`. */
  batchSampler?: Sampler<number[]>;
  /** Whether a last batch that is not full is left out. @default false */
  dropLast?: boolean;
  /** Makes a batch of samples. @default defaultCollate */
  collate?: (samples: T[]) => B | Promise<B>;
  /** Where `shuffle` begins; by default it follows from `manualSeed`. */
  seed?: number;
  /** How many batches are being made while the program works on another. @default 0 */
  prefetch?: number;
}

const OPTIONS = optionNames<DataLoaderOptions<never, never>>({
  batchSize: true,
  shuffle: true,
  sampler: true,
  batchSampler: true,
  dropLast: true,
  collate: true,
  seed: true,
  prefetch: true,
});

/**
 * `for await (const [x, y] of loader)`: one epoch. A batch's samples are asked for at once, batches come in order, and with `prefetch`
 * the next are asked for meanwhile: a data set whose samples come from files, threads or other workers then loads beside the training. The
 * first error ends the epoch; leaving the loop asks for nothing more.
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

  /** @throws TypeError for options that exclude each other; RangeError for sizes that are no whole numbers. */
  constructor(dataset: Dataset<T> | readonly T[] | SampleStream<T>, options: DataLoaderOptions<T, B> = {}) {
    checkOptionNames(options, OPTIONS, 'DataLoader');
    checkExclusions(options, isStream(dataset));
    const { batchSize = 1, dropLast = false, prefetch = 0 } = options;
    if (batchSize !== null) checkWhole('batchSize', batchSize, 1);
    checkWhole('prefetch', prefetch, 0);
    this.dataset = dataset;
    this.batchSize = batchSize;
    this.dropLast = dropLast;
    this.prefetch = prefetch;
    this.collate = options.collate ?? ((samples) => defaultCollate(samples) as B);
    if (isStream(dataset)) return;
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

  private open(): Source<B> {
    const { dataset, batchSize, dropLast } = this;
    if (isStream(dataset)) return new Streamed(dataset, { batchSize, dropLast, collate: this.collate });
    const samples: Dataset<T> = Array.isArray(dataset) ? listed(dataset as readonly T[]) : dataset;
    if (this.batches !== undefined)
      return new Numbered(this.batches, async (indices) =>
        this.collate(await Promise.all(indices.map(async (i) => samples.get(i)))),
      );
    // Without batches, B is T.
    return new Numbered(this.singles ?? new SequentialSampler(samples), async (i) => samples.get(i) as Promise<B>);
  }
}

const END = Symbol('end');

/** Where batches come from: the next is being made from the call on; undefined, or END when it is known later, after the last. */
interface Source<B> {
  next(): Promise<B | typeof END> | undefined;
  close(): Promise<void>;
}

class Numbered<I, B> implements Source<B> {
  private readonly order: Iterator<I>;
  private readonly make: (one: I) => Promise<B>;

  constructor(order: Iterable<I>, make: (one: I) => Promise<B>) {
    this.order = order[Symbol.iterator]();
    this.make = make;
  }

  next(): Promise<B> | undefined {
    const one = this.order.next();
    return one.done === true ? undefined : this.make(one.value);
  }

  close(): Promise<void> {
    this.order.return?.();
    return Promise.resolve();
  }
}

interface Grouping<T, B> {
  readonly batchSize: number | null;
  readonly dropLast: boolean;
  readonly collate: (samples: T[]) => B | Promise<B>;
}

/** Batches of a stream: one is read after the other, whoever waits for it. */
class Streamed<T, B> implements Source<B> {
  private readonly samples: Iterator<T> | AsyncIterator<T>;
  private readonly grouping: Grouping<T, B>;
  private last: Promise<unknown> = Promise.resolve();
  private reading = 0;

  constructor(stream: SampleStream<T>, grouping: Grouping<T, B>) {
    this.samples = Symbol.asyncIterator in stream ? stream[Symbol.asyncIterator]() : stream[Symbol.iterator]();
    this.grouping = grouping;
  }

  next(): Promise<B | typeof END> {
    const { batchSize, dropLast, collate } = this.grouping;
    const read = this.last.then(() => this.read(batchSize ?? 1));
    this.reading++;
    this.last = read.catch(() => undefined).then(() => this.reading--);
    return read.then((samples) => {
      if (samples.length === 0 || (dropLast && samples.length < (batchSize ?? 1))) return END;
      return batchSize === null ? (samples[0] as B) : collate(samples);
    });
  }

  private async read(count: number): Promise<T[]> {
    const samples: T[] = [];
    while (samples.length < count) {
      const one = await this.samples.next();
      if (one.done === true) break;
      samples.push(one.value);
    }
    return samples;
  }

  async close(): Promise<void> {
    const closed = this.samples.return?.();
    // A stream that is waited for closes when it has answered, which may be never.
    if (this.reading === 0) await closed;
    else Promise.resolve(closed).catch(() => undefined);
  }
}

function isStream<T>(dataset: Dataset<T> | readonly T[] | SampleStream<T>): dataset is SampleStream<T> {
  return !Array.isArray(dataset) && !('get' in dataset && 'length' in dataset);
}

function listed<T>(samples: readonly T[]): Dataset<T> {
  return { length: samples.length, get: (i) => samples[i] as T };
}

function orderOf<T, B>(dataset: { readonly length: number }, options: DataLoaderOptions<T, B>): Sampler {
  const { shuffle = false, seed } = options;
  return shuffle ? new RandomSampler(dataset, seed === undefined ? {} : { seed }) : new SequentialSampler(dataset);
}

function checkExclusions<T, B>(options: DataLoaderOptions<T, B>, stream: boolean): void {
  const { batchSize, batchSampler, dropLast, sampler, seed, shuffle } = options;
  const given = { shuffle: shuffle === true, sampler: sampler !== undefined, batchSampler: batchSampler !== undefined };
  for (const [name, is] of Object.entries(given))
    if (is && stream)
      throw new TypeError(`DataLoader: a stream of samples has its own order: ${name} does not go with it`);
  if (given.sampler && given.shuffle)
    throw new TypeError('DataLoader: sampler option is mutually exclusive with shuffle');
  if (given.batchSampler && (batchSize !== undefined || given.shuffle || given.sampler || dropLast === true))
    throw new TypeError(
      'DataLoader: batchSampler option is mutually exclusive with batchSize, shuffle, sampler, and dropLast',
    );
  if (batchSize === null && dropLast === true)
    throw new TypeError(
      'DataLoader: batchSize=null option disables auto-batching and is mutually exclusive with dropLast',
    );
  if (batchSize === null && options.collate !== undefined)
    throw new TypeError('DataLoader: batchSize=null gives the samples as they are, without collate');
  if (seed !== undefined && !given.shuffle) throw new TypeError('DataLoader: seed is that of shuffle, which is off');
}

function checkWhole(name: string, value: number, least: number): void {
  if (!Number.isInteger(value) || value < least)
    throw new RangeError(`DataLoader: ${name} should be a whole number of at least ${least}, got ${value}`);
}
