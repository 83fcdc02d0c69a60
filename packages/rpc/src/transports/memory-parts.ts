/** @file What two threads share that read the memory of another process together: the block between them, and how a part is read. */
import type { Native } from './native.ts';

/*
 * Main writes a job (process, addresses, length) and opens it by storing `job number ‖ 0` in WORD; both threads then take parts by counting
 * WORD up, which fails for who has read an older job; main returns when every part that was taken is done. A helper that wakes late finds
 * nothing left: it costs nothing but the wake-up.
 */

/** Where what stands in the control block, an Int32Array. */
export const WORD = 0;
export const DONE = 1;
export const FAILED = 2;
export const PARTS = 3;
/** The thread's number for the system, once it is ready. */
export const READY = 4;
/** Not 0 once nobody wants the thread any more. */
export const ENDED = 5;
export const CONTROL_BYTES = 32;
/** A job: the process, where to, where from, how long, and how long a part is; a BigInt64Array. */
export const JOB_BYTES = 40;
/** Which part of a job WORD says is next. */
export const PART_MASK = 255;

/** What the thread is started with. */
export interface MemoryThreadData {
  /** Where the package `koffi` is. */
  readonly koffi: string;
  readonly control: SharedArrayBuffer;
  readonly job: SharedArrayBuffer;
}

/** Reads `length` bytes at `from` of process `pid` to `to` of this one. False when not all could be read. */
export type ReadPart = (pid: number, to: bigint, from: bigint, length: number) => boolean;

/** Reads ranges of another process into ranges of this one. Both lists are of two words an entry, address and length: arrays of them cost less than objects. */
export type ReadRanges = (pid: number, local: BigUint64Array, remote: BigUint64Array) => number;

/** @throws Error where the C library has no such function. */
export function rangeReader(libc: Native): ReadRanges {
  const readv = libc.func(
    'intptr_t process_vm_readv(int pid, const void *local, ulong liovcnt, const void *remote, ulong riovcnt, ulong flags)',
  );
  return (pid, local, remote) => Number(readv(pid, local, local.length / 2, remote, remote.length / 2, 0));
}

export function partReader(read: ReadRanges): ReadPart {
  return (pid, to, from, length) => {
    const size = BigInt(length);
    return read(pid, BigUint64Array.of(to, size), BigUint64Array.of(from, size)) === length;
  };
}
