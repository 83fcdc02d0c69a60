/** @file A hostile member with random calls, for a moment; `npm run fuzz -- --suite member` goes on for longer. */
import { expect, it } from 'vitest';
import { fuzzMember } from '../fuzz/member-run.ts';

it('a member who calls every name in every way runs nothing that is not served, and keeps nobody from being served', async () => {
  const seed = 11;
  const { calls, outcomes, names, ran, unheard } = await fuzzMember(1_500, seed);
  expect(calls, `seed ${seed}`).toBe(1_500);
  expect(ran).toEqual([]);
  expect(unheard).toEqual([]);
  expect(names).toBeGreaterThan(30);
  // It got as far as the gate, behind it, and past it.
  for (const code of ['permission-denied', 'not-found', 'invalid-argument', 'decode-error', 'ok'])
    expect(outcomes.get(code) ?? 0, code).toBeGreaterThan(5);
}, 60_000);
