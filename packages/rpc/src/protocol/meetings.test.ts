/** @file Meetings: who is waited for, and who is said to be missing. */
import { expect, test } from 'vitest';
import { isMeetingOf, meetingKey, Meetings } from './meetings.ts';

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
  const [released] = meetings.arrive('k', 'b', 'b2', opening);
  expect([released?.type, [...(released?.arrivals.keys() ?? [])].sort()]).toEqual(['released', ['a', 'b', 'c']]);
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

test('a meeting is of those whom its key names, one of them comes, and the first collects', () => {
  const isOf = (names: string[], from: string, collector: string): boolean =>
    isMeetingOf(meetingKey('barrier', ['a', 'b']), names, from, collector);
  expect(isOf(['a', 'b'], 'b', 'a')).toBe(true);
  expect([isOf(['a', 'c'], 'c', 'a'), isOf(['b'], 'b', 'b'), isOf([], 'c', 'a')]).toEqual([false, true, false]);
  expect([isOf(['a', 'b'], 'c', 'a'), isOf(['b'], 'b', 'a'), isOf(['a', 'b'], 'a', 'b')]).toEqual([
    false,
    false,
    false,
  ]);
  expect([meetingKey('gather', []), isMeetingOf('gather\n*', [], 'c', 'a')]).toEqual(['gather\n*', true]);
  expect(isMeetingOf('gather\n*', ['a', 'c'], 'c', 'a')).toBe(false);
});
