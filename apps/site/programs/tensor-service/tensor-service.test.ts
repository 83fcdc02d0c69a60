/** @file The service of the guide: it answers, streams, stops for a client that leaves, and goes on when a worker is killed. */
import { join } from 'node:path';
import { createAgent, RpcError } from 'backwire';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { started, type Started } from '../../test/started.ts';
import { hedged } from './hedged.ts';
import { Pool } from './pool.ts';

let group: Started;
let url: string;
beforeAll(async () => {
  group = started({
    program: join(import.meta.dirname, 'main.ts'),
    processes: 3,
    membership: 'dynamic',
    maxRestarts: 5,
    env: { PORT: '0' },
  });
  [url = ''] = await group.prints(/http:\S+/);
  await group.prints(/\[rank1\]: ready/);
  await group.prints(/\[rank2\]: ready/);
}, 60_000);
afterAll(() => group.stop());

const post = (path: string, body: unknown, signal?: AbortSignal): Promise<Response> =>
  fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body), ...(signal === undefined ? {} : { signal }) });

it('answers with chances that add up to 1', async () => {
  const response = await post('/score', [
    [1, 2, 3, 4],
    [0, 0, 0, 1],
  ]);
  expect(response.status).toBe(200);
  const rows = (await response.json()) as number[][];
  expect(rows.map((row) => row.length)).toEqual([3, 3]);
  for (const row of rows) expect(row.reduce((sum, one) => sum + one, 0)).toBeCloseTo(1, 5);
});

it('says what is wrong with a request', async () => {
  const response = await post('/score', [[1, 2]]);
  expect([response.status, await response.json()]).toEqual([400, { error: 'rows of four numbers' }]);
  // Finite, and infinite as the model's float32: its scores would be none, which JSON writes as null.
  expect((await post('/score', [[1e39, 2, 3, 4]])).status).toBe(400);
  expect((await post('/score', [[true, 2, 3, 4]])).status).toBe(400);
  expect((await post('/generate', null)).status).toBe(400);
  expect((await post('/nothing', {})).status).toBe(404);
});

it('says that it is up, and whether there is a worker to ask', async () => {
  expect((await fetch(`${url}/health`)).status).toBe(200);
  expect((await fetch(`${url}/ready`)).status).toBe(200);
  const alone = started({
    program: join(import.meta.dirname, 'main.ts'),
    processes: 1,
    membership: 'dynamic',
    env: { PORT: '0' },
  });
  try {
    const [there = ''] = await alone.prints(/http:\S+/);
    expect((await fetch(`${there}/health`)).status).toBe(200);
    expect((await fetch(`${there}/ready`)).status).toBe(503);
  } finally {
    await alone.stop();
  }
});

it('streams words as they are made', async () => {
  const response = await post('/generate', { prompt: 'to be', count: 3 });
  expect(await response.text()).toBe('data: to\n\ndata: be\n\ndata: to\n\n');
  await group.prints(/generated 3 of 3/);
});

it('stops the model when the client leaves', async () => {
  const client = new AbortController();
  const response = await post('/generate', { prompt: 'on and on', count: 1_234 }, client.signal);
  await response.body?.getReader().read();
  client.abort();
  const [, made = ''] = await group.prints(/generated (\d+) of 1234/);
  expect(Number(made)).toBeLessThan(1_234);
});

it('answers on while a worker is killed, and has another in its place', async () => {
  const killed = group.workers.find(({ rank }) => rank === 1);
  const asked = Array.from({ length: 40 }, () => post('/score', [[1, 2, 3, 4]]));
  process.kill(killed?.pid ?? 0, 'SIGKILL');
  asked.push(...Array.from({ length: 40 }, () => post('/score', [[1, 2, 3, 4]])));
  expect((await Promise.all(asked)).map(({ status }) => status)).toEqual(Array(80).fill(200));
  await group.prints(/\[rank3\]: ready/);
});

it('ends on SIGTERM, and cuts off what takes too long', async () => {
  const stream = await post('/generate', { prompt: 'and so on', count: 100_000 });
  await group.stop();
  await expect(stream.text()).rejects.toThrow('terminated');
  expect(group.output()).toContain('shutdown did not end in 2000 ms');
  expect(group.output()).not.toMatch(/Error|error/);
});

it('a pool asks another worker where that is safe, and no more than it may', async () => {
  const common = { worldSize: 3, store: 'memory://pool', transports: ['memory'] };
  const [http, ...models] = await Promise.all(
    ['http', 'model1', 'model2'].map((name, rank) => createAgent({ name, rank, ...common })),
  );
  const pool = http!.run(() => new Pool('model', 1));
  const asked: string[] = [];
  const fail = (error: RpcError) => (worker: string) => (asked.push(worker), Promise.reject(error));
  await expect(pool.call(fail(new RpcError('peer-died', 'gone')), 2)).rejects.toThrow('gone');
  expect(asked.sort()).toEqual(['model1', 'model2']);
  await expect(pool.call(fail(new RpcError('deadline-exceeded', 'late')))).rejects.toThrow('late');
  expect(asked).toHaveLength(3);

  const ends: (() => void)[] = [];
  const busy = [1, 2].map(() => pool.call(() => new Promise<void>((end) => ends.push(end))));
  await expect(pool.call(() => Promise.resolve())).rejects.toThrow('all workers are busy');
  ends.forEach((end) => end());
  await Promise.all(busy);
  expect(await pool.call((worker) => Promise.resolve(worker))).toMatch(/^model/);
  await Promise.all([http!, ...models].map((agent) => agent.shutdown({ timeoutMs: 5_000 })));
});

it('a second worker is asked where the first is slow, and one of them is enough', async () => {
  const common = { worldSize: 3, store: 'memory://hedged', transports: ['memory'] };
  const agents = await Promise.all(
    ['http', 'model1', 'model2'].map((name, rank) => createAgent({ name, rank, ...common })),
  );
  const pool = agents[0]!.run(() => new Pool('model', 8));
  const client = new AbortController();
  const asked: string[] = [];
  const cancelled: string[] = [];
  const slowFirst = (worker: string, signal: AbortSignal): Promise<string> => {
    signal.addEventListener('abort', () => cancelled.push(worker));
    return asked.push(worker) === 1 ? new Promise(() => {}) : Promise.resolve(worker);
  };
  const answer = await hedged(pool, slowFirst, 5, client.signal);
  expect([asked.length, new Set(asked).size, answer]).toEqual([2, 2, asked[1]]);
  expect(cancelled).toEqual(asked);

  asked.length = 0;
  const quick = (worker: string): Promise<string> => (asked.push(worker), Promise.resolve(worker));
  expect([await hedged(pool, quick, 1_000, client.signal)]).toEqual(asked);
  const late = (): Promise<never> => Promise.reject(new RpcError('deadline-exceeded', 'late'));
  await expect(hedged(pool, late, 1_000, client.signal)).rejects.toThrow('late');
  const lateTwice = (worker: string): Promise<never> =>
    new Promise((_, reject) => setTimeout(() => reject(new RpcError('deadline-exceeded', `late ${worker}`)), 20));
  await expect(hedged(pool, lateTwice, 1, client.signal)).rejects.toBeInstanceOf(RpcError);
  await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 5_000 })));
});
