/** @file Puts answers into frames, and gives callers their credit back. */
import type { Tensor } from '@backwire/tensor';
import { FrameKind, MessageType, planTensors, type TensorPlan } from '@backwire/wire/internal';
import type { ValueContext } from '../base/environment.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import { NOTHING_INSIDE, WriteContext } from '../extensions/value-context.ts';
import { encodeSystemError, encodeThrown } from '../session/error-codec.ts';
import { RpcError } from '../base/errors.ts';
import type { RpcMessage } from '../extensions/extension.ts';
import { unsent } from '../base/unsent.ts';
import type { FaultInjector } from '../session/fault-injection.ts';
import type { Draft } from '../session/draft.ts';
import type { Peer } from '../session/peer.ts';
import type { InboundCall } from './inbound-call.ts';
import { encodeFor } from '../extensions/call-message.ts';
import { isSystem } from '../base/system-error.ts';

/** Who the calls are that are answered here. */
export interface Answered {
  over(call: InboundCall): void;
  fail(call: InboundCall, error: unknown): void;
}

export class ReplyWriter {
  private readonly environment: ExtendedEnvironment;
  private readonly faults: FaultInjector;
  private readonly calls: Answered;
  /** Callers whose credit waits until they take their answers. */
  private readonly withheld = new WeakSet<Peer>();

  constructor(environment: ExtendedEnvironment, faults: FaultInjector, calls: Answered) {
    this.environment = environment;
    this.faults = faults;
    this.calls = calls;
  }

  /** Writes the result of a call; false when it is held back on purpose: the call is over when it has left. @throws as `value`. */
  result(call: InboundCall, type: number, value: unknown): boolean {
    const delayMs = this.faults.answer(type);
    if (delayMs === 0) {
      this.value(call, FrameKind.RESULT, type, value);
      return true;
    }
    const { bytes, tensors, header } = encodeFor(this.environment, call.peer.worker, value);
    this.hold(call, { type, id: 0n, payload: bytes, tensors, header }, delayMs);
    return false;
  }

  /** Writes a value. @throws what cannot travel; nothing was sent then, and what was drawn for it is taken back. */
  value(call: InboundCall, kind: FrameKind, type: number, value: unknown): void {
    const { sender, worker, state } = call.peer;
    if (state === 'gone') return;
    const draft = sender.begin(kind, false);
    let plan: TensorPlan | undefined;
    const context: ValueContext = value === undefined ? NOTHING_INSIDE : new WriteContext(worker);
    try {
      const tensors: Tensor[] = value === undefined ? NO_TENSORS : [];
      this.environment.codec.write(draft.out, value, tensors, context);
      if (tensors.length > 0)
        plan = planTensors(tensors, { mapDevice: this.environment.deviceMaps.to(worker.name, 'Response') });
      draft.messageType = type;
      draft.callId = call.id;
      draft.table = context.header;
      draft.plan = plan;
      sender.end(draft);
      if (kind !== FrameKind.STREAM_ITEM) call.answered = true;
    } catch (error) {
      plan?.release();
      draft.abort();
      this.environment.extensions.undelivered(worker, context.header);
      const what = kind === FrameKind.RESULT ? 'the result' : 'an item';
      const name = call.definition?.name ?? '';
      throw unsent(error, { what, name, to: worker, self: this.environment.self, executed: 'yes' });
    }
  }

  /** Writes a whole message; false when it is held back on purpose, as `result`. @throws as `value`. */
  message(call: InboundCall, reply: RpcMessage): boolean {
    const { worker, state } = call.peer;
    if (state === 'gone') {
      this.environment.extensions.undelivered(worker, reply.header ?? []);
      return true;
    }
    try {
      const delayMs = this.faults.answer(reply.type);
      if (delayMs > 0) this.hold(call, reply, delayMs);
      else this.write(call, reply, this.plan(call, reply));
      return delayMs === 0;
    } catch (error) {
      this.environment.extensions.undelivered(worker, reply.header ?? []);
      throw error;
    }
  }

  /** An injected delay: what is answered is what the values are now. */
  private hold(call: InboundCall, reply: RpcMessage, delayMs: number): void {
    const plan = this.plan(call, reply);
    plan?.secure();
    const kept: RpcMessage = { ...reply, payload: reply.payload.slice() };
    call.origin.open.set(call.id, call);
    this.faults.after(delayMs, () => {
      try {
        if (call.aborted || call.peer.state === 'gone') {
          plan?.release();
          this.environment.extensions.undelivered(call.caller, reply.header ?? []);
        } else this.write(call, kept, plan);
      } catch (error) {
        this.environment.extensions.undelivered(call.caller, reply.header ?? []);
        this.calls.fail(call, error);
        return;
      }
      this.calls.over(call);
    });
  }

  private plan({ caller }: InboundCall, { tensors }: RpcMessage): TensorPlan | undefined {
    if (tensors.length === 0) return undefined;
    return planTensors(tensors, { mapDevice: this.environment.deviceMaps.to(caller.name, 'Response') });
  }

  private write(call: InboundCall, reply: RpcMessage, plan: TensorPlan | undefined): void {
    const { sender } = call.peer;
    let draft: Draft | undefined;
    try {
      draft = sender.begin(FrameKind.RESULT, false);
      draft.out.raw(reply.payload);
      draft.messageType = reply.type;
      draft.callId = call.id;
      draft.table = reply.header;
      draft.plan = plan;
      sender.end(draft);
      call.answered = true;
    } catch (error) {
      plan?.release();
      draft?.abort();
      throw error;
    }
  }

  /** Writes a failure; in place of one that fails on purpose, that it did. */
  error(call: InboundCall, payload: Uint8Array): void {
    try {
      const delayMs = this.faults.answer(MessageType.EXCEPTION);
      if (delayMs > 0) this.faults.after(delayMs, () => this.writeError(call, payload));
      else this.writeError(call, payload);
    } catch (error) {
      this.writeError(call, isSystem(error) ? encodeSystemError(error) : encodeThrown(error));
    }
  }

  private writeError(call: InboundCall, payload: Uint8Array): void {
    const { sender, state } = call.peer;
    if (state === 'gone' || sender.session.state === 'closed') return;
    const draft = sender.begin(FrameKind.ERROR, false);
    try {
      draft.out.raw(payload);
      draft.messageType = MessageType.EXCEPTION;
      draft.callId = call.id;
      sender.end(draft);
      call.answered = true;
    } catch (error) {
      draft.abort();
      this.environment.logger.error({ error }, 'an error could not be sent');
      // Its caller waits: it gets one that is certainly short enough.
      if (payload.length > BRIEF_ERROR_BYTES)
        this.error(call, encodeSystemError(new RpcError('remote-error', TOO_LONG, { executed: 'yes' })));
    }
  }

  /** A call is over: its caller may make another. */
  credit(call: InboundCall): void {
    const { credits } = call.peer.sender.session;
    credits.finished(1, call.bytes);
    if (credits.grantIsDue()) this.grant(call.peer);
  }

  /** Not while its answers pile up: who calls and reads nothing would go on for ever. */
  private grant(peer: Peer): void {
    const { sender } = peer;
    const grant = (): void => {
      this.withheld.delete(peer);
      const { calls, bytes } = sender.session.credits.grant();
      sender.sendLoose(FrameKind.CREDIT, 0, calls >>> 0, 0, bytes);
    };
    if (this.withheld.has(peer)) return;
    if (!sender.congested) {
      grant();
      return;
    }
    this.withheld.add(peer);
    sender.whenClear(grant);
  }
}

/** The text of a failure that is longer than a frame may be. */
const TOO_LONG = 'the handler failed, and its error is larger than a frame may be (limits.maxFrameBytes)';
/** What every frame has room for. */
const BRIEF_ERROR_BYTES = 4096;
/** Of answers without a value, which add none. */
const NO_TENSORS: Tensor[] = [];
