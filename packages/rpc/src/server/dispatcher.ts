/** @file Incoming calls: started in the order they came, refused or cancelled, or handed to whoever runs them. */
import type { Tensor } from '@backwire/tensor';
import type { Message } from '@backwire/wire';
import { FrameFlag, MessageType } from '@backwire/wire/internal';
import { encodeSystemError } from '../session/error-codec.ts';
import { RpcError } from '../base/errors.ts';
import { decodeFailed } from '../base/unsent.ts';
import { readCallPayload } from '../extensions/call-message.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import { ARRIVE } from '../protocol/meetings.ts';
import type { FaultInjector } from '../session/fault-injection.ts';
import type { IncomingFrame } from '../session/incoming-frame.ts';
import type { Peer } from '../session/peer.ts';
import { CallOrder } from './call-order.ts';
import { CallReader } from './call-reader.ts';
import { CallRunner } from './call-runner.ts';
import { Handlers } from './handlers.ts';
import { Idempotency } from './idempotency.ts';
import type { InboundCall } from './inbound-call.ts';
import { InboundCalls, type CallServer } from './inbound-calls.ts';
import type { StallGuard } from './stall-guard.ts';
import { Unwrapper } from './unwrapper.ts';

export class Dispatcher implements CallServer {
  readonly handlers: Handlers;
  readonly idempotency: Idempotency;
  /** Holds back calls that came while this worker stood still. */
  readonly stallGuard: StallGuard;
  readonly runner: CallRunner;
  private readonly environment: ExtendedEnvironment;
  private readonly unwrapper: Unwrapper;
  private readonly reader: CallReader;
  private readonly order = new CallOrder();
  /** The calls of each peer. */
  private readonly callers = new Map<Peer, InboundCalls>();
  /** Of peers that are gone, while their handlers run on. */
  private readonly orphaned = new Set<InboundCalls>();

  constructor(
    environment: ExtendedEnvironment,
    faults: FaultInjector,
    stallGuard: StallGuard,
    maxConcurrentCalls: number,
  ) {
    this.environment = environment;
    this.stallGuard = stallGuard;
    this.handlers = new Handlers(environment, faults, stallGuard, maxConcurrentCalls);
    this.idempotency = new Idempotency(environment);
    this.reader = new CallReader(environment);
    this.runner = new CallRunner(environment, this.handlers, this.idempotency, this.reader);
    this.unwrapper = new Unwrapper(environment, this.handlers, this.runner);
  }

  /** The calls of a peer: those that are open, and where its frames with calls go. */
  callsOf(peer: Peer): InboundCalls {
    let calls = this.callers.get(peer);
    if (calls === undefined) this.callers.set(peer, (calls = new InboundCalls(this.environment, this, peer)));
    return calls;
  }

  /** The session with a peer is over. */
  forget(peer: Peer): void {
    const calls = this.callers.get(peer);
    this.callers.delete(peer);
    if (calls !== undefined && calls.open.size > 0) this.orphaned.add(calls);
  }

  /** All calls that are not over, peer by peer. */
  get open(): Iterable<InboundCalls> {
    for (const calls of this.orphaned) if (calls.open.size === 0) this.orphaned.delete(calls);
    return [...this.callers.values(), ...this.orphaned];
  }

  /** A call whose storages are on their way keeps its place. */
  reserve(call: InboundCall): void {
    this.order.reserve(call);
  }

  /** A call is here with all its storages. What it lies in is valid only now. */
  arrived(call: InboundCall, arrived: IncomingFrame, tensors: Tensor[]): void {
    const { extensions } = this.environment;
    const plain =
      (extensions.isPlain(arrived.messageType) && !extensions.hasHandler(arrived.messageType)) ||
      isMeeting(call, arrived);
    if (plain) this.plainArrived(call, arrived, tensors);
    else this.messageArrived(call, arrived, tensors);
  }

  private plainArrived(call: InboundCall, arrived: IncomingFrame, tensors: Tensor[]): void {
    const { messageType } = arrived;
    let pending: readonly Promise<unknown>[];
    try {
      pending = this.reader.read(call, arrived, tensors);
    } catch (error) {
      this.refuse(call, error instanceof RpcError ? error : this.unread(error, call));
      return;
    } finally {
      if (arrived.done.length > 0) for (const done of arrived.done) done();
    }
    if (pending.length === 0 && this.order.isFree(call.peer)) {
      this.runner.start(call, messageType);
      return;
    }
    this.order.ready(
      call,
      () => this.runner.start(call, messageType),
      pending,
      (error) => this.refuse(call, error),
    );
  }

  private messageArrived(call: InboundCall, arrived: IncomingFrame, tensors: Tensor[]): void {
    const { done, messageType } = arrived;
    let message: Message;
    try {
      message = this.unwrapper.wholeMessage(call, arrived, tensors);
    } catch (error) {
      for (const fn of done) fn();
      this.refuse(call, error instanceof RpcError ? error : decodeFailed(error, call.peer));
      return;
    }
    call.unclaimed = done;
    const serve = (): void => this.unwrapper.serve(call, message, done);
    if (ORDERED.has(messageType)) {
      this.order.ready(call, serve, [], (error) => this.refuse(call, error));
      return;
    }
    // It waits for nobody, so the place that was kept while its storages came is given back.
    this.order.drop(call);
    serve();
  }

  /** Answers a call that is not run. */
  refuse(call: InboundCall, error: RpcError): void {
    if (call.state === 'over') return;
    this.dismiss(call, error);
    if ((call.flags & FrameFlag.ONEWAY) === 0) this.handlers.answers.error(call, encodeSystemError(error));
    this.handlers.answers.credit(call);
  }

  /** The caller does not want it any more. Its handler is told; nothing is answered. */
  cancel(call: InboundCall, reason: RpcError): void {
    if (call.state === 'over') return;
    const { state } = call;
    call.abort(reason);
    if (state === 'running') return;
    this.dismiss(call, reason);
    this.handlers.answers.credit(call);
  }

  /** Ends a call that has not begun. */
  private dismiss(call: InboundCall, error: RpcError): void {
    this.environment.observers.current?.handled?.(call, error);
    this.order.drop(call);
    call.finish();
    call.origin.open.delete(call.id);
  }

  private unread(error: unknown, { definition, peer }: InboundCall): RpcError {
    return decodeFailed(error, peer, { self: this.environment.self, what: 'arguments', name: definition?.name });
  }
}

/** Meetings are the agent's own: no extension wraps them. */
function isMeeting({ origin }: InboundCall, { fn, messageType, bytes, start, end }: IncomingFrame): boolean {
  try {
    if (fn !== 0) return origin.nameOf(fn) === ARRIVE;
    // One that was held back on purpose says its name itself.
    return messageType === MessageType.PYTHON_CALL && readCallPayload(bytes.subarray(start, end)).name === ARRIVE;
  } catch {
    return false; // a name that was never given, or that cannot be read, is refused further on
  }
}

/** Types that start code of the program, in the order they were sent; all others are the extensions' own and never wait for one another. */
const ORDERED: ReadonlySet<number> = new Set([
  MessageType.PYTHON_CALL,
  MessageType.SCRIPT_CALL,
  MessageType.PYTHON_REMOTE_CALL,
  MessageType.SCRIPT_REMOTE_CALL,
  MessageType.FORWARD_AUTOGRAD_REQ,
  MessageType.RUN_WITH_PROFILING_REQ,
]);
