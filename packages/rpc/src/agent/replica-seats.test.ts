/** @file Which replicas are which, and what is remembered of those that were given up. */
import { expect, it } from 'vitest';
import { MAX_FAILED_REPLICA_TEXT, MAX_FAILED_REPLICAS } from '../base/limits.ts';
import type { AgentParts } from '../inspection/agent-parts.ts';
import { meetingKey } from '../protocol/meetings.ts';
import { ReplicaSeats } from './replica-seats.ts';

/** A group of workers by name, each with its incarnation. */
function seats(lives: Record<string, number>): ReplicaSeats {
  const others = (): unknown[] =>
    Object.entries(lives).flatMap(([name, incarnation]) =>
      name === 'a' ? [] : [{ worker: { name, id: 1 }, incarnation }],
    );
  const agent = { name: 'a', incarnation: lives['a'], self: { name: 'a', id: 0 }, members: { others } };
  return new ReplicaSeats(agent as unknown as AgentParts);
}

const why = { by: 'b', broken: false, text: 'no luck' };
const keyIn = (line: string, names: readonly string[]): string => meetingKey(`reduce/parts/${line}`, names);

it('counts replicas by their workers, in any order, and anew when one of them has begun anew', () => {
  const lives = { a: 1, b: 2, c: 3 };
  const of = seats(lives);
  const take = (...names: string[]): { number: number; line: string } => of.take(names, 'replica');
  const taken = [take('a', 'b'), take('b', 'a'), take('a', 'b', 'c')];
  expect(taken.map(({ number }) => number)).toEqual([1, 2, 1]);
  const line = taken[0]?.line;
  expect(seats({ ...lives }).take(['b', 'a'], 'replica').line).toBe(line);
  expect(new Set(taken.map((one) => one.line)).size).toBe(3);
  // Groups are counted apart.
  const group = of.take(['a', 'b'], 'group');
  expect(group.number).toBe(1);
  expect(group.line).not.toBe(line);
  lives.b = 9;
  const anew = take('a', 'b');
  expect([anew.number, take('a', 'c').number]).toEqual([1, 1]);
  expect(anew.line).not.toBe(line);
});

it('refuses what is brought to a replica that was given up, of its line and workers, whoever collects', () => {
  const of = seats({ a: 1, b: 2, c: 3 });
  expect(of.giveUp({ names: ['a', 'b'], line: '1.x', number: 2 }, why)).toMatchObject({ code: 'failed-precondition' });
  for (const names of [
    ['a', 'b'],
    ['b', 'a'],
  ])
    expect(of.failure(keyIn('1.x', names), { replica: 2, pass: 7 })?.message).toContain(
      "worker 'b' makes no further pass with replica 2 of its group: no luck",
    );
  for (const [line, names, replica] of [
    ['1.x', ['a', 'b'], 1],
    ['2.x', ['a', 'b'], 2],
    ['1.x', ['a', 'b', 'c'], 2],
  ] as const)
    expect(of.failure(keyIn(line, names), { replica })).toBeUndefined();
  expect(of.failure(keyIn('1.x', ['a', 'b']), {})).toBeUndefined();
  expect(of.failure(meetingKey('gather', []), { replica: 2 })).toBeUndefined();
});

it('names the first who gave a replica up, and a group that a worker has left as broken', () => {
  const of = seats({ a: 1, b: 2 });
  const replica = { names: ['a', 'b'], line: '1.x', number: 1 };
  expect(of.giveUp(replica, { ...why, broken: true })).toMatchObject({ code: 'barrier-broken', peer: { name: 'b' } });
  expect(of.giveUp(replica, { by: 'a', broken: false, text: 'later' })).toBeUndefined();
  expect(of.failure(keyIn('1.x', ['a', 'b']), { replica: 1 })?.message).toContain('no luck');
});

it('remembers so many, of so many characters, and the newest in any case', () => {
  const of = seats({ a: 1, b: 2 });
  const has = (number: number, names: readonly string[]): boolean =>
    of.failure(keyIn('1.x', names), { replica: number }) !== undefined;
  const names = ['a', 'b'];
  for (let number = 1; number <= MAX_FAILED_REPLICAS + 1; number++) of.giveUp({ names, line: '1.x', number }, why);
  expect([1, 2, MAX_FAILED_REPLICAS + 1].map((number) => has(number, names))).toEqual([false, true, true]);
  const long = ['a', 'b'.repeat(MAX_FAILED_REPLICA_TEXT / 2)];
  of.giveUp({ names: long, line: '1.x', number: 1 }, why);
  expect([has(2, names), has(3, names), has(1, long)]).toEqual([false, true, true]);
  of.giveUp({ names: long, line: '1.x', number: 2 }, why);
  expect([has(3, names), has(1, long), has(2, long)]).toEqual([false, false, true]);
});
