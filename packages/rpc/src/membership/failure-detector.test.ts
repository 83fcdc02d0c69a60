/** @file What a worker finds out about members that do not answer, second by second, with a store, links and processes that do as they are told. */
import { describe, expect, it } from 'vitest';
import {
  cleanups,
  HERE,
  pass,
  member,
  type FakePeer,
  type Stage,
  stage,
  asPeer,
  last,
  W1,
  W2,
} from '../../test/detector-stage.ts';
import { DEFAULT_LIVENESS } from '../base/options.ts';
import { lifeOf } from '../protocol/membership.ts';

const { pingMs, suspectMs, deadMs } = DEFAULT_LIVENESS;

describe('a silent member', () => {
  it('is pinged, doubted in its time, and cut; what waits for it fails once it has not come back', async () => {
    const it = stage(member(1), member(2));
    const [w1, w2] = it.peers;
    const talk = setInterval(() => w2?.talks(), 500);
    cleanups.push(() => clearInterval(talk));
    await pass(pingMs - 1_000);
    expect([w1?.of('ping'), w2?.of('ping')]).toEqual([0, 0]);
    await pass(1_000);
    expect([w1?.of('ping'), w2?.of('ping')]).toEqual([1, 0]);
    await pass(suspectMs - pingMs - 500);
    expect(it.told).toEqual([]);
    expect(last(it, W1)).toBe('heard');
    await pass(500);
    expect([it.told, last(it, W1)]).toEqual([['suspect w1'], 'unsure']);
    expect(it.asked).toContain('lease w1');
    await pass(deadMs - suspectMs - 500);
    expect(w1?.of('reset')).toBe(0);
    if (w1 !== undefined) w1.up = false;
    await pass(500);
    expect([w1?.of('reset unavailable'), last(it, W1)]).toEqual([1, 'doubted']);
    await pass(3_000);
    expect(it.told).toEqual(['suspect w1', `worker 'w1' does not answer at ${deadMs}`]);
    expect(it.asked.filter((text) => text.startsWith('evict'))).toEqual([]);
    // It is looked at again and again.
    const looks = it.asked.filter((text) => text === 'lease w1').length;
    await pass(4_000);
    expect(it.asked.filter((text) => text === 'lease w1').length - looks).toBe(2);
    // It talks again.
    it.detector.linkUp(asPeer(w1));
    expect(last(it, W1)).toBe('heard');
    const after = it.asked.filter((text) => text === 'lease w1').length;
    if (w1 !== undefined) w1.up = true;
    const both = setInterval(() => w1?.talks(), 500);
    cleanups.push(() => clearInterval(both));
    await pass(6_000);
    expect(it.asked.filter((text) => text === 'lease w1').length).toBe(after);
    expect(last(it, W1)).toBe('heard');
  });

  it('whose lease is gone by then is put out at once', async () => {
    const it = stage(member(1), member(2));
    const talk = setInterval(() => it.peers[1]?.talks(), 500);
    cleanups.push(() => clearInterval(talk));
    it.leases.set(W1, { state: 'gone' });
    await pass(suspectMs + 100);
    expect(last(it, W1)).toBe('gone');
    expect(it.asked.find((text) => text.startsWith('evict'))).toMatch(new RegExp(`^evict ${W1} at 6\\d\\d\\d$`));
    // Nobody puts it out: what waits for it fails.
    if (it.peers[0] !== undefined) it.peers[0].up = false;
    await pass(4_500);
    expect(it.told).toEqual(['suspect w1']);
    await pass(1_000);
    expect(it.told[1]).toMatch(/^worker 'w1' does not answer at 11\d\d\d$/);
  });

  it('that is on its way back over another link is waited for', async () => {
    const it = stage(member(1), member(2));
    const [w1] = it.peers;
    const talk = setInterval(() => it.peers[1]?.talks(), 500);
    cleanups.push(() => clearInterval(talk));
    await pass(deadMs - 100);
    if (w1 !== undefined) [w1.up, w1.connector.state] = [false, 'dialing'];
    await pass(1_500);
    expect(w1?.of('reset')).toBe(1);
    if (w1 !== undefined) [w1.up, w1.connector.state] = [true, 'up'];
    it.detector.linkUp(asPeer(w1));
    w1?.talks();
    await pass(2_000);
    expect(it.told).toEqual(['suspect w1']);
  });

  it('whose dial does not end is waited for two seconds', async () => {
    const it = stage(member(1), member(2));
    const [w1] = it.peers;
    const talk = setInterval(() => it.peers[1]?.talks(), 500);
    cleanups.push(() => clearInterval(talk));
    await pass(deadMs - 100);
    if (w1 !== undefined) [w1.up, w1.connector.state] = [false, 'dialing'];
    await pass(6_000);
    expect(it.told).toEqual(['suspect w1', `worker 'w1' does not answer at ${deadMs + 2_000}`]);
  });

  it.each([
    ['whose process is there', { host: HERE }, { state: 'unknown' }, 'silent', false],
    ['at whose address somebody listens', {}, { state: 'unknown' }, 'there', false],
    ['whose main loop stands still', {}, { state: 'alive', ageMs: 9_000 }, 'silent', false],
    ['of whom nothing is known', {}, { state: 'unknown' }, 'silent', true],
    ['whose main loop turns', {}, { state: 'alive', ageMs: 0 }, 'there', true],
  ] as const)('%s is cut in its time, or later', async (_, more, lease, knock, isCut) => {
    const it = stage(member(1, more), member(2));
    const talk = setInterval(() => it.peers[1]?.talks(), 500);
    cleanups.push(() => clearInterval(talk));
    it.knock = knock;
    it.leases.set(W1, lease);
    await pass(deadMs + 5_000);
    expect(it.peers[0]?.of('reset')).toBe(isCut ? 1 : 0);
  });

  it('whose link broke has its lease looked for, and is not cut for being unreachable', async () => {
    const it = stage(member(1), member(2));
    const talk = setInterval(() => it.peers[1]?.talks(), 500);
    cleanups.push(() => clearInterval(talk));
    const [w1] = it.peers;
    if (w1 !== undefined) w1.up = false;
    it.detector.linkLost(asPeer(w1));
    await pass(600);
    expect(it.asked).toContain('lease w1');
    await pass(20_000);
    expect([w1?.of('reset'), it.told]).toEqual([0, ['suspect w1']]);
  });

  it('whose bytes arrive and are no message yet is answered', async () => {
    const it = stage(member(1), member(2));
    it.peers[0]?.talks(true);
    await pass(600);
    expect(it.peers[0]?.said).toContain('ack');
  });
});

describe('what is thought of one that cannot be reached', () => {
  it.each([
    { lease: 'alive', why: 'refused', opinion: 'doubted' },
    { lease: 'alive', why: 'unreachable', opinion: 'doubted' },
    { lease: 'stuck', why: 'unreachable', opinion: 'stuck' },
    { lease: 'almost stuck', why: 'unreachable', opinion: 'doubted' },
    { lease: 'gone', why: 'unreachable', opinion: 'gone' },
    { lease: 'unknown', why: 'refused', knock: 'refused', opinion: 'refused' },
    { lease: 'unknown', why: 'unreachable', knock: 'there', opinion: 'stuck' },
    { lease: 'unknown', why: 'unreachable', knock: 'silent', opinion: 'doubted' },
    { lease: 'nothing', why: 'unreachable', knock: 'refused', opinion: 'refused' },
    { lease: 'alive', why: 'refused', process: 'there', opinion: 'unsure' },
    { lease: 'alive', why: 'unreachable', process: 'there', opinion: 'stuck' },
    { lease: 'unknown', why: 'unreachable', process: 'there', opinion: 'stuck' },
    { lease: 'gone', why: 'refused', process: 'there', opinion: 'gone' },
    { lease: 'alive', why: 'refused', process: 'gone', opinion: 'gone' },
    { lease: 'alive', why: 'unreachable', mute: true, opinion: 'unsure' },
    { lease: 'gone', why: 'unreachable', mute: true, opinion: 'gone' },
  ] as const)('$why, lease $lease, knock $knock, process $process, mute $mute: $opinion', async (given) => {
    const process = 'process' in given ? given.process : 'unknown';
    const life = member(1, {
      ...(process === 'unknown' ? {} : { host: HERE }),
      ...('mute' in given ? { endpoints: [] } : {}),
    });
    const it = stage(life, member(2));
    if (process === 'gone') it.ended.add(W1);
    it.knock = 'knock' in given ? given.knock : 'silent';
    it.leases.set(
      W1,
      given.lease === 'nothing'
        ? 'nothing'
        : given.lease === 'stuck' || given.lease === 'almost stuck'
          ? { state: 'alive', ageMs: given.lease === 'stuck' ? 1_000 : 999 }
          : given.lease === 'alive'
            ? { state: 'alive', ageMs: 0 }
            : { state: given.lease },
    );
    const [w1] = it.peers;
    if (w1 !== undefined) w1.up = false;
    it.detector.linkLost(asPeer(w1));
    it.detector.givenUp(asPeer(w1), given.why);
    await pass(1_100);
    expect(last(it, W1)).toBe(given.opinion);
    // Where somebody listens says nothing that is not known better.
    const knows = process !== 'unknown' || (given.lease !== 'unknown' && given.lease !== 'nothing');
    const knocks = new Set(it.asked.filter((text) => text.startsWith('knock')));
    expect([...knocks]).toEqual(knows ? [] : ['knock tcp://w1 2000']);
    if (process === 'gone') expect(it.asked).not.toContain('lease w1');
  });

  it('only addresses that mean something here are knocked at', async () => {
    const endpoints = [
      { transport: 'tcp', domain: 'net', address: 'tcp://near' },
      { transport: 'tcp', domain: 'other', address: 'tcp://far' },
      { transport: 'unix', domain: 'net', address: 'unix://far' },
    ];
    const it = stage(member(1, { endpoints }), member(2));
    it.leases.set(W1, { state: 'unknown' });
    it.detector.givenUp(asPeer(it.peers[0]), 'unreachable');
    await pass(100);
    expect(it.asked.filter((text) => text.startsWith('knock'))).toEqual(['knock tcp://near 2000']);
  });

  it('what waits for it fails, unless it is certainly gone and put out meanwhile', async () => {
    const it = stage(member(1), member(2));
    const [w1, w2] = it.peers;
    for (const peer of it.peers) peer.up = false;
    it.leases.set(W2, { state: 'gone' });
    it.detector.givenUp(asPeer(w1), 'refused');
    it.detector.givenUp(asPeer(w2), 'unreachable');
    await pass(1_000);
    expect(it.told).toEqual([`worker 'w1' cannot be reached (refused) at 0`]);
    if (w2 !== undefined) w2.state = 'gone';
    await pass(6_000);
    expect(it.told.filter((text) => text.includes("'w2'"))).toEqual([]);
  });
});

describe('a lease that is gone', () => {
  /** One that this worker has not met: nothing but its lease says anything of it. */
  const gone = async (it: Stage): Promise<FakePeer> => {
    const talk = setInterval(() => it.peers[1]?.talks(), 500);
    cleanups.push(() => clearInterval(talk));
    const [w1] = it.peers as [FakePeer];
    w1.up = false;
    it.detector.linkLost(asPeer(w1));
    it.detector.forget(asPeer(w1));
    it.leases.set(W1, { state: 'gone' });
    it.watched.get(W1)?.gone();
    await pass(0);
    return w1;
  };
  const evictions = (it: Stage): string[] => it.asked.filter((text) => text.startsWith('evict'));

  it('is looked for twice, a second after each dial, before its worker is put out', async () => {
    const it = stage(member(1), member(2));
    const w1 = await gone(it);
    expect([w1.of('dial'), it.asked]).toEqual([1, []]);
    await pass(1_000);
    expect(it.asked).toEqual(['lease w1']);
    await pass(1_000);
    expect(w1.of('dial')).toBe(2);
    await pass(999);
    expect(it.asked).toEqual(['lease w1']);
    await pass(2);
    expect([it.asked[1], evictions(it).length]).toEqual(['lease w1', 1]);
    // That somebody listens where it did says nothing.
    expect(it.asked.filter((text) => text.startsWith('knock'))).toEqual([]);
  });

  it('of one without an address is looked for without a dial', async () => {
    const it = stage(member(1, { endpoints: [] }), member(2));
    const w1 = await gone(it);
    await pass(3_002);
    expect([w1.of('dial'), evictions(it).length]).toEqual([0, 1]);
  });

  it('where the store does not say so any more, puts nobody out', async () => {
    const it = stage(member(1), member(2));
    await gone(it);
    await pass(500);
    it.leases.set(W1, { state: 'unknown' });
    await pass(20_000);
    expect([evictions(it), last(it, W1)]).toEqual([[], 'unsure']);
    it.leases.set(W1, { state: 'gone' });
    await pass(4_000);
    expect(evictions(it).length).toBeGreaterThan(0);
  });

  it('is not looked for where its worker is heard', async () => {
    const it = stage(member(1), member(2));
    it.watched.get(W1)?.gone();
    await pass(3_000);
    expect([it.peers[0]?.of('dial'), it.asked]).toEqual([0, []]);
  });

  it.each([
    ['heard after the dial', 500, 'link'],
    ['heard before the second look', 2_500, 'link'],
    ['renewed before the first look', 500, 'lease'],
    ['renewed before the second look', 2_500, 'lease'],
    ['a member no more', 500, 'view'],
  ] as const)('puts nobody out who is %s', async (_, afterMs, what) => {
    const it = stage(member(1), member(2));
    const w1 = await gone(it);
    await pass(afterMs);
    const talk = setInterval(() => w1.talks(), 500);
    cleanups.push(() => clearInterval(talk));
    if (what === 'link') it.detector.linkUp(asPeer(w1));
    else if (what === 'lease') it.leases.set(W1, { state: 'alive', ageMs: 0 });
    else it.unwatch(W1);
    await pass(6_000);
    expect([evictions(it), it.thought.filter(([, thought]) => thought === 'gone')]).toEqual([[], []]);
    // Nobody looks any more.
    const looks = (afterMs > 1_000 ? 1 : 0) + (what === 'lease' ? 1 : 0);
    expect(it.asked.filter((text) => text === 'lease w1').length).toBe(looks);
  });

  it('is watched of those that are members, until this worker closes', async () => {
    const it = stage(member(1), member(2));
    await pass(0);
    expect([...it.watched.keys()].sort()).toEqual([W1, W2]);
    // Once each, and again only for one that comes back.
    const [first, second] = [it.watched.get(W1), it.watched.get(W2)];
    it.detector.viewChanged();
    expect([it.watched.get(W1), it.watched.get(W2)]).toEqual([first, second]);
    expect(it.watched.get(W1)).toBe(first);
    it.unwatch(W1);
    expect([first?.signal.aborted, second?.signal.aborted]).toEqual([true, false]);
    it.rewatch();
    await pass(0);
    expect(it.watched.get(W1)).not.toBe(first);
    expect(it.watched.get(W2)).toBe(second);
    it.detector.close();
    expect([...it.watched.values()].map(({ signal }) => signal.aborted)).toEqual([true, true]);
    const before = it.asked.length;
    await pass(60_000);
    expect([it.asked.length, it.told]).toEqual([before, []]);
  });
});

describe('a process on this machine that has ended', () => {
  it('is put out at the next look where there is no link, and not before', async () => {
    const it = stage(member(1, { host: HERE }), member(2));
    const [w1] = it.peers;
    it.ended.add(W1);
    await pass(1_000);
    expect(last(it, W1)).toBe('heard');
    if (w1 !== undefined) w1.up = false;
    await pass(500);
    expect(last(it, W1)).toBe('gone');
    expect(it.asked.filter((text) => text.startsWith('evict'))).toEqual([`evict ${W1} at 1500`]);
  });

  it('that has no number is unknown', async () => {
    const it = stage(member(1, { host: HERE, pid: 0 }), member(2));
    const [w1] = it.peers;
    it.ended.add(W1);
    if (w1 !== undefined) w1.up = false;
    await pass(1_000);
    expect(last(it, W1)).toBe('heard');
  });
});

it('one that has said goodbye is put out', async () => {
  const it = stage(member(1), member(2));
  it.detector.left(asPeer(it.peers[0]));
  await pass(1);
  expect(it.asked.filter((text) => text.startsWith('evict'))).toHaveLength(1);
});

describe('putting somebody out', () => {
  async function certain(): Promise<Stage> {
    const it = stage(member(1, { host: HERE }), member(2));
    const talk = setInterval(() => it.peers[1]?.talks(), 500);
    cleanups.push(() => clearInterval(talk));
    if (it.peers[0] !== undefined) it.peers[0].up = false;
    it.ended.add(W1);
    return it;
  }
  const evictions = (it: Stage): number => it.asked.filter((text) => text.startsWith('evict')).length;

  it('is asked of the store once, and again only after it failed', async () => {
    const it = await certain();
    let fail = (): void => undefined;
    it.evict = () => new Promise((_, reject) => (fail = () => reject(new Error('away'))));
    await pass(5_000);
    expect(evictions(it)).toBe(1);
    fail();
    await pass(1_900);
    expect(evictions(it)).toBe(1);
    await pass(1_000);
    expect(evictions(it)).toBe(2);
  });

  it('is no more wanted once it was heard; and says how it ended', async () => {
    const it = await certain();
    const said: unknown[] = [];
    it.unwritten.set(W2, 'left');
    it.evict = async (_, still, how) => {
      said.push(await still(W1), await still(W2), how(W1), how(W2));
      it.detector.linkUp(asPeer(it.peers[0]));
      said.push(await still(W1));
    };
    await pass(600);
    expect(said).toEqual([true, false, 'dead', 'left', false]);
  });
});

it('one that is cut off from its store and the others stops when its lease must be over', async () => {
  const it = stage(member(1), member(2));
  for (const peer of it.peers) {
    peer.up = false;
    it.detector.linkLost(asPeer(peer));
    it.leases.set(lifeOf(peer.member), 'nothing');
  }
  it.detector.storeIs('silent');
  for (const peer of it.peers) it.detector.givenUp(asPeer(peer), 'unreachable');
  await pass(9_000);
  expect(it.told.filter((text) => text.includes('cut off'))).toEqual([]);
  await pass(2_000);
  expect(it.told).toContain('this worker is cut off from the store and from most of its group');
});
