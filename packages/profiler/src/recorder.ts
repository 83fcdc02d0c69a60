/** @file Records events: begins and ends them, nests them, and takes in what other workers recorded. */
import type { ClockOffset } from './clock.ts';
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

interface Open {
  name: string;
  kind: EventKind;
  node: number;
  isRemote: boolean;
  parent: number;
  startUs: number;
  durationUs: number;
  shapes?: readonly (readonly number[])[];
  bytes?: number;
  memoryBefore: number;
}

const UNFINISHED = -1;
/** Begun after the recorder was full or finished. */
export const NO_EVENT = -1;

export class Recorder {
  readonly options: RecorderOptions;
  /** The clocks of the workers whose events came in, as far as they are known. */
  readonly clocks = new Map<number, ClockOffset>();
  private readonly list: Open[] = [];
  private readonly startedUs: number;
  private lost = 0;
  private closed: readonly RecordedEvent[] | undefined;

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
   * Takes in what the callee of the call `index` recorded, with the call's key in front of every name. With `offset`, how far the
   * callee's clock is from this one, it goes to where it happened, and never out of the call; without, the time on the way is taken to
   * be the same in both directions, so the callee's share lies in the middle of the call.
   */
  mergeRemote(index: number, remote: RemoteEvents, offset?: ClockOffset): void {
    const call = this.list[index];
    if (call === undefined) return;
    this.lost += remote.dropped;
    const spent = this.elapsedUs() - call.startUs;
    const handledUs = Math.min(Math.max(remote.handledUs, 0), spent);
    const latest = call.startUs + spent - handledUs;
    let anchor = (call.startUs + latest) / 2;
    if (offset !== undefined && remote.startedUs !== undefined) {
      const there = remote.startedUs - offset.offsetUs - this.epochUs(0);
      anchor = Math.min(Math.max(there, call.startUs), latest);
    }
    if (offset !== undefined) this.clocks.set(remote.node, offset);
    const base = this.list.length;
    if (!this.hasRoom()) return;
    this.list.push({
      name: call.name,
      kind: 'handler',
      node: remote.node,
      isRemote: true,
      parent: index,
      startUs: anchor,
      durationUs: handledUs,
      memoryBefore: 0,
    });
    for (const event of remote.events) {
      if (!this.hasRoom()) return;
      const nested = event.kind === 'handler';
      this.list.push({
        name: clip(nested ? event.name : `${call.name}${REMOTE_OP}${event.name}`),
        kind: event.kind,
        node: event.node,
        isRemote: true,
        parent: base + 1 + event.parent,
        startUs: anchor + event.startUs,
        durationUs: event.durationUs,
        ...(event.shapes === undefined ? {} : { shapes: event.shapes }),
        ...(event.bytes === undefined ? {} : { bytes: event.bytes }),
        memoryBefore: 0,
      });
    }
  }

  /** Takes in a finished inner profile of the same process, under `parent`. `startUs` is when it began. */
  absorb(events: readonly RecordedEvent[], startUs: number, parent: number): void {
    const base = this.list.length;
    for (const event of events) {
      if (!this.hasRoom()) return;
      this.list.push({
        ...event,
        parent: event.parent < 0 ? parent : base + event.parent,
        startUs: startUs + event.startUs,
        memoryBefore: 0,
      });
    }
  }

  /** Everything recorded so far; what has not ended lasts until now. */
  snapshot(): readonly RecordedEvent[] {
    const elapsed = this.elapsedUs();
    return this.list.map(({ memoryBefore: _, ...event }) => ({
      ...event,
      durationUs: event.durationUs === UNFINISHED ? Math.max(elapsed - event.startUs, 0) : event.durationUs,
    }));
  }

  /** Ends the recording: nothing is added or changed any more. */
  finish(): readonly RecordedEvent[] {
    return (this.closed ??= this.snapshot());
  }

  private hasRoom(): boolean {
    if (this.closed !== undefined) return false;
    if (this.list.length < (this.options.maxEvents ?? MAX_EVENTS)) return true;
    this.lost += 1;
    return false;
  }
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
