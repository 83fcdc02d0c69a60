import { describe, expect, it } from 'vitest';
import { VirtualClock } from './clock.ts';
import { Random } from './random.ts';

describe('VirtualClock', () => {
  it('runs events by time, and events of one time in the order they were scheduled', () => {
    const clock = new VirtualClock();
    const random = new Random(1);
    const expected: [number, number][] = [];
    const ran: [number, number][] = [];
    for (let i = 0; i < 2_000; i++) {
      const time = random.int(0, 50);
      expected.push([time, i]);
      clock.at(time, 'event', () => ran.push([clock.now, i]));
    }
    expected.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    while (clock.step() !== undefined);
    expect(ran).toEqual(expected);
  });

  it('never runs a cancelled event, and cancelling twice counts once', () => {
    const clock = new VirtualClock();
    const ran: string[] = [];
    const first = clock.after(1, 'first', () => ran.push('first'));
    clock.after(2, 'second', () => ran.push('second'));
    first.cancel();
    first.cancel();
    expect(clock.pending).toBe(1);
    while (clock.step() !== undefined);
    expect(ran).toEqual(['second']);
    expect(clock.pending).toBe(0);
    first.cancel();
    expect(clock.pending).toBe(0);
  });

  it('stops at the limit and lets no event move the time back', () => {
    const clock = new VirtualClock(10);
    clock.at(3, 'overdue', () => undefined);
    expect(clock.step()?.time).toBe(10);
    clock.after(5, 'later', () => undefined);
    expect(clock.step(14)).toBeUndefined();
    clock.advanceTo(20);
    clock.step();
    expect(clock.now).toBe(20);
    expect(() => clock.at(Number.NaN, 'bad', () => undefined)).toThrow(RangeError);
  });
});
