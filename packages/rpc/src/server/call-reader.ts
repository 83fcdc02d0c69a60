/** @file Incoming calls read: what they call, with which arguments, and what gives back the references in arguments no handler takes. */
import type { Tensor } from '@backwire/tensor';
import type { Message } from '@backwire/wire';
import type { IncomingFrame } from '../session/incoming-frame.ts';
import { digestOf } from './call-digest.ts';
import type { Environment } from '../base/environment.ts';
import { DecodeContext, type Unclaimed } from '../extensions/value-context.ts';
import type { Definition } from '../base/definitions.ts';
import type { InboundCall } from './inbound-call.ts';
import { messageOf } from '../session/receiver.ts';
import { readCallPayload } from '../extensions/call-message.ts';
import { RpcError } from '../base/errors.ts';
import type { Peer } from '../session/peer.ts';

export interface ReadCall {
  readonly definition: Definition;
  readonly args: unknown[];
  /** What has to settle before the call can start. */
  readonly pending: readonly Promise<unknown>[];
  readonly unclaimed: Unclaimed | undefined;
  readonly found: ReadonlySet<unknown> | undefined;
}

export class CallReader {
  private readonly environment: Environment;
  private readonly context = new DecodeContext();

  constructor(environment: Environment) {
    this.environment = environment;
  }

  /** Fills in the definition and the arguments. Returns what has to settle before the call can start. @throws what is malformed. */
  read(call: InboundCall, arrived: IncomingFrame, tensors: Tensor[]): readonly Promise<unknown>[] {
    const { peer } = call;
    if (arrived.fn === 0) {
      const message = messageOf(arrived, tensors);
      const read = this.message(peer, message);
      call.definition = read.definition;
      call.args = read.args;
      call.unclaimed = read.unclaimed;
      call.found = read.found;
      if (call.key !== undefined) {
        const { start, end } = readCallPayload(message.payload);
        call.digest = digestOf(this.environment, message.payload.subarray(start, end), tensors, call, call.peer);
      }
      return read.pending;
    }
    call.definition = call.origin.definition(arrived.fn);
    const { context } = this;
    const { bytes, start, end } = arrived;
    context.scoped = mayScope(call.definition);
    const args = context.read(this.environment.codec, peer.worker, bytes, start, end, tensors);
    if (!Array.isArray(args)) {
      context.discard();
      throw new TypeError('the arguments of a call are a list');
    }
    call.args = args;
    call.unclaimed = context.takeUnclaimed();
    call.found = context.takeFound();
    if (call.key !== undefined)
      call.digest = digestOf(this.environment, bytes.subarray(start, end), tensors, call, peer);
    return context.take();
  }

  /** A call that says its function's name itself. @throws what is malformed. */
  message(from: Peer, { payload, tensors }: Message): ReadCall {
    const { context } = this;
    const { name, start, end } = readCallPayload(payload);
    const definition = this.environment.served(name);
    context.scoped = mayScope(definition);
    const args = context.read(this.environment.codec, from.worker, payload, start, end, tensors);
    if (!Array.isArray(args)) {
      context.discard();
      throw new RpcError('decode-error', 'malformed call', { peer: from.worker });
    }
    return {
      definition,
      args,
      pending: context.take(),
      unclaimed: context.takeUnclaimed(),
      found: context.takeFound(),
    };
  }
}

/** Whether the arguments may become those of a scope. What runs that others have defined learns only then whether that wants one. */
function mayScope({ scope, runs }: Definition): boolean {
  return scope || runs !== undefined;
}
