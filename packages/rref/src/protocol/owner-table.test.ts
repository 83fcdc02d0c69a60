import { describe, expect, it } from 'vitest';
import { DeadMembers, memberKey, type GlobalId, type MemberKey } from './ids.ts';
import type { Failure } from './messages.ts';
import { OwnerTable } from './owner-table.ts';

const OWNER = memberKey(0, 1);
const A = memberKey(1, 1);
const B = memberKey(2, 1);
const C = memberKey(3, 1);
const id = (member: MemberKey, local: number): GlobalId => ({ member, local });
const FAILED: Failure = { code: 'deadline-exceeded', text: 'timed out' };

function setup(
  maxForks?: number,
  maxAwaited?: number,
): { table: OwnerTable<string>; dead: DeadMembers; freed: number[]; failed: string[]; texts: string[] } {
  const dead = new DeadMembers();
  const freed: number[] = [];
  const failed: string[] = [];
  const texts: string[] = [];
  const port = {
    freed: ({ local }: GlobalId) => void freed.push(local),
    failed: ({ local }: GlobalId, { code, text }: Failure) => {
      failed.push(`${local} ${code}`);
      texts.push(text);
    },
  };
  return {
    table: new OwnerTable<string>(OWNER, dead, port, undefined, { maxForksPerHolder: maxForks, maxAwaited }),
    dead,
    freed,
    failed,
    texts,
  };
}

describe('a value that the owner shares', () => {
  it('is held until the last fork is deleted by its holder', () => {
    const { table, freed } = setup();
    table.share(id(OWNER, 0), 'value', id(OWNER, 1), A);
    table.share(id(OWNER, 0), 'value', id(OWNER, 2), B);
    expect([table.size, table.forkCount]).toEqual([1, 2]);
    table.delete(id(OWNER, 1), B);
    expect(table.forkCount).toBe(2);
    table.delete(id(OWNER, 1), A);
    table.delete(id(OWNER, 1), A);
    expect(freed).toEqual([]);
    table.delete(id(OWNER, 2), B);
    expect(freed).toEqual([0]);
    expect(table.size).toBe(0);
  });

  it('lives on when a fork never got there', () => {
    const { table, freed } = setup();
    table.share(id(OWNER, 0), 'value', id(OWNER, 1), A);
    table.share(id(OWNER, 0), 'value', id(OWNER, 2), B);
    table.unshare(id(OWNER, 2));
    table.unshare(id(OWNER, 2));
    expect([table.forkCount, freed]).toEqual([1, []]);
  });

  it('may be shared again after it was let go', () => {
    const { table, freed } = setup();
    table.share(id(OWNER, 0), 'value', id(OWNER, 1), A);
    table.delete(id(OWNER, 1), A);
    expect(table.share(id(OWNER, 0), 'value', id(OWNER, 2), A).payload).toBe('value');
    expect([table.size, freed]).toEqual([1, [0]]);
  });
});

describe('a creation', () => {
  it('exists from its delivery on, before it runs', () => {
    const { table, freed } = setup();
    expect(table.create(id(A, 0), id(A, 1), A)).toBeUndefined();
    expect(table.get(id(A, 0))?.phase).toBe('created');
    const entry = table.start(id(A, 0));
    expect(entry?.phase).toBe('running');
    expect(table.start(id(A, 0))).toBeUndefined();
    if (entry !== undefined) table.settle(entry);
    expect(freed).toEqual([]);
    table.delete(id(A, 1), A);
    expect(freed).toEqual([0]);
  });

  it('may be mentioned before it arrives, and is not forgotten meanwhile', () => {
    const { table, freed } = setup();
    const mentioned = table.mention(id(A, 0), B);
    expect(table.request(id(A, 0), id(A, 7), B)).toBeUndefined();
    table.delete(id(A, 7), B);
    expect([table.size, freed]).toEqual([1, []]);
    table.create(id(A, 0), id(A, 1), A);
    expect(table.get(id(A, 0))).toBe(mentioned);
  });

  it('that its creator gave up does not run, unless it runs already', () => {
    const { table, failed } = setup();
    table.create(id(A, 0), id(A, 1), A);
    table.createFailed(id(A, 0), id(A, 1), A, FAILED);
    expect(table.start(id(A, 0))).toBeUndefined();
    table.create(id(A, 2), id(A, 3), A);
    table.start(id(A, 2));
    table.createFailed(id(A, 2), id(A, 3), A, FAILED);
    expect(table.get(id(A, 2))?.phase).toBe('running');
    expect(failed).toEqual(['0 deadline-exceeded']);
  });

  it('that never arrived is registered by its failure, so that the delete finds it', () => {
    const { table, freed, failed } = setup();
    table.createFailed(id(A, 0), id(A, 1), A, FAILED);
    expect([table.size, failed]).toEqual([1, ['0 deadline-exceeded']]);
    table.delete(id(A, 1), A);
    expect([table.size, freed]).toEqual([0, [0]]);
  });

  it('of a worker that died fails, before and after somebody mentions it', () => {
    const { table, dead, failed } = setup();
    table.request(id(A, 0), id(A, 9), B);
    dead.add(A);
    table.creatorDied(A);
    table.request(id(A, 2), id(A, 10), B);
    expect(failed).toEqual(['0 peer-died', '2 peer-died']);
    expect(table.size).toBe(2);
    table.mention(id(A, 4), B);
    expect(table.size).toBe(2);
  });
});

describe('what is refused', () => {
  it('a fork that was deleted before it came', () => {
    const { table } = setup();
    table.delete(id(A, 1), A);
    expect(table.request(id(A, 0), id(A, 1), A)?.code).toBe('rref-released');
    expect(table.create(id(A, 0), id(A, 1), A)?.code).toBe('rref-released');
    expect(table.size).toBe(0);
  });

  it('a fork of somebody dead, and more forks than one may hold', () => {
    const { table, dead } = setup(2);
    dead.add(B);
    expect(table.request(id(B, 0), id(A, 1), B)?.code).toBe('fenced');
    expect(table.request(id(B, 0), id(A, 2), A)).toBeUndefined();
    expect(table.request(id(B, 0), id(A, 3), A)).toBeUndefined();
    expect(table.request(id(B, 0), id(A, 4), A)?.code).toBe('resource-exhausted');
    table.delete(id(A, 2), A);
    expect(table.request(id(B, 0), id(A, 5), A)).toBeUndefined();
  });

  it('a creation over the limit fails those who wait for it', () => {
    const { table, failed } = setup(1);
    table.create(id(A, 0), id(A, 1), A);
    table.request(id(A, 2), id(A, 9), B);
    expect(table.create(id(A, 2), id(A, 3), A)?.code).toBe('resource-exhausted');
    expect(failed).toEqual(['2 resource-exhausted']);
  });
});

it('fails what it made itself and has let go of, and what too many mention before it is made', () => {
  const { table, failed, texts } = setup(undefined, 2);
  table.mention(id(OWNER, 5), B);
  expect(failed).toEqual(['5 rref-released']);
  table.mention(id(A, 0), B);
  table.mention(id(A, 2), B);
  table.mention(id(A, 4), B);
  expect(failed).toEqual(['5 rref-released', '4 resource-exhausted']);
  expect(texts[1]).toBe(
    'more than 2 RRefs are mentioned whose creation has not arrived: await confirmed() of some before more are handed on',
  );
  table.create(id(A, 0), id(A, 1), A);
  table.mention(id(A, 6), B);
  expect([failed.length, table.size]).toEqual([2, 3]);
});

it('forgets tombstones only after a whole generation of newer ones', () => {
  const { table } = setup();
  for (let i = 0; i < 20_000; i++) table.delete(id(A, i), A);
  expect(table.request(id(A, 0), id(A, 19_999), A)?.code).toBe('rref-released');
  expect(table.request(id(A, 0), id(A, 12_000), A)?.code).toBe('rref-released');
  expect(table.request(id(A, 0), id(A, 0), A)).toBeUndefined();
});

it('comes back from a snapshot as it was', () => {
  const { table } = setup();
  table.share(id(OWNER, 0), 'value', id(OWNER, 1), A);
  table.create(id(B, 0), id(B, 1), B);
  table.delete(id(B, 9), B);
  const copy = setup().table;
  copy.restore(table.snapshot());
  expect(copy.snapshot()).toEqual(table.snapshot());
  copy.delete(id(OWNER, 1), A);
  expect([copy.size, table.size]).toEqual([1, 2]);
});

describe('ids that another member says', () => {
  it('delete nothing that a third one is to register, before or after', () => {
    const { table, freed } = setup();
    table.share(id(OWNER, 0), 'value', id(OWNER, 1), A);
    table.delete(id(A, 7), C);
    expect(table.request(id(OWNER, 0), id(A, 7), B)).toBeUndefined();
    table.delete(id(A, 7), C);
    table.delete(id(OWNER, 1), A);
    expect(freed).toEqual([]);
    table.delete(id(A, 7), B);
    expect(freed).toEqual([0]);
    // What its holder has deleted stays so, whoever speaks of it.
    table.delete(id(A, 7), C);
    expect(table.request(id(OWNER, 0), id(A, 7), B)?.code).toBe('rref-released');
  });

  it('do not stand for the forks of others: whoever claims one first and lets go of it frees nothing', () => {
    const { table, freed } = setup();
    table.share(id(OWNER, 0), 'value', id(OWNER, 1), A);
    expect(table.request(id(OWNER, 0), id(A, 7), C)).toBeUndefined();
    expect(table.request(id(OWNER, 0), id(A, 7), B)).toBeUndefined();
    expect([table.forkCount, [...table.allForks()].length]).toEqual([3, 3]);
    table.delete(id(A, 7), C);
    table.delete(id(OWNER, 1), A);
    expect([table.forkCount, freed]).toEqual([1, []]);
    table.delete(id(A, 7), B);
    expect([table.forkCount, freed]).toEqual([0, [0]]);
  });

  it('are not those that the owner draws for what it shares itself', () => {
    const { table, freed } = setup();
    table.share(id(OWNER, 0), 'value', id(OWNER, 1), A);
    expect(table.request(id(OWNER, 0), id(OWNER, 2), C)?.code).toBe('protocol-error');
    table.share(id(OWNER, 0), 'value', id(OWNER, 2), B);
    table.unshare(id(OWNER, 2));
    table.delete(id(OWNER, 1), A);
    expect(freed).toEqual([0]);
  });

  it('of RRefs that never come leave room for those that others mention', () => {
    const { table, failed } = setup(undefined, 2);
    for (let i = 0; i < 5; i++) table.request(id(A, 100 + i), id(C, i), C);
    expect(failed).toEqual(['102 resource-exhausted', '103 resource-exhausted', '104 resource-exhausted']);
    table.request(id(A, 0), id(A, 8), B);
    expect(failed).toHaveLength(3);
    table.create(id(A, 0), id(A, 1), A);
    expect(table.get(id(A, 0))?.phase).toBe('created');
  });
});
