/** @file One timer for many limits. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ambient, runWith } from '@backwire/tensor/internal';
import { TimeLimits } from './time-limits.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('reaches each limit in its time and once, whatever the order they were set in', () => {
  const limits = new TimeLimits();
  const reached: number[] = [];
  for (const ms of [300, 100, 200]) limits.add(ms, () => reached.push(ms));
  vi.advanceTimersByTime(99);
  expect(reached).toEqual([]);
  vi.advanceTimersByTime(2);
  expect(reached).toEqual([100]);
  vi.advanceTimersByTime(1_000);
  expect(reached).toEqual([100, 200, 300]);
  expect(vi.getTimerCount()).toBe(0);
});

it('never reaches what was lifted, also by one that is reached at the same time, and takes a limit after a long pause', () => {
  const limits = new TimeLimits();
  const reached: string[] = [];
  const lift = limits.add(50, () => reached.push('lifted'));
  lift();
  let liftLater = (): void => undefined;
  limits.add(80, () => {
    reached.push('first');
    liftLater();
  });
  liftLater = limits.add(80, () => reached.push('second'));
  vi.advanceTimersByTime(10_000);
  expect(reached).toEqual(['first']);
  limits.add(20, () => reached.push('new'));
  vi.advanceTimersByTime(21);
  expect(reached).toEqual(['first', 'new']);
});

it('takes a limit that is set while another is reached, and runs outside of the context it was set in', () => {
  const limits = new TimeLimits();
  const seen: (bigint | undefined)[] = [];
  runWith({ contextId: 5n }, () =>
    limits.add(10, () => {
      seen.push(ambient().contextId);
      limits.add(5, () => seen.push(1n));
    }),
  );
  vi.advanceTimersByTime(11);
  vi.advanceTimersByTime(6);
  expect(seen).toEqual([undefined, 1n]);
});
