/** @file Recording, merging and drawing, on a clock that the test moves. */
import { describe, expect, it } from 'vitest';
import { chromeTrace } from './chrome-trace.ts';
import { ClockBook } from './clock.ts';
import type { RecordedEvent } from './events.ts';
import { NO_EVENT, Recorder, type RecorderOptions } from './recorder.ts';
import { mergeChromeTraces } from './merged-trace.ts';
import { op } from '../test/recorded.ts';

class Clock {
  us = 1_000;
  readonly now = (): number => this.us;
}

function recorder(clock: Clock, options: Partial<RecorderOptions> = {}): Recorder {
  return new Recorder({ node: 0, nowUs: clock.now, ...options });
}

describe('Recorder', () => {
  it('times events from its own beginning', () => {
    const clock = new Clock();
    const r = recorder(clock);
    clock.us += 5;
    const a = r.begin('op', 'a', -1);
    clock.us += 7;
    r.end(a);
    r.end(a);
    expect(r.finish()).toEqual([op('a', 5, 7, -1, 0)]);
  });

  it('lets what has not ended last until the finish, and changes nothing afterwards', () => {
    const clock = new Clock();
    const r = recorder(clock);
    const a = r.begin('rpc', 'a', -1);
    clock.us += 9;
    const events = r.finish();
    expect(events[0]?.durationUs).toBe(9);
    clock.us += 9;
    r.end(a);
    expect(r.begin('op', 'late', -1)).toBe(NO_EVENT);
    expect(r.finish()).toBe(events);
  });

  it('keeps shapes and memory only when asked', () => {
    const clock = new Clock();
    let bytes = 100;
    const inputs = [{ shape: [2, 3] }, 4, [{ shape: [5] }, { shape: [] }]];
    const r = recorder(clock, { recordShapes: true, profileMemory: true, memoryBytes: () => bytes });
    const a = r.begin('op', 'a', -1, inputs);
    bytes += 24;
    r.end(a);
    expect(r.finish()[0]).toMatchObject({ shapes: [[2, 3], [5], []], bytes: 24 });
    const plain = recorder(clock);
    plain.end(plain.begin('op', 'a', -1, inputs));
    expect(plain.finish()[0]).not.toHaveProperty('shapes');
    expect(plain.finish()[0]).not.toHaveProperty('bytes');
  });

  it('stops at its bound and counts what is lost', () => {
    const r = recorder(new Clock(), { maxEvents: 2 });
    for (let i = 0; i < 5; i++) r.end(r.begin('op', 'x', -1));
    expect(r.finish()).toHaveLength(2);
    expect(r.dropped).toBe(3);
  });

  it('puts remote events into the middle of their call, under its key', () => {
    const clock = new Clock();
    const r = recorder(clock);
    const call = r.begin('rpc', 'rpc_sync#f(w0 -> w1)', -1);
    clock.us += 100;
    r.mergeRemote(call, {
      node: 1,
      handledUs: 60,
      dropped: 0,
      events: [op('aten::add', 10, 30), op('aten::copy', 12, 5, 0)],
    });
    r.end(call);
    const [local, handler, add, copy] = r.finish();
    expect(local).toMatchObject({ node: 0, isRemote: false, durationUs: 100 });
    expect(handler).toMatchObject({ kind: 'handler', node: 1, startUs: 20, durationUs: 60, parent: 0 });
    expect(add).toMatchObject({
      name: 'rpc_sync#f(w0 -> w1)#remote_op: aten::add',
      node: 1,
      isRemote: true,
      startUs: 30,
      parent: 1,
    });
    expect(copy).toMatchObject({ startUs: 32, parent: 2 });
  });

  it('nests keys over hops and keeps the node that ran the operation', () => {
    const clock = new Clock();
    const middle = recorder(clock, { node: 1 });
    const hop = middle.begin('rpc', 'rpc_sync#aten::mul(w1 -> w2)', -1);
    clock.us += 10;
    middle.mergeRemote(hop, { node: 2, handledUs: 5, dropped: 0, events: [op('aten::mul', 1, 2, -1, 2)] });
    middle.end(hop);
    const origin = recorder(clock);
    const call = origin.begin('rpc', 'rpc_sync#nested(w0 -> w1)', -1);
    clock.us += 30;
    origin.mergeRemote(call, { node: 1, handledUs: 20, dropped: 1, events: middle.finish() });
    origin.end(call);
    const shown = origin.finish().filter(({ kind }) => kind !== 'handler');
    expect(shown.map(({ name, node }) => [name, node])).toEqual([
      ['rpc_sync#nested(w0 -> w1)', 0],
      ['rpc_sync#nested(w0 -> w1)#remote_op: rpc_sync#aten::mul(w1 -> w2)', 1],
      ['rpc_sync#nested(w0 -> w1)#remote_op: rpc_sync#aten::mul(w1 -> w2)#remote_op: aten::mul', 2],
    ]);
    expect(origin.dropped).toBe(1);
  });

  it('does not believe that a peer had a call for longer than it took', () => {
    const clock = new Clock();
    const r = recorder(clock);
    const call = r.begin('rpc', 'k', -1);
    clock.us += 10;
    r.mergeRemote(call, { node: 1, handledUs: 1e9, dropped: 0, events: [] });
    expect(r.finish()[1]).toMatchObject({ startUs: 0, durationUs: 10 });
  });
});

describe('remote events of a clock that gets better known', () => {
  it('are all placed by what is known at the end, and the error that is told holds for all', () => {
    const clock = new Clock();
    const r = recorder(clock);
    const book = new ClockBook<string>();
    const skewUs = 5_000_000;
    const truth: number[] = [];
    const call = (thereUs: number, workUs: number, backUs: number): void => {
      const index = r.begin('rpc', 'k', -1);
      const sentUs = clock.us;
      clock.us += thereUs;
      const began = clock.us;
      truth.push(began - 1_000);
      clock.us += workUs + backUs;
      const otherUs = began + skewUs;
      const sample = { sentUs, otherUs, otherEndUs: otherUs + workUs, receivedUs: clock.us };
      const remote = { node: 1, handledUs: workUs, startedUs: otherUs, dropped: 0, events: [op('x', 1, 2)] };
      r.mergeRemote(index, remote, book.add('w1', sample));
      r.end(index);
    };
    // The first one waits for long at the other side before anybody there looks at it.
    call(800_000, 10, 50);
    for (let i = 0; i < 20; i++) call(60, 10, 50);
    const events = r.finish();
    const { offsetUs = 0, errorUs = 0 } = r.clocks.get(1) ?? {};
    expect(Math.abs(offsetUs - skewUs)).toBeLessThanOrEqual(errorUs);
    expect(errorUs).toBeLessThan(200);
    const handlers = events.filter(({ kind }) => kind === 'handler');
    expect(handlers).toHaveLength(truth.length);
    handlers.forEach(({ startUs }, i) => expect(Math.abs(startUs - (truth[i] ?? 0))).toBeLessThanOrEqual(errorUs));
    // What the handler did moves with it.
    expect(events[2]?.startUs).toBeCloseTo((handlers[0]?.startUs ?? 0) + 1);
  });
});

describe('remote events of a clock that is set in between', () => {
  it('are each placed by the clock of its time, and the error that is told holds for all', () => {
    const clock = new Clock();
    const r = recorder(clock);
    const book = new ClockBook<string>();
    const truth: number[] = [];
    for (const skewUs of [5_000_000, 5_000_000, -3_600_000_000]) {
      for (const thereUs of [2_000, 60]) {
        const index = r.begin('rpc', 'k', -1);
        const sentUs = clock.us;
        clock.us += thereUs;
        truth.push(clock.us - 1_000);
        const otherUs = clock.us + skewUs;
        clock.us += 60;
        const sample = { sentUs, otherUs, otherEndUs: otherUs + 10, receivedUs: clock.us };
        const remote = { node: 1, handledUs: 10, startedUs: otherUs, dropped: 0, events: [] };
        r.mergeRemote(index, remote, book.add('w1', sample));
        r.end(index);
        clock.us += 1_000;
      }
    }
    const handlers = r.finish().filter(({ kind }) => kind === 'handler');
    // Not in the middle of a call whose way there took a hundred times as long as the way back.
    handlers.forEach(({ startUs }, i) => expect(Math.abs(startUs - (truth[i] ?? 0))).toBeLessThanOrEqual(60));
    const { offsetUs = 0, errorUs = 0 } = r.clocks.get(1) ?? {};
    for (const skewUs of [5_000_000, -3_600_000_000]) expect(Math.abs(offsetUs - skewUs)).toBeLessThanOrEqual(errorUs);
  });

  it('count what it was set by once, however many calls it was set in the middle of', () => {
    const clock = new Clock();
    const r = recorder(clock);
    const book = new ClockBook<string>();
    // Long calls that began before, and short ones in between that began after: their answers come in turns.
    const sentUs = clock.us;
    const long = Array.from({ length: 20 }, () => r.begin('rpc', 'long', -1));
    const answer = (index: number, from: number, skewUs: number): void => {
      const sample = { sentUs: from, otherUs: from + 50 + skewUs, otherEndUs: clock.us - 50 + skewUs };
      const remote = { node: 1, handledUs: clock.us - from - 100, startedUs: sample.otherUs, dropped: 0, events: [] };
      r.mergeRemote(index, remote, book.add('w1', { ...sample, receivedUs: clock.us }));
      r.end(index);
    };
    for (const index of long) {
      const short = r.begin('rpc', 'short', -1);
      const from = clock.us;
      clock.us += 200;
      answer(short, from, 1_000_000);
      answer(index, sentUs, 0);
    }
    r.finish();
    const { offsetUs = 0, errorUs = Infinity } = r.clocks.get(1) ?? {};
    for (const skewUs of [0, 1_000_000]) expect(Math.abs(offsetUs - skewUs)).toBeLessThanOrEqual(errorUs);
    expect(errorUs).toBeLessThan(1_001_000);
  });
});

describe('remote events that say what cannot be', () => {
  it('stay inside of their call, whatever times they name', () => {
    for (const [startUs, durationUs] of [
      [-1e300, 5],
      [1e308, 1e308],
      [10, 1e9],
      [-50, 20],
    ] as const) {
      const clock = new Clock();
      const r = recorder(clock);
      const call = r.begin('rpc', 'k', -1);
      clock.us += 100;
      r.mergeRemote(call, { node: 1, handledUs: 60, dropped: 0, events: [op('x', startUs, durationUs)] });
      r.end(call);
      const [, handler, inside] = r.finish();
      expect(inside?.startUs).toBeGreaterThanOrEqual(handler?.startUs ?? Infinity);
      expect(inside?.durationUs).toBeGreaterThanOrEqual(0);
      expect((inside?.startUs ?? Infinity) + (inside?.durationUs ?? 0)).toBeLessThanOrEqual(80);
    }
  });
});

describe('a recorder inside another', () => {
  it('leaves it its events, its clocks and its losses', () => {
    const clock = new Clock();
    const outer = recorder(clock);
    const label = outer.begin('scope', 'label', -1);
    clock.us += 10;
    const inner = recorder(clock, { maxEvents: 3 });
    const call = inner.begin('rpc', 'k', -1);
    const sentUs = clock.us;
    clock.us += 100;
    const sample = { sentUs, otherUs: 9_020 + sentUs, otherEndUs: 9_080 + sentUs, receivedUs: clock.us };
    const remote = { node: 1, handledUs: 60, startedUs: sample.otherUs, dropped: 4, events: [op('x', 1, 2)] };
    inner.mergeRemote(call, remote, new ClockBook<string>().add('w1', sample));
    inner.end(call);
    expect(inner.begin('op', 'lost', -1)).toBe(NO_EVENT);
    inner.finish();
    outer.absorb(inner, label);
    const events = outer.finish();
    expect(outer.clocks).toEqual(inner.clocks);
    expect(outer.clocks.get(1)?.offsetUs).toBe(9_000);
    expect([inner.dropped, outer.dropped]).toEqual([5, 5]);
    expect(events.map(({ name, startUs, parent }) => [name, startUs, parent])).toEqual([
      ['label', 0, -1],
      ['k', 10, 0],
      ['k', 30, 1],
      ['k#remote_op: x', 31, 2],
    ]);
  });

  it('hands on what ends, and what begins, after it', () => {
    const clock = new Clock();
    const outermost = recorder(clock);
    const outer = recorder(clock);
    const inner = recorder(clock);
    const call = inner.begin('rpc', 'k', -1);
    clock.us += 5;
    expect(inner.finish()[0]?.durationUs).toBe(5);
    outer.absorb(inner, outer.begin('scope', 'label', -1));
    outer.finish();
    outermost.absorb(outer, -1);
    clock.us += 100;
    inner.mergeRemote(call, { node: 1, handledUs: 60, dropped: 0, events: [] });
    inner.end(call);
    inner.end(inner.begin('op', 'late', call));
    clock.us += 100;
    expect(outermost.finish().map(({ name, durationUs, parent }) => [name, durationUs, parent])).toEqual([
      ['label', 200, -1],
      ['k', 105, 0],
      ['k', 60, 1],
      ['late', 0, 1],
    ]);
    expect(inner.finish()).toHaveLength(1);
  });

  it('that does not fit hands on nothing wrong', () => {
    const clock = new Clock();
    const outer = recorder(clock, { maxEvents: 2 });
    const inner = recorder(clock);
    const [, , third = -1] = ['a', 'b', 'c'].map((name) => inner.begin('op', name, -1));
    inner.finish();
    outer.absorb(inner, -1);
    clock.us += 7;
    inner.end(third);
    expect(inner.begin('op', 'd', third)).toBe(NO_EVENT);
    expect(outer.finish().map(({ name, durationUs }) => [name, durationUs])).toEqual([
      ['a', 7],
      ['b', 7],
    ]);
    expect(outer.dropped).toBe(2);
  });
});

interface TraceEvent {
  readonly ph: string;
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
  readonly id?: number;
  readonly args?: { readonly name?: string };
}

describe('chromeTrace', () => {
  it('has a row per worker and arrows from a call to its handler and back', () => {
    const clock = new Clock();
    const r = recorder(clock);
    const call = r.begin('rpc', 'k', -1);
    clock.us += 100;
    r.mergeRemote(call, { node: 1, handledUs: 60, dropped: 0, events: [op('aten::add', 10, 30)] });
    r.end(call);
    const names = new Map([
      [0, 'w0'],
      [1, 'w1'],
    ]);
    const events = chromeTrace([{ events: r.finish(), originUs: 5_000, names }]).traceEvents as TraceEvent[];
    expect(events.filter(({ name }) => name === 'process_name').map(({ pid, args }) => [pid, args?.name])).toEqual([
      [0, 'w0'],
      [1, 'w1'],
    ]);
    expect(events.find(({ ph }) => ph === 's')).toMatchObject({ pid: 0, ts: 5_000, id: 1 });
    expect(events.find(({ ph }) => ph === 'f')).toMatchObject({ pid: 1, ts: 5_020, id: 1, bp: 'e' });
    expect(events.findLast(({ ph }) => ph === 's')).toMatchObject({ pid: 1, id: 2, name: 'response' });
    expect(events.findLast(({ ph }) => ph === 'f')).toMatchObject({ pid: 0, id: 2, name: 'response', bp: 'e' });
    expect(events.findLast(({ ph }) => ph === 's')?.ts).toBeCloseTo(5_080, 0);
    expect(events.findLast(({ ph }) => ph === 'f')?.ts).toBeCloseTo(5_100, 0);
    expect(events.filter(({ ph }) => ph === 'X')).toHaveLength(3);
  });

  it('never has an arrow run backwards, however short the handler and however long the call', () => {
    for (const [callUs, beganUs, handledUs] of [
      [2_000_200, 2_000_000, 100],
      [2_000_200, 1_000_000, 1_000_000],
      [100, 100, 0],
      [100, 0, 100],
      [8_000_000, 0, 10],
    ] as const) {
      const events = [
        { ...op('k', 0, callUs, -1, 0), kind: 'rpc' as const },
        { ...op('k', beganUs, handledUs, 0, 1), kind: 'handler' as const, isRemote: true },
      ];
      const drawn = chromeTrace([{ events, originUs: 1_760_000_000_000_000 }]).traceEvents as TraceEvent[];
      const bars = drawn.filter(({ ph }) => ph === 'X');
      const ends = drawn.filter(({ ph }) => ph === 's' || ph === 'f');
      expect(ends.map(({ ph, id }) => `${ph}${id ?? ''}`)).toEqual(['s1', 'f1', 's2', 'f2']);
      expect(ends[1]?.ts).toBeGreaterThanOrEqual(ends[0]?.ts ?? Infinity);
      expect(ends[3]?.ts).toBeGreaterThanOrEqual(ends[2]?.ts ?? Infinity);
      for (const { pid, ts } of ends)
        expect(bars.some((bar) => bar.pid === pid && bar.ts <= ts && ts <= bar.ts + bar.dur)).toBe(true);
    }
  });

  it('merges the traces of many workers: arrows keep their ends, lanes are laid anew', () => {
    const one = (caller: number, start: number) => {
      const clock = new Clock();
      const r = recorder(clock, { node: caller });
      const call = r.begin('rpc', `from ${caller}`, -1);
      clock.us += 100;
      r.mergeRemote(call, { node: 9, handledUs: 60, dropped: 0, events: [op('aten::add', 10, 30, -1, 9)] });
      r.end(call);
      return chromeTrace([{ events: r.finish(), originUs: start, names: new Map([[caller, `w${caller}`]]) }]);
    };
    const travelled = JSON.parse(JSON.stringify([one(0, 5_000), one(1, 5_030)])) as { traceEvents: object[] }[];
    const events = mergeChromeTraces(travelled).traceEvents as TraceEvent[];
    const arrows = events
      .filter(({ ph }) => ph === 's' || ph === 'f')
      .map(({ ph, id, pid, tid, ts }) => [ph, id, pid, tid, Math.round(ts)]);
    expect(arrows).toEqual([
      ['s', 1, 0, 0, 5_000],
      ['f', 1, 9, 0, 5_020],
      ['s', 2, 9, 0, 5_080],
      ['f', 2, 0, 0, 5_100],
      ['s', 3, 1, 0, 5_030],
      ['f', 3, 9, 1, 5_050],
      ['s', 4, 9, 1, 5_110],
      ['f', 4, 1, 0, 5_130],
    ]);
    expect(events.filter(({ ph }) => ph === 'X')).toHaveLength(6);
    expect(events.filter(({ name }) => name === 'process_name').map(({ args }) => args?.name)).toEqual([
      'w0',
      'w1',
      'worker 9',
    ]);
  });

  it('never lets events cross on a lane', () => {
    let seed = 7;
    const next = (): number => (seed = (seed * 48_271) % 2_147_483_647);
    const events = Array.from({ length: 300 }, (_, i) => op(`e${i}`, next() % 1_000, next() % 200, -1, next() % 3));
    const drawn = (chromeTrace([{ events, originUs: 0 }]).traceEvents as TraceEvent[]).filter(({ ph }) => ph === 'X');
    expect(drawn).toHaveLength(300);
    for (const a of drawn) {
      for (const b of drawn) {
        if (a === b || a.pid !== b.pid || a.tid !== b.tid || a.ts > b.ts) continue;
        const beside = a.ts + a.dur <= b.ts;
        const inside = b.ts + b.dur <= a.ts + a.dur || (a.ts === b.ts && a.dur <= b.dur);
        expect(beside || inside, `${a.name} and ${b.name}`).toBe(true);
      }
    }
  });

  it('has what runs one after the other on one lane, whatever the date', () => {
    const originUs = 1_790_000_000_000_000.25;
    const events: RecordedEvent[] = [];
    // The times of a call inside a call inside a call, again and again, in steps of the clock.
    for (let i = 0, us = 0; i < 1_000; i++) {
      const starts = [us, us + 0.37, us + 0.55];
      const ends = [us + 3.13, us + 3.02, us + 2.91];
      starts.forEach((start, depth) =>
        events.push(op(`e${i}.${depth}`, start, (ends[depth] ?? 0) - start, depth === 0 ? -1 : events.length - 1)),
      );
      us += 3.21;
    }
    const trace = chromeTrace([{ events, originUs }]);
    const clocks = { reference: 0, workers: { 1: { offsetUs: 1_000.3, errorUs: 1 } } };
    const other = { ...trace, otherData: { backwire: { reference: 1, workers: {} } } };
    const first = { traceEvents: [], otherData: { backwire: clocks } };
    for (const { traceEvents } of [trace, mergeChromeTraces([trace]), mergeChromeTraces([first, other])]) {
      const drawn = (traceEvents as TraceEvent[]).filter(({ ph }) => ph === 'X');
      expect(drawn).toHaveLength(3_000);
      expect(drawn.filter(({ tid }) => tid !== 0)).toEqual([]);
      for (const [i, { ts, dur }] of drawn.entries()) {
        expect(Math.abs(dur - (events[i]?.durationUs ?? 0))).toBeLessThanOrEqual(0.5);
        const outer = drawn[events[i]?.parent ?? -1];
        if (outer !== undefined) expect(ts >= outer.ts && ts + dur <= outer.ts + outer.dur).toBe(true);
      }
    }
  });
});
