/** @file Slots of handlers: never more than there are, in order, and without a stack that grows with the queue. */
import { describe, expect, test } from 'vitest';
import { ConcurrencyLimit } from './concurrency-limit.ts';

describe('slots', () => {
  test('are given to those that wait in order, and to no more than there are', async () => {
    const slots = new ConcurrencyLimit(2);
    const order: number[] = [];
    expect([slots.take(), slots.take()]).toEqual([undefined, undefined]);
    const waiting = [1, 2, 3].map(async (i) => {
      await slots.take();
      order.push(i);
    });
    expect([slots.full, slots.queued]).toEqual([true, 3]);
    slots.give();
    slots.next();
    slots.next();
    // Taken at once, although who waits goes on later only.
    expect([slots.used, slots.queued]).toEqual([2, 2]);
    await waiting[0];
    for (let i = 0; i < 2; i++) {
      slots.give();
      slots.next();
    }
    await Promise.all(waiting);
    expect([order, slots.used, slots.queued]).toEqual([[1, 2, 3], 2, 0]);
  });

  test('start a hundred thousand that end at once, one after the other', () => {
    const slots = new ConcurrencyLimit(1);
    let ended = 0;
    const end = (): void => {
      slots.give();
      slots.next();
    };
    void slots.take();
    for (let i = 0; i < 100_000; i++) {
      slots.wait(() => {
        slots.used++;
        ended++;
        end();
      });
    }
    end();
    expect([ended, slots.used, slots.queued]).toEqual([100_000, 0, 0]);
  });

  test('go on after one that throws', () => {
    const slots = new ConcurrencyLimit(1);
    let started = 0;
    slots.wait(() => {
      throw new Error('its own affair');
    });
    slots.wait(() => started++);
    expect(() => slots.next()).toThrow('its own affair');
    slots.next();
    expect(started).toBe(1);
  });
});
