/**
 * @file Fills maps and sets with what a peer sent. Engines hash numbers and bigints without a seed, so that keys can be chosen to meet in
 * one bucket: a map of them takes time squared, and a few hundred kilobytes would stop a process for minutes.
 */
import { decodeError } from '../errors.ts';

/** Entries between two looks at the clock. */
const BLOCK = 1_024;
/** A block that takes longer is slow: a hundred times what it takes where the keys were not chosen. */
const SLOW_BLOCK_MS = 20;
/** One may be slow because the process was held up. So many in a row, about a second, are no accident. */
const MAX_SLOW_BLOCKS = 16;

/** @throws WireError 'decode-error' for keys that collide. */
export function mapOf(keys: readonly unknown[], values: readonly unknown[]): Map<unknown, unknown> {
  const map = new Map<unknown, unknown>();
  fill(keys.length, (i) => map.set(keys[i], values[i]));
  return map;
}

/** @throws WireError 'decode-error' for items that collide. */
export function setOf(items: readonly unknown[]): Set<unknown> {
  const set = new Set<unknown>();
  fill(items.length, (i) => set.add(items[i]));
  return set;
}

function fill(count: number, put: (i: number) => unknown): void {
  let slow = 0;
  let from = 0;
  for (let at = 0; at < count;) {
    const end = Math.min(at + BLOCK, count);
    if (count > BLOCK) from = performance.now();
    while (at < end) put(at++);
    if (count <= BLOCK) return;
    slow = performance.now() - from > SLOW_BLOCK_MS ? slow + 1 : 0;
    if (slow >= MAX_SLOW_BLOCKS)
      throw decodeError(`the ${count} keys of a map or set collide: looking each of them up would take too long`);
  }
}
