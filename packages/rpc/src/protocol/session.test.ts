/** @file The pure session: numbers, windows, acknowledgements, replays, credits, and storages beside them. */
import { describe, expect, it } from 'vitest';
import { Session, type SessionLimits } from './session.ts';

interface Segment {
  readonly last: number;
  released: number;
}

const LIMITS: SessionLimits = { windowBytes: 100, windowFrames: 5, ackFrames: 3, ackBytes: 50, ackMs: 20 };

function make(limits: Partial<SessionLimits> = {}): { session: Session<Segment, string>; resent: number[] } {
  const resent: number[] = [];
  const session = new Session<Segment, string>(
    {
      resend: (segment) => resent.push(segment.last),
      release: (segment) => void segment.released++,
    },
    { ...LIMITS, ...limits },
  );
  return { session, resent };
}

function send(session: Session<Segment, string>, bytes = 10): Segment {
  const segment = { last: session.draw(), released: 0 };
  session.retain(segment, bytes);
  return segment;
}

const NOTHING = { received: 0, bodies: [] };

describe('a session', () => {
  it('retains until acknowledged and releases once', () => {
    const { session } = make();
    session.linkUp(NOTHING);
    const segments = [send(session), send(session), send(session)];
    expect(session.acknowledged(2)).toBe(true);
    expect(segments.map(({ released }) => released)).toEqual([1, 1, 0]);
    expect(session.acknowledged(1)).toBe(true);
    expect(session.acknowledged(3)).toBe(true);
    expect(segments.map(({ released }) => released)).toEqual([1, 1, 1]);
    expect(session.pendingBytes).toBe(0);
  });

  it('loses count of nothing when a part of a long window is acknowledged, again and again', () => {
    const { session, resent } = make({ windowFrames: 2_000, windowBytes: 1_000_000 });
    session.linkUp(NOTHING);
    const segments = Array.from({ length: 900 }, () => send(session));
    for (const ack of [100, 300, 310, 600, 610]) {
      expect(session.acknowledged(ack)).toBe(true);
      expect(segments.findIndex(({ released }) => released === 0)).toBe(ack);
      expect([session.pendingBytes, session.snapshot().retained]).toEqual([10 * (900 - ack), 900 - ack]);
    }
    session.linkLost();
    session.linkUp({ received: 650, bodies: [] });
    expect(resent).toEqual(Array.from({ length: 250 }, (_, i) => 651 + i));
    session.close();
    expect(segments.every(({ released }) => released === 1)).toBe(true);
    expect([session.pendingBytes, session.snapshot().retained]).toEqual([0, 0]);
  });

  it('knows whether anything got through, either way', () => {
    const [sending, receiving] = [make().session, make().session];
    send(sending);
    expect([sending.hasDelivered, sending.progress]).toEqual([false, 0]);
    sending.acknowledged(1);
    receiving.arrived(1, 1, 0);
    expect([sending.hasDelivered, receiving.hasDelivered]).toEqual([true, true]);
    expect([sending.progress, receiving.progress]).toEqual([1, 1]);
  });

  it('acknowledges the first of a trickle in time, whatever comes after it', () => {
    const { session } = make({ ackFrames: 100, ackBytes: 1_000 });
    session.linkUp(NOTHING);
    for (let seq = 1; seq <= 10; seq++) session.arrived(seq, 1, 100 + seq);
    expect(session.ackAt()).toBe(101 + LIMITS.ackMs);
  });

  it('stops at its window, in frames and in bytes', () => {
    const { session } = make();
    for (let i = 0; i < 5; i++) {
      expect(session.hasRoom()).toBe(true);
      send(session, 1);
    }
    expect(session.hasRoom()).toBe(false);
    session.acknowledged(1);
    expect(session.hasRoom()).toBe(true);
    send(session, 1_000);
    session.acknowledged(5);
    expect(session.hasRoom()).toBe(false);
  });

  it('takes each number once, in order', () => {
    const { session } = make();
    expect(session.arrived(1, 10, 0)).toBe('deliver');
    expect(session.arrived(1, 10, 0)).toBe('duplicate');
    expect(session.arrived(3, 10, 0)).toBe('gap');
    expect(session.arrived(2, 10, 0)).toBe('deliver');
    expect(session.lastReceived).toBe(2);
  });

  it('resends what the peer does not have, in order', () => {
    const { session, resent } = make();
    session.linkUp(NOTHING);
    const segments = [send(session), send(session), send(session)];
    session.linkLost();
    expect(session.state).toBe('lost');
    send(session);
    expect(session.linkUp({ received: 2, bodies: [] })).toBe(true);
    expect(resent).toEqual([3, 4]);
    expect(segments.map(({ released }) => released)).toEqual([1, 1, 0]);
  });

  it('cannot go on with a peer that claims the impossible', () => {
    const { session } = make();
    session.linkUp(NOTHING);
    send(session);
    expect(session.acknowledged(2)).toBe(false);
    session.acknowledged(1);
    session.linkLost();
    expect(session.linkUp(NOTHING)).toBe(false);
    expect(session.linkUp({ received: 7, bodies: [] })).toBe(false);
  });

  it('acknowledges by frames, bytes or time, and only what was written', () => {
    const { session } = make();
    session.linkUp(NOTHING);
    expect(session.ackAt()).toBe(Infinity);
    session.arrived(1, 1, 100);
    expect(session.ackAt()).toBe(120);
    session.ackCarried(0);
    expect(session.ackAt()).toBe(120);
    session.ackCarried(1);
    expect(session.ackAt()).toBe(Infinity);
    for (let seq = 2; seq <= 4; seq++) session.arrived(seq, 1, 200);
    expect(session.ackAt()).toBe(0);
    session.ackCarried(4);
    session.arrived(5, 60, 300);
    expect(session.ackAt()).toBe(0);
    session.ackCarried(5);
    session.arrived(5, 1, 400);
    expect(session.ackAt()).toBe(400);
    session.linkLost();
    expect(session.ackAt()).toBe(Infinity);
    session.linkUp(NOTHING);
    for (let seq = 6; seq <= 9; seq++) session.arrived(seq, 60, 500);
    expect(session.ackAt()).toBe(0);
    session.linkLost();
    expect(session.ackAt()).toBe(Infinity);
  });

  it('releases everything when it closes, and takes nothing more', () => {
    const { session } = make();
    const segment = send(session);
    session.close();
    session.close();
    expect(segment.released).toBe(1);
    expect(session.hasRoom()).toBe(false);
    expect(session.linkUp(NOTHING)).toBe(false);
    const late = send(session);
    expect(late.released).toBe(1);
  });

  it('counts credits as totals, so that repeated and old grants do no harm', () => {
    const { credits } = make().session;
    expect(credits.canCall(1)).toBe(false);
    credits.allowed(2, 100);
    expect(credits.canCall(40)).toBe(true);
    credits.use(40);
    expect(credits.canCall(70)).toBe(false);
    credits.use(40);
    expect(credits.canCall(1)).toBe(false);
    credits.granted(4, 140);
    credits.granted(3, 120);
    expect(credits.canCall(60)).toBe(true);
    expect(credits.canCall(61)).toBe(false);
    credits.granted(4, 180);
    // Nothing is in progress: one that is larger than the window may go alone.
    expect(credits.canCall(1_000)).toBe(true);
  });

  it('gives credit back by the half window', () => {
    const { credits } = make().session;
    credits.allow(4, 1_000);
    credits.finished(1, 10);
    expect(credits.grantIsDue()).toBe(false);
    credits.finished(1, 10);
    expect(credits.grantIsDue()).toBe(true);
    expect(credits.grant()).toEqual({ calls: 6, bytes: 1_020 });
    expect(credits.grantIsDue()).toBe(false);
    expect(credits.inWindow(6, 1_020)).toBe(true);
    expect(credits.inWindow(7, 1_020)).toBe(false);
    expect(credits.inWindow(6, 1_021)).toBe(false);
  });

  it('gives credit back by the half window of bytes, too, for few calls that are large', () => {
    const { credits } = make().session;
    credits.allow(100, 1_000);
    expect([credits.wasTold(100), credits.wasTold(101)]).toEqual([true, false]);
    for (let round = 1; round <= 3; round++) {
      credits.finished(1, 499);
      expect(credits.grantIsDue()).toBe(false);
      credits.finished(1, 1);
      expect(credits.grantIsDue()).toBe(true);
      expect(credits.grant()).toEqual({ calls: 100 + 2 * round, bytes: 1_000 + 500 * round });
      expect([credits.wasTold(100 + 2 * round), credits.wasTold(101 + 2 * round)]).toEqual([true, false]);
    }
  });
});

describe('storages beside a session', () => {
  it('go piece by piece, small ones not behind large ones', () => {
    const { bodies } = make().session;
    const large = 20 * 1024 * 1024;
    bodies.send(1, [{ storage: 0, bytes: large, body: 'large' }]);
    bodies.send(2, [{ storage: 3, bytes: 150, body: 'small' }]);
    const order = [bodies.next(100), bodies.next(100), bodies.next(100), bodies.next(100)].map((chunk) => [
      chunk?.out.body,
      chunk?.offset,
      chunk?.bytes,
    ]);
    expect(order).toEqual([
      ['small', 0, 100],
      ['large', 0, 100],
      ['small', 100, 50],
      ['large', 100, 100],
    ]);
    expect(bodies.confirmed(2, 3)?.body).toBe('small');
    expect(bodies.confirmed(2, 3)).toBeUndefined();
    expect(bodies.drop(1).map(({ body }) => body)).toEqual(['large']);
    expect(bodies.next(100)).toBeUndefined();
    expect(bodies.pendingBytes).toBe(0);
  });

  it('are put together in order, and refused out of it', () => {
    const { bodies } = make().session;
    bodies.expect(5, [
      { storage: 0, bytes: 10 },
      { storage: 2, bytes: 5 },
    ]);
    expect(bodies.place(4, 0, 0, 1)).toBe('unknown');
    expect(bodies.place(5, 1, 0, 1)).toBe('wrong');
    expect(bodies.place(5, 0, 3, 1)).toBe('wrong');
    expect(bodies.place(5, 0, 0, 11)).toBe('wrong');
    const first = bodies.place(5, 0, 0, 10);
    if (typeof first === 'string') throw new Error(first);
    const before = bodies.progress;
    expect(bodies.landed(first, 10)).toBe(false);
    expect(bodies.progress - before).toBe(10);
    expect(bodies.positions()).toEqual([
      { seq: 5, storage: 0, bytes: 10 },
      { seq: 5, storage: 2, bytes: 0 },
    ]);
    const second = bodies.place(5, 2, 0, 5);
    if (typeof second === 'string') throw new Error(second);
    expect(bodies.landed(second, 5)).toBe(true);
    expect(bodies.positions()).toEqual([]);
  });

  it('are left to send as long as any is, whatever its size, and go once each after a reconnect', () => {
    for (const size of [150, 20 * 1024 * 1024]) {
      const { session } = make();
      const { bodies } = session;
      session.linkUp(NOTHING);
      send(session);
      bodies.send(1, [{ storage: 0, bytes: size, body: 'one' }]);
      expect(bodies.hasMore()).toBe(true);
      bodies.next(100);
      session.linkLost();
      session.linkUp({ received: 1, bodies: [{ seq: 1, storage: 0, bytes: 100 }] });
      expect(bodies.next(size)).toMatchObject({ offset: 100, bytes: size - 100 });
      expect([bodies.next(100), bodies.hasMore(), bodies.pendingBytes]).toEqual([undefined, false, size]);
    }
  });

  it('go on where the peer stands after a reconnect', () => {
    const { session } = make();
    const { bodies } = session;
    session.linkUp(NOTHING);
    for (const seq of [1, 2, 3]) {
      send(session);
      bodies.send(seq, [{ storage: 0, bytes: 100, body: `body ${seq}` }]);
      bodies.next(100);
    }
    session.linkLost();
    // It has frames 1 and 2: all of 1, half of 2. Frame 3 never came.
    session.linkUp({ received: 2, bodies: [{ seq: 2, storage: 0, bytes: 50 }] });
    expect(bodies.resumed.map(({ body }) => body)).toEqual(['body 1']);
    const next = [bodies.next(1_000), bodies.next(1_000), bodies.next(1_000)].map((chunk) => [
      chunk?.out.body,
      chunk?.offset,
    ]);
    expect(next).toEqual([
      ['body 2', 50],
      ['body 3', 0],
      [undefined, undefined],
    ]);
  });
});
