/** @file A worker that dies and comes back while others end: all of them end, whoever collects for the group. */
import { describe, expect, it } from 'vitest';
import { createAgent, rpcAsync, rpcFunction, type RpcAgent } from '../src/index.ts';

const TIME = { timeoutMs: 20_000 };
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const slow = rpcFunction('shutdown-restart/slow', async (ms: number) => {
  await sleep(ms);
  return 'done';
});

let counter = 0;
/** Starts rank after rank of a group of three, any of them again as another life. */
function starter(): (rank: number) => Promise<RpcAgent> {
  const store = `memory://shutdown-restart-${++counter}`;
  return (rank) => createAgent({ name: `w${rank}`, rank, worldSize: 3, store });
}

describe('a graceful shutdown', () => {
  // Rank 0 collects for the group, the others do not.
  it.each([0, 1])('waits for rank %i, which died and came back while rank 2 waited', async (rank) => {
    const start = starter();
    const agents = await Promise.all([0, 1, 2].map(start));
    const [gone] = agents.splice(rank, 1) as [RpcAgent];
    const [other, waiting] = agents as [RpcAgent, RpcAgent];
    let over = false;
    const ends = waiting.shutdown(TIME).then(() => (over = true));
    await sleep(50);
    await gone.shutdown({ graceful: false });
    const again = await start(rank);
    // It serves until everybody is done.
    await sleep(50);
    expect(await other.run(() => rpcAsync(again.name, slow, [1]))).toBe('done');
    const comesBack = again.shutdown(TIME);
    await sleep(50);
    expect(over).toBe(false);
    await Promise.all([other.shutdown(TIME), comesBack, ends]);
  });

  it.each([0, 1])('does not wait for rank %i, which comes back when the others are ending', async (rank) => {
    const start = starter();
    const agents = await Promise.all([0, 1, 2].map(start));
    const [gone] = agents.splice(rank, 1) as [RpcAgent];
    const [other, waiting] = agents as [RpcAgent, RpcAgent];
    // Keeps the others at the step that waits for calls.
    const call = other.run(() => rpcAsync(waiting.name, slow, [600]));
    const ends = [other.shutdown(TIME), waiting.shutdown(TIME)];
    await sleep(50);
    await gone.shutdown({ graceful: false });
    await sleep(100);
    const again = await start(rank);
    await again.shutdown(TIME);
    await Promise.all(ends);
    expect(await call).toBe('done');
  });
});
