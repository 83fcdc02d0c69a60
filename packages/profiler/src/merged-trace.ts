/** @file One trace out of those of many workers, their clocks set by one of them. */
import { show } from '@backwire/rpc/internal';
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
 * @param traces of each profile what `toChromeTrace` made, or what `JSON.parse` makes of the file that was written
 * @throws TypeError for what is no list of traces, and for an event that cannot be drawn: without a time, a duration or a worker's id.
 */
export function mergeChromeTraces(traces: readonly Trace[]): ChromeTrace {
  checkTraces(traces);
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
  const calls = new Map<unknown, number>();
  const handlers = new Map<unknown, number>();
  for (const event of events) {
    if (event.ph === 'X') {
      const { name, cat, ts, dur, pid } = event;
      const { flow, ...args } = event.args ?? {};
      const index = bars.push({ name, cat, ...span(ts, dur, -offsetUs), pid, args, inside: -1 }) - 1;
      const place = placeOf(event);
      if (place !== '' && (cat === 'rpc' || cat === 'handler')) byPlace.set(place, index);
      if (typeof flow === 'number') (cat === 'rpc' ? calls : handlers).set(flow, index);
    } else if (event.ph === 'M' && event.name === 'process_name') {
      const name = event.args?.['name'];
      if (typeof name === 'string' && name !== unnamed(event.pid)) names.set(event.pid, name);
    }
  }
  if (calls.size === 0) takeByPlace(events, byPlace, arrows);
  for (const [flow, from] of calls) {
    const to = handlers.get(flow);
    if (to !== undefined) arrows.push({ from, to });
  }
}

/** The arrows of a trace whose bars have no numbers: earlier versions wrote none. */
function takeByPlace(events: readonly TraceEvent[], byPlace: ReadonlyMap<string, number>, arrows: Arrow[]): void {
  const starts = new Map<number, string>();
  for (const event of events)
    if (event.ph === 's' && event.name === 'request') starts.set(event.id ?? 0, placeOf(event));
  for (const event of events) {
    // The way back is drawn anew.
    if (event.ph !== 'f' || event.name !== 'request') continue;
    const from = byPlace.get(starts.get(event.id ?? 0) ?? '');
    const to = byPlace.get(placeOf(event));
    if (from !== undefined && to !== undefined) arrows.push({ from, to });
  }
}

/** '' for one that is nowhere: what an arrow says may be anything. */
function placeOf({ pid, tid, ts }: TraceEvent): string {
  return [pid, tid, ts].map(Number.isFinite).includes(false) ? '' : `${pid} ${tid} ${ts}`;
}

const TAKES = 'mergeChromeTraces() takes a list of traces, as toChromeTrace() makes them';

function checkTraces(traces: unknown): void {
  if (!Array.isArray(traces)) throw new TypeError(`${TAKES}; got ${show(traces)}`);
  for (const [index, trace] of (traces as readonly unknown[]).entries()) {
    const { traceEvents, toChromeTrace } = (trace ?? {}) as { traceEvents?: unknown; toChromeTrace?: unknown };
    if (!Array.isArray(traceEvents)) {
      const isText = typeof trace === 'string';
      const what = typeof toChromeTrace === 'function' ? 'a profile: give its toChromeTrace()' : show(trace);
      throw new TypeError(`${TAKES}; item ${index} is ${what}${isText ? ': give what JSON.parse makes of it' : ''}`);
    }
    for (const [at, event] of (traceEvents as readonly unknown[]).entries()) checkEvent(event, at, index);
  }
}

function checkEvent(event: unknown, at: number, trace: number): void {
  const refuse = (wrong: string): never => {
    throw new TypeError(`mergeChromeTraces(): event ${at} of trace ${trace} ${wrong}`);
  };
  if (typeof event !== 'object' || event === null) return refuse(`is ${show(event)}`);
  const { ph, name, ts, dur, pid } = event as Partial<TraceEvent>;
  if (ph === 'M' && name === 'process_name' && !Number.isFinite(pid)) refuse(`has ${show(pid)} for pid`);
  if (ph !== 'X') return;
  if (!Number.isFinite(ts)) refuse(`has ${show(ts)} for ts`);
  if (!Number.isFinite(dur) || (dur as number) < 0) refuse(`has ${show(dur)} for dur`);
  if (!Number.isFinite(pid)) refuse(`has ${show(pid)} for pid`);
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
    const to = Number(id);
    if (to === from || !Number.isInteger(to) || !Number.isFinite(offsetUs) || !Number.isFinite(errorUs)) continue;
    // An error below nothing would make every way over it the surest.
    if ((errorUs as number) >= 0) links.push({ from, to, offsetUs: offsetUs as number, errorUs: errorUs as number });
  }
  return { reference: from, links };
}
