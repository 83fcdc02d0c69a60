/** @file The call table and the view of a group. */
import { describe, expect, it } from 'vitest';
import { CallTable } from './call-table.ts';
import {
  decodeView,
  EMPTY_VIEW,
  encodeView,
  isRefusal,
  join,
  Membership,
  remove,
  type View,
  type ViewMember,
} from './membership.ts';

describe('the call table', () => {
  it('gives each call to one taker, and never mistakes a late answer', () => {
    const table = new CallTable<string>();
    const first = table.open('first', Infinity);
    expect(table.get(first)).toBe('first');
    expect(table.take(first)).toBe('first');
    expect(table.take(first)).toBeUndefined();
    const second = table.open('second', Infinity);
    expect(second).not.toBe(first);
    expect(table.get(first)).toBeUndefined();
    expect(table.take(first)).toBeUndefined();
    expect(table.get(0)).toBeUndefined();
    expect(table.get(2 ** 52)).toBeUndefined();
    expect(table.size).toBe(1);
  });

  it('sweeps deadlines', () => {
    const table = new CallTable<number>();
    const ids = [50, Infinity, 20, 90].map((deadline, i) => table.open(i, deadline));
    expect(table.nextDeadline()).toBe(20);
    expect(table.expired(19)).toEqual([]);
    const due = table.expired(50);
    expect(due).toEqual([ids[0], ids[2]]);
    for (const id of due) table.take(id);
    expect(table.expired(60)).toEqual([]);
    expect(table.nextDeadline()).toBe(90);
    table.take(ids[3] ?? 0);
    table.take(ids[1] ?? 0);
    expect(table.nextDeadline()).toBe(Infinity);
  });

  it('is full at its capacity, grows before, and picks', () => {
    const table = new CallTable<number>(3_000);
    const ids = Array.from({ length: 3_000 }, (_, i) => table.open(i, Infinity));
    expect(new Set(ids).size).toBe(3_000);
    expect(table.open(-1, Infinity)).toBe(0);
    expect(table.ids((n) => n % 1_000 === 7).map((id) => table.take(id))).toEqual([7, 1_007, 2_007]);
    expect(table.open(8, Infinity)).toBeGreaterThan(0);
  });
});

const member = (name: string, id: number, incarnation = 1): ViewMember => ({
  name,
  id,
  incarnation,
  endpoints: [{ transport: 'tcp', domain: '', address: `tcp://127.0.0.1:${id + 1}` }],
  host: 'h',
  pid: 1,
  extensions: [],
});
function joined(view: View, ...members: ViewMember[]): View {
  return members.reduce((at, next) => {
    const result = join(at, next, 3);
    if (isRefusal(result)) throw new Error(result.kind);
    return result;
  }, view);
}
const refused = (result: View | { kind: string }): string => ('kind' in result ? result.kind : 'not refused');

describe('the view of a group', () => {
  it('takes each name and id once, and the right kind', () => {
    const view = joined(EMPTY_VIEW, member('a', 0), member('b', 1));
    expect(view.epoch).toBe(2);
    expect(refused(join(view, member('a', 2), 3))).toBe('not refused');
    expect(refused(join(view, member('a', 0, 2), 3))).toBe('name-taken');
    expect(refused(join(joined(view, member('c', 2, 5)), member('c', 2, 4), 3))).toBe('superseded');
    expect(refused(join(view, member('z', 1), 3))).toBe('id-taken');
    expect(refused(join(view, member('z', 5), undefined))).toBe('mixed');
    expect(refused(join(joined(view, member('c', 2)), member('d', 3), 3))).toBe('full');
  });

  it('tells each change once, and the dead from those that left', () => {
    const all = joined(EMPTY_VIEW, member('a', 0), member('b', 1), member('c', 2));
    const knows = new Membership({ name: 'a', incarnation: 1 });
    expect(knows.update(all)?.joined.map(({ name }) => name)).toEqual(['b', 'c']);
    expect(knows.update(all)).toBeUndefined();
    const later = remove(remove(all, 'b', 1, 'dead'), 'c', 1, 'left');
    const change = knows.update(later);
    expect([change?.dead.map(({ name }) => name), change?.left.map(({ name }) => name)]).toEqual([['b'], ['c']]);
    expect(knows.update(all)).toBeUndefined();
    expect(remove(later, 'b', 1, 'dead')).toBe(later);
    const reborn = knows.update(joined(later, member('b', 1, 2)));
    expect(reborn?.joined.map(({ incarnation }) => incarnation)).toEqual([2]);
    expect(knows.has('b', 1)).toBe(false);
    expect(knows.fenced).toBe(false);
    knows.update(remove(knows.view, 'a', 1, 'dead'));
    expect(knows.fenced).toBe(true);
  });

  it('takes a replaced life for a dead one', () => {
    const knows = new Membership({ name: 'a', incarnation: 1 });
    const before = joined(EMPTY_VIEW, member('a', 0), member('b', 1));
    knows.update(before);
    const change = knows.update(joined(remove(before, 'b', 1, 'dead'), member('b', 1, 2)));
    expect(change?.dead.map(({ incarnation }) => incarnation)).toEqual([1]);
    expect(change?.joined.map(({ incarnation }) => incarnation)).toEqual([2]);
  });

  it('takes no life back that was put out or left, nor one before it', () => {
    const all = joined(EMPTY_VIEW, member('a', 0), member('b', 1, 5));
    const without = remove(all, 'b', 5, 'dead');
    expect(join(without, member('b', 1, 5), 3)).toEqual({ kind: 'departed', how: 'dead' });
    expect(join(without, member('b', 2, 4), 3)).toEqual({ kind: 'superseded', by: 5 });
    expect(refused(join(without, member('b', 1, 6), 3))).toBe('not refused');
    expect(join(remove(all, 'b', 5, 'left'), member('b', 1, 5), 3)).toEqual({ kind: 'departed', how: 'left' });
    const again = remove(joined(without, member('b', 1, 6)), 'b', 6, 'left');
    expect(join(again, member('b', 1, 5), 3)).toEqual({ kind: 'superseded', by: 6 });
  });

  it('tells who joined and who is gone when ids were given away again', () => {
    const knows = new Membership({ name: 'a', incarnation: 1 });
    const before = joined(EMPTY_VIEW, member('a', 5), member('b', 1), member('c', 3));
    knows.update(before);
    const without = remove(remove(before, 'b', 1, 'left'), 'c', 1, 'dead');
    const change = knows.update(joined(without, member('d', 0), member('c', 9, 2)));
    const names = (members: readonly ViewMember[] | undefined): string[] | undefined =>
      members?.map(({ name, incarnation }) => `${name}#${incarnation}`);
    expect([names(change?.joined), names(change?.left), names(change?.dead)]).toEqual([
      ['d#1', 'c#2'],
      ['b#1'],
      ['c#1'],
    ]);
    // Also when the members of a view are in no order.
    const mixed = { ...knows.view, epoch: knows.view.epoch + 1, members: [...knows.view.members].reverse() };
    expect(knows.update(mixed)).toEqual({ joined: [], left: [], dead: [] });
  });

  it('is read from bytes, and nothing else is', () => {
    const view = remove(joined(EMPTY_VIEW, member('a', 0), member('b', 1)), 'b', 1, 'left');
    expect(decodeView(encodeView(view))).toEqual(view);
    for (const text of [
      '',
      '{}',
      '[]',
      'null',
      '{"epoch":-1,"members":[],"departed":[]}',
      '{"epoch":1,"members":[{}],"departed":[]}',
    ]) {
      expect(decodeView(new TextEncoder().encode(text))).toBeUndefined();
    }
    expect(decodeView(Uint8Array.of(0xff, 0xfe))).toBeUndefined();
    // No peer could be told of more.
    const most = 0xffff_ffff;
    expect(decodeView(encodeView(joined(EMPTY_VIEW, member('a', 0, most))))).toBeDefined();
    expect(decodeView(encodeView(joined(EMPTY_VIEW, member('a', 0, most + 1))))).toBeUndefined();
  });
});
