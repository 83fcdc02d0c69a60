import { expect, test } from 'vitest';
import { isMeetingOf, lineKey, lineOfKey, meetingKey, nameInExchange, nameInLine, partsOfKey } from './meeting-keys.ts';

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

test('a key says its line, whether it is of one bucket, and who meets', () => {
  const key = (name: string, line?: string, bucket?: number): string =>
    meetingKey(nameInExchange(name, line, bucket), ['a', 'b']);
  const names = ['a', 'b'];
  expect(key('reduce/parts', '1.x', 0)).toBe('reduce/parts/1.x/0\na\nb');
  expect(partsOfKey(key('reduce/parts', '1.x', 0))).toEqual({ line: '1.x', isOfBucket: true, names });
  expect(partsOfKey(key('gather', '1.x'))).toEqual({ line: '1.x', isOfBucket: false, names });
  expect(partsOfKey(key('gather', undefined, 2))).toEqual({ line: '', isOfBucket: true, names });
  expect(partsOfKey(meetingKey('barrier', []))).toEqual({ line: '', isOfBucket: false, names: [] });
  expect(['gather', 'reduce/whole'].map((what) => nameInLine(what, undefined))).toEqual(['gather', 'reduce/whole']);
  // What a program calls of a group is never called as what an exchange of its replicas is.
  expect(nameInLine('reduce/whole', '1.x')).not.toBe(nameInExchange('reduce/whole', '1.x', undefined));
});

test('a line is of its workers only', () => {
  const lines = [
    lineOfKey('reduce/parts/1.x/0\na\nb'),
    lineOfKey('reduce/whole/1.x\na\nb'),
    lineOfKey('reduce/whole/1.x/4\na\nc'),
    lineOfKey('gather/whole//4\n*'),
    lineOfKey('shutdown/arrive\n*'),
  ];
  expect(lines).toEqual(['1.x\na\nb', '1.x\na\nb', '1.x\na\nc', undefined, undefined]);
});

test('a line of some workers is one at each of them that collects', () => {
  const keys = [
    ['a', 'b', 'c'],
    ['b', 'c', 'a'],
    ['c', 'a', 'b'],
  ].map((names) => lineOfKey(meetingKey(nameInExchange('reduce/parts', '1.x', 2), names)));
  expect(['a', 'b', 'c'].map((collector) => lineKey('1.x', ['c', 'a', 'b', 'a'], collector))).toEqual(keys);
});
