/** @file Options of loaders with threads that are refused. */
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { arange, backendName, data, tensor } from '../src/index.ts';
import * as sets from './loader-threads/datasets.ts';

const { DataLoader, Subset } = data;

/** They are the same on every backend. */
const once = describe.runIf(backendName() === 'cpu');

once('options of threads', () => {
  it('are refused where they do nothing, or where a thread could not follow', () => {
    const dataset = sets.samples(3);
    const refused: [object, string][] = [
      [{ numWorkers: -1 }, 'numWorkers should be a whole number of at least 0, got -1'],
      [{ numWorkers: 1.5 }, 'numWorkers should be a whole number of at least 0, got 1.5'],
      [{ numWorkers: 1, prefetchFactor: 0 }, 'prefetchFactor should be a whole number of at least 1, got 0'],
      [{ numWorkers: 1, timeoutMs: -1 }, 'timeoutMs should be from 0 to 2147483647, got -1'],
      [{ numWorkers: 1, prefetch: 2 }, 'prefetch is for numWorkers 0'],
      [{ prefetchFactor: 2 }, 'prefetchFactor needs numWorkers > 0'],
      [{ persistentWorkers: true }, 'persistentWorkers option needs numWorkers > 0'],
      [{ timeoutMs: 5 }, 'timeoutMs needs numWorkers > 0'],
      [{ numWorkers: 1, collate: () => 1 }, 'with numWorkers, collate runs in threads, which have to find it: make it with data.workerFunction'], // prettier-ignore
      [{ numWorkers: 1, workerInit: () => 1 }, 'with numWorkers, workerInit runs in threads'],
      [{ numWorker: 1 }, "unknown option 'numWorker'; did you mean 'numWorkers'?"],
    ];
    for (const [options, words] of refused) expect(() => new DataLoader(dataset, options)).toThrow(words);
    for (const plain of [[1, 2], new Set([1]), new data.TensorDataset(arange(3)), new Subset([1] as never, [0])])
      expect(() => new DataLoader(plain as never, { numWorkers: 2 })).toThrow(
        'numWorkers 2 needs a data set that each thread can open: one from a function of data.workerDataset(import.meta.url, name, open)',
      );
    expect(() => data.workerDataset('datasets.ts', 'x', () => [tensor(1)])).toThrow("got 'datasets.ts'");
    expect(() => data.workerDataset(import.meta.url, '', () => [1])).toThrow('under which name');
    expect(() => data.workerDataset(import.meta.url, 'x', () => 1 as never)()).toThrow("'x' opened 1, which is no data set"); // prettier-ignore
    expect(() => data.workerFunction(import.meta.url, 'x', 1 as never)).toThrow("'x' is no function");
    const [, program] = process.argv;
    const itself = data.workerDataset(pathToFileURL(program as string), 'x', () => [1])();
    expect(() => new DataLoader(itself, { numWorkers: 1 })).toThrow("the data set 'x' lies in the program itself");
  });
});
