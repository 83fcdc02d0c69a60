/** @file Who may take the name of another: one whose former life has ended, and not one whose former life is only slow. */
import { afterEach, expect, it } from 'vitest';
import { encodeView, lifeOf, type View } from '../protocol/membership.ts';
import { memoryStore } from '../stores/memory.ts';
import { ageKey } from './group-store.ts';
import { groupOn } from '../../test/lone-group.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const at = { size: undefined, endpoints: [], host: 'h', extensions: [] };
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const textOf = (error: unknown): string => (error as Error).message;

/** A view with a former life of 'b', which has no lease, and a 'b' that waits for its name. */
async function set(name: string, waitMs: number) {
  const store = memoryStore(name);
  const founder = groupOn(memoryStore(name));
  cleanups.push(() => founder.close());
  const { member, view } = await founder.join({ name: 'a', id: 0, ...at }, Infinity);
  const former = { ...member, name: 'b', id: 1, incarnation: member.incarnation - 2 };
  let { epoch } = view;
  const show = async (life: typeof former): Promise<View> => {
    const next = { ...view, epoch: ++epoch, members: [member, life] };
    await store.set('view', encodeView(next));
    return next;
  };
  await show(former);
  const other = groupOn(memoryStore(name));
  cleanups.push(() => other.close());
  const began = performance.now();
  const joined = other.join({ name: 'b', id: undefined, ...at }, began + waitMs);
  joined.catch(() => undefined);
  return { store, founder, former, show, joined, began };
}

it('takes the name of a life that has had no lease for two seconds', async () => {
  const { former, joined, began } = await set('leaseless', 10_000);
  const { view } = await joined;
  expect(performance.now() - began).toBeGreaterThan(1_900);
  expect(view.departed.map(lifeOf)).toEqual([lifeOf(former)]);
});

it('does not take the name of one that had none for a moment', async () => {
  const { store, founder, former, joined } = await set('slow', 4_000);
  await sleep(1_500);
  await store.set(ageKey(former), new TextEncoder().encode('70000'));
  await expect(joined.catch(textOf)).resolves.toContain('name b is not unique');
  expect((await founder.refresh()).members.map(lifeOf)).toContain(lifeOf(former));
});

it('gives another that came meanwhile a while of its own', async () => {
  const { founder, former, show, joined } = await set('another', 3_200);
  await sleep(1_500);
  const later = { ...former, incarnation: former.incarnation + 1 };
  await show(later);
  // Two seconds after the first one was looked at, and less after the second.
  await expect(joined.catch(textOf)).resolves.toContain('name b is not unique');
  expect((await founder.refresh()).members.map(lifeOf)).toContain(lifeOf(later));
});
