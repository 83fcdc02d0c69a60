/** @file Profiles as Chrome trace events: one process row per worker, overlapping events on lanes, arrows from callers to handlers and back. */
import { alignClocks, type ClockLink, type ClockOffset } from './clock.ts';
import { REMOTE_OP, type RecordedEvent } from './events.ts';
import { Lanes } from './lanes.ts';

/** The JSON object that ui.perfetto.dev and chrome://tracing open. */
export interface ChromeTrace {
  traceEvents: object[];
  displayTimeUnit?: 'ms';
  /** What viewers show as information about the trace. */
  otherData?: { readonly backwire: TraceClocks };
}

/** By whose clock the times of a trace are, and how well the others are set by it. @public */
export interface TraceClocks {
  /** The worker whose clock counts. */
  readonly reference: number;
  /**
   * By worker id: its clock less the reference's, in microseconds, which has been taken off its times, and how wrong that may be. null =
   * no call has compared the two clocks: they are taken to agree.
   */
  readonly workers: Readonly<Record<string, { readonly offsetUs: number; readonly errorUs: number | null }>>;
}

export interface TraceSource {
  readonly events: readonly RecordedEvent[];
  /** The time of `startUs` 0, in microseconds since the epoch on the clock of `node`. */
  readonly originUs: number;
  /** Names of workers by id; others are called 'worker <id>'. */
  readonly names?: ReadonlyMap<number, string>;
  /** The worker that profiled. @default 0 */
  readonly node?: number;
  /** How far the clocks of others are from its. */
  readonly clocks?: ReadonlyMap<number, ClockOffset>;
}

/** One trace of one or many profiles: those of a whole group, each on its own worker, on the clock of the first. */
export function chromeTrace(sources: readonly TraceSource[]): ChromeTrace {
  const bars: Bar[] = [];
  const arrows: Arrow[] = [];
  const names = new Map<number, string>();
  const links = sources.flatMap(({ node = 0, clocks = new Map<number, ClockOffset>() }) =>
    [...clocks].map(([to, offset]): ClockLink => ({ from: node, to, ...offset })),
  );
  const aligned = alignClocks(sources[0]?.node ?? 0, links);
  for (const source of sources) {
    for (const [id, name] of source.names ?? []) names.set(id, name);
    const base = bars.length;
    const originUs = source.originUs - (aligned.get(source.node ?? 0)?.offsetUs ?? 0);
    source.events.forEach((event, index) => {
      const parent = source.events[event.parent];
      bars.push(barOf(event, originUs, parent?.node === event.node ? base + event.parent : -1));
      if (event.kind === 'handler' && event.parent >= 0) arrows.push({ from: base + event.parent, to: base + index });
    });
  }
  return draw(bars, arrows, names, { reference: sources[0]?.node ?? 0, aligned });
}

/** A thing that took time, on the reference's clock. */
export interface Bar {
  readonly name: string;
  readonly cat: string;
  readonly ts: number;
  readonly dur: number;
  readonly pid: number;
  readonly args: Readonly<Record<string, unknown>>;
  /** The bar whose lane it would like to share, -1 for none. */
  readonly inside: number;
}

/** From a call to what handled it; drawn there and back. */
export interface Arrow {
  readonly from: number;
  readonly to: number;
}

function barOf(event: RecordedEvent, originUs: number, inside: number): Bar {
  // On the row of its worker an operation needs no call in front of its name.
  const at = event.isRemote && event.kind !== 'handler' ? event.name.lastIndexOf(REMOTE_OP) : -1;
  return {
    name: at < 0 ? event.name : event.name.slice(at + REMOTE_OP.length),
    cat: event.kind,
    ...span(event.startUs, event.durationUs, originUs),
    pid: event.node,
    args: {
      ...(at < 0 ? {} : { call: event.name.slice(0, at) }),
      ...(event.shapes === undefined ? {} : { shapes: event.shapes }),
      ...(event.bytes === undefined ? {} : { bytes: event.bytes }),
    },
    inside,
  };
}

/**
 * From `startUs` on `durationUs`, counted from `originUs`. Numbers as large as the time since the epoch are a quarter of a microsecond apart:
 * both ends go to the nearest of them, so what lay inside or beside each other before does so after.
 */
export function span(
  startUs: number,
  durationUs: number,
  originUs: number,
): { readonly ts: number; readonly dur: number } {
  const ts = originUs + startUs;
  return { ts, dur: originUs + (startUs + durationUs) - ts };
}

/** What the merged trace says of clocks. */
export interface Clocks {
  readonly reference: number;
  /** The clocks that were compared with the reference's. */
  readonly aligned: ReadonlyMap<number, ClockOffset>;
}

/** Bars on lanes, and arrows between them. */
export function draw(
  bars: readonly Bar[],
  arrows: readonly Arrow[],
  names: ReadonlyMap<number, string>,
  clocks: Clocks,
): ChromeTrace {
  const rows = new Map<number, Lanes>([...names.keys()].map((pid) => [pid, new Lanes()]));
  const laneOf = placeAll(bars, rows);
  const traceEvents: object[] = metadata(rows, names);
  const flows = flowsOf(arrows);
  bars.forEach(({ inside: _, ...bar }, index) => {
    const flow = flows.get(index);
    const args = flow === undefined ? bar.args : { ...bar.args, flow };
    traceEvents.push({ ph: 'X', ...bar, args, tid: laneOf[index] ?? 0 });
  });
  let id = 0;
  const end = (ph: 's' | 'f', at: number, ts: number, name: string): void => {
    const bar = bars[at];
    if (bar === undefined) return;
    const more = ph === 'f' ? { bp: 'e' } : {};
    traceEvents.push({ ph, id, name, cat: 'rpc', ts, pid: bar.pid, tid: laneOf[at] ?? 0, ...more });
  };
  const arrow = (from: number, fromTs: number, to: number, toTs: number, name: string): void => {
    if (toTs < fromTs) return;
    id++;
    end('s', from, fromTs, name);
    end('f', to, toTs, name);
  };
  for (const { from, to } of arrows) {
    const [call, handler] = [bars[from], bars[to]];
    if (call === undefined || handler === undefined) continue;
    arrow(from, call.ts, to, handler.ts, 'request');
    // The way back takes time, or none: what ended at the callee comes to the caller then or later, whoever of them lasted longer.
    const left = Math.max(Math.min(lastMoment(handler), call.ts + call.dur), handler.ts);
    arrow(to, left, from, Math.min(Math.max(lastMoment(call), left), call.ts + call.dur), 'response');
  }
  const workers = Object.fromEntries(
    [...rows.keys()]
      .sort((a, b) => a - b)
      .map((pid) => [pid, clocks.aligned.get(pid) ?? { offsetUs: 0, errorUs: pid === clocks.reference ? 0 : null }]),
  );
  return {
    traceEvents,
    displayTimeUnit: 'ms',
    otherData: { backwire: { reference: clocks.reference, workers } },
  };
}

/**
 * By bar, the number that a call and its handler have in common, from 1: arrows only know places, and bars that begin in the same moment
 * may share theirs.
 */
function flowsOf(arrows: readonly Arrow[]): ReadonlyMap<number, number> {
  return new Map(arrows.flatMap(({ from, to }, index) => [from, to].map((bar) => [bar, index + 1] as const)));
}

/** An arrow belongs to the bar it begins or ends in, so it should be inside of it, and not where the next one begins. */
function lastMoment({ ts, dur }: Bar): number {
  return ts + dur * 0.999;
}

function metadata(rows: ReadonlyMap<number, Lanes>, names: ReadonlyMap<number, string>): object[] {
  return [...rows]
    .sort(([a], [b]) => a - b)
    .flatMap(([pid, lanes]) => [
      { ph: 'M', name: 'process_name', pid, tid: 0, args: { name: names.get(pid) ?? unnamed(pid) } },
      { ph: 'M', name: 'process_sort_index', pid, tid: 0, args: { sort_index: pid } },
      ...Array.from({ length: lanes.count }, (_, tid) => ({
        ph: 'M',
        name: 'thread_name',
        pid,
        tid,
        args: { name: tid === 0 ? 'main' : `in flight ${tid}` },
      })),
    ]);
}

/** What a worker is called whose name is not known. */
export function unnamed(pid: number): string {
  return `worker ${pid}`;
}

/** The lane of every bar. A viewer can only nest what lies inside each other on one lane. */
function placeAll(bars: readonly Bar[], rows: Map<number, Lanes>): number[] {
  const laneOf: number[] = new Array<number>(bars.length).fill(0);
  // Earlier first; of two that start together the one that lasts longer, which holds the other.
  const order = bars.map((bar, index) => ({ bar, index })).sort((a, b) => a.bar.ts - b.bar.ts || b.bar.dur - a.bar.dur);
  for (const { bar, index } of order) {
    let lanes = rows.get(bar.pid);
    if (lanes === undefined) rows.set(bar.pid, (lanes = new Lanes()));
    laneOf[index] = lanes.place(bar.ts, bar.ts + bar.dur, laneOf[bar.inside] ?? 0);
  }
  return laneOf;
}
