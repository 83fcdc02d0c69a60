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
      if (call.key !== undefined) {
        const { start, end } = readCallPayload(message.payload);
        call.digest = digestOf(this.environment, message.payload.subarray(start, end), tensors, call, call.peer);
      }
      return read.pending;
    }
    call.definition = call.origin.definition(arrived.fn);
    const { context } = this;
    const args = context.read(this.environment.codec, peer.worker, arrived.bytes, arrived.start, arrived.end, tensors);
    if (!Array.isArray(args)) {
      context.discard();
      throw new TypeError('the arguments of a call are a list');
    }
    call.args = args;
    call.unclaimed = context.takeUnclaimed();
    if (call.key !== undefined)
      call.digest = digestOf(this.environment, arrived.bytes.subarray(arrived.start, arrived.end), tensors, call, peer);
    return context.take();
  }

  /** A call that says its function's name itself. @throws what is malformed. */
  message(from: Peer, { payload, tensors }: Message): ReadCall {
    const { context } = this;
    const { name, start, end } = readCallPayload(payload);
    const definition = this.environment.served(name);
    const args = context.read(this.environment.codec, from.worker, payload, start, end, tensors);
    if (!Array.isArray(args)) {
      context.discard();
      throw new RpcError('decode-error', 'malformed call', { peer: from.worker });
    }
    return { definition, args, pending: context.take(), unclaimed: context.takeUnclaimed() };
  }
}
