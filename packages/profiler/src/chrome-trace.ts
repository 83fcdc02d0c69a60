/** @file A profile as Chrome trace events: one process row per worker, overlapping events on lanes, arrows from callers to handlers. */
import { REMOTE_OP, type RecordedEvent } from './events.ts';

/** The JSON object that ui.perfetto.dev and chrome://tracing open. */
export interface ChromeTrace {
  traceEvents: object[];
  displayTimeUnit?: 'ms';
}

export interface TraceSource {
  readonly events: readonly RecordedEvent[];
  /** The time of `startUs` 0, in microseconds on a clock that all sources share. */
  readonly originUs: number;
  /** Names of workers by id; others are called 'worker <id>'. */
  readonly names?: ReadonlyMap<number, string>;
}

/** One trace of one or many profiles: those of a whole group, each on its own worker. */
export function chromeTrace(sources: readonly TraceSource[]): ChromeTrace {
  const bars: Bar[] = [];
  const arrows: Arrow[] = [];
  const names = new Map<number, string>();
  for (const source of sources) {
    for (const [id, name] of source.names ?? []) names.set(id, name);
    const base = bars.length;
    source.events.forEach((event, index) => {
      bars.push(
        barOf(event, source.originUs, source.events[event.parent]?.node === event.node ? base + event.parent : -1),
      );
      if (event.kind === 'handler' && event.parent >= 0) arrows.push({ from: base + event.parent, to: base + index });
    });
  }
  return draw(bars, arrows, names);
}

/**
 * One trace out of the traces of many workers, as `Profile.toChromeTrace` made them, whatever way they came here. Their clocks are
 * taken to agree, as they do on one host.
 */
export function mergeChromeTraces(traces: readonly { readonly traceEvents: readonly object[] }[]): ChromeTrace {
  const bars: Bar[] = [];
  const arrows: Arrow[] = [];
  const names = new Map<number, string>();
  for (const { traceEvents } of traces) {
    const byPlace = new Map<string, number>();
    const starts = new Map<number, string>();
    for (const event of traceEvents as readonly TraceEvent[]) {
      const place = `${event.pid} ${event.tid} ${event.ts}`;
      if (event.ph === 'X') {
        const { name, cat, ts, dur, pid, args } = event;
        const index = bars.push({ name, cat, ts, dur, pid, args: args ?? {}, inside: -1 }) - 1;
        if (cat === 'rpc' || cat === 'handler') byPlace.set(place, index);
      } else if (event.ph === 'M' && event.name === 'process_name') {
        const name = String(event.args?.['name']);
        if (name !== unnamed(event.pid)) names.set(event.pid, name);
      } else if (event.ph === 's') starts.set(event.id ?? 0, place);
    }
    for (const event of traceEvents as readonly TraceEvent[]) {
      if (event.ph !== 'f') continue;
      const from = byPlace.get(starts.get(event.id ?? 0) ?? '');
      const to = byPlace.get(`${event.pid} ${event.tid} ${event.ts}`);
      if (from !== undefined && to !== undefined) arrows.push({ from, to });
    }
  }
  return draw(bars, arrows, names);
}

interface TraceEvent {
  readonly ph: string;
  readonly name: string;
  readonly cat: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
  readonly id?: number;
  readonly args?: Readonly<Record<string, unknown>>;
}

interface Bar {
  readonly name: string;
  readonly cat: string;
  readonly ts: number;
  readonly dur: number;
  readonly pid: number;
  readonly args: Readonly<Record<string, unknown>>;
  /** The bar whose lane it would like to share, -1 for none. */
  readonly inside: number;
}

/** From a call to what handled it. */
interface Arrow {
  readonly from: number;
  readonly to: number;
}

function barOf(event: RecordedEvent, originUs: number, inside: number): Bar {
  // On the row of its worker an operation needs no call in front of its name.
  const at = event.isRemote && event.kind !== 'handler' ? event.name.lastIndexOf(REMOTE_OP) : -1;
  return {
    name: at < 0 ? event.name : event.name.slice(at + REMOTE_OP.length),
    cat: event.kind,
    ts: originUs + event.startUs,
    dur: event.durationUs,
    pid: event.node,
    args: {
      ...(at < 0 ? {} : { call: event.name.slice(0, at) }),
      ...(event.shapes === undefined ? {} : { shapes: event.shapes }),
      ...(event.bytes === undefined ? {} : { bytes: event.bytes }),
    },
    inside,
  };
}

function draw(bars: readonly Bar[], arrows: readonly Arrow[], names: ReadonlyMap<number, string>): ChromeTrace {
  const rows = new Map<number, Lanes>([...names.keys()].map((pid) => [pid, new Lanes()]));
  const laneOf = placeAll(bars, rows);
  const traceEvents: object[] = metadata(rows, names);
  bars.forEach(({ inside: _, ...bar }, index) => traceEvents.push({ ph: 'X', ...bar, tid: laneOf[index] ?? 0 }));
  arrows.forEach(({ from, to }, index) => {
    const ends = [
      ['s', from, {}],
      ['f', to, { bp: 'e' }],
    ] as const;
    for (const [ph, at, more] of ends) {
      const bar = bars[at];
      if (bar === undefined) continue;
      traceEvents.push({
        ph,
        id: index + 1,
        name: 'rpc',
        cat: 'rpc',
        ts: bar.ts,
        pid: bar.pid,
        tid: laneOf[at] ?? 0,
        ...more,
      });
    }
  });
  return { traceEvents, displayTimeUnit: 'ms' };
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
function unnamed(pid: number): string {
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

/** Rows on which intervals lie beside or inside each other, never across. Intervals come in order of their start. */
class Lanes {
  /** The ends of the open intervals of each lane, outermost first. */
  private readonly open: number[][] = [];

  get count(): number {
    return this.open.length;
  }

  place(start: number, end: number, wished: number): number {
    const order = [wished, ...this.open.keys()];
    for (const lane of order) {
      const ends = this.open[lane];
      if (ends === undefined) continue;
      while (ends.length > 0 && (ends.at(-1) ?? 0) <= start) ends.pop();
      const innermost = ends.at(-1);
      if (innermost === undefined || end <= innermost) {
        ends.push(end);
        return lane;
      }
    }
    return this.open.push([end]) - 1;
  }
}
