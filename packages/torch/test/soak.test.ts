/** @file How the soak looks at memory: a leak of any kind is found, and what is no leak is not taken for one. */
import { zeros } from '@backwire/tensor';
import { bufferPool } from '@backwire/wire/internal';
import { afterEach, describe, expect, it } from 'vitest';
import { checkFlat, look, MIB, type Look } from '../acceptance/soak/memory.ts';

const LOOKS = 12;
/** What leaks between two looks: four of them are more than the tolerance. */
const LEAK = 4 * MIB;
const quiet = (): void => undefined;

const kept: unknown[] = [];
afterEach(() => void kept.splice(0));

/** The looks at this process while `work` is done again and again. */
async function looksAt(work: (round: number) => void): Promise<Look[]> {
  const looks: Look[] = [];
  for (let round = 0; round < LOOKS; round++) {
    work(round);
    looks.push(await look());
  }
  return looks;
}

describe('a leak that was planted', { timeout: 60_000 }, () => {
  it.each([
    ['of objects', () => kept.push(Array.from({ length: LEAK / 32 }, (_, i) => ({ i })))],
    ['of memory outside of the heap', () => kept.push(new Uint8Array(LEAK).fill(1))],
    ['of tensors', () => kept.push(zeros([LEAK / 4]))],
    ['of memory that the pool gave', () => kept.push(bufferPool.take(LEAK).fill(1))],
  ])('%s is found', async (_, leak) => {
    const looks = await looksAt(() => void leak());
    expect(() => checkFlat('node', looks, quiet)).toThrow(
      /^node held [\d.]+ MiB in the middle and [\d.]+ MiB at the end/,
    );
  });

  it('where only the system sees it is found', () => {
    const looks = Array.from({ length: 30 }, (_, i) => ({ held: 0, pooled: 0, resident: (200 + 12 * i) * MIB }));
    expect(() => checkFlat('node', looks, quiet)).toThrow(/resident 380.0 and 500.0 MiB/);
  });
});

describe('what is no leak', { timeout: 60_000 }, () => {
  it('is memory that is free for messages, however much', async () => {
    const looks = await looksAt(() => {
      const taken = Array.from({ length: 3 }, () => bufferPool.take(LEAK).fill(1));
      // More of it is outstanding at once from round to round, as in a process that is busier and busier.
      kept.push(bufferPool.take(LEAK));
      for (const bytes of [...taken, ...(kept.splice(0) as Uint8Array[])]) bufferPool.give(bytes);
    });
    checkFlat('node', looks, quiet);
  });

  it('are tensors that were dropped, and wait for their finalizers, in any number', async () => {
    const looks = await looksAt((round) => {
      for (let i = 0; i < 1 + round; i++) zeros([LEAK / 4]);
    });
    checkFlat('node', looks, quiet);
  });
});
