/** @file The rule for members in doubt, seen from one of them. */
import { describe, expect, it, vi } from 'vitest';
import { Agreement, type AgreementEffect } from './agreement.ts';
import type { View } from './membership.ts';
import type { Report } from './opinions.ts';

const TIMES = { leaseMs: 10_000, deadMs: 15_000, busyDeadMs: 60_000, settleMs: 4_000, askMs: 2_000 };

function viewOf(size: number, old: readonly number[] = []): View {
  const members = Array.from({ length: size }, (_, id) => ({
    ...{ name: `w${id}`, id, incarnation: id, host: 'h', pid: 1, extensions: [], reports: !old.includes(id) },
    endpoints: [{ transport: 'tcp', domain: '', address: `tcp://${id}` }],
  }));
  return { epoch: 1, founder: 'w0#0', size: undefined, members, departed: [] };
}

const life = (id: number): string => `w${id}#${id}`;

/** The agreement of w0, which hears everybody. */
function setup(size: number, old: readonly number[] = []): Agreement {
  const agreement = new Agreement(life(0), TIMES);
  agreement.view(viewOf(size, old), [], 0);
  for (let id = 1; id < size; id++) agreement.opinion(life(id), 'heard', 0);
  agreement.settle(0);
  return agreement;
}

function says(change: Partial<Report>): Report {
  const nothing = { doubts: [], proved: [], gone: [], decided: [], confirmed: [] };
  return { epoch: 1, store: false, hears: [], ...nothing, asks: false, ...change };
}

function types(effects: readonly AgreementEffect[]): string[] {
  return [...new Set(effects.map(({ type }) => type))];
}

describe('without the store', () => {
  it('a worker that hears all others goes on, however long it takes', () => {
    const agreement = setup(3);
    agreement.storeIs('silent', 0);
    expect(types(agreement.settle(3_600_000))).toEqual([]);
    expect(agreement.over).toBe(false);
  });

  it('a worker that hears nobody stops when its lease must be over', () => {
    const agreement = setup(3);
    agreement.storeIs('silent', 0);
    for (const id of [1, 2]) agreement.opinion(life(id), 'doubted', 1_000);
    expect(types(agreement.settle(9_000))).not.toContain('stop');
    expect(types(agreement.settle(10_001))).toContain('stop');
  });

  it('one death is decided by a majority that counts it, and written when the store is back', () => {
    const agreement = setup(4);
    agreement.storeIs('silent', 0);
    agreement.opinion(life(3), 'gone', 1_000);
    expect(types(agreement.settle(1_000))).not.toContain('decided');
    const said = { hears: [life(0), life(1), life(2)], proved: [life(3)], gone: [life(3)] };
    agreement.report(life(1), says(said), 1_100);
    agreement.settle(1_100);
    agreement.report(life(2), says(said), 1_200);
    expect(agreement.settle(1_200)).toContainEqual({ type: 'decided', lives: [life(3)] });
    agreement.storeIs('up', 5_000);
    expect(agreement.settle(5_000)).toContainEqual({ type: 'evict', lives: [life(3)], certain: true });
  });

  it('one that stands still is not gone before its time is up, counted from when it was heard last', () => {
    const agreement = setup(3);
    agreement.storeIs('silent', 99_000);
    agreement.opinion(life(1), 'unsure', 100_000);
    agreement.opinion(life(1), 'stuck', 109_000);
    expect(agreement.isTroubled(159_000)).toBe(false);
    expect(agreement.isTroubled(160_001)).toBe(true);
  });
});

it('who is lost is looked for once over a large group, however many of it are neither heard nor doubted', () => {
  const looks = (size: number): number => {
    const agreement = new Agreement(life(0), TIMES);
    agreement.view(viewOf(size), [], 0);
    agreement.opinion(life(size - 1), 'gone', 0);
    const get = vi.spyOn(Map.prototype, 'get');
    try {
      expect(agreement.settle(0)).toContainEqual({ type: 'evict', lives: [life(size - 1)], certain: true });
      return get.mock.calls.length;
    } finally {
      get.mockRestore();
    }
  };
  expect(looks(1_000) / looks(100)).toBeLessThan(12);
});

describe('two members in doubt of a third', () => {
  it.each(['up', 'silent'] as const)(
    'ask each other once in a while, and say no more than has changed: store %s',
    (store) => {
      const view = viewOf(3);
      const pair = [0, 1].map((id) => {
        const agreement = new Agreement(life(id), TIMES);
        agreement.view(view, [], 0);
        agreement.storeIs(store, 0);
        for (const other of [0, 1]) if (other !== id) agreement.opinion(life(other), 'heard', 0);
        agreement.opinion(life(2), 'doubted', 1_000);
        return agreement;
      });
      const perform = (now: number): number => {
        let sent = 0;
        for (let quiet = false; !quiet;) {
          quiet = true;
          for (const [id, agreement] of pair.entries())
            for (const effect of agreement.settle(now)) {
              if (effect.type !== 'report') continue;
              quiet = false;
              expect(++sent).toBeLessThan(50);
              pair[1 - id]?.report(life(id), effect.report, now);
            }
        }
        return sent;
      };
      // At first what each hears from the other is news; then each question has its answer.
      expect(perform(1_000)).toBeLessThanOrEqual(8);
      expect(perform(1_500)).toBe(0);
      for (let now = 4_000; now <= 20_000; now += 2_000) expect(perform(now)).toBeLessThanOrEqual(4);
    },
  );
});

describe('with the store', () => {
  it('two that do not reach each other are both left alone', () => {
    const agreement = setup(3);
    agreement.opinion(life(1), 'doubted', 1_000);
    agreement.report(life(2), says({ store: true, hears: [life(0), life(1)] }), 1_000);
    for (const now of [1_000, 6_000, 12_000, 60_000]) expect(types(agreement.settle(now))).not.toContain('evict');
  });

  it('one member says that this one is gone: the store is asked, and only if it does not answer that is so', () => {
    const says0IsGone = says({ decided: [life(0)] });
    const answered = setup(3);
    answered.report(life(1), says0IsGone, 1_000);
    expect(types(answered.settle(1_000))).toEqual(['ask-store']);
    answered.storeIs('up', 1_001);
    answered.storeIs('silent', 5_000);
    expect(answered.over).toBe(false);
    const unanswered = setup(3);
    unanswered.report(life(1), says0IsGone, 1_000);
    unanswered.storeIs('silent', 3_000);
    expect([unanswered.settle(3_000), unanswered.over]).toEqual([[{ type: 'fenced' }], true]);
  });

  it('who has been put out without the store is told so, and is nobody any more', () => {
    const agreement = setup(3);
    agreement.storeIs('silent', 0);
    agreement.report(life(1), says({ decided: [life(0)] }), 1_000);
    expect(types(agreement.settle(1_000))).toEqual(['fenced']);
    expect(agreement.over).toBe(true);
  });
});

it('who has been put out puts nobody out, although it and another one doubt half of those that remain', () => {
  const agreement = setup(4);
  for (const id of [2, 3]) agreement.opinion(life(id), 'doubted', 1_000);
  agreement.report(life(1), says({ store: true, hears: [life(0)], doubts: [life(2), life(3)] }), 1_000);
  const view = viewOf(4);
  agreement.view({ ...view, epoch: 2, members: view.members.slice(1) }, [], 1_001);
  expect(agreement.settle(1_001)).toEqual([{ type: 'fenced' }]);
  expect(agreement.settle(9_000)).toEqual([]);
});

it('a member of an earlier version is sent no report, and its word is not waited for', () => {
  const agreement = setup(4, [1]);
  agreement.storeIs('silent', 0);
  agreement.opinion(life(3), 'gone', 1_000);
  const told = agreement.settle(1_000).flatMap((effect) => (effect.type === 'report' ? [effect.to] : []));
  expect(told).toEqual([life(2)]);
});

describe('with the store', () => {
  it('nothing is claimed against one that is certainly gone, and it is put out', () => {
    const agreement = setup(200);
    agreement.opinion(life(199), 'gone', 1_000);
    const effects = agreement.settle(1_000);
    expect(effects.filter(({ type }) => type === 'claim')).toEqual([]);
    expect(effects).toContainEqual({ type: 'evict', lives: [life(199)], certain: true });
  });

  it('what one member says is certain puts nobody out whom this worker does not know; what two say does', () => {
    const agreement = setup(6);
    agreement.opinion(life(4), 'unsure', 1_000);
    // Trouble with somebody else is what has reports looked at.
    agreement.opinion(life(5), 'doubted', 1_000);
    const certain = says({ store: true, hears: [life(0)], proved: [life(4)] });
    agreement.report(life(1), certain, 1_000);
    const evicted = (now: number): AgreementEffect[] => agreement.settle(now).filter(({ type }) => type === 'evict');
    expect(evicted(1_000)).toEqual([]);
    expect(agreement.isCertain(life(4), 1_000)).toBe(false);
    agreement.report(life(2), certain, 1_100);
    expect(evicted(1_100)).toEqual([{ type: 'evict', lives: [life(4)], certain: true }]);
  });

  it('one that merely says nothing is claimed against as ever', () => {
    const agreement = setup(4);
    agreement.opinion(life(3), 'doubted', 1_000);
    const [claim] = agreement.settle(1_000).filter(({ type }) => type === 'claim');
    expect(claim).toMatchObject({ claim: { by: life(0), doubts: [life(3)] } });
  });
});
