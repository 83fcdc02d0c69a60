/** @file torch's examples split between torch and workers of this kind, in short; `npm run torch -- --suite examples` is the long form. */
import { beforeAll, describe, expect, it } from 'vitest';
import { ALL_TORCH, SPLITS, apart, train } from '../acceptance/examples/parameter-server.ts';
import { ends, play } from '../acceptance/examples/reinforcement.ts';
import { torchVersion, withTorch } from './python.ts';

const STEPS = 10;

describe.skipIf(torchVersion === undefined)(withTorch, { timeout: 300_000 }, () => {
  let torch: readonly number[] = [];
  beforeAll(async () => {
    torch = await train(ALL_TORCH, STEPS);
  }, 300_000);

  it.each(SPLITS)('trains with $name, with the losses of all in torch at every step', async (split) => {
    const losses = await train(split, STEPS);
    expect(losses).toHaveLength(STEPS);
    expect(apart(losses, torch).most).toBeLessThan(1e-5);
  });

  it('observers here play for an agent there, and the poles stand longer', async () => {
    const { stood } = await play('here', 4, 12, 100);
    expect(stood).toHaveLength(12);
    const { first, last } = ends(stood);
    expect(last).toBeGreaterThan(1.2 * first);
  });
});

describe('two curves of losses', () => {
  it('are as far apart as where they are farthest', () => {
    expect(apart([1, 2, 3], [1, 2.5, 3.25])).toEqual({ most: 0.5, at: 1 });
    expect(apart([1, 2], [1, 2])).toEqual({ most: 0, at: 0 });
  });

  it('are as far apart as can be where one has no number', () => {
    expect(apart([1, NaN, 3], [1, 2, 3])).toEqual({ most: Infinity, at: 1 });
    expect(() => apart([1], [1, 2])).toThrow(RangeError);
  });
});
