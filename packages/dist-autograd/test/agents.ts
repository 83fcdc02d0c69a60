/** @file Several agents in one process for a test file, and functions that every worker serves. */
import { afterAll, beforeAll, expect } from 'vitest';
import { errorMatching, type ErrorMatcher } from '@backwire/testing';
import { createAgent, RpcError, type RpcAgent, type ShutdownOptions } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';
import { rand, tensor, type Tensor } from '@backwire/tensor';
import { distAutograd, distAutogradDebugInfo } from '../src/index.ts';

interface Agents {
  readonly agents: RpcAgent[];
  at<T>(rank: number, fn: () => T): T;
  /** All of them at once, as PyTorch's tests are run. */
  everywhere<T>(fn: (rank: number) => Promise<T>): Promise<T[]>;
}

/** Starts `count` agents `w0`, `w1`, … before the tests of a file and ends them after, all together. */
export function useAgents(group: string, count: number, end: ShutdownOptions = {}): Agents {
  const agents: RpcAgent[] = [];
  beforeAll(async () => {
    const store = `memory://${group}`;
    const made = Array.from({ length: count }, (_, rank) =>
      createAgent({ name: `w${rank}`, rank, worldSize: count, store, extensions: [rrefs(), distAutograd()] }),
    );
    agents.push(...(await Promise.all(made)));
  });
  afterAll(async () => {
    await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 10_000, ...end })));
  });
  return {
    agents,
    at: (rank, fn) => (agents[rank] as RpcAgent).run(fn),
    everywhere: (fn) => Promise.all(agents.map((agent, rank) => agent.run(() => fn(rank)))),
  };
}

/** A tensor of this shape filled with `value`, requiring grad. */
export function leaf(shape: number[], value: number): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  return tensor(new Float32Array(size).fill(value), { shape, requiresGrad: true });
}

/** A leaf of this shape with random values. */
export function randomLeaf(...shape: number[]): Tensor {
  return rand(shape, { requiresGrad: true });
}

/** A tensor of this shape filled with `value`. */
export function filled(shape: number[], value: number): Tensor {
  return leaf(shape, value).detach();
}

/** What a context that is not there, or no more, is refused with. */
export const unknownContext = (id: bigint): ErrorMatcher =>
  errorMatching(RpcError, { code: 'not-found', message: `Could not find autograd context with id: ${id}` });

/** Waits until no agent has a context or a pass. */
export async function expectClean(agents: readonly RpcAgent[]): Promise<void> {
  await expect
    .poll(() => agents.map((agent) => agent.run(() => Object.values(distAutogradDebugInfo()))), { timeout: 5_000 })
    .toEqual(agents.map(() => [0, 0]));
}

/** Values that wait at meetings of any worker. */
export function waiting(agents: readonly RpcAgent[]): number {
  type Meeting = RpcAgent & { readonly collectives: { readonly meetings: { readonly size: number } } };
  return agents.reduce((sum, agent) => sum + (agent as Meeting).collectives.meetings.size, 0);
}
