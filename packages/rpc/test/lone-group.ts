/** @file A group's rules over a store, without an agent: nobody is found dead, and everybody is who it says. */
import { inLoop } from '../src/liveness/keep-alive.ts';
import { Group, type GroupOptions } from '../src/membership/group.ts';
import type { Store, StoreEvent } from '../src/stores/store.ts';

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** How long a lease of theirs is good for. */
export const LEASE_MS = 10_000;

/** Whoever calls closes it. */
export function groupOn(store: Store, root = store, more: Pick<Partial<GroupOptions>, 'onView'> = {}): Group {
  return new Group({
    ...{ store, root, leaseMs: LEASE_MS, busyDeadMs: 60_000, logger: silent, prove: undefined },
    isGone: () => false,
    isProved: () => true,
    onStore: () => undefined,
    onView: () => undefined,
    onLeaseLost: () => undefined,
    keepAlive: (inner, lease, { ageKey }) => inLoop(inner, lease, ageKey),
    now: () => performance.now(),
    ...more,
  });
}

/** A store whose changes are never told. */
export function deaf(store: Store): Store {
  const never: AsyncIterableIterator<StoreEvent> = {
    next: () => new Promise(() => undefined),
    [Symbol.asyncIterator]: () => never,
  };
  return new Proxy(store, {
    get: (target, key) => {
      if (key === 'watch') return () => never;
      const value: unknown = Reflect.get(target, key);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}
