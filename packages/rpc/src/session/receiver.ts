/** @file What arrives from one worker: frames in order, storages put together, and who gets them. */
import type { Message } from '@backwire/wire';
import {
  controlProto,
  decodeProto,
  type FrameHeader,
  FrameKind,
  frameName,
  frameTable,
  frameTensors,
  MessageType,
  protocolError,
  valueEnd,
  type IncomingTensors,
} from '@backwire/wire/internal';
import type { Tensor } from '@backwire/tensor';
import { announcedBodies, IncomingFrameView, view, type IncomingFrame } from './incoming-frame.ts';
import type { Core } from '../base/environment.ts';
import type { Definition } from '../base/definitions.ts';
import { RpcError } from '../base/errors.ts';
import { InboundCall } from '../server/inbound-call.ts';
import { MAX_IDEMPOTENCY_KEY_LENGTH, MAX_TRACE_BYTES, MAX_INTERNED_NAMES, ORDERED_BODY_BYTES } from '../base/limits.ts';
import type { Sender } from './sender.ts';
import type { Peer } from './peer.ts';
import { decodeFailed } from './unsent.ts';

/** A name that the peer has interned. */
interface Interned {
  readonly name: string;
  definition: Definition | undefined;
  /** The agent's `servedVersion` when it was looked up. */
  version: number;
}

/** A message whose storages are still arriving. */
interface Assembly {
  readonly arrived: IncomingFrame;
  readonly tensors: IncomingTensors;
  /** The call it belongs to, when it is a request. */
  readonly call: InboundCall | undefined;
}

/** The header entry that carries an idempotency key, */
export const KEY_ENTRY = 'rpc.key';
/** and the one that says how many items of a stream may be sent at first. */
export const ITEMS_ENTRY = 'rpc.items';
/** The one that carries the trace context of the caller. */
export const TRACE_ENTRY = 'rpc.trace';
const decoder = new TextDecoder();

const NOTHING: readonly (() => void)[] = Object.freeze([]);
const NONE: readonly number[] = Object.freeze([]);
const NO_BODIES: readonly { storage: number; nbytes: number }[] = Object.freeze([]);
const NO_TENSORS: Tensor[] = Object.freeze([]) as unknown as Tensor[];

export class Receiver {
  /** The peer left in good order: its link will not come back. */
  saidGoodbye = false;
  /** Calls of the peer that are not over, by its number for them; those whose handlers returned at once never get here. */
  readonly calls = new Map<number, InboundCall>();
  private readonly environment: Core;
  private readonly peer: Peer;
  private readonly sender: Sender;
  /** The frame that is being dealt with. */
  private readonly now = new IncomingFrameView();
  private readonly names: (Interned | undefined)[] = [];
  private readonly assemblies = new Map<number, Assembly>();
  /** Where bytes are landing; it may be given up meanwhile. */
  private landing: IncomingTensors | undefined;
  private receivedCalls = 0;
  /** Of the calls before the one that arrives. */
  private receivedBytes = 0;
  private closed = false;

  constructor(environment: Core, peer: Peer, sender: Sender) {
    this.environment = environment;
    this.peer = peer;
    this.sender = sender;
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
        this.call(header, bytes, start, end);
        return;
      case FrameKind.RESULT:
      case FrameKind.ERROR:
      case FrameKind.STREAM_ITEM:
      case FrameKind.STREAM_END:
        this.answer(header, bytes, start, end);
        return;
      default:
        this.other(header, bytes, start, end);
    }
  }

  /** Where the next bytes of a storage go; undefined for one that nobody wants any more. */
  body(header: FrameHeader): Uint8Array | undefined {
    const place = this.sender.session.bodies.place(header.id, header.a, header.c, header.length);
    if (place === 'unknown') return undefined;
    const assembly = this.assemblies.get(header.id);
    if (place === 'wrong' || assembly === undefined) throw protocolError('a piece of a storage that was not due');
    assembly.tensors.pin();
    this.landing = assembly.tensors;
    return assembly.tensors.memoryOf(header.a).subarray(header.c, header.c + header.length);
  }

  bodyEnd(header: FrameHeader, landed: number): void {
    const { bodies } = this.sender.session;
    const seq = header.id;
    this.landing?.unpin();
    this.landing = undefined;
    const assembly = this.assemblies.get(seq);
    if (assembly === undefined) return;
    const place = bodies.place(seq, header.a, header.c, landed);
    if (typeof place === 'string') return;
    const complete = bodies.landed(place, landed);
    if (place.got === place.bytes) this.sender.sendLater(FrameKind.BODY_ACK, seq, header.a, 0, place.bytes);
    if (!complete) return;
    this.assemblies.delete(seq);
    this.assembled(assembly);
  }

  /** The session is over: handlers are told, storages given back. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    for (const { tensors, arrived } of this.assemblies.values()) {
      tensors.release();
      for (const done of arrived.done) done();
    }
    this.assemblies.clear();
    const reason = new RpcError('peer-died', `worker '${this.peer.worker.name}' is gone`, {
      executed: 'yes',
      peer: this.peer.worker,
    });
    for (const call of [...this.calls.values()]) this.environment.dispatcher.cancel(call, reason);
    this.calls.clear();
  }

  /** Withdraws a message that is still arriving. */
  giveUp(seq: number): void {
    const assembly = this.assemblies.get(seq);
    if (assembly === undefined) return;
    this.assemblies.delete(seq);
    this.sender.session.bodies.giveUp(seq);
    this.acknowledgeAll(seq, assembly.tensors);
    assembly.tensors.release();
    for (const done of assembly.arrived.done) done();
  }

  /** The name behind a number. */
  nameOf(fn: number): string {
    const interned = this.names[fn];
    if (interned === undefined) throw new RpcError('decode-error', 'a call of a function that was never named');
    return interned.name;
  }

  /** The definition behind a number; looked up again when what is served has changed. */
  definition(fn: number): Definition {
    const interned = this.names[fn];
    if (interned === undefined) throw new RpcError('decode-error', 'a call of a function that was never named');
    if (interned.definition === undefined || interned.version !== this.environment.servedVersion) {
      interned.definition = this.environment.served(interned.name);
      interned.version = this.environment.servedVersion;
    }
    return interned.definition;
  }

  private call(header: FrameHeader, bytes: Uint8Array, start: number, end: number): void {
    if (header.nameLength > 0) this.intern(header, bytes, end);
    const done = header.tableLength > 0 ? this.deliverTable(header, bytes, end) : NOTHING;
    this.receivedCalls++;
    const now = this.environment.now();
    if (this.environment.stallGuard.isLate(now)) this.environment.stallGuard.turn(now);
    const deadline = header.remainingMs < 0 ? Infinity : now + header.remainingMs;
    const frameBytes = end - start + 56;
    let tensors: IncomingTensors | undefined;
    let refused = this.refusal();
    if (refused === undefined && (header.descriptorLength > 0 || header.tensorCount > 0)) {
      try {
        tensors = frameTensors(header, bytes, end, this.environment.wireLimits);
      } catch (error) {
        refused = decodeFailed(error, this.peer);
      }
    }
    // Of a call that is refused, memory is not even taken; what it announced still counts, and is told not to come.
    const unwanted =
      refused === undefined ? NO_BODIES : announcedBodies(header, bytes, end, this.environment.wireLimits);
    const bodyBytes = tensors === undefined ? bytesOf(unwanted) : tensors.bodyBytes;
    this.receivedBytes += frameBytes + bodyBytes;
    const call = new InboundCall(this.peer, header.id, header.flags, deadline, frameBytes + bodyBytes);
    call.arrivedAt = now;
    if (done !== NOTHING) this.takeOwnEntries(call);
    const outOfBand = tensors !== undefined && bodyBytes > 0 ? tensors.outOfBand() : NONE;
    if (refused !== undefined) {
      for (const { storage } of unwanted) this.sender.sendId(FrameKind.BODY_ACK, header.seq, storage);
      for (const fn of done) fn();
      this.environment.dispatcher.refuse(call, refused);
      return;
    }
    if (outOfBand.length === 0) {
      const arrived = view(this.now, header, bytes, start, end, tensors, done);
      if (tensors === undefined) this.environment.dispatcher.arrived(call, arrived, NO_TENSORS);
      else this.request(call, arrived, tensors);
      return;
    }
    call.state = 'assembling';
    if (call.id !== 0) this.calls.set(call.id, call);
    this.assemble(header, bytes, start, end, tensors as IncomingTensors, outOfBand, done, call);
    this.environment.dispatcher.reserve(call, bodyBytes <= ORDERED_BODY_BYTES);
  }

  private answer(header: FrameHeader, bytes: Uint8Array, start: number, end: number): void {
    const done = header.tableLength > 0 ? this.deliverTable(header, bytes, end) : NOTHING;
    const wanted = this.environment.caller.expects(header.id, this.peer);
    let tensors: IncomingTensors | undefined;
    if (header.descriptorLength > 0 || header.tensorCount > 0) {
      try {
        tensors = frameTensors(header, bytes, end, this.environment.wireLimits);
      } catch (error) {
        for (const fn of done) fn();
        this.environment.caller.failed(header.id, decodeFailed(error, this.peer, { executed: 'yes' }));
        return;
      }
    }
    const outOfBand = tensors === undefined || tensors.bodyBytes === 0 ? NONE : tensors.outOfBand();
    if (!wanted) {
      if (tensors !== undefined && outOfBand.length > 0) this.acknowledgeAll(header.seq, tensors);
      tensors?.release();
      for (const fn of done) fn();
      return;
    }
    if (outOfBand.length === 0) {
      const arrived = view(this.now, header, bytes, start, end, tensors, done);
      if (tensors === undefined) this.environment.caller.answered(arrived, this.peer, NO_TENSORS);
      else this.reply(arrived, tensors);
      return;
    }
    this.environment.caller.assembling(header.id, header.kind, header.seq);
    this.assemble(header, bytes, start, end, tensors as IncomingTensors, outOfBand, done, undefined);
  }

  private assemble(
    header: FrameHeader,
    bytes: Uint8Array,
    start: number,
    end: number,
    tensors: IncomingTensors,
    outOfBand: readonly number[],
    done: readonly (() => void)[],
    call: InboundCall | undefined,
  ): void {
    const value = bytes.slice(start, valueEnd(header, end));
    const kept = view(new IncomingFrameView(), header, bytes, start, end, tensors, done);
    kept.bytes = value;
    kept.start = 0;
    kept.end = value.length;
    this.assemblies.set(header.seq, { arrived: kept, tensors, call });
    this.sender.session.bodies.expect(
      header.seq,
      outOfBand.map((storage) => ({ storage, bytes: tensors.memoryOf(storage).length })),
    );
  }

  private assembled({ arrived, tensors, call }: Assembly): void {
    if (call === undefined) {
      this.reply(arrived, tensors);
      return;
    }
    if (call.state === 'over') {
      tensors.release();
      for (const done of arrived.done) done();
      return;
    }
    call.state = 'waiting';
    this.request(call, arrived, tensors);
  }

  /** A call whose bytes are all there. What they say may still be wrong (sparse indices outside of their shape): that is the call's affair. */
  private request(call: InboundCall, arrived: IncomingFrame, incoming: IncomingTensors): void {
    const tensors = this.made(incoming, arrived);
    if (Array.isArray(tensors)) this.environment.dispatcher.arrived(call, arrived, tensors);
    else this.environment.dispatcher.refuse(call, decodeFailed(tensors.error, this.peer));
  }

  /** The same for an answer. */
  private reply(arrived: IncomingFrame, incoming: IncomingTensors): void {
    const tensors = this.made(incoming, arrived);
    if (Array.isArray(tensors)) this.environment.caller.answered(arrived, this.peer, tensors);
    else this.environment.caller.failed(arrived.id, decodeFailed(tensors.error, this.peer, { executed: 'yes' }));
  }

  private made(incoming: IncomingTensors, arrived: IncomingFrame): Tensor[] | { error: unknown } {
    try {
      return incoming.tensors();
    } catch (error) {
      incoming.release();
      for (const done of arrived.done) done();
      return { error };
    }
  }

  private other(header: FrameHeader, bytes: Uint8Array, start: number, end: number): void {
    switch (header.kind) {
      case FrameKind.CANCEL:
        this.cancelled(header.id);
        return;
      case FrameKind.CREDIT:
        this.credit(header);
        return;
      case FrameKind.CONTROL:
        if (header.messageType === MessageType.BYE) this.saidGoodbye = true;
        else if (header.messageType === MessageType.DRAIN) this.drained(bytes.slice(start, end));
        else if (header.messageType === MessageType.REPORT)
          this.environment.reported(this.peer, bytes.slice(start, end));
        else this.environment.extensions.control(this.peer, header.messageType, bytes.slice(start, end));
        return;
      case FrameKind.BODY_ACK:
        this.sender.bodyConfirmed(header.id, header.a);
        return;
      case FrameKind.BODY_LOST:
        this.giveUp(header.id);
        return;
      case FrameKind.PING:
        this.sender.sendLoose(FrameKind.PONG, header.id, 0, this.environment.dispatcher.running);
        return;
      case FrameKind.PONG:
        this.environment.stallGuard.pong(this.peer, header.id);
        return;
      case FrameKind.ACK:
        return;
      default:
        throw protocolError(`a frame of kind ${header.kind} in an open link`);
    }
  }

  /** The peer says that it takes no more calls. */
  private drained(payload: Uint8Array): void {
    const { lastSeq } = decodeProto(controlProto.Drain, payload, 'drain');
    this.peer.lastServed = Math.min(this.peer.lastServed, lastSeq);
    this.environment.drains(this.peer);
  }

  private credit(header: FrameHeader): void {
    const { session } = this.sender;
    if (header.id === 0) {
      const { credits } = session;
      // Totals modulo 2^32: the difference says how far on they are.
      const more = (header.a - (credits.grantedCalls >>> 0)) | 0;
      credits.granted(credits.grantedCalls + Math.max(0, more), header.c);
      this.sender.advance();
      return;
    }
    const call = this.calls.get(header.id);
    if (call === undefined) return;
    call.itemCredit += header.a;
    call.wake?.();
  }

  private cancelled(id: number): void {
    const call = this.calls.get(id);
    if (call === undefined) return;
    if (call.state === 'assembling') {
      for (const [seq, assembly] of this.assemblies) if (assembly.call === call) this.giveUp(seq);
    }
    const text = `the caller, worker '${this.peer.worker.name}', cancelled the call`;
    this.environment.dispatcher.cancel(
      call,
      new RpcError('cancelled', text, { executed: 'yes', peer: this.peer.worker }),
    );
  }

  private refusal(): RpcError | undefined {
    const { refusal } = this.environment;
    if (refusal !== undefined) {
      return new RpcError(refusal, `worker '${this.environment.self.name}' takes no more calls`, { executed: 'no' });
    }
    if (!this.sender.session.credits.inWindow(this.receivedCalls, this.receivedBytes)) {
      const { maxInboundCalls, maxBufferedBytesPerPeer } = this.environment.limits;
      const text = `more than ${maxInboundCalls} calls or ${maxBufferedBytesPerPeer} bytes of them at once`;
      return new RpcError('resource-exhausted', text, { executed: 'no' });
    }
    return undefined;
  }

  private intern(header: FrameHeader, bytes: Uint8Array, end: number): void {
    const { fn } = header;
    const name = frameName(header, bytes, end);
    if (name === undefined || fn === 0 || fn > MAX_INTERNED_NAMES) throw protocolError('a name without a number');
    const known = this.names[fn];
    if (known === undefined) {
      if (fn > this.names.length + 1) this.names.length = fn;
      this.names[fn] = { name, definition: undefined, version: -1 };
    } else if (known.name !== name) throw protocolError('a number with two names');
  }

  private deliverTable(header: FrameHeader, bytes: Uint8Array, end: number): (() => void)[] {
    const done: (() => void)[] = [];
    for (const { extension, data } of frameTable(header, bytes, end, this.environment.wireLimits)) {
      if (extension === KEY_ENTRY || extension === ITEMS_ENTRY || extension === TRACE_ENTRY) {
        this.ownEntries.set(extension, data);
        continue;
      }
      const fn = this.environment.extensions.delivered(extension, this.peer.worker, data);
      if (fn !== undefined) done.push(fn);
    }
    return done;
  }

  /** Entries that are the agent's own, of the frame being delivered. */
  private readonly ownEntries = new Map<string, Uint8Array>();

  private takeOwnEntries(call: InboundCall): void {
    if (this.ownEntries.size === 0) return;
    const key = this.ownEntries.get(KEY_ENTRY);
    const items = this.ownEntries.get(ITEMS_ENTRY);
    const trace = this.ownEntries.get(TRACE_ENTRY);
    this.ownEntries.clear();
    if (trace !== undefined && trace.length <= MAX_TRACE_BYTES) call.trace = trace.slice();
    if (key !== undefined && key.length <= 4 * MAX_IDEMPOTENCY_KEY_LENGTH) call.key = decoder.decode(key);
    if (items !== undefined && items.length === 4)
      call.itemCredit = new DataView(items.buffer, items.byteOffset).getUint32(0, true);
  }

  /** Tells the sender that storages which nobody wants need not come. */
  private acknowledgeAll(seq: number, tensors: IncomingTensors): void {
    for (const storage of tensors.outOfBand()) this.sender.sendId(FrameKind.BODY_ACK, seq, storage);
  }
}

export type { IncomingFrame } from './incoming-frame.ts';

/** A whole message of what arrived. `payload` is a copy. */
export function messageOf(arrived: IncomingFrame, tensors: readonly Tensor[]): Message {
  return {
    type: arrived.messageType,
    id: BigInt(arrived.id),
    payload: arrived.bytes.slice(arrived.start, arrived.end),
    tensors,
  };
}

function bytesOf(bodies: readonly { readonly nbytes: number }[]): number {
  let bytes = 0;
  for (const { nbytes } of bodies) bytes += nbytes;
  return bytes;
}
