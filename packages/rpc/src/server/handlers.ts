/** @file Handlers at work: the slots that they run in, how many there are, and the answer that ends each of them. */
import { FrameFlag, type FrameKind, MessageType } from '@backwire/wire/internal';
import { encodeSystemError, encodeThrown } from '../session/error-codec.ts';
import { RpcError } from '../base/errors.ts';
import type { RpcAgent } from '../base/rpc-agent.ts';
import { isSystem, system } from '../base/system-error.ts';
import { encodeReply } from '../extensions/call-message.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import type { RpcMessage } from '../extensions/extension.ts';
import type { FaultInjector } from '../session/fault-injection.ts';
import { ConcurrencyLimit } from './concurrency-limit.ts';
import type { InboundCall } from './inbound-call.ts';
import { ReplyWriter } from './reply-writer.ts';
import type { Peer } from '../session/peer.ts';
import type { StallGuard } from './stall-guard.ts';
import type { StreamHost } from './stream-writer.ts';

export class Handlers implements StreamHost {
  /** Handlers that have not finished. */
  active = 0;
  /** Calls handled since the start. */
  handled = 0;
  readonly maxConcurrentCalls: number;
  readonly slots: ConcurrencyLimit;
  readonly answers: ReplyWriter;
  readonly faults: FaultInjector;
  /** Holds back calls that came while this worker stood still. */
  readonly stallGuard: StallGuard;
  private readonly environment: ExtendedEnvironment;

  constructor(
    environment: ExtendedEnvironment,
    faults: FaultInjector,
    stallGuard: StallGuard,
    maxConcurrentCalls: number,
  ) {
    this.environment = environment;
    this.faults = faults;
    this.stallGuard = stallGuard;
    this.maxConcurrentCalls = maxConcurrentCalls;
    this.slots = new ConcurrencyLimit(maxConcurrentCalls);
    this.answers = new ReplyWriter(environment, faults, this);
  }

  get agent(): RpcAgent {
    return this.environment.agent;
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

  /** A call is run from now on; `counted` says whether it is waited for at the end. */
  begin(call: InboundCall, counted = true): void {
    call.state = 'running';
    this.environment.observers.current?.handling?.(call);
    if (!counted) return;
    call.counted = true;
    this.active++;
  }

  /** This worker stood still and does not know yet whether it is a member. */
  isHeld(call: InboundCall, start: () => void): boolean {
    if (!this.stallGuard.holds(call, start)) return false;
    call.origin.open.set(call.id, call);
    return true;
  }

  /** Takes a slot again for a call that has waited without one. @throws RpcError 'cancelled' when it is too late by then. */
  async takeSlot(call: InboundCall): Promise<void> {
    await this.slots.hold(call);
    if (!call.aborted && call.deadline > this.environment.now()) return;
    throw system(new RpcError('cancelled', 'nobody waits for the call any more', { peer: call.caller }));
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

  fail(call: InboundCall, error: unknown): void {
    if (call.answered) {
      // Something of ours broke after the answer: its caller has that.
      this.environment.logger.error({ error, name: call.definition?.name }, 'a call failed after its answer');
    } else if (!call.aborted && (call.flags & FrameFlag.ONEWAY) === 0) {
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
    if (call.origin.open.size > 0) call.origin.open.delete(call.id);
    if (call.counted) {
      call.counted = false;
      this.active--;
      this.handled++;
    }
    this.answers.credit(call);
    this.slots.next();
  }

  /** Ends a call with a reply that is encoded already. */
  reply(call: InboundCall, reply: RpcMessage): void {
    if ((call.flags & FrameFlag.STREAM) !== 0 && !call.streamed) {
      this.unanswered(call, reply);
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
    } else this.unanswered(call, reply);
    this.over(call);
  }

  /** A reply is not sent: what was drawn for it is taken back. */
  unanswered(call: InboundCall, { header }: RpcMessage): void {
    if (header !== undefined) this.environment.extensions.undelivered(call.caller, header);
  }

  /** The reply to a plain call of the function that `name` says, as a message. @throws as `Answers.value` */
  replyMessage(to: Peer, type: number, value: unknown, name: () => string): RpcMessage {
    return encodeReply(this.environment, to.worker, replyTypeOf(type), value, name);
  }

  /** Writes a value as an answer, or an item of one. @throws what cannot travel; nothing was sent then. */
  sendValue(call: InboundCall, kind: FrameKind, type: number, value: unknown): void {
    this.answers.value(call, kind, type, value);
  }
}

export const replyTypeOf = (type: number): number =>
  type === MessageType.SCRIPT_CALL ? MessageType.SCRIPT_RET : MessageType.PYTHON_RET;
