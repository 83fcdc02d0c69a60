/** @file Whose turn it is to dial. */
import { Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { MAX_DIALS, SLOW_DIAL_MS } from '../base/limits.ts';
import { DialQueue } from './dial-queue.ts';

function enter(queue: DialQueue<string>, who: string, count: number, again = false): string[] {
  return Array.from({ length: count }, (_, i) => {
    const name = `${who}${i}`;
    queue.enter(who, again, () => names.push(name));
    return name;
  });
}
let names: string[] = [];
function start(queue: DialQueue<string>, now: number): string[] {
  names = [];
  for (const turn of queue.next(now)) turn.start();
  return names;
}

/** Draws the first of several. */
const first = (): number => 0;

it('so many dial at once, in turn among those who dial', () => {
  const queue = new DialQueue<string>(4, 1_000, first);
  enter(queue, 'a', 3);
  enter(queue, 'b', 2);
  enter(queue, 'c', 1);
  expect(start(queue, 0)).toEqual(['a0', 'b0', 'c0', 'a1']);
  expect(start(queue, 1)).toEqual([]);
});

it('one that is over lets the next start, first attempts before later ones', () => {
  const queue = new DialQueue<string>(2, 1_000, first);
  enter(queue, 'again', 2, true);
  const turns = ['x', 'y', 'z'].map((who) => queue.enter(who, false, () => names.push(who)));
  expect(start(queue, 0)).toEqual(['x', 'y']);
  for (const turn of turns) queue.leave(turn, 0);
  expect(start(queue, 0)).toEqual(['again0', 'again1']);
  // `z` left while it stood in line.
  expect(queue.nextAt()).toBe(Infinity);
});

it('one that leaves twice frees one place only', () => {
  const queue = new DialQueue<string>(1, 1_000, first);
  const only = queue.enter('a', false, () => names.push('first'));
  enter(queue, 'b', 3);
  expect(start(queue, 0)).toEqual(['first']);
  queue.leave(only, 0);
  queue.leave(only, 0);
  expect(start(queue, 0)).toEqual(['b0']);
  queue.leave(only, 0);
  expect(start(queue, 0)).toEqual([]);
});

it('those that wait for their peers hold nobody up for longer than a moment', () => {
  const queue = new DialQueue<string>(2, 1_000, first);
  const names = enter(queue, 'silent', 4);
  expect(start(queue, 0)).toEqual(names.slice(0, 2));
  expect(queue.nextAt()).toBe(1_000);
  expect(start(queue, 999)).toEqual([]);
  expect(start(queue, 1_000)).toEqual(names.slice(2, 3));
  expect(start(queue, 2_000)).toEqual(names.slice(3));
  expect(queue.nextAt()).toBe(Infinity);
});

it('half as many go on once some were slow, and more again with each that was not', () => {
  const queue = new DialQueue<string>(8, 1_000, first);
  const turns = Array.from({ length: 100 }, () => queue.enter('a', false, () => undefined));
  const going = (now: number): number => queue.next(now).length;
  expect(going(0)).toBe(8);
  // All eight were: that is one sign of too many, not eight.
  expect(going(1_000)).toBe(4);
  for (const turn of turns.slice(8, 12)) queue.leave(turn, 1_100);
  // 4 + 1/4 + 1/4.25 + 1/4.49 + 1/4.71
  expect(going(1_100)).toBe(4);
  for (const turn of turns.slice(12, 16)) queue.leave(turn, 1_200);
  expect(going(1_200)).toBe(5);
});

describe('a storm: sixteen processes on two cores dial so much that each handshake would last longer than its limit', () => {
  /** Milliseconds of a core that a handshake takes, both ends; how long it may last; and what is dialled by each process. */
  const [COST, LIMIT, DIALS, CORES] = [8, 5_000, 500, 2];
  interface Shake {
    readonly queue: DialQueue<string>;
    readonly turn: ReturnType<DialQueue<string>['enter']>;
    left: number;
    readonly until: number;
  }

  /** Virtual seconds until all have shaken hands, and how many were made for nothing. */
  function storm(limits: readonly [most: number, slowMs: number]): { seconds: number; inVain: number } {
    const random = new Random(1);
    const going = new Set<Shake>();
    let [now, done, inVain] = [0, 0, 0];
    const dial = (queue: DialQueue<string>, again: boolean): void => {
      const turn = queue.enter('a', again, () => void going.add({ queue, turn, left: COST, until: now + LIMIT }));
    };
    const queues = Array.from({ length: 16 }, () => new DialQueue<string>(...limits, () => random.float()));
    for (const queue of queues) for (let i = 0; i < DIALS; i++) dial(queue, false);
    const STEP = 20;
    for (; done < queues.length * DIALS && now < 300_000; now += STEP) {
      for (const queue of queues) for (const turn of queue.next(now)) turn.start();
      // Everything that goes on gets an equal part.
      const part = (CORES * STEP) / going.size;
      for (const shake of going) {
        shake.left -= part;
        const failed = shake.left > 0 && now >= shake.until;
        if (shake.left > 0 && !failed) continue;
        going.delete(shake);
        shake.queue.leave(shake.turn, now);
        if (failed) {
          inVain++;
          dial(shake.queue, true);
        } else done++;
      }
    }
    return { seconds: now / 1_000, inVain };
  }

  it('ends almost as soon as the cores can, with none made for nothing', () => {
    // 8,000 handshakes of 8 ms on two cores: 32 s.
    const { seconds, inVain } = storm([MAX_DIALS, SLOW_DIAL_MS]);
    expect([seconds < 40, inVain]).toEqual([true, 0]);
  });
});

it('whom of several one dials is drawn, so that those who begin at once do not all dial the same', () => {
  const draws = [0.99, 0.5, 0];
  const queue = new DialQueue<string>(4, 1_000, () => draws.shift() ?? 0);
  enter(queue, 'a', 3);
  expect(start(queue, 0)).toEqual(['a2', 'a1', 'a0']);
});
