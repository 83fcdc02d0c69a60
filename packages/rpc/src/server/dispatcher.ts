/** @file Incoming calls: started in the order they came, so many at once, cancelled, answered. */
import type { Tensor } from '@backwire/tensor';
import { callScope, runCall, runClean } from '@backwire/tensor/internal';
import type { Message } from '@backwire/wire';
import { FrameFlag, type FrameKind, MessageType } from '@backwire/wire/internal';
import { ReplyWriter } from './reply-writer.ts';
import { ARRIVE } from '../protocol/meetings.ts';
import { CallReader, type ReadCall } from './call-reader.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import { invoke, type Definition } from '../base/definitions.ts';
import { encodeSystemError, encodeThrown } from '../session/error-codec.ts';
import { RpcError } from '../base/errors.ts';
import type { RpcAgent } from '../base/rpc-agent.ts';
import type { Incoming, RpcMessage } from '../extensions/extension.ts';
import { digestOf } from './call-digest.ts';
import { Idempotency } from './idempotency.ts';
import type { InboundCall } from './inbound-call.ts';
import type { IncomingFrame } from '../session/incoming-frame.ts';
import { messageOf } from '../session/receiver.ts';
import { decodeFailed } from '../base/unsent.ts';
import { callPayload, encodeReply, readCallPayload } from '../extensions/call-message.ts';
import type { Peer } from '../session/peer.ts';
import { isGenerator, promiseOf } from './handler.ts';
import { invokeAdopted, runInScope } from './handler.ts';
import { ConcurrencyLimit } from './concurrency-limit.ts';
import { pumpStream, type StreamHost } from './stream-writer.ts';
import type { FaultInjector } from '../session/fault-injection.ts';
import type { StallGuard } from './stall-guard.ts';
import { InboundCalls, type CallServer } from './inbound-calls.ts';
import { isSystem, system } from '../base/system-error.ts';
import { CallOrder } from './call-order.ts';

export class Dispatcher implements CallServer, StreamHost {
  /** Handlers that have not finished. */
  active = 0;
  /** The calls of each peer. */
  private readonly callers = new Map<Peer, InboundCalls>();
  /** Of peers that are gone, while their handlers run on. */
  private readonly orphaned = new Set<InboundCalls>();
  /** Calls handled since the start. */
  handled = 0;
  readonly idempotency: Idempotency;
  readonly maxConcurrentCalls: number;
  readonly faults: FaultInjector;
  /** Holds back calls that came while this worker stood still. */
  readonly stallGuard: StallGuard;
  private readonly environment: ExtendedEnvironment;
  private readonly slots: ConcurrencyLimit;
  private readonly turns = new CallOrder();
  private readonly answers: ReplyWriter;
  private readonly reader: CallReader;
  private idleWaiters: (() => void)[] = [];

  constructor(
    environment: ExtendedEnvironment,
    faults: FaultInjector,
    stallGuard: StallGuard,
    maxConcurrentCalls: number,
  ) {
    this.environment = environment;
    this.stallGuard = stallGuard;
    this.faults = faults;
    this.maxConcurrentCalls = maxConcurrentCalls;
    this.slots = new ConcurrencyLimit(maxConcurrentCalls);
    this.idempotency = new Idempotency(environment);
    this.answers = new ReplyWriter(environment, faults, this);
    this.reader = new CallReader(environment);
  }

  get agent(): RpcAgent {
    return this.environment.agent;
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
    this.turns.reserve(call);
  }

  /** A call is here with all its storages. What it lies in is valid only now. */
  arrived(call: InboundCall, arrived: IncomingFrame, tensors: Tensor[]): void {
    const { extensions } = this.environment;
    const plain =
      (extensions.isPlain(arrived.messageType) && !extensions.hasHandler(arrived.messageType)) ||
      isMeeting(call, arrived);
    if (!plain) {
      let message: Message;
      try {
        message = this.wholeMessage(call, arrived, tensors);
      } catch (error) {
        for (const done of arrived.done) done();
        this.refuse(call, error instanceof RpcError ? error : decodeFailed(error, call.peer));
        return;
      }
      const { done, messageType } = arrived;
      call.unclaimed = done;
      if (ORDERED.has(messageType))
        this.turns.ready(
          call,
          () => this.serve(call, message, done),
          [],
          (error) => this.refuse(call, error),
        );
      else {
        // It waits for nobody, so the place that was kept while its storages came is given back.
        this.turns.drop(call);
        this.serve(call, message, done);
      }
      return;
    }
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
    if (pending.length === 0 && this.turns.isFree(call.peer)) {
      this.start(call, messageType);
      return;
    }
    this.turns.ready(
      call,
      () => this.start(call, messageType),
      pending,
      (error) => this.refuse(call, error),
    );
  }

  /** Answers a call that is not run. */
  refuse(call: InboundCall, error: RpcError): void {
    if (call.state === 'over') return;
    this.turns.drop(call);
    call.finish();
    if (call.id !== 0) call.origin.open.delete(call.id);
    if ((call.flags & FrameFlag.ONEWAY) === 0) this.answers.error(call, encodeSystemError(error));
    this.answers.credit(call);
  }

  /** The caller does not want it any more. Its handler is told; nothing is answered. */
  cancel(call: InboundCall, reason: RpcError): void {
    if (call.state === 'over') return;
    const { state } = call;
    call.abort(reason);
    if (state === 'running') return;
    this.turns.drop(call);
    call.finish();
    call.origin.open.delete(call.id);
    this.answers.credit(call);
  }

  /** A handler waits for an outgoing call: it gives its slot back. */
  callOut(call: InboundCall): void {
    // What it asks of others has its time, at most.
    call.watched = true;
    if (call.outgoing++ === 0) this.slots.release(call);
  }

  /** One of the outgoing calls of a handler is over; it goes on, even when all slots are taken by now. */
  callBack(call: InboundCall): void {
    if (--call.outgoing > 0 || call.state !== 'running' || !call.counted) return;
    this.slots.take(call);
  }

  /** Handlers that run now and do not wait for an outgoing call. */
  get running(): number {
    return this.slots.used;
  }
  /** Calls that wait for a slot. */
  get queued(): number {
    return this.slots.queued;
  }

  /** Resolves when no handler runs and none waits. */
  idle(): Promise<void> {
    if (this.active === 0) return Promise.resolve();
    return new Promise((resolve) => this.idleWaiters.push(resolve));
  }

  /** Runs a call that came as a message (PYTHON_CALL or SCRIPT_CALL), inside the handler context that is current. */
  async runMessage(from: Peer, message: Message, call: InboundCall | undefined): Promise<unknown> {
    return this.runRead(from, this.readMessage(from, message), call, undefined);
  }

  /** Waits for what the arguments wait for, says that the handler begins, and runs it. */
  private async runRead(
    from: Peer,
    { definition, args, pending, unclaimed }: ReadCall,
    call: InboundCall | undefined,
    began: (() => void) | undefined,
  ): Promise<unknown> {
    if (call !== undefined) call.definition = definition;
    try {
      if (pending.length > 0) await Promise.all(pending);
      if (call?.aborted === true) throw new RpcError('cancelled', 'the call was cancelled', { peer: from.worker });
      this.environment.checkResult(definition, args);
    } catch (error) {
      for (const give of unclaimed ?? []) give();
      throw error;
    }
    began?.();
    try {
      return await (definition.scope ? runInScope(definition, args) : invoke(definition, args));
    } catch (error) {
      if (typeof error === 'object' && error !== null) this.thrown.add(error);
      throw error;
    }
  }

  private readMessage(from: Peer, message: Message): ReadCall {
    try {
      return this.reader.message(from, message);
    } catch (error) {
      throw error instanceof RpcError
        ? error
        : decodeFailed(error, from, { self: this.environment.self, what: 'arguments' });
    }
  }

  private unread(error: unknown, { definition, peer }: InboundCall): RpcError {
    return decodeFailed(error, peer, { self: this.environment.self, what: 'arguments', name: definition?.name });
  }

  /** What handlers threw that ran on behalf of an extension: it goes to the caller as theirs, not as the system's. */
  private readonly thrown = new WeakSet<object>();

  /** The reply to a plain call of the function that `name` says, as a message. @throws as `Answers.value` */
  replyMessage(to: Peer, type: number, value: unknown, name: () => string): RpcMessage {
    return encodeReply(this.environment, to.worker, replyTypeOf(type), value, name);
  }

  /** A call by an interned name gets the payload that says the name itself: extensions look at messages. */
  private wholeMessage(call: InboundCall, arrived: IncomingFrame, tensors: Tensor[]): Message {
    const message = messageOf(arrived, tensors);
    if (arrived.fn === 0) return message;
    return { ...message, payload: callPayload(call.origin.nameOf(arrived.fn), message.payload) };
  }

  private start(call: InboundCall, type: number): void {
    // No closures in here: with one, a context would be made for every call.
    if (!this.slots.hasRoom(call.origin.share) && call.definition?.name !== ARRIVE) {
      this.startLater(call, type, this.slots);
      return;
    }
    if (call.state === 'over') return;
    if (this.stallGuard.inDoubt && this.startsHeld(call, type)) return;
    if (call.peer.sender.congested) {
      this.startLater(call, type, undefined);
      return;
    }
    const definition = call.definition as Definition;
    call.state = 'running';
    this.environment.observers.current?.handling?.(call);
    if (definition.name !== ARRIVE) {
      call.counted = true;
      this.slots.take(call);
      this.active++;
    }
    if (call.key !== undefined) {
      this.once(call, definition, type);
      return;
    }
    if (definition.scope && (call.flags & FrameFlag.STREAM) === 0) {
      this.startInScope(call, definition, type);
      return;
    }
    let result: unknown;
    let later: Promise<unknown> | undefined;
    try {
      result = this.run(definition, call);
      later = promiseOf(result);
    } catch (error) {
      this.fail(call, error);
      return;
    }
    if (later === undefined) this.complete(call, result, type);
    else this.completeLater(call, later, type);
  }

  private startsHeld(call: InboundCall, type: number): boolean {
    return this.isHeld(call, () => this.start(call, type));
  }

  /** This worker stood still and does not know yet whether it is a member. */
  private isHeld(call: InboundCall, start: () => void): boolean {
    if (!this.stallGuard.holds(call, start)) return false;
    if (call.id !== 0) call.origin.open.set(call.id, call);
    return true;
  }

  /** When a slot is free, or else when its peer takes answers again. */
  private startLater(call: InboundCall, type: number, slots: ConcurrencyLimit | undefined): void {
    if (call.id !== 0) call.origin.open.set(call.id, call);
    const start = (): void => this.start(call, type);
    if (slots === undefined) call.peer.sender.whenClear(start);
    else slots.wait(call.origin.share, start);
  }

  private completeLater(call: InboundCall, later: Promise<unknown>, type: number): void {
    if (call.id !== 0) call.origin.open.set(call.id, call);
    later.then(
      (value) => this.complete(call, value, type),
      (error: unknown) => this.fail(call, error),
    );
  }

  /**
   * The scope ends when the answer is written: what arrived, what was made and what was answered goes back to the pool then, unless it
   * was kept or was there before. Left to the collector, every large echo lands in fresh memory, at a third of the speed.
   */
  private startInScope(call: InboundCall, definition: Definition, type: number): void {
    let later: Promise<unknown> | undefined;
    try {
      later = callScope(this.environment.agent, call, () => {
        const result = invokeAdopted(definition, call.takeArgs());
        const promise = promiseOf(result);
        if (promise === undefined) {
          this.complete(call, result, type);
          return undefined;
        }
        if (call.id !== 0) call.origin.open.set(call.id, call);
        return promise.then((value) => this.complete(call, value, type));
      });
    } catch (error) {
      this.fail(call, error);
      return;
    }
    later?.catch((error: unknown) => this.fail(call, error));
  }

  /** A call with a key: joins the one that runs under it, or gets its outcome. */
  private once(call: InboundCall, definition: Definition, type: number): void {
    if (call.id !== 0) call.origin.open.set(call.id, call);
    const run = async (began: () => void): Promise<RpcMessage> => {
      if (!call.holdsSlot) await this.takeSlot(call);
      began();
      return this.replyMessage(call.peer, type, await this.run(definition, call), () => definition.name);
    };
    const rest = (): void => this.slots.release(call);
    this.idempotency.run({ call, name: definition.name, digest: call.digest, run, rest }).then(
      (reply) => this.reply(call, reply),
      (error: unknown) => this.fail(call, error),
    );
  }

  /** Takes a slot again for a call that has waited without one. @throws RpcError 'cancelled' when it is too late by then. */
  private async takeSlot(call: InboundCall): Promise<void> {
    await this.slots.hold(call);
    if (!call.aborted && call.deadline > this.environment.now()) return;
    throw system(new RpcError('cancelled', 'nobody waits for the call any more', { peer: call.caller }));
  }

  private run(definition: Definition, call: InboundCall): unknown {
    const { agent } = this.environment;
    const args = call.takeArgs();
    if (definition.origin === 'builtin') this.environment.checkResult(definition, args);
    // Tensor operations look at nothing ambient but what is at the root already.
    if (definition.name.startsWith('aten::')) return invoke(definition, args);
    return runCall(agent, call, undefined, () =>
      definition.scope ? runInScope(definition, args) : invoke(definition, args),
    );
  }

  private complete(call: InboundCall, value: unknown, type: number): void {
    if ((call.flags & FrameFlag.STREAM) !== 0) {
      if (call.id !== 0) call.origin.open.set(call.id, call);
      pumpStream(this, call, value).then(
        () => this.over(call),
        (error: unknown) => this.fail(call, error),
      );
      return;
    }
    if (call.aborted || (call.flags & FrameFlag.ONEWAY) !== 0) {
      this.over(call);
      return;
    }
    try {
      if (isGenerator(value))
        throw new RpcError('failed-precondition', 'a generator is called with rpcStream()', { executed: 'yes' });
      if (!this.answers.result(call, replyTypeOf(type), value)) return;
    } catch (error) {
      this.fail(call, error);
      return;
    }
    this.over(call);
  }

  fail(call: InboundCall, error: unknown): void {
    if (!call.aborted && (call.flags & FrameFlag.ONEWAY) === 0) {
      this.answers.error(call, isSystem(error) ? encodeSystemError(error) : encodeThrown(error));
    } else if ((call.flags & FrameFlag.ONEWAY) !== 0) {
      this.warnOneway(call, error);
    }
    this.over(call, error ?? 'nothing was thrown');
  }

  /** Nobody waits for it, so it is logged; what cannot even be logged must not keep the call open. */
  private warnOneway(call: InboundCall, error: unknown): void {
    const about = { from: call.caller.name, name: call.definition?.name };
    try {
      this.environment.logger.warn({ error, ...about }, 'a one-way call failed');
    } catch {
      this.environment.logger.warn(about, 'a one-way call failed with something that cannot be shown');
    }
  }

  over(call: InboundCall, error?: unknown): void {
    this.environment.observers.current?.handled?.(call, error);
    this.slots.give(call);
    call.finish();
    if (call.id !== 0 && call.origin.open.size > 0) call.origin.open.delete(call.id);
    if (call.counted) {
      call.counted = false;
      this.active--;
      this.handled++;
    }
    this.answers.credit(call);
    this.slots.next();
    if (this.active === 0 && this.idleWaiters.length > 0) for (const resolve of this.idleWaiters.splice(0)) resolve();
  }

  /** A wrapped request, or one of an extension: whoever owns its type serves it. It takes no slot: what it runs does. */
  private serve(call: InboundCall, message: Message, done: readonly (() => void)[]): void {
    if (call.state === 'over') {
      for (const fn of done) fn();
      return;
    }
    if (this.stallGuard.inDoubt && this.isHeld(call, () => this.serve(call, message, done))) return;
    call.state = 'running';
    call.unclaimed = undefined;
    call.counted = true;
    this.active++;
    this.environment.observers.current?.handling?.(call);
    if (call.id !== 0) call.origin.open.set(call.id, call);
    const incoming: Incoming = { from: call.peer.worker, message };
    runClean({ agent: this.environment.agent, call }, async () =>
      this.environment.extensions.serve(incoming, (plain) => this.plain(call, plain)),
    )
      .finally(() => {
        for (const fn of done) fn();
      })
      .then(
        (reply) => this.reply(call, reply),
        (error: unknown) =>
          this.fail(call, error instanceof RpcError && !this.thrown.has(error) ? system(error) : error),
      );
  }

  /** The innermost handler: plain calls by name. */
  private async plain(call: InboundCall, { message }: Incoming): Promise<RpcMessage> {
    if (message.type !== MessageType.PYTHON_CALL && message.type !== MessageType.SCRIPT_CALL) {
      throw new RpcError(
        'failed-precondition',
        `worker '${this.environment.self.name}' has no handler for messages of this type`,
      );
    }
    if (call.key !== undefined) return this.onceMessage(call, message);
    const value = await this.slotted(call, () => this.runMessage(call.peer, message, call));
    const name = (): string => readCallPayload(message.payload).name;
    if ((call.flags & FrameFlag.STREAM) === 0) return this.replyMessage(call.peer, message.type, value, name);
    await pumpStream(this, call, value);
    return this.replyMessage(call.peer, message.type, undefined, name);
  }

  /** As `once`, of a call that came as a message. */
  private onceMessage(call: InboundCall, message: Message): Promise<RpcMessage> {
    const read = this.readMessage(call.peer, message);
    call.unclaimed = read.unclaimed;
    const { start, end } = readCallPayload(message.payload);
    const digest = digestOf(this.environment, message.payload.subarray(start, end), message.tensors, read, call.peer);
    const run = async (began: () => void): Promise<RpcMessage> => {
      call.unclaimed = undefined;
      const value = await this.slotted(call, () => this.runRead(call.peer, read, call, began));
      return this.replyMessage(call.peer, message.type, value, () => read.definition.name);
    };
    return this.idempotency.run({ call, name: read.definition.name, digest, run, rest: () => undefined });
  }

  /** Runs user code of a served message in a slot. */
  async slotted<T>(call: InboundCall, fn: () => Promise<T>): Promise<T> {
    const free = this.slots.hold(call);
    // With a slot at once its handler starts in this very turn: calls start in the order in which they were sent.
    if (free !== undefined) await free;
    try {
      return await fn();
    } finally {
      this.slots.release(call);
    }
  }

  private reply(call: InboundCall, reply: RpcMessage): void {
    if ((call.flags & FrameFlag.STREAM) !== 0 && !call.streamed) {
      this.fail(call, new RpcError('failed-precondition', 'an extension answered a stream with a message'));
      return;
    }
    // The end of a stream was its answer.
    if (!call.aborted && (call.flags & (FrameFlag.ONEWAY | FrameFlag.STREAM)) === 0) {
      try {
        if (!this.answers.message(call, reply)) return;
      } catch (error) {
        this.fail(call, error);
        return;
      }
    }
    this.over(call);
  }

  /** Writes a value as an answer, or an item of one. @throws what cannot travel; nothing was sent then. */
  sendValue(call: InboundCall, kind: FrameKind, type: number, value: unknown): void {
    this.answers.value(call, kind, type, value);
  }
}

const replyTypeOf = (type: number): number =>
  type === MessageType.SCRIPT_CALL ? MessageType.SCRIPT_RET : MessageType.PYTHON_RET;

/** Meetings are the agent's own: no extension wraps them. */
function isMeeting({ origin }: InboundCall, { fn }: IncomingFrame): boolean {
  try {
    return fn !== 0 && origin.nameOf(fn) === ARRIVE;
  } catch {
    return false; // a name that was never given is refused further on
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
