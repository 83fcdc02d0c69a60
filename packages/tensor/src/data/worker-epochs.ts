/** @file Epochs of a loader whose batches are made in threads: asked for in turn, a bounded number ahead, given in order. */
import { unpack } from './packing.ts';
import type { LoaderThreadPlan, Wanted } from './worker-messages.ts';
import { ThreadPool, type Pending } from './worker-threads.ts';

/** How a loader uses its threads. */
export interface ThreadUse {
  /** Batches that each thread is asked for ahead. */
  readonly prefetchFactor?: number | undefined;
  /** Whether threads outlive their epoch. */
  readonly persistentWorkers?: boolean | undefined;
  /** How long a batch may be waited for, in milliseconds; 0 = no limit. */
  readonly timeoutMs?: number | undefined;
}

/** One epoch: what is wanted, in order; undefined again and again where the threads read streams. */
interface Epoch {
  readonly order: Iterator<Wanted>;
  readonly seed: number;
}

/** The threads of one loader. Two epochs at once have threads of their own. */
export class WorkerEpochs<B> {
  private readonly plan: LoaderThreadPlan;
  private readonly use: ThreadUse;
  private readonly pools = new Set<ThreadPool>();
  /** Those that wait for the next epoch. */
  private idle: ThreadPool | undefined;

  constructor(plan: LoaderThreadPlan, use: ThreadUse) {
    this.plan = plan;
    this.use = use;
  }

  async *run(epoch: Epoch): AsyncGenerator<B, void, undefined> {
    const pool = this.take(epoch.seed);
    try {
      pool.begin(epoch.seed);
      yield* this.batches(pool, epoch.order);
    } finally {
      epoch.order.return?.();
      await this.giveBack(pool);
    }
  }

  /** Ends all threads. An epoch that runs fails. */
  async close(): Promise<void> {
    this.idle = undefined;
    await Promise.all([...this.pools].map((pool) => this.end(pool)));
  }

  /** Threads get work in turn, as PyTorch's processes do: which thread makes which batch does not depend on time. */
  private async *batches(pool: ThreadPool, order: Iterator<Wanted>): AsyncGenerator<B, void, undefined> {
    const { numWorkers } = this.plan;
    const { prefetchFactor = 2, timeoutMs = 0 } = this.use;
    /** Threads that may have more. */
    const active = Array.from({ length: numWorkers }, (_, id) => id);
    const pending: Pending[] = [];
    let next = 0;
    const askOne = (): void => {
      if (active.length === 0) return;
      const one = order.next();
      if (one.done === true) return;
      while (!active.includes(next % numWorkers)) next++;
      pending.push(pool.ask(next++ % numWorkers, one.value));
    };
    for (let i = 0; i < numWorkers * prefetchFactor; i++) askOne();
    for (let first; (first = pending.shift()) !== undefined;) {
      const batch = await pool.wait(first, timeoutMs);
      const { workerId } = first;
      if (batch === 'end' && active.includes(workerId)) active.splice(active.indexOf(workerId), 1);
      askOne();
      if (batch !== 'end') yield unpack(batch) as B;
    }
  }

  private take(seed: number): ThreadPool {
    const pool = this.idle?.sound === true ? this.idle : new ThreadPool(this.plan, seed);
    this.idle = undefined;
    this.pools.add(pool);
    return pool;
  }

  private async giveBack(pool: ThreadPool): Promise<void> {
    if (this.use.persistentWorkers !== true || !pool.sound || this.idle !== undefined) return this.end(pool);
    pool.cancel();
    this.idle = pool;
  }

  private async end(pool: ThreadPool): Promise<void> {
    await pool.close();
    this.pools.delete(pool);
  }
}
