/** @file What the page is told, look after look, on looks that the test makes. */
import { describe, expect, it } from 'vitest';
import type { GroupLook, WorkerLook, WorkerReport } from '@backwire/rpc/internal';
import { History } from './history.ts';

interface Given {
  readonly sent?: number;
  readonly bytes?: number;
  readonly rrefs?: number;
  readonly recent?: WorkerReport['recent'];
  /** Calls, errors and milliseconds to the other worker. */
  readonly toOther?: readonly [number, number, number];
  /** Which life of the other worker the session is with. */
  readonly otherLife?: number;
  /** The time of the report, on its worker's clock. */
  readonly at?: number;
}

function report(
  name: string,
  id: number,
  { sent = 0, bytes = 0, rrefs = 0, recent = [], toOther, otherLife = 7, at = 0 }: Given,
): WorkerReport {
  const other = name === 'a' ? 'b' : 'a';
  const [calls = 0, errors = 0, totalMs = 0] = toOther ?? [];
  return {
    name,
    id,
    incarnation: 7,
    group: 'g',
    pid: 100 + id,
    host: 'h',
    node: 'v20',
    state: 'running',
    epoch: 1,
    at,
    upMs: 5_000,
    rssBytes: 1_000,
    heapBytes: 1_000,
    extensions: [],
    sessions: [
      {
        name: other,
        id: 1 - id,
        incarnation: otherLife,
        state: 'open',
        up: true,
        bytesSent: bytes,
        bytesReceived: 0,
        pendingBytes: 0,
        reconnects: 0,
        calls: { calls, errors, totalMs },
      },
    ],
    outgoing: { total: 0, calls: [] },
    incoming: { total: 0, queued: 0, calls: [] },
    metrics: {
      calls_sent: sent,
      calls_failed: 0,
      calls_handled: 0,
      calls_open: 0,
      handlers_running: 0,
      handlers_queued: 0,
      bytes_sent: bytes,
      bytes_received: 0,
      pending_bytes: 0,
      reconnects: 0,
      peers_up: 1,
      peers: [],
      extensions: { num_owner_rrefs: rrefs },
    },
    budgets: [],
    details: {},
    recent,
  };
}
const up = (name: string, id: number, given: Given = {}): WorkerLook => ({
  name,
  id,
  incarnation: 7,
  state: 'up',
  report: report(name, id, given),
});
const without = (name: string, id: number, state: 'silent' | 'dead' | 'left'): WorkerLook => ({
  name,
  id,
  incarnation: 7,
  state,
});
/** Reports that do not say when they were made were made at that time. */
const look = (at: number, ...workers: WorkerLook[]): GroupLook => ({
  group: 'g',
  at,
  epoch: 1,
  workers: workers.map((worker) =>
    worker.report?.at === 0 ? { ...worker, report: { ...worker.report, at } } : worker,
  ),
});

describe('a history', () => {
  it('makes rates of counters, over the time that really passed', () => {
    const history = new History(1_000);
    expect(history.add(look(0, up('a', 0, { sent: 100 }), up('b', 1))).totals).toMatchObject({ calls: 0, bytes: 0 });
    const snapshot = history.add(
      look(2_000, up('a', 0, { sent: 150, bytes: 4_000, toOther: [50, 2, 100] }), up('b', 1)),
    );
    expect(snapshot.totals).toMatchObject({ at: 2_000, calls: 25, bytes: 2_000, errors: 1 });
    expect(snapshot.links.find(({ from }) => from === 'a')).toMatchObject({
      to: 'b',
      calls: 25,
      errors: 1,
      bytes: 2_000,
      meanMs: 2,
    });
    expect(history.past.totals.map(({ calls }) => calls)).toEqual([0, 25]);
  });

  it('makes rates by the time between the reports, however long another worker held up the looks', () => {
    const history = new History(1_000);
    // The looks are over when whoever does not answer is given up; the reports were made at their beginning.
    history.add(look(1_000, up('a', 0, { sent: 100, at: 1_000 }), up('b', 1)));
    const slow = history.add(look(5_000, up('a', 0, { sent: 200, at: 2_000 }), without('b', 1, 'silent')));
    expect(slow.totals.calls).toBe(100);
    const quick = history.add(look(6_000, up('a', 0, { sent: 600, at: 6_000 }), up('b', 1)));
    expect(quick.totals.calls).toBe(100);
  });

  it('counts the calls to a worker that comes back from nothing', () => {
    const history = new History(1_000);
    history.add(look(1_000, up('a', 0), up('b', 1)));
    history.add(look(2_000, up('a', 0, { bytes: 900, toOther: [100, 0, 100] }), up('b', 1)));
    const again = up('a', 0, { bytes: 40, toOther: [4, 1, 8], otherLife: 8 });
    const [link] = history.add(look(3_000, again, { ...up('b', 1), incarnation: 8 })).links;
    expect(history.past.notes.map(({ kind, text }) => [kind, text])).toEqual([['lost', 'b ended and joined again']]);
    expect(link).toMatchObject({ from: 'a', to: 'b', calls: 4, errors: 1, bytes: 40, meanMs: 2 });
  });

  it('puts calls on the clock of whoever looks', () => {
    const history = new History(1_000);
    const call = { n: 1, to: 'b', method: 'f', kind: 'sync', startedAt: 40_000, durationMs: 1, error: 'peer-died' };
    const ahead = { ...up('a', 0, { recent: [call] }), clockAheadMs: 30_000 };
    const { calls, notes } = history.add(look(10_100, ahead));
    expect(calls.map(({ at }) => at)).toEqual([10_000]);
    expect(notes.map(({ at }) => at)).toEqual([10_001]);
  });

  it('does not take a worker that misses a look for an empty one', () => {
    const history = new History(1_000);
    history.add(look(0, up('a', 0, { sent: 10, rrefs: 4 })));
    const silent = history.add(look(1_000, without('a', 0, 'silent')));
    expect(silent.totals.rrefs).toBe(4);
    expect(silent.notes.map(({ kind, text }) => [kind, text])).toEqual([['lost', 'a does not answer']]);
    const back = history.add(look(5_000, up('a', 0, { sent: 60, rrefs: 4 })));
    expect(back.totals.calls).toBe(10);
    expect(back.notes.map(({ text }) => text)).toEqual(['a answers again']);
  });

  it('keeps whoever died on the page, red and with nothing, until it comes again', () => {
    const history = new History(1_000);
    history.add(look(0, up('a', 0), up('b', 1, { rrefs: 3 })));
    const dead = history.add(look(1_000, up('a', 0), without('b', 1, 'dead')));
    expect(dead.workers.map(({ name, state, rrefs }) => [name, state, rrefs])).toEqual([
      ['a', 'up', 0],
      ['b', 'dead', 0],
    ]);
    expect(dead.notes.map(({ text }) => text)).toEqual(['b died']);
    // The view has forgotten it.
    expect(history.add(look(2_000, up('a', 0))).workers.map(({ name }) => name)).toEqual(['a', 'b']);
    expect(history.add(look(3_000, up('a', 0), up('b', 1))).workers.map(({ state }) => state)).toEqual(['up', 'up']);
  });

  it('keeps so many of those who are gone, and those who died before those who left', () => {
    const history = new History(1_000);
    let shown = history.add(look(0, up('a', 0), without('dead', 1, 'dead')));
    for (let i = 1; i <= 1_000; i++) {
      shown = history.add(look(1_000 * i, up('a', 0), without(`w${i}`, i + 1, 'left')));
      expect(shown.workers.length).toBeLessThanOrEqual(101);
    }
    const names = shown.workers.map(({ name }) => name);
    expect(names.slice(0, 3)).toEqual(['a', 'dead', 'w902']);
    expect(names.at(-1)).toBe('w1000');
    for (let i = 1; i <= 200; i++) shown = history.add(look(2e6 + i, up('a', 0), without(`d${i}`, 5_000 + i, 'dead')));
    expect(shown.workers.map(({ name }) => name)).toEqual([
      'a',
      ...Array.from({ length: 100 }, (_, i) => `d${101 + i}`),
    ]);
    shown = history.add(look(2.5e6, up('a', 0), ...Array.from({ length: 9 }, (_, i) => without(`l${i}`, 1, 'left'))));
    expect(shown.workers).toHaveLength(101);
    expect(shown.workers.every(({ state }) => state !== 'left')).toBe(true);
    // A view remembers more than are shown; the same of them at every look.
    const departed = Array.from({ length: 256 }, (_, i) => without(`v${i}`, 6_000 + i, 'dead'));
    for (let at = 0; at < 3; at++) {
      shown = history.add(look(3e6 + at, up('a', 0), ...departed));
      expect(shown.workers.map(({ name }) => name)).toEqual(['a', ...departed.slice(-100).map(({ name }) => name)]);
    }
  });

  it('spreads the calls that it draws over all of the time, and shows the busiest ways', () => {
    const history = new History(1_000);
    const call = { to: 'w1', method: 'f', kind: 'sync', durationMs: 1 };
    const recent = Array.from({ length: 900 }, (_, i) => ({ ...call, n: i + 1, startedAt: i }));
    const names = Array.from({ length: 30 }, (_, i) => `w${i}`);
    const group = names.map((name, id) => {
      const worker = up(name, id, { recent: id === 0 ? recent : [] });
      const [session] = worker.report?.sessions ?? [];
      const sessions = names
        .map((to, i) => ({ ...session, name: to, calls: { calls: id + i, errors: 0, totalMs: 0 } }))
        .filter((_, i) => i !== id);
      return { ...worker, report: { ...worker.report, sessions } } as WorkerLook;
    });
    history.add(look(0, ...names.map((name, id) => up(name, id))));
    const { calls, callsLeftOut, links, linkCount } = history.add(look(1_000, ...group));
    expect([calls.length, callsLeftOut, links.length, linkCount]).toEqual([200, true, 300, 870]);
    for (let i = 1; i < calls.length; i++)
      expect((calls[i]?.at ?? 0) - (calls[i - 1]?.at ?? 0)).toBeGreaterThanOrEqual(4);
    expect(links[0]?.calls).toBe(57);
    expect(Math.min(...links.map((link) => link.calls))).toBeGreaterThan(30);
  });

  it('does not forget who died for many calls that fail', () => {
    const history = new History(1_000);
    history.add(look(0, up('a', 0), up('b', 1)));
    history.add(look(1_000, up('a', 0), without('b', 1, 'dead')));
    const failed = { to: 'b', method: 'f', kind: 'sync', durationMs: 1, error: 'peer-died' };
    const recent = Array.from({ length: 300 }, (_, i) => ({ ...failed, n: i + 1, startedAt: 2_000 + i }));
    history.add(look(3_000, up('a', 0, { recent })));
    expect(history.past.notes[0]).toEqual({ at: 1_000, kind: 'lost', text: 'b died' });
    expect(history.past.notes).toHaveLength(101);
  });

  it('notes failed calls by their code, and bounds what it keeps', () => {
    const history = new History(1_000);
    const recent = Array.from({ length: 300 }, (_, i) => ({
      n: i + 1,
      to: 'b',
      method: 'f',
      kind: 'sync',
      startedAt: i,
      durationMs: 1,
      ...(i % 2 === 0 ? {} : { error: 'peer-died' }),
    }));
    const snapshot = history.add(look(1_000, up('a', 0, { recent })));
    expect(snapshot).toMatchObject({ callsLeftOut: true, links: [], linkCount: 0 });
    expect(snapshot.calls).toHaveLength(200);
    expect(snapshot.notes).toHaveLength(100);
    expect(snapshot.notes.at(-1)).toEqual({ at: 300, kind: 'error', text: 'a → b f: peer-died' });
    expect(history.past.notes).toHaveLength(100);
    for (let i = 0; i < 400; i++) history.add(look(2_000 + i, up('a', 0)));
    expect(history.past.totals).toHaveLength(300);
  });
});
