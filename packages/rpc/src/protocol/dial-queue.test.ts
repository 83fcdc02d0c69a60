/** @file Whose turn it is to dial. */
import { expect, it } from 'vitest';
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

it('so many dial at once, in turn among those who dial, in order within each', () => {
  const queue = new DialQueue<string>(4, 1_000);
  enter(queue, 'a', 3);
  enter(queue, 'b', 2);
  enter(queue, 'c', 1);
  expect(start(queue, 0)).toEqual(['a0', 'b0', 'c0', 'a1']);
  expect(start(queue, 1)).toEqual([]);
});

it('one that is over lets the next start, first attempts before later ones', () => {
  const queue = new DialQueue<string>(2, 1_000);
  enter(queue, 'again', 2, true);
  const turns = ['x', 'y', 'z'].map((who) => queue.enter(who, false, () => names.push(who)));
  expect(start(queue, 0)).toEqual(['x', 'y']);
  for (const turn of turns) queue.leave(turn);
  expect(start(queue, 0)).toEqual(['again0', 'again1']);
  // `z` left while it stood in line.
  expect(queue.nextAt()).toBe(Infinity);
});

it('one that leaves twice frees one place only', () => {
  const queue = new DialQueue<string>(1, 1_000);
  const first = queue.enter('a', false, () => names.push('first'));
  enter(queue, 'b', 3);
  expect(start(queue, 0)).toEqual(['first']);
  queue.leave(first);
  queue.leave(first);
  expect(start(queue, 0)).toEqual(['b0']);
  queue.leave(first);
  expect(start(queue, 0)).toEqual([]);
});

it('those that wait for their peers hold nobody up for longer than a moment', () => {
  const queue = new DialQueue<string>(2, 1_000);
  const names = enter(queue, 'silent', 6);
  expect(start(queue, 0)).toEqual(names.slice(0, 2));
  expect(queue.nextAt()).toBe(1_000);
  expect(start(queue, 999)).toEqual([]);
  expect(start(queue, 1_000)).toEqual(names.slice(2, 4));
  expect(start(queue, 2_000)).toEqual(names.slice(4));
  expect(queue.nextAt()).toBe(Infinity);
});
