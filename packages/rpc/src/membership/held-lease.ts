/** @file A worker's lease: taking one, keeping it alive, and taking another where the store has let go of it. */
import type { Logger } from '../base/options.ts';
import { sleep } from '../base/within.ts';
import type { KeepAlive } from '../liveness/keep-alive.ts';
import type { Lease, Store } from '../stores/store.ts';
import { ageKey, type GroupStore, type Living } from './group-store.ts';

export interface HeldLeaseOptions {
  readonly store: Store;
  readonly keys: GroupStore;
  readonly leaseMs: number;
  readonly logger: Logger;
  /** Keeps the lease alive and its age known. */
  readonly keepAlive: (store: Store, lease: Lease, options: { readonly ageKey: string }) => KeepAlive;
  /** The lease was lost: others may think that this worker is dead. */
  readonly onLost: (error: Error) => void;
  /** Whether another is wanted: the store may have put this worker out, or have started anew. */
  readonly isWanted: () => Promise<boolean>;
}

/** Between two tries to get a lost lease again. */
const RETRY_MS = 200;

export class HeldLease {
  /** The latest that was taken. */
  current: Lease | undefined;
  private readonly options: HeldLeaseOptions;
  private readonly ended = new AbortController();
  private alive: KeepAlive | undefined;

  constructor(options: HeldLeaseOptions) {
    this.options = options;
  }

  /** Takes one that shows that `life` lives; whenever it is lost from then on, another one. */
  async take(life: Living): Promise<void> {
    const { store, keys, leaseMs, keepAlive } = this.options;
    const lease = await keys.ask(() => store.lease(leaseMs));
    this.current = lease;
    try {
      await keys.hold(life, lease);
    } catch (error) {
      // Whoever asked takes another one.
      lease.revoke().catch(() => undefined);
      throw error;
    }
    void lease.lost.then((error) => this.lost(error, life));
    this.alive = keepAlive(store, lease, { ageKey: ageKey(life) });
    await this.alive.started;
  }

  /** Gives it back. */
  async close(): Promise<void> {
    this.ended.abort();
    await this.alive?.stop();
    await this.current?.revoke().catch(() => undefined);
  }

  private async lost(error: Error, life: Living): Promise<void> {
    const { signal } = this.ended;
    const { onLost, isWanted, logger } = this.options;
    if (signal.aborted) return;
    onLost(error);
    await this.alive?.stop();
    while (!signal.aborted) {
      try {
        if (await isWanted()) await this.take(life);
        return;
      } catch (failure) {
        logger.debug({ error: failure }, 'the lease could not be regained yet');
        await sleep(RETRY_MS);
      }
    }
  }
}
