/** @file What is kept of a peer's device maps, and for how long. */
import { expect, it } from 'vitest';
import { createAgent } from '../index.ts';
import type { Agent } from './agent.ts';

it('keeps nothing of a worker that has left, as groups whose workers come under new names need', async () => {
  const join = async (name: string): Promise<Agent> =>
    (await createAgent({ name, membership: 'dynamic', store: 'memory://device-maps' })) as Agent;
  const stays = await join('stays');
  try {
    const leaves = await join('leaves');
    await expect.poll(() => stays.peers().length).toBe(1);
    const ways = (): unknown[] => [
      stays.deviceMaps.to('leaves', 'Request'),
      stays.deviceMaps.to('leaves', 'Response'),
      stays.deviceMaps.gradientsTo('leaves'),
    ];
    const before = ways();
    expect(ways().every((way, i) => way === before[i])).toBe(true);
    await leaves.shutdown();
    await expect.poll(() => stays.peers().length).toBe(0);
    expect(ways().some((way, i) => way === before[i])).toBe(false);
  } finally {
    await stays.shutdown({ graceful: false });
  }
});
