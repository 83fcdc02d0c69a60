/** @file Batches come as PyTorch's do: which samples, in which order, grouped and put together how. */
import { describe, expect, it } from 'vitest';
import { arange, data, manualSeed, Tensor, tensor } from '../index.ts';

const { BatchSampler, ConcatDataset, DataLoader, DistributedSampler, RandomSampler, Subset, TensorDataset } = data;

async function all<B>(loader: AsyncIterable<B>): Promise<B[]> {
  const found: B[] = [];
  for await (const batch of loader) found.push(batch);
  return found;
}
const plain = (value: unknown): unknown =>
  value instanceof Tensor ? [value.dtype, value.toArray()] : Array.isArray(value) ? value.map(plain) : value;
const numbers = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
/** Batches as lists of what they hold. */
const held = async (loader: AsyncIterable<Tensor>): Promise<unknown[]> => (await all(loader)).map((b) => b.toArray());

describe('DistributedSampler', () => {
  // torch.utils.data.DistributedSampler(range(n), size, rank, shuffle=False, drop_last=…), all ranks.
  it.each<[n: number, size: number, dropLast: boolean, shares: number[][]]>([
    [
      10,
      3,
      false,
      [
        [0, 3, 6, 9],
        [1, 4, 7, 0],
        [2, 5, 8, 1],
      ],
    ],
    [
      10,
      3,
      true,
      [
        [0, 3, 6],
        [1, 4, 7],
        [2, 5, 8],
      ],
    ],
    [
      9,
      3,
      false,
      [
        [0, 3, 6],
        [1, 4, 7],
        [2, 5, 8],
      ],
    ],
    [2, 5, false, [[0], [1], [0], [1], [0]]],
    [2, 5, true, [[], [], [], [], []]],
    [7, 4, true, [[0], [1], [2], [3]]],
    [1, 3, false, [[0], [0], [0]]],
    [
      11,
      2,
      true,
      [
        [0, 2, 4, 6, 8],
        [1, 3, 5, 7, 9],
      ],
    ],
    [3, 8, false, [[0], [1], [2], [0], [1], [2], [0], [1]]],
    [0, 2, false, [[], []]],
  ])('shares %i samples among %i as PyTorch, dropLast %s', (n, numReplicas, dropLast, shares) => {
    const samplers = numbers(numReplicas).map(
      (rank) => new DistributedSampler(numbers(n), { numReplicas, rank, dropLast, shuffle: false }),
    );
    expect(samplers.map((one) => [...one])).toEqual(shares);
    expect(samplers.map(({ length }) => length)).toEqual(shares.map(({ length }) => length));
  });

  it('shuffles alike on every worker, otherwise each epoch', () => {
    const epoch = (number: number, seed = 0): number[][] =>
      numbers(3).map((rank) => {
        const sampler = new DistributedSampler(numbers(12), { group: { rank, size: 3 }, seed });
        sampler.setEpoch(number);
        return [...sampler];
      });
    expect(
      epoch(0)
        .flat()
        .sort((a, b) => a - b),
    ).toEqual(numbers(12));
    expect(
      epoch(1)
        .flat()
        .sort((a, b) => a - b),
    ).toEqual(numbers(12));
    expect(epoch(0)).toEqual(epoch(0));
    expect(epoch(1)).not.toEqual(epoch(0));
    // As in PyTorch, the seed and the epoch are added.
    expect(epoch(0, 1)).toEqual(epoch(1));
  });

  it('refuses ranks that are none, and wants to know its share', () => {
    expect(() => new DistributedSampler([1], { numReplicas: 2, rank: 2 })).toThrow(
      'Invalid rank 2, rank should be in the interval [0, 1]',
    );
    expect(() => new DistributedSampler([1], { rank: 0 })).toThrow('numReplicas and rank are needed, or a group');
    expect(() => new DistributedSampler([1], { numReplicas: 1, rank: 0 }).setEpoch(-1)).toThrow('whole number');
  });
});

describe('samplers', () => {
  it('RandomSampler has every sample once, in an order that follows from the seed', () => {
    const sampler = new RandomSampler(numbers(9), { seed: 3 });
    const [first, second] = [[...sampler], [...sampler]];
    expect([...first].sort()).toEqual(numbers(9));
    expect(second).not.toEqual(first);
    expect([...new RandomSampler(numbers(9), { seed: 3 })]).toEqual(first);
    manualSeed(4);
    const free = [...new RandomSampler(numbers(9))];
    manualSeed(4);
    expect([...new RandomSampler(numbers(9))]).toEqual(free);
  });

  it('RandomSampler goes on with another order where more are wanted than there are', () => {
    const order = [...new RandomSampler(numbers(4), { numSamples: 10, seed: 1 })];
    expect(order).toHaveLength(10);
    for (const from of [0, 4]) expect(order.slice(from, from + 4).sort()).toEqual(numbers(4));
    const again = [...new RandomSampler(numbers(4), { numSamples: 400, replacement: true, seed: 1 })];
    for (const i of numbers(4)) expect(again.filter((one) => one === i).length).toBeGreaterThan(60);
  });

  it('WeightedRandomSampler draws by weight, and what has none never', () => {
    const drawn = [...new data.WeightedRandomSampler([0, 1, 3, 0], 4000, { seed: 5 })];
    expect(drawn.filter((one) => one === 2).length / 4000).toBeCloseTo(0.75, 1);
    expect(new Set(drawn)).toEqual(new Set([1, 2]));
    const once = { replacement: false };
    expect([...new data.WeightedRandomSampler([0, 1, 3, 0], 2, once)].sort()).toEqual([1, 2]);
    let first = 0;
    for (let seed = 0; seed < 400; seed++)
      if ([...new data.WeightedRandomSampler([1, 3], 1, { ...once, seed })][0] === 1) first++;
    expect(first / 400).toBeCloseTo(0.75, 1);
    expect(() => new data.WeightedRandomSampler([0, 1], 2, once)).toThrow('without replacement of 1');
    expect(() => new data.WeightedRandomSampler([1, -1], 1)).toThrow('not negative, got -1');
  });

  it('WeightedRandomSampler refuses weights of which it cannot tell the shares', () => {
    expect(() => new data.WeightedRandomSampler([1e308, 1e308, 1e308], 5)).toThrow(
      'WeightedRandomSampler: the sum of the weights is beyond the largest number: scale them down',
    );
  });

  it('SubsetRandomSampler has those given, BatchSampler groups them', () => {
    const subset = new data.SubsetRandomSampler([5, 7, 9], { seed: 2 });
    expect([...subset].sort()).toEqual([5, 7, 9]);
    const order = new data.SequentialSampler(numbers(7));
    expect([...new BatchSampler(order, 3)]).toEqual([[0, 1, 2], [3, 4, 5], [6]]);
    expect([...new BatchSampler(order, 3, true)]).toEqual([
      [0, 1, 2],
      [3, 4, 5],
    ]);
    expect([new BatchSampler(order, 3).length, new BatchSampler(order, 3, true).length]).toEqual([3, 2]);
    expect(() => new BatchSampler(order, 0)).toThrow('positive whole number');
  });
});

describe('data sets', () => {
  it('have rows of tensors, parts, and others', () => {
    const rows = new TensorDataset(arange(6).reshape([3, 2]), tensor([7, 8, 9]));
    expect([rows.length, plain(rows.get(1))]).toEqual([
      3,
      [
        ['int64', [2n, 3n]],
        ['float32', 8],
      ],
    ]);
    const part = new Subset(rows, [2, 0]);
    expect([part.length, plain(part.get(0))]).toEqual([2, plain(rows.get(2))]);
    const both = new ConcatDataset([part, rows]);
    expect([both.length, plain(both.get(2)), plain(both.get(4))]).toEqual([5, plain(rows.get(0)), plain(rows.get(2))]);
    expect(() => both.get(5)).toThrow('sample 5 is out of range: there are 5');
    expect(() => new TensorDataset(arange(2), arange(3))).toThrow('their first dimensions are 2, 3');
  });

  it('are split at random, by numbers or by shares', () => {
    const whole = { length: 10, get: (i: number) => i };
    const parts = data.randomSplit(whole, [7, 3], { seed: 1 });
    const found = parts.map((part) => numbers(part.length).map((i) => part.get(i)));
    expect(found.map(({ length }) => length)).toEqual([7, 3]);
    expect((found.flat() as number[]).sort()).toEqual(numbers(10));
    // PyTorch's random_split(range(10), [.35, .35, .3]): 3, 3 and 3, and what is left goes to the first.
    expect(data.randomSplit(whole, [0.35, 0.35, 0.3]).map(({ length }) => length)).toEqual([4, 3, 3]);
    expect(() => data.randomSplit(whole, [7, 4])).toThrow('does not equal the length of the input dataset, 10');
  });
});

describe('defaultCollate', () => {
  it('stacks tensors, makes vectors of elements, goes through lists and objects', () => {
    const samples = [1, 2].map((i) => ({
      x: tensor([i, i]),
      raw: new Int32Array([i, 5]),
      label: i,
      id: BigInt(i),
      odd: i === 1,
      name: `n${i}`,
      pair: [i, [tensor(i)]] as const,
    }));
    const batch = data.defaultCollate(samples);
    expect(Object.fromEntries(Object.entries(batch).map(([key, value]) => [key, plain(value)]))).toEqual({
      x: [
        'float32',
        [
          [1, 1],
          [2, 2],
        ],
      ],
      raw: [
        'int32',
        [
          [1, 5],
          [2, 5],
        ],
      ],
      label: ['float32', [1, 2]],
      id: ['int64', [1n, 2n]],
      odd: ['bool', [true, false]],
      name: ['n1', 'n2'],
      pair: [['float32', [1, 2]], [['float32', [1, 2]]]],
    });
  });

  it('refuses samples that do not go together, and says where', () => {
    expect(() => data.defaultCollate([{ a: [1] }, { a: [1, 2] }])).toThrow(
      'of equal size, but the sample.a has 1 and 2',
    );
    expect(() => data.defaultCollate([{ a: 1 }, { b: 1 }])).toThrow('not every sample has the sample.a');
    expect(() => data.defaultCollate<unknown>([1, 'x'])).toThrow('is a number in one sample and String in another');
    expect(() => data.defaultCollate<unknown>([1, 2n])).toThrow('is a number in one sample and a bigint in another');
  });
});

describe('DataLoader', () => {
  it('gives batches in order, the last one smaller or left out', async () => {
    const loader = new DataLoader(numbers(5), { batchSize: 2 });
    expect([loader.length, await held(loader)]).toEqual([3, [[0, 1], [2, 3], [4]]]);
    expect(await held(loader)).toEqual([[0, 1], [2, 3], [4]]);
    const even = new DataLoader(numbers(5), { batchSize: 2, dropLast: true });
    expect([even.length, await held(even)]).toEqual([
      2,
      [
        [0, 1],
        [2, 3],
      ],
    ]);
    expect(await held(new DataLoader([], { batchSize: 2 }))).toEqual([]);
  });

  it('gives rows of tensors as they lie, and single samples without batches', async () => {
    const rows = new TensorDataset(arange(4).reshape([2, 2]), tensor([7, 8]));
    const [batch] = await all(new DataLoader(rows, { batchSize: 2 }));
    expect(plain(batch)).toEqual([
      [
        'int64',
        [
          [0n, 1n],
          [2n, 3n],
        ],
      ],
      ['float32', [7, 8]],
    ]);
    expect(await all(new DataLoader(['a', 'b'], { batchSize: null }))).toEqual(['a', 'b']);
  });

  it('shuffles each epoch anew, by its own seed or that of the process', async () => {
    const loader = new DataLoader(numbers(20), { batchSize: 20, shuffle: true, seed: 6 });
    const [first] = (await held(loader)) as number[][];
    const [second] = await held(loader);
    expect([...(first as number[])].sort((a, b) => a - b)).toEqual(numbers(20));
    expect(second).not.toEqual(first);
    expect(await held(new DataLoader(numbers(20), { batchSize: 20, shuffle: true, seed: 6 }))).toEqual([first]);
    const free = async (): Promise<unknown> => {
      manualSeed(8);
      return held(new DataLoader(numbers(20), { batchSize: 4, shuffle: true }));
    };
    expect(await free()).toEqual(await free());
  });

  it('takes the order from samplers', async () => {
    const sampler = new DistributedSampler(numbers(6), { numReplicas: 2, rank: 1, shuffle: false });
    expect(await held(new DataLoader(numbers(6), { batchSize: 2, sampler }))).toEqual([[1, 3], [5]]);
    const batchSampler = { length: 2, *[Symbol.iterator]() { yield* [[4], [2, 0]]; } }; // prettier-ignore
    const loader = new DataLoader(numbers(6), { batchSampler });
    expect([loader.length, await held(loader)]).toEqual([2, [[4], [2, 0]]]);
  });

  it('refuses numbers of samples that a list does not have', async () => {
    for (const wrong of [2, -1, 0.5]) {
      const loader = new DataLoader(['a', 'b'], { sampler: { length: 1, [Symbol.iterator]: () => [wrong].values() } });
      await expect(loader[Symbol.asyncIterator]().next()).rejects.toThrow(
        `sample ${wrong} is out of range: there are 2`,
      );
    }
  });

  it('asks for the samples of a batch at once, and for as many batches ahead as it is told', async () => {
    for (const prefetch of [0, 1, 3]) {
      const asked: number[] = [];
      const answers = new Map<number, (value: number) => void>();
      const dataset = {
        length: 12,
        get: (i: number) => {
          asked.push(i);
          return new Promise<number>((resolve) => answers.set(i, resolve));
        },
      };
      const batches = new DataLoader(dataset, { batchSize: 2, prefetch })[Symbol.asyncIterator]();
      const first = batches.next();
      const ahead = numbers(2 * (prefetch + 1));
      expect(asked).toEqual(ahead);
      // What is ready sooner waits for its turn.
      for (const i of [...ahead].reverse()) answers.get(i)?.(i);
      expect((await first).value?.toArray()).toEqual([0, 1]);
      expect(asked).toEqual(ahead);
      await batches.return();
      expect((await batches.next()).done).toBe(true);
      expect(asked).toEqual(ahead);
    }
  });

  it('fails where the program comes to the sample that failed, and ends there', async () => {
    const dataset = {
      length: 6,
      get: async (i: number) => (i === 2 ? Promise.reject(new Error('sample 2 is torn')) : Promise.resolve(i)),
    };
    for (const prefetch of [0, 5]) {
      const seen: unknown[] = [];
      const epoch = async (): Promise<void> => {
        for await (const batch of new DataLoader(dataset, { batchSize: 1, prefetch })) seen.push(batch.toArray());
      };
      await expect(epoch()).rejects.toThrow('sample 2 is torn');
      expect(seen).toEqual([[0], [1]]);
    }
  });

  it('reads streams one sample after the other, closes them, and does not wait for one that does not answer', async () => {
    let closed = 0;
    const stream = {
      async *[Symbol.asyncIterator]() {
        try {
          for (let i = 0; i < 5; i++) yield await Promise.resolve(i);
        } finally {
          closed++;
        }
      },
    };
    for (const prefetch of [0, 2]) {
      expect(await held(new DataLoader(stream, { batchSize: 2, prefetch }))).toEqual([[0, 1], [2, 3], [4]]);
      expect(await held(new DataLoader(stream, { batchSize: 2, prefetch, dropLast: true }))).toEqual([
        [0, 1],
        [2, 3],
      ]);
    }
    expect(closed).toBe(4);
    for await (const _batch of new DataLoader(stream)) break;
    expect(closed).toBe(5);
    expect(await all(new DataLoader(new Set(['a', 'b']), { batchSize: null }))).toEqual(['a', 'b']);
    const silent = {
      async *[Symbol.asyncIterator]() {
        yield 1;
        await new Promise(() => undefined);
      },
    };
    for await (const _batch of new DataLoader(silent, { prefetch: 2 })) break;
  });

  it('refuses options that exclude each other', () => {
    const sampler = new data.SequentialSampler(numbers(3));
    const batchSampler = new BatchSampler(sampler, 2);
    const refused: [data.DataLoaderOptions<number, unknown>, string][] = [
      [{ sampler, shuffle: true }, 'sampler option is mutually exclusive with shuffle'],
      [{ batchSampler, batchSize: 2 }, 'batchSampler option is mutually exclusive with batchSize'],
      [{ batchSize: null, dropLast: true }, 'disables auto-batching and is mutually exclusive with dropLast'],
      [{ batchSize: 0 }, 'batchSize should be a whole number of at least 1, got 0'],
      [{ prefetch: -1 }, 'prefetch should be a whole number of at least 0, got -1'],
      [{ seed: 1 }, 'seed is that of shuffle'],
      [{ pinMemory: true } as never, "unknown option 'pinMemory'"],
    ];
    for (const [options, words] of refused) expect(() => new DataLoader(numbers(3), options)).toThrow(words);
    expect(() => new DataLoader(new Set([1]), { shuffle: true })).toThrow('has its own order: shuffle');
    expect(() => new DataLoader(new Set([1])).length).toThrow('has no length');
  });
});
