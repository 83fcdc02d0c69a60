/** @file Who watches whom. */
import { expect, it } from 'vitest';
import { lifeOf, type ViewMember } from './membership.ts';
import { waitForWatchers, watchedBy, WATCHERS } from './watchers.ts';

function members(size: number): ViewMember[] {
  return Array.from({ length: size }, (_, id) => ({
    ...{ name: `w${id}`, id, incarnation: 1_000 + id },
    ...{ endpoints: [], host: 'h', pid: 1, extensions: [] },
  }));
}

it.each([2, 3, 4, 64, 1_000])(
  'in a group of %i everybody is watched by as many as there can be, nobody by himself',
  (size) => {
    const all = members(size);
    const watchers = new Map(all.map((member) => [lifeOf(member), 0]));
    for (const self of all) {
      const watched = watchedBy(self, all).map(lifeOf);
      expect(new Set(watched).size).toBe(Math.min(WATCHERS, size - 1));
      expect(watched).not.toContain(lifeOf(self));
      for (const life of watched) watchers.set(life, (watchers.get(life) ?? 0) + 1);
    }
    expect([...watchers.values()].every((count) => count === Math.min(WATCHERS, size - 1))).toBe(true);
  },
);

it('does not depend on the order of the members', () => {
  const all = members(50);
  const [self] = all as [ViewMember];
  expect(watchedBy(self, [...all].reverse())).toEqual(watchedBy(self, all));
});

it.each([8, 9, 1_000])('in a group of %i those that do not watch who is gone wait for those that do', (size) => {
  const all = members(size);
  const [gone] = all as [ViewMember];
  const lives = new Set([lifeOf(gone)]);
  for (const self of all.slice(1)) {
    const isOwn = size <= 8 || watchedBy(self, all).includes(gone);
    expect(waitForWatchers(self, lives, all, 0)).toBe(isOwn ? 0 : 1_000 + 4 * size);
    expect(waitForWatchers(self, lives, all, 0.5)).toBe(isOwn ? 0 : 1_500 + 4 * size);
  }
});
