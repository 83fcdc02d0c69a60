/** @file What a group does with a notice of its launcher. */
import { afterEach, expect, it } from 'vitest';
import { inLoop } from '../liveness/keep-alive.ts';
import { lifeOf } from '../protocol/membership.ts';
import { memoryStore } from '../stores/memory.ts';
import type { Store, StoreEvent } from '../stores/store.ts';
import { Group } from './group.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

function groupOn(store: Store, root: Store): Group {
  const group = new Group({
    ...{ store, root, leaseMs: 10_000, busyDeadMs: 60_000, logger: silent, prove: undefined },
    isGone: () => false,
    isProved: () => true,
    onStore: () => undefined,
    onView: () => undefined,
    onLeaseLost: () => undefined,
    keepAlive: (inner, lease, { ageKey }) => inLoop(inner, lease, ageKey),
    now: () => performance.now(),
  });
  cleanups.push(() => group.close());
  return group;
}

/** A store whose changes are never told. */
function deaf(store: Store): Store {
  const never: AsyncIterableIterator<StoreEvent> = {
    next: () => new Promise(() => undefined),
    [Symbol.asyncIterator]: () => never,
  };
  return new Proxy(store, {
    get: (target, key) => {
      if (key === 'watch') return () => never;
      const value: unknown = Reflect.get(target, key);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

it('puts out one whose process the launcher saw end before this worker heard that it had joined', async () => {
  const root = memoryStore('exits-root');
  const at = { size: undefined, endpoints: [], host: 'h', extensions: [] };
  const group = groupOn(deaf(memoryStore('exits')), root);
  await group.join({ name: 'a', id: 0, ...at }, Infinity);
  const other = groupOn(memoryStore('exits'), root);
  const { member } = await other.join({ name: 'b', id: 1, ...at }, Infinity);
  await root.set('launcher/exits/1', new TextEncoder().encode(JSON.stringify({ rank: 1, pid: member.pid })));
  const departed = async (): Promise<unknown> =>
    (await group.refresh()).departed.map((life) => [lifeOf(life), life.how]);
  await expect.poll(departed).toEqual([[lifeOf(member), 'dead']]);
});
