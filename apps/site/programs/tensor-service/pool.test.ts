/** @file The pool of the guide ends its tries, also where there are fewer workers than tries. */
import { initRpc, RpcError, shutdown } from 'backwire';
import { expect, it } from 'vitest';
import { Pool } from './pool.ts';

it('gives up after so many tries when the only worker refuses each at once', async () => {
  await initRpc({ name: 'model0', rank: 0, membership: 'dynamic', store: 'memory://pool' });
  try {
    const pool = new Pool('model', 64);
    let asked = 0;
    const refuse = (): never => {
      if (++asked > 10) throw new Error('asked without an end');
      throw new RpcError('draining', 'it leaves');
    };
    await expect(pool.call(async () => refuse())).rejects.toThrow('it leaves');
    expect(asked).toBe(3);
    asked = 0;
    // eslint-disable-next-line require-yield -- it fails before its first item
    const items = pool.stream(async function* (): AsyncGenerator<number> {
      await Promise.resolve();
      refuse();
    });
    await expect(items.next()).rejects.toThrow('it leaves');
    expect(asked).toBe(3);
  } finally {
    await shutdown({ graceful: false });
  }
});

it('asks the only worker again a moment later, when it may be back', async () => {
  await initRpc({ name: 'model0', rank: 0, membership: 'dynamic', store: 'memory://pool-pause' });
  try {
    const begun = performance.now();
    const answer = await new Pool('model', 64).call(async () => {
      if (performance.now() - begun < 50) throw new RpcError('unavailable', 'it is away');
      return Promise.resolve('back');
    });
    expect(answer).toBe('back');
  } finally {
    await shutdown({ graceful: false });
  }
});
