/** @file Meetings: who is waited for, and who is said to be missing. */
import { Seeded } from '@backwire/testing';
import { expect, test } from 'vitest';
import { Meetings, type MeetingEffect } from './meetings.ts';

const of =
  (...expected: string[]) =>
  (): { expected: string[]; survive: boolean } => ({ expected, survive: false });

test('whoever gives up is told who never came, not who gave up before', () => {
  const meetings = new Meetings<string>();
  for (const name of ['a', 'b']) expect(meetings.arrive('k', name, `${name}1`, of('a', 'b', 'c', 'd'))).toEqual([]);
  expect(meetings.withdraw('a', 'a1')).toEqual(['c', 'd']);
  expect(meetings.withdraw('b', 'b1')).toEqual(['c', 'd']);
  expect(meetings.withdraw('b', 'b1')).toBeUndefined();
  expect(meetings.size).toBe(0);
});

test('when all came, but not at one time, those who did not wait are missing', () => {
  const meetings = new Meetings<string>();
  for (const name of ['a', 'b']) meetings.arrive('k', name, `${name}1`, of('a', 'b', 'c'));
  expect(meetings.withdraw('a', 'a1')).toEqual(['c']);
  meetings.arrive('k', 'c', 'c1', of());
  expect(meetings.withdraw('b', 'b1')).toEqual(['a']);
});

test('a round that goes on without the gone waits for one that takes the place of a former life', () => {
  const meetings = new Meetings<string>();
  const opening = (): { expected: string[]; survive: boolean } => ({ expected: ['a', 'b', 'c'], survive: true });
  meetings.arrive('k', 'c', 'c1', opening);
  expect(meetings.gone('b')).toEqual([]);
  meetings.joined('b');
  expect(meetings.arrive('k', 'a', 'a1', opening)).toEqual([]);
  const arrivals = new Map([
    ['c', 'c1'],
    ['a', 'a1'],
    ['b', 'b2'],
  ]);
  expect(meetings.arrive('k', 'b', 'b2', opening)).toEqual([{ type: 'released', arrivals }]);
});

test('what was brought by one that is gone is given back, as it is of a round that breaks', () => {
  const meetings = new Meetings<string>();
  const opening = (): { expected: string[]; survive: boolean } => ({ expected: ['a', 'b'], survive: true });
  meetings.arrive('k', 'b', 'b1', opening);
  expect(meetings.gone('b')).toEqual([{ type: 'left', name: 'b', arrival: 'b1' }]);
  expect(meetings.arrive('k', 'a', 'a1', opening)).toEqual([{ type: 'released', arrivals: new Map([['a', 'a1']]) }]);
});

/** Every arrival ends once, whatever happens: in an effect, in an answer of the meetings, or with `close`. */
test('an arrival ends once, in whatever order members come, withdraw, go and join', () => {
  for (let seed = 0; seed < 2_000; seed++) {
    const seeded = new Seeded(seed);
    const chance = (percent: number): boolean => seeded.below(100) < percent;
    const names = ['a', 'b', 'c', 'd'];
    const meetings = new Meetings<string>();
    const open = new Map<string, string>();
    const ended: string[] = [];
    const take = (effects: readonly MeetingEffect<string>[]): void => {
      for (const effect of effects)
        ended.push(...(effect.type === 'left' ? [effect.arrival] : effect.arrivals.values()));
    };
    let made = 0;
    for (let step = 0; step < 30; step++) {
      const name = seeded.pick(names);
      const what = seeded.below(100);
      if (what < 50) {
        const arrival = `${name}${made++}`;
        open.set(arrival, name);
        const survive = chance(50);
        const key = survive ? 'end' : 'round';
        take(meetings.arrive(key, name, arrival, () => ({ expected: names.filter(() => chance(80)), survive })));
      } else if (what < 65) {
        if (open.size === 0) continue;
        const [arrival, from] = seeded.pick([...open]);
        if (meetings.withdraw(from, arrival) !== undefined) ended.push(arrival);
      } else if (what < 85) take(meetings.gone(name, chance(30)));
      else if (what < 90) meetings.joined(name);
      else if (what < 94) ended.push(...meetings.breakUp('round', name));
      else if (what < 97) ended.push(...meetings.handOver());
      else ended.push(...meetings.giveUp().flatMap(({ arrivals }) => arrivals));
    }
    ended.push(...meetings.close());
    expect([...ended].sort(), `seed ${seed}`).toEqual([...open.keys()].sort());
  }
});

test('beside a meeting are those of its line and workers at which one who comes is still waited for', () => {
  const meetings = new Meetings<string>();
  const all = of('a', 'b', 'c');
  meetings.arrive('reduce/parts/1.x/0\na\nb\nc', 'a', 'a0', all);
  meetings.arrive('reduce/whole/1.x/1\na\nb\nc', 'a', 'a1', all);
  meetings.arrive('reduce/whole/1.x\na\nb\nc', 'b', 'b2', all);
  for (const key of ['reduce/parts/2.x/0\na\nb\nc', 'reduce/parts/1.x/0\na\nc', 'gather\n*', 'reduce/whole\na\nb\nc'])
    meetings.arrive(key, 'a', 'other', all);
  const beside = (key: string, from: string): string[] =>
    meetings.beside(key, from).flatMap(({ arrivals }) => [...arrivals.values()]);
  expect(beside('reduce/parts/1.x/7\na\nb\nc', 'c')).toEqual(['a0', 'a1', 'b2']);
  expect(beside('reduce/parts/1.x/7\na\nb\nc', 'b')).toEqual(['a0', 'a1']);
  expect(beside('reduce/parts/1.x/7\na\nb\nc', 'd')).toEqual([]);
  for (const key of ['reduce/whole\na\nb\nc', 'gather\n*']) expect(beside(key, 'c')).toEqual([]);
});

test('rounds of a line end for all who wait there when one value of them is given up, and no others do', () => {
  const meetings = new Meetings<string>();
  const all = of('a', 'b', 'c');
  meetings.arrive('reduce/parts/1.x/0\na\nb\nc', 'a', 'a0', all);
  meetings.arrive('reduce/parts/1.x/0\na\nb\nc', 'b', 'b0', all);
  meetings.arrive('reduce/parts/1.x/1\na\nb\nc', 'a', 'a1', all);
  meetings.arrive('reduce/parts/2.x/0\na\nb\nc', 'b', 'b0', all);
  expect(meetings.breakInLine('1.x\na\nb\nc', (_, arrival) => arrival === 'b0')).toEqual(['a0', 'b0']);
  expect(meetings.breakInLine('1.x\na\nb\nc', () => false)).toEqual([]);
  expect(meetings.close()).toEqual(['a1', 'b0']);
});

test('what another collects from now on is handed over, and nothing else', () => {
  const meetings = new Meetings<string>();
  meetings.arrive('end', 'b', 'b1', () => ({ expected: ['a', 'b'], survive: true }));
  meetings.arrive('barrier', 'b', 'b2', of('a', 'b'));
  expect(meetings.handOver()).toEqual(['b1']);
  expect(meetings.size).toBe(1);
  expect(meetings.close()).toEqual(['b2']);
});

test('whoever gives up says for whom it has waited, round by round', () => {
  const meetings = new Meetings<string>();
  for (const [from, what] of [
    ['a', 'a1'],
    ['b', 'b1'],
  ] as const)
    meetings.arrive('end', from, what, () => ({ expected: ['a', 'b', 'c', 'd'], survive: true }));
  meetings.arrive('barrier', 'b', 'b2', of('a', 'b'));
  meetings.withdraw('a', 'a1');
  expect(meetings.giveUp()).toEqual([{ arrivals: ['b1'], missing: ['c', 'd'] }]);
  expect(meetings.giveUp()).toEqual([]);
  expect(meetings.close()).toEqual(['b2']);
});

test('whoever gives up when all have come says who did not wait', () => {
  const meetings = new Meetings<string>();
  for (const from of ['a', 'b', 'c']) {
    meetings.arrive('end', from, `${from}1`, () => ({ expected: ['a', 'b', 'c'], survive: true }));
    if (from === 'b') meetings.withdraw('a', 'a1');
  }
  expect(meetings.giveUp()).toEqual([{ arrivals: ['b1', 'c1'], missing: ['a'] }]);
});

test('no member opens so many rounds that others cannot open theirs', () => {
  const meetings = new Meetings<string>();
  const opens = (from: string, others: string): number => {
    let opened = 0;
    for (; meetings.mayOpen(from, 64); opened++) meetings.arrive(`${from}${opened}`, from, 'x', of(others));
    return opened;
  };
  expect([opens('c', 'a'), opens('a', 'b'), opens('b', 'a')]).toEqual([56, 7, 1]);
  expect(meetings.size).toBe(64);
});
