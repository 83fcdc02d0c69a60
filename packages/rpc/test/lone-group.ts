/** @file A group's rules over a store, without an agent: nobody is found dead, and everybody is who it says. */
import { inLoop } from '../src/liveness/keep-alive.ts';
import { Group } from '../src/membership/group.ts';
import type { Store } from '../src/stores/store.ts';

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** How long a lease of theirs is good for. */
export const LEASE_MS = 10_000;

/** Whoever calls closes it. */
export function groupOn(store: Store, root = store): Group {
  return new Group({
    ...{ store, root, leaseMs: LEASE_MS, busyDeadMs: 60_000, logger: silent, prove: undefined },
    isGone: () => false,
    isProved: () => true,
    onStore: () => undefined,
    onView: () => undefined,
    onLeaseLost: () => undefined,
    keepAlive: (inner, lease, { ageKey }) => inLoop(inner, lease, ageKey),
    now: () => performance.now(),
  });
}
