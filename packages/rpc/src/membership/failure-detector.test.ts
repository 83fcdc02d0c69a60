/** @file What a worker finds out about members that do not answer, second by second, with a store, links and processes that do as they are told. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MessageType } from '@backwire/wire/internal';
import type { Environment } from '../base/environment.ts';
import { DEFAULT_LIVENESS } from '../base/options.ts';
import { Agreement } from '../protocol/agreement.ts';
import { EMPTY_VIEW, isRefusal, join, lifeOf, type Life, type Membership, type View } from '../protocol/membership.ts';
import type { ViewMember } from '../protocol/membership.ts';
import type { Opinion, Report } from '../protocol/opinions.ts';
import type { Peer } from '../session/peer.ts';
import type { Knock } from '../transports/knock.ts';
import { FailureDetector } from './failure-detector.ts';
import type { Group } from './group.ts';
import type { LeaseState } from './group-store.ts';
import { encodeReport } from './report-codec.ts';

const { pingMs, suspectMs, deadMs } = DEFAULT_LIVENESS;
const HERE = 'this host';

beforeEach(() => void vi.useFakeTimers());
const cleanups: (() => unknown)[] = [];
afterEach(() => {
  for (const cleanup of cleanups.splice(0).reverse()) cleanup();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

function member(id: number, more: Partial<ViewMember> = {}): ViewMember {
  const endpoints = [{ transport: 'tcp', domain: 'net', address: `tcp://w${id}` }];
  return {
    name: `w${id}`,
    id,
    incarnation: 10 + id,
    endpoints,
    host: 'another',
    pid: 7,
    extensions: [],
    reports: true,
    ...more,
  };
}

function viewOf(members: readonly ViewMember[]): View {
  let view = EMPTY_VIEW;
  for (const one of members) {
    const next = join(view, one, undefined);
    if (isRefusal(next)) throw new Error(next.kind);
    view = next;
  }
  return view;
}

class FakePeer {
  readonly member: ViewMember;
  readonly worker: { readonly name: string };
  readonly said: string[] = [];
  readonly connector = { state: 'idle' };
  notedAt = -1;
  inUse = true;
  up = true;
  state = 'here';
  link: { heardAt: number; receiving: boolean } | undefined;
  readonly sender = {
    sendAck: (): void => void this.said.push('ack'),
    sendControl: (type: MessageType): void => void this.said.push(type === MessageType.REPORT ? 'report' : '?'),
  };

  constructor(one: ViewMember) {
    this.member = one;
    this.worker = { name: one.name };
  }

  ping(): void {
    this.said.push('ping');
  }

  want(): void {
    this.said.push('dial');
  }

  reset(error: { code: string }): void {
    this.said.push(`reset ${error.code}`);
  }

  talks(receiving = false): void {
    this.link = { heardAt: performance.now(), receiving };
  }

  of(what: string): number {
    return this.said.filter((each) => each.startsWith(what)).length;
  }
}

interface Set {
  detector: FailureDetector;
  readonly peers: readonly FakePeer[];
  readonly told: string[];
  readonly asked: string[];
  readonly thought: [Life, Opinion][];
  /** What the store says of leases; a promise that never ends where it says nothing. */
  leases: Map<Life, LeaseState | 'nothing'>;
  /** Who has no process any more. */
  readonly ended: globalThis.Set<Life>;
  knock: Knock;
  watched: Map<Life, { readonly gone: () => void; readonly signal: AbortSignal }>;
  readonly view: View;
  evict: (lives: Life[], still: (life: Life) => Promise<boolean>, how: (life: Life) => string) => Promise<void>;
  readonly unwritten: Map<Life, 'left' | 'dead'>;
  /** It is in the view no more. */
  unwatch: (life: Life) => void;
  /** All are in it again. */
  rewatch: () => void;
}

/** This worker, w0, among others. */
function set(...others: readonly ViewMember[]): Set {
  const self = member(0);
  const view = viewOf([self, ...others]);
  const membership = { stored: view, view, unwritten: new Map(), fenced: false };
  const peers = others.map((one) => new FakePeer(one));
  const byLife = new Map(peers.map((peer) => [lifeOf(peer.member), peer]));
  const [told, asked, thought]: [string[], string[], [Life, Opinion][]] = [[], [], []];
  const opinion = vi.spyOn(Agreement.prototype, 'opinion');
  opinion.mockImplementation(function (this: Agreement, life, what, now) {
    thought.push([life, what]);
    real.call(this, life, what, now);
  });
  const made: Partial<Set> = { peers, told, asked, thought, view, knock: 'silent' };
  made.leases = new Map(others.map((one) => [lifeOf(one), { state: 'alive', ageMs: 0 }]));
  made.watched = new Map();
  Object.assign(made, { ended: new globalThis.Set<Life>(), unwritten: membership.unwritten });
  made.unwatch = (life) => {
    const members = view.members.filter((one) => lifeOf(one) !== life);
    membership.stored = membership.view = { ...view, epoch: view.epoch + 1, members };
    made.detector?.viewChanged();
  };
  made.rewatch = () => {
    membership.stored = membership.view = { ...view, epoch: view.epoch + 2 };
    made.detector?.viewChanged();
  };
  made.evict = async () => undefined;
  const group = {
    leaseOf: async (one: ViewMember) => {
      asked.push(`lease ${one.name}`);
      const found = made.leases?.get(lifeOf(one));
      return found === 'nothing' ? new Promise(() => undefined) : found;
    },
    watchLease: async (one: ViewMember, signal: AbortSignal, gone: () => void) =>
      void made.watched?.set(lifeOf(one), { gone, signal }),
    refresh: async () => void asked.push('refresh'),
    learn: (next: View) => void asked.push(`learn ${next.epoch}`),
    evict: (lives: Life[], still: (life: Life) => Promise<boolean>, how: (life: Life) => string) => {
      asked.push(`evict ${lives.join()} at ${Math.round(performance.now() - began)}`);
      return made.evict?.(lives, still, how);
    },
    claim: async () => [],
    claims: async () => [],
  };
  const began = performance.now();
  made.detector = new FailureDetector({
    environment: {
      liveness: DEFAULT_LIVENESS,
      hostId: HERE,
      logger: { debug: () => undefined, info: () => undefined },
      now: () => performance.now(),
    } as unknown as Environment,
    group: group as unknown as Group,
    membership: membership as unknown as Membership,
    self,
    knock: async (endpoints, timeoutMs) => {
      asked.push(`knock ${endpoints.join()} ${timeoutMs}`);
      return made.knock ?? 'silent';
    },
    isGone: (one) => made.ended?.has(lifeOf(one)) === true,
    turned: () => undefined,
    peerOf: (life) => byLife.get(life) as unknown as Peer,
    peers: () => peers as unknown as Peer[],
    onDecided: (lives) => void told.push(`decided ${lives.join()}`),
    onSuspect: ({ worker }) => void told.push(`suspect ${worker.name}`),
    onUnreachable: (_, text) => void told.push(`${text} at ${Math.round(performance.now() - began)}`),
    onFenced: (why) => void told.push(why),
  });
  cleanups.push(() => made.detector?.close());
  const here = made as Set;
  here.detector.start();
  here.detector.viewChanged();
  for (const peer of peers) here.detector.linkUp(peer as unknown as Peer);
  return here;
}
const real = Agreement.prototype.opinion;

const asPeer = (peer: FakePeer | undefined): Peer => peer as unknown as Peer;
const last = ({ thought }: Set, life: Life): Opinion | undefined => thought.findLast(([of]) => of === life)?.[1];

const [W1, W2] = [lifeOf(member(1)), lifeOf(member(2))];

describe('a silent member', () => {
  it('is pinged, doubted in its time, and cut; what waits for it fails once it has not come back', async () => {
    const it = set(member(1), member(2));
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
    const it = set(member(1), member(2));
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
    const it = set(member(1), member(2));
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
    const it = set(member(1), member(2));
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
    const it = set(member(1, more), member(2));
    const talk = setInterval(() => it.peers[1]?.talks(), 500);
    cleanups.push(() => clearInterval(talk));
    it.knock = knock;
    it.leases.set(W1, lease);
    await pass(deadMs + 5_000);
    expect(it.peers[0]?.of('reset')).toBe(isCut ? 1 : 0);
  });

  it('whose link broke has its lease looked for, and is not cut for being unreachable', async () => {
    const it = set(member(1), member(2));
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
    const it = set(member(1), member(2));
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
    const it = set(life, member(2));
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
    const knocks = new globalThis.Set(it.asked.filter((text) => text.startsWith('knock')));
    expect([...knocks]).toEqual(knows ? [] : ['knock tcp://w1 2000']);
    if (process === 'gone') expect(it.asked).not.toContain('lease w1');
  });

  it('only addresses that mean something here are knocked at', async () => {
    const endpoints = [
      { transport: 'tcp', domain: 'net', address: 'tcp://near' },
      { transport: 'tcp', domain: 'other', address: 'tcp://far' },
      { transport: 'unix', domain: 'net', address: 'unix://far' },
    ];
    const it = set(member(1, { endpoints }), member(2));
    it.leases.set(W1, { state: 'unknown' });
    it.detector.givenUp(asPeer(it.peers[0]), 'unreachable');
    await pass(100);
    expect(it.asked.filter((text) => text.startsWith('knock'))).toEqual(['knock tcp://near 2000']);
  });

  it('what waits for it fails, unless it is certainly gone and put out meanwhile', async () => {
    const it = set(member(1), member(2));
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
  const gone = async (it: Set): Promise<FakePeer> => {
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
  const evictions = (it: Set): string[] => it.asked.filter((text) => text.startsWith('evict'));

  it('is looked for twice, a second after each dial, before its worker is put out', async () => {
    const it = set(member(1), member(2));
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
    const it = set(member(1, { endpoints: [] }), member(2));
    const w1 = await gone(it);
    await pass(3_002);
    expect([w1.of('dial'), evictions(it).length]).toEqual([0, 1]);
  });

  it('where the store does not say so any more, puts nobody out', async () => {
    const it = set(member(1), member(2));
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
    const it = set(member(1), member(2));
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
    const it = set(member(1), member(2));
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
    const it = set(member(1), member(2));
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
    const it = set(member(1, { host: HERE }), member(2));
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
    const it = set(member(1, { host: HERE, pid: 0 }), member(2));
    const [w1] = it.peers;
    it.ended.add(W1);
    if (w1 !== undefined) w1.up = false;
    await pass(1_000);
    expect(last(it, W1)).toBe('heard');
  });
});

it('one that has said goodbye is put out', async () => {
  const it = set(member(1), member(2));
  it.detector.left(asPeer(it.peers[0]));
  await pass(1);
  expect(it.asked.filter((text) => text.startsWith('evict'))).toHaveLength(1);
});

describe('putting somebody out', () => {
  async function certain(): Promise<Set> {
    const it = set(member(1, { host: HERE }), member(2));
    const talk = setInterval(() => it.peers[1]?.talks(), 500);
    cleanups.push(() => clearInterval(talk));
    if (it.peers[0] !== undefined) it.peers[0].up = false;
    it.ended.add(W1);
    return it;
  }
  const evictions = (it: Set): number => it.asked.filter((text) => text.startsWith('evict')).length;

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

describe('what others report', () => {
  const words: Report = {
    ...{ epoch: 3, store: true, asks: false },
    ...{ hears: [], doubts: [], proved: [], gone: [], decided: [], confirmed: [] },
  };
  const newer = (it: Set): Uint8Array => encodeReport(words, it.view, { ...it.view, epoch: it.view.epoch + 5 });

  it('of a newer view is a reason to ask the store, now and then; and believed where that does not answer', async () => {
    const it = set(member(1), member(2));
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
    const it = set(member(1), member(2));
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
      const it = set(member(1), member(2, endpoints && { endpoints }));
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
    const it = set(...Array.from({ length: 34 }, (_, i) => member(i + 1)));
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
    const it = set(member(1), member(2));
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
    const it = set(member(1), member(2));
    expect(await it.detector.expelled()).toBe(false);
    expect(it.asked).toContain('refresh');
    it.detector.storeIs('down');
    await pass(10);
    expect(await it.detector.expelled()).toBe(true);
    await pass(10);
    expect(it.told).toEqual(['the group has removed this worker']);
  });
});

it('one that is cut off from its store and the others stops when its lease must be over', async () => {
  const it = set(member(1), member(2));
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
