import { afterAll, beforeAll, expect, it } from 'vitest';
import { tensor, zeros } from '@backwire/tensor';
import { createAgent, processGroup, RpcError, type RpcAgent } from '../src/index.ts';

let agents: RpcAgent[] = [];
const names = ['w0', 'w1', 'w2'];

beforeAll(async () => {
  const store = 'memory://collective-tags';
  agents = await Promise.all(
    names.map((name, rank) =>
      createAgent({ name, rank, worldSize: 3, store, limits: { maxMessageBytes: 2 ** 20, maxFrameBytes: 2 ** 20 } }),
    ),
  );
});
afterAll(() => Promise.all(agents.map((agent) => agent.shutdown())));

type Tags = Record<string, string | number>;
const reduce = (rank: number, value: number, tags?: Tags, signal?: AbortSignal): Promise<number> =>
  agents[rank]!.run(async () => {
    const group = processGroup();
    return (await group.allReduce(tensor([value]), 'sum', { timeoutMs: 20_000, tags, signal })).item();
  });
const outcome = (result: Promise<number>): Promise<unknown> => result.catch((error: unknown) => error);

it('values of one thing meet, whatever else each belongs to', async () => {
  const results = [reduce(0, 1, { pass: 3 }), reduce(1, 2, { pass: 3, other: 'x' }), reduce(2, 4, { more: 1 })];
  expect(await Promise.all(results)).toEqual([7, 7, 7]);
});

it('a value that was left by another pass meets none: all who came are told which and whose', async () => {
  const left = outcome(reduce(1, 1_000, { pass: 3 }));
  const second = outcome(reduce(2, 1_000, { pass: 3 }));
  // Members arrive on links of their own: only when the two wait does the third come last.
  await expect.poll(() => waiting()).toBe(2);
  const error = await outcome(reduce(0, 1, { pass: 4 }));
  expect(error).toBeInstanceOf(RpcError);
  expect(error).toMatchObject({ code: 'failed-precondition' });
  expect((error as Error).message).toMatch(/worker 'w0' brought a value of pass 4, worker 'w[12]' one of pass 3/);
  for (const told of [await left, await second]) {
    expect(told).toMatchObject({ code: 'failed-precondition' });
    expect((told as Error).message).toContain("worker 'w0' brought a value of pass 4");
  }
  const next = { pass: 5 };
  expect(await Promise.all([reduce(0, 1, next), reduce(1, 2, next), reduce(2, 4, next)])).toEqual([7, 7, 7]);
});

it('tags that are none are refused', async () => {
  const wrong = { pass: { toString: () => '3' } } as unknown as Tags;
  const controllers = new AbortController();
  await expect(reduce(0, 1, wrong, controllers.signal)).rejects.toThrow();
  const many = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`tag ${i}`, i]));
  await expect(reduce(1, 1, many)).rejects.toThrow('malformed tags of a collective');
});

it('what is past a limit is an error at once, and not waited with', async () => {
  const long = reduce(1, 1, { ['k'.repeat(5_000)]: 1 });
  await expect(long).rejects.toMatchObject({ code: 'resource-exhausted', retryable: false });
  const large = agents[1]!.run(() => processGroup().allReduce(zeros([2 ** 20])));
  await expect(large).rejects.toMatchObject({ code: 'resource-exhausted', retryable: false });
});

/** How many have come to the meetings that worker 0 collects for. */
function waiting(): number {
  const { collectives } = agents[0] as unknown as {
    collectives: { meetings: { rounds: readonly { arrivals: ReadonlyMap<string, unknown> }[] } };
  };
  return collectives.meetings.rounds.reduce((sum, { arrivals }) => sum + arrivals.size, 0);
}
