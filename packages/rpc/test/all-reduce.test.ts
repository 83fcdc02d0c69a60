/** @file All-reduce: small tensors at one member, large ones in parts at several; what is left of one that fails. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { memory, rand, scope, tensor, zeros, type DType, type Tensor } from '@backwire/tensor';
import { processGroup, rpcInfo, type RpcAgent } from '../src/index.ts';
import type { Agent } from '../src/agent/agent.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

/** Float32 elements of a part that is worth a message. */
const PART = 16_384;

let cluster: Cluster;
afterEach(() => cluster.close());

type Options = Parameters<ReturnType<typeof processGroup>['allReduce']>[2];
const reduceAt = (rank: number, value: Tensor, op?: 'sum' | 'mean', options?: Options): Promise<Tensor> =>
  cluster.at(rank).run(() => processGroup().allReduce(value, op, options));
const reduce = (values: readonly Tensor[], op?: 'sum' | 'mean'): Promise<Tensor[]> =>
  Promise.all(values.map((value, rank) => reduceAt(rank, value, op)));
const codeOf = (outcome: Promise<unknown>): Promise<string | undefined> =>
  outcome.then(
    () => 'answered',
    (error: unknown) => rpcInfo(error)?.code,
  );
const collectivesOf = (agent: RpcAgent): Agent['collectives'] => (agent as unknown as Agent).collectives;
/** Values that wait at meetings, at each member. */
const waiting = (): number[] =>
  cluster.agents.map((agent) => {
    const { meetings } = collectivesOf(agent) as unknown as {
      meetings: { rounds: readonly { arrivals: ReadonlyMap<string, unknown> }[] };
    };
    return meetings.rounds.reduce((sum, { arrivals }) => sum + arrivals.size, 0);
  });
/** Numbers of which no two sums in different orders agree. */
const random = (shape: readonly number[]): Tensor => rand(shape).sub(0.5).mul(1e3);

// Before the others, which leave much to the collector.
it.each([4, 6 * PART])('gives back what it takes, of %i elements, without the collector', async (size) => {
  cluster = await startCluster(3);
  const values = [0, 1, 2].map(() => random([size]));
  const round = async (): Promise<void> => {
    for (const op of ['sum', 'mean'] as const) for (const result of await reduce(values, op)) result.dispose();
    await new Promise((resolve) => setImmediate(resolve));
  };
  await round();
  const before = memory();
  for (let i = 0; i < 40; i++) await round();
  const { tensors, storages } = memory();
  // The collector may have come for what was there before.
  expect(tensors).toBeLessThanOrEqual(before.tensors);
  expect(storages).toBeLessThanOrEqual(before.storages);
  const failed = [values[0] as Tensor, values[1] as Tensor, zeros([size + 1])].map((value, rank) =>
    codeOf(reduceAt(rank, value, 'sum', { timeoutMs: 200 })),
  );
  expect(await Promise.all(failed)).not.toContain('answered');
  await until(() => memory().storages <= before.storages + 1, 'a failed one gives its parts back');
});

describe.each([1, 2, 3])('%i members', (size) => {
  it.each([
    [[]],
    [[1]],
    [[PART]],
    [[PART + 1]],
    [[2 * PART]],
    [[2 * PART + 1]],
    [[3 * PART + 1]],
    [[7, 3, 5_003]],
    [[0]],
    [[3, 0]],
  ])('have the sum of all, of shape %j, in the order of their names', async (shape) => {
    cluster = await startCluster(size);
    const values = cluster.agents.map(() => random(shape));
    const [first, ...rest] = values as [Tensor, ...Tensor[]];
    const sum = rest.reduce((a, b) => a.add(b), first);
    for (const result of await reduce(values)) {
      expect(result.shape).toEqual(shape);
      expect(equal(result, sum)).toBe(true);
    }
    for (const result of await reduce(values, 'mean')) expect(equal(result, sum.div(size))).toBe(true);
  });
});

it.each<DType>(['float64', 'float32', 'float16', 'bfloat16', 'int64', 'int32', 'uint8', 'complex64'])(
  'keeps %s, in parts too',
  async (dtype) => {
    cluster = await startCluster(2);
    const whole = tensor(Array.from({ length: 70_001 }, (_, i) => i % 50)).to(dtype);
    for (const result of await reduce([whole, whole])) {
      expect(result.dtype).toBe(dtype);
      expect(equal(result, whole.add(whole))).toBe(true);
    }
  },
);

it('takes views: transposed, and from the middle of a storage', async () => {
  cluster = await startCluster(2);
  const turned = random([300, 400]).t();
  const middle = random([3, 400, 300]).select(0, 1);
  for (const result of await reduce([turned, middle])) expect(equal(result, turned.add(middle))).toBe(true);
});

it('takes sparse tensors whole', async () => {
  cluster = await startCluster(2);
  const sparse = zeros([400, 300])
    .add(random([400, 1]).gt(400))
    .toSparse();
  for (const result of await reduce([sparse, sparse]))
    expect(equal(result.toDense(), sparse.toDense().mul(2))).toBe(true);
});

it('lets several members collect a large one, and one member a small one', async () => {
  cluster = await startCluster(3);
  const arrived = cluster.agents.map((agent) => vi.spyOn(collectivesOf(agent), 'arrive'));
  const counts = (): number[] => arrived.map((spy) => spy.mock.calls.splice(0).length);
  await reduce([0, 1, 2].map(() => random([PART])));
  expect(counts()).toEqual([3, 0, 0]);
  await reduce([0, 1, 2].map(() => random([PART + 1])));
  expect(counts()).toEqual([3, 3, 0]);
  await reduce([0, 1, 2].map(() => random([99 * PART])));
  const elements = arrived.map((spy) => spy.mock.calls.reduce((sum, [, { value }]) => sum + (value as Tensor).size, 0));
  expect(counts()).toEqual([3, 3, 3]);
  for (const each of elements) expect(each).toBe(99 * PART);
});

it('several at once meet each other in the order in which they were made', async () => {
  cluster = await startCluster(3);
  const sizes = [PART + 1, 4, 5 * PART, 3 * PART, 4];
  const all = await Promise.all(
    cluster.agents.map((_, rank) => Promise.all(sizes.map((size, i) => reduceAt(rank, zeros([size]).add(10 ** i))))),
  );
  for (const results of all)
    for (const [i, result] of results.entries())
      expect(equal(result, zeros([sizes[i] as number]).add(3 * 10 ** i))).toBe(true);
});

it.each([
  ['both small', [4], [5]],
  ['both large', [3 * PART], [3 * PART + 1]],
  ['one large', [5], [5 * PART]],
  ['of as many elements', [2, 3 * PART], [3 * PART, 2]],
])('those of different shapes do not meet, %s: all are told both, and nothing is left', async (_what, one, other) => {
  cluster = await startCluster(2);
  const outcomes = await Promise.allSettled([reduceAt(0, zeros(one)), reduceAt(1, zeros(other))]);
  for (const outcome of outcomes) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'failed-precondition' } });
    const { message } = (outcome as PromiseRejectedResult).reason as Error;
    for (const shape of [one, other]) expect(message).toContain(`[${shape.join(', ')}] float32`);
  }
  await until(() => waiting().every((count) => count === 0), 'all are withdrawn');
});

it('a member that dies ends it for all others, and nothing is left', async () => {
  cluster = await startCluster(3);
  const outcomes = [0, 2].map((rank) => codeOf(reduceAt(rank, random([6 * PART]))));
  await until(() => waiting().join() === '2,2,2', 'two have come to each part');
  await cluster.at(1).shutdown({ graceful: false });
  expect(await Promise.all(outcomes)).toEqual(['barrier-broken', 'barrier-broken']);
  await until(() => waiting().every((count) => count === 0), 'all are withdrawn');
});

it('a member that does not wait any longer takes all its parts back', async () => {
  cluster = await startCluster(3);
  const aborts = new AbortController();
  const outcome = codeOf(reduceAt(0, random([6 * PART]), 'sum', { signal: aborts.signal }));
  await until(() => waiting().join() === '1,1,1', 'one has come to each part');
  aborts.abort();
  expect(await outcome).toBe('cancelled');
  await until(() => waiting().every((count) => count === 0), 'all are withdrawn');
  expect(await codeOf(reduceAt(1, random([6 * PART]), 'sum', { timeoutMs: 100 }))).toBe('deadline-exceeded');
  await until(() => waiting().every((count) => count === 0), 'all are withdrawn');
  expect(await Promise.all([0, 1, 2].map((rank) => codeOf(reduceAt(rank, random([6 * PART])))))).toEqual(
    Array(3).fill('answered'),
  );
  expect(await codeOf(reduceAt(0, random([6 * PART]), 'sum', { signal: aborts.signal }))).toBe('cancelled');
  await until(() => waiting().every((count) => count === 0), 'nothing is brought');
});

it.each([4, 6 * PART])("is its caller's, of %i elements: no scope that is open frees it", async (size) => {
  cluster = await startCluster(2);
  const value = random([size]);
  const held: Tensor[] = [];
  const ask = (rank: number): Promise<void> =>
    scope(async () => {
      held.push(await reduceAt(rank, value));
    });
  await Promise.all([ask(0), ask(1)]);
  for (const result of held) expect(equal(result, value.add(value))).toBe(true);
});

/** Whether two tensors have the same bits; compared as such, a difference of a million numbers is not written out. */
function equal(a: Tensor, b: Tensor): boolean {
  return bytesOf(a).equals(bytesOf(b));
}

function bytesOf(t: Tensor): Buffer {
  const { buffer, byteOffset, byteLength } = t.contiguous().dataSync() as ArrayBufferView;
  return Buffer.from(buffer, byteOffset, byteLength);
}
