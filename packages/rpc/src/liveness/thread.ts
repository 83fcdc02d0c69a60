/** @file Keeps a lease alive while the main thread computes, and tells the store how long it has been at it. */
import { Worker } from 'node:worker_threads';
import { runAtRoot } from '@backwire/tensor/internal';
import type { Lease, Store } from '../stores/store.ts';
import { inLoop, type KeepAlive } from './keep-alive.ts';
import { canTicket, type LeaseTicket } from '../stores/ticket.ts';
import { LEASE_THREAD } from '../gen/lease-thread.ts';
import type { LeaseNews, LeaseOrder, LeaseThreadData } from './lease-thread.ts';

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
/** The program is small, and so is a lease; a thread that grows past this has a defect. */
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

/** How often a thread turns to a lease of `ttlMs`. */
export function turnMs(ttlMs: number): number {
  return Math.min(ttlMs / 3, MAX_RENEWAL_MS);
}

function inThread(ticket: LeaseTicket, store: Store, lease: Lease, ageKey: string): KeepAlive {
  const everyMs = turnMs(ticket.ttlMs);
  const thread = (current ??= new LeaseThread(() => (current = undefined)));
  const { first, stop } = thread.hold(ticket, everyMs);
  // A directory is told of life by beats; there the age is a key like any other.
  const started =
    ticket.kind === 'file' ? Promise.all([first, inLoop(store, lease, ageKey).started]).then(() => undefined) : first;
  return { kind: 'thread', started, stop };
}

/** The thread of this process, while it holds a lease. */
let current: LeaseThread | undefined;

/** One thread for all leases of a process: each would take as long to start as a small program, and 4 MiB. */
class LeaseThread {
  private readonly worker: Worker;
  private readonly timer: NodeJS.Timeout;
  private readonly onEnd: () => void;
  /** Those who wait until their lease was renewed for the first time. */
  private readonly starting = new Map<number, () => void>();
  private readonly leases = new Set<number>();
  private nextLease = 1;
  private ended: Promise<void> | undefined;

  constructor(onEnd: () => void) {
    this.onEnd = onEnd;
    const tick = new SharedArrayBuffer(8);
    const ticks = new BigInt64Array(tick);
    const turn = (): void => void Atomics.store(ticks, 0, process.hrtime.bigint());
    turn();
    this.timer = setInterval(turn, TICK_MS).unref();
    const workerData: LeaseThreadData = { tick };
    this.worker = new Worker(LEASE_THREAD, {
      eval: true,
      // Loaders of the main program would only make it start later.
      execArgv: [],
      env: {},
      name: 'backwire-liveness',
      workerData,
      resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MB, maxYoungGenerationSizeMb: 4, stackSizeMb: 1 },
    });
    this.worker.unref();
    this.worker.on('message', ({ lease }: LeaseNews) => this.starting.get(lease)?.());
    // Renewing goes on in the main loop, by the store itself.
    this.worker.on('error', (error) => process.emitWarning(`the liveness thread ended: ${error.message}`));
    this.worker.on('exit', () => this.over());
  }

  hold(ticket: LeaseTicket, everyMs: number): { readonly first: Promise<void>; readonly stop: () => Promise<void> } {
    const lease = this.nextLease++;
    this.leases.add(lease);
    const first = new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(late);
        this.starting.delete(lease);
        resolve();
      };
      const late = setTimeout(done, START_MS).unref();
      this.starting.set(lease, done);
    });
    this.tell({ do: 'hold', lease, ticket, everyMs });
    return { first, stop: () => this.drop(lease) };
  }

  private async drop(lease: number): Promise<void> {
    if (this.leases.delete(lease)) {
      this.starting.get(lease)?.();
      if (this.leases.size > 0) this.tell({ do: 'drop', lease });
      else this.over();
    }
    if (this.leases.size === 0) await this.ended;
  }

  private tell(order: LeaseOrder): void {
    this.worker.postMessage(order);
  }

  /** The next lease gets another thread. */
  private over(): void {
    if (this.ended !== undefined) return;
    clearInterval(this.timer);
    this.onEnd();
    for (const done of [...this.starting.values()]) done();
    this.ended = this.worker.terminate().then(() => undefined);
  }
}
