import { afterEach, describe, expect, it, vi } from 'vitest';
import { encodeWish, type Wish } from '../protocol/admission.ts';
import { EMPTY_VIEW, isRefusal, join, lifeOf, type View, type ViewMember } from '../protocol/membership.ts';
import { memoryStore } from '../stores/memory.ts';
import type { Store } from '../stores/store.ts';
import { Entrance } from './entrance.ts';
import { GroupStore } from './group-store.ts';
import { groupOn, LEASE_MS } from '../../test/lone-group.ts';
import type { Group } from './group.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function openOn(store: Store): Group {
  cleanups.push(() => store.close());
  const group = groupOn(store);
  cleanups.push(() => group.close());
  return group;
}

function keysOf(store: Store): GroupStore {
  const now = (): number => performance.now();
  return new GroupStore({ store, patienceMs: 2_000, forgivenMs: 60_000, onState: () => undefined, now });
}

const member = (name: string, id: number, incarnation: number): ViewMember => {
  return { name, id, incarnation, endpoints: [], host: 'h', pid: 1, extensions: [] };
};
const wants = (of: ViewMember): Wish => ({ kind: 'join', member: of });

/** A store, and one at its door whose wish is `wish`. */
async function atDoor(
  of: ViewMember,
): Promise<{ store: Store; keys: GroupStore; wait: () => Promise<string>; views: View[] }> {
  const store = memoryStore();
  const keys = keysOf(store);
  const views: View[] = [];
  const lease = await store.lease(LEASE_MS);
  const { signal } = new AbortController();
  const onView = (view: View): void => void views.push(view);
  const entrance = new Entrance({ keys, lease, signal, rewrite: (each, id) => ({ ...each, id }), onView });
  return { store, keys, views, wait: () => entrance.wait(lifeOf(of), wants(of)) };
}

const at = { endpoints: [], host: 'h', extensions: [] };

/** How often the view is set, from now on. */
function countChanges(store: Store): () => number {
  let changes = 0;
  const stop = new AbortController();
  cleanups.push(() => stop.abort());
  void (async () => {
    for await (const { key } of store.watch('view', { signal: stop.signal })) if (key === 'view') changes++;
  })();
  return () => changes;
}

describe('many workers that come at once', () => {
  it('are in with a few changes of the view, each under an id of its own', async () => {
    const store = memoryStore('open');
    const changes = countChanges(store);
    const groups = Array.from({ length: 120 }, () => openOn(memoryStore('open')));
    const joined = await Promise.all(
      groups.map((group, i) => group.join({ name: `w${i}`, id: undefined, size: undefined, ...at }, Infinity)),
    );
    const ids = joined.map((each) => each.member.id).sort((a, b) => a - b);
    expect(ids).toEqual(ids.map((_, i) => i));
    expect((await keysOf(store).view()).members).toHaveLength(120);
    expect(changes()).toBeLessThan(12);
  });

  it('are a complete group, and leave as few at a time', async () => {
    const store = memoryStore('closed');
    const groups = Array.from({ length: 120 }, () => openOn(memoryStore('closed')));
    const joined = await Promise.all(
      groups.map((group, i) => group.join({ name: `w${i}`, id: i, size: 120, ...at }, performance.now() + 60_000)),
    );
    for (const { view } of joined) expect(view.members).toHaveLength(120);
    const changes = countChanges(store);
    await Promise.all(groups.map((group) => group.leave()));
    const { members, departed } = await keysOf(store).view();
    expect(members).toEqual([]);
    expect(departed.filter(({ how }) => how === 'left')).toHaveLength(120);
    expect(changes()).toBeLessThan(12);
    expect((await store.list('wishes/')).size, 'wishes that nobody looked at').toBe(0);
    await expect.poll(() => store.get('door')).toBeUndefined();
  });
});

describe('one at the door', () => {
  it('takes in who waits, and whoever wishes for what cannot be is told to look for itself', async () => {
    const { store, keys, wait, views } = await atDoor(member('a', 0, 1));
    const set = (wish: Wish, life: string): Promise<void> => store.set(`wishes/${life}`, encodeWish(wish));
    await set(wants(member('b', 1, 2)), 'b#2');
    await set(wants(member('c', 1, 3)), 'c#3');
    await store.set('wishes/d#4', new TextEncoder().encode('no wish'));
    await set(wants(member('e', 5, 5)), 'another#5');
    expect(await wait()).toBe('looked-at');
    expect(views.map(({ members }) => members.map(lifeOf))).toEqual([['a#1', 'b#2']]);
    await expect.poll(async () => (await keys.wishes()).size).toBe(0);
    await expect.poll(() => keys.isDoorTaken()).toBe(false);
  });

  it('takes out who wanted to leave and has ended since', async () => {
    const { store, keys, wait } = await atDoor(member('a', 0, 1));
    const gone = await openOn(store).join({ name: 'b', id: 1, size: undefined, ...at }, Infinity);
    const lease = await store.lease(LEASE_MS);
    const life = lifeOf(gone.member);
    await keys.wish(life, { kind: 'leave', life }, lease);
    await keys.wish('c#3', wants(member('c', 2, 3)), lease);
    await lease.revoke();
    expect(await wait()).toBe('looked-at');
    const { members, departed } = await keys.view();
    expect(members.map(({ name }) => name)).toEqual(['a']);
    expect(departed.map(({ name, how }) => `${name} ${how}`)).toEqual(['b left']);
  });

  it('is followed by another when it dies before it has taken anybody in, or after', async () => {
    for (const after of [false, true]) {
      const self = member('a', 0, 1);
      const { store, keys, wait } = await atDoor(self);
      const dead = await store.lease(LEASE_MS);
      expect(await keys.takeDoor('x#9', dead)).toBe(true);
      if (after) {
        const taken = join(EMPTY_VIEW, self, undefined);
        if (isRefusal(taken)) throw new Error(taken.kind);
        expect(await keys.setView(EMPTY_VIEW, taken)).toBe(true);
      }
      const waiting = wait();
      await new Promise((resolve) => setTimeout(resolve, 50));
      await dead.revoke();
      expect(await waiting).toBe('looked-at');
      const view = await keys.view();
      expect([view.epoch, view.members.map(lifeOf)]).toEqual([1, ['a#1']]);
    }
  });

  it('is walked round when it does nothing', { timeout: 30_000 }, async () => {
    const { store, keys, wait } = await atDoor(member('a', 0, 1));
    await keys.takeDoor('x#9', await store.lease(LEASE_MS));
    expect(await wait()).toBe('alone');
    expect((await keys.wishes()).size).toBe(0);
    const joined = await openOn(store).join({ name: 'b', id: 1, size: undefined, ...at }, Infinity);
    expect(joined.view.members.map(({ name }) => name)).toEqual(['b']);
  });

  it('is waited for while it takes others in, however long that takes', { timeout: 30_000 }, async () => {
    const { store, keys, wait } = await atDoor(member('a', 0, 1));
    const lease = await store.lease(LEASE_MS);
    const tries = vi.spyOn(store, 'compareAndSet');
    await keys.takeDoor('x#9', lease);
    const waiting = wait();
    let over = false;
    void waiting.then(() => (over = true));
    for (let batches = 1; batches <= 4; batches++) {
      await new Promise((resolve) => setTimeout(resolve, 2_000));
      expect([over, await keys.goOn('x#9', batches, lease)]).toEqual([false, true]);
    }
    // Nobody wrote anything to see whether the door is free.
    expect(tries.mock.calls.filter(([key, expected]) => key === 'door' && expected === null)).toHaveLength(1);
    await lease.revoke();
    expect(await keys.goOn('x#9', 5, await store.lease(LEASE_MS))).toBe(false);
    expect(await waiting).toBe('looked-at');
    expect((await keys.view()).members.map(lifeOf)).toEqual(['a#1']);
  });

  it('goes away when another stands there, and leaves it the rest', async () => {
    const { store, keys, wait, views } = await atDoor(member('a', 0, 1));
    const setView = keys.setView.bind(keys);
    vi.spyOn(keys, 'setView').mockImplementation(async (before, next) => {
      // Its lease was lost for a moment, and somebody else has come.
      await store.set('door', new TextEncoder().encode('x#9'));
      await store.set('wishes/b#2', encodeWish(wants(member('b', 1, 2))));
      return setView(before, next);
    });
    expect(await wait()).toBe('looked-at');
    expect(views.map(({ members }) => members.map(lifeOf))).toEqual([['a#1']]);
    expect([await keys.door(), [...(await keys.wishes()).keys()]]).toEqual(['x#9', ['b#2']]);
  });

  it('goes away when the store fails it, and others may stand there', async () => {
    const { store, keys, wait } = await atDoor(member('a', 0, 1));
    await store.set('view', new TextEncoder().encode('no view'));
    await expect(wait()).rejects.toMatchObject({ code: 'failed-precondition' });
    await expect.poll(() => keys.isDoorTaken()).toBe(false);
  });
});
