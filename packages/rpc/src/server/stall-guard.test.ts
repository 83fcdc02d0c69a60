/** @file When a worker takes itself for one that stood still. */
import os from 'node:os';
import { afterEach, expect, test, vi } from 'vitest';
import type { Environment } from '../base/environment.ts';
import { DEFAULT_LIVENESS } from '../base/options.ts';
import { StallGuard } from './stall-guard.ts';

afterEach(() => void vi.restoreAllMocks());

function guard(): { guard: StallGuard; late: number[]; looks: () => number } {
  const late: number[] = [];
  let looks = 0;
  const environment = {
    liveness: DEFAULT_LIVENESS,
    now: () => 0,
    logger: { info: () => undefined },
  } as unknown as Environment;
  return {
    guard: new StallGuard({
      environment,
      refuse: () => undefined,
      peers: () => [],
      refresh: async () => void looks++,
      onLate: (ms) => late.push(ms),
    }),
    late,
    looks: () => looks,
  };
}

test('a loop that did not turn for half a lease has its store asked, and says for how long', () => {
  vi.spyOn(Date, 'now').mockReturnValue(1e12);
  const one = guard();
  one.guard.turn(4_999);
  expect([one.guard.isLate(9_998), one.guard.isLate(9_999), one.looks()]).toEqual([false, true, 0]);
  one.guard.turn(9_999);
  expect([one.late, one.looks()]).toEqual([[4_999, 5_000], 1]);
});

test('a machine that slept, whose own clock did so too, is told by the clocks that went on', () => {
  const wall = vi.spyOn(Date, 'now').mockReturnValue(1e12);
  const up = vi.spyOn(os, 'uptime').mockReturnValue(50_000);
  const one = guard();
  wall.mockReturnValue(1e12 + 3_600_000);
  up.mockReturnValue(53_600);
  expect(one.guard.isLate(500)).toBe(true);
  one.guard.turn(500);
  expect([one.late, one.looks(), one.guard.isLate(1_000)]).toEqual([[3_600_000], 1, false]);
});

test.each([3_600_000, -3_600_000])('a clock that somebody sets by %d ms says nothing', (ms) => {
  const wall = vi.spyOn(Date, 'now').mockReturnValue(1e12);
  const up = vi.spyOn(os, 'uptime').mockReturnValue(50_000);
  const one = guard();
  wall.mockReturnValue(1e12 + ms);
  up.mockReturnValue(50_000.5);
  expect(one.guard.isLate(500)).toBe(false);
  one.guard.turn(500);
  expect([one.late, one.looks()]).toEqual([[500], 0]);
});
