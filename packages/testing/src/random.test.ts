import { describe, expect, it } from 'vitest';
import { hashText, Random } from './random.ts';

const draws = (random: Random, count = 8): number[] => Array.from({ length: count }, () => random.uint32());

describe('Random', () => {
  it('gives the same stream for the same seed and another for another', () => {
    expect(draws(new Random(7))).toEqual(draws(new Random(7)));
    expect(draws(new Random(7))).not.toEqual(draws(new Random(8)));
  });

  it('keeps its stream over releases: seeds in bug reports stay valid', () => {
    expect(draws(new Random(1), 4)).toEqual([2926449440, 3526326613, 2790593901, 3224939499]);
  });

  it('splits by name, not by what was drawn', () => {
    const one = new Random(3);
    const before = draws(one.split('network'));
    draws(one, 100);
    expect(draws(one.split('network'))).toEqual(before);
    expect(draws(one.split('crash'))).not.toEqual(before);
  });

  it('covers an integer range evenly, ends included and excluded', () => {
    const random = new Random('even');
    const counts = [0, 0, 0, 0, 0];
    for (let i = 0; i < 50_000; i++) counts[random.int(10, 15) - 10]!++;
    for (const count of counts) expect(Math.abs(count - 10_000)).toBeLessThan(500);
    expect(() => random.int(2, 2)).toThrow(RangeError);
  });

  it('has the asked mean and chance', () => {
    const random = new Random('moments');
    let sum = 0;
    let hits = 0;
    for (let i = 0; i < 50_000; i++) {
      sum += random.exponential(4);
      hits += random.chance(0.25) ? 1 : 0;
    }
    expect(sum / 50_000).toBeCloseTo(4, 0);
    expect(hits / 50_000).toBeCloseTo(0.25, 1);
  });

  it('shuffles into a permutation and picks by weight', () => {
    const random = new Random('mix');
    expect(random.shuffle([1, 2, 3, 4, 5, 6]).sort()).toEqual([1, 2, 3, 4, 5, 6]);
    const counts = { a: 0, b: 0, never: 0 };
    for (let i = 0; i < 4_000; i++) counts[random.weighted({ a: 3, b: 1, never: 0 })]++;
    expect(counts.never).toBe(0);
    expect(counts.a / counts.b).toBeCloseTo(3, 0);
    expect(() => random.pick([])).toThrow(RangeError);
  });
});

describe('hashText', () => {
  it('does not collide over many short texts', () => {
    const seen = new Set<string>();
    for (let i = 0; i < 20_000; i++) seen.add(hashText(`state ${i}`).join());
    expect(seen.size).toBe(20_000);
  });
});
