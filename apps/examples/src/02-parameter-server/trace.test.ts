/** @file The trace of the main job with `--profile`: a backward pass goes over to the server and back, in order, on clocks that are set. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

interface Bar {
  readonly name: string;
  readonly cat: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
}
interface Flow extends Omit<Bar, 'dur'> {
  readonly ph: 's' | 'f';
  readonly id: number;
}
interface Trace {
  readonly traceEvents: readonly (Bar & {
    readonly ph: string;
    readonly id?: number;
    readonly args?: { name?: string };
  })[];
  readonly otherData: {
    readonly backwire: {
      readonly reference: number;
      readonly workers: Readonly<Record<string, { readonly offsetUs: number; readonly errorUs: number | null }>>;
    };
  };
}
/** An arrow: where it leaves and where it arrives. */
interface Arrow {
  readonly from: Flow;
  readonly to: Flow;
}

const COORDINATOR = 0;
const SERVER = 1;
const TRAINER = 2;
/** Times are sums of microseconds since 1970 in doubles: a quarter of one is as fine as they get. */
const ROUNDING = 1;

describe('the trace of a profiled run', { timeout: 90_000 }, () => {
  let out: string;
  let trace: Trace;
  let bars: Bar[];
  let arrows: Arrow[];

  beforeAll(async () => {
    out = mkdtempSync(join(tmpdir(), 'backwire-trace-'));
    const main = join(import.meta.dirname, 'main.ts');
    const flags = ['--limit', '320', '--epochs', '1', '--trainers', '1', '--profile', '--out', out];
    const child = spawn(process.execPath, ['--import', 'tsx', '--conditions=@backwire/source', main, ...flags], {
      stdio: 'ignore',
    });
    const [code] = (await once(child, 'close')) as [number | null];
    expect(code).toBe(0);
    trace = JSON.parse(readFileSync(join(out, 'trace.json'), 'utf8')) as Trace;
    bars = trace.traceEvents.filter(({ ph }) => ph === 'X');
    const flows = trace.traceEvents.filter(({ ph }) => ph === 's' || ph === 'f') as unknown as Flow[];
    const ends = new Map(flows.filter(({ ph }) => ph === 'f').map((flow) => [flow.id, flow]));
    arrows = flows.filter(({ ph }) => ph === 's').map((from) => ({ from, to: ends.get(from.id) as Flow }));
  }, 90_000);
  afterAll(() => rmSync(out, { recursive: true, force: true }));

  const isIn = (inner: { ts: number; dur?: number }, outer: Bar): boolean =>
    inner.ts >= outer.ts - ROUNDING && inner.ts + (inner.dur ?? 0) <= outer.ts + outer.dur + ROUNDING;
  /** The bar that an end of an arrow belongs to: the one that begins or ends there, on its lane. */
  const barAt = (flow: Flow, name: string): Bar => {
    const found = bars.filter(
      (bar) => bar.pid === flow.pid && bar.tid === flow.tid && bar.name === name && isIn(flow, bar),
    );
    expect(found.length, `${name} at ${flow.ts}`).toBeGreaterThan(0);
    return found[0] as Bar;
  };

  it('has a row for every worker', () => {
    const rows = trace.traceEvents.filter(({ ph, name }) => ph === 'M' && name === 'process_name');
    expect(rows.map(({ pid, args }) => [pid, args?.name])).toEqual([
      [COORDINATOR, 'coordinator'],
      [SERVER, 'server'],
      [TRAINER, 'trainer0'],
    ]);
  });

  it('nests: two bars of a lane lie inside or beside each other', () => {
    const lanes = groupBy(bars);
    expect(lanes.size).toBeGreaterThan(2);
    for (const lane of lanes.values()) {
      const open: Bar[] = [];
      for (const bar of [...lane].sort((a, b) => a.ts - b.ts || b.dur - a.dur)) {
        while (open.length > 0 && (open.at(-1) as Bar).ts + (open.at(-1) as Bar).dur <= bar.ts + ROUNDING) open.pop();
        const outer = open.at(-1);
        if (outer !== undefined) expect(isIn(bar, outer), `${bar.name} in ${outer.name}`).toBe(true);
        open.push(bar);
      }
    }
  });

  it('leads from every backward of the trainer to the server and back, before the step of the optimizer', () => {
    const labels = bars.filter(({ name, cat, pid }) => name === 'backward' && cat === 'scope' && pid === TRAINER);
    const steps = bars.filter(({ name, cat, pid }) => name === 'step' && cat === 'scope' && pid === TRAINER);
    expect(labels.length).toBeGreaterThan(1);
    expect(steps).toHaveLength(labels.length);
    const key = 'rpc_other#backward(trainer0 -> server)';
    for (const label of labels) {
      const calls = bars.filter((bar) => bar.name === key && bar.pid === TRAINER && isIn(bar, label));
      expect(calls.length).toBeGreaterThan(0);
      for (const call of calls) {
        const there = arrows.find(
          ({ from }) => from.name === 'request' && from.pid === TRAINER && from.tid === call.tid && from.ts === call.ts,
        );
        expect(there?.to.pid).toBe(SERVER);
        const handler = barAt(there?.to as Flow, key);
        const back = arrows.find(
          ({ from, to }) =>
            from.name === 'response' &&
            from.pid === SERVER &&
            from.tid === handler.tid &&
            isIn(from, handler) &&
            to.pid === TRAINER &&
            to.tid === call.tid &&
            isIn(to, call),
        );
        // There, some work, and back, in this order.
        const times = [there?.from.ts, there?.to.ts, back?.from.ts, back?.to.ts] as number[];
        expect(times).toEqual([...times].sort((a, b) => a - b));
        expect(isIn(handler, call)).toBe(true);
      }
      const next = steps.find(({ ts }) => ts >= label.ts + label.dur - ROUNDING);
      expect(next).toBeDefined();
    }
    // On the server the gradient goes through the model: its functions are inside of what the trainer's pass asked for.
    const handlers = bars.filter(({ name, pid }) => name === key && pid === SERVER);
    const functions = bars.filter(({ name, pid }) => pid === SERVER && name === 'ReluBackward0');
    expect(functions.length).toBeGreaterThan(0);
    for (const fn of functions) expect(handlers.some((handler) => isIn(fn, handler))).toBe(true);
  });

  it('never lets an arrow arrive before it leaves, and every arrow to another worker has one back', () => {
    expect(arrows.length).toBeGreaterThan(10);
    for (const { from, to } of arrows) {
      expect(to).toBeDefined();
      expect(to.ts).toBeGreaterThanOrEqual(from.ts - ROUNDING);
    }
    const count = (name: string): number => arrows.filter(({ from }) => from.name === name).length;
    expect(count('response')).toBe(count('request'));
  });

  it('says by whose clock it is, and how wrong the others may be', () => {
    const { reference, workers } = trace.otherData.backwire;
    expect(reference).toBe(COORDINATOR);
    expect(Object.keys(workers)).toEqual(['0', '1', '2']);
    for (const { offsetUs, errorUs } of Object.values(workers)) {
      expect(errorUs).not.toBeNull();
      // All on one host: their clocks agree, and the estimate has to admit that. The time of day of two processes differs a little.
      expect(Math.abs(offsetUs)).toBeLessThanOrEqual((errorUs ?? 0) + 5_000);
    }
  });
});

function groupBy(bars: readonly Bar[]): Map<string, Bar[]> {
  const lanes = new Map<string, Bar[]>();
  for (const bar of bars) lanes.set(`${bar.pid} ${bar.tid}`, [...(lanes.get(`${bar.pid} ${bar.tid}`) ?? []), bar]);
  return lanes;
}
