/** @file One trace out of those of many workers, their clocks set by one of them. */
import { type Arrow, type Bar, type ChromeTrace, draw, span, unnamed } from './chrome-trace.ts';
import { alignClocks, type ClockLink } from './clock.ts';

interface Trace {
  readonly traceEvents: readonly object[];
  readonly otherData?: unknown;
}

interface TraceEvent extends Omit<Bar, 'args' | 'inside'> {
  readonly ph: string;
  readonly tid: number;
  readonly id?: number;
  readonly args?: Readonly<Record<string, unknown>>;
}

/**
 * One trace out of the traces of many workers, as `Profile.toChromeTrace` made them, whatever way they came here. All times are on the
 * clock of the first trace's worker: a trace says how far the clocks of the workers it called are from its own, and over these the
 * others are set. How far off that may be is in `otherData.backwire`; clocks that no call has compared are taken to agree.
 */
export function mergeChromeTraces(traces: readonly Trace[]): ChromeTrace {
  const bars: Bar[] = [];
  const arrows: Arrow[] = [];
  const names = new Map<number, string>();
  const clocks = traces.map(clocksIn);
  const reference = clocks[0]?.reference ?? 0;
  const aligned = alignClocks(
    reference,
    clocks.flatMap(({ links }) => links),
  );
  traces.forEach(({ traceEvents }, index) => {
    const offsetUs = aligned.get(clocks[index]?.reference ?? 0)?.offsetUs ?? 0;
    take(traceEvents as readonly TraceEvent[], offsetUs, bars, arrows, names);
  });
  return draw(bars, arrows, names, { reference, aligned });
}

/** Takes the bars of one trace, set by `offsetUs`, and the arrows between them. */
function take(
  events: readonly TraceEvent[],
  offsetUs: number,
  bars: Bar[],
  arrows: Arrow[],
  names: Map<number, string>,
): void {
  const byPlace = new Map<string, number>();
  const starts = new Map<number, string>();
  for (const event of events) {
    const place = `${event.pid} ${event.tid} ${event.ts}`;
    if (event.ph === 'X') {
      const { name, cat, ts, dur, pid, args } = event;
      const index = bars.push({ name, cat, ...span(ts, dur, -offsetUs), pid, args: args ?? {}, inside: -1 }) - 1;
      if (cat === 'rpc' || cat === 'handler') byPlace.set(place, index);
    } else if (event.ph === 'M' && event.name === 'process_name') {
      const name = String(event.args?.['name']);
      if (name !== unnamed(event.pid)) names.set(event.pid, name);
    } else if (event.ph === 's' && event.name === 'request') starts.set(event.id ?? 0, place);
  }
  for (const event of events) {
    // The way back is drawn anew.
    if (event.ph !== 'f' || event.name !== 'request') continue;
    const from = byPlace.get(starts.get(event.id ?? 0) ?? '');
    const to = byPlace.get(`${event.pid} ${event.tid} ${event.ts}`);
    if (from !== undefined && to !== undefined) arrows.push({ from, to });
  }
}

/** What a trace says of clocks; a trace may have come from anywhere, so it is read with care. */
function clocksIn({ otherData }: Trace): { readonly reference: number; readonly links: readonly ClockLink[] } {
  const found = (otherData as { backwire?: { reference?: unknown; workers?: unknown } } | undefined)?.backwire;
  const from = found?.reference;
  if (typeof from !== 'number' || typeof found?.workers !== 'object' || found.workers === null)
    return { reference: 0, links: [] };
  const links: ClockLink[] = [];
  for (const [id, offset] of Object.entries(found.workers as Record<string, unknown>)) {
    const { offsetUs, errorUs } = (offset ?? {}) as { offsetUs?: unknown; errorUs?: unknown };
    if (Number(id) === from || !Number.isFinite(offsetUs) || !Number.isFinite(errorUs)) continue;
    links.push({ from, to: Number(id), offsetUs: offsetUs as number, errorUs: errorUs as number });
  }
  return { reference: from, links };
}
