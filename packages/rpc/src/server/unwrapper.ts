/** @file Calls that came as messages, since an extension wraps them or answers them itself: unwrapped, and answered with what comes of it. */
import type { Tensor } from '@backwire/tensor';
import { runClean } from '@backwire/tensor/internal';
import type { Message } from '@backwire/wire';
import { MessageType } from '@backwire/wire/internal';
import { RpcError } from '../base/errors.ts';
import { callPayload } from '../extensions/call-message.ts';
import type { ExtendedEnvironment, Handle } from '../extensions/chain.ts';
import type { Incoming, RpcMessage } from '../extensions/extension.ts';
import type { IncomingFrame } from '../session/incoming-frame.ts';
import { messageOf } from '../session/receiver.ts';
import type { CallRunner } from './call-runner.ts';
import { DrawnEntries } from './drawn-entries.ts';
import type { Handlers } from './handlers.ts';
import type { InboundCall } from './inbound-call.ts';

export class Unwrapper {
  private readonly environment: ExtendedEnvironment;
  private readonly handlers: Handlers;
  /** Runs the plain call inside. */
  private readonly runner: CallRunner;

  constructor(environment: ExtendedEnvironment, handlers: Handlers, runner: CallRunner) {
    this.environment = environment;
    this.handlers = handlers;
    this.runner = runner;
  }

  /** A wrapped request, or one of an extension: whoever owns its type serves it. It takes no slot: what it runs does. */
  serve(call: InboundCall, message: Message, done: readonly (() => void)[]): void {
    if (call.state === 'over') {
      for (const fn of done) fn();
      return;
    }
    if (this.handlers.stallGuard.inDoubt && this.handlers.isHeld(call, () => this.serve(call, message, done))) return;
    call.unclaimed = undefined;
    this.handlers.begin(call);
    call.origin.open.set(call.id, call);
    const incoming: Incoming = { from: call.peer.worker, message };
    const drawn = new DrawnEntries((header) => this.environment.extensions.undelivered(call.caller, header));
    const handle: Handle = async (one, handler) =>
      drawn.noted(await (handler === undefined ? this.plain(call, one) : handler(one)));
    runClean({ agent: this.environment.agent, call }, async () => this.environment.extensions.serve(incoming, handle))
      .finally(() => {
        for (const fn of done) fn();
      })
      .then(
        (reply) => this.handlers.reply(call, drawn.sentWith(reply)),
        (error: unknown) => {
          // Who wraps the reply may have failed.
          drawn.unsent();
          this.handlers.fail(call, this.runner.blame(error));
        },
      );
  }

  /** A call by an interned name gets the payload that says the name itself: extensions look at messages. */
  wholeMessage(call: InboundCall, arrived: IncomingFrame, tensors: Tensor[]): Message {
    const message = messageOf(arrived, tensors);
    if (arrived.fn === 0) return message;
    return { ...message, payload: callPayload(call.origin.nameOf(arrived.fn), message.payload) };
  }

  /** What is left when nobody wraps a message any more. */
  private async plain(call: InboundCall, { message }: Incoming): Promise<RpcMessage> {
    if (message.type === MessageType.PYTHON_CALL || message.type === MessageType.SCRIPT_CALL)
      return this.runner.reply(call, message);
    throw new RpcError(
      'failed-precondition',
      `worker '${this.environment.self.name}' has no handler for messages of this type`,
    );
  }
}
