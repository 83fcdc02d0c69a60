/** @file Reading the memory of another process of this user (Linux), through the optional package `koffi`. */
import { readFileSync } from 'node:fs';
import { attempt, once } from '../base/attempt.ts';
import { memoryHelper } from './memory-helper.ts';
import { partReader, rangeReader } from './memory-parts.ts';
import { native } from './native.ts';

/** What a range of another process's memory is. */
interface RemoteRange {
  readonly address: bigint;
  readonly length: number;
}

export interface CrossMemory {
  /** Where the first byte of `memory` is in this process. @throws TypeError for memory whose place cannot be told. */
  addressOf(memory: Uint8Array): bigint;
  /** Reads the ranges of process `pid`, in order, into `into`, whose lengths are the same. False when not all could be read. */
  read(pid: number, ranges: readonly RemoteRange[], into: readonly Uint8Array[]): boolean;
}

/** From here on a second thread reads half of it. Waking it takes as long as half a megabyte. */
const SHARED_READ_BYTES = 2 * 1024 * 1024;
const PR_SET_PTRACER = 0x59616d61;
const PR_SET_PTRACER_ANY = -1;

/** undefined where it cannot work: another system than Linux, or no `koffi`. */
export const crossMemory = once((): CrossMemory | undefined => {
  const libc = native();
  if (libc === undefined) return undefined;
  return attempt(() => {
    const readRanges = rangeReader(libc);
    const readPart = partReader(readRanges);
    // Of no bytes: it moves nothing and returns where its first argument is.
    const place = libc.func('uintptr_t memmove(void *to, const void *from, size_t count)');
    allowReaders(libc.func('int prctl(int option, ulong two, ulong three, ulong four, ulong five)'));
    const addressOf = (memory: Uint8Array): bigint => BigInt(place(memory, memory, 0) as number | bigint);
    const readAll = (pid: number, ranges: readonly RemoteRange[], into: readonly Uint8Array[]): boolean => {
      const local = BigUint64Array.from(into.flatMap((memory) => [addressOf(memory), BigInt(memory.byteLength)]));
      const remote = BigUint64Array.from(ranges.flatMap(({ address, length }) => [address, BigInt(length)]));
      const total = ranges.reduce((sum, { length }) => sum + length, 0);
      return readRanges(pid, local, remote) === total;
    };
    const read = (pid: number, ranges: readonly RemoteRange[], into: readonly Uint8Array[]): boolean => {
      const large = ranges.findIndex(({ length }) => length >= SHARED_READ_BYTES);
      const helper = large < 0 ? undefined : memoryHelper(readPart);
      if (helper === undefined) return readAll(pid, ranges, into);
      // What stands before and after it is read before and after it.
      const { address, length } = ranges[large] as RemoteRange;
      return (
        (large === 0 || readAll(pid, ranges.slice(0, large), into.slice(0, large))) &&
        helper.read(pid, addressOf(into[large] as Uint8Array), address, length) &&
        (large === ranges.length - 1 || read(pid, ranges.slice(large + 1), into.slice(large + 1)))
      );
    };
    return { addressOf, read };
  });
});

/** Where the kernel lets only ancestors look (Yama's scope 1), this process allows any reader of the same user: that is what opting in means. */
function allowReaders(prctl: (...args: unknown[]) => unknown): void {
  try {
    const scope = readFileSync('/proc/sys/kernel/yama/ptrace_scope', 'utf8').trim();
    if (scope === '1') prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  } catch {
    // A kernel without Yama asks for the same user only.
  }
}
