/** @file A store that lost everything: who lives stays a member, whoever writes the view again, and however late leases come back. */
import { afterEach, expect, it } from 'vitest';
import { restored } from '../protocol/histories.ts';
import { encodeView, lifeOf, Membership, type View } from '../protocol/membership.ts';
import { memoryStore } from '../stores/memory.ts';
import type { Store } from '../stores/store.ts';
import type { Group } from './group.ts';
import { deaf, groupOn } from '../../test/lone-group.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const at = { size: undefined, endpoints: [], host: 'h', extensions: [] };

interface Joined {
  readonly group: Group;
  readonly member: Awaited<ReturnType<Group['join']>>['member'];
  /** What it knows by the views that it was told of. */
  readonly membership: Membership;
  /** Names of those that were told to be gone. */
  readonly gone: string[];
}

async function joined(name: string, id: number, store: Store): Promise<Joined> {
  const gone: string[] = [];
  const views: View[] = [];
  const known: Membership[] = [];
  const onView = (view: View): void => {
    views.push(view);
    const change = known[0]?.update(view);
    gone.push(...[...(change?.dead ?? []), ...(change?.left ?? [])].map((member) => member.name));
  };
  const group = groupOn(store, store, { onView });
  cleanups.push(() => group.close());
  const { member } = await group.join({ name, id, ...at }, Infinity);
  const membership = new Membership(member);
  known.push(membership);
  for (const view of views) membership.update(view);
  return { group, member, membership, gone };
}

/** A store that starts anew, with nothing in it. */
async function wipe(store: Store): Promise<void> {
  for (const key of (await store.list('')).keys()) await store.delete(key);
}

const namesOf = (view: View | undefined): string[] => (view?.members ?? []).map(({ name }) => name);

it('says of nobody that the lease is gone while the view is not written again', async () => {
  const store = memoryStore('emptied');
  const [a, b] = [await joined('a', 0, store), await joined('b', 1, store)];
  await a.group.refresh();
  expect(await a.group.leaseOf(b.member)).toMatchObject({ state: 'alive' });
  await wipe(store);
  expect(await a.group.leaseOf(b.member)).toEqual({ state: 'unknown' });
  // Others have begun anew in it.
  await joined('stranger', 0, memoryStore('emptied'));
  expect(await a.group.leaseOf(b.member)).toEqual({ state: 'unknown' });
});

it('says the same where another has written the view again, and it was not told of that yet', async () => {
  const store = memoryStore('untold');
  const [a, b] = [await joined('a', 0, deaf(store)), await joined('b', 1, store)];
  const view = await a.group.refresh();
  await store.set('view', encodeView(restored(view)));
  await store.delete(`age/${lifeOf(b.member)}`);
  expect(await a.group.leaseOf(b.member)).toEqual({ state: 'unknown' });
});

it('keeps those whom the one that writes the view again had not heard of', async () => {
  const store = memoryStore('older');
  const a = await joined('a', 0, store);
  const b = await joined('b', 1, store);
  const older = await a.group.refresh();
  const c = await joined('c', 2, store);
  await b.group.refresh();
  await wipe(store);
  await store.set('view', encodeView(restored(older)));
  await expect.poll(async () => namesOf(await b.group.refresh())).toEqual(['a', 'b', 'c']);
  for (const { membership, gone } of [b, c]) {
    await expect.poll(() => namesOf(membership.view)).toEqual(['a', 'b', 'c']);
    expect({ gone, fenced: membership.fenced }).toEqual({ gone: [], fenced: false });
  }
});

it('brings nobody back that left unheard of the one that writes the view again', async () => {
  const store = memoryStore('left-unheard');
  const [a, b] = [await joined('a', 0, store), await joined('b', 1, store)];
  const older = await a.group.refresh();
  await b.group.leave();
  const c = await joined('c', 2, store);
  await wipe(store);
  await store.set('view', encodeView(restored(older)));
  await expect.poll(async () => namesOf(await c.group.refresh())).toEqual(['a', 'c']);
});

it('has the store go on from what its members know, where a copy of it goes on that lacks the latest', async () => {
  const store = memoryStore('lagging-copy');
  const a = await joined('a', 0, store);
  const left = await joined('left', 1, store);
  const older = encodeView(await a.group.refresh());
  await left.group.leave();
  const b = await joined('b', 2, store);
  await a.group.refresh();
  await store.set('view', older);
  await a.group.refresh();
  await expect.poll(async () => namesOf(await b.group.refresh())).toEqual(['a', 'b']);
  // One that came where nobody knew of the latest is kept, too.
  await store.set('view', older);
  const c = await joined('c', 3, store);
  await expect.poll(async () => namesOf(await b.group.refresh())).toEqual(['a', 'b', 'c']);
  expect(namesOf(await c.group.refresh())).toEqual(['a', 'b', 'c']);
});
