/** @file Joining through a store that goes away at any step, before it has done it or after. */
import { randomUUID } from 'node:crypto';
import { Random } from '@backwire/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { RpcError } from '../base/errors.ts';
import { memoryStore } from '../stores/memory.ts';
import type { Store } from '../stores/store.ts';
import type { Group } from './group.ts';
import { groupOn } from '../../test/lone-group.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const away = (executed: 'no' | 'maybe'): RpcError =>
  new RpcError('unavailable', 'the store at somewhere is away', { executed });

/** A store of which `isAway` says whether the next request, or the answer to it, is lost. */
function fickle(store: Store, isAway: () => boolean): Store {
  return new Proxy(store, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function') return value;
      if (key === 'watch' || key === 'close') return value.bind(target) as unknown;
      return async (...args: unknown[]): Promise<unknown> => {
        if (isAway()) throw away('no');
        const answer: unknown = await value.apply(target, args);
        if (isAway()) throw away('maybe');
        return answer;
      };
    },
  });
}

function openOn(store: Store): Group {
  const group = groupOn(store);
  cleanups.push(() => group.close());
  return group;
}

const at = { endpoints: [], host: 'h', extensions: [] };
const SIZE = 3;

describe('a store that is away now and then while workers join', { timeout: 60_000 }, () => {
  it.each([1, 2, 3, 4])('keeps nobody out, and takes nobody in twice (seed %i)', async (seed) => {
    const random = new Random(seed);
    const name = randomUUID();
    for (const size of [SIZE, undefined]) {
      const store = memoryStore(`${name}${size}`);
      const groups = Array.from({ length: SIZE }, () => openOn(fickle(store, () => random.chance(0.1))));
      const joined = await Promise.all(
        groups.map((group, rank) =>
          group.join({ name: `w${rank}`, id: size && rank, size, ...at }, performance.now() + 50_000),
        ),
      );
      const view = await openOn(store).refresh();
      expect(view.members.map((member) => member.name).sort()).toEqual(['w0', 'w1', 'w2']);
      expect(view.departed).toEqual([]);
      const ids = view.members.map(({ id }) => id);
      expect(ids.sort()).toEqual([0, 1, 2]);
      const leases = [...(await store.list('lease/')).keys()].sort();
      expect(leases).toEqual(joined.map(({ member }) => `lease/${member.name}#${member.incarnation}`).sort());
      // A store that is there lets go of what was taken by a step that was done twice.
      for (const group of groups) await group.close();
    }
  });

  it('says what the store said, while it waits and once the time is up', async () => {
    const store = memoryStore(randomUUID());
    const group = openOn(fickle(store, () => true));
    const joining = group.join({ name: 'w0', id: 0, size: 1, ...at }, performance.now() + 1_000);
    joining.catch(() => undefined);
    await expect.poll(() => group.trouble).toBe('the store at somewhere is away');
    await expect(joining).rejects.toMatchObject({
      code: 'unavailable',
      message: 'the store at somewhere is away [unavailable]',
    });
  });

  it('does not wait where the store refuses for good', async () => {
    const full = new RpcError('resource-exhausted', 'the store is full');
    const store = new Proxy(memoryStore(randomUUID()), {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key);
        if (key === 'add') return () => Promise.reject(full);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
    await expect(openOn(store).join({ name: 'w0', id: 0, size: 1, ...at }, Infinity)).rejects.toBe(full);
  });
});
