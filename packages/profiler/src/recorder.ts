/** @file Records events: begins and ends them, nests them, and takes in what other workers recorded. */
import type { ClockEstimate, ClockOffset } from './clock.ts';
import { type EventKind, type ProfileOptions, REMOTE_OP, type RecordedEvent } from './events.ts';
import { MAX_EVENTS, MAX_NAME_CHARS } from './limits.ts';

export interface RecorderOptions extends ProfileOptions {
  /** The worker whose events these are. */
  readonly node: number;
  /** A monotonic time in microseconds. */
  readonly nowUs: () => number;
  /** That time in microseconds since the epoch. @default the same number */
  readonly epochUs?: (us: number) => number;
  /** Bytes of tensor memory in use; needed with `profileMemory`. */
  readonly memoryBytes?: () => number;
  readonly maxEvents?: number;
}

/** What another worker recorded while it ran one call. */
export interface RemoteEvents {
  /** How long that worker had the call, in microseconds. */
  readonly handledUs: number;
  /** When it began, in microseconds since the epoch on that worker's clock; undefined when it did not say. */
  readonly startedUs?: number;
  readonly node: number;
  /** Times are since that worker began. `parent` is an index into this list. */
  readonly events: readonly RecordedEvent[];
  readonly dropped: number;
}

type Open = { -readonly [K in keyof RecordedEvent]: RecordedEvent[K] } & { readonly memoryBefore: number };

const UNFINISHED = -1;
/** Begun after the recorder was full or finished. */
export const NO_EVENT = -1;

/** What came from another worker, in one piece: a handler and what it did. */
interface Piece {
  readonly call: number;
  /** The index of the handler; `count` events from there on go with it. */
  readonly first: number;
  readonly count: number;
  /** When it began, in microseconds since the epoch on that worker's clock. */
  readonly startedUs: number;
  /** How much later than the call it can have begun. */
  readonly slackUs: number;
  readonly clock: ClockEstimate;
}

/** Where a finished recorder sends what comes late: to the one around it. */
interface Heir {
  readonly recorder: Recorder;
  /** Index 0 of the finished one is this there, */
  readonly base: number;
  /** which holds for indices below this. */
  readonly limit: number;
  readonly parent: number;
}

export class Recorder {
  readonly options: RecorderOptions;
  /** The clocks of the workers whose events came in, as far as they are known; from the finish on. */
  readonly clocks = new Map<number, ClockOffset>();
  private readonly list: Open[] = [];
  private readonly pieces: Piece[] = [];
  /** Between which offsets the clocks of those workers were, at one event or another. */
  private readonly reaches = new Map<number, { readonly leastUs: number; readonly mostUs: number }>();
  private readonly startedUs: number;
  private lost = 0;
  private closed: readonly RecordedEvent[] | undefined;
  private heir: Heir | undefined;

  constructor(options: RecorderOptions) {
    this.options = options;
    this.startedUs = options.nowUs();
  }

  /** Since this recorder began, in microseconds. */
  elapsedUs(): number {
    return this.options.nowUs() - this.startedUs;
  }

  /** A moment since this recorder began, in microseconds since the epoch. */
  epochUs(sinceBeganUs: number): number {
    const us = this.startedUs + sinceBeganUs;
    return this.options.epochUs?.(us) ?? us;
  }

  /** Events that did not fit. */
  get dropped(): number {
    return this.lost;
  }

  /** @returns the event's index, or NO_EVENT. */
  begin(kind: EventKind, name: string, parent: number, inputs: readonly unknown[] = []): number {
    const { heir } = this;
    if (heir !== undefined) {
      const late = heir.recorder.begin(kind, name, there(heir, parent), inputs);
      return late === NO_EVENT ? NO_EVENT : late - heir.base;
    }
    if (!this.hasRoom()) return NO_EVENT;
    const { node, recordShapes, profileMemory, memoryBytes } = this.options;
    const event: Open = {
      name: clip(name),
      kind,
      node,
      isRemote: false,
      parent,
      startUs: this.elapsedUs(),
      durationUs: UNFINISHED,
      memoryBefore: profileMemory === true ? (memoryBytes?.() ?? 0) : 0,
    };
    if (recordShapes === true) event.shapes = shapesOf(inputs);
    return this.list.push(event) - 1;
  }

  /** Ends the event; a second end is ignored. `bytes` replaces what memory says. */
  end(index: number, bytes?: number): void {
    if (this.heir !== undefined && index !== NO_EVENT) this.heir.recorder.end(there(this.heir, index), bytes);
    const event = this.list[index];
    if (event === undefined || event.durationUs !== UNFINISHED || this.closed !== undefined) return;
    event.durationUs = this.elapsedUs() - event.startUs;
    if (this.options.profileMemory !== true) return;
    event.bytes = bytes ?? (this.options.memoryBytes?.() ?? 0) - event.memoryBefore;
  }

  /** The start of an event, in microseconds since this recorder began. */
  startOf(index: number): number {
    return this.list[index]?.startUs ?? 0;
  }

  /**
   * Takes in what the callee of the call `index` recorded, with the call's key in front of every name. It lies in the middle of the call,
   * as if the ways there and back took the same. With `clock`, what is known of the callee's, it goes to where it happened once this
   * recorder is finished and most is known, and never out of the call.
   */
  mergeRemote(index: number, remote: RemoteEvents, clock?: ClockEstimate): void {
    if (this.heir !== undefined) {
      this.heir.recorder.mergeRemote(there(this.heir, index), remote, clock);
      return;
    }
    const call = this.list[index];
    if (call === undefined || this.closed !== undefined) return;
    this.lost += remote.dropped;
    const spent = this.elapsedUs() - call.startUs;
    const handledUs = Math.min(Math.max(remote.handledUs, 0), spent);
    const slackUs = spent - handledUs;
    const anchor = call.startUs + slackUs / 2;
    const first = this.list.length;
    this.mergeEvents(index, call.name, remote, anchor, handledUs);
    const count = this.list.length - first;
    if (clock !== undefined && remote.startedUs !== undefined)
      this.pieces.push({ call: index, first, count, startedUs: remote.startedUs, slackUs, clock });
  }

  private mergeEvents(call: number, key: string, remote: RemoteEvents, anchor: number, handledUs: number): void {
    const base = this.list.length;
    const handler = { name: key, kind: 'handler', node: remote.node, isRemote: true, parent: call } as const;
    if (!this.hasRoom()) {
      this.lost += remote.events.length;
      return;
    }
    this.list.push({ ...handler, startUs: anchor, durationUs: handledUs, memoryBefore: 0 });
    for (const event of remote.events) {
      if (!this.hasRoom()) continue;
      const nested = event.kind === 'handler';
      this.list.push({
        name: clip(nested ? event.name : `${key}${REMOTE_OP}${event.name}`),
        kind: event.kind,
        node: event.node,
        isRemote: true,
        parent: base + 1 + event.parent,
        ...within(event, anchor, handledUs),
        ...(event.shapes === undefined ? {} : { shapes: event.shapes }),
        ...(event.bytes === undefined ? {} : { bytes: event.bytes }),
        memoryBefore: 0,
      });
    }
  }

  /** Takes in a finished inner recorder of the same process, under `parent`, and from then on what it is still told. */
  absorb(inner: Recorder, parent: number): void {
    if (this.heir !== undefined) {
      this.heir.recorder.absorb(inner, there(this.heir, parent));
      return;
    }
    if (this.closed !== undefined || inner.heir !== undefined) return;
    const base = this.list.length;
    const laterUs = inner.startedUs - this.startedUs;
    for (const event of inner.list) {
      if (!this.hasRoom()) continue;
      const within = event.parent < 0 ? parent : base + event.parent;
      this.list.push({ ...event, parent: within, startUs: event.startUs + laterUs });
    }
    const taken = this.list.length - base;
    for (const piece of inner.pieces) {
      const count = Math.max(Math.min(piece.count, taken - piece.first), 0);
      if (piece.call < taken) this.pieces.push({ ...piece, call: base + piece.call, first: base + piece.first, count });
    }
    this.lost += inner.lost;
    inner.heir = { recorder: this, base, limit: taken === inner.list.length ? Infinity : taken, parent };
  }

  /** Ends the recording: nothing is added or changed any more. What has not ended lasts until now. */
  finish(): readonly RecordedEvent[] {
    if (this.closed !== undefined) return this.closed;
    for (const piece of this.pieces) this.place(piece);
    const elapsed = this.elapsedUs();
    this.closed = this.list.map(({ memoryBefore: _, ...event }) => ({
      ...event,
      durationUs: event.durationUs === UNFINISHED ? Math.max(elapsed - event.startUs, 0) : event.durationUs,
    }));
    return this.closed;
  }

  /** Puts what another worker did to where it happened, as far as its clock is known by now, and notes how sure that is. */
  private place({ call, first, count, startedUs, slackUs, clock }: Piece): void {
    const [caller, handler] = [this.list[call], this.list[first]];
    if (caller === undefined || handler === undefined || count === 0) return;
    const { node } = handler;
    const beganUs = this.epochUs(caller.startUs);
    const known = [clock.at(beganUs), clock.at(beganUs + slackUs + handler.durationUs)] as const;
    const { offsetUs } = known[0];
    // The error that is told holds for every event: also for the one furthest from when the clocks were compared, and for those of before
    // the clock was set.
    const before = this.reaches.get(node) ?? { leastUs: offsetUs, mostUs: offsetUs };
    const hereUs = Math.max(known[0].errorUs, known[1].errorUs);
    const leastUs = Math.min(before.leastUs, offsetUs - hereUs);
    const mostUs = Math.max(before.mostUs, offsetUs + hereUs);
    this.reaches.set(node, { leastUs, mostUs });
    this.clocks.set(node, { offsetUs, errorUs: Math.max(offsetUs - leastUs, mostUs - offsetUs) });
    const wished = startedUs - offsetUs - this.epochUs(0);
    const laterUs = Math.min(Math.max(wished, caller.startUs), caller.startUs + slackUs) - handler.startUs;
    for (let index = first; index < first + count; index++) {
      const event = this.list[index];
      if (event !== undefined) event.startUs += laterUs;
    }
  }

  private hasRoom(): boolean {
    if (this.closed !== undefined) return false;
    if (this.list.length < (this.options.maxEvents ?? MAX_EVENTS)) return true;
    this.lost += 1;
    return false;
  }
}

/** An index of a finished recorder, in the one that goes on for it. */
function there({ base, limit, parent }: Heir, index: number): number {
  if (index < 0) return parent;
  return index < limit ? base + index : NO_EVENT;
}

/** The event from `anchor` on, inside of the `lengthUs` that its handler took, whatever another worker says of it. */
function within(
  { startUs, durationUs }: RecordedEvent,
  anchor: number,
  lengthUs: number,
): Pick<RecordedEvent, 'startUs' | 'durationUs'> {
  const from = Math.min(Math.max(startUs, 0), lengthUs);
  return { startUs: anchor + from, durationUs: Math.min(Math.max(startUs + durationUs, from), lengthUs) - from };
}

function clip(name: string): string {
  return name.length > MAX_NAME_CHARS ? `${name.slice(0, MAX_NAME_CHARS - 1)}…` : name;
}

function shapesOf(inputs: readonly unknown[]): readonly (readonly number[])[] {
  const shapes: (readonly number[])[] = [];
  for (const input of inputs) {
    if (Array.isArray(input)) shapes.push(...shapesOf(input));
    else if (typeof input === 'object' && input !== null && Array.isArray((input as { shape?: unknown }).shape)) {
      shapes.push([...(input as { shape: readonly number[] }).shape]);
    }
  }
  return shapes;
}
