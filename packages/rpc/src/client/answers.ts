/** @file Answers that are here with all their storages: decoded, and given to the calls that wait for them. */
import type { Tensor } from '@backwire/tensor';
import type { Message } from '@backwire/wire';
import { FrameKind, MessageType, WireError } from '@backwire/wire/internal';
import type { RpcError } from '../base/errors.ts';
import { decodeFailed } from '../base/unsent.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import { DecodeContext, freeing } from '../extensions/value-context.ts';
import { decodeFailure } from '../session/error-codec.ts';
import type { IncomingFrame } from '../session/incoming-frame.ts';
import type { Peer } from '../session/peer.ts';
import { messageOf } from '../session/receiver.ts';
import type { OpenCalls } from './open-calls.ts';
import type { PendingCall, StreamAnswer } from './pending-call.ts';

const isPlainReply = (type: number): boolean => type === MessageType.PYTHON_RET || type === MessageType.SCRIPT_RET;

export class Answers {
  private readonly environment: ExtendedEnvironment;
  private readonly calls: OpenCalls;
  private readonly decoding = new DecodeContext();

  constructor(environment: ExtendedEnvironment, calls: OpenCalls) {
    this.environment = environment;
    this.calls = calls;
  }

  /** A part of an answer whose storages are still on their way; a stream keeps its place. */
  assembling(id: number, kind: FrameKind, seq: number): void {
    const call = this.calls.get(id);
    if (call === undefined) return;
    if (kind === FrameKind.STREAM_ITEM) (call.answer as StreamAnswer).expect(seq);
    else call.answering = true;
  }

  /** An answer, or one item of it, is complete. */
  answered(arrived: IncomingFrame, peer: Peer, tensors: Tensor[]): void {
    const { kind, id } = arrived;
    const open = this.calls.get(id);
    if (open === undefined || open.peer !== peer) {
      for (const tensor of tensors) tensor.dispose();
      for (const done of arrived.done) done();
      return;
    }
    if (open.mode === 'stream') {
      const stream = open.answer as StreamAnswer;
      if (kind === FrameKind.STREAM_ITEM) {
        this.item(open, stream, arrived, tensors);
        return;
      }
      if (stream.incomplete) {
        const kept = {
          ...arrived,
          bytes: arrived.bytes.slice(arrived.start, arrived.end),
          start: 0,
          end: arrived.end - arrived.start,
        };
        stream.onComplete = () => this.answered(kept, peer, tensors);
        return;
      }
    }
    const call = this.calls.take(id) as PendingCall;
    try {
      if (kind === FrameKind.ERROR)
        this.calls.reject(call, decodeFailure(arrived.bytes.subarray(arrived.start, arrived.end), peer.worker));
      else if (kind === FrameKind.STREAM_END) this.resolve(call, undefined, undefined);
      else this.deliver(call, arrived, tensors);
    } catch (error) {
      this.calls.reject(call, error instanceof WireError ? this.unread(error, call) : error);
    } finally {
      if (arrived.done.length > 0) for (const done of arrived.done) done();
    }
  }

  private deliver(call: PendingCall, arrived: IncomingFrame, tensors: Tensor[]): void {
    const { peer } = call;
    const { hasResponseHooks, wantsPlainResponses } = this.environment.extensions;
    const hooks = !call.raw && hasResponseHooks;
    if (call.mode === 'message' || (hooks && (wantsPlainResponses || !isPlainReply(arrived.messageType)))) {
      let message = messageOf(arrived, tensors);
      if (hooks) message = this.environment.extensions.response(peer.worker, message);
      if (call.mode === 'message') this.resolve(call, message, message);
      else this.resolve(call, this.decode(call, message.payload, 0, message.payload.length, message.tensors), message);
      return;
    }
    this.resolve(call, this.decode(call, arrived.bytes, arrived.start, arrived.end, tensors), undefined);
  }

  private decode(
    { peer, scope }: PendingCall,
    bytes: Uint8Array,
    start: number,
    end: number,
    tensors: readonly Tensor[],
  ): unknown {
    const { decoding } = this;
    decoding.scoped = scope !== undefined;
    const value = decoding.read(this.environment.codec, peer.worker, bytes, start, end, tensors);
    scope?.adopt(value, decoding.takeFound());
    // Results are handed over at once; what settles later is the references' own affair.
    const pending = decoding.take();
    if (pending.length > 0) for (const promise of pending) promise.catch(ignore);
    return value;
  }

  private item(call: PendingCall, stream: StreamAnswer, arrived: IncomingFrame, tensors: Tensor[]): void {
    try {
      if (call.follower?.gradless === true) for (const tensor of tensors) tensor.requiresGrad = false;
      const value = this.decode(call, arrived.bytes, arrived.start, arrived.end, tensors);
      stream.item(value, arrived.seq, freeing(this.decoding.takeUnclaimed(), tensors));
    } catch (error) {
      this.calls.cancel(call.id, () => this.unread(error, call));
    } finally {
      for (const done of arrived.done) done();
    }
  }

  private unread(error: unknown, { peer, label }: PendingCall): RpcError {
    return decodeFailed(error, peer, {
      executed: 'yes',
      self: this.environment.self,
      what: 'result',
      name: label.name,
    });
  }

  private resolve(call: PendingCall, value: unknown, reply: Message | undefined): void {
    this.decoding.takeUnclaimed(); // what is in the value is the program's
    this.calls.resolve(call, value, reply);
  }
}

function ignore(): void {}
