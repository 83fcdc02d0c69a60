/** @file The calls of one peer: read from its frames, within its credit, and open until they are answered. */
import {
  CancelReason,
  FrameFlag,
  type FrameHeader,
  frameName,
  frameTensors,
  protocolError,
  type IncomingTensors,
} from '@backwire/wire/internal';
import type { Tensor } from '@backwire/tensor';
import type { Definition } from '../base/definitions.ts';
import type { Environment } from '../base/environment.ts';
import { RpcError } from '../base/errors.ts';
import { MAX_IDEMPOTENCY_KEY_LENGTH, MAX_INTERNED_NAMES, MAX_TRACE_BYTES } from '../base/limits.ts';
import { ITEMS_ENTRY, KEY_ENTRY, TRACE_ENTRY } from '../session/header-entries.ts';
import { announcedBodies, type IncomingFrame, type RawFrame } from '../session/incoming-frame.ts';
import type { Peer } from '../session/peer.ts';
import { tensorsOf } from '../session/receiver.ts';
import { decodeFailed } from '../base/unsent.ts';
import { Share } from './concurrency-limit.ts';
import type { StallGuard } from './stall-guard.ts';
import { InboundCall, type CallOrigin, type SlotLender } from './inbound-call.ts';

/** A name that the peer has interned. */
interface Interned {
  readonly name: string;
  definition: Definition | undefined;
  /** The agent's `servedVersion` when it was looked up. */
  version: number;
}

const decoder = new TextDecoder();
const NONE: readonly number[] = Object.freeze([]);
const NO_BODIES: readonly { storage: number; nbytes: number }[] = Object.freeze([]);
const NO_TENSORS: Tensor[] = Object.freeze([]) as unknown as Tensor[];

/** Who runs the calls. */
export interface CallServer {
  /** Gives the slots in which the calls run. */
  readonly handlers: SlotLender;
  readonly stallGuard: StallGuard;
  /** A call is here with all its storages. What it lies in is valid only now. */
  arrived(call: InboundCall, arrived: IncomingFrame, tensors: Tensor[]): void;
  /** Answers a call that is not run. */
  refuse(call: InboundCall, error: RpcError): void;
  /** A call whose storages are on their way keeps its place in the order. */
  reserve(call: InboundCall): void;
  /** The caller does not want it any more. */
  cancel(call: InboundCall, reason: RpcError): void;
}

export class InboundCalls implements CallOrigin {
  readonly peer: Peer;
  readonly slots: SlotLender;
  readonly share = new Share();
  /** Those that are not over, by their numbers; those whose handlers returned at once never get here. */
  readonly open = new Map<number, InboundCall>();
  private readonly server: CallServer;
  private readonly environment: Environment;
  private readonly names: (Interned | undefined)[] = [];
  /** How many came that have no number, since they want no answer. */
  private unnumbered = 0;
  private received = 0;
  /** Of the calls before the one that arrives. */
  private receivedBytes = 0;
  /** Entries that are the agent's own, of the frame being delivered. */
  private readonly entries = new Map<string, Uint8Array>();

  constructor(environment: Environment, server: CallServer, peer: Peer) {
    this.environment = environment;
    this.server = server;
    this.slots = server.handlers;
    this.peer = peer;
  }

  /** A request frame. What it lies in is valid only now; a throw breaks the link. */
  arrived(frame: RawFrame): void {
    const { header, bytes, start, end } = frame;
    const { receiver } = this.peer;
    this.checkNumber(header);
    if (header.nameLength > 0) this.intern(header, bytes, end);
    if (this.entries.size > 0) this.entries.clear();
    const done = receiver.deliverTable(frame);
    this.received++;
    const now = this.environment.now();
    const { stallGuard } = this.server;
    if (stallGuard.isLate(now)) stallGuard.turn(now);
    const deadline = header.remainingMs < 0 ? Infinity : now + header.remainingMs;
    const frameBytes = end - start + 56;
    let tensors: IncomingTensors | undefined;
    let refused = this.refusal();
    if (refused === undefined && (header.descriptorLength > 0 || header.tensorCount > 0)) {
      try {
        tensors = frameTensors(header, bytes, end, this.environment.wireLimits);
      } catch (error) {
        refused = this.unread(error);
      }
    }
    // Of a call that is refused, memory is not even taken; what it announced still counts, and is told not to come.
    const unwanted = refused === undefined ? NO_BODIES : announcedBodies(frame, this.environment.wireLimits);
    const bodyBytes = tensors === undefined ? bytesOf(unwanted) : tensors.bodyBytes;
    this.receivedBytes += frameBytes + bodyBytes;
    const call = new InboundCall(this, this.numberOf(header), header.flags, deadline, frameBytes + bodyBytes);
    call.arrivedAt = now;
    if (this.entries.size > 0) this.takeEntries(call);
    const outOfBand = tensors !== undefined && bodyBytes > 0 ? tensors.outOfBand() : NONE;
    if (refused !== undefined) {
      for (const { storage } of unwanted) receiver.acknowledgeAll(header.seq, [storage]);
      for (const fn of done) fn();
      this.server.refuse(call, refused);
      return;
    }
    if (outOfBand.length === 0) {
      const arrived = receiver.view(frame, tensors, done);
      if (tensors === undefined) this.server.arrived(call, arrived, NO_TENSORS);
      else this.complete(call, arrived, tensors);
      return;
    }
    call.state = 'assembling';
    this.open.set(call.id, call);
    receiver.assemble(frame, tensors as IncomingTensors, done, call);
    this.server.reserve(call);
  }

  /** The storages of a call are here. */
  assembled(call: InboundCall, arrived: IncomingFrame, tensors: IncomingTensors): void {
    if (call.state === 'over') {
      tensors.release();
      for (const done of arrived.done) done();
      return;
    }
    call.state = 'waiting';
    this.complete(call, arrived, tensors);
  }

  /** An entry of the header table of the frame being delivered, if it is one of the agent's own. */
  takesEntry(extension: string, data: Uint8Array): boolean {
    const own = extension === KEY_ENTRY || extension === ITEMS_ENTRY || extension === TRACE_ENTRY;
    if (own) this.entries.set(extension, data);
    return own;
  }

  /** The caller does not want this call any more, for a reason that it gives as one of `CancelReason`. */
  cancelled(id: number, why: number): void {
    const call = this.open.get(id);
    if (call === undefined) return;
    if (call.state === 'assembling') this.peer.receiver.giveUp(call);
    if (why === CancelReason.TIME_OVER) {
      this.server.cancel(call, call.late('yes'));
      return;
    }
    const text = `the caller, worker '${this.peer.worker.name}', cancelled the call`;
    this.server.cancel(call, new RpcError('cancelled', text, { executed: 'yes', peer: this.peer.worker }));
  }

  /** The consumer of a stream takes so many items more. */
  credited(id: number, items: number): void {
    const call = this.open.get(id);
    if (call === undefined) return;
    call.itemCredit += items;
    call.wake?.();
  }

  /** The peer is gone: handlers are told. Those that run on stay open, for whoever wants to know what this worker does. */
  close(): void {
    if (this.open.size === 0) return;
    const text = `worker '${this.peer.worker.name}' is gone`;
    const reason = new RpcError('peer-died', text, { executed: 'yes', peer: this.peer.worker });
    for (const call of [...this.open.values()]) {
      this.server.cancel(call, reason);
      if (!call.counted) this.open.delete(call.id);
    }
  }

  /** The name behind a number. @throws RpcError 'decode-error' */
  nameOf(fn: number): string {
    return this.interned(fn).name;
  }

  /** The definition behind a number; looked up again when what is served has changed. @throws RpcError */
  definition(fn: number): Definition {
    const interned = this.interned(fn);
    if (interned.definition === undefined || interned.version !== this.environment.servedVersion) {
      interned.definition = this.environment.served(interned.name);
      interned.version = this.environment.servedVersion;
    }
    return interned.definition;
  }

  /** Every call is found by its number until it is over: one that could not be would outlive its caller. */
  private checkNumber({ id, flags }: FrameHeader): void {
    const unanswered = (flags & FrameFlag.ONEWAY) !== 0;
    if (id === 0 && !unanswered) throw protocolError('a call without a number that wants an answer');
    if (unanswered && (flags & FrameFlag.STREAM) !== 0) throw protocolError('a stream that wants no answer');
    if (this.open.has(id)) throw protocolError('a call with the number of one that is open');
  }

  /** What a call is found by: below zero where its caller has no number for it. */
  private numberOf({ id }: FrameHeader): number {
    return id === 0 ? -++this.unnumbered : id;
  }

  private interned(fn: number): Interned {
    const interned = this.names[fn];
    if (interned === undefined) throw new RpcError('decode-error', 'a call of a function that was never named');
    return interned;
  }

  /** All bytes are there. What they say may still be wrong: that is the call's affair. */
  private complete(call: InboundCall, arrived: IncomingFrame, incoming: IncomingTensors): void {
    const tensors = tensorsOf(incoming, arrived);
    if (Array.isArray(tensors)) this.server.arrived(call, arrived, tensors);
    else this.server.refuse(call, this.unread(tensors.error));
  }

  private unread(error: unknown): RpcError {
    return decodeFailed(error, this.peer, { self: this.environment.self, what: 'arguments' });
  }

  private refusal(): RpcError | undefined {
    const { refusal, self, limits } = this.environment;
    if (refusal !== undefined) {
      return new RpcError(refusal, `worker '${self.name}' takes no more calls`, { executed: 'no' });
    }
    const { credits } = this.peer.sender.session;
    // Answers have no credit: who reads none of them is given none for calls either, and does not keep to that here.
    if (!credits.wasTold(this.received) && this.peer.sender.congested)
      throw protocolError('calls past the credit of a caller that reads no answers');
    if (!credits.inWindow(this.received, this.receivedBytes)) {
      const text = `more than ${limits.maxInboundCalls} calls or ${limits.maxBufferedBytesPerPeer} bytes of them at once`;
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

  private takeEntries(call: InboundCall): void {
    const key = this.entries.get(KEY_ENTRY);
    const items = this.entries.get(ITEMS_ENTRY);
    const trace = this.entries.get(TRACE_ENTRY);
    this.entries.clear();
    if (trace !== undefined && trace.length <= MAX_TRACE_BYTES) call.trace = trace.slice();
    if (key !== undefined && key.length <= 4 * MAX_IDEMPOTENCY_KEY_LENGTH) call.key = decoder.decode(key);
    if (items !== undefined && items.length === 4)
      call.itemCredit = new DataView(items.buffer, items.byteOffset).getUint32(0, true);
  }
}

function bytesOf(bodies: readonly { readonly nbytes: number }[]): number {
  let bytes = 0;
  for (const { nbytes } of bodies) bytes += nbytes;
  return bytes;
}
