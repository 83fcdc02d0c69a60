/** @file What keeps the lease of a worker alive, and what its peers read of that. Runs in browsers too. */
import type { Lease, Store } from '../stores/store.ts';

/** What keeps a lease alive. */
export interface KeepAlive {
  /** 'thread': a busy main loop does not end the lease; 'loop': it does. */
  readonly kind: 'thread' | 'loop';
  /** Resolves once the key has been written for the first time. */
  readonly started: Promise<void>;
  /** Harmless when repeated. The lease itself goes on. */
  stop(): Promise<void>;
}

/** What the age key of a peer says; undefined when it has none: its lease is gone. */
export async function readAge(store: Store, ageKey: string): Promise<number | undefined> {
  const value = await store.get(ageKey);
  if (value === undefined) return undefined;
  const text = new TextDecoder().decode(value.subarray(0, 16));
  return /^\d{1,12}$/.test(text) ? Number(text) : 0;
}

/** The store's client renews the lease by itself; a main loop that stands still ends it. */
export function inLoop(store: Store, lease: Lease, ageKey: string): KeepAlive {
  const zero = new TextEncoder().encode('0');
  const started = store.set(ageKey, zero, { lease }).catch(() => undefined);
  return { kind: 'loop', started, stop: async () => undefined };
}
