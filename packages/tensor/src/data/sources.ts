/** @file Where batches come from: samples by number, or a stream that is read. */
import { within, type Dataset } from './dataset.ts';

/** Samples one after the other, for data sets that have no numbers: a file that is read, a queue. Each epoch iterates anew. */
export type SampleStream<T> = Iterable<T> | AsyncIterable<T>;

/** After the last batch. */
export const END: unique symbol = Symbol('end');

/** Where batches come from: the next is being made from the call on; undefined, or END when it is known later, after the last. */
export interface Source<B> {
  next(): Promise<B | typeof END> | undefined;
  close(): Promise<void>;
}

export class Numbered<I, B> implements Source<B> {
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
export class Streamed<T, B> implements Source<B> {
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

export function isStream<T>(dataset: Dataset<T> | readonly T[] | SampleStream<T>): dataset is SampleStream<T> {
  return !Array.isArray(dataset) && !('get' in dataset && 'length' in dataset);
}

/** A list as a data set; others as they are. */
export function asDataset<T>(dataset: Dataset<T> | readonly T[]): Dataset<T> {
  if (!Array.isArray(dataset)) return dataset as Dataset<T>;
  const samples = dataset as readonly T[];
  return { length: samples.length, get: (i) => samples[within(i, samples.length)] as T };
}
