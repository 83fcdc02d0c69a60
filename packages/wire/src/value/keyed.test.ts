/** @file Maps and sets whose keys were chosen to collide. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { decodeValue, encodeValue } from '../index.ts';
import { mapOf, setOf } from './keyed.ts';

afterEach(() => void vi.restoreAllMocks());

/** A clock that is `stepMs` further at each `slow`th look, two of which are a block. */
function clock(stepMs: number, slow: number): void {
  let [now, looks] = [0, 0];
  vi.spyOn(performance, 'now').mockImplementation(() => (now += ++looks % slow === 0 ? stepMs : 0));
}

const numbers = Array.from({ length: 100_000 }, (_, i) => i);

describe('the keys of a map or set', () => {
  it('are refused where they collide, soon', () => {
    // Engines hash a bigint by its lowest 64 bits.
    const items = Array.from({ length: 200_000 }, (_, i) => (BigInt(i) << 64n) | 5n);
    const { bytes } = encodeValue(items);
    bytes[0] = encodeValue(new Set()).bytes[0]!;
    const began = performance.now();
    expect(() => decodeValue(bytes, [])).toThrow('the 200000 keys of a map or set collide');
    expect(performance.now() - began).toBeLessThan(20_000);
  });

  it('are taken in their order otherwise, however many they are', () => {
    expect([...setOf(numbers)]).toEqual(numbers);
    expect([...mapOf(numbers, numbers.toReversed())].at(-1)).toEqual([99_999, 0]);
    expect(decodeValue(encodeValue(new Map([[NaN, 1]])).bytes, [])).toEqual(new Map([[NaN, 1]]));
  });

  it('may take long where that is none of their own doing: now and then, or all of a process that is slow', () => {
    clock(60_000, 20);
    expect(setOf(numbers).size).toBe(100_000);
    clock(19, 2);
    expect(setOf(numbers).size).toBe(100_000);
    clock(21, 2);
    expect(() => setOf(numbers)).toThrow('the 100000 keys of a map or set collide');
    expect(() => mapOf(numbers, numbers)).toThrow('the 100000 keys of a map or set collide');
  });
});
