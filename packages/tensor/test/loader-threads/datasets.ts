/** @file Data sets that the threads of loaders open, in loader-threads.test.ts. */
import { data, rand, tensor, type Tensor } from '../../src/index.ts';

const { getWorkerInfo, workerDataset, workerFunction } = data;
/** Where threads load this from: made one file of JavaScript by the test, which starts sooner, or as it is. */
const here = process.env['LOADER_THREADS_DATASETS'] ?? import.meta.url;

/** A sample, and the thread that made it; -1 for the main one. */
export interface Sample {
  readonly x: Tensor;
  readonly id: bigint;
  readonly name: string;
  readonly by: number;
}
const sample = (i: number): Sample => ({
  x: tensor([i, i * i]),
  id: BigInt(i),
  name: `n${i}`,
  by: getWorkerInfo()?.id ?? -1,
});

class Samples implements data.Dataset<Sample> {
  readonly length: number;
  constructor(length: number) {
    this.length = length;
  }
  get(i: number): Sample {
    return sample(i);
  }
}
export const samples = workerDataset(here, 'samples', (length: number) => new Samples(length));
export const samplesLater = workerDataset(here, 'samplesLater', async (length: number) =>
  Promise.resolve(new Samples(length)),
);
export const list = workerDataset(here, 'list', () => ['a', 'b', 'c']);
export const misnamed = workerDataset(here, 'anotherName', () => [1, 2]);
export default workerDataset(here, 'default', () => [new Float32Array([1, 2]), new Float32Array([3, 4])]);

/** How many are in `get` at once: all of `numWorkers` threads, or after a while fewer. */
export const meeting = workerDataset(here, 'meeting', (inside: Int32Array, most: Int32Array) => ({
  length: 4,
  get: (i: number) => {
    const now = Atomics.add(inside, 0, 1) + 1;
    Atomics.notify(inside, 0);
    for (let seen = now; seen < 2;) {
      if (Atomics.wait(inside, 0, seen, 20_000) === 'timed-out') break;
      seen = Atomics.load(inside, 0);
    }
    if (Atomics.load(inside, 0) >= 2) Atomics.add(most, 0, 1);
    return i;
  },
}));

/** What becomes of sample `at`. */
export type Fate = 'throw' | 'throw text' | 'exit' | 'uncaught' | 'silence' | 'function' | 'instance' | 'history';
export const doomed = workerDataset(here, 'doomed', (length: number, at: number, fate: Fate) => ({
  length,
  get: (i: number): unknown => {
    if (i !== at) return i;
    switch (fate) {
      case 'throw':
        return torn(i);
      case 'throw text':
        throw 'only text';
      case 'exit':
        return process.exit(7);
      case 'uncaught':
        setTimeout(() => {
          throw new SyntaxError('nobody catches this');
        });
        return new Promise(() => undefined);
      case 'silence':
        return new Promise(() => undefined);
      case 'function':
        return () => i;
      case 'instance':
        return new Samples(1);
      case 'history':
        return tensor([1], { requiresGrad: true }).mul(2);
    }
  },
}));
function torn(i: number): never {
  throw Object.assign(new RangeError(`sample ${i} is torn`), { code: 'TORN' });
}
/** Opens in the main thread alone. */
export const unopened = workerDataset(here, 'unopened', () => {
  if (!process.getBuiltinModule('node:worker_threads').isMainThread) throw new Error('the disk is gone');
  return [1, 2];
});

/** Counts, in shared memory, how often it was opened and how many samples were made. */
export const counted = workerDataset(here, 'counted', (length: number, opened: Int32Array, made: Int32Array) => {
  Atomics.add(opened, 0, 1);
  return {
    length,
    get: (i: number) => {
      Atomics.add(made, 0, 1);
      return i;
    },
  };
});

/** Random numbers, and the seed that they come from. */
export const random = workerDataset(here, 'random', (length: number) => ({
  length,
  get: (i: number) => ({ i, seed: getWorkerInfo()?.seed ?? -1, value: rand([1]).item() }),
}));

/** Random numbers that are drawn where it is opened, at once or a while later, and the thread that knows its number there. */
export const drawn = workerDataset(here, 'drawn', (length: number) => drawing(length));
export const drawnLater = workerDataset(here, 'drawnLater', async (length: number) => {
  await Promise.resolve();
  return drawing(length);
});
function drawing(length: number): data.Dataset<{ value: number; by: number; seed: number }> {
  const values = rand([length]).toArray() as number[];
  const { id = -1, seed = -1 } = getWorkerInfo() ?? {};
  return { length, get: (i) => ({ value: values[i] as number, by: id, seed }) };
}

/** The numbers below `n`: in threads, each has its share. `closed` counts the streams that were closed. */
export const stream = workerDataset(
  here,
  'stream',
  (n: number, options: { shares?: boolean; closed?: Int32Array }) => ({
    *[Symbol.iterator]() {
      const { shares = true, closed } = options;
      const { id, numWorkers } = (shares ? getWorkerInfo() : undefined) ?? { id: 0, numWorkers: 1 };
      try {
        for (let i = id; i < n; i += numWorkers) yield i;
      } finally {
        if (closed !== undefined) Atomics.add(closed, 0, 1);
      }
    },
  }),
);
/** The first `n` come, and nothing after them. */
export const silentStream = workerDataset(here, 'silentStream', (n: number) => ({
  async *[Symbol.asyncIterator]() {
    for (let i = 0; i < n; i++) yield i;
    await new Promise(() => undefined);
  },
}));

/** Kinds of tensors: sparse, complex, of half precision, of no elements, one twice, a leaf that requires grad. */
export const tensors = workerDataset(here, 'tensors', () => [
  (() => {
    const twice = tensor([1, 2]);
    return {
      sparse: tensor([[0, 3, 0]]).toSparse(),
      half: tensor([1.5], { dtype: 'bfloat16' }),
      flag: tensor([true, false]),
      none: tensor(new Float32Array(0)),
      turned: tensor([[1, 2, 3], [4, 5, 6]]).t(), // prettier-ignore
      leaf: tensor([3], { requiresGrad: true }),
      twice: [twice, twice],
      when: new Date(5),
      missing: undefined,
    };
  })(),
]);

export const sumOf = workerFunction(here, 'sumOf', (parts: number[]) => ({
  sum: tensor([parts.reduce((a, b) => a + b, 0)]),
  by: getWorkerInfo()?.id ?? -1,
}));
export const noteInit = workerFunction(here, 'noteInit', (workerId: number) => {
  const info = getWorkerInfo();
  const { counts } = info?.dataset as { counts: Int32Array };
  if (info?.id !== workerId) throw new Error('another thread');
  Atomics.add(counts, workerId, 1);
});
export const withCounts = workerDataset(here, 'withCounts', (counts: Int32Array) => ({
  counts,
  length: 6,
  get: (i: number) => i,
}));
export const failInit = workerFunction(here, 'failInit', (workerId: number) => {
  if (workerId === 1) throw new Error('no such device');
});
