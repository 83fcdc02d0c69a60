/** @file The group that a block of code runs in: all of its workers in one process, 'worker0' being the one that the block is. */
import { createAgent, initRpc, shutdown } from 'backwire';

/**
 * Runs `block` as 'worker0' of a group with `workers`; without any it is alone, and starts whatever it wants itself.
 * @public by the programs that `run-blocks.ts` writes
 */
export async function inGroup(name: string, workers: readonly string[], block: () => Promise<unknown>): Promise<void> {
  if (workers.length === 0) {
    await block();
    return;
  }
  const common = { worldSize: workers.length + 1, store: `memory://${name}`, initTimeoutMs: 20_000 };
  const [, ...others] = await Promise.all([
    initRpc({ name: 'worker0', rank: 0, ...common }),
    ...workers.map((worker, i) => createAgent({ name: worker, rank: i + 1, ...common })),
  ]);
  try {
    await block();
  } finally {
    await Promise.all([
      shutdown({ timeoutMs: 10_000 }),
      ...others.map((agent) => agent.shutdown({ timeoutMs: 10_000 })),
    ]);
  }
}
