/** @file Leaving, and putting out the dead, take no longer than they may when the group's store falls silent. */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { resolveSecurity, serveStore } from '@backwire/rpc/internal';
import { afterEach, expect, it, vi } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { member } from './member.ts';
import type { TorchOptions } from '../src/options.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A store that workers reach over a network that can fall silent: nothing is lost, and nothing arrives. */
async function store(): Promise<{ readonly port: number; silence(): void }> {
  const security = resolveSecurity({ mode: 'none', iUnderstand: true }, { bind: '127.0.0.1' });
  const server = await serveStore({ host: '127.0.0.1', port: 0, torch: true, security });
  cleanups.push(() => server.close());
  const to = Number(/:(\d+)$/.exec(server.endpoint)?.[1]);
  const sockets = new Set<Socket>();
  const network = createServer((near) => {
    const far = connect(to, '127.0.0.1');
    for (const socket of [near, far]) sockets.add(socket.on('error', () => undefined));
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => network.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    network.close();
  });
  const silence = (): void => {
    for (const socket of sockets) socket.unpipe().pause();
  };
  return { port: (network.address() as AddressInfo).port, silence };
}

async function join(port: number, name: string, more: Partial<TorchOptions>): Promise<Agent> {
  const initMethod = `tcp://127.0.0.1:${port}`;
  const agent = await member({ name, initMethod, trustNetwork: true, initTimeoutMs: 10_000, ...more });
  cleanups.push(() => agent[Symbol.asyncDispose]().catch(() => undefined));
  return agent;
}

/** What it failed with; that was within so many milliseconds. */
async function failing(run: Promise<unknown>, withinMs: number): Promise<unknown> {
  const started = performance.now();
  const error: unknown = await run.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(performance.now() - started).toBeLessThan(withinMs);
  return error;
}

const late = { code: 'deadline-exceeded', message: expect.stringContaining('the store of the group') as string };

it('leaves a dynamic group', async () => {
  const { port, silence } = await store();
  const agent = await join(port, 'n0', { membership: 'dynamic' });
  silence();
  expect(await failing(agent.shutdown({ timeoutMs: 300 }), 4_000)).toMatchObject(late);
});

it('puts nobody out of a dynamic group, and says so', async () => {
  const { port, silence } = await store();
  const agent = await join(port, 'n0', { membership: 'dynamic' });
  await join(port, 'n1', { membership: 'dynamic' });
  silence();
  expect(await failing(agent.evict('n1', { timeoutMs: 300 }), 4_000)).toMatchObject(late);
  expect(await failing(agent.shutdown({ timeoutMs: 300 }), 4_000)).toMatchObject(late);
});

it('leaves a static group, whose workers have all come to leave', async () => {
  const { port, silence } = await store();
  // As under torchrun, where no worker serves the store.
  vi.stubEnv('TORCHELASTIC_USE_AGENT_STORE', 'True');
  vi.stubEnv('MASTER_ADDR', '127.0.0.1');
  vi.stubEnv('MASTER_PORT', String(port));
  const place = { initMethod: 'env://', worldSize: 2, generation: 0 };
  const agents = await Promise.all([0, 1].map((rank) => join(port, `n${rank}`, { ...place, rank })));
  silence();
  const left = await Promise.all(agents.map((agent) => failing(agent.shutdown({ timeoutMs: 300 }), 4_000)));
  for (const error of left) expect(error).toMatchObject(late);
});
