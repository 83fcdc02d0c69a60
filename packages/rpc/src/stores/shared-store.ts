/** @file One connection to a store for all agents of a process that use it alike: a group of many agents in few processes asks a store no more than its processes would. */
import { type RpcError, rpcInfo } from '../base/errors.ts';
import { closedError } from './checks.ts';
import { limited, race } from './limited.ts';
import { DEFAULT_TIMEOUT_MS, throwIfCancelled, tooLate, type OpeningLimits } from './opening.ts';
import { HeldLease, LeasingStore, type Leased, type Swapped } from './leasing.ts';
import type { Lease, Store, StoreEvent } from './store.ts';
import { canTicket, type LeaseTicket, type TicketStore } from './ticket.ts';

/** Users of one connection: a server bounds what waits for one client, and each has a few watches and leases. */
const MAX_USERS = 256;

interface Shared {
  readonly store: Promise<Store>;
  users: number;
  /** It could not be opened. */
  failed: boolean;
}

/** The connections of this process that are open or being opened, by what makes two of them the same. */
const connections = new Map<string, Set<Shared>>();

/**
 * A store of its own to whoever asks, on a connection that others with the same `key` use too; `connect` makes one where there is none.
 * It is closed with the last of its users. What one of them holds and waits for ends with that one alone.
 */
export async function shareStore(
  key: string,
  { signal, timeoutMs = DEFAULT_TIMEOUT_MS }: OpeningLimits,
  connect: (timeoutMs: number) => Promise<Store>,
): Promise<Store> {
  const until = timeoutMs === 0 ? Infinity : performance.now() + timeoutMs;
  for (;;) {
    const leftMs = until === Infinity ? 0 : Math.max(1, until - performance.now());
    const known = [...(connections.get(key) ?? [])].find(({ users }) => users < MAX_USERS);
    const shared = known ?? begin(key, () => connect(leftMs));
    shared.users++;
    try {
      const { store } = shared;
      const opened = known === undefined ? store : limited(leftMs, [signal], (ended) => race(store, ended));
      return new StoreShare(await opened, () => leave(key, shared));
    } catch (error) {
      void leave(key, shared);
      throwIfCancelled(signal);
      if (performance.now() >= until) throw late(key, timeoutMs, error);
      // Another's attempt may have failed for a reason of its own: its time, its signal.
      if (known?.failed !== true) throw error;
    }
  }
}

/** The key begins with the address; what follows is nobody's to read. */
function late(key: string, timeoutMs: number, error: unknown): RpcError {
  const known = rpcInfo(error);
  if (known?.code === 'deadline-exceeded' || known?.code === 'unauthenticated') return known;
  return tooLate(`no store at ${key.split(' ', 1)[0] ?? ''} in ${Math.ceil(timeoutMs)} ms`, error);
}

function begin(key: string, connect: () => Promise<Store>): Shared {
  const shared: Shared = { store: connect(), users: 0, failed: false };
  const all = connections.get(key) ?? new Set();
  connections.set(key, all.add(shared));
  shared.store.catch(() => {
    shared.failed = true;
    remove(key, shared);
  });
  return shared;
}

function remove(key: string, shared: Shared): void {
  const all = connections.get(key);
  all?.delete(shared);
  if (all?.size === 0) connections.delete(key);
}

async function leave(key: string, shared: Shared): Promise<void> {
  shared.users--;
  if (shared.users > 0) return;
  remove(key, shared);
  const store = await shared.store.catch(() => undefined);
  await store?.close();
}

/** One user's part of it. */
class StoreShare extends LeasingStore<HeldLease<Lease>> implements TicketStore {
  private readonly store: Store;
  private readonly left: () => Promise<void>;
  /** Those that are not over. */
  private readonly watches = new Set<AsyncIterableIterator<StoreEvent>>();
  /** What ends the requests that are not answered. */
  private readonly waiting = new Set<(error: Error) => void>();

  constructor(store: Store, left: () => Promise<void>) {
    super();
    this.store = store;
    this.left = left;
  }

  set(key: string, value: Uint8Array, options?: Leased): Promise<void> {
    return this.run(() => this.store.set(key, value, this.under(options)));
  }

  get(key: string): Promise<Uint8Array | undefined> {
    return this.run(() => this.store.get(key));
  }

  wait(keys: readonly string[], options: { timeoutMs: number; signal?: AbortSignal }): Promise<void> {
    // Without options, too: the store itself says what is wrong with them.
    const given = { ...options };
    return this.run(() =>
      limited(0, [given.signal, this.closing.signal], (signal) => this.store.wait(keys, { ...given, signal })),
    );
  }

  add(key: string, delta: bigint): Promise<bigint> {
    return this.run(() => this.store.add(key, delta));
  }

  compareAndSet(key: string, expected: Uint8Array | null, value: Uint8Array, options?: Leased): Promise<Swapped> {
    return this.run(() => this.store.compareAndSet(key, expected, value, this.under(options)));
  }

  delete(key: string): Promise<boolean> {
    return this.run(() => this.store.delete(key));
  }

  list(prefix: string): Promise<Map<string, Uint8Array>> {
    return this.run(() => this.store.list(prefix));
  }

  watch(prefix: string, options?: { signal?: AbortSignal }): AsyncIterable<StoreEvent> {
    this.checkOpen();
    const events = this.store.watch(prefix, options)[Symbol.asyncIterator]();
    const following: AsyncIterableIterator<StoreEvent> = {
      next: async () => {
        let isOver = true;
        try {
          const result = await events.next();
          isOver = result.done === true;
          return result;
        } finally {
          if (isOver) this.watches.delete(following);
        }
      },
      return: async () => {
        this.watches.delete(following);
        await events.return?.();
        return { value: undefined, done: true };
      },
      [Symbol.asyncIterator]: () => following,
    };
    this.watches.add(following);
    return following;
  }

  /** It ends with this part of the store. */
  lease(ttlMs: number): Promise<Lease> {
    return this.run(async () => {
      const lease = await this.store.lease(ttlMs);
      const share = this.keep(new HeldLease(this, lease, ttlMs));
      void lease.lost.then((error) => share.lose(error));
      if (this.closing.signal.aborted) this.end(share);
      return share;
    });
  }

  async revoke({ id: lease }: HeldLease<Lease>): Promise<void> {
    this.leases.delete(lease);
    await lease.revoke();
  }

  ticket(lease: Lease, ageKey: string): LeaseTicket | undefined {
    return this.isOwn(lease) && canTicket(this.store) ? this.store.ticket(lease.id, ageKey) : undefined;
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    this.closing.abort();
    for (const lease of this.leases.values()) this.end(lease);
    for (const watch of [...this.watches]) watch.return?.().catch(() => undefined);
    for (const fail of this.waiting) fail(closedError());
    this.waiting.clear();
    await this.left();
  }

  private under(options: Leased | undefined): Leased | undefined {
    return options?.lease === undefined ? options : { ...options, lease: this.idOf(options.lease) as Lease };
  }

  /** The request is on its way before the connection ends; what it answers no longer matters. */
  private end(lease: HeldLease<Lease>): void {
    lease.id.revoke().catch(() => undefined);
    lease.lose(closedError());
  }

  /** Nothing of a request is kept once it is answered: this part of the store may be open for as long as the process runs. */
  private run<T>(ask: () => Promise<T>): Promise<T> {
    if (this.closing.signal.aborted) return Promise.reject(closedError());
    return new Promise((resolve, reject) => {
      this.waiting.add(reject);
      const asked = new Promise<T>((answer) => answer(ask()));
      asked.then(resolve, reject).finally(() => this.waiting.delete(reject));
    });
  }
}
