/** @file The protocol of one worker against what others may say: ids that are not theirs, views that are no news, owners that there never were. */
import { kept } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { memberKey, workerOf, type GlobalId, type MemberKey } from './ids.ts';
import { ProtocolWorker } from './worker.ts';

const [SELF, A, B] = [0, 1, 2].map((worker) => memberKey(worker, 1)) as [MemberKey, MemberKey, MemberKey];
const NOBODY = memberKey(9_999, 7);
const id = (member: MemberKey, local: number): GlobalId => ({ member, local });

function setup(): { worker: ProtocolWorker<string>; events: string[] } {
  const events: string[] = [];
  const worker = new ProtocolWorker<string>(SELF, {
    send: (to, { kind }) => void events.push(`${kind} to ${workerOf(to)}`),
    settled: (fork) => void events.push(`settled: ${fork.failure?.code ?? 'well'}`),
    dropped: () => void events.push('dropped'),
    freed: ({ local }) => void events.push(`freed ${local}`),
    failed: ({ local }, { code }) => void events.push(`failed ${local}: ${code}`),
  });
  worker.viewChanged(1, [SELF, A, B], []);
  return { worker, events };
}

describe('ids that their sender did not draw', () => {
  it.each([
    ['of the RRef', id(B, 0), id(A, 1)],
    ['of the fork', id(A, 0), id(B, 1)],
    ['of both', id(B, 0), id(B, 1)],
  ])('create nothing: %s', (_which, rref, fork) => {
    const { worker, events } = setup();
    expect(worker.createArrived(A, { kind: 'create', rref, fork })?.code).toBe('protocol-error');
    const failure = { code: 'cancelled', text: 'given up' } as const;
    worker.control(A, { kind: 'create-failed', rref, fork, failure });
    expect([worker.owners.size, events]).toEqual([0, []]);
  });

  it('are no handle that arrives, of a value here or elsewhere', () => {
    const { worker, events } = setup();
    for (const owner of [SELF, B]) {
      const arrival = worker.forkArrived(A, { kind: 'fork', rref: id(owner, 0), owner, fork: id(B, 1) });
      expect(arrival).toEqual({ kind: 'ignored' });
    }
    expect([worker.owners.size, worker.users.size, events]).toEqual([0, 0, []]);
  });

  it('are not those of this worker: a creation that comes from itself is none', () => {
    const { worker } = setup();
    const own = worker.createArrived(SELF, { kind: 'create', rref: id(SELF, 0), fork: id(SELF, 1) });
    expect(own?.code).toBe('protocol-error');
  });
});

describe('a creation on this worker itself', () => {
  it('is there until it is over, and its failure is told to whoever waits', () => {
    const { worker, events } = setup();
    const done = worker.createOwn('first');
    expect(worker.owners.start(done)).toBe(done);
    worker.owners.settle(done);
    expect(events).toEqual([]);
    worker.createOwnDone(done);
    expect([events, worker.owners.size]).toEqual([['freed 0'], 0]);
    const never = worker.createOwn('second');
    worker.createOwnDone(never, { code: 'cancelled', text: 'never sent' });
    expect(events).toEqual(['freed 0', 'failed 1: cancelled', 'freed 1']);
    expect(worker.owners.size).toBe(0);
  });
});

describe('a view', () => {
  it('that is no news buries nobody', () => {
    const { worker, events } = setup();
    worker.viewChanged(1, [SELF, A], [B]);
    expect([worker.isDead(B), events]).toEqual([false, []]);
    worker.viewChanged(2, [SELF, A], [B]);
    expect([worker.isDead(B), events]).toEqual([true, ['fence to 1']]);
    expect(worker.quiet).toBe(false);
    worker.control(A, { kind: 'fence-ack', epoch: 2 });
    expect([worker.quiet, events.at(-1)]).toEqual([true, 'fence-done to 1']);
  });

  it('ends the handles that one of the dead gave of an owner that is not there', () => {
    const { worker, events } = setup();
    worker.forkArrived(A, { kind: 'fork', rref: id(NOBODY, 0), owner: NOBODY, fork: id(A, 1) });
    expect([worker.users.pendingUsers, worker.quiet, events]).toEqual([1, false, ['fork-request to 9999']]);
    worker.viewChanged(2, [SELF, B], [A]);
    expect([worker.users.pendingUsers, events.slice(1, 3)]).toEqual([0, ['dropped', 'settled: owner-died']]);
  });

  it('that lost the holder of a child of ours frees the parent once its fence is through', () => {
    const { worker, events } = setup();
    const arrival = worker.forkArrived(B, { kind: 'fork', rref: id(B, 0), owner: B, fork: id(B, 1) });
    if (arrival.kind !== 'held') throw new Error(arrival.kind);
    worker.shareHeld(arrival.fork, A);
    worker.users.release(arrival.fork);
    expect([worker.users.pendingChildren, worker.quiet]).toEqual([1, false]);
    worker.viewChanged(2, [SELF, B], [A]);
    worker.control(B, { kind: 'fence-ack', epoch: 2 });
    expect(worker.users.pendingChildren).toBe(1);
    worker.control(B, { kind: 'fence-done', dead: [A] });
    expect([worker.users.pendingChildren, worker.quiet, events.at(-1)]).toEqual([0, true, 'user-delete to 2']);
  });
});

it('forgets everything at the end, and tells whoever waits', () => {
  const { worker, events } = setup();
  const rref = worker.drawId();
  worker.shareOwned(rref, 'value', A);
  worker.create(A);
  worker.forkArrived(A, { kind: 'fork', rref: id(B, 0), owner: B, fork: id(A, 1) });
  worker.owners.mention(id(A, 4), B);
  events.length = 0;
  worker.owners.clear();
  worker.users.clear();
  expect(events.sort()).toEqual(['freed 0', 'freed 4', 'settled: well', 'settled: well']);
  expect([...kept(worker.owners, ['tombstones']), ...kept(worker.users)]).toEqual([]);
  expect([worker.owners.forkCount, worker.users.pendingUsers, worker.quiet]).toEqual([0, 0, true]);
});
