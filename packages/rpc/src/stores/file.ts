/** @file A store in a directory: for processes that share a file system and nothing else. */
import { readFile, rm } from 'node:fs/promises';
import { within } from '../base/within.ts';
import { checkDelta, checkExpected, checkKey, checkKeys, checkTtl, checkValue } from './checks.ts';
import { writeBeat } from './beat-file.ts';
import { FileLog, entries } from './file-log.ts';
import { HeldLease, LeasingStore, type Leased, type Swapped } from './leasing.ts';
import { race } from './limited.ts';
import { openedInTime, tooLate, type OpeningLimits } from './opening.ts';
import type { StoreState } from './state.ts';
import type { Lease, Store, StoreEvent } from './store.ts';
import type { LeaseTicket, TicketStore } from './ticket.ts';
import { settleWait } from './wait.ts';
import { WatchQueue } from './watch-queue.ts';

/** How often the directory is looked at. */
const POLL_MS = 30;
/** A holder beats this often in the time to live of its lease. */
const BEATS_PER_TTL = 4;
/** How long a store that is closed waits for its file system. */
const CLOSE_MS = 3_000;
/** A poll that comes this late says that this process stood still: what it did not see then is held against nobody. */
const OWN_STALL_MS = 1_000;

/**
 * Opens the store in `directory`, which is made if it does not exist and is never removed. Leases are kept by beats in files, judged by
 * each reader's own clock, so a killed process is noticed after the time to live.
 *
 * @throws RpcError 'unavailable' when the directory cannot be used, 'deadline-exceeded' when its file system does not answer in time,
 *   'cancelled'.
 */
export async function fileStore(directory: string, limits: OpeningLimits = {}): Promise<Store> {
  const store = new FileStore(directory);
  const open = (limit: AbortSignal): Promise<void> => race(store.open(), limit);
  return openedInTime(store, limits, open, (error, ms) =>
    tooLate(
      `the store in '${directory}' did not open in ${ms} ms: its file system does not answer; see to that, or give another folder`,
      error,
    ),
  );
}

/** What is known of a lease of anyone. */
interface Observed {
  beat: string;
  since: number;
}

class FileStore extends LeasingStore<HeldLease<number>> implements TicketStore {
  private readonly log: FileLog;
  private readonly observed = new Map<number, Observed>();
  private readonly queues = new Map<WatchQueue, string>();
  private beats = 0;
  private lastBeat = 0;
  private lastPoll = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(directory: string) {
    super();
    const skipped = (): void => {
      for (const [queue, prefix] of this.queues) queue.push({ type: 'resync', key: prefix });
    };
    const emptied = (): void => {
      // The leases of what is there now may have the same numbers.
      for (const lease of this.leases.values()) lease.lose(`the store in '${directory}' was emptied`);
      this.leases.clear();
      this.observed.clear();
      skipped();
    };
    this.log = new FileLog(directory, { skipped, emptied });
  }

  async open(): Promise<void> {
    await this.log.open();
    this.lastPoll = performance.now();
    this.poll();
  }

  async set(key: string, value: Uint8Array, options?: Leased): Promise<void> {
    const planned = entries.set(checkKey(key), checkValue(value), this.idOf(options?.lease));
    await this.log.perform(() => planned);
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    checkKey(key);
    return (await this.state()).get(key)?.slice();
  }

  async wait(keys: readonly string[], options: { timeoutMs: number; signal?: AbortSignal }): Promise<void> {
    this.checkOpen();
    const names = checkKeys(keys);
    const park = (done: () => void): (() => void) => {
      let stop: (() => void) | undefined;
      let isOver = false;
      // Where the folder is out of reach it is looked at again, until the time is over.
      const start = (): void => {
        if (!isOver) stop = this.log.state.wait(names, done);
      };
      this.log.sync().then(start, start);
      return () => {
        isOver = true;
        stop?.();
      };
    };
    const missing = async (): Promise<string[]> => {
      const state = await this.state();
      return names.filter((key) => !state.has(key));
    };
    return settleWait(park, missing, { ...options, closing: this.closing.signal });
  }

  async add(key: string, delta: bigint): Promise<bigint> {
    this.checkOpen();
    const planned = entries.add(checkKey(key), checkDelta(delta));
    return this.log.perform(() => planned);
  }

  async compareAndSet(key: string, expected: Uint8Array | null, value: Uint8Array, options?: Leased): Promise<Swapped> {
    const [former, wanted] = [checkExpected(expected), checkValue(value)];
    const planned = entries.set(checkKey(key), wanted, this.idOf(options?.lease));
    return this.log.perform<Swapped>((state) => {
      const current = state.get(key);
      const same =
        former === null ? current === undefined : current !== undefined && Buffer.compare(current, former) === 0;
      if (!same) return { result: { ok: false, current: current?.slice() } };
      return {
        entry: planned.entry,
        apply: (at) => {
          planned.apply(at);
          return { ok: true, current: wanted.slice() };
        },
      };
    });
  }

  async delete(key: string): Promise<boolean> {
    this.checkOpen();
    checkKey(key);
    return this.log.perform((state) => (state.get(key) === undefined ? { result: false } : entries.delete(key)));
  }

  async list(prefix: string): Promise<Map<string, Uint8Array>> {
    checkKey(prefix);
    return new Map((await this.state()).list(prefix).map(([key, value]) => [key, value.slice()]));
  }

  watch(prefix: string, options?: { signal?: AbortSignal }): AsyncIterable<StoreEvent> {
    this.checkOpen();
    checkKey(prefix);
    let unwatch = (): void => undefined;
    let ended = false;
    const queue: WatchQueue = new WatchQueue(
      prefix,
      () => {
        ended = true;
        unwatch();
        this.queues.delete(queue);
      },
      options?.signal,
    );
    if (options?.signal?.aborted) return queue;
    this.queues.set(queue, prefix);
    const start = (): void => {
      if (ended) return;
      unwatch = this.log.state.watch(prefix, (key, value) => {
        queue.push(value === undefined ? { type: 'delete', key } : { type: 'put', key, value: value.slice() });
      });
    };
    // What others did before this call is not news: it is read first.
    this.log.sync().then(start, start);
    return queue;
  }

  async lease(ttlMs: number): Promise<Lease> {
    this.checkOpen();
    const planned = entries.grant(checkTtl(ttlMs));
    const lease = this.keep(new HeldLease(this, await this.log.perform(() => planned), ttlMs));
    await this.log.exclusive(() => this.beat());
    return lease;
  }

  async revoke(lease: HeldLease<number>): Promise<void> {
    if (!this.leases.delete(lease.id)) return;
    await this.log.perform(() => entries.revoke(lease.id));
    await this.log.exclusive(() => rm(this.log.beatPath(lease.id), { force: true }));
  }

  /** For a thread that renews `lease` beside this store. */
  ticket(lease: Lease): LeaseTicket | undefined {
    if (!this.isOwn(lease)) return undefined;
    return { kind: 'file', ttlMs: lease.ttlMs, path: this.log.beatPath(lease.id) };
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    this.closing.abort();
    clearTimeout(this.timer);
    for (const queue of [...this.queues.keys()]) queue.end();
    const leases = [...this.leases.values()];
    for (const lease of leases) lease.lose('the store was closed');
    // Out of reach: they run out by themselves.
    const revoked = Promise.allSettled(leases.map((lease) => this.revoke(lease)));
    await within(revoked, CLOSE_MS, () => undefined);
  }

  private poll(): void {
    if (this.closing.signal.aborted) return;
    this.timer = setTimeout(() => {
      // The directory may be out of reach for a while; operations say so, the poll just goes on.
      void this.look()
        .catch(() => undefined)
        .then(() => this.poll());
    }, POLL_MS);
  }

  private async look(): Promise<void> {
    const now = performance.now();
    const late = now - this.lastPoll - POLL_MS;
    this.lastPoll = now;
    if (late > OWN_STALL_MS) for (const one of this.observed.values()) one.since += late;
    await this.log.sync();
    const ttls = this.log.state.leaseTtls();
    for (const [id, lease] of this.leases) {
      if (ttls.has(id)) continue;
      this.leases.delete(id);
      lease.lose('the lease was not renewed in time');
    }
    if (ttls.size === 0) return;
    const shortest = Math.min(...ttls.values());
    if (now - this.lastBeat < shortest / BEATS_PER_TTL) return;
    await this.beat();
    await this.judge(ttls);
  }

  private async beat(): Promise<void> {
    this.lastBeat = performance.now();
    const beat = String(++this.beats);
    await Promise.all([...this.leases.keys()].map((id) => writeBeat(this.log.beatPath(id), beat)));
  }

  /** Ends leases whose beat has not changed for their time to live, by this process's clock. */
  private async judge(ttls: ReadonlyMap<number, number>): Promise<void> {
    for (const id of this.observed.keys()) if (!ttls.has(id)) this.observed.delete(id);
    for (const [id, ttlMs] of ttls) {
      const beat = this.leases.has(id)
        ? `own ${this.beats}`
        : await readFile(this.log.beatPath(id), 'utf8').catch(() => '');
      const now = performance.now();
      const known = this.observed.get(id);
      if (known === undefined || known.beat !== beat) {
        this.observed.set(id, { beat, since: now });
      } else if (now - known.since >= ttlMs) {
        await this.log.perform((state) => (state.leaseTtls().has(id) ? entries.revoke(id) : { result: false }));
        await rm(this.log.beatPath(id), { force: true });
      }
    }
  }

  private async state(): Promise<StoreState> {
    this.checkOpen();
    await this.log.sync();
    this.checkOpen();
    return this.log.state;
  }
}
