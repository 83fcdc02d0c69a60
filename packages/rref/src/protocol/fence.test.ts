import { describe, expect, it } from 'vitest';
import { Fence } from './fence.ts';
import { DeadMembers, IdMap, incarnationOf, memberKey, workerOf, type MemberKey } from './ids.ts';
import type { Control } from './messages.ts';

const [O, A, B, C] = [0, 1, 2, 3].map((worker) => memberKey(worker, 1)) as [MemberKey, MemberKey, MemberKey, MemberKey];

function setup(self: MemberKey): { fence: Fence; sent: string[]; complete: MemberKey[][] } {
  const sent: string[] = [];
  const complete: MemberKey[][] = [];
  const send = (to: MemberKey, message: Control): void => {
    sent.push(`${message.kind}${'epoch' in message ? ` ${message.epoch}` : ''} to ${workerOf(to)}`);
  };
  const fence = new Fence(self, { send, complete: (dead) => void complete.push([...dead]) });
  fence.viewChanged(1, [O, A, B, C], []);
  return { fence, sent, complete };
}

describe('an owner', () => {
  it('releases after every remaining member has acknowledged', () => {
    const { fence, sent, complete } = setup(O);
    fence.viewChanged(2, [O, A, B], [C]);
    expect(sent).toEqual(['fence 2 to 1', 'fence 2 to 2']);
    fence.acknowledged(A, 2);
    fence.acknowledged(A, 2);
    expect(complete).toEqual([]);
    fence.acknowledged(B, 2);
    expect(complete).toEqual([[C]]);
    expect(sent.slice(2)).toEqual(['fence-done to 1', 'fence-done to 2']);
    expect(fence.open).toBe(false);
    // Whoever says it again afterwards has nothing told to everybody.
    fence.acknowledged(B, 2);
    expect([complete.length, sent.length]).toEqual([1, 4]);
  });

  it('starts over for all of them when another dies meanwhile', () => {
    const { fence, sent, complete } = setup(O);
    fence.viewChanged(2, [O, A, B], [C]);
    fence.acknowledged(A, 2);
    fence.viewChanged(3, [O, A], [B]);
    expect(complete).toEqual([]);
    fence.acknowledged(A, 2);
    expect(complete).toEqual([]);
    fence.acknowledged(A, 3);
    expect(complete).toEqual([[C, B]]);
    expect(sent.at(-1)).toBe('fence-done to 1');
  });

  it('that is alone waits for nobody, and a join changes nothing', () => {
    const { fence, complete } = setup(O);
    fence.viewChanged(2, [O], [A, B, C]);
    expect(complete).toEqual([[A, B, C]]);
    const other = setup(O);
    other.fence.viewChanged(2, [O, A, B], [C]);
    other.fence.viewChanged(3, [O, A, B, memberKey(4, 1)], []);
    other.fence.acknowledged(A, 2);
    other.fence.acknowledged(B, 2);
    expect(other.complete).toEqual([[C]]);
  });
});

describe('a member', () => {
  it('acknowledges what it has seen, and what it has not once it has', () => {
    const { fence, sent } = setup(A);
    fence.request(O, 2, [C]);
    expect(sent).toEqual([]);
    fence.viewChanged(2, [O, A, B], [C]);
    expect(sent).toContain('fence-ack 2 to 0');
    fence.request(B, 2, [C]);
    expect(sent.at(-1)).toBe('fence-ack 2 to 2');
  });

  it('does not acknowledge while one of the dead is a member here, whatever the epoch says', () => {
    const { fence, sent } = setup(A);
    // Decided without the store: this member saw a later view, and does not know of the death.
    fence.viewChanged(5, [O, A, B, C], []);
    fence.request(O, 2, [C]);
    fence.viewChanged(6, [O, A, C], [B]);
    expect(sent.filter((text) => text.startsWith('fence-ack'))).toEqual([]);
    fence.viewChanged(7, [O, A], [C]);
    expect(sent.filter((text) => text.startsWith('fence-ack'))).toEqual(['fence-ack 2 to 0']);
  });

  it('answers a question once, whatever views come after', () => {
    const { fence, sent } = setup(A);
    fence.request(O, 2, [C]);
    for (let epoch = 2; epoch < 6; epoch++) fence.viewChanged(epoch, [O, A, B], epoch === 2 ? [C] : []);
    expect(sent.filter((text) => text.startsWith('fence-ack'))).toEqual(['fence-ack 2 to 0']);
  });

  it('forgets the question of an owner that dies', () => {
    const { fence, sent } = setup(A);
    fence.request(O, 3, [C]);
    fence.viewChanged(2, [A, B, C], [O]);
    fence.viewChanged(3, [A, B], [C]);
    expect(sent.filter((text) => text.startsWith('fence-ack'))).toEqual([]);
  });

  it('does not hear an old view again', () => {
    const { fence, sent } = setup(A);
    fence.viewChanged(2, [O, A, B], [C]);
    const before = sent.length;
    fence.viewChanged(2, [O, A, B], [C]);
    expect(sent).toHaveLength(before);
  });
});

it('comes back from a snapshot as it was', () => {
  const { fence } = setup(O);
  fence.viewChanged(2, [O, A, B], [C]);
  fence.request(A, 9, [C]);
  fence.acknowledged(A, 2);
  const copy = setup(O);
  copy.fence.restore(fence.snapshot());
  expect(copy.fence.snapshot()).toEqual(fence.snapshot());
  copy.fence.acknowledged(B, 2);
  expect(copy.complete).toEqual([[C]]);
});

describe('members and ids', () => {
  it('tell the lives of a worker apart', () => {
    const member = memberKey(65_535, 0xffff_ffff);
    expect([workerOf(member), incarnationOf(member)]).toEqual([65_535, 0xffff_ffff]);
    expect(Number.isSafeInteger(member)).toBe(true);
    const dead = new DeadMembers();
    expect([dead.add(memberKey(1, 5)), dead.add(memberKey(1, 4))]).toEqual([true, false]);
    expect([
      dead.has(memberKey(1, 5)),
      dead.has(memberKey(1, 3)),
      dead.has(memberKey(1, 6)),
      dead.has(memberKey(2, 5)),
    ]).toEqual([true, true, false, false]);
    expect(() => memberKey(65_536, 0)).toThrow(RangeError);
    expect(() => memberKey(0, 2 ** 32)).toThrow(RangeError);
  });

  it('are found in a map that forgets what is deleted', () => {
    const map = new IdMap<string>();
    map.set({ member: A, local: 1 }, 'a1');
    map.set({ member: A, local: 1 }, 'again');
    map.set({ member: B, local: 1 }, 'b1');
    expect([map.size, map.get({ member: A, local: 1 }), [...map.valuesOf(B)]]).toEqual([2, 'again', ['b1']]);
    expect([map.delete({ member: A, local: 1 }), map.delete({ member: A, local: 1 }), map.size]).toEqual([
      true,
      false,
      1,
    ]);
    expect([...map.values()]).toEqual(['b1']);
  });
});
