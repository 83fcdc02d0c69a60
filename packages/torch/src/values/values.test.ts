/** @file Values of Python that JavaScript has no equal of. */
import { describe, expect, it } from 'vitest';
import { PyDeque, PyTuple, scriptDict, scriptList, tupleOf } from './containers.ts';
import { py } from '../py.ts';
import { PyComplex, PyFloat, PyRange } from './numbers.ts';
import { PyException } from './objects.ts';
import { PyDateTime, PyTimeDelta, PyTimeZone } from './time.ts';
import { PyName } from './name.ts';
import { TorchDType, TorchDevice } from './torch-types.ts';

describe('containers', () => {
  it('of one number hold it, and are no length', () => {
    expect([...tupleOf([3])]).toEqual([3]);
    expect([...PyTuple.of(3)]).toEqual([3]);
    expect([...PyDeque.of(3)]).toEqual([3]);
    expect(tupleOf(Array.from({ length: 300_000 }, (_, i) => i))).toHaveLength(300_000);
  });

  it('give plain arrays where they are mapped', () => {
    for (const list of [PyTuple.of(1, 2), PyDeque.of(1, 2), scriptList('int', [1, 2])]) {
      expect(list.map((n: number) => n + 1).constructor).toBe(Array);
      expect(list.slice(1).constructor).toBe(Array);
    }
  });

  it('of TorchScript know their types', () => {
    expect(scriptList('int', [1]).elementType).toBe('int');
    const dict = scriptDict('str', 'int', [['a', 1]]);
    expect([dict.keyType, dict.valueType, dict.get('a')]).toEqual(['str', 'int', 1]);
  });
});

describe('ranges', () => {
  it.each([
    [0, 5, 1, [0, 1, 2, 3, 4]],
    [1, 10, 3, [1, 4, 7]],
    [5, 0, -2, [5, 3, 1]],
    [0, 0, 1, []],
    [3, 1, 1, []],
  ])('range(%i, %i, %i) counts as Python does', (start, stop, step, items) => {
    const range = new PyRange(start, stop, step);
    expect([...range]).toEqual(items);
    expect(range.length).toBe(items.length);
  });

  it('that cannot be are refused', () => {
    expect(() => new PyRange(0, 1, 0)).toThrow(RangeError);
    expect(() => new PyRange(0, 2 ** 60)).toThrow(/below 2\^53/);
  });
});

describe('times', () => {
  it.each([
    '1970-01-01T00:00:00.000Z',
    '2024-02-29T23:59:59.999Z',
    '0001-01-01T00:00:00.000Z',
    '9999-12-31T23:59:59.999Z',
  ])('%s is the same instant', (text) => {
    expect(PyDateTime.from(new Date(text)).toDate().toISOString()).toBe(text);
  });

  it('with a zone are instants', () => {
    const parts = { year: 2024, month: 1, day: 1, hour: 1, minute: 0, second: 0, microsecond: 1_999, fold: 0 };
    expect(new PyDateTime(parts, new PyTimeZone(new PyTimeDelta(0, 7_200, 0))).toDate().toISOString()).toBe(
      '2023-12-31T23:00:00.001Z',
    );
    expect(new PyDateTime(parts, new PyTimeZone(new PyTimeDelta(-1, 82_800, 0))).toDate().toISOString()).toBe(
      '2024-01-01T02:00:00.001Z',
    );
    expect(new PyDateTime(parts).toDate().toISOString()).toBe('2024-01-01T01:00:00.001Z');
    expect(new PyTimeDelta(-1, 5, 6).milliseconds).toBe(-86_400_000 + 5_000 + 0.006);
  });
});

describe('times that Python does not have are refused, naming the part:', () => {
  const noon = { year: 2024, month: 2, day: 29, hour: 12, minute: 0, second: 0, microsecond: 0, fold: 0 };
  it.each<[string, () => unknown, string | RegExp]>([
    ['day 30 of a leap February', () => new PyDateTime({ ...noon, day: 30 }), /the day of 2024-2 .* 1 to 29, got 30/],
    ['day 29 of another', () => new PyDateTime({ ...noon, year: 2023 }), /the day of 2023-2 .* 1 to 28, got 29/],
    ['month 13', () => new PyDateTime({ ...noon, month: 13 }), /the month of a datetime .* 1 to 12, got 13/],
    ['year 0', () => new PyDateTime({ ...noon, year: 0 }), /the year of a datetime .* 1 to 9999, got 0/],
    ['half a second', () => new PyDateTime({ ...noon, second: 0.5 }), /the second of a datetime .* got 0.5/],
    ['a part left out', () => new PyDateTime({ ...noon, fold: undefined as never }), /the fold .* got undefined/],
    ['a zone of no class', () => new PyDateTime(noon, 'UTC' as never), /zone of a datetime is a PyTimeZone, got 'UTC'/],
    ['no valid Date', () => PyDateTime.from(new Date(NaN)), /the year of a datetime .* got NaN/],
    ['a Date of year 10000', () => PyDateTime.from(new Date('+010000-01-01T00:00:00Z')), /the year .* got 10000/],
    ['a day of seconds', () => new PyTimeDelta(0, 86_400, 0), /seconds is .* 0 to 86399, got 86400/],
    ['too many days', () => new PyTimeDelta(1e9, 0, 0), /days is .* got 1000000000/],
    ['microseconds as text', () => new PyTimeDelta(0, 0, '1' as never), /microseconds is .* got '1'/],
    ['a zone a day away', () => new PyTimeZone(new PyTimeDelta(1, 0, 0)), /offset of a timezone is less than a day/],
    ['a zone of a number', () => new PyTimeZone(60 as never), /offset of a timezone is a PyTimeDelta, got 60/],
  ])('%s', (_, make, message) => {
    expect(make).toThrow(message);
  });

  it('and those at the bounds are taken', () => {
    expect(new PyDateTime(noon).day).toBe(29);
    expect(new PyTimeDelta(-999_999_999, 86_399, 999_999).days).toBe(-999_999_999);
    expect(new PyTimeZone(new PyTimeDelta(-1, 0, 1)).offset.milliseconds).toBeGreaterThan(-86_400_000);
    expect(PyDateTime.from(new Date('1900-02-28T00:00:00Z')).toDate().getTime()).toBe(-2_203_977_600_000);
    expect(() => new PyDateTime({ ...noon, year: 1900 })).toThrow(/the day of 1900-2 is a whole number from 1 to 28/);
  });
});

describe('what is no value of Python is refused at once:', () => {
  it.each<[string, () => unknown, RegExp]>([
    ['a float of text', () => py.float('abc' as never), /made of a number, got 'abc'/],
    ['a float of nothing', () => py.float(undefined as never), /made of a number, got undefined/],
    ['a complex number of text', () => new PyComplex(1, '2' as never), /two numbers, got 1 and '2'/],
    ['keyword arguments of text', () => py.kwargs('ab' as never), /py\.kwargs\(\{ dim: 0 \}\); got 'ab'/],
    ['keyword arguments of a list', () => py.kwargs([1] as never), /got a list/],
    ['keyword arguments of a Map', () => py.kwargs(new Map([['a', 1]]) as never), /got an object of class Map/],
    ['keyword arguments of null', () => py.kwargs(null as never), /got null/],
  ])('%s', (_, make, message) => {
    expect(make).toThrow(message);
  });
});

describe('small values', () => {
  it('are what they say', () => {
    expect(TorchDType.named('float32')).toBe(TorchDType.named('float32'));
    expect(TorchDType.named('nope')).toBeUndefined();
    expect(TorchDType.named('__proto__')).toBeUndefined();
    expect(String(TorchDevice.parse('cuda:3'))).toBe('cuda:3');
    expect(TorchDevice.parse('cpu')).toEqual(new TorchDevice('cpu'));
    expect(() => TorchDevice.parse('a b')).toThrow(RangeError);
    expect(new PyFloat(2) as unknown as number).toEqual(new PyFloat(2));
    expect(Number(new PyFloat(2))).toBe(2);
    expect(new PyName('a.b', 'C.d').path).toBe('a.b.C.d');
  });

  it('exceptions have their arguments as a message', () => {
    const error = new PyException(new PyName('builtins', 'KeyError'), ['k', 1, null, [2]]);
    expect([error.name, error.message]).toEqual(['KeyError', 'k, 1, None, …']);
    expect(error).toBeInstanceOf(Error);
  });
});
