/** @file A part of a store: every key under one prefix. */
import { checkKey, checkKeys } from './checks.ts';
import type { Store, StoreEvent } from './store.ts';
import { canTicket, type TicketStore } from './ticket.ts';

/**
 * The keys of `store` under `prefix`, without it. Closing it closes `store` only if it is `owned`.
 */
export function prefixStore(store: Store, prefix: string, { owned = false }: { owned?: boolean } = {}): TicketStore {
  const at = (key: string): string => prefix + checkKey(key);
  return {
    set: async (key, value, options) => store.set(at(key), value, options),
    get: async (key) => store.get(at(key)),
    wait: async (keys, options) =>
      store.wait(
        checkKeys(keys).map((key) => prefix + key),
        options,
      ),
    add: async (key, delta) => store.add(at(key), delta),
    compareAndSet: async (key, expected, value, options) => store.compareAndSet(at(key), expected, value, options),
    delete: async (key) => store.delete(at(key)),
    list: async (beginning) => {
      const found = await store.list(at(beginning));
      return new Map([...found].map(([key, value]) => [key.slice(prefix.length), value]));
    },
    watch: (beginning, options) => strip(store.watch(at(beginning), options), prefix.length),
    lease: (ttlMs) => store.lease(ttlMs),
    ticket: (lease, ageKey) => (canTicket(store) ? store.ticket(lease, prefix + ageKey) : undefined),
    close: async () => {
      if (owned) await store.close();
    },
  };
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
