/** @file Groups of agents in one process for tests: real agents over a memory store, shut down in good order at the end. */
import { createAgent, getWorkerInfo, type Extension, type RpcAgent, type RpcOptions, type To } from '@backwire/rpc';
import { rrefs } from '../src/index.ts';
import { sessionOf } from '../src/extension.ts';

export interface GroupOptions extends Partial<Omit<RpcOptions, 'name' | 'rank' | 'worldSize' | 'store'>> {
  /** @default [rrefs()] */
  readonly extensions?: readonly Extension[];
}

let groups = 0;

/** Starts `size` agents named w0, w1 … */
export function startGroup(
  size: number,
  options: GroupOptions | ((rank: number) => GroupOptions) = {},
): Promise<RpcAgent[]> {
  const store = `memory://rref-${process.pid}-${groups++}`;
  return Promise.all(
    Array.from({ length: size }, (_, rank) => {
      const own = typeof options === 'function' ? options(rank) : options;
      return createAgent({ extensions: [rrefs()], ...own, name: `w${rank}`, rank, worldSize: size, store });
    }),
  );
}

/** Runs `test` on the first of a group; then everybody shuts down gracefully and any leak fails the test. */
export async function withGroup(
  size: number,
  test: (agents: readonly RpcAgent[]) => Promise<void>,
  options: GroupOptions | ((rank: number) => GroupOptions) = {},
): Promise<void> {
  const agents = await startGroup(size, options);
  let passed = false;
  try {
    await agent(agents, 0).run(() => test(agents));
    passed = true;
  } finally {
    const ends = await Promise.allSettled(
      agents.map((each) => each.shutdown({ timeoutMs: 10_000, onLeak: 'throw', graceful: passed })),
    );
    const failed = ends.find((end) => end.status === 'rejected');
    // eslint-disable-next-line no-unsafe-finally -- only when the test itself has passed
    if (passed && failed !== undefined) throw failed.reason;
  }
}

/**
 * Runs `test` on every worker of a group at once, as PyTorch's tests run: each shuts down gracefully as soon as it is through with its own,
 * while others may still call it, and any leak fails the test. The names in it are those that the first sees: `at('w1')` is the worker that
 * comes after the one that asks.
 */
export async function onAll(
  size: number,
  test: (at: (name: string) => string, self: RpcAgent) => Promise<void>,
  options: GroupOptions | ((rank: number) => GroupOptions) = {},
): Promise<void> {
  const agents = await startGroup(size, options);
  await endEach(agents, (self, rank) => test((name) => `w${(Number(name.slice(1)) + rank) % size}`, self));
}

/** Runs `test` on the first of a group while all others are in their graceful shutdown already, as in PyTorch's tests that one rank drives. */
export async function whileOthersEnd(
  size: number,
  test: (agents: readonly RpcAgent[]) => Promise<void>,
  options: GroupOptions | ((rank: number) => GroupOptions) = {},
): Promise<void> {
  const agents = await startGroup(size, options);
  await endEach(agents, (_, rank) => (rank === 0 ? test(agents) : Promise.resolve()));
}

/** A test that fails is said, and not what others say at their end, which waits for one that has failed. */
async function endEach(
  agents: readonly RpcAgent[],
  test: (self: RpcAgent, rank: number) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  const ends = agents.map(async (self, rank) => {
    const passed = await self
      .run(() => test(self, rank))
      .then(
        () => true,
        (error: unknown) => failures.push(error) === 0,
      );
    await self.shutdown({ timeoutMs: 10_000, onLeak: 'throw', graceful: passed });
  });
  const failed = (await Promise.allSettled(ends)).find((end) => end.status === 'rejected');
  if (failures.length > 0) throw failures[0];
  if (failed !== undefined) throw failed.reason;
}

/** To whom a test of `onAll` sends: as in PyTorch's tests the worker itself is meant by its record, others by their names. */
export function recordOrName(at: (name: string) => string, to: string): To {
  return to === 'w0' ? getWorkerInfo() : at(to);
}

export function agent(agents: readonly RpcAgent[], rank: number): RpcAgent {
  const found = agents[rank];
  if (found === undefined) throw new RangeError(`no agent of rank ${rank}`);
  return found;
}

/** Waits until `condition` holds; fails after ten seconds. */
export async function eventually(condition: () => boolean, what = 'the condition'): Promise<void> {
  for (let i = 0; i < 2_000; i++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`${what} did not come true in ten seconds`);
}

/** How many calls an agent has sent. */
export function callsSent(of: RpcAgent): number {
  const { calls_sent } = of.metrics();
  if (!Number.isInteger(calls_sent)) throw new TypeError(`the agent counts its calls as ${String(calls_sent)}`);
  return Number(calls_sent);
}

/** PyTorch's counters of an agent. */
export function counters(of: RpcAgent): Record<string, number> {
  return sessionOf(of).debugInfo();
}

/** Waits until an agent has no handle that its owner has yet to hear of, and nobody who waits for one, as PyTorch's tests do before they look. */
export function flushed(of: RpcAgent): Promise<void> {
  const none = (): boolean => {
    const { num_pending_users, num_pending_futures } = counters(of);
    return num_pending_users === 0 && num_pending_futures === 0;
  };
  return eventually(none, 'every handle is confirmed or failed');
}

/** Whether an agent has nothing in its tables. */
export function isEmpty(of: RpcAgent): boolean {
  const { num_owner_rrefs, num_forks, num_pending_users, num_pending_children } = counters(of);
  return num_owner_rrefs === 0 && num_forks === 0 && num_pending_users === 0 && num_pending_children === 0;
}
