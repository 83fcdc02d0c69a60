/** @file A frame of a call kind while it is written: where its value goes, and what its header says. */
import type { ByteWriter, CallFields, FrameKind, FrameWriter, HeaderEntry, TensorPlan } from '@backwire/wire/internal';
import type { Ticket } from './send-queue.ts';

/** Used again for the next frame. */
export class Draft implements CallFields {
  writer: FrameWriter;
  kind: FrameKind = 0 as FrameKind;
  flags = 0;
  messageType = 0;
  callId = 0;
  /** The interned function; 0 = none. With `name` the frame defines it. */
  fn = 0;
  /** Milliseconds left; -1 = no limit. */
  remainingMs = -1;
  /** Set where the frame ends. */
  seq = 0;
  ack = 0;
  /** Whether it needs a credit of the peer. */
  credit = false;
  ticket: Ticket | undefined;
  name: string | undefined;
  table: readonly HeaderEntry[] | undefined;
  plan: TensorPlan | undefined;

  constructor(writer: FrameWriter) {
    this.writer = writer;
  }

  /** The value goes here. */
  get out(): ByteWriter {
    return this.writer.out;
  }

  /** @throws when a frame is being written: encoding one must not begin another. */
  begin(writer: FrameWriter, kind: FrameKind, credit: boolean): void {
    if (this.writer.open) throw new Error('invariant: a frame is open');
    writer.begin();
    this.writer = writer;
    this.kind = kind;
    this.credit = credit;
    this.flags = 0;
    this.messageType = 0;
    this.callId = 0;
    this.fn = 0;
    this.remainingMs = -1;
    this.forget();
  }

  /** Drops the frame, if it is still open: encoding it failed. */
  abort(): void {
    this.forget();
    if (this.writer.open) this.writer.abort();
  }

  /** Keeps nothing of the frame alive. */
  forget(): void {
    this.ticket = undefined;
    this.name = undefined;
    this.table = undefined;
    this.plan = undefined;
  }
}
