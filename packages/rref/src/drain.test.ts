/** @file How long the end of a session waits. */
import { expect, it, vi } from 'vitest';
import { Changes, drain, type DrainHost } from './drain.ts';

it('handles that others have are waited for, also as long as no timer can be set for', async () => {
  const forks = [{ holder: 1 }];
  const warn = vi.fn();
  const changes = new Changes();
  const host = {
    worker: {
      owners: { allForks: () => forks },
      users: { pendingUsers: 0, all: () => [], childHolders: () => [], release: () => undefined },
    },
    host: { logger: { warn } },
    members: { reachable: () => true },
    changes,
    closed: false,
    flush: () => undefined,
    debugInfo: () => ({}),
  } as unknown as DrainHost;
  let over = false;
  const drained = drain(host, 2 ** 40).then(() => (over = true));
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect(over).toBe(false);
  forks.length = 0;
  changes.notify();
  await drained;
  expect(warn).not.toHaveBeenCalled();
});
