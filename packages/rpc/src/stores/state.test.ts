/** @file The contents of a store are bounded, whatever they are made of. */
import { expect, test, vi } from 'vitest';
import { ENTRY_OVERHEAD_BYTES, MAX_STORE_BYTES, MAX_STORE_KEYS } from './limits.ts';
import { StoreState } from './state.ts';

vi.mock(import('./limits.ts'), async (original) => ({
  ...(await original()),
  MAX_STORE_BYTES: 8_192,
  MAX_STORE_KEYS: 10 as 1_000_000,
}));

const ITEM = Uint8Array.of(1);
const full = expect.objectContaining({ code: 'resource-exhausted' }) as Error;

test('keys of queues count among the keys of the store, until the queues are empty', () => {
  const state = new StoreState();
  for (let i = 1; i < MAX_STORE_KEYS; i++) state.push(`q${i}`, ITEM);
  state.set('k', ITEM);
  expect(() => state.push('one more', ITEM)).toThrow(full);
  expect(() => state.set('one more', ITEM)).toThrow(full);
  state.push('q1', ITEM);
  state.set('k', ITEM);
  state.pop('q2');
  state.set('one more', ITEM);
});

test('and their bytes count, and are given back', () => {
  const state = new StoreState();
  const key = (i: number): string => `${i}`.padEnd(2_000);
  for (let round = 0; round < 3; round++) {
    const each = 2_000 + ITEM.byteLength + 2 * ENTRY_OVERHEAD_BYTES;
    const fit = Math.floor(MAX_STORE_BYTES / each);
    for (let i = 0; i < fit; i++) state.push(key(i), ITEM);
    expect(() => state.push(key(fit), ITEM)).toThrow(full);
    expect(() => state.set(key(fit), ITEM)).toThrow(full);
    for (let i = 0; i < fit; i++) state.pop(key(i));
  }
});
