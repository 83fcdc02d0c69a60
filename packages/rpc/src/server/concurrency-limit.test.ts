/** @file Slots of handlers: never more than there are, in order, shared by all callers, and without a stack that grows with the queue. */
import { describe, expect, test } from 'vitest';
import { ConcurrencyLimit, Share } from './concurrency-limit.ts';

interface Call {
  holdsSlot: boolean;
  leaveLine: (() => void) | undefined;
  origin: { share: Share };
}

const callOf = (share: Share): Call => ({ holdsSlot: false, leaveLine: undefined, origin: { share } });

describe('slots', () => {
  test('are given to those that wait in order, and to no more than there are', async () => {
    const slots = new ConcurrencyLimit(2);
    const share = new Share();
    const order: number[] = [];
    const [first, second, ...others] = [0, 1, 2, 3, 4].map(() => callOf(share)) as [Call, Call, Call, Call, Call];
    expect([slots.hold(first), slots.hold(second)]).toEqual([undefined, undefined]);
    const waiting = others.map(async (call, i) => {
      await slots.hold(call);
      order.push(i);
    });
    expect([slots.hasRoom(share), slots.queued]).toEqual([false, 3]);
    slots.give(first);
    slots.give(first);
    slots.next();
    slots.next();
    // Taken at once, although who waits goes on later only.
    expect([slots.used, slots.queued, share.held]).toEqual([2, 2, 2]);
    await waiting[0];
    slots.release(second);
    slots.release(others[0]);
    await Promise.all(waiting);
    expect([order, slots.used, slots.queued]).toEqual([[0, 1, 2], 2, 0]);
  });

  test('are not given to one that has left the line, which goes on without', async () => {
    const slots = new ConcurrencyLimit(1);
    const share = new Share();
    const [first, leaving, last] = [0, 1, 2].map(() => callOf(share)) as [Call, Call, Call];
    expect(slots.hold(first)).toBeUndefined();
    const [left, held] = [slots.hold(leaving), slots.hold(last)];
    leaving.leaveLine?.();
    await left;
    expect([leaving.holdsSlot, slots.used, slots.queued]).toEqual([false, 1, 1]);
    slots.release(first);
    await held;
    expect([last.holdsSlot, last.leaveLine, slots.used, slots.queued]).toEqual([true, undefined, 1, 0]);
  });

  test('start a hundred thousand that end at once, one after the other', () => {
    const slots = new ConcurrencyLimit(1);
    const share = new Share();
    let ended = 0;
    const first = callOf(share);
    void slots.hold(first);
    for (let i = 0; i < 100_000; i++) {
      slots.wait(share, () => {
        const call = callOf(share);
        slots.take(call);
        ended++;
        slots.release(call);
      });
    }
    slots.release(first);
    expect([ended, slots.used, slots.queued, share.held]).toEqual([100_000, 0, 0, 0]);
  });

  test('go on after one that throws', () => {
    const slots = new ConcurrencyLimit(1);
    const share = new Share();
    let started = 0;
    slots.wait(share, () => {
      throw new Error('its own affair');
    });
    slots.wait(share, () => started++);
    expect(() => slots.next()).toThrow('its own affair');
    slots.next();
    expect(started).toBe(1);
  });

  test.each([1, 2, 63])('all %i of them are for one caller, if it is alone or came first', (most) => {
    const slots = new ConcurrencyLimit(most);
    const share = new Share();
    for (let i = 0; i < most; i++) expect(slots.hold(callOf(share))).toBeUndefined();
    expect(slots.hasRoom(share)).toBe(false);
  });

  test.each([64, 100, 1_024])('of %i each newcomer finds some, whoever came before it', (most) => {
    const slots = new ConcurrencyLimit(most);
    const held: number[] = [];
    for (let caller = 0; caller < 3; caller++) {
      const share = new Share();
      while (slots.hasRoom(share)) slots.take(callOf(share));
      held.push(share.held);
    }
    expect(slots.used).toBeLessThanOrEqual(most);
    expect(held[0]).toBe(Math.ceil((most * 7) / 8));
    for (const each of held) expect(each).toBeGreaterThan(0);
  });

  test('become equal shares as they are given back and taken again', () => {
    const slots = new ConcurrencyLimit(1_024);
    const running: Call[] = [];
    const shares = [new Share(), new Share(), new Share()];
    for (const share of shares) {
      for (let i = 0; i < 5_000; i++) {
        const start = (): void => {
          const call = callOf(share);
          slots.take(call);
          running.push(call);
        };
        if (slots.hasRoom(share)) start();
        else slots.wait(share, start);
      }
    }
    for (let ended = 0; ended < 2_000; ended++) slots.release(running.shift() as Call);
    const held = shares.map((share) => share.held);
    for (const each of held) expect(Math.abs(each - (held[0] as number))).toBeLessThanOrEqual(8);
    expect(Math.min(...held)).toBeGreaterThan(300);
  });

  test('are taken in turn by those who wait, however much one of them has waiting', () => {
    const slots = new ConcurrencyLimit(1);
    const [many, few] = [new Share(), new Share()];
    const order: string[] = [];
    const first = callOf(many);
    slots.take(first);
    const wait = (share: Share, name: string): void => {
      slots.wait(share, () => {
        const call = callOf(share);
        slots.take(call);
        order.push(name);
        slots.release(call);
      });
    };
    for (let i = 0; i < 1_000; i++) wait(many, `many ${i}`);
    wait(few, 'few 0');
    wait(few, 'few 1');
    slots.release(first);
    expect(order.slice(0, 5)).toEqual(['many 0', 'few 0', 'many 1', 'few 1', 'many 2']);
    expect(order.length).toBe(1_002);
  });
});

describe('those that do not wait any more', () => {
  test('leave the line, and the others keep their places', () => {
    const slots = new ConcurrencyLimit(1);
    const [one, two] = [new Share(), new Share()];
    const first = callOf(one);
    slots.take(first);
    const started: string[] = [];
    const wait = (share: Share, name: string): (() => void) =>
      slots.wait(share, () => {
        started.push(name);
      });
    const leave = ['a', 'b', 'c', 'd'].map((name) => wait(one, name));
    const leaveTwo = wait(two, 'x');
    leave[0]?.();
    leave[2]?.();
    leave[2]?.();
    leaveTwo();
    expect([slots.queued, one.queued, two.queued]).toEqual([2, 2, 0]);
    wait(two, 'y');
    slots.release(first);
    expect([started, slots.queued]).toEqual([['b', 'y', 'd'], 0]);
    leave[1]?.();
    expect(slots.queued).toBe(0);
  });

  test('keep nothing, however many come and go while a handler does not end', () => {
    const slots = new ConcurrencyLimit(1);
    const share = new Share();
    slots.take(callOf(share));
    slots.wait(share, () => undefined);
    for (let i = 0; i < 100_000; i++) slots.wait(share, () => undefined)();
    const { queue } = share as unknown as { queue: unknown[] };
    expect([share.queued, slots.queued]).toEqual([1, 1]);
    expect(queue.length).toBeLessThan(10_000);
  });
});
