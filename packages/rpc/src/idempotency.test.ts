/** @file What the cache of outcomes keeps, for how long, and what a full one costs. */
import type { Message } from '@backwire/wire';
import { describe, expect, it } from 'vitest';
import type { Core } from './core.ts';
import { IdempotencyCache } from './idempotency.ts';
import type { InboundCall } from './inbound-call.ts';
import { IDEMPOTENT_KEEP_MS, MAX_IDEMPOTENT_BYTES, MAX_IDEMPOTENT_OUTCOMES } from './limits.ts';

/** A cache under a clock of its own. */
function start() {
  const clock = { now: 1_000 };
  const core = { now: () => clock.now } as unknown as Core;
  const cache = new IdempotencyCache(core);
  const quarter = new Uint8Array(MAX_IDEMPOTENT_BYTES / 4);
  let runs = 0;
  const run = (key: string, payload: Uint8Array = new Uint8Array(0)): Promise<Message> =>
    cache.run({ caller: { name: 'w0' }, key } as unknown as InboundCall, 'f', async () => {
      runs++;
      return { type: 0x203, id: 0n, payload, tensors: [] };
    });
  return { clock, quarter, run, runs: () => runs };
}

describe('IdempotencyCache', () => {
  it('keeps so many bytes, refuses new keys then, and knows the old ones', async () => {
    const { clock, quarter, run, runs } = start();
    for (const key of ['a', 'b', 'c', 'd']) await run(key, quarter);
    await expect(run('e')).rejects.toMatchObject({ code: 'resource-exhausted', executed: 'no' });
    expect((await run('a')).payload).toBe(quarter);
    expect(runs()).toBe(4);
    clock.now += IDEMPOTENT_KEEP_MS;
    for (const key of ['a', 'e', 'f', 'g']) await run(key, quarter);
    expect(runs()).toBe(8);
    await expect(run('h')).rejects.toMatchObject({ code: 'resource-exhausted' });
  });

  it('takes the key of a call that ended long ago for a new one, without counting both', async () => {
    const { clock, quarter, run, runs } = start();
    for (let i = 0; i < 8; i++) {
      await run('a', quarter);
      clock.now += IDEMPOTENT_KEEP_MS;
    }
    expect(runs()).toBe(8);
    await run('b');
    expect(runs()).toBe(9);
  });

  it('is full of so many outcomes, until the oldest may be forgotten', async () => {
    const { clock, run } = start();
    await run('first');
    clock.now += 10;
    for (let i = 1; i < MAX_IDEMPOTENT_OUTCOMES; i++) void run(`${i}`);
    await expect(run('more')).rejects.toMatchObject({ code: 'resource-exhausted' });
    clock.now += IDEMPOTENT_KEEP_MS - 11;
    await expect(run('more')).rejects.toMatchObject({ code: 'resource-exhausted' });
    clock.now += 1;
    await run('more');
    await expect(run('yet more')).rejects.toMatchObject({ code: 'resource-exhausted' });
    clock.now += 10;
    await run('yet more');
  });
});
