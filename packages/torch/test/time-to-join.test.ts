/** @file Joining and leaving take no longer than they may, whoever is missing and whatever does not answer. */
import { createServer, type Server, type Socket } from 'node:net';
import { freePort } from '@backwire/testing';
import { afterEach, expect, it } from 'vitest';
import { createTorchAgent } from '../src/join.ts';
import type { TorchOptions } from '../src/options.ts';
import { group } from './group.ts';

const servers: Server[] = [];
const sockets = new Set<Socket>();
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

/** The port of a store that takes connections and says nothing. */
async function silentStore(): Promise<number> {
  const server = createServer((socket) => sockets.add(socket.on('error', () => undefined).resume()));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as { port: number }).port;
}

const joining = (port: number, more: Partial<TorchOptions>): TorchOptions => ({
  name: 'n0',
  initMethod: `tcp://127.0.0.1:${port}`,
  trustNetwork: true,
  initTimeoutMs: 500,
  ...more,
});

/** How long it took `run` to fail, and with what. */
async function failure(run: Promise<unknown>): Promise<{ ms: number; error: unknown }> {
  const started = performance.now();
  const error: unknown = await run.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return { ms: performance.now() - started, error };
}

it.each([
  ['a static group', { rank: 1, worldSize: 2 }],
  ['a dynamic group', { membership: 'dynamic' }],
] as const)('gives up a store that says nothing, in %s', async (_, more) => {
  const port = await silentStore();
  const { ms, error } = await failure(createTorchAgent(joining(port, more)));
  expect(error).toMatchObject({
    code: 'deadline-exceeded',
    message: expect.stringContaining(`the store at 127.0.0.1:${port} did not answer within 500 ms`) as string,
  });
  expect(ms).toBeLessThan(4_000);
});

it('says who is missing when the time is over, and leaves the address of its store free', async () => {
  const port = await freePort();
  for (let i = 0; i < 2; i++) {
    const { ms, error } = await failure(createTorchAgent(joining(port, { rank: 0, worldSize: 2 })));
    expect(error).toMatchObject({ code: 'deadline-exceeded' });
    expect(String(error)).toContain('only 1 of 2 workers came');
    expect(ms).toBeLessThan(4_000);
  }
});

it.each([
  [3, 2, 'rank 1 expects a group of 2 workers, and this worker one of 3: the world sizes differ'],
  [2, 3, 'rank 1 expects a group of 3 workers, and this worker one of 2: the world sizes differ'],
])('names both sizes where rank 0 expects %i workers and rank 1 %i', async (own, theirs, text) => {
  const port = await freePort();
  const other = createTorchAgent(joining(port, { name: 'n1', rank: 1, worldSize: theirs, initTimeoutMs: 2_500 }));
  const [{ ms, error }] = await Promise.all([
    failure(createTorchAgent(joining(port, { rank: 0, worldSize: own, initTimeoutMs: 1_500 }))),
    failure(other),
  ]);
  expect(String(error)).toContain(`${text} [failed-precondition]`);
  expect(ms).toBeLessThan(4_000);
});

it('does not wait for others that do not leave', async () => {
  const [first, second] = await group(2);
  const { ms, error } = await failure(first!.shutdown({ timeoutMs: 300 }));
  expect(error).toMatchObject({ code: 'deadline-exceeded' });
  expect(ms).toBeLessThan(4_000);
  await second![Symbol.asyncDispose]();
});
