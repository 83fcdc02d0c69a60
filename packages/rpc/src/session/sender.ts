/** @file What one worker sends to another: frames numbered, batched per tick and retained, storages beside them, and what has to wait. */
import { runAtRoot } from '@backwire/tensor/internal';
import {
  FrameKind,
  FrameWriter,
  patchAck,
  patchRemaining,
  writeSequence,
  type CallRegion,
  type FrameRegion,
  type OutgoingBody,
  type PendingWrite,
  type SlabPool,
  type WireLimits,
} from '@backwire/wire/internal';
import { RpcError } from '../base/errors.ts';
import {
  CONGESTED_BODY_BYTES,
  CONGESTED_BYTES,
  EARLY_FLUSH_BYTES,
  MAX_CONTROL_BACKLOG_BYTES,
  MAX_CONTROL_BACKLOG_FRAMES,
  MAX_UNREAD_BYTES,
} from '../base/limits.ts';
import { BodySender } from './body-sender.ts';
import { later, soon } from '../base/platform.ts';
import { Draft } from './draft.ts';
import { Session, type SessionPort } from '../protocol/session.ts';
import type { Connection } from '../transports/transport.ts';
import { LooseFrames } from './loose-frames.ts';
import { discard, Runs, SendQueue, type Ticket, type Waiting } from './send-queue.ts';

export interface SenderOptions {
  readonly slabs: SlabPool;
  readonly wireLimits: WireLimits;
  readonly maxBufferedBytes: number;
  readonly session: { windowBytes: number; windowFrames: number; ackFrames: number; ackBytes: number; ackMs: number };
  now(): number;
  /** Something waits and there is no link. */
  wanted(): void;
  /** The session cannot hold what must not be dropped. */
  overflowed(): void;
}

const NO_CHUNKS: readonly Uint8Array[] = Object.freeze([]);
const NO_BODIES: readonly OutgoingBody[] = Object.freeze([]);

export class Sender implements SessionPort<PendingWrite> {
  readonly session: Session<PendingWrite, OutgoingBody>;
  private readonly options: SenderOptions;
  private readonly bodies: BodySender<PendingWrite>;
  /** Frames that have a number. */
  private readonly main: FrameWriter;
  /** Frames without, and pieces of storages. */
  private readonly loose: LooseFrames;
  /** Frames that wait; their regions are queued below. */
  private readonly waiting: FrameWriter;
  private readonly calls = new SendQueue();
  private readonly control = new SendQueue();
  private connection: Connection | undefined;
  /** What a new link begins with, until it is written. */
  private first: readonly Uint8Array[] = NO_CHUNKS;
  /** Bounded by the calls a peer may have here. */
  private clearWaiters: (() => void)[] = [];
  private scheduled = false;
  private waitingForCompany = false;
  /** The frame numbered last in this tick. */
  private last: FrameRegion | undefined;
  /** The highest acknowledgement in the frames of this flush. */
  private carried = 0;
  /** Set while the session ends: what it lets go of then. */
  private held: PendingWrite[] | undefined;
  /** Control that was sent while a frame was open: an extension's `encode` did it. */
  private deferred: (() => void)[] = [];
  private replay: PendingWrite[] = [];
  private readonly draft: Draft;

  constructor(options: SenderOptions) {
    this.options = options;
    this.session = new Session<PendingWrite, OutgoingBody>(this, options.session);
    this.bodies = new BodySender(
      this.session,
      () => options.now(),
      () => this.schedule(),
    );
    this.main = new FrameWriter(options.slabs, options.wireLimits);
    this.loose = new LooseFrames(options.slabs, options.wireLimits, this.session);
    this.waiting = new FrameWriter(options.slabs, options.wireLimits);
    this.draft = new Draft(this.main);
  }

  /** Bytes that wait here: frames without a number, frames not acknowledged, storages not confirmed. */
  get pendingBytes(): number {
    return this.calls.bytes + this.control.bytes + this.session.pendingBytes + this.session.bodies.pendingBytes;
  }

  /** So much is on its way that whoever would add to it should wait. */
  get congested(): boolean {
    const { session } = this;
    return (
      session.pendingBytes + this.control.bytes + this.main.pendingBytes > CONGESTED_BYTES ||
      session.bodies.pendingBytes > CONGESTED_BODY_BYTES
    );
  }

  /** Calls `fn` once the peer is not congested any more, or the session has ended; in turn. */
  whenClear(fn: () => void): void {
    this.clearWaiters.push(fn);
    this.schedule();
  }

  /** Nothing waits, nothing is unacknowledged. */
  get idle(): boolean {
    return this.pendingBytes === 0 && this.main.pendingBytes === 0;
  }

  /**
   * Begins a frame of a call kind: its value goes to `out` of the draft, what is said of it into its fields, then `end` is called, or `abort`
   * of the draft. There is one draft, for one frame at a time.
   *
   * @param credit whether the frame needs a credit of the peer (calls do).
   */
  begin(kind: FrameKind, credit: boolean): Draft {
    const { session, draft } = this;
    const free = session.hasRoom() && (credit ? this.calls.empty && session.credits.canCall(0) : this.control.empty);
    draft.begin(free ? this.main : this.waiting, kind, credit);
    return draft;
  }

  /**
   * Ends the frame begun with `begin`.
   * @throws RpcError 'resource-exhausted' when too much waits already; WireError 'limit'. The frame is dropped then and the plan is the
   *   caller's to release.
   */
  end(draft: Draft): void {
    const { session } = this;
    const { writer, credit, ticket } = draft;
    const numbered = writer === this.main;
    if (!numbered) this.checkRoom(writer, credit);
    draft.seq = numbered ? session.lastSent + 1 : 0;
    draft.ack = session.lastReceived;
    const region = writer.endCall(draft, draft.name, draft.table, draft.plan);
    draft.forget();
    if (numbered) this.last = region;
    const bodyBytes = region.bodies.length === 0 ? 0 : sum(region.bodies);
    if (numbered) {
      const seq = session.draw();
      if (ticket !== undefined) ticket.seq = seq;
      if (credit) session.credits.use(region.end - region.start + bodyBytes);
      if (region.bodies.length > 0) this.bodies.send(seq, region.bodies);
    } else {
      this.enqueue(region, region.bodies, bodyBytes, credit, ticket);
    }
    if (this.deferred.length > 0) this.runDeferred();
    if (numbered && this.main.pendingBytes > EARLY_FLUSH_BYTES) this.flushEarly();
    else this.schedule();
  }

  /** A numbered frame with the short header. A `patient` one goes with the next frame, or when this turn of the event loop ends. */
  sendControl(messageType: number, payload: Uint8Array | undefined, patient = false): void {
    this.sequenced((writer, seq, ack) => writer.frame(FrameKind.CONTROL, messageType, payload, seq, ack), patient);
  }

  /** A numbered frame with the id header. */
  sendId(kind: FrameKind, id: number, a = 0, b = 0, c = 0): void {
    this.sequenced((writer, seq, ack) => writer.idFrame(kind, { id, a, b, c }, seq, ack));
  }

  /** A frame without a number, with the id header; lost with the link. */
  sendLoose(kind: FrameKind, id: number, a = 0, b = 0, c = 0): void {
    if (this.connection === undefined) return;
    this.loose.id(kind, id, a, b, c);
    this.schedule();
  }

  /** Answers a ping; not while the peer leaves so much unread that it hears from this side anyway: pings cost nothing, so their answers must be bounded. */
  pong(id: number, running: number): void {
    if ((this.connection?.bufferedBytes ?? 0) > MAX_UNREAD_BYTES) return;
    this.sendLoose(FrameKind.PONG, id, 0, running);
  }

  /** As `sendLoose`, for what may wait for company: it goes with the next frame, or when this turn of the event loop ends. */
  sendLater(kind: FrameKind, id: number, a = 0, b = 0, c = 0): void {
    if (this.connection === undefined) return;
    this.loose.id(kind, id, a, b, c);
    this.scheduleLater();
  }

  /** Tells a peer that asks how far a storage is. @throws WireError for one that asks on and reads none of the answers. */
  answerPace(seq: number, storage: number, end: number): void {
    this.loose.countAnswer(this.connection?.bufferedBytes ?? 0);
    this.sendLater(FrameKind.BODY_ACK, seq, storage, 1, end);
  }

  /** An acknowledgement of its own, unless a frame carries it by the end of this tick. */
  sendAck(): void {
    if (this.connection === undefined) return;
    this.loose.acknowledge();
    this.schedule();
  }

  /**
   * A link came up. `first` are the frames before all others (WELCOME, RESUME); what follows waits for `resume`, which has often come by the
   * end of this tick: all of it is one write then.
   */
  open(connection: Connection, first: readonly Uint8Array[]): void {
    this.connection = connection;
    this.first = first;
    this.schedule();
  }

  /** The peer said where it stands; false when the session cannot go on from there. */
  resume(peer: { received: number; bodies: readonly { seq: number; storage: number; bytes: number }[] }): boolean {
    this.flushNumbered();
    if (!this.session.linkUp(peer)) return false;
    this.bodies.resumed();
    const { calls, bytes } = this.session.credits.grant();
    this.sendLoose(FrameKind.CREDIT, 0, calls >>> 0, 0, bytes);
    this.schedule();
    return true;
  }

  /** The link is gone. */
  lost(): void {
    this.connection = undefined;
    this.first = NO_CHUNKS;
    this.replay = [];
    this.loose.lost();
    this.bodies.lost();
    this.session.linkLost();
  }

  /** The peer has a storage up to `end`. */
  bodyArrived(seq: number, storage: number, end: number): void {
    this.bodies.arrived(seq, storage, end);
  }

  /** A storage was confirmed by the peer: it has all of it up to `end`, or wants none of it. */
  bodyConfirmed(seq: number, storage: number, end: number): void {
    this.bodies.confirmed(seq, storage);
    this.bodies.arrived(seq, storage, end);
    if (this.clearWaiters.length > 0) this.schedule();
  }

  /** Nobody wants the storages of frame `seq` any more. True when some of them cannot arrive now. */
  dropBodies(seq: number): boolean {
    const some = this.bodies.drop(seq);
    if (this.clearWaiters.length > 0) this.schedule();
    return some;
  }

  /** The window or the credits grew: lets go what waited. */
  advance(): void {
    if (!this.control.empty || !this.calls.empty || this.clearWaiters.length > 0) this.schedule();
  }

  /** Called from time to time: gives back memory that was not used for a while. */
  rest(): void {
    this.main.rest();
    this.loose.writer.rest();
    if (this.calls.empty && this.control.empty) this.waiting.rest();
  }

  /** Ends the session; everything is released once the connection has no more use for it. */
  close(): void {
    const { connection } = this;
    const held: PendingWrite[] = [];
    this.held = held;
    this.session.close();
    this.held = undefined;
    for (const fn of this.clearWaiters.splice(0)) fn();
    for (const waiting of [...this.control.clear(), ...this.calls.clear()]) discard(waiting);
    this.main.flush()?.release();
    const bodies = this.session.bodies.dropAll();
    const release = (): void => {
      for (const segment of held) segment.release();
      for (const body of bodies) this.bodies.letGo(body);
    };
    if (connection === undefined || connection.closed) {
      this.loose.lost();
      release();
      return;
    }
    this.connection = undefined;
    // What was written before may still lie in the connection's queue: the last frame of all says when it does not.
    this.loose.acknowledge();
    const last = this.loose.writer.flush();
    connection.write([...this.takeFirst(), ...(last?.chunks ?? [])], () => {
      last?.release();
      release();
    });
  }

  // SessionPort

  resend(segment: PendingWrite): void {
    this.replay.push(segment);
  }

  release(segment: PendingWrite): void {
    if (this.held !== undefined) this.held.push(segment);
    else segment.release();
  }

  /** Makes sure that what was written goes out at the end of this tick. */
  schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    if (this.connection === undefined) this.options.wanted();
    soon(runAtRoot, this.flush);
  }

  /** The same at the end of this turn, unless something goes out sooner. */
  private scheduleLater(): void {
    if (this.connection === undefined) this.schedule();
    else if (!this.scheduled && !this.waitingForCompany) {
      this.waitingForCompany = true;
      later(this.flushAtRoot);
    }
  }

  private readonly flush = (): void => {
    this.scheduled = false;
    this.waitingForCompany = false;
    if (this.session.state === 'closed') return;
    while (this.clearWaiters.length > 0 && !this.congested) this.clearWaiters.shift()?.();
    this.drain();
    this.push();
  };

  /** A program makes many calls in one turn: what there is goes out now, so that the peer works while the others are written. */
  private flushEarly(): void {
    if (this.connection === undefined || this.session.state !== 'up') this.schedule();
    else runAtRoot(this.push);
  }

  /** Hands over what is numbered, and storages beside it. */
  private readonly push = (): void => {
    this.carried = this.freshenAck();
    const segment = this.flushNumbered();
    const { connection } = this;
    if (connection === undefined) return;
    if (this.session.state !== 'up') {
      if (this.first.length > 0) connection.write(this.takeFirst());
      return;
    }
    const chunks: Uint8Array[] = [];
    if (this.replay.length > 0) {
      for (const again of this.replay.splice(0)) chunks.push(...again.chunks);
    } else if (segment !== undefined) {
      chunks.push(...segment.chunks);
    }
    this.write(connection, chunks);
    if (this.carried > 0) this.session.ackCarried(this.carried);
  };

  private readonly flushAtRoot = (): void => runAtRoot(this.flush);

  /** The frame numbered last was written before some of what has arrived by now: it says so too. Returns what it acknowledges. */
  private freshenAck(): number {
    const { last, session } = this;
    this.last = undefined;
    if (last === undefined) return 0;
    patchAck(last.slab.view, last.start, session.lastReceived);
    return session.lastReceived;
  }

  /** Retains what has been numbered since the last time. A replay that is due contains it already. */
  private flushNumbered(): PendingWrite | undefined {
    const segment = this.main.flush();
    if (segment === undefined) return undefined;
    this.session.retain(segment, segment.bytes);
    if (this.replay.length > 0) this.replay.push(segment);
    return segment;
  }

  private write(connection: Connection, chunks: Uint8Array[]): void {
    // Loose frames are written in this very tick or by the last read: the next acknowledgement covers what came since.
    const ack = this.loose.takeAck();
    if (this.bodies.write(connection, this.takeFirst(), chunks, this.loose.writer))
      this.carried = Math.max(this.carried, ack);
  }

  private takeFirst(): readonly Uint8Array[] {
    const { first } = this;
    this.first = NO_CHUNKS;
    return first;
  }

  private sequenced(write: (writer: FrameWriter, seq: number, ack: number) => FrameRegion, patient = false): void {
    const { session, main } = this;
    if (session.state === 'closed') return;
    if (main.open || this.waiting.open) {
      this.deferred.push(() => this.sequenced(write, patient));
      return;
    }
    // Until the peer has said what it allows, nothing overtakes the calls that wait for that.
    const behind = session.state === 'idle' && !this.calls.empty;
    if (!behind && session.hasRoom() && this.control.empty) {
      this.last = write(main, session.lastSent + 1, session.lastReceived);
      session.draw();
    } else {
      this.enqueue(write(this.waiting, 0, 0), NO_BODIES, 0, false, undefined);
    }
    if (patient) this.scheduleLater();
    else this.schedule();
  }

  private runDeferred(): void {
    for (const send of this.deferred.splice(0)) send();
  }

  private checkRoom(writer: FrameWriter, credit: boolean): void {
    if (this.session.state === 'closed') {
      writer.abort();
      throw new RpcError('unavailable', 'the session is closed');
    }
    if (credit && this.calls.bytes > this.options.maxBufferedBytes) {
      writer.abort();
      throw new RpcError(
        'resource-exhausted',
        `more than ${this.options.maxBufferedBytes} bytes wait for this worker already`,
      );
    }
  }

  private enqueue(
    region: FrameRegion | CallRegion,
    bodies: readonly OutgoingBody[],
    bodyBytes: number,
    credit: boolean,
    ticket: Ticket | undefined,
  ): void {
    const { slab, start, end } = region;
    slab.retain();
    // Each waiting frame has a hold of its own on its slab.
    this.waiting.forget();
    const waiting: Waiting = { slab, start, end, bytes: end - start + bodyBytes, bodies, ticket, credit };
    if (credit || (this.session.state === 'idle' && !this.calls.empty)) {
      this.calls.push(waiting);
      return;
    }
    const { control } = this;
    control.push(waiting);
    if (control.bytes > MAX_CONTROL_BACKLOG_BYTES || control.length > MAX_CONTROL_BACKLOG_FRAMES)
      this.options.overflowed();
  }

  /** Numbers what waited, results and control first. */
  private drain(): void {
    const { session, calls, control } = this;
    while (!control.empty && session.hasRoom()) this.number(control.shift() as Waiting);
    while (session.hasRoom()) {
      const first = calls.first();
      if (first === undefined) break;
      const withdrawn = first.ticket?.withdrawn === true;
      if (!withdrawn && first.credit && !session.credits.canCall(first.bytes)) break;
      calls.shift();
      if (withdrawn) {
        discard(first);
        continue;
      }
      if (first.credit) session.credits.use(first.bytes);
      this.number(first);
    }
    this.runs.flush(this.main);
  }

  /** Neighbours in one slab go out as one chunk. */
  private readonly runs = new Runs();

  private number(waiting: Waiting): void {
    const seq = this.session.draw();
    const { slab, start, ticket } = waiting;
    writeSequence(slab.view, start, seq, this.session.lastReceived);
    if (ticket !== undefined) {
      ticket.seq = seq;
      if (ticket.deadline !== Infinity)
        patchRemaining(slab.view, start, Math.max(1, ticket.deadline - this.options.now()));
    }
    this.last = waiting;
    this.runs.add(waiting, this.main);
    if (waiting.bodies.length > 0) this.bodies.send(seq, waiting.bodies);
  }
}

function sum(bodies: readonly OutgoingBody[]): number {
  let bytes = 0;
  for (const body of bodies) bytes += body.bytes.length;
  return bytes;
}
