/** @file What makes one trace out of many, of traces that are as they should be and of others. */
import { describe, expect, it } from 'vitest';
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
