/** @file What stores of leases have in common: the leases they granted, each with an end that comes once. */
import { invalidArgument, RpcError } from '../base/errors.ts';
import { unref } from '../base/platform.ts';
import { closedError } from './checks.ts';
import type { Lease, Store } from './store.ts';

/** A lease is renewed three times in its life. */
const RENEWALS_PER_TTL = 3;

/** Options of operations that set a key. */
export interface Leased {
  lease?: Lease;
}

/** What `compareAndSet` resolves with. */
export type Swapped = Awaited<ReturnType<Store['compareAndSet']>>;

/** What a lease asks of the store that granted it. */
interface Keeper {
  revoke(lease: HeldLease): Promise<void>;
}

/** A lease that is held until it is revoked or lost. */
export class HeldLease<Id = unknown> implements Lease {
  readonly store: Keeper;
  readonly id: Id;
  readonly ttlMs: number;
  readonly lost: Promise<Error>;
  protected over = false;
  private resolveLost!: (error: Error) => void;

  constructor(store: Keeper, id: Id, ttlMs: number) {
    this.store = store;
    this.id = id;
    this.ttlMs = ttlMs;
    this.lost = new Promise((resolve) => (this.resolveLost = resolve));
  }

  async revoke(): Promise<void> {
    if (this.finish()) await this.store.revoke(this);
  }

  lose(why: string | Error): void {
    if (this.finish()) this.resolveLost(typeof why === 'string' ? new RpcError('unavailable', why) : why);
  }

  protected finish(): boolean {
    if (this.over) return false;
    this.over = true;
    return true;
  }
}

/** What a lease asks that has to be renewed. */
interface Renewer extends Keeper {
  /** What a lease is told that the store does not know any more. */
  readonly unknownLease: string;
  /** False when the store says that the lease is gone. Rejects while it is out of reach. */
  renew(lease: HeldLease): Promise<boolean>;
}

/** A lease that is renewed here. Only the store's own word ends it: one that is out of reach may still count it. */
export class RenewedLease<Id> extends HeldLease<Id> {
  declare readonly store: Renewer;
  private readonly timer: NodeJS.Timeout;

  constructor(store: Renewer, id: Id, ttlMs: number) {
    super(store, id, ttlMs);
    this.timer = unref(setInterval(() => void this.renew(), ttlMs / RENEWALS_PER_TTL));
  }

  async renew(): Promise<void> {
    if (this.over) return;
    const alive = await this.store.renew(this).catch(() => true);
    if (!alive) this.lose(this.store.unknownLease);
  }

  protected override finish(): boolean {
    clearInterval(this.timer);
    return super.finish();
  }
}

/** A store of leases, until it is closed. */
export abstract class LeasingStore<L extends HeldLease> {
  readonly unknownLease: string = 'the lease was not renewed in time';
  protected readonly closing = new AbortController();
  /** Those that are not over, by their ids. */
  protected readonly leases = new Map<L['id'], L>();

  /** @throws RpcError 'failed-precondition' once it is closed. */
  protected checkOpen(): void {
    if (this.closing.signal.aborted) throw closedError();
  }

  /** Keeps a lease until it is lost; revoking it ends that, too. */
  protected keep(lease: L): L {
    this.leases.set(lease.id, lease);
    void lease.lost.then(() => this.leases.delete(lease.id));
    return lease;
  }

  protected isOwn(lease: Lease): lease is L {
    return lease instanceof HeldLease && lease.store === (this as unknown);
  }

  /** @throws RpcError 'invalid-argument' for a lease of another store; 'failed-precondition'. */
  protected idOf(lease: Lease | undefined): L['id'] | undefined {
    this.checkOpen();
    if (lease === undefined) return undefined;
    if (this.isOwn(lease)) return lease.id;
    throw invalidArgument('the lease is of another store');
  }
}
