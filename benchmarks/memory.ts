/** @file How much memory this process has and had, from Linux' own books. */
import { readFileSync, writeFileSync } from 'node:fs';

/** Forgets the peak so far. False where the system has no such thing. */
export function resetPeak(): boolean {
  try {
    writeFileSync('/proc/self/clear_refs', '5');
    return true;
  } catch {
    return false;
  }
}

/** Resident memory at its highest since `resetPeak`, and now, in MiB. */
export function residentMiB(): { peak: number; now: number } {
  const status = readFileSync('/proc/self/status', 'utf8');
  const field = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1_024;
  return { peak: field('VmHWM'), now: field('VmRSS') };
}

/** Live bytes of the heap and of buffers, in MiB; after a collection where the process was started with `--expose-gc`. */
export function usedMiB(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / 2 ** 20;
}
