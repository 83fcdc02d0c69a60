/** @file What arrives from one worker: frames in order, storages put together, and to whom they go. */
import type { Message, MessageType } from '@backwire/wire';
import {
  controlProto,
  decodeProto,
  FrameFlag,
  FrameHeader,
  FrameKind,
  frameTable,
  MessageType as Types,
  protocolError,
  valueEnd,
  type IncomingTensors,
} from '@backwire/wire/internal';
import type { Tensor } from '@backwire/tensor';
import type { Environment } from '../base/environment.ts';
import { MAX_PONGS_PER_SECOND } from '../base/limits.ts';
import { IncomingFrameView, view, type IncomingFrame, type RawFrame } from './incoming-frame.ts';
import type { Sender } from './sender.ts';

/** Who gets what one peer sends. A throw of `request`, `response` or `control` breaks the link. */
export interface FrameHandler {
  /** Handlers that run here now; whoever asks by a ping is told. */
  readonly running: number;
  /** Whether calls of the peer are open here. */
  readonly serving: boolean;
  /** A request is here, but for storages that come behind it. What it lies in is valid only now. */
  request(frame: RawFrame): void;
  /** An answer, or an item of one, likewise. */
  response(frame: RawFrame): void;
  /** An entry of a header table; what is returned is called once, when the message is decoded or never will be. */
  entry(extension: string, data: Uint8Array): (() => void) | undefined;
  /** The caller does not want the answer to its call `id` any more; why may be a number that no reason has. */
  cancel(id: number, why: number): void;
  /** The consumer of the stream that answers call `id` takes so many items more. */
  credit(id: number, items: number): void;
  control(type: MessageType, payload: Uint8Array): void;
  /** The peer answers a ping of this side. */
  pong(ping: number): void;
  /** The peer takes no calls behind its frame `lastSeq`. */
  drained(lastSeq: number): void;
  /** The session is over. */
  closed(): void;
}

/** Who gets a message whose storages had to be waited for; `give` frees what it was given without looking. */
export interface Claim {
  assembled(arrived: IncomingFrame, tensors: IncomingTensors): void;
}

/** A message whose storages are still arriving. */
interface Assembly {
  readonly arrived: IncomingFrame;
  readonly tensors: IncomingTensors;
  readonly claim: Claim;
}

const NOTHING: readonly (() => void)[] = Object.freeze([]);
const NO_BYTES = new Uint8Array(0);
const NO_HEADER = new FrameHeader();

export class Receiver {
  /** The peer left in good order: its link will not come back. */
  saidGoodbye = false;
  private readonly environment: Environment;
  private readonly handler: FrameHandler;
  private readonly sender: Sender;
  /** The frame that is being dealt with, as it lies in the read buffer, */
  private readonly frameNow: { -readonly [K in keyof RawFrame]: RawFrame[K] } = {
    header: NO_HEADER,
    bytes: NO_BYTES,
    start: 0,
    end: 0,
  };
  /** and as what it says. */
  private readonly now = new IncomingFrameView();
  private readonly assemblies = new Map<number, Assembly>();
  /** Where bytes are landing; it may be given up meanwhile. */
  private landing: IncomingTensors | undefined;
  private closed = false;
  /** The second in which pings were answered last, and how many. */
  private pongSecond = 0;
  private pongs = 0;

  constructor(environment: Environment, handler: FrameHandler, sender: Sender) {
    this.environment = environment;
    this.handler = handler;
    this.sender = sender;
  }

  /** Messages whose storages are still arriving. */
  get assembling(): number {
    return this.assemblies.size;
  }

  /** Whether calls of the peer are open here, or on their way. */
  get serving(): boolean {
    return this.assemblies.size > 0 || this.handler.serving;
  }

  /** A whole frame. A throw breaks the link. */
  frame(header: FrameHeader, bytes: Uint8Array, start: number, end: number): void {
    const { session } = this.sender;
    if (header.ack > session.lastAcked) {
      if (!session.acknowledged(header.ack)) throw protocolError('an acknowledgement of what was never sent');
      this.sender.advance();
    }
    if (header.seq !== 0) {
      const arrival = session.arrived(header.seq, end - start, this.environment.now());
      if (arrival === 'duplicate') return;
      if (arrival === 'gap') throw protocolError(`frame ${header.seq} instead of ${session.lastReceived + 1}`);
    }
    switch (header.kind) {
      case FrameKind.CALL:
        this.handler.request(this.raw(header, bytes, start, end));
        return;
      case FrameKind.RESULT:
      case FrameKind.ERROR:
      case FrameKind.STREAM_ITEM:
      case FrameKind.STREAM_END:
        this.handler.response(this.raw(header, bytes, start, end));
        return;
      default:
        this.other(header, bytes, start, end);
    }
  }

  /** Where the next bytes of a storage go; undefined for one that nobody wants any more. */
  body(header: FrameHeader): Uint8Array | undefined {
    const place = this.sender.session.bodies.place(header.id, header.a, header.c, header.length);
    if (place === 'unknown') {
      this.bodyArrived(header);
      return undefined;
    }
    const assembly = this.assemblies.get(header.id);
    if (place === 'wrong' || assembly === undefined) throw protocolError('a piece of a storage that was not due');
    assembly.tensors.pin();
    this.landing = assembly.tensors;
    return assembly.tensors.place(header.a, header.c, header.length);
  }

  bodyEnd(header: FrameHeader, landed: number): void {
    const { bodies } = this.sender.session;
    const seq = header.id;
    this.landing?.unpin();
    this.landing = undefined;
    const assembly = this.assemblies.get(seq);
    const place = assembly === undefined ? 'unknown' : bodies.place(seq, header.a, header.c, landed);
    if (assembly === undefined || typeof place === 'string') {
      this.bodyArrived(header);
      return;
    }
    const complete = bodies.landed(place, landed);
    if (place.got === place.bytes) this.sender.sendLater(FrameKind.BODY_ACK, seq, header.a, 0, place.bytes);
    else if (landed === header.length) this.bodyArrived(header);
    if (!complete) return;
    this.assemblies.delete(seq);
    assembly.claim.assembled(assembly.arrived, assembly.tensors);
  }

  /** Tells a sender that asked how far it is: by that it measures the way. */
  private bodyArrived({ id, a, c, length, flags }: FrameHeader): void {
    if ((flags & FrameFlag.ASK) !== 0) this.sender.answerPace(id, a, c + length);
  }

  /** The session is over: storages are given back, and the handler is told. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    for (const { tensors, arrived } of this.assemblies.values()) {
      tensors.release();
      for (const done of arrived.done) done();
    }
    this.assemblies.clear();
    this.handler.closed();
  }

  /** The frame that is being dealt with, where it lies: valid only until its callback returns. */
  view(frame: RawFrame, tensors: IncomingTensors | undefined, done: readonly (() => void)[]): IncomingFrame {
    return view(this.now, frame, tensors, done);
  }

  /** Keeps a frame until its storages are here; `claim` gets it then. */
  assemble(frame: RawFrame, tensors: IncomingTensors, done: readonly (() => void)[], claim: Claim): void {
    const { header, bytes, start, end } = frame;
    const value = bytes.slice(start, valueEnd(header, end));
    const kept = view(new IncomingFrameView(), frame, tensors, done);
    kept.bytes = value;
    kept.start = 0;
    kept.end = value.length;
    this.assemblies.set(header.seq, { arrived: kept, tensors, claim });
    this.sender.session.bodies.expect(
      header.seq,
      tensors.outOfBand().map((storage) => ({ storage, bytes: tensors.bytesOf(storage) })),
    );
  }

  /** Withdraws what is still arriving for `claim`. */
  giveUp(claim: Claim): void {
    for (const [seq, assembly] of this.assemblies) if (assembly.claim === claim) this.lose(seq);
  }

  /** Withdraws what is still arriving of the answers to a call of this side. */
  giveUpAnswers(id: number): void {
    for (const [seq, { arrived }] of this.assemblies)
      if (arrived.id === id && arrived.kind !== FrameKind.CALL) this.lose(seq);
  }

  /** Delivers the entries of a frame's header table in order. */
  deliverTable({ header, bytes, end }: RawFrame): readonly (() => void)[] {
    if (header.tableLength === 0) return NOTHING;
    const done: (() => void)[] = [];
    try {
      for (const { extension, data } of frameTable(header, bytes, end, this.environment.wireLimits)) {
        const fn = this.handler.entry(extension, data);
        if (fn !== undefined) done.push(fn);
      }
    } catch (error) {
      // The link breaks, and nobody will decode the message.
      for (const fn of done) fn();
      throw error;
    }
    return done;
  }

  /** Tells the sender that storages which nobody wants need not come. */
  acknowledgeAll(seq: number, storages: readonly number[]): void {
    for (const storage of storages) this.sender.sendId(FrameKind.BODY_ACK, seq, storage);
  }

  /** One object for all of them: a frame is dealt with before the next one is looked at. */
  private raw(header: FrameHeader, bytes: Uint8Array, start: number, end: number): RawFrame {
    const { frameNow } = this;
    frameNow.header = header;
    frameNow.bytes = bytes;
    frameNow.start = start;
    frameNow.end = end;
    return frameNow;
  }

  private lose(seq: number): void {
    const assembly = this.assemblies.get(seq);
    if (assembly === undefined) return;
    this.assemblies.delete(seq);
    this.sender.session.bodies.giveUp(seq);
    this.acknowledgeAll(seq, assembly.tensors.outOfBand());
    assembly.tensors.release();
    for (const done of assembly.arrived.done) done();
  }

  private other(header: FrameHeader, bytes: Uint8Array, start: number, end: number): void {
    switch (header.kind) {
      case FrameKind.CANCEL:
        this.handler.cancel(header.id, header.a);
        return;
      case FrameKind.CREDIT:
        if (header.id === 0) this.credit(header);
        else this.handler.credit(header.id, header.a);
        return;
      case FrameKind.CONTROL:
        this.control(header.messageType, bytes.slice(start, end));
        return;
      case FrameKind.BODY_ACK:
        if (header.b === 0) this.sender.bodyConfirmed(header.id, header.a, header.c);
        else this.sender.bodyArrived(header.id, header.a, header.c);
        return;
      case FrameKind.BODY_LOST:
        this.lose(header.id);
        return;
      case FrameKind.PING:
        if (this.answersPing()) this.sender.pong(header.id, this.handler.running);
        return;
      case FrameKind.PONG:
        this.handler.pong(header.id);
        return;
      case FrameKind.ACK:
        return;
      default:
        throw protocolError(`a frame of kind ${header.kind} in an open link`);
    }
  }

  /** Pings cost their sender nothing: past so many in a second they go unanswered. */
  private answersPing(): boolean {
    const second = Math.floor(this.environment.now() / 1_000);
    if (second !== this.pongSecond) {
      this.pongSecond = second;
      this.pongs = 0;
    }
    return ++this.pongs <= MAX_PONGS_PER_SECOND;
  }

  private control(type: number, payload: Uint8Array): void {
    if (type === Types.BYE) this.saidGoodbye = true;
    else if (type === Types.DRAIN) this.handler.drained(decodeProto(controlProto.Drain, payload, 'drain').lastSeq);
    else this.handler.control(type, payload);
  }

  /** Totals modulo 2^32: the difference says how far on they are. */
  private credit(header: FrameHeader): void {
    const { credits } = this.sender.session;
    const more = (header.a - (credits.grantedCalls >>> 0)) | 0;
    credits.granted(credits.grantedCalls + Math.max(0, more), header.c);
    this.sender.advance();
  }
}

/** The tensors of a message whose bytes are all there. What they say may still be wrong (sparse indices outside of their shape). */
export function tensorsOf(incoming: IncomingTensors, arrived: IncomingFrame): Tensor[] | { error: unknown } {
  try {
    return incoming.tensors();
  } catch (error) {
    incoming.release();
    for (const done of arrived.done) done();
    return { error };
  }
}

/** A whole message of what arrived. `payload` is a copy. */
export function messageOf(arrived: IncomingFrame, tensors: readonly Tensor[]): Message {
  return {
    type: arrived.messageType,
    id: BigInt(arrived.id),
    payload: arrived.bytes.slice(arrived.start, arrived.end),
    tensors,
  };
}
