/** @file Clocks that differ: how far is told within the stated error, and traces of many workers come out in order. */
import { afterEach, describe, expect, it } from 'vitest';
import { ones, type Tensor } from '@backwire/tensor';
import { createAgent, rpcFunction, rpcSync, type RpcAgent } from '@backwire/rpc';
import { mergeChromeTraces, profile, recordFunction, type ChromeTrace } from './index.ts';
import { alignClocks, ClockBook, clockOffset } from './clock.ts';
import type { WorkerClock } from './now.ts';
import { profilingWithClock } from './profiling.ts';

/** A process clock that is wrong by `skewUs`, and gains `drift` microseconds a microsecond. */
function skewed(skewUs: number, drift = 0): WorkerClock {
  const began = performance.now() * 1000;
  return {
    nowUs: () => performance.now() * 1000,
    epochUs: (us) => performance.timeOrigin * 1000 + us + skewUs + (us - began) * drift,
  };
}

/** A reproducible source of numbers from 0 to 1. */
function random(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

describe('an offset', () => {
  it('comes from the quickest answer', () => {
    const samples = [
      { sentUs: 0, otherUs: 1_500, receivedUs: 100 },
      { sentUs: 200, otherUs: 1_210, receivedUs: 220 },
      { sentUs: 300, otherUs: 1_900, receivedUs: 900 },
    ];
    expect(clockOffset(samples)).toEqual({ offsetUs: 1_000, errorUs: 10 });
    expect(() => clockOffset([])).toThrow(RangeError);
  });

  it('does not count what the other side took for itself', () => {
    // 10 there, 500 of work, 30 back; the other clock is 7000 ahead.
    expect(clockOffset([{ sentUs: 100, otherUs: 7_110, otherEndUs: 7_610, receivedUs: 640 }])).toEqual({
      offsetUs: 6_990,
      errorUs: 20,
    });
  });

  it('is never further from the truth than it says, whatever the ways take and however clocks drift', () => {
    const next = random(11);
    for (let round = 0; round < 300; round++) {
      const skew = (next() - 0.5) * 1e9;
      const drift = (next() - 0.5) * 1e-4;
      const there = (at: number): number => at * (1 + drift) + skew;
      const book = new ClockBook<string>();
      let now = next() * 1e6;
      for (let call = 0; call < 20; call++) {
        const sentUs = now;
        const reached = sentUs + next() ** 4 * 50_000;
        const left = reached + next() * 20_000;
        now = left + next() ** 4 * 50_000;
        book.add('w1', { sentUs, otherUs: there(reached), otherEndUs: there(left), receivedUs: now });
        const known = book.at('w1', now);
        if (known === undefined) throw new Error('a sample was lost');
        // Rounding of numbers of 1e15 microseconds and the drift during one call are below a microsecond or two.
        expect(Math.abs(known.offsetUs - (there(now) - now))).toBeLessThanOrEqual(known.errorUs + 2);
        now += next() * 1e7;
      }
    }
  });

  it('is not believed of an answer that took longer than the question was away', () => {
    // Half an hour of work in an answer that was here after 100 µs: the clock is broken, or the worker lies. It was the surest of all.
    const impossible = { sentUs: 1_000, otherUs: 5_000, otherEndUs: 1.8e9, receivedUs: 1_100 };
    const backwards = { sentUs: 1_000, otherUs: 5_000, otherEndUs: 4_000, receivedUs: 1_100 };
    const endless = { sentUs: 1_000, otherUs: 1e308, otherEndUs: Infinity, receivedUs: 1_100 };
    for (const sample of [impossible, backwards, endless]) {
      const book = new ClockBook<string>();
      expect(book.add('w1', sample)).toBeUndefined();
      expect(book.at('w1', 2_000)).toBeUndefined();
      book.add('w1', { sentUs: 2_000, otherUs: 7_010, receivedUs: 2_020 });
      expect(book.add('w1', sample)?.at(2_020).offsetUs).toBe(5_000);
    }
    // A little is what rounding and drift do.
    const book = new ClockBook<string>();
    const now = 1_760_000_000_000_000;
    expect(
      book.add('w1', { sentUs: now, otherUs: now, otherEndUs: now + 100.25, receivedUs: now + 100 }),
    ).toBeDefined();
  });

  it('is given up when an answer says that it cannot be any more: a clock was set, or another machine has the name', () => {
    const book = new ClockBook<string>();
    const before = book.add('w1', { sentUs: 0, otherUs: 105, receivedUs: 10 });
    // An hour later, and by a slow answer, which alone would never replace so sure an estimate.
    const after = book.add('w1', { sentUs: 1e6, otherUs: 3.6e9 + 1e6 + 400, receivedUs: 1e6 + 1_000 });
    expect(after?.at(1e6 + 1_000).offsetUs).toBeCloseTo(3.6e9 - 100, 0);
    expect(after?.at(1e6 + 1_000).errorUs).toBeCloseTo(500, 0);
    // What happened before is still by the clock of then.
    expect(before?.at(10).offsetUs).toBe(100);
    // A slow answer that does not contradict changes nothing.
    book.add('w1', { sentUs: 2e6, otherUs: 3.6e9 + 2e6 + 3_000, receivedUs: 2e6 + 20_000 });
    expect(book.at('w1', 2e6)?.offsetUs).toBeCloseTo(3.6e9 - 100, 0);
  });

  it('is within its error again after the first answer, whenever and however far the other clock is set', () => {
    const next = random(23);
    for (let round = 0; round < 300; round++) {
      let skew = (next() - 0.5) * 1e10;
      const book = new ClockBook<string>();
      let now = next() * 1e6;
      for (let call = 0; call < 30; call++) {
        if (next() < 0.2) skew += (next() - 0.5) * 10 ** (next() * 10);
        const sentUs = now;
        const reached = sentUs + next() ** 4 * 50_000;
        const left = reached + next() * 20_000;
        now = left + next() ** 4 * 50_000;
        // From time to time one that cannot be.
        if (next() < 0.1)
          book.add('w1', { sentUs, otherUs: reached - skew, otherEndUs: left - skew + 1e6, receivedUs: now });
        const known = book
          .add('w1', { sentUs, otherUs: reached + skew, otherEndUs: left + skew, receivedUs: now })
          ?.at(now);
        // Two answers that do not contradict each other may both be of before and after: then both errors hold it together.
        expect(Math.abs((known?.offsetUs ?? Infinity) - skew)).toBeLessThanOrEqual(
          (known?.errorUs ?? 0) + (now - sentUs) + 2,
        );
        now += next() * 1e7;
      }
    }
  });

  it('gets less sure with age, until a new answer says more', () => {
    const book = new ClockBook<string>();
    book.add('w1', { sentUs: 0, otherUs: 105, receivedUs: 10 });
    expect(book.at('w1', 10)?.offsetUs).toBe(100);
    expect(book.at('w1', 10)?.errorUs).toBeCloseTo(5);
    expect(book.at('w1', 1_000_010)?.errorUs).toBeCloseTo(105);
    book.add('w1', { sentUs: 1_000_000, otherUs: 1_000_150, receivedUs: 1_000_100 });
    expect(book.at('w1', 1_000_100)?.offsetUs).toBe(100);
    expect(book.at('w1', 1_000_100)?.errorUs).toBeCloseTo(50, 1);
    book.forget('w1');
    expect(book.at('w1', 0)).toBeUndefined();
  });

  it('goes over other workers, the surest way', () => {
    const aligned = alignClocks(0, [
      { from: 0, to: 1, offsetUs: 100, errorUs: 50 },
      { from: 2, to: 0, offsetUs: -30, errorUs: 5 },
      { from: 2, to: 1, offsetUs: 60, errorUs: 10 },
      { from: 7, to: 8, offsetUs: 1, errorUs: 1 },
    ]);
    expect(Object.fromEntries(aligned)).toEqual({
      0: { offsetUs: 0, errorUs: 0 },
      1: { offsetUs: 90, errorUs: 15 },
      2: { offsetUs: 30, errorUs: 5 },
    });
  });
});

const step = rpcFunction('clock.test/step', (x: Tensor) => recordFunction('on the server', () => x.add(1)));
const relay = rpcFunction('clock.test/relay', (x: Tensor) => rpcSync('w1', step, [x]));
/** Profiles a call on whatever worker it is called. */
const profiled = rpcFunction('clock.test/profiled', async (label: string) => {
  const { profile: found } = await profile(() => recordFunction(label, () => rpcSync('w1', step, [ones([8])])));
  return JSON.stringify(found.toChromeTrace());
});

const agents: RpcAgent[] = [];
afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown()));
});
let groups = 0;
async function group(clocks: readonly WorkerClock[]): Promise<void> {
  const store = `memory://clock-test-${++groups}`;
  agents.push(
    ...(await Promise.all(
      clocks.map((clock, rank) =>
        createAgent({
          name: `w${rank}`,
          rank,
          worldSize: clocks.length,
          store,
          extensions: [profilingWithClock(clock)],
        }),
      ),
    )),
  );
}

interface Bar {
  readonly ph: string;
  readonly name: string;
  readonly cat: string;
  readonly pid: number;
  readonly ts: number;
  readonly dur: number;
}
const bars = (trace: ChromeTrace): Bar[] => (trace.traceEvents as Bar[]).filter(({ ph }) => ph === 'X');

describe('a profile over clocks that differ', () => {
  it('has what other workers did inside the calls, and says how wrong their clocks are', async () => {
    await group([skewed(0), skewed(5_000_000), skewed(-3_600_000_000, 5e-5)]);
    const { profile: found } = await (agents[0] as RpcAgent).run(() =>
      profile(async () => {
        for (let i = 0; i < 3; i++) {
          await rpcSync('w1', step, [ones([4])]);
          await rpcSync('w2', relay, [ones([4])]);
        }
      }),
    );
    const trace = found.toChromeTrace() as ChromeTrace;
    const clocks = trace.otherData?.backwire;
    expect(clocks?.reference).toBe(0);
    expect(clocks?.workers['0']).toEqual({ offsetUs: 0, errorUs: 0 });
    for (const [id, truth] of [
      ['1', 5_000_000],
      ['2', -3_600_000_000],
    ] as const) {
      const { offsetUs = 0, errorUs } = clocks?.workers[id] ?? {};
      expect(errorUs).toBeLessThan(1_000_000);
      // 5e-5 of the seconds that a test lasts, besides.
      expect(Math.abs(offsetUs - truth)).toBeLessThan((errorUs ?? 0) + 2_000);
    }
    const all = bars(trace);
    const inside = (inner: Bar, outer: Bar): boolean =>
      inner.ts >= outer.ts - 1 && inner.ts + inner.dur <= outer.ts + outer.dur + 1;
    for (const bar of all.filter(({ pid }) => pid === 1))
      expect(all.some((outer) => outer.pid !== 1 && outer.cat === 'rpc' && inside(bar, outer))).toBe(true);
  });

  it('merges with the profiles of others in the order things happened', async () => {
    const skews = [0, 40_000_000, -20_000_000, 90_000_000];
    await group(skews.map((skew) => skewed(skew)));
    const traces: ChromeTrace[] = [];
    const labels: string[] = [];
    // One after the other, so that their order is known; every clock says something else about it.
    await (agents[0] as RpcAgent).run(async () => {
      for (let round = 0; round < 3; round++) {
        for (const to of ['w2', 'w0', 'w3']) {
          labels.push(`${round} on ${to}`);
          traces.push(JSON.parse(await rpcSync(to, profiled, [labels.at(-1) ?? ''])) as ChromeTrace);
          // Further apart than the error may be.
          await new Promise((done) => setTimeout(done, 30));
        }
      }
    });
    const merged = mergeChromeTraces(traces);
    const clocks = merged.otherData?.backwire;
    expect(clocks?.reference).toBe(2);
    for (const [id, skew] of skews.entries()) {
      const { offsetUs = 0, errorUs } = clocks?.workers[id] ?? {};
      expect(errorUs).not.toBeNull();
      expect(Math.abs(offsetUs - (skew - (skews[2] ?? 0)))).toBeLessThanOrEqual((errorUs ?? 0) + 2);
    }
    const began = bars(merged)
      .filter(({ name }) => labels.includes(name))
      .sort((a, b) => a.ts - b.ts);
    const worst = Math.max(...Object.values(clocks?.workers ?? {}).map(({ errorUs }) => errorUs ?? 0));
    if (worst < 15_000) expect(began.map(({ name }) => name)).toEqual(labels);
    else expect(began).toHaveLength(labels.length);
    // Without the offsets they would lie tens of seconds apart.
    expect((began.at(-1)?.ts ?? 0) - (began[0]?.ts ?? 0)).toBeLessThan(15_000_000);
  });

  it('takes clocks that no call compared to agree, and says so', () => {
    const alone = (reference: number): ChromeTrace => ({
      traceEvents: [{ ph: 'X', name: 'x', cat: 'op', pid: reference, tid: 0, ts: 10, dur: 1 }],
      otherData: { backwire: { reference, workers: { [reference]: { offsetUs: 0, errorUs: 0 } } } },
    });
    const merged = mergeChromeTraces([alone(0), alone(1)]);
    expect(merged.otherData?.backwire.workers).toEqual({
      0: { offsetUs: 0, errorUs: 0 },
      1: { offsetUs: 0, errorUs: null },
    });
    expect(bars(merged).map(({ ts }) => ts)).toEqual([10, 10]);
  });

  it('does not trust an error that is below nothing', () => {
    const bar = { ph: 'X', name: 'x', cat: 'op', pid: 0, tid: 0, ts: 10, dur: 1 };
    const workers = {
      1: { offsetUs: 5, errorUs: -1 },
      1.5: { offsetUs: 5, errorUs: 1 },
      x: { offsetUs: 5, errorUs: 1 },
    };
    const trace = { traceEvents: [bar, { ...bar, pid: 1 }], otherData: { backwire: { reference: 0, workers } } };
    expect(mergeChromeTraces([trace]).otherData?.backwire.workers).toEqual({
      0: { offsetUs: 0, errorUs: 0 },
      1: { offsetUs: 0, errorUs: null },
    });
  });

  it('does not trust what a trace says of itself further than it is numbers', () => {
    const odd = [
      { traceEvents: [], otherData: null },
      { traceEvents: [], otherData: { backwire: { reference: 'x', workers: 3 } } },
      { traceEvents: [], otherData: { backwire: { reference: 1, workers: { 2: null, 3: { offsetUs: 'y' } } } } },
    ];
    expect(mergeChromeTraces(odd).traceEvents).toEqual([]);
  });
});
