/** @file torch's examples split between torch and workers of this kind, in short; `npm run torch -- --suite examples` is the long form. */
import { beforeAll, describe, expect, it } from 'vitest';
import { ALL_TORCH, SPLITS, apart, train } from '../acceptance/examples/parameter-server.ts';
import { ends, play } from '../acceptance/examples/reinforcement.ts';
import { missed, shown, slower } from '../acceptance/examples/speed.ts';
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

describe('how fast observers play', () => {
  const fast = { stepsPerSecond: 1_200, agentCpu: 800, emptyCall: 1_000 };
  const slow = { stepsPerSecond: 600, agentCpu: 900, emptyCall: undefined };

  it('says what an empty call allows, where it was measured', () => {
    expect(shown(fast, 4)).toMatch(/^1200 steps\/s; .* 800 µs .* 1000 µs: 4 observers .* 4000 steps\/s/);
    expect(shown(slow, 4)).not.toContain('call');
  });

  it('is no failure when it is not slower, or reaches the goal', () => {
    expect(slower(fast, slow)).toBeUndefined();
    expect(slower(slow, fast)).toBe('0.50 times as fast as all in torch');
    expect(missed(fast, 1_200, [slow])).toBeUndefined();
  });

  it('is a failure below the goal whatever torch does, which is said beside it', () => {
    expect(missed(slow, 2_000, [fast], 2)).toMatch(
      /^below its goal; all in torch misses it, too, with 1200; .* 1\.8 of 2 cores/,
    );
    expect(missed(slow, 1_000, [fast], 2)).toMatch(/^below its goal; all in torch reaches it; .* 0\.9 of 2 cores/);
  });
});
