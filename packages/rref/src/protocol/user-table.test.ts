import { describe, expect, it } from 'vitest';
import { DeadMembers, memberKey, type GlobalId, type MemberKey } from './ids.ts';
import type { Control } from './messages.ts';
import { UserTable, type UserFork } from './user-table.ts';

const OWNER = memberKey(0, 1);
const SELF = memberKey(1, 1);
const OTHER = memberKey(2, 1);
const RREF = { member: OWNER, local: 0 };
const id = (member: MemberKey, local: number): GlobalId => ({ member, local });

function setup(): { table: UserTable; dead: DeadMembers; sent: string[]; settled: UserFork[] } {
  const dead = new DeadMembers();
  const sent: string[] = [];
  const settled: UserFork[] = [];
  const port = {
    send: (to: MemberKey, message: Control) =>
      void sent.push(`${message.kind} to ${to === OWNER ? 'owner' : to === OTHER ? 'other' : 'self'}`),
    settled: (fork: UserFork) => void settled.push(fork),
    dropped: () => undefined,
  };
  return { table: new UserTable(SELF, dead, port), dead, sent, settled };
}

/** Hands over a fork that `parent` sent. */
function arrive(table: UserTable, local: number, parent: MemberKey): UserFork {
  const fork = table.arrive(id(parent, local), RREF, OWNER, parent);
  if (fork === undefined) throw new Error('not new');
  return fork;
}

describe('a handle', () => {
  it('from the owner is confirmed at once', () => {
    const { table, sent } = setup();
    const fork = arrive(table, 1, OWNER);
    expect([fork.confirmed, sent]).toEqual([true, []]);
    table.release(fork);
    expect(sent).toEqual(['user-delete to owner']);
    expect(table.size).toBe(0);
  });

  it('from another user is confirmed by the owner, and only then accepted and deletable', () => {
    const { table, sent, settled } = setup();
    const fork = arrive(table, 1, OTHER);
    expect([fork.confirmed, table.pendingUsers, sent]).toEqual([false, 1, ['fork-request to owner']]);
    table.release(fork);
    expect(sent).toHaveLength(1);
    table.acknowledged(fork, undefined, OTHER);
    expect(settled).toEqual([]);
    table.acknowledged(fork, undefined, OWNER);
    table.acknowledged(fork, undefined, OWNER);
    expect(sent).toEqual(['fork-request to owner', 'child-accept to other', 'user-delete to owner']);
    expect([settled, table.pendingUsers]).toEqual([[fork], 0]);
  });

  it('that is here already is not taken twice', () => {
    const { table } = setup();
    arrive(table, 1, OTHER);
    expect(table.arrive(id(OTHER, 1), RREF, OWNER, OTHER)).toBeUndefined();
  });

  it('with children stays registered until all are accepted by where they went', () => {
    const { table, sent } = setup();
    const fork = arrive(table, 1, OWNER);
    table.share(fork, id(SELF, 1), OTHER);
    table.share(fork, id(SELF, 2), OWNER);
    table.release(fork);
    table.childDone(id(SELF, 1), OWNER);
    expect(table.pendingChildren).toBe(2);
    table.childDone(id(SELF, 1), OTHER);
    table.childDone(id(SELF, 1), OTHER);
    expect(sent).toEqual([]);
    table.childDone(id(SELF, 2));
    expect(sent).toEqual(['user-delete to owner']);
  });

  it('that the owner refuses fails, and its parent is told after its children are through', () => {
    const { table, sent, settled } = setup();
    const fork = arrive(table, 1, OTHER);
    table.share(fork, id(SELF, 1), OTHER);
    table.acknowledged(fork, { code: 'resource-exhausted', text: 'full' }, OWNER);
    expect([fork.confirmed, fork.failure?.code, settled.length]).toEqual([false, 'resource-exhausted', 1]);
    expect(sent).toEqual(['fork-request to owner']);
    table.childDone(id(SELF, 1), OTHER);
    expect(sent).toEqual(['fork-request to owner', 'child-accept to other']);
    expect(table.size).toBe(0);
  });
});

describe('a creation', () => {
  it('is deleted after it was answered', () => {
    const { table, sent } = setup();
    const fork = table.create(id(SELF, 1), id(SELF, 0), OWNER);
    table.release(fork);
    expect(sent).toEqual([]);
    table.created(fork);
    expect(sent).toEqual(['user-delete to owner']);
  });

  it('that failed is told to the owner, before the delete', () => {
    const { table, sent } = setup();
    const fork = table.create(id(SELF, 1), id(SELF, 0), OWNER);
    table.createFailed(fork, { code: 'deadline-exceeded', text: 'late' });
    table.created(fork);
    expect(fork.confirmed).toBe(false);
    table.release(fork);
    expect(sent).toEqual(['create-failed to owner', 'user-delete to owner']);
  });
});

describe('a death', () => {
  it('of the owner ends every handle, now and later, and tells nobody', () => {
    const { table, dead, sent, settled } = setup();
    const pending = arrive(table, 1, OTHER);
    const parent = arrive(table, 2, OWNER);
    table.share(parent, id(SELF, 1), OTHER);
    dead.add(OWNER);
    table.died(OWNER);
    const late = arrive(table, 3, OTHER);
    for (const fork of [pending, parent, late]) {
      expect([fork.phase, fork.failure?.code, fork.confirmed]).toEqual(['gone', 'owner-died', false]);
      table.release(fork);
    }
    expect([table.size, table.pendingChildren, table.pendingUsers]).toEqual([0, 0, 0]);
    expect(settled).toEqual([pending]);
    expect(sent).toEqual(['fork-request to owner']);
  });

  it("of a child's holder keeps the parent until the owner's fence is complete", () => {
    const { table, dead, sent } = setup();
    const fork = arrive(table, 1, OWNER);
    table.share(fork, id(SELF, 1), OTHER);
    table.release(fork);
    dead.add(OTHER);
    table.died(OTHER);
    expect(sent).toEqual([]);
    table.fenced(memberKey(7, 1), new Set([OTHER]));
    expect(sent).toEqual([]);
    table.fenced(OWNER, new Set([OTHER]));
    expect(sent).toEqual(['user-delete to owner']);
  });

  it('of a parent needs no acceptance', () => {
    const { table, dead, sent } = setup();
    const fork = arrive(table, 1, OTHER);
    dead.add(OTHER);
    table.died(OTHER);
    table.acknowledged(fork, undefined, OWNER);
    expect(fork.confirmed).toBe(true);
    expect(sent).toEqual(['fork-request to owner']);
  });
});

it('comes back from a snapshot as it was', () => {
  const { table } = setup();
  const fork = arrive(table, 1, OWNER);
  arrive(table, 2, OTHER);
  table.share(fork, id(SELF, 1), OTHER);
  table.release(fork);
  const copy = setup();
  copy.table.restore(table.snapshot());
  expect(copy.table.snapshot()).toEqual(table.snapshot());
  copy.table.childDone(id(SELF, 1), OTHER);
  expect(copy.sent).toEqual(['user-delete to owner']);
});

describe('handles of an owner that there never was', () => {
  const NOBODY = memberKey(60_000, 7);
  const [first, second, third] = [id(OTHER, 1), id(OTHER, 2), id(OTHER, 3)];

  it('take no more than so much of what one member may hand on', () => {
    const dead = new DeadMembers();
    const sent: string[] = [];
    const port = {
      send: (_: MemberKey, { kind }: Control) => void sent.push(kind),
      settled: () => undefined,
      dropped: () => undefined,
    };
    const table = new UserTable(SELF, dead, port, undefined, 2);
    for (const fork of [first, second]) table.arrive(fork, RREF, NOBODY, OTHER);
    const over = table.arrive(third, RREF, NOBODY, OTHER);
    expect([over?.phase, over?.failure?.code, table.size]).toEqual(['gone', 'resource-exhausted', 2]);
    expect(sent).toEqual(['fork-request', 'fork-request', 'child-accept']);
    // What others hand on is not theirs.
    const THIRD = memberKey(3, 1);
    expect(table.arrive(id(THIRD, 1), RREF, OWNER, THIRD)?.phase).toBe('pending');
    table.acknowledged(first, undefined, NOBODY);
    expect(table.arrive(third, RREF, NOBODY, OTHER)?.phase).toBe('pending');
  });

  it('go when who handed them on does', () => {
    const { table, dead, settled } = setup();
    const fork = table.arrive(first, RREF, NOBODY, OTHER);
    const real = table.arrive(second, RREF, OWNER, OTHER);
    table.orphaned([memberKey(3, 1)], [SELF, OWNER, OTHER]);
    expect(table.size).toBe(2);
    dead.add(OTHER);
    table.died(OTHER);
    table.orphaned([OTHER], [SELF, OWNER]);
    expect([fork?.phase, fork?.failure?.code, real?.phase]).toEqual(['gone', 'owner-died', 'pending']);
    expect([table.size, table.pendingUsers, settled]).toEqual([1, 1, [fork]]);
  });
});
