/** @file Frames that wait for room or credit: queued where they were written, and sent from there as few chunks as possible. */
import type { FrameWriter, OutgoingBody, Slab } from '@backwire/wire/internal';

/** Follows a frame that may have to wait for its number. */
export interface Ticket {
  /** The number it went out under; 0 while it waits. */
  seq: number;
  /** Set to withdraw it while it waits. */
  withdrawn: boolean;
  /** When its call has to be over, for the header; Infinity = never. */
  readonly deadline: number;
}

/** A frame that waits. It holds its slab. */
export interface Waiting {
  readonly slab: Slab;
  readonly start: number;
  readonly end: number;
  /** With its storages. */
  readonly bytes: number;
  readonly bodies: readonly OutgoingBody[];
  readonly ticket: Ticket | undefined;
  /** Whether it needs a credit of the peer. */
  readonly credit: boolean;
}

/** Taken entries are cut off in pieces of this many, so that taking one costs nothing. */
const CUT = 4_096;

/** First in, first out. The bound is the owner's: `bytes` and `length` say how much waits. */
export class SendQueue {
  bytes = 0;
  private entries: Waiting[] = [];
  private head = 0;

  get empty(): boolean {
    return this.head === this.entries.length;
  }

  get length(): number {
    return this.entries.length - this.head;
  }

  first(): Waiting | undefined {
    return this.entries[this.head];
  }

  push(waiting: Waiting): void {
    this.entries.push(waiting);
    this.bytes += waiting.bytes;
  }

  shift(): Waiting | undefined {
    const first = this.entries[this.head];
    if (first === undefined) return undefined;
    this.head++;
    this.bytes -= first.bytes;
    if (this.head === this.entries.length) {
      this.entries = [];
      this.head = 0;
    } else if (this.head === CUT) {
      this.entries.splice(0, CUT);
      this.head = 0;
    }
    return first;
  }

  /** Takes all. */
  clear(): Waiting[] {
    const rest = this.entries.slice(this.head);
    this.entries = [];
    this.head = 0;
    this.bytes = 0;
    return rest;
  }
}

/** Joins frames that lie one behind the other in a slab, so that many small ones that waited make one chunk. */
export class Runs {
  private slab: Slab | undefined;
  private start = 0;
  private end = 0;

  /** Takes over the frame's hold on its slab. */
  add(waiting: Waiting, main: FrameWriter): void {
    if (this.slab === waiting.slab && this.end === waiting.start) {
      this.end = waiting.end;
      waiting.slab.release();
      return;
    }
    this.flush(main);
    this.slab = waiting.slab;
    this.start = waiting.start;
    this.end = waiting.end;
  }

  flush(main: FrameWriter): void {
    const { slab } = this;
    if (slab === undefined) return;
    main.repeat({ slab, start: this.start, end: this.end });
    slab.release();
    this.slab = undefined;
  }
}

/** A frame that is not sent after all. */
export function discard(waiting: Waiting): void {
  waiting.slab.release();
  for (const body of waiting.bodies) body.release();
}
