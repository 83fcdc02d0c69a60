import { describe, expect, it } from 'vitest';
import { decodeWish, encodeWish, takeAll, type Wish } from './admission.ts';
import { EMPTY_VIEW, isRefusal, join, lifeOf, remove, type View, type ViewMember } from './membership.ts';

const member = (name: string, id: number, incarnation: number): ViewMember => {
  return { name, id, incarnation, endpoints: [], host: 'h', pid: 1, extensions: [] };
};
const wants = (of: ViewMember, more: Partial<Extract<Wish, { kind: 'join' }>> = {}): Wish => {
  return { kind: 'join', member: of, ...more };
};
const rewrite = (of: ViewMember, id: number): ViewMember => ({ ...of, id });
const group = (...members: ViewMember[]): View =>
  members.reduce((view, each) => {
    const next = join(view, each, undefined);
    if (isRefusal(next)) throw new Error(next.kind);
    return next;
  }, EMPTY_VIEW);
const names = ({ members }: View): string[] => members.map(({ name, id }) => `${name}:${id}`);

describe('many changes of a view', () => {
  it('are one epoch, the same as each alone', () => {
    const before = group(member('a', 0, 1), member('b', 1, 2));
    const { view, granted } = takeAll(
      before,
      [wants(member('d', 3, 4)), { kind: 'leave', life: 'b#2' }, wants(member('c', 2, 3))],
      rewrite,
    );
    expect(view.epoch).toBe(before.epoch + 1);
    expect(names(view)).toEqual(['a:0', 'c:2', 'd:3']);
    expect(view.departed).toEqual([{ name: 'b', id: 1, incarnation: 2, how: 'left' }]);
    expect([...granted].sort()).toEqual(['b#2', 'c#3', 'd#4']);
    expect(view.founder).toBe('a#1');
  });

  it('are none where nothing has to change: who was taken in before is granted again', () => {
    const before = group(member('a', 0, 1));
    expect(takeAll(before, [wants(member('a', 0, 1)), { kind: 'leave', life: 'z#9' }], rewrite)).toEqual({
      view: before,
      granted: ['z#9', 'a#1'],
    });
  });

  it('found a group in the name of the first to come', () => {
    const { view } = takeAll(EMPTY_VIEW, [wants(member('b', 1, 8)), wants(member('a', 0, 9))], rewrite);
    expect(view).toMatchObject({ epoch: 1, founder: 'b#8' });
  });

  it('give a name and an id to the first to come, and leave the other one alone', () => {
    const wishes = [wants(member('b', 0, 5)), wants(member('a', 0, 4)), wants(member('a', 1, 6))];
    const { view, granted } = takeAll(EMPTY_VIEW, wishes, rewrite);
    expect(names(view)).toEqual(['a:0']);
    expect(granted).toEqual(['a#4']);
  });

  it('take no life back that was put out, and nobody beyond the size', () => {
    const before = remove(group(member('a', 0, 1), member('b', 1, 2)), 'b', 2, 'dead');
    expect(takeAll(before, [wants(member('b', 1, 2))], rewrite)).toEqual({ view: before, granted: [] });
    const wishes = [1, 2, 3].map((id) => wants(member(`c${id}`, id, id), { size: 2 }));
    expect(names(takeAll(EMPTY_VIEW, wishes, rewrite).view)).toEqual(['c1:1', 'c2:2']);
  });

  it('let a later life of a name in behind the one that leaves', () => {
    const before = group(member('a', 0, 1));
    const { view } = takeAll(before, [wants(member('a', 0, 2)), { kind: 'leave', life: 'a#1' }], rewrite);
    expect(view.members.map(lifeOf)).toEqual(['a#2']);
    expect(view.epoch).toBe(before.epoch + 1);
  });

  it('give each that brought no id the next free one, where that may be written for it', () => {
    const before = group(member('a', 0, 1), member('b', 2, 2));
    const wishes = [3, 4, 5].map((life) => wants(member(`n${life}`, 1, life), { anyId: true }));
    expect(names(takeAll(before, wishes, rewrite).view)).toEqual(['a:0', 'n3:1', 'b:2', 'n4:3', 'n5:4']);
    expect(takeAll(before, wishes, () => undefined).granted).toEqual(['n3#3']);
    const taken = takeAll(before, [wants(member('x', 0, 6))], rewrite);
    expect(taken.granted, 'an id of its own is no other').toEqual([]);
  });
});

describe('a wish', () => {
  it('is read from bytes, and nothing else is', () => {
    const wishes: Wish[] = [wants(member('a', 0, 1), { size: 4, anyId: true }), { kind: 'leave', life: 'a#1' }];
    for (const wish of wishes) expect(decodeWish(encodeWish(wish))).toEqual(wish);
    const bad = ['', 'null', '{}', '{"kind":"leave"}', '{"kind":"join","member":{"name":"a"}}', '[1]', '"x"'];
    for (const text of bad) expect(decodeWish(new TextEncoder().encode(text)), text).toBeUndefined();
    const sized = JSON.stringify({ kind: 'join', member: member('a', 0, 1), size: -1 });
    expect(decodeWish(new TextEncoder().encode(sized))).toBeUndefined();
  });
});
