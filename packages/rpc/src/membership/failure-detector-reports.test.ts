/** @file What a worker makes of what others report about members that it cannot reach, second by second. */
import { describe, expect, it } from 'vitest';
import { pass, member, type FakePeer, type Stage, stage, asPeer, W1, W2 } from '../../test/detector-stage.ts';
import { DEFAULT_LIVENESS } from '../base/options.ts';
import { lifeOf } from '../protocol/membership.ts';
import type { Report } from '../protocol/opinions.ts';
import { encodeReport } from './report-codec.ts';

const { pingMs } = DEFAULT_LIVENESS;

describe('what others report', () => {
  const words: Report = {
    ...{ epoch: 3, store: true, asks: false },
    ...{ hears: [], doubts: [], proved: [], gone: [], decided: [], confirmed: [] },
  };
  const newer = (it: Stage): Uint8Array => encodeReport(words, it.view, { ...it.view, epoch: it.view.epoch + 5 });

  it('of a newer view is a reason to ask the store, now and then; and believed where that does not answer', async () => {
    const it = stage(member(1), member(2));
    await pass(100);
    const refreshes = (): number => it.asked.filter((text) => text === 'refresh').length;
    it.detector.reported(asPeer(it.peers[0]), newer(it));
    it.detector.reported(asPeer(it.peers[0]), newer(it));
    await pass(100);
    expect(refreshes()).toBe(1);
    await pass(pingMs - 200);
    it.detector.reported(asPeer(it.peers[0]), newer(it));
    await pass(0);
    expect(refreshes()).toBe(1);
    await pass(200);
    it.detector.reported(asPeer(it.peers[0]), newer(it));
    expect(refreshes()).toBe(2);
    it.detector.storeIs('silent');
    expect(it.detector.isStoreUp).toBe(false);
    it.detector.reported(asPeer(it.peers[0]), newer(it));
    expect(it.asked.filter((text) => text.startsWith('learn'))).toEqual([`learn ${it.view.epoch + 5}`]);
    it.detector.reported(asPeer(it.peers[0]), encodeReport(words, it.view, it.view));
    expect(it.asked.filter((text) => text.startsWith('learn'))).toHaveLength(1);
  });

  it('is said by this worker to those to whom there is a link, while somebody is in doubt', async () => {
    const it = stage(member(1), member(2));
    const [w1, w2] = it.peers;
    if (w1 !== undefined) w1.up = false;
    it.detector.givenUp(asPeer(w1), 'refused');
    await pass(100);
    expect([w1?.of('report'), (w2?.of('report') ?? 0) > 0]).toEqual([0, true]);
  });

  it('that doubts one to whom there is no link has it dialled, where it has an address and is not dialled yet', async () => {
    for (const [state, up, endpoints, dials] of [
      ['idle', false, undefined, 1],
      ['idle', true, undefined, 0],
      ['dialing', false, undefined, 0],
      ['idle', false, [], 0],
    ] as const) {
      const it = stage(member(1), member(2, endpoints && { endpoints }));
      const [w1, w2] = it.peers;
      if (w2 !== undefined) [w2.up, w2.connector.state] = [up, state];
      it.detector.linkLost(asPeer(w2));
      it.detector.reported(asPeer(w1), encodeReport({ ...words, doubts: [W2] }, it.view, undefined));
      await pass(10);
      expect(w2?.of('dial'), `${state} ${up}`).toBe(dials);
      it.detector.close();
    }
  });

  it('has no more dialled than 32 at once', async () => {
    const it = stage(...Array.from({ length: 34 }, (_, i) => member(i + 1)));
    const [talker, wanted, ...others] = it.peers as [FakePeer, FakePeer, ...FakePeer[]];
    for (const other of others) other.connector.state = 'dialing';
    wanted.up = false;
    it.detector.linkLost(asPeer(wanted));
    const report = encodeReport({ ...words, doubts: [lifeOf(wanted.member)] }, it.view, undefined);
    it.detector.reported(asPeer(talker), report);
    await pass(10);
    expect(wanted.of('dial')).toBe(0);
    for (const other of others.slice(0, 1)) other.connector.state = 'up';
    it.detector.reported(asPeer(talker), report);
    await pass(10);
    expect(wanted.of('dial')).toBe(1);
  });

  it('has been decided is so here without the store, and is asked of the store while it answers', async () => {
    const it = stage(member(1), member(2));
    const [w1, w2] = it.peers;
    it.detector.linkLost(asPeer(w1));
    const report = encodeReport({ ...words, gone: [W1], decided: [W1] }, it.view, undefined);
    it.detector.reported(asPeer(w2), report);
    await pass(10);
    expect([it.told, it.asked]).toEqual([[], ['refresh']]);
    it.detector.storeIs('silent');
    it.detector.reported(asPeer(w2), report);
    await pass(10);
    expect(it.told).toEqual([`decided ${W1}`]);
  });

  it('that it is gone itself is asked of the store', async () => {
    const it = stage(member(1), member(2));
    expect(await it.detector.expelled()).toBe(false);
    expect(it.asked).toContain('refresh');
    it.detector.storeIs('down');
    await pass(10);
    expect(await it.detector.expelled()).toBe(true);
    await pass(10);
    expect(it.told).toEqual(['the group has removed this worker']);
  });
});
