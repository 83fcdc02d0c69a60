/** @file A profile as Chrome trace events: one process row per worker, overlapping events on lanes, arrows from callers to handlers. */
import type { RecordedEvent } from './events.ts';

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
  const traceEvents: object[] = [];
  const nodes = new Map<number, { name: string | undefined; lanes: Lanes }>();
  let flow = 0;
  for (const { events, originUs, names } of sources) {
    for (const [id, name] of names ?? []) nodeOf(nodes, id).name ??= name;
    const laneOf = placeAll(events, nodes, originUs);
    events.forEach((event, index) => {
      const ts = originUs + event.startUs;
      const at = { pid: event.node, tid: laneOf[index] ?? 0 };
      const args = {
        ...(event.shapes === undefined ? {} : { shapes: event.shapes }),
        ...(event.bytes === undefined ? {} : { bytes: event.bytes }),
      };
      traceEvents.push({ ph: 'X', name: event.name, cat: event.kind, ts, dur: event.durationUs, ...at, args });
      const caller = events[event.parent];
      if (event.kind !== 'handler' || caller === undefined) return;
      const id = ++flow;
      const from = { pid: caller.node, tid: laneOf[event.parent] ?? 0 };
      traceEvents.push({ ph: 's', id, name: 'rpc', cat: 'rpc', ts: originUs + caller.startUs, ...from });
      traceEvents.push({ ph: 'f', bp: 'e', id, name: 'rpc', cat: 'rpc', ts, ...at });
    });
  }
  return { traceEvents: [...metadata(nodes), ...traceEvents], displayTimeUnit: 'ms' };
}

function metadata(nodes: ReadonlyMap<number, { name: string | undefined; lanes: Lanes }>): object[] {
  return [...nodes].flatMap(([pid, { name, lanes }]) => [
    { ph: 'M', name: 'process_name', pid, tid: 0, args: { name: name ?? `worker ${pid}` } },
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

function nodeOf(
  nodes: Map<number, { name: string | undefined; lanes: Lanes }>,
  id: number,
): { name: string | undefined; lanes: Lanes } {
  let node = nodes.get(id);
  if (node === undefined) nodes.set(id, (node = { name: undefined, lanes: new Lanes() }));
  return node;
}

/** The lane of every event. A viewer can only nest what lies inside each other on one lane. */
function placeAll(
  events: readonly RecordedEvent[],
  nodes: Map<number, { name: string | undefined; lanes: Lanes }>,
  originUs: number,
): number[] {
  const laneOf: number[] = new Array<number>(events.length).fill(0);
  const order = events.map((_, index) => index).sort((a, b) => compare(events[a], events[b]));
  for (const index of order) {
    const event = events[index];
    if (event === undefined) continue;
    const parent = events[event.parent];
    const wished = parent?.node === event.node ? (laneOf[event.parent] ?? 0) : 0;
    const start = originUs + event.startUs;
    laneOf[index] = nodeOf(nodes, event.node).lanes.place(start, start + event.durationUs, wished);
  }
  return laneOf;
}

/** Earlier first; of two that start together the one that lasts longer, which holds the other. */
function compare(a: RecordedEvent | undefined, b: RecordedEvent | undefined): number {
  if (a === undefined || b === undefined) return 0;
  return a.startUs - b.startUs || b.durationUs - a.durationUs;
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
