/** @file Two threads read the memory of a process: whole, in place, and without leaving a thread behind. */
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { crossMemory, type CrossMemory } from './cma-memory.ts';
import { holdHelper, letHelperGo, memoryHelper } from './memory-helper.ts';

const MIB = 1024 * 1024;
/** Of the block that both threads see. */
const WORD = 0;
const FAILED = 2;
const memory = crossMemory();
const digest = (bytes: Uint8Array): string => createHash('sha1').update(bytes).digest('hex');
const unused = (): boolean => {
  throw new Error('nobody reads');
};

describe.skipIf(memory === undefined)('two threads', () => {
  const real = memory as CrossMemory;
  const pattern = Uint8Array.from({ length: 9 * MIB + 77 }, (_, i) => (i * 31) >> 3);

  beforeEach(async () => {
    holdHelper();
    // The first large read starts it, and is not shared yet.
    const target = new Uint8Array(2 * MIB);
    expect(real.read(process.pid, [{ address: real.addressOf(pattern), length: target.length }], [target])).toBe(true);
    await expect.poll(() => memoryHelper(unused), { timeout: 20_000 }).toBeDefined();
  });
  afterEach(() => letHelperGo());

  test.each([2 * MIB, 2 * MIB + 1, 8 * MIB, 9 * MIB + 70])('read %i bytes and what stands around them', (length) => {
    const from = real.addressOf(pattern);
    for (let round = 0; round < 20; round++) {
      const target = new Uint8Array(length + 2).fill(0xee);
      const [before, after] = [new Uint8Array(5), new Uint8Array(3)];
      const ranges = [
        { address: from, length: 5 },
        { address: from + BigInt(round % 7), length },
        { address: from + 9n, length: 3 },
      ];
      expect(real.read(process.pid, ranges, [before, target.subarray(1, 1 + length), after])).toBe(true);
      expect([target[0], target[length + 1]]).toEqual([0xee, 0xee]);
      expect(digest(target.subarray(1, 1 + length))).toBe(digest(pattern.subarray(round % 7, (round % 7) + length)));
      expect([...before, ...after]).toEqual([...pattern.subarray(0, 5), ...pattern.subarray(9, 12)]);
    }
  });

  test('memory that is not there is told, whoever met it, and the next read works', () => {
    const target = new Uint8Array(4 * MIB);
    for (let round = 0; round < 20; round++) {
      expect(real.read(process.pid, [{ address: 4096n, length: target.length }], [target])).toBe(false);
      const ranges = [{ address: real.addressOf(pattern), length: target.length }];
      expect(real.read(process.pid, ranges, [target])).toBe(true);
    }
    expect(digest(target)).toBe(digest(pattern.subarray(0, target.length)));
  });

  test('the other thread takes no part of a read that is being prepared', () => {
    const read = (length: number): string => {
      const target = new Uint8Array(length);
      expect(real.read(process.pid, [{ address: real.addressOf(pattern), length }], [target])).toBe(true);
      return digest(target);
    };
    read(2 * MIB);
    const store = Atomics.store as (array: Int32Array, index: number, value: number) => number;
    const spied = Atomics as { store: typeof store };
    const slow = vi.spyOn(spied, 'store').mockImplementation((control, index, value) => {
      if (index === FAILED) {
        // Almost open: wakes the other, and leaves it the time to copy what it may think is there.
        Atomics.notify(control, WORD);
        Atomics.wait(control, WORD, Atomics.load(control, WORD), 50);
      }
      return store(control, index, value);
    });
    try {
      expect(read(8 * MIB)).toBe(digest(pattern.subarray(0, 8 * MIB)));
    } finally {
      expect(slow).toHaveBeenCalled();
      slow.mockRestore();
    }
  });

  test('the thread ends with the last of those that hold it', async () => {
    const first = memoryHelper(unused);
    holdHelper();
    letHelperGo();
    expect(memoryHelper(unused)).toBe(first);
    letHelperGo();
    expect(memoryHelper(unused)).toBeUndefined();
    expect(first?.ready).toBe(false);
    holdHelper();
    const second = memoryHelper(unused);
    expect(second).not.toBe(first);
    await expect.poll(() => memoryHelper(unused), { timeout: 20_000 }).toBeDefined();
  });
});

describe.skipIf(memory === undefined)('a thread that nobody wants any more', () => {
  // Stopped while it loaded the package, which takes it some 20 ms, it took the whole process with it.
  test('may be let go at any moment of its start, and is gone after it', { timeout: 60_000 }, async () => {
    const before = threads();
    for (let ms = 0; ms < 60; ms++) {
      holdHelper();
      expect(memoryHelper(unused)).toBeUndefined();
      await new Promise((resolve) => setTimeout(resolve, ms));
      letHelperGo();
    }
    await expect.poll(threads, { timeout: 20_000 }).toBeLessThanOrEqual(before);
  });
});

/** How many this process has, by what the kernel says. */
function threads(): number {
  return readdirSync('/proc/self/task').length;
}
