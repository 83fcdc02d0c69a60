/** @file What makes one trace out of many, of traces that are as they should be and of others. */
import { describe, expect, it } from 'vitest';
import { chromeTrace } from './chrome-trace.ts';
import type { RecordedEvent } from './events.ts';
import { mergeChromeTraces } from './index.ts';

const merge = mergeChromeTraces as (traces: unknown) => unknown;
const BAR = { ph: 'X', name: 'x', cat: 'op', pid: 0, tid: 0, ts: 10, dur: 1 };

describe('merging', () => {
  it('takes a list of traces, and says which is none', () => {
    const profile = { events: () => [], keyAverages: () => '', toChromeTrace: () => ({ traceEvents: [] }) };
    const takes = 'mergeChromeTraces() takes a list of traces, as toChromeTrace() makes them';
    for (const [given, got] of [
      [undefined, '; got undefined'],
      [{ traceEvents: [] }, '; got an object of class Object'],
      ['[]', "; got '[]'"],
      [[{ traceEvents: [] }, profile], '; item 1 is a profile: give its toChromeTrace()'],
      [[JSON.stringify({ traceEvents: [] })], '; item 0 is \'{"traceEvents":[]}\': give what JSON.parse makes of it'],
      [[null], '; item 0 is null'],
      [[{ traceEvents: {} }], '; item 0 is an object of class Object'],
      [[[BAR]], '; item 0 is a list'],
    ] as const)
      expect(() => merge(given)).toThrow(new TypeError(`${takes}${got}`));
    expect(mergeChromeTraces([]).traceEvents).toEqual([]);
  });

  it('does not draw what has no place', () => {
    for (const [event, wrong] of [
      [null, 'is null'],
      [5, 'is 5'],
      [{ ...BAR, ts: '10' }, "has '10' for ts"],
      [{ ...BAR, ts: Number.NaN }, 'has NaN for ts'],
      [{ ...BAR, dur: undefined }, 'has undefined for dur'],
      [{ ...BAR, dur: -1 }, 'has -1 for dur'],
      [{ ...BAR, pid: 'Spans' }, "has 'Spans' for pid"],
    ] as const)
      expect(() => merge([{ traceEvents: [] }, { traceEvents: [BAR, event] }])).toThrow(
        new TypeError(`mergeChromeTraces(): event 1 of trace 1 ${wrong}`),
      );
  });

  it('leaves out what is neither a bar, an arrow nor the name of a worker', () => {
    const others = [{ ph: 'i', name: 'mark' }, { ph: 'C', name: 'counter', ts: 1 }, {}];
    expect(mergeChromeTraces([{ traceEvents: [BAR, ...others] }])).toEqual(mergeChromeTraces([{ traceEvents: [BAR] }]));
  });
});

interface Drawn {
  readonly ph: string;
  readonly id?: number;
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
}

/** Calls of worker 0 that begin as `calls` says, each with a handler that lasts for all of it. */
function called(calls: readonly (readonly [to: number, startUs: number, durationUs: number])[]): RecordedEvent[] {
  const event = { parent: -1, isRemote: false } as const;
  const made = calls.map(([to, startUs, durationUs]): RecordedEvent => {
    return { ...event, name: `to ${to}`, kind: 'rpc', node: 0, startUs, durationUs };
  });
  const handled = calls.map(([to, startUs, durationUs], parent): RecordedEvent => {
    return { ...event, name: `to ${to}`, kind: 'handler', node: to, isRemote: true, parent, startUs, durationUs };
  });
  return [...made, ...handled];
}

/** Where the request's arrows of a trace lead: 'from the bar's duration → to the worker'. */
function arrows(traceEvents: readonly object[]): string[] {
  const events = traceEvents as readonly Drawn[];
  const starts = events.filter(({ ph, name }) => ph === 's' && name === 'request');
  return starts.map(({ id }) => {
    const end = events.find((event) => event.ph === 'f' && event.id === id);
    return `${events.find((event) => event.ph === 's' && event.id === id)?.pid ?? ''} → ${end?.pid ?? ''}`;
  });
}

describe('arrows of a merged trace', () => {
  it('lead from each call to its own handler, also of calls that begin in the same moment', () => {
    // On a coarse clock, as browsers have, calls that are made one after the other begin together.
    const events = called([
      [1, 5, 100],
      [2, 5, 80],
      [3, 5, 80],
      [1, 5, 60],
      [1, 200, 0],
      [2, 200, 0],
    ]);
    const trace = chromeTrace([{ events, originUs: 1_760_000_000_000_000 }]);
    const expected = ['0 → 1', '0 → 2', '0 → 3', '0 → 1', '0 → 1', '0 → 2'];
    expect(arrows(trace.traceEvents)).toEqual(expected);
    const travelled = JSON.parse(JSON.stringify(trace)) as typeof trace;
    const merged = mergeChromeTraces([travelled, travelled]);
    expect(arrows(merged.traceEvents)).toEqual([...expected, ...expected]);
    expect(arrows(mergeChromeTraces([merged]).traceEvents)).toEqual([...expected, ...expected]);
  });

  it('are those of the trace when there is one alone, whatever is drawn', () => {
    let state = 3;
    const next = (below: number): number => (state = (state * 48_271) % 2_147_483_647) % below;
    for (let round = 0; round < 50; round++) {
      const calls = Array.from({ length: 40 }, () => [1 + next(3), 10 * next(8), 10 * next(6)] as const);
      const trace = chromeTrace([{ events: called(calls), originUs: 1_000 }]);
      // As a file of the trace has it.
      const travelled = JSON.parse(JSON.stringify(trace)) as typeof trace;
      expect(mergeChromeTraces([travelled]), `round ${round}`).toEqual(travelled);
    }
  });

  it('of a trace that does not number them are found by their places', () => {
    const trace = chromeTrace([
      {
        events: called([
          [1, 0, 10],
          [2, 20, 10],
        ]),
        originUs: 0,
      },
    ]);
    const bare = JSON.parse(JSON.stringify(trace).replaceAll(/"flow":\d+/g, '')) as typeof trace;
    expect(JSON.stringify(bare)).not.toContain('flow');
    expect(mergeChromeTraces([bare])).toEqual(trace);
  });
});

describe('events that are no events', () => {
  const merged = (event: object): object[] => mergeChromeTraces([{ traceEvents: [event] }]).traceEvents;

  it('of a worker without a number are refused by their place', () => {
    for (const pid of ['__proto__', {}, null, NaN])
      expect(() => merged({ ph: 'M', name: 'process_name', pid, args: { name: 'evil' } })).toThrow(
        /^mergeChromeTraces\(\): event 0 of trace 0 has .* for pid$/,
      );
  });

  it('that name it by no text, or lead nowhere, are left out', () => {
    for (const name of [{ toString: null }, 5, undefined])
      expect(merged({ ph: 'M', name: 'process_name', pid: 1, args: { name } })).toEqual([]);
    for (const pid of [{}, Symbol('x'), null]) expect(merged({ ph: 's', id: {}, name: 'request', pid })).toEqual([]);
  });
});
