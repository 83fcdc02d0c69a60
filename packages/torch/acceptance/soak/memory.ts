/** @file What a process holds in memory, looked at in a way that tells a leak from what only waits to be collected or used again. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { bufferPool } from '@backwire/wire/internal';

export const MIB = 1024 * 1024;
/** What may be more in the last third of the looks than in the one before: the allocators' own coming and going. */
const TOLERANCE = 0.03;
const TOLERANCE_BYTES = 6 * MIB;
/** The same of resident memory, which also has what the allocators keep to themselves. */
const RESIDENT_TOLERANCE = 0.15;
const RESIDENT_TOLERANCE_BYTES = 32 * MIB;

/** What was seen at one moment, in bytes. */
export interface Look {
  /** What somebody refers to: of the heap and outside of it, without memory that is kept to be used again. */
  readonly held: number;
  /** Free memory for messages that come, of which there is a most. */
  readonly pooled: number;
  readonly resident: number;
}

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/**
 * Looks at this process. Memory of tensors that nobody disposed is let go of by finalizers, which run in a turn after the collection
 * that found them; what they let go of takes another one.
 */
export async function look(): Promise<Look> {
  for (let i = 0; i < 2; i++) {
    collect();
    await delay(1);
  }
  collect();
  const { heapUsed, external, rss } = process.memoryUsage();
  const { freeBytes } = bufferPool.stats();
  return { held: heapUsed + external - freeBytes, pooled: freeBytes, resident: rss };
}

/** Whether the looks of a process stay the same; says what was seen. @throws AssertionError where they grow. */
export function checkFlat(name: string, looks: readonly Look[], say: (text: string) => void = console.log): void {
  const [held, resident] = [thirds(looks.map((each) => each.held)), thirds(looks.map((each) => each.resident))];
  const pooled = thirds(looks.map((each) => each.pooled)).last;
  const aside = pooled === 0 ? '' : `, ${mib(pooled)} MiB free for messages`;
  const shown = `${name} held ${mib(held.middle)} MiB in the middle and ${mib(held.last)} MiB at the end${aside}; resident ${mib(resident.middle)} and ${mib(resident.last)} MiB`;
  say(`        ${shown}`);
  assert.ok(held.last <= held.middle * (1 + TOLERANCE) + TOLERANCE_BYTES, shown);
  const most = resident.middle * (1 + RESIDENT_TOLERANCE) + RESIDENT_TOLERANCE_BYTES;
  assert.ok(resident.last <= most, shown);
}

/** Medians of the second and of the last third: the first is for warming up. */
function thirds(values: readonly number[]): { readonly middle: number; readonly last: number } {
  const third = Math.floor(values.length / 3);
  if (third === 0) throw new RangeError(`${values.length} looks are too few`);
  return { middle: median(values.slice(third, 2 * third)), last: median(values.slice(2 * third)) };
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

function mib(bytes: number): string {
  return (bytes / MIB).toFixed(1);
}
