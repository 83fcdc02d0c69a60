/** @file Calls that came as messages: what an extension wraps or answers itself, and the plain calls inside. */
import type { Tensor } from '@backwire/tensor';
import { runClean } from '@backwire/tensor/internal';
import type { Message } from '@backwire/wire';
import { FrameFlag, MessageType } from '@backwire/wire/internal';
import { RpcError } from '../base/errors.ts';
import { system } from '../base/system-error.ts';
import { decodeFailed } from '../base/unsent.ts';
import { callPayload, readCallPayload } from '../extensions/call-message.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import type { Incoming, RpcMessage } from '../extensions/extension.ts';
import type { IncomingFrame } from '../session/incoming-frame.ts';
import type { Peer } from '../session/peer.ts';
import { messageOf } from '../session/receiver.ts';
import { digestOf } from './call-digest.ts';
import type { CallReader, ReadCall } from './call-reader.ts';
import { runHandler } from './handler.ts';
import type { Handlers } from './handlers.ts';
import type { Idempotency } from './idempotency.ts';
import type { InboundCall } from './inbound-call.ts';
import { pumpStream } from './stream-writer.ts';

export class MessageServer {
  private readonly environment: ExtendedEnvironment;
  private readonly handlers: Handlers;
  private readonly idempotency: Idempotency;
  private readonly reader: CallReader;
  /** What handlers threw that ran on behalf of an extension: it goes to the caller as theirs, not as the system's. */
  private readonly thrown = new WeakSet<object>();

  constructor(environment: ExtendedEnvironment, handlers: Handlers, idempotency: Idempotency, reader: CallReader) {
    this.environment = environment;
    this.handlers = handlers;
    this.idempotency = idempotency;
    this.reader = reader;
  }

  /** A wrapped request, or one of an extension: whoever owns its type serves it. It takes no slot: what it runs does. */
  serve(call: InboundCall, message: Message, done: readonly (() => void)[]): void {
    if (call.state === 'over') {
      for (const fn of done) fn();
      return;
    }
    if (this.handlers.stallGuard.inDoubt && this.handlers.isHeld(call, () => this.serve(call, message, done))) return;
    call.state = 'running';
    call.unclaimed = undefined;
    call.counted = true;
    this.handlers.active++;
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
        (reply) => this.handlers.reply(call, reply),
        (error: unknown) =>
          this.handlers.fail(call, error instanceof RpcError && !this.thrown.has(error) ? system(error) : error),
      );
  }

  /** A call by an interned name gets the payload that says the name itself: extensions look at messages. */
  wholeMessage(call: InboundCall, arrived: IncomingFrame, tensors: Tensor[]): Message {
    const message = messageOf(arrived, tensors);
    if (arrived.fn === 0) return message;
    return { ...message, payload: callPayload(call.origin.nameOf(arrived.fn), message.payload) };
  }

  /** Runs a call that came as a message (PYTHON_CALL or SCRIPT_CALL), inside the handler context that is current. */
  async runMessage(from: Peer, message: Message, call: InboundCall | undefined): Promise<unknown> {
    return this.runRead(from, this.readMessage(from, message), call, undefined);
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
    const value = await this.handlers.slotted(call, () => this.runMessage(call.peer, message, call));
    const name = (): string => readCallPayload(message.payload).name;
    if ((call.flags & FrameFlag.STREAM) === 0) return this.handlers.replyMessage(call.peer, message.type, value, name);
    await pumpStream(this.handlers, call, value);
    return this.handlers.replyMessage(call.peer, message.type, undefined, name);
  }

  /** As `once`, of a call that came as a message. */
  private onceMessage(call: InboundCall, message: Message): Promise<RpcMessage> {
    const read = this.readMessage(call.peer, message);
    call.unclaimed = read.unclaimed;
    const { start, end } = readCallPayload(message.payload);
    const digest = digestOf(this.environment, message.payload.subarray(start, end), message.tensors, read, call.peer);
    const run = async (began: () => void): Promise<RpcMessage> => {
      call.unclaimed = undefined;
      const value = await this.handlers.slotted(call, () => this.runRead(call.peer, read, call, began));
      return this.handlers.replyMessage(call.peer, message.type, value, () => read.definition.name);
    };
    return this.idempotency.run({ call, name: read.definition.name, digest, run, rest: () => undefined });
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
      return await runHandler(definition, args);
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
}
