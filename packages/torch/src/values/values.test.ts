/** @file Values of Python that JavaScript has no equal of. */
import { describe, expect, it } from 'vitest';
import { PyDeque, PyTuple, scriptDict, scriptList, tupleOf } from './containers.ts';
import { PyFloat, PyRange } from './numbers.ts';
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
