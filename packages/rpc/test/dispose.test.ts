/** @file The end of a block that holds an agent. */
import { expect, it } from 'vitest';
import { createAgent } from '../src/index.ts';

it('does not tell once more how a shutdown failed whose caller was told', async () => {
  const store = 'memory://dispose';
  const [first, second] = await Promise.all(
    [0, 1].map((rank) => createAgent({ name: `w${rank}`, rank, worldSize: 2, store })),
  );
  if (first === undefined || second === undefined) throw new Error('no agents');
  const outcome = async (): Promise<unknown> => {
    await using agent = first;
    return agent.shutdown({ timeoutMs: 100 }).catch((error: unknown) => error);
  };
  expect(await outcome()).toMatchObject({ code: 'deadline-exceeded' });
  await expect(first.shutdown()).rejects.toMatchObject({ code: 'deadline-exceeded' });
  await second.shutdown({ graceful: false });
});
