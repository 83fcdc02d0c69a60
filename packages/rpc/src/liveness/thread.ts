/** @file Keeps a lease alive while the main thread computes, and tells the store how long it has been at it. */
import { Worker } from 'node:worker_threads';
import { runAtRoot } from '@backwire/tensor/internal';
import type { Lease, Store } from '../stores/store.ts';
import { inLoop, type KeepAlive } from './keep-alive.ts';
import { canTicket, type LeaseTicket } from '../stores/ticket.ts';
import { LEASE_THREAD } from '../gen/lease-thread.ts';
import type { LeaseThreadData } from './lease-thread.ts';

export interface KeepAliveOptions {
  /** The key, under the lease, that holds the age of the main loop's last tick in ms, as decimal text. */
  readonly ageKey: string;
  /** @default true: in a thread where the store allows it */
  readonly thread?: boolean | undefined;
}

/** How often the main loop says that it turned. */
const TICK_MS = 100;
/** The age in the store is at most this old. */
const MAX_RENEWAL_MS = 2_000;
/** The program is small; a thread that grows past this has a defect. */
const THREAD_HEAP_MB = 16;
/** A thread that cannot reach the store in this time is not waited for. */
const START_MS = 5_000;

/** Starts to keep `lease` alive and its age known. The caller stops it before it revokes the lease. */
export function keepAlive(store: Store, lease: Lease, options: KeepAliveOptions): KeepAlive {
  const ticket = options.thread !== false && canTicket(store) ? store.ticket(lease, options.ageKey) : undefined;
  return runAtRoot(() =>
    ticket === undefined ? inLoop(store, lease, options.ageKey) : inThread(ticket, store, lease, options.ageKey),
  );
}

function inThread(ticket: LeaseTicket, store: Store, lease: Lease, ageKey: string): KeepAlive {
  const tick = new SharedArrayBuffer(8);
  const ticks = new BigInt64Array(tick);
  const turn = (): void => void Atomics.store(ticks, 0, process.hrtime.bigint());
  turn();
  const timer = setInterval(turn, TICK_MS).unref();
  const everyMs = Math.min(ticket.ttlMs / 3, MAX_RENEWAL_MS);
  const workerData: LeaseThreadData = { ticket, everyMs, tick };
  const worker = new Worker(LEASE_THREAD, {
    eval: true,
    // Loaders of the main program would only make it start later.
    execArgv: [],
    env: {},
    name: 'backwire-liveness',
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MB, maxYoungGenerationSizeMb: 4, stackSizeMb: 1 },
  });
  worker.unref();
  const first = new Promise<void>((resolve) => {
    const late = setTimeout(resolve, START_MS).unref();
    const done = (): void => {
      clearTimeout(late);
      resolve();
    };
    worker.once('message', done);
    worker.once('exit', done);
    // Renewing goes on in the main loop, by the store itself.
    worker.once('error', (error) => {
      process.emitWarning(`the liveness thread ended: ${error.message}`);
      done();
    });
  });
  // A directory is told of life by beats; there the age is a key like any other.
  const started =
    ticket.kind === 'file' ? Promise.all([first, inLoop(store, lease, ageKey).started]).then(() => undefined) : first;
  let stopped: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    clearInterval(timer);
    return (stopped ??= worker.terminate().then(() => undefined));
  };
  return { kind: 'thread', started, stop };
}
