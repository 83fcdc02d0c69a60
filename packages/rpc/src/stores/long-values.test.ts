/** @file What a client knows of long values: the latest of each key, of a few keys. */
import { expect, test } from 'vitest';
import { LONG_BYTES, LongValues, type LongValue } from './long-values.ts';

const value = (modified: number, size = LONG_BYTES): LongValue => ({
  bytes: new Uint8Array(size).fill(modified),
  modified,
  ...{ created: 1, version: modified },
});

test('the latest value stays, in whatever order changes and answers come', () => {
  const values = new LongValues();
  for (const modified of [5, 7, 6]) values.saw('view', value(modified));
  expect(values.of('view')?.modified).toBe(7);
  expect(values.known('view', value(7).bytes)?.modified).toBe(7);
  expect(values.known('view', value(6).bytes)).toBeUndefined();
  expect(values.of('other')).toBeUndefined();
});

test('short values are not kept, and replace one that was', () => {
  const values = new LongValues();
  values.saw('view', value(1));
  values.saw('view', value(2, LONG_BYTES - 1));
  expect(values.of('view')).toBeUndefined();
});

test('only the keys that changed last are kept, and none once the store counts anew', () => {
  const values = new LongValues();
  for (let i = 1; i <= 5; i++) values.saw(`key${i}`, value(i));
  values.saw('key2', value(6));
  values.saw('key6', value(7));
  expect([1, 2, 3, 4, 5, 6].filter((i) => values.of(`key${i}`) !== undefined)).toEqual([2, 4, 5, 6]);
  values.forget();
  expect(values.of('key2')).toBeUndefined();
});
