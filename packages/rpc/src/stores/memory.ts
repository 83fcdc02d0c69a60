/** @file A store inside one process, shared by everyone who opens the same name. */
import { unwatchAbort, watchAbort } from '../base/abort-signals.ts';
import { checkDelta, checkExpected, checkKey, checkKeys, checkTtl, checkValue } from './checks.ts';
import { StoreState } from './state.ts';
import { HeldLease, LeasingStore, type Leased, type Swapped } from './leasing.ts';
import type { Lease, Store, StoreEvent } from './store.ts';
import { waitIn } from './wait.ts';
import { WatchQueue } from './watch-queue.ts';

interface Shared {
  readonly state: StoreState;
  handles: number;
}

const named = new Map<string, Shared>();

/** Opens the store of that name; it lasts until the last one who opened it closes it. Without a name it is nobody else's. */
export function memoryStore(name?: string): Store {
  let shared = name === undefined ? undefined : named.get(name);
  if (shared === undefined) {
    shared = { state: new StoreState(), handles: 0 };
    if (name !== undefined) named.set(name, shared);
  }
  return new MemoryStore(shared, name);
}

class MemoryStore extends LeasingStore<HeldLease<number>> implements Store {
  private readonly shared: Shared;
  private readonly name: string | undefined;

  constructor(shared: Shared, name: string | undefined) {
    super();
    this.shared = shared;
    this.name = name;
    shared.handles++;
  }

  async set(key: string, value: Uint8Array, options?: Leased): Promise<void> {
    this.state().set(checkKey(key), checkValue(value), this.idOf(options?.lease));
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return copy(this.state().get(checkKey(key)));
  }

  async wait(keys: readonly string[], options: { timeoutMs: number; signal?: AbortSignal }): Promise<void> {
    const state = this.state();
    const names = checkKeys(keys);
    return waitIn(state, names, { ...options, closing: this.closing.signal });
  }

  async add(key: string, delta: bigint): Promise<bigint> {
    return this.state().add(checkKey(key), checkDelta(delta));
  }

  async compareAndSet(key: string, expected: Uint8Array | null, value: Uint8Array, options?: Leased): Promise<Swapped> {
    const lease = this.idOf(options?.lease);
    const result = this.state().compareAndSet(checkKey(key), checkExpected(expected), checkValue(value), lease);
    return { ok: result.ok, current: copy(result.current) };
  }

  async delete(key: string): Promise<boolean> {
    return this.state().delete(checkKey(key));
  }

  async list(prefix: string): Promise<Map<string, Uint8Array>> {
    return new Map(
      this.state()
        .list(checkKey(prefix))
        .map(([key, value]) => [key, new Uint8Array(value)]),
    );
  }

  watch(prefix: string, options?: { signal?: AbortSignal }): AsyncIterable<StoreEvent> {
    const state = this.state();
    checkKey(prefix);
    let unwatch = (): void => undefined;
    const end = (): void => queue.end();
    const queue: WatchQueue = new WatchQueue(
      prefix,
      () => {
        unwatch();
        unwatchAbort(this.closing.signal, end);
      },
      options?.signal,
    );
    if (options?.signal?.aborted) return queue;
    watchAbort(this.closing.signal, end);
    unwatch = state.watch(prefix, (key, value) => {
      queue.push(value === undefined ? { type: 'delete', key } : { type: 'put', key, value: new Uint8Array(value) });
    });
    return queue;
  }

  /** Ends only by `revoke` and `close`: whoever holds it is this process. */
  async lease(ttlMs: number): Promise<Lease> {
    const state = this.state();
    // The process that could fail to renew it is the one that keeps the store, so time does not run out.
    return this.keep(new HeldLease(this, state.grant(checkTtl(ttlMs), Infinity), ttlMs));
  }

  async revoke({ id }: HeldLease<number>): Promise<void> {
    this.leases.delete(id);
    this.shared.state.revoke(id);
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    this.closing.abort();
    for (const lease of this.leases.values()) {
      this.shared.state.revoke(lease.id);
      lease.lose('the store was closed');
    }
    this.shared.handles--;
    if (this.shared.handles === 0 && this.name !== undefined && named.get(this.name) === this.shared)
      named.delete(this.name);
  }

  private state(): StoreState {
    this.checkOpen();
    return this.shared.state;
  }
}

function copy(value: Uint8Array | undefined): Uint8Array | undefined {
  return value === undefined ? undefined : new Uint8Array(value);
}
