/** @file A part of a store: every key under one prefix. */
import { checkKey, checkKeys } from './checks.ts';
import type { Leased, Swapped } from './leasing.ts';
import type { Lease, Store, StoreEvent } from './store.ts';
import { canTicket, type LeaseTicket, type TicketStore } from './ticket.ts';

/**
 * The keys of `store` under `prefix`, without it. Closing it closes `store` only if it is `owned`.
 */
export function prefixStore(store: Store, prefix: string, options: { owned?: boolean } = {}): Store {
  return new PrefixStore(store, prefix, options.owned ?? false);
}

class PrefixStore implements TicketStore {
  private readonly store: Store;
  private readonly prefix: string;
  private readonly owned: boolean;

  constructor(store: Store, prefix: string, owned: boolean) {
    this.store = store;
    this.prefix = prefix;
    this.owned = owned;
  }

  async set(key: string, value: Uint8Array, options?: Leased): Promise<void> {
    return this.store.set(this.prefix + checkKey(key), value, options);
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return this.store.get(this.prefix + checkKey(key));
  }

  async wait(keys: readonly string[], options: { timeoutMs: number; signal?: AbortSignal }): Promise<void> {
    return this.store.wait(
      checkKeys(keys).map((key) => this.prefix + key),
      options,
    );
  }

  async add(key: string, delta: bigint): Promise<bigint> {
    return this.store.add(this.prefix + checkKey(key), delta);
  }

  async compareAndSet(key: string, expected: Uint8Array | null, value: Uint8Array, options?: Leased): Promise<Swapped> {
    return this.store.compareAndSet(this.prefix + checkKey(key), expected, value, options);
  }

  async delete(key: string): Promise<boolean> {
    return this.store.delete(this.prefix + checkKey(key));
  }

  async list(prefix: string): Promise<Map<string, Uint8Array>> {
    const found = await this.store.list(this.prefix + checkKey(prefix));
    return new Map([...found].map(([key, value]) => [key.slice(this.prefix.length), value]));
  }

  watch(prefix: string, options?: { signal?: AbortSignal }): AsyncIterable<StoreEvent> {
    return strip(this.store.watch(this.prefix + checkKey(prefix), options), this.prefix.length);
  }

  lease(ttlMs: number): Promise<Lease> {
    return this.store.lease(ttlMs);
  }

  ticket(lease: Lease, ageKey: string): LeaseTicket | undefined {
    return canTicket(this.store) ? this.store.ticket(lease, this.prefix + ageKey) : undefined;
  }

  async close(): Promise<void> {
    if (this.owned) await this.store.close();
  }
}

/** Not a generator function: the watch has begun, and leaving it before the first `next` has to end it. */
function strip(events: AsyncIterable<StoreEvent>, length: number): AsyncIterableIterator<StoreEvent> {
  const inner = events[Symbol.asyncIterator]();
  return {
    async next() {
      const result = await inner.next();
      if (result.done) return result;
      return { value: { ...result.value, key: result.value.key.slice(length) }, done: false };
    },
    async return() {
      await inner.return?.();
      return { value: undefined, done: true };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
