/** @file Which replicas are which, and what is remembered of those that were given up. */
import { expect, it } from 'vitest';
import { MAX_FAILED_REPLICA_TEXT, MAX_FAILED_REPLICAS } from '../base/limits.ts';
import type { AgentParts } from '../inspection/agent-parts.ts';
import { meetingKey, nameInExchange } from '../protocol/meeting-keys.ts';
import { ReplicaSeats, type Replica } from './replica-seats.ts';

/** A group of workers by name, each with its incarnation. */
function seats(lives: Record<string, number>): ReplicaSeats {
  const others = (): unknown[] =>
    Object.entries(lives).flatMap(([name, incarnation]) =>
      name === 'a' ? [] : [{ worker: { name, id: 1 }, incarnation }],
    );
  const agent = { name: 'a', incarnation: lives['a'], self: { name: 'a', id: 0 }, members: { others } };
  return new ReplicaSeats(agent as unknown as AgentParts);
}

const why = { by: 'b', after: 0, broken: false, text: 'no luck' };
const replica = { names: ['a', 'b'], line: '1.x', number: 1 };

/** What is told at once of a replica when its next exchange begins. */
function known(of: ReplicaSeats, about: Replica): { readonly message: string; readonly after: number }[] {
  const told: { message: string; after: number }[] = [];
  of.watch(about, ({ message }, after) => told.push({ message, after }))();
  return told;
}

it('counts replicas by their workers, in any order, and anew when one of them has begun anew', () => {
  const lives = { a: 1, b: 2, c: 3 };
  const of = seats(lives);
  const take = (...names: string[]): { number: number; line: string; lives: string } => of.take(names, 'replica');
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

it('knows lines of which a worker has begun anew or is gone, and names that worker', () => {
  const lives: Record<string, number> = { a: 1, b: 2, c: 3 };
  const of = seats(lives);
  const place = of.take(['c', 'a', 'b'], 'replica');
  const other = of.take(['a', 'c'], 'replica');
  const keyIn = (line: string | undefined, ...names: string[]): string =>
    meetingKey(line === undefined ? 'reduce/parts' : nameInExchange('reduce/parts', line, 3), names);
  const check = (): void => of.checkLives(['a', 'b', 'c'], place.lives);
  expect(check).not.toThrow();
  expect(of.isOfTheLiving(keyIn(place.line, 'b', 'c', 'a'))).toBe(true);
  lives['b'] = 9;
  of.changed();
  expect(check).toThrow(
    "worker 'b' has begun anew since this group or replica was made: make new ones on every worker",
  );
  expect(of.isOfTheLiving(keyIn(place.line, 'b', 'c', 'a'))).toBe(false);
  expect(of.isOfTheLiving(keyIn(other.line, 'a', 'c'))).toBe(true);
  expect(of.isOfTheLiving(keyIn(of.take(['a', 'b', 'c'], 'replica').line, 'a', 'b', 'c'))).toBe(true);
  delete lives['b'];
  of.gone('b');
  expect(check).toThrow("worker 'b' is gone");
  // What has no line, or not these workers, has nothing to outlive.
  for (const key of [keyIn(undefined, 'a', 'b'), meetingKey('gather', []), keyIn(place.line)])
    expect(of.isOfTheLiving(key)).toBe(true);
});

it('tells an exchange of what other members have given up, before it or in it', () => {
  const of = seats({ a: 1, b: 2, c: 3 });
  of.giveUp({ ...replica, names: ['b', 'a'] }, { ...why, after: 4 });
  const message = "worker 'b' makes no further pass with replica 1 of its group: no luck [failed-precondition]";
  expect(known(of, replica)).toEqual([{ message, after: 4 }]);
  for (const other of [
    { ...replica, number: 2 },
    { ...replica, line: '2.x' },
    { ...replica, names: ['a', 'b', 'c'] },
  ]) {
    expect(known(of, other)).toEqual([]);
    const told: string[] = [];
    const unwatch = of.watch(other, (error) => told.push(error.message));
    of.giveUp(other, { ...why, by: 'c', broken: true });
    unwatch();
    of.giveUp(other, why);
    expect(told).toEqual([expect.stringMatching(/'c' makes no further pass.*\[barrier-broken\]/)]);
  }
});

it('refuses what is brought to an exchange past those that a member has come through, whoever brings it and collects', () => {
  const of = seats({ a: 1, b: 2, c: 3 });
  const keyIn = (line: string, ...names: string[]): string =>
    meetingKey(nameInExchange('reduce/parts', line, 0), names);
  const refused = (key: string, tags: Record<string, string | number>): boolean => of.failure(key, tags) !== undefined;
  expect(refused(keyIn('1.x', 'a', 'b'), { replica: 1, exchange: 5 })).toBe(false);
  of.giveUp(replica, { ...why, after: 4 });
  for (const key of [keyIn('1.x', 'a', 'b'), keyIn('1.x', 'b', 'a')]) {
    expect([4, 5, 6].map((exchange) => refused(key, { replica: 1, exchange }))).toEqual([false, true, true]);
    expect(refused(key, { replica: 2, exchange: 5 })).toBe(false);
    expect(refused(key, { replica: 1 })).toBe(false);
    expect(refused(key, {})).toBe(false);
  }
  for (const key of [keyIn('2.x', 'a', 'b'), keyIn('1.x', 'a', 'b', 'c'), meetingKey('gather', [])])
    expect(refused(key, { replica: 1, exchange: 5 })).toBe(false);
  // Another has come through fewer.
  of.giveUp(replica, { ...why, by: 'a', after: 2 });
  expect(refused(keyIn('1.x', 'a', 'b'), { replica: 1, exchange: 3 })).toBe(true);
});

it('forgets what was said by one that is gone', () => {
  const of = seats({ a: 1, b: 2, c: 3 });
  of.giveUp(replica, why);
  of.giveUp(replica, { ...why, by: 'c' });
  expect(known(of, replica)).toHaveLength(2);
  of.gone('b');
  expect(known(of, replica)).toHaveLength(1);
});

it('remembers so much of each member, the newest in any case: nobody makes it forget what others say', () => {
  const of = seats({ a: 1, b: 2, c: 3 });
  const has = (number: number, names: readonly string[] = replica.names): boolean =>
    known(of, { ...replica, names, number }).length > 0;
  of.giveUp({ ...replica, number: 0 }, { ...why, by: 'c' });
  for (let number = 1; number <= MAX_FAILED_REPLICAS + 1; number++) of.giveUp({ ...replica, number }, why);
  expect([0, 1, 2, MAX_FAILED_REPLICAS + 1].map((number) => has(number))).toEqual([true, false, true, true]);
  const long = ['a', 'b'.repeat(MAX_FAILED_REPLICA_TEXT / 2)];
  of.giveUp({ ...replica, names: long, number: 1 }, why);
  expect([has(2), has(MAX_FAILED_REPLICAS + 1), has(1, long)]).toEqual([false, true, true]);
  of.giveUp({ ...replica, names: long, number: 2 }, why);
  expect([has(MAX_FAILED_REPLICAS + 1), has(1, long), has(2, long), has(0)]).toEqual([false, false, true, true]);
});
