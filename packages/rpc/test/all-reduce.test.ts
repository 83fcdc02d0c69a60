/** @file All-reduce: of a program, which meets as a whole at one member, and of a data-parallel pass, in parts at several; what is left of one that fails. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { full, memory, ones, rand, tensor, zeros, type DType, type nn, type Tensor } from '@backwire/tensor';
import { partReduces } from '@backwire/tensor/internal';
import { allGather, barrier, processGroup, rpcInfo, type RpcAgent } from '../src/index.ts';
import type { Agent } from '../src/agent/agent.ts';
import { lifeOf } from '../src/protocol/membership.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

/** Float32 elements of a part that is worth a message. */
const PART = 16_384;
/** The most that two members give each other as a whole. */
const EXCHANGED = 128 * PART;

let cluster: Cluster;
afterEach(() => cluster.close());

type Options = Parameters<ReturnType<typeof processGroup>['allReduce']>[2];
const reduceAt = (rank: number, value: Tensor, op?: 'sum' | 'mean', options?: Options): Promise<Tensor> =>
  cluster.at(rank).run(() => processGroup().allReduce(value, op, options));
/** As a data-parallel pass does it; `pass` names the call. */
const meanAt = (rank: number, value: Tensor, pass: number, signal = new AbortController().signal): Promise<Tensor> => {
  const inParts = partReduces.get(processGroup({ agent: cluster.at(rank) }).allReduce);
  return (inParts as NonNullable<typeof inParts>)(value, { signal, tags: { pass } });
};
let passes = 0;
const program = (values: readonly Tensor[], op?: 'sum' | 'mean'): Promise<Tensor[]> =>
  Promise.all(values.map((value, rank) => reduceAt(rank, value, op)));
const pass = (values: readonly Tensor[]): Promise<Tensor[]> => {
  const number = passes++;
  return Promise.all(values.map((value, rank) => meanAt(rank, value, number)));
};
const ways: readonly [string, (values: readonly Tensor[]) => Promise<Tensor[]>][] = [
  ['of a program', (values) => program(values, 'mean')],
  ['of a pass', pass],
];
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

/** Rounds after the first leave no tensor, once all that is on its way has come: an answer may be confirmed after the next call began. */
async function leavesNothing(round: () => Promise<void>): Promise<void> {
  await round();
  await new Promise((resolve) => setTimeout(resolve, 50));
  const before = memory();
  for (let i = 0; i < 40; i++) await round();
  // The collector may have come for what was there before.
  const isBack = (): boolean => memory().tensors <= before.tensors && memory().storages <= before.storages;
  await until(isBack, 'all is given back', 2_000).catch(() => undefined);
  const { tensors, storages } = memory();
  expect([tensors - before.tensors, storages - before.storages].map((more) => Math.max(0, more))).toEqual([0, 0]);
}

// Before the others, which leave much to the collector.
describe.each(ways)('one %s', (_way, reduce) => {
  it.each([
    [4, 3],
    [6 * PART, 3],
    [4, 2],
    [6 * PART, 2],
  ])('gives back what it takes, of %i elements of %i members, without the collector', async (size, members) => {
    cluster = await startCluster(members);
    const values = cluster.agents.map(() => random([size]));
    const round = async (): Promise<void> => {
      for (const result of await reduce(values)) result.dispose();
      await new Promise((resolve) => setImmediate(resolve));
    };
    await leavesNothing(round);
  });
});

/** What a program does with a tensor of one worker, or of each, that is answered as it came. */
const others: readonly [string, (rank: number, value: Tensor) => Promise<readonly Tensor[]>][] = [
  ['broadcast', async (rank, value) => [await cluster.at(rank).run(() => processGroup().broadcast(value, 1))]],
  ['allGather', async (rank, value) => [...(await allGather(value, { agent: cluster.at(rank) })).values()]],
];

describe.each(others)('%s', (_name, call) => {
  it.each([4, 6 * PART])('gives back what it takes, of %i elements, without the collector', async (size) => {
    cluster = await startCluster(3);
    const given = [0, 1, 2].map(() => random([size]));
    const firsts = given.map((value) => value.dataSync()[0]);
    const round = async (): Promise<void> => {
      for (const answers of await Promise.all(given.map((value, rank) => call(rank, value)))) {
        for (const answer of answers) {
          expect(firsts).toContain(answer.dataSync()[0]);
          answer.dispose();
        }
      }
      await new Promise((resolve) => setImmediate(resolve));
    };
    await leavesNothing(round);
  });
});

it('members that ask for different things are told, all of them, and go on together', async () => {
  cluster = await startCluster(3);
  const ops = ['sum', 'mean', 'sum'] as const;
  const outcomes = await Promise.allSettled(ops.map((op, rank) => reduceAt(rank, ones([2]), op)));
  for (const { reason } of outcomes as PromiseRejectedResult[])
    expect(reason).toMatchObject({
      code: 'invalid-argument',
      message: expect.stringContaining("worker 'w0' asked for the sum, worker 'w1' for the mean") as string,
    });
  const [one, other] = await Promise.allSettled(
    [0, 1].map((rank) =>
      cluster.at(rank).run(() => processGroup({ workers: ['w0', 'w1'] }).broadcast(ones([2]), rank)),
    ),
  );
  for (const { reason } of [one, other] as PromiseRejectedResult[])
    expect(reason).toMatchObject({
      code: 'failed-precondition',
      message: expect.stringMatching(/brought a value of sender [01], worker 'w[01]' one of sender [01]/) as string,
    });
  for (const result of await program([0, 1, 2].map(() => ones([2])))) expect(result.toArray()).toEqual([3, 3]);
});

it('one that leaves breaks it for all others, whoever collects, and whatever they call', async () => {
  const codes = new Set<string | undefined>();
  for (let i = 0; i < 24; i++) {
    cluster = await startCluster(3);
    const leaver = i % 3;
    const staying = [0, 1, 2].filter((rank) => rank !== leaver);
    const workers = ['w0', 'w1', 'w2'];
    const groups = cluster.agents.map((agent) => processGroup({ agent, workers }));
    const call = (rank: number): Promise<unknown> => {
      const agent = cluster.at(rank);
      if (i % 4 === 0) return barrier({ agent, workers });
      if (i % 4 === 1) return allGather(rank, { agent, workers });
      const group = groups[rank] as nn.ProcessGroup;
      return i % 4 === 2 ? group.allReduce(ones([3])) : group.broadcast(ones([3]), 0);
    };
    const outcomes = staying.map(async (rank, k) => {
      for (let turns = (i * (k + 3)) % 7; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
      return codeOf(call(rank));
    });
    for (let turns = i % 5; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
    await cluster.at(leaver).shutdown({ graceful: false });
    for (const code of await Promise.all(outcomes)) codes.add(code);
    await cluster.close();
  }
  expect([...codes]).toEqual(['barrier-broken']);
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
    for (const result of await program(values)) {
      expect(result.shape).toEqual(shape);
      expect(equal(result, sum)).toBe(true);
    }
    for (const [, reduce] of ways)
      for (const result of await reduce(values)) {
        expect(result.shape).toEqual(shape);
        expect(equal(result, sum.div(size))).toBe(true);
      }
  });
});

it.each<DType>(['float64', 'float32', 'float16', 'bfloat16', 'int64', 'int32', 'uint8', 'complex64'])(
  'has what sums and quotients of %s are, in parts too',
  async (dtype) => {
    cluster = await startCluster(2);
    const whole = tensor(Array.from({ length: 70_001 }, (_, i) => i % 50)).to(dtype);
    const sum = whole.add(whole);
    for (const result of await program([whole, whole])) {
      expect(result.dtype).toBe(dtype);
      expect(equal(result, sum)).toBe(true);
    }
    for (const result of await pass([whole, whole])) {
      expect(result.dtype).toBe(sum.div(2).dtype);
      expect(equal(result, sum.div(2))).toBe(true);
    }
  },
);

it.each<[DType, number, DType, number]>([
  // As each brings its share to PyTorch's replicas, 40,000 and 40,000 do not meet as a number above the largest.
  ['float16', 40_000, 'float16', 40_000],
  ['int8', 100, 'float32', 100],
  ['uint8', 200, 'float32', 200],
  ['int16', 30_000, 'float32', 30_000],
  ['int32', 2_000_000_000, 'float32', 2e9],
  ['int64', 2 ** 62, 'float32', 2 ** 62],
  ['bool', 1, 'float32', 1],
])('the mean of what is alike is that, where sums of %s would be beyond its numbers', async (dtype, one, to, mean) => {
  cluster = await startCluster(3);
  for (const size of [2, 3 * PART])
    for (const [, reduce] of ways)
      for (const result of await reduce([0, 1, 2].map(() => full([size], one).to(dtype)))) {
        expect(result.dtype).toBe(to);
        expect([result.size, ...new Set(result.toArray() as number[])]).toEqual([size, mean]);
      }
});

it('the mean of half precision is rounded once', async () => {
  cluster = await startCluster(3);
  // Of 2050 / 3; 2048 + 1 alone would be 2048 again.
  const each = [2048, 1, 1].map((value) => tensor([value], { dtype: 'float16' }));
  for (const [, reduce] of ways) for (const result of await reduce(each)) expect(result.toArray()).toEqual([683.5]);
});

it.each([EXCHANGED, EXCHANGED + 1])(
  'of %i elements has what two members have, the same bits for both',
  async (size) => {
    cluster = await startCluster(2);
    const values = [random([size]), random([size])] as const;
    const mean = values[0].add(values[1]).div(2);
    for (const result of await pass(values)) expect(equal(result, mean)).toBe(true);
  },
);

it('takes views: transposed, and from the middle of a storage', async () => {
  cluster = await startCluster(2);
  const turned = random([300, 400]).t();
  const middle = random([3, 400, 300]).select(0, 1);
  for (const [, reduce] of ways)
    for (const result of await reduce([turned, middle])) expect(equal(result, turned.add(middle).div(2))).toBe(true);
});

it('takes sparse tensors whole', async () => {
  cluster = await startCluster(2);
  const sparse = zeros([400, 300])
    .add(random([400, 1]).gt(400))
    .toSparse();
  for (const result of await program([sparse, sparse]))
    expect(equal(result.toDense(), sparse.toDense().mul(2))).toBe(true);
});

it('lets several members collect what is large of a pass, and one member everything else', async () => {
  cluster = await startCluster(3);
  type Admitting = { admit(from: string, coming: { readonly value: unknown }): Promise<unknown> };
  const admitting = (agent: RpcAgent): Admitting => collectivesOf(agent) as unknown as Admitting;
  const arrived = cluster.agents.map((agent) => vi.spyOn(admitting(agent), 'admit'));
  const counts = (): number[] => arrived.map((spy) => spy.mock.calls.splice(0).length);
  const each = (size: number): Tensor[] => [0, 1, 2].map(() => random([size]));
  await program(each(99 * PART));
  expect(counts()).toEqual([3, 0, 0]);
  await pass(each(PART));
  expect(counts()).toEqual([3, 0, 0]);
  await pass(each(PART + 1));
  expect(counts()).toEqual([3, 3, 0]);
  await pass(each(99 * PART));
  const elements = arrived.map((spy) => spy.mock.calls.reduce((sum, [, { value }]) => sum + (value as Tensor).size, 0));
  expect(counts()).toEqual([3, 3, 3]);
  expect(elements).toEqual([99 * PART, 99 * PART, 99 * PART]);
});

it('two members of a pass give each other the whole and get no answer, but for what is small or very large', async () => {
  cluster = await startCluster(2);
  type Admitting = { admit(from: string, coming: { readonly value: unknown }): Promise<unknown> };
  const arrived = cluster.agents.map((agent) => vi.spyOn(collectivesOf(agent) as unknown as Admitting, 'admit'));
  /** By member: the sizes of what came there, and how many were answered with a tensor. */
  const came = async (): Promise<(number[] | number)[]> =>
    Promise.all(
      arrived.map(async (spy) => {
        const sizes = spy.mock.calls.splice(0).map(([, { value }]) => (value as Tensor).size);
        const answers = await Promise.all(spy.mock.results.splice(0).map(({ value }) => value as Promise<unknown>));
        return [...sizes, answers.filter((answer) => answer !== null).length];
      }),
    );
  const each = (size: number): Tensor[] => [0, 1].map(() => random([size]));
  await pass(each(PART));
  expect(await came()).toEqual([[PART, PART, 2], [0]]);
  for (const size of [PART + 1, EXCHANGED]) {
    await pass(each(size));
    expect(await came()).toEqual([
      [size, size, 1],
      [size, size, 1],
    ]);
  }
  await pass(each(EXCHANGED + 2));
  const half = EXCHANGED / 2 + 1;
  expect(await came()).toEqual([
    [half, half, 2],
    [half, half, 2],
  ]);
});

it('several at once meet each other in the order in which they were made', async () => {
  cluster = await startCluster(3);
  const sizes = [PART + 1, 4, 5 * PART, 3 * PART, 4];
  for (const at of [(rank: number, t: Tensor) => reduceAt(rank, t, 'mean'), meanAt]) {
    const all = await Promise.all(
      cluster.agents.map((_, rank) => Promise.all(sizes.map((size, i) => at(rank, full([size], 10 ** i), i)))),
    );
    for (const results of all)
      for (const [i, result] of results.entries())
        expect(equal(result, full([sizes[i] as number], 10 ** i))).toBe(true);
  }
});

it.each([
  ['small', [4], [5]],
  ['large', [3 * PART], [3 * PART + 1]],
  ['one large', [5], [5 * PART]],
  ['of as many elements', [2, 3 * PART], [3 * PART, 2]],
  ['that a sum would stretch', [1], [4]],
])('other shapes than the others have are an error for all, %s, and all go on together', async (_what, one, other) => {
  cluster = await startCluster(3);
  for (const odd of [0, 1, 2]) {
    const values = [0, 1, 2].map((rank) => zeros(rank === odd ? other : one));
    for (const outcome of await Promise.allSettled(values.map((value, rank) => reduceAt(rank, value)))) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'invalid-argument' } });
      const { message } = (outcome as PromiseRejectedResult).reason as Error;
      for (const shape of [one, other]) expect(message).toContain(`shape [${shape.join(', ')}] and dtype float32`);
    }
    for (const result of await program([0, 1, 2].map((rank) => full([2], 10 ** rank))))
      expect(result.toArray()).toEqual([111, 111]);
  }
});

it('another dtype is an error for all', async () => {
  cluster = await startCluster(2);
  for (const outcome of await Promise.allSettled([reduceAt(0, zeros([2])), reduceAt(1, zeros([2]).to('float64'))]))
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'invalid-argument' } });
});

it.each([4, 6 * PART])(
  'of %i elements is of one call of each member, when calls are given up and made again',
  async (size) => {
    cluster = await startCluster(3);
    for (let i = 0; i < 10; i++) {
      const ends = cluster.agents.map(async (_, rank) => {
        if (rank === 2) await new Promise((resolve) => setTimeout(resolve, 20 + 2 * i));
        for (let tries = 1; tries < 10; tries++) {
          const value = full([size], (rank + 1) * 10 ** tries);
          const result = await reduceAt(rank, value, 'sum', { timeoutMs: 30 }).catch(
            (error: unknown) => rpcInfo(error)?.code,
          );
          if (result !== 'deadline-exceeded') return result as Tensor;
        }
        return undefined;
      });
      for (const result of await Promise.all(ends)) {
        const numbers = new Set(result?.dataSync() as Float32Array);
        expect([...numbers]).toHaveLength(1);
      }
    }
  },
);

it('a signal that is none is named', async () => {
  cluster = await startCluster(1);
  for (const signal of [null, {}, 'abort'])
    await expect(reduceAt(0, zeros([2]), 'sum', { signal } as unknown as Options)).rejects.toThrow(
      /signal is an AbortSignal/,
    );
});

it.each([2, 3])('one of %i members that dies ends it for all others, and nothing is left', async (size) => {
  cluster = await startCluster(size);
  const others = [0, 2].slice(0, size - 1);
  const outcomes = others.map((rank) => codeOf(meanAt(rank, random([6 * PART]), 1)));
  await until(() => waiting().every((count) => count === size - 1), 'the others have come to each part');
  await cluster.at(1).shutdown({ graceful: false });
  expect(await Promise.all(outcomes)).toEqual(others.map(() => 'barrier-broken'));
  await until(() => waiting().every((count) => count === 0), 'all are withdrawn');
});

it.each([
  ['dead', "worker 'w1' died"],
  ['left', "worker 'w1' has left the group"],
] as const)('says of a member that is %s since the group was named what became of it', async (how, text) => {
  cluster = await startCluster(3);
  const survivors = [cluster.at(0), cluster.at(2)];
  const groups = survivors.map((agent) => processGroup({ agent }));
  for (const agent of survivors) {
    const { members, membership } = agent as Agent;
    members.decided(membership.view.members.filter(({ name }) => name === 'w1').map(lifeOf), how);
  }
  for (const group of groups) await expect(group.allReduce(ones([3]))).rejects.toThrow(`${text} [barrier-broken]`);
});

it.each([2, 3])('one of %i members that does not wait any longer takes all its parts back', async (size) => {
  cluster = await startCluster(size);
  const aborts = new AbortController();
  const outcome = codeOf(meanAt(0, random([6 * PART]), 1, aborts.signal));
  await until(() => waiting().every((count) => count === 1), 'one has come to each part');
  aborts.abort();
  expect(await outcome).toBe('cancelled');
  await until(() => waiting().every((count) => count === 0), 'all are withdrawn');
  const again = cluster.agents.map((_, rank) => codeOf(meanAt(rank, random([6 * PART]), 2)));
  expect(await Promise.all(again)).toEqual(again.map(() => 'answered'));
  expect(await codeOf(meanAt(0, random([6 * PART]), 3, aborts.signal))).toBe('cancelled');
  await until(() => waiting().every((count) => count === 0), 'nothing is brought');
});

it('values of two passes never meet, in any of their parts', async () => {
  cluster = await startCluster(2);
  const late = codeOf(meanAt(1, random([6 * PART]), 1));
  await until(() => waiting().join() === '1,1', 'one has come to each part');
  expect(await codeOf(meanAt(0, random([6 * PART]), 2))).toBe('failed-precondition');
  expect(await late).toBe('failed-precondition');
  await until(() => waiting().every((count) => count === 0), 'all are withdrawn');
});

/** Whether two tensors have the same bits; compared as such, a difference of a million numbers is not written out. */
function equal(a: Tensor, b: Tensor): boolean {
  return bytesOf(a).equals(bytesOf(b));
}

function bytesOf(t: Tensor): Buffer {
  const { buffer, byteOffset, byteLength } = t.contiguous().dataSync() as ArrayBufferView;
  return Buffer.from(buffer, byteOffset, byteLength);
}
