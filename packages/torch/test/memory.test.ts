/** @file What a worker of a torch group keeps of the memory that messages came in. */
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { zeros, type Tensor } from '@backwire/tensor';
import { bufferPool } from '@backwire/wire/internal';
import { afterEach, expect, it, vi } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { group, leave } from './group.ts';

const made = rpcFunction('memory.made', (count: number) => zeros([count]));

afterEach(() => void vi.useRealTimers());

it('gives memory back to the system that no message has needed for a while', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const agents = await group(2);
  const large: Tensor = await (agents[0] as Agent).run(() => rpcSync('n1', made, [1 << 20]));
  large.dispose();
  expect(bufferPool.stats().freeBytes).toBeGreaterThanOrEqual(4 << 20);
  vi.advanceTimersByTime(120_000);
  expect(bufferPool.stats().freeBytes).toBe(0);
  await leave(agents);
  expect(vi.getTimerCount()).toBe(0);
});
