import { describe, expect, it } from 'vitest';
import { Random } from './random.ts';
import { Budget, shrinkList, shrinkScenario } from './shrink.ts';

describe('shrinkList', () => {
  it('finds the elements that matter, in order, wherever they are', async () => {
    const random = new Random('ddmin');
    for (let round = 0; round < 30; round++) {
      const items = Array.from({ length: random.int(1, 60) }, (_, i) => i);
      const needed = random
        .shuffle(items)
        .slice(0, random.int(1, 4))
        .sort((a, b) => a - b);
      const fails = (list: readonly number[]): boolean => needed.every((n) => list.includes(n));
      expect(await shrinkList(items, fails, new Budget(2_000))).toEqual(needed);
    }
  });

  it('gives the empty list when nothing matters and stops when the attempts run out', async () => {
    expect(await shrinkList([1, 2, 3], () => true, new Budget(10))).toEqual([]);
    let tried = 0;
    await shrinkList(
      Array.from({ length: 100 }, (_, i) => i),
      () => (tried++, false),
      new Budget(7),
    );
    expect(tried).toBe(7);
  });
});

describe('shrinkScenario', () => {
  it('shrinks lists and switches rates off one by one', async () => {
    const scenario = { seed: 4, program: [1, 2, 3, 4, 5], rates: { drop: 0.2, duplicate: 0.5, reorder: 0.1 } };
    const smallest = await shrinkScenario(
      scenario,
      (s) => s.seed === 4 && s.program.includes(3) && s.rates.duplicate > 0,
    );
    expect(smallest).toEqual({ seed: 4, program: [3], rates: { drop: 0, duplicate: 0.5, reorder: 0 } });
  });
});
