/** @file A second thread that reads the memory of another process together with the main one: one core copies at half the speed of two. */
import { Worker } from 'node:worker_threads';
import { InvariantError } from '../base/errors.ts';
import { MEMORY_THREAD } from '../gen/memory-thread.ts';
import {
  CONTROL_BYTES,
  DONE,
  ENDED,
  FAILED,
  JOB_BYTES,
  PARTS,
  PART_MASK,
  READY,
  WORD,
  type MemoryThreadData,
  type ReadPart,
} from './memory-parts.ts';
import { koffiPath, native } from './native.ts';

/** One part: small enough that waiting for the other's last one is short, long enough to make the calls cheap. */
const PART_BYTES = 512 * 1024;
/** Parts of one job have 8 bits, of which the last value says that it is closed. */
const MAX_PARTS = 128;
const CLOSED = PART_MASK;
/** The other thread is in the middle of a copy of half a megabyte: it is starved, not late. */
const STUCK_MS = 60_000;
/** Looks at the shared word before it sleeps on it: waking up takes longer than most parts have left. */
const SPINS = 2_000;
/** The program is small; a thread that grows past this has a defect. */
const THREAD_HEAP_MB = 8;

let holders = 0;
let helper: MemoryHelper | undefined;

/** Somebody may read a lot from now on. The thread starts with the first read that pays, and ends with the last holder. */
export function holdHelper(): void {
  holders++;
}

/** To be called once for each `holdHelper`. */
export function letHelperGo(): void {
  holders--;
  if (holders > 0) return;
  helper?.end();
  helper = undefined;
}

/** The thread, once it runs; asking starts it. undefined while nobody holds it. */
export function memoryHelper(read: ReadPart): MemoryHelper | undefined {
  if (holders === 0) return undefined;
  try {
    helper ??= new MemoryHelper(read);
  } catch {
    // No threads here, or the package is out of their reach: one thread reads.
    return undefined;
  }
  return helper.ready ? helper : undefined;
}

export class MemoryHelper {
  private readonly control = new Int32Array(new SharedArrayBuffer(CONTROL_BYTES));
  private readonly job = new BigInt64Array(new SharedArrayBuffer(JOB_BYTES));
  private readonly readPart: ReadPart;
  private readonly worker: Worker;
  private readonly processors = new Processors();
  private jobs = 0;
  private broken = false;

  constructor(read: ReadPart) {
    this.readPart = read;
    Atomics.store(this.control, WORD, CLOSED);
    const workerData: MemoryThreadData = {
      koffi: koffiPath(),
      control: this.control.buffer,
      job: this.job.buffer,
    };
    this.worker = new Worker(MEMORY_THREAD, {
      eval: true,
      // Loaders of the main program would only make it start later.
      execArgv: [],
      env: {},
      name: 'backwire-memory',
      workerData,
      resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MB, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 },
    });
    this.worker.unref();
    const lost = (): void => {
      this.broken = true;
    };
    this.worker.once('error', lost);
    this.worker.once('exit', lost);
  }

  /** Whether it takes part. */
  get ready(): boolean {
    return !this.broken && Atomics.load(this.control, READY) !== 0;
  }

  /** As `ReadPart`, on both threads. Nothing is written any more when it returns. */
  read(pid: number, to: bigint, from: bigint, length: number): boolean {
    const { control, job } = this;
    const partBytes = Math.max(PART_BYTES, Math.ceil(length / MAX_PARTS));
    const parts = Math.ceil(length / partBytes);
    // Closed first: a thread that still looks at the last job must not take a part of this one before it is open.
    Atomics.store(control, WORD, (this.jobs << 8) | CLOSED);
    job[0] = BigInt(pid);
    job[1] = to;
    job[2] = from;
    job[3] = BigInt(length);
    job[4] = BigInt(partBytes);
    Atomics.store(control, PARTS, parts);
    Atomics.store(control, DONE, 0);
    Atomics.store(control, FAILED, 0);
    this.jobs = (this.jobs + 1) & 0x7fffff;
    Atomics.store(control, WORD, this.jobs << 8);
    this.processors.apart(Atomics.load(control, READY));
    Atomics.notify(control, WORD, 1);
    let own = 0;
    for (;;) {
      const word = Atomics.load(control, WORD);
      const part = word & PART_MASK;
      if (part >= parts) break;
      if (Atomics.compareExchange(control, WORD, word, word + 1) !== word) continue;
      const at = part * partBytes;
      own++;
      if (!this.readPart(pid, to + BigInt(at), from + BigInt(at), Math.min(partBytes, length - at)))
        Atomics.store(control, FAILED, 1);
    }
    this.awaitParts(parts - own);
    return Atomics.load(control, FAILED) === 0;
  }

  /** A thread that still loads the package ends by itself when it has: stopped in the middle of that it takes the process with it. */
  end(): void {
    this.broken = true;
    Atomics.store(this.control, ENDED, 1);
    if (Atomics.load(this.control, READY) !== 0) void this.worker.terminate();
  }

  private awaitParts(others: number): void {
    const { control } = this;
    for (let spins = 0; ; spins++) {
      const done = Atomics.load(control, DONE);
      if (done === others) return;
      if (spins < SPINS) continue;
      if (Atomics.wait(control, DONE, done, STUCK_MS) === 'timed-out') {
        this.broken = true;
        throw new InvariantError('the thread that reads memory is stuck');
      }
    }
  }
}

/** One bit for each of 1024 processors. */
const MASK_BYTES = 128;

/**
 * Keeps the other thread off the processor that the main one runs on: the scheduler likes to wake a thread where its waker is, and there
 * the two would take turns.
 */
class Processors {
  private readonly current: (() => number) | undefined;
  private readonly setAffinity: ((tid: number, bytes: number, mask: Uint8Array) => number) | undefined;
  private readonly allowed = new Uint8Array(MASK_BYTES);
  private avoided = -1;

  constructor() {
    try {
      const libc = native();
      const getAffinity = libc?.func('int sched_getaffinity(int tid, size_t bytes, _Out_ void *mask)');
      if (getAffinity?.(0, MASK_BYTES, this.allowed) === -1) return;
      this.setAffinity = libc?.func(
        'int sched_setaffinity(int tid, size_t bytes, const void *mask)',
      ) as Processors['setAffinity'];
      this.current = libc?.func('int sched_getcpu()') as Processors['current'];
    } catch {
      // The scheduler decides.
    }
  }

  apart(tid: number): void {
    const here = this.current?.() ?? -1;
    if (here < 0 || here === this.avoided || here >= MASK_BYTES * 8) return;
    this.avoided = here;
    const others = this.allowed.slice();
    others[here >> 3] = (others[here >> 3] as number) & ~(1 << (here & 7));
    if (others.some((byte) => byte !== 0)) this.setAffinity?.(tid, MASK_BYTES, others);
  }
}
