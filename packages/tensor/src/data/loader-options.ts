/** @file What a `DataLoader` may be told, and which of it goes together. */
import { checkOptionNames, optionNames } from '../option-names.ts';
import type { Sampler } from './samplers.ts';

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
  /** Makes a batch of samples; with `numWorkers` in the threads, then it is a `workerFunction`. @default defaultCollate */
  collate?: (samples: T[]) => B | Promise<B>;
  /** Where `shuffle`, and the random numbers of threads, begin; by default it follows from `manualSeed`. */
  seed?: number;
  /** Without threads, how many batches are being made while the program works on another. @default 0 */
  prefetch?: number;
  /**
   * How many threads make the batches, each with its copy of the data set, which a function of `workerDataset` has opened. Batches are the same,
   * and come in the same order, for any number, if samples do not depend on random numbers. Threads need Node. @default 0: this thread
   */
  numWorkers?: number;
  /** How many batches each thread is asked for ahead. @default 2 */
  prefetchFactor?: number;
  /** Whether threads, and what their data sets have loaded, outlive the epoch; `close` ends them. @default false */
  persistentWorkers?: boolean;
  /** How long a batch of a thread may be waited for, in milliseconds; 0 = no limit. @default 0 */
  timeoutMs?: number;
  /** Called in each thread with its number, after it was seeded and before it makes its first batch: a `workerFunction`. Without threads it is not called. */
  workerInit?: (workerId: number) => unknown;
}

const OPTIONS = optionNames<DataLoaderOptions<never, never>>()(
  'batchSize shuffle sampler batchSampler dropLast collate seed prefetch numWorkers prefetchFactor',
  'persistentWorkers timeoutMs workerInit',
);

/** @throws TypeError for options that exclude each other; RangeError for numbers that are none of theirs. */
export function checkLoaderOptions<T, B>(options: DataLoaderOptions<T, B>, stream: boolean): void {
  checkOptionNames(options, OPTIONS, 'DataLoader');
  const { batchSize = 1, prefetch = 0, numWorkers = 0, prefetchFactor = 1, timeoutMs = 0 } = options;
  if (batchSize !== null) checkWhole('batchSize', batchSize, 1);
  checkWhole('prefetch', prefetch, 0);
  checkWhole('numWorkers', numWorkers, 0);
  checkWhole('prefetchFactor', prefetchFactor, 1);
  if (!(timeoutMs >= 0 && timeoutMs <= MAX_TIMEOUT_MS))
    throw new RangeError(`DataLoader: timeoutMs should be from 0 to ${MAX_TIMEOUT_MS}, got ${timeoutMs}`);
  checkExclusions(options, stream);
  checkThreadOptions(options, numWorkers);
}

/** The longest that timers take. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

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
  if (seed !== undefined && !given.shuffle && (options.numWorkers ?? 0) === 0)
    throw new TypeError('DataLoader: seed is that of shuffle, which is off, and of threads, of which there are none');
}

function checkThreadOptions<T, B>(options: DataLoaderOptions<T, B>, numWorkers: number): void {
  if (numWorkers > 0 && options.prefetch !== undefined)
    throw new TypeError(
      'DataLoader: prefetch is for numWorkers 0; threads have prefetchFactor, batches for each of them',
    );
  if (numWorkers > 0) return;
  if (options.prefetchFactor !== undefined)
    throw new TypeError('DataLoader: prefetchFactor needs numWorkers > 0; without threads it is prefetch, in batches');
  if (options.persistentWorkers === true)
    throw new TypeError('DataLoader: persistentWorkers option needs numWorkers > 0');
  if (options.timeoutMs !== undefined && options.timeoutMs > 0)
    throw new TypeError('DataLoader: timeoutMs needs numWorkers > 0: only a thread can be given up');
}

function checkWhole(name: string, value: number, least: number): void {
  if (!Number.isInteger(value) || value < least)
    throw new RangeError(`DataLoader: ${name} should be a whole number of at least ${least}, got ${value}`);
}
