import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { Random, runSeeds } from '@backwire/testing';
import type { Step } from '../sim/program.ts';
import { programSuite, runDistributed, type Outcome, type Scenario } from '../sim/suite.ts';

/** Many calls at once whose gradients meet in leaves of their callees, in numbers whose sum depends on its order. */
function crowded(seed: number): Scenario {
  const random = new Random(`crowded ${seed}`);
  const leaves = [0, 0, 0, 0, 1, 1, 2, 2].map((worker) => ({
    worker,
    values: [random.float() * 3 - 1, random.float() * 10 - 5],
  }));
  const useLeaves = (to: number): Step[] => [
    { do: 'leaf', leaf: 4 },
    { do: 'leaf', leaf: 6 },
    { do: 'mul', a: 0, b: 1 },
    { do: 'mul', a: 3, b: 2 },
    { do: 'call', calls: [0, 1].map((i) => ({ to, fn: 0, args: [i + 3, 0] })), forget: false },
  ];
  const functions = [
    { steps: useLeaves(2), out: [5, 4, 3] },
    { steps: useLeaves(1).slice(0, 4), out: [4, 3] },
  ];
  const calls = Array.from({ length: 8 }, (_, i) => ({ to: 1 + (i % 2), fn: 0, args: [i % 4, (i + 1) % 4] }));
  const main: Step[] = [0, 1, 2, 3].map((leaf) => ({ do: 'leaf', leaf }));
  main.push({ do: 'call', calls, forget: false });
  const program = { workers: 3, leaves, functions, main, roots: Array.from({ length: 29 }, (_, i) => i) };
  return {
    seed,
    program,
    jitterMs: 10,
    passes: 2,
    dtype: 'float32',
    asks: seed % 2 === 0,
    cancelAfterMs: undefined,
    death: undefined,
  };
}

describe('random distributed programs', () => {
  it(
    'have the gradients of one process, end, and leave nothing behind, whatever dies or is cancelled',
    { timeout: 60_000 },
    async () => {
      const ends: Record<string, number> = {};
      const sums = { hops: 0, sharedLeaves: 0, unused: 0, errors: 0, asked: 0, planned: 0, aborts: 0 };
      const totals = await runSeeds(
        programSuite(({ ended, covered }: Outcome) => {
          ends[ended] = (ends[ended] ?? 0) + 1;
          for (const what of Object.keys(sums) as (keyof typeof sums)[]) sums[what] += covered[what];
        }),
        { count: 300, recheckEvery: 100, regressions: fileURLToPath(new URL('../sim/seeds.txt', import.meta.url)) },
      );
      for (const count of Object.values(sums)) expect(count).toBeGreaterThan(10);
      expect(totals.seeds).toBe(302);
      expect(ends['finished']).toBeGreaterThan(200);
      expect(ends['peer-died']).toBeGreaterThan(5);
    },
  );

  it('have the same bits however messages are delayed', { timeout: 60_000 }, async () => {
    let compared = 0;
    for (let seed = 1; seed <= 40; seed++) {
      const scenario = crowded(seed);
      const [first, second] = [await runDistributed(scenario, 1), await runDistributed(scenario, 2)];
      expect(first.ended).toBe('finished');
      expect(second.gradients).toEqual(first.gradients);
      if (first.result.hash !== second.result.hash && first.gradients?.some((grad) => grad !== undefined) === true)
        compared++;
    }
    expect(compared).toBe(40);
  });
});
