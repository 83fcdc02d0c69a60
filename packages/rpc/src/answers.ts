/** @file Puts answers into frames, and gives callers their credit back. */
import type { Tensor } from '@backwire/tensor';
import { FrameKind, MessageType, planTensors, type FrameWriter, type TensorPlan } from '@backwire/wire/internal';
import type { Core, ValueContext } from './core.ts';
import { NOTHING_INSIDE, WriteContext } from './decode-context.ts';
import { encodeSystemError } from './error-codec.ts';
import { RpcError } from './errors.ts';
import type { RpcMessage } from './extension.ts';
import { unsent } from './unsent.ts';
import type { InboundCall } from './inbound-call.ts';

export class Answers {
  private readonly core: Core;

  constructor(core: Core) {
    this.core = core;
  }

  /** Writes a value. @throws what cannot travel; nothing was sent then, and what was drawn for it is taken back. */
  value(call: InboundCall, kind: FrameKind, type: number, value: unknown): void {
    const { outbox, worker, state } = call.peer;
    if (state === 'gone') return;
    const writer = outbox.begin(false);
    let plan: TensorPlan | undefined;
    const context: ValueContext = value === undefined ? NOTHING_INSIDE : new WriteContext(worker);
    try {
      const tensors: Tensor[] = value === undefined ? NO_TENSORS : [];
      this.core.codec.write(writer.out, value, tensors, context);
      if (tensors.length > 0)
        plan = planTensors(tensors, { mapDevice: this.core.deviceMaps.to(worker.name, 'Response') });
      outbox.end(writer, kind, 0, type, call.id, 0, -1, false, undefined, undefined, context.header, plan);
    } catch (error) {
      plan?.release();
      if (writer.open) writer.abort();
      this.core.extensions.undelivered(worker, context.header);
      const what = kind === FrameKind.RESULT ? 'the result' : 'an item';
      const name = call.definition?.name ?? '';
      throw unsent(error, { what, name, to: worker, self: this.core.self, executed: 'yes' });
    }
  }

  /** Writes a whole message. @throws as `value`. */
  message(call: InboundCall, reply: RpcMessage): void {
    const { outbox, worker, state } = call.peer;
    let plan: TensorPlan | undefined;
    let writer: FrameWriter | undefined;
    try {
      if (state === 'gone') {
        this.core.extensions.undelivered(worker, reply.header ?? []);
        return;
      }
      plan =
        reply.tensors.length > 0
          ? planTensors(reply.tensors, { mapDevice: this.core.deviceMaps.to(worker.name, 'Response') })
          : undefined;
      writer = outbox.begin(false);
      writer.out.raw(reply.payload);
      outbox.end(
        writer,
        FrameKind.RESULT,
        0,
        reply.type,
        call.id,
        0,
        -1,
        false,
        undefined,
        undefined,
        reply.header,
        plan,
      );
    } catch (error) {
      plan?.release();
      if (writer?.open === true) writer.abort();
      this.core.extensions.undelivered(worker, reply.header ?? []);
      throw error;
    }
  }

  /** Writes a failure. */
  error(call: InboundCall, payload: Uint8Array): void {
    const { outbox, state } = call.peer;
    if (state === 'gone' || outbox.session.state === 'closed') return;
    const writer = outbox.begin(false);
    try {
      writer.out.raw(payload);
      outbox.end(writer, FrameKind.ERROR, 0, MessageType.EXCEPTION, call.id, 0, -1, false, undefined);
    } catch (error) {
      if (writer.open) writer.abort();
      this.core.logger.error({ error }, 'an error could not be sent');
      // Its caller waits: it gets one that is certainly short enough.
      if (payload.length > BRIEF_ERROR_BYTES)
        this.error(call, encodeSystemError(new RpcError('remote-error', TOO_LONG, { executed: 'yes' })));
    }
  }

  /** A call is over: its caller may make another. */
  credit(call: InboundCall): void {
    const { credits } = call.peer.outbox.session;
    credits.finished(1, call.bytes);
    if (!credits.grantIsDue()) return;
    const { calls, bytes } = credits.grant();
    call.peer.outbox.sendLoose(FrameKind.CREDIT, 0, calls >>> 0, 0, bytes);
  }
}

/** The text of a failure that is longer than a frame may be. */
const TOO_LONG = 'the handler failed, and its error is larger than a frame may be (limits.maxFrameBytes)';
/** What every frame has room for. */
const BRIEF_ERROR_BYTES = 4096;
/** Of answers without a value, which add none. */
const NO_TENSORS: Tensor[] = [];
