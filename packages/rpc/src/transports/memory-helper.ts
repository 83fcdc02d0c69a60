/** @file A second thread that reads the memory of another process together with the main one: one core copies at half the speed of two. */
import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { InvariantError } from '../base/errors.ts';
import { native } from './native.ts';

/*
 * The two share a control block. Main writes a job (process, addresses, length) and opens it by storing `job number ‖ 0` in WORD; both
 * threads then take parts by counting WORD up, which fails for who has read an older job; main returns when every part that was taken
 * is done. A helper that wakes late finds nothing left: it costs nothing but the wake-up.
 */

/** One part: small enough that waiting for the other's last one is short, long enough to make the calls cheap. */
const PART_BYTES = 512 * 1024;
/** Parts of one job have 8 bits, of which the last value says that it is closed. */
const MAX_PARTS = 128;
const CLOSED = 255;
const WORD = 0;
const DONE = 1;
const FAILED = 2;
const PARTS = 3;
/** The thread's number for the system, once it is ready. */
const READY = 4;
/** The other thread is in the middle of a copy of half a megabyte: it is starved, not late. */
const STUCK_MS = 60_000;
/** Looks at the shared word before it sleeps on it: waking up takes longer than most parts have left. */
const SPINS = 2_000;
/** The program is small; a thread that grows past this has a defect. */
const THREAD_HEAP_MB = 8;

/** Reads `length` bytes at `from` of process `pid` to `to` of this one. False when not all could be read; never throws. */
export type ReadPart = (pid: number, to: bigint, from: bigint, length: number) => boolean;

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
  private readonly control = new Int32Array(new SharedArrayBuffer(32));
  private readonly job = new BigInt64Array(new SharedArrayBuffer(40));
  private readonly readPart: ReadPart;
  private readonly worker: Worker;
  private readonly processors = new Processors();
  private jobs = 0;
  private broken = false;

  constructor(read: ReadPart) {
    this.readPart = read;
    Atomics.store(this.control, WORD, CLOSED);
    this.worker = new Worker(SOURCE, {
      eval: true,
      // Loaders of the main program would only make it start later.
      execArgv: [],
      env: {},
      name: 'backwire-memory',
      workerData: {
        koffi: createRequire(import.meta.url).resolve('koffi'),
        control: this.control.buffer,
        job: this.job.buffer,
      },
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
      const part = word & 255;
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

  end(): void {
    this.broken = true;
    void this.worker.terminate();
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

const SOURCE = String.raw`
'use strict';
const { workerData } = require('node:worker_threads');
const libc = require(workerData.koffi).load(null);
const readv = libc.func(
  'intptr_t process_vm_readv(int pid, const void *local, ulong liovcnt, const void *remote, ulong riovcnt, ulong flags)',
);
const gettid = libc.func('int gettid()');
const WORD = 0, DONE = 1, FAILED = 2, PARTS = 3, READY = 4;
const control = new Int32Array(workerData.control);
const job = new BigInt64Array(workerData.job);
const local = new BigUint64Array(2);
const remote = new BigUint64Array(2);
Atomics.store(control, READY, gettid());
for (;;) {
  const word = Atomics.load(control, WORD);
  const part = word & 255;
  if (part >= Atomics.load(control, PARTS)) {
    Atomics.wait(control, WORD, word);
    continue;
  }
  const [pid, to, from, length, partBytes] = job;
  if (Atomics.compareExchange(control, WORD, word, word + 1) !== word) continue;
  const at = BigInt(part) * partBytes;
  const count = length - at < partBytes ? length - at : partBytes;
  local[0] = to + at;
  remote[0] = from + at;
  local[1] = remote[1] = count;
  let got = -1;
  try {
    got = Number(readv(Number(pid), local, 1, remote, 1, 0));
  } finally {
    if (got !== Number(count)) Atomics.store(control, FAILED, 1);
    Atomics.add(control, DONE, 1);
    Atomics.notify(control, DONE, 1);
  }
}
`;
