/** @file Loaders with threads: PyTorch's order, seeds, sharing and errors (its test/test_dataloader.py), and the end of threads. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { build } from 'esbuild';
import { backendName, data, manualSeed, Tensor } from '../src/index.ts';
import type * as Sets from './loader-threads/datasets.ts';

const { ConcatDataset, DataLoader, DataLoaderWorkerError, DistributedSampler, Subset } = data;

async function all<B>(loader: AsyncIterable<B>): Promise<B[]> {
  const found: B[] = [];
  for await (const batch of loader) found.push(batch);
  return found;
}
const listed = (value: unknown): unknown => (value instanceof Tensor ? value.toArray() : value);
const held = async (loader: AsyncIterable<unknown>): Promise<unknown[]> => (await all(loader)).map(listed);
const numbers = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
const counter = (n = 1): Int32Array => new Int32Array(new SharedArrayBuffer(4 * n));
async function thrownBy(run: Promise<unknown>): Promise<unknown> {
  return run.then(
    () => undefined,
    (error: unknown) => error,
  );
}
async function failureOf(run: Promise<unknown>): Promise<data.DataLoaderWorkerError> {
  const error = await thrownBy(run);
  expect(error).toBeInstanceOf(DataLoaderWorkerError);
  return error as data.DataLoaderWorkerError;
}
/** Threads that this process has started and that have not ended. */
const running = new Set<Worker>();
process.on('worker', (worker) => {
  running.add(worker);
  worker.once('exit', () => running.delete(worker));
});

/** Inside of the package, so that TensorFlow.js is found from there. */
const folder = join(import.meta.dirname, '../test-output', `loader-threads-${process.pid}`);
const source = join(import.meta.dirname, 'loader-threads/datasets.ts');
let sets: typeof Sets;
beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  const outfile = join(folder, 'datasets.mjs');
  // One file: a thread starts in a tenth of the time that the sources take.
  await build({
    entryPoints: [source],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    logLevel: 'error',
  });
  process.env['LOADER_THREADS_DATASETS'] = pathToFileURL(outfile).href;
  sets = await import('./loader-threads/datasets.ts');
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Threads are the same on every backend. */
const once = describe.runIf(backendName() === 'cpu');

describe('batches of threads', () => {
  it('are the same, in the same order, for any number of threads', async () => {
    const epochs = async (numWorkers: number): Promise<unknown> => {
      manualSeed(11);
      const free = new DataLoader(sets.samples(11), { batchSize: 2, shuffle: true, numWorkers });
      const seeded = new DataLoader(sets.samples(11), { batchSize: 3, shuffle: true, seed: 5, numWorkers });
      const found: unknown[] = [];
      for (const loader of [free, seeded, free, seeded])
        for await (const { x, id, name } of loader) found.push([x.toArray(), x.dtype, id.toArray(), id.dtype, name]);
      return found;
    };
    const alone = await epochs(0);
    expect(alone).toHaveLength(2 * 6 + 2 * 4);
    expect(await epochs(1)).toEqual(alone);
    expect(await epochs(3)).toEqual(alone);
  });

  it('keep what tensors are, and lie over the memory of their thread', async () => {
    const [batch] = await all(new DataLoader(sets.tensors(), { batchSize: null, numWorkers: 1 }));
    const { sparse, half, flag, none, turned, leaf, twice, when, missing } = batch as unknown as ReturnType<
      typeof Sets.tensors
    >[0];
    expect([sparse.sparse?.coalesced, sparse.toDense().toArray()]).toEqual([true, [[0, 3, 0]]]);
    expect([half.dtype, half.toArray(), flag.dtype, flag.toArray(), none.shape]).toEqual([
      'bfloat16',
      [1.5],
      'bool',
      [true, false],
      [0], // prettier-ignore
    ]);
    expect(turned.toArray()).toEqual([[1, 4], [2, 5], [3, 6]]); // prettier-ignore
    expect([leaf.requiresGrad, leaf.isLeaf]).toEqual([true, true]);
    expect(twice[0]).toBe(twice[1]);
    expect([when, missing]).toEqual([new Date(5), undefined]);
    const changed = turned.add_(1);
    expect(changed.toArray()).toEqual([[2, 5], [3, 6], [4, 7]]); // prettier-ignore
  });
});

once('batches', () => {
  it('come from the threads in turn', async () => {
    const by = (await all(new DataLoader(sets.samples(10), { batchSize: 2, numWorkers: 3 }))).map((b) =>
      b.by.toArray(),
    );
    expect(by).toEqual([[0, 0], [1, 1], [2, 2], [0, 0], [1, 1]]); // prettier-ignore
    const alone = await all(new DataLoader(sets.samples(1), { numWorkers: 0 }));
    expect(alone[0]?.by.toArray()).toEqual([-1]);
  });

  it('are made at the same time', async () => {
    const [inside, met] = [counter(), counter()];
    await all(new DataLoader(sets.meeting(inside, met), { numWorkers: 2, prefetchFactor: 2 }));
    // Each of the first two samples is not made before another thread is in the middle of one.
    expect([inside[0], met[0]]).toEqual([4, 4]);
  });

  it('are no more ahead than prefetchFactor for each thread', async () => {
    for (const [numWorkers, prefetchFactor] of [
      [1, 1],
      [2, 3],
    ] as const) {
      // prettier-ignore
      const [opened, made] = [counter(), counter()];
      const loader = new DataLoader(sets.counted(40, opened, made), { numWorkers, prefetchFactor });
      const batches = loader[Symbol.asyncIterator]();
      for (let taken = 1; taken <= 3; taken++) {
        await batches.next();
        const bound = taken + numWorkers * prefetchFactor;
        await expect.poll(() => Atomics.load(made, 0)).toBe(bound);
        await new Promise((resolve) => setTimeout(resolve, 30));
        expect(Atomics.load(made, 0)).toBe(bound);
      }
      await batches.return();
      expect(opened[0]).toBe(1 + numWorkers);
    }
  });

  it('are the last, smaller one or not, none at all, single samples, and fewer than there are threads', async () => {
    const many = { numWorkers: 3 };
    const of = (n: number, options: data.DataLoaderOptions<number, Tensor>): Promise<unknown[]> =>
      held(new DataLoader(sets.counted(n, counter(), counter()), { ...options, ...many }));
    expect(await of(5, { batchSize: 2 })).toEqual([[0, 1], [2, 3], [4]]);
    expect(await of(5, { batchSize: 2, dropLast: true })).toEqual([[0, 1], [2, 3]]); // prettier-ignore
    expect(await of(0, { batchSize: 2 })).toEqual([]);
    expect(await of(3, { batchSize: 8 })).toEqual([[0, 1, 2]]);
    expect(await of(3, { batchSize: 8, dropLast: true })).toEqual([]);
    expect(await of(3, { batchSize: null })).toEqual([0, 1, 2]);
    const batchSampler = { length: 2, *[Symbol.iterator]() { yield* [[4], [2, 0]]; } }; // prettier-ignore
    expect(await of(6, { batchSampler })).toEqual([[4], [2, 0]]);
    expect(new DataLoader(sets.samples(5), { batchSize: 2, ...many }).length).toBe(3);
  });

  it('are of the share that a DistributedSampler gives, another one each epoch', async () => {
    const dataset = sets.counted(7, counter(), counter());
    const epochs = async (rank: number, numWorkers: number): Promise<unknown[]> => {
      const sampler = new DistributedSampler(dataset, { numReplicas: 2, rank, seed: 3 });
      const loader = new DataLoader(dataset, { batchSize: 2, sampler, numWorkers });
      const found: unknown[] = [];
      for (const epoch of [0, 1]) {
        sampler.setEpoch(epoch);
        found.push(await held(loader));
      }
      return found;
    };
    const [first, second] = [await epochs(0, 2), await epochs(1, 2)];
    expect([first, second]).toEqual([await epochs(0, 0), await epochs(1, 0)]);
    expect(new Set([first[0], second[0]].flat(3))).toEqual(new Set(numbers(7)));
    expect(first[1]).not.toEqual(first[0]);
  });

  it('come from parts, chains, lists, and data sets that open later', async () => {
    const options = { batchSize: 2, numWorkers: 2 };
    const names = async (dataset: data.Dataset<Sets.Sample>): Promise<unknown> =>
      (await all(new DataLoader(dataset, options))).map(({ name }) => name);
    const five = sets.samples(5);
    expect(await names(new Subset(new Subset(five, [4, 3, 1]), [2, 0]))).toEqual([['n1', 'n4']]);
    expect(await names(new ConcatDataset([sets.samples(2), new Subset(five, [4])]))).toEqual([['n0', 'n1'], ['n4']]);
    expect(await names(await sets.samplesLater(3))).toEqual([['n0', 'n1'], ['n2']]);
    const [train] = data.randomSplit(five, [4, 1], { seed: 1 });
    expect(await names(train as data.Dataset<Sets.Sample>)).toEqual(
      (await all(new DataLoader(train as data.Dataset<Sets.Sample>, { batchSize: 2 }))).map(({ name }) => name),
    );
    expect(await all(new DataLoader(sets.list(), options))).toEqual([['a', 'b'], ['c']]);
    expect(await held(new DataLoader(sets.default(), options))).toEqual([[[1, 2], [3, 4]]]); // prettier-ignore
  });

  it('are put together in the thread, by a function that it finds', async () => {
    const loader = new DataLoader(sets.counted(5, counter(), counter()), {
      batchSize: 2,
      collate: sets.sumOf,
      numWorkers: 2,
    });
    expect((await all(loader)).map(({ sum, by }) => [sum.toArray(), by])).toEqual([[[1], 0], [[5], 1], [[4], 0]]); // prettier-ignore
    const alone = new DataLoader([1, 2], { batchSize: 2, collate: sets.sumOf });
    expect((await all(alone)).map(({ sum, by }) => [sum.toArray(), by])).toEqual([[[3], -1]]);
  });
});

once('random numbers of threads', () => {
  const epoch = async (seed: number): Promise<number[]> =>
    (await all(new DataLoader(sets.random(6), { numWorkers: 2, seed }))).map(({ value }) => value.item());

  it('follow from the seed of the loader or of the process, the epoch, and the number of the thread', async () => {
    manualSeed(3);
    const free = new DataLoader(sets.random(6), { numWorkers: 2 });
    const batches = [await all(free), await all(free)].map((one) => one.map(({ value }) => value.item()));
    expect(new Set(batches.flat()).size).toBe(12);
    manualSeed(3);
    const again = new DataLoader(sets.random(6), { numWorkers: 2, persistentWorkers: true });
    expect([await all(again), await all(again)].map((one) => one.map(({ value }) => value.item()))).toEqual(batches);
    await again.close();
    const own = await epoch(9);
    expect(own).toEqual(await epoch(9));
    expect(own).not.toEqual(await epoch(8));
    expect(new Set(own).size).toBe(6);
  });

  it('have the seed of the epoch and the number of the thread added', async () => {
    const seeds: number[] = [];
    for await (const { seed } of new DataLoader(sets.random(4), { numWorkers: 2, batchSize: null, seed: 1 }))
      seeds.push(seed as unknown as number);
    expect(seeds).toEqual([seeds[0], (seeds[0] as number) + 1, seeds[0], (seeds[0] as number) + 1]);
  });

  it('that a data set draws where it is opened are those of the program, in every thread', async () => {
    const values = async (numWorkers: number): Promise<unknown[]> => {
      manualSeed(6);
      const [first, second] = [sets.drawn(3), sets.drawn(3)];
      const dataset = new ConcatDataset([first, await sets.drawnLater(3), new Subset(second, [2, 0])]);
      return (await all(new DataLoader(dataset, { numWorkers, batchSize: null }))).map(({ value }) => value);
    };
    const alone = await values(0);
    expect(new Set(alone).size).toBe(8);
    expect(await values(1)).toEqual(alone);
    expect(await values(3)).toEqual(alone);
  });

  it('come with the number of the thread while the data set is opened, too', async () => {
    const found = await all(new DataLoader(sets.drawn(3), { numWorkers: 2, batchSize: null, seed: 1 }));
    const seed = found[0]?.seed as unknown as number;
    expect(found.map(({ by }) => by)).toEqual([0, 1, 0]);
    expect(found.map((one) => one.seed)).toEqual([seed, seed + 1, seed]);
    expect(seed).toBeGreaterThan(0);
  });

  it('in the program go on the same, whatever the number of threads', async () => {
    const after = async (numWorkers: number): Promise<unknown> => {
      manualSeed(4);
      await all(new DataLoader(sets.samples(2), { numWorkers }));
      return data.randomSplit(numbers(20) as never, [20]).map(({ indices }) => [...(indices as Float64Array)]);
    };
    expect(await after(2)).toEqual(await after(0));
  });
});

once('streams', () => {
  // torch.utils.data.DataLoader(stream, batch_size, num_workers, drop_last), where the stream's shares are range(id, n, num_workers).
  it.each<
    [n: number, numWorkers: number, batchSize: number | null, dropLast: boolean, shares: boolean, batches: unknown[]]
  >([
    [7, 2, 2, false, true, [[0, 2], [1, 3], [4, 6], [5]]],
    [
      7,
      2,
      2,
      true,
      true,
      [
        [0, 2],
        [1, 3],
        [4, 6],
      ],
    ],
    [7, 3, 2, false, true, [[0, 3], [1, 4], [2, 5], [6]]],
    [3, 4, 1, false, true, [[0], [1], [2]]],
    [5, 2, 2, false, false, [[0, 1], [0, 1], [2, 3], [2, 3], [4], [4]]],
    [
      10,
      3,
      2,
      true,
      true,
      [
        [0, 3],
        [1, 4],
        [2, 5],
        [6, 9],
      ],
    ],
    [0, 2, 2, false, true, []],
    [4, 2, null, false, true, [0, 1, 2, 3]],
  ])(
    'of %i samples in %i threads, by %s, dropLast %s, shared %s',
    async (n, numWorkers, batchSize, dropLast, shares, batches) => {
      // prettier-ignore
      const loader = new DataLoader(sets.stream(n, { shares }), { batchSize, dropLast, numWorkers });
      expect(await held(loader)).toEqual(batches);
    },
  );

  it('begin anew each epoch, and are closed when they are left', async () => {
    for (const persistentWorkers of [true, false]) {
      const closed = counter();
      const loader = new DataLoader(sets.stream(100, { closed }), { batchSize: 2, numWorkers: 2, persistentWorkers });
      for (const _ of [1, 2]) {
        for await (const batch of loader) {
          // The other thread, too, has opened its stream.
          if ((batch.toArray() as number[]).includes(1)) break;
        }
      }
      await loader.close();
      expect([persistentWorkers, closed[0]]).toEqual([persistentWorkers, 4]);
    }
  });

  it('that do not answer are left all the same', async () => {
    for (const persistentWorkers of [true, false]) {
      const loader = new DataLoader(sets.silentStream(2), { numWorkers: 1, persistentWorkers });
      for (const _ of [1, 2]) {
        for await (const batch of loader) {
          expect(batch.toArray()).toEqual([0]);
          break;
        }
      }
      await loader.close();
    }
  });
});

once('threads', () => {
  it('are new each epoch, or stay and keep what they have opened', async () => {
    for (const [persistentWorkers, times] of [
      [false, 1 + 3 * 2],
      [true, 1 + 2],
    ] as const) {
      // prettier-ignore
      const [opened, made] = [counter(), counter()];
      const loader = new DataLoader(sets.counted(4, opened, made), { numWorkers: 2, persistentWorkers });
      for (let epoch = 0; epoch < 3; epoch++) expect(await held(loader)).toEqual([[0], [1], [2], [3]]);
      expect([opened[0], made[0]]).toEqual([times, 12]);
      await loader.close();
    }
  });

  it('that stay begin the next epoch at its first batch, wherever the last one was left', async () => {
    const loader = new DataLoader(sets.counted(9, counter(), counter()), { numWorkers: 2, persistentWorkers: true });
    for (const left of [0, 1, 4]) {
      const seen: unknown[] = [];
      for await (const batch of loader) {
        seen.push(...(batch.toArray() as number[]));
        if (seen.length > left) break;
      }
      expect(seen).toEqual(numbers(left + 1));
    }
    expect(await held(loader)).toEqual(numbers(9).map((i) => [i]));
    await loader.close();
  });

  it('end with the epoch, with the loop that is left, and with close', async () => {
    const loader = new DataLoader(sets.samples(20), { numWorkers: 2 });
    for await (const _batch of loader) break;
    expect(running.size).toBe(0);
    await all(loader);
    expect(running.size).toBe(0);
    {
      await using kept = new DataLoader(sets.samples(3), { numWorkers: 2, persistentWorkers: true });
      await all(kept);
    }
    expect(running.size).toBe(0);
    const open = new DataLoader(sets.samples(20), { numWorkers: 1 });
    const batches = open[Symbol.asyncIterator]();
    await batches.next();
    await open.close();
    for (;;) {
      const error = await thrownBy(batches.next());
      if (error === undefined) continue;
      expect((error as Error).message).toBe('the DataLoader was closed');
      break;
    }
    expect(await all(open)).toHaveLength(20);
  });

  it('are called once with their number before the first batch', async () => {
    const counts = counter(2);
    const loader = new DataLoader(sets.withCounts(counts), {
      numWorkers: 2,
      persistentWorkers: true,
      workerInit: sets.noteInit,
    });
    for (const _ of [1, 2]) expect(await all(loader)).toHaveLength(6);
    expect([...counts]).toEqual([1, 1]);
    await loader.close();
  });

  it('of two epochs at once are apart', async () => {
    const loader = new DataLoader(sets.samples(4), { numWorkers: 1, persistentWorkers: true });
    const names = async (): Promise<unknown> => (await all(loader)).map(({ name }) => name[0]);
    expect(await Promise.all([names(), names()])).toEqual([['n0', 'n1', 'n2', 'n3'], ['n0', 'n1', 'n2', 'n3']]); // prettier-ignore
    await loader.close();
  });

  it('load TypeScript as it is, and a program that is over does not wait for them', () => {
    const program = `
      import { data } from ${JSON.stringify(pathToFileURL(join(import.meta.dirname, '../src/index.ts')).href)};
      import { samples } from ${JSON.stringify(pathToFileURL(source).href)};
      const loader = new data.DataLoader(samples(3), { numWorkers: 2, persistentWorkers: true });
      for await (const { name, by } of loader) console.log(name[0], by.item());
    `;
    // Where output is coloured, so are numbers.
    const env = { ...process.env, LOADER_THREADS_DATASETS: undefined, FORCE_COLOR: '0' };
    const flags = ['--import', 'tsx', '--conditions=@backwire/source', '--input-type=module', '-e', program];
    const cwd = join(import.meta.dirname, '..');
    expect(execFileSync(process.execPath, flags, { cwd, env, encoding: 'utf8' })).toBe('n0 0\nn1 1\nn2 0\n');
  });
});

once('what goes wrong in a thread', () => {
  const loaderOf = (fate: Sets.Fate, options: object = {}): AsyncIterable<unknown> =>
    new DataLoader(sets.doomed(8, 5, fate), { batchSize: 2, numWorkers: 2, ...options });
  /** What comes before the error, and the error. */
  async function until(loader: AsyncIterable<unknown>): Promise<[seen: unknown[], error: data.DataLoaderWorkerError]> {
    const seen: unknown[] = [];
    const run = async (): Promise<void> => {
      for await (const batch of loader) seen.push(listed(batch));
    };
    return [seen, await failureOf(run())];
  }

  it('is thrown where the program comes to it, with the thread, the sample, and the stack of there', async () => {
    const [seen, error] = await until(loaderOf('throw'));
    expect(seen).toEqual([[0, 1], [2, 3]]); // prettier-ignore
    expect(error.message).toBe('Caught RangeError in DataLoader worker 0, sample 5: sample 5 is torn');
    expect([error.name, error.workerId, error.index]).toEqual(['DataLoaderWorkerError', 0, 5]);
    const cause = error.cause as Error & { code: string };
    expect([cause.name, cause.message, cause.code]).toEqual(['RangeError', 'sample 5 is torn', 'TORN']);
    expect(cause.stack).toMatch(/^RangeError: sample 5 is torn\n\s+at torn \(/);
    const [, text] = await until(loaderOf('throw text'));
    expect(text.message).toContain('worker 0, sample 5: only text');
  });

  it('may be a batch that cannot leave it', async () => {
    for (const [fate, words] of [
      ['function', 'the batch[0] is a function, which cannot leave its thread'],
      ['instance', 'the batch[0] is an instance of Samples, which cannot leave its thread'],
      ['history', 'requires grad and is no leaf cannot leave its thread'],
    ] as const) {
      const [seen, error] = await until(
        fate === 'history' ? loaderOf(fate, { batchSize: null }) : new DataLoader(new Subset(sets.doomed(8, 5, fate), [5, 5]), { batchSize: 2, numWorkers: 1 }), // prettier-ignore
      );
      expect([fate, seen.length]).toEqual([fate, fate === 'history' ? 5 : 0]);
      expect(error.message).toContain(words);
    }
  });

  it('ends the epoch of a thread that exits, or that nobody catches an error in', async () => {
    const [, exited] = await until(loaderOf('exit'));
    expect(exited.message).toBe('DataLoader worker 0 exited unexpectedly with code 7');
    expect([exited.workerId, exited.index]).toEqual([0, undefined]);
    const [, uncaught] = await until(loaderOf('uncaught'));
    expect(uncaught.message).toBe('DataLoader worker 0 ended with an uncaught SyntaxError: nobody catches this');
    expect((uncaught.cause as Error).message).toBe('nobody catches this');
  });

  it('may be that it takes too long', async () => {
    const [seen, late] = await until(loaderOf('silence', { timeoutMs: 1_500 }));
    expect(seen).toEqual([[0, 1], [2, 3]]); // prettier-ignore
    expect(late.message).toBe('DataLoader timed out: worker 0 gave no batch within 1500 ms');
  });

  it('leaves nothing behind, and the next epoch has new threads', async () => {
    const loader = loaderOf('exit', { persistentWorkers: true });
    for (const _ of [1, 2]) await until(loader);
    expect(running.size).toBe(0);
  });

  it('may be its beginning', async () => {
    const [, unopened] = await until(new DataLoader(sets.unopened(), { numWorkers: 2 }));
    expect(unopened.message).toMatch(/^Caught Error in DataLoader worker [01]: the disk is gone$/);
    const loader = new DataLoader(sets.withCounts(counter()), { numWorkers: 2, workerInit: sets.failInit });
    const [, init] = await until(loader);
    expect(init.message).toBe('Caught Error in DataLoader worker 1: no such device');
    const [, misnamed] = await until(new DataLoader(sets.misnamed(), { numWorkers: 1 }));
    expect(misnamed.message).toMatch(/datasets\.mjs exports no 'anotherName' that data\.workerDataset has made$/);
    const [, missing] = await until(
      new DataLoader(data.workerDataset('file:///no/such/module.mjs', 'x', () => [1])(), { numWorkers: 1 }),
    );
    expect(missing.message).toContain('/no/such/module.mjs');
    const uncloned = data.workerDataset(import.meta.url, 'x', (_make: () => void) => [1])(() => undefined);
    await expect(all(new DataLoader(uncloned, { numWorkers: 1 }))).rejects.toThrow(
      "the arguments of 'x' cannot be handed to threads: ",
    );
  });
});
