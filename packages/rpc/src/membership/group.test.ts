/** @file What a group does with a notice of its launcher. */
import { afterEach, expect, it, vi } from 'vitest';
import { encodeView, lifeOf, type ViewMember } from '../protocol/membership.ts';
import { watchedBy } from '../protocol/watchers.ts';
import { memoryStore } from '../stores/memory.ts';
import type { Store } from '../stores/store.ts';
import type { Group } from './group.ts';
import { deaf, groupOn } from '../../test/lone-group.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

type Joined = Awaited<ReturnType<Group['join']>>;

function openOn(store: Store, root: Store): Group {
  const group = groupOn(store, root);
  cleanups.push(() => group.close());
  return group;
}

/** A store that counts what is asked of it. */
function counted(store: Store, asked: string[]): Store {
  return new Proxy(store, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        if (args[0] === 'view') asked.push(String(key));
        return value.apply(target, args) as unknown;
      };
    },
  });
}

it('puts out one whose process the launcher saw end before this worker heard that it had joined', async () => {
  const root = memoryStore('exits-root');
  const at = { size: undefined, endpoints: [], host: 'h', extensions: [] };
  const group = openOn(deaf(memoryStore('exits')), root);
  await group.join({ name: 'a', id: 0, ...at }, Infinity);
  const other = openOn(memoryStore('exits'), root);
  const { member } = await other.join({ name: 'b', id: 1, ...at }, Infinity);
  await root.set('launcher/exits/1', new TextEncoder().encode(JSON.stringify({ rank: 1, pid: member.pid })));
  const departed = async (): Promise<unknown> =>
    (await group.refresh()).departed.map((life) => [lifeOf(life), life.how]);
  await expect.poll(departed).toEqual([[lifeOf(member), 'dead']]);
});

it('puts out from the view that it knows, and reads it only where another has changed it', async () => {
  const asked: string[] = [];
  const at = { size: undefined, endpoints: [], host: 'h', extensions: [] };
  const group = openOn(counted(deaf(memoryStore('known')), asked), memoryStore('known-root'));
  await group.join({ name: 'a', id: 0, ...at }, Infinity);
  const others = [1, 2, 3].map((id) => ({ id, group: openOn(memoryStore('known'), memoryStore('known-root')) }));
  const [b, c, d] = (await Promise.all(
    others.map(({ id, group: other }) => other.join({ name: `w${id}`, id, ...at }, Infinity)),
  )) as [Joined, Joined, Joined];
  await group.refresh();

  asked.length = 0;
  expect((await group.evict([lifeOf(b.member)])).members.map(({ name }) => name)).toEqual(['a', 'w2', 'w3']);
  expect(asked).toEqual(['compareAndSet']);

  await others[2]?.group.evict([lifeOf(c.member)]);
  asked.length = 0;
  expect((await group.evict([lifeOf(d.member)])).members.map(({ name }) => name)).toEqual(['a']);
  expect(asked).toEqual(['compareAndSet', 'get', 'compareAndSet']);

  // One that is in no view that it knows may be in the store's.
  asked.length = 0;
  await group.evict([lifeOf(d.member)]);
  expect(asked).toEqual(['get']);
});

it('leaves one that others watch to them for the longer the more members there are, and puts it out if they do not', async () => {
  const asked: string[] = [];
  const store = memoryStore('left-to-watchers');
  const group = openOn(counted(deaf(store), asked), memoryStore('left-to-watchers-root'));
  const at = { size: undefined, endpoints: [], host: 'h', extensions: [] };
  const { member, view } = await group.join({ name: 'a', id: 0, ...at }, Infinity);
  const others = Array.from({ length: 500 }, (_, i) => ({ ...member, name: `w${i}`, id: i + 1 }));
  const members = [member, ...others];
  await store.set('view', encodeView({ ...view, epoch: view.epoch + 1, members }));
  await group.refresh();
  const watched = new Set(watchedBy(member, members));
  const dead = others.find((other) => !watched.has(other)) as ViewMember;

  asked.length = 0;
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  cleanups.push(() => vi.useRealTimers());
  const put = group.evict([lifeOf(dead)]);
  await vi.advanceTimersByTimeAsync(2_900);
  expect(asked).toEqual([]);
  await vi.advanceTimersByTimeAsync(1_200);
  expect((await put).members.length).toBe(500);
  expect(asked).toEqual(['compareAndSet']);
});

const at = { size: undefined, endpoints: [], host: 'h', extensions: [] };

it.each([
  ['before 1970', -5_000],
  ['at no time', NaN],
  ['in the year 2169', 6_300_000_000_000],
  ['at the end of time', 8_640_000_000_000_000],
])('gives its members lives that can be told, also where the clock stands %s', async (when, now) => {
  const store = memoryStore(`clock ${when}`);
  const clock = vi.spyOn(Date, 'now').mockReturnValue(now);
  cleanups.push(() => clock.mockRestore());
  const lives: number[] = [];
  for (const [id, name] of ['a', 'b'].entries())
    lives.push((await openOn(store, store).join({ name, id, ...at }, Infinity)).member.incarnation);
  expect(lives).toEqual([1, 2]);
  // Whose clock is right is the later life.
  clock.mockRestore();
  const { member } = await openOn(store, store).join({ name: 'c', id: 2, ...at }, Infinity);
  expect(member.incarnation).toBeGreaterThan(50_000_000);
});

it('refuses a store whose count of lives is of nobody', async () => {
  const store = memoryStore('wild-count');
  await store.set('incarnation', new TextEncoder().encode('4294967295'));
  await expect(openOn(store, store).join({ name: 'a', id: 0, ...at }, Infinity)).rejects.toMatchObject({
    code: 'failed-precondition',
    message:
      "the store counts 4294967296 lives of workers under 'incarnation', which no group has had: delete that key, or give another store or group [failed-precondition]",
  });
});
