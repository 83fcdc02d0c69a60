/** @file The answers of one peer: read from its frames, and given to the calls that wait for them. */
import {
  type FrameHeader,
  FrameKind,
  frameTensors,
  protocolError,
  type IncomingTensors,
} from '@backwire/wire/internal';
import type { Tensor } from '@backwire/tensor';
import type { Environment } from '../base/environment.ts';
import type { IncomingFrame, RawFrame } from '../session/incoming-frame.ts';
import type { Peer } from '../session/peer.ts';
import { tensorsOf, type Claim } from '../session/receiver.ts';
import { decodeFailed } from '../base/unsent.ts';
import type { RpcError } from '../base/errors.ts';
import type { Answers } from './answers.ts';
import type { Caller } from './caller.ts';
import type { OpenCalls } from './open-calls.ts';

const NO_TENSORS: Tensor[] = Object.freeze([]) as unknown as Tensor[];

export class AnswerReader implements Claim {
  private readonly environment: Environment;
  private readonly calls: OpenCalls;
  private readonly answers: Answers;
  private readonly peer: Peer;

  constructor(environment: Environment, { calls, answers }: Caller, peer: Peer) {
    this.environment = environment;
    this.calls = calls;
    this.answers = answers;
    this.peer = peer;
  }

  /** A frame with an answer, or with one item of it. What it lies in is valid only now. */
  arrived(frame: RawFrame): void {
    const { header, bytes, end } = frame;
    const { receiver } = this.peer;
    const wanted = this.calls.expects(header.id, this.peer);
    if (wanted) this.checkTurn(header);
    const done = receiver.deliverTable(frame);
    let tensors: IncomingTensors | undefined;
    if (header.descriptorLength > 0 || header.tensorCount > 0) {
      try {
        tensors = frameTensors(header, bytes, end, this.environment.wireLimits);
      } catch (error) {
        for (const fn of done) fn();
        // A call of another peer is not this one's to fail.
        if (wanted) this.calls.failed(header.id, this.unread(header.id, error));
        return;
      }
    }
    const waits = tensors !== undefined && tensors.bodyBytes > 0 && tensors.outOfBand().length > 0;
    if (!wanted) {
      if (tensors !== undefined && waits) receiver.acknowledgeAll(header.seq, tensors.outOfBand());
      tensors?.release();
      for (const fn of done) fn();
      return;
    }
    if (tensors === undefined || !waits) {
      const arrived = receiver.view(frame, tensors, done);
      if (tensors === undefined) this.answers.answered(arrived, this.peer, NO_TENSORS);
      else this.assembled(arrived, tensors);
      return;
    }
    const { id, kind, seq } = header;
    receiver.assemble(frame, tensors, done, this);
    // Behind it: a stream that has too many items already gives this one up.
    this.answers.assembling(id, kind, seq);
  }

  /** A call has one answer, and only a stream has items: what else came with storages would have no bound. */
  private checkTurn({ id, kind }: FrameHeader): void {
    const call = this.calls.get(id);
    if (kind === FrameKind.STREAM_ITEM) {
      if (call?.mode !== 'stream') throw protocolError('an item for a call of no stream');
    } else if (call?.answering === true) throw protocolError('a second answer to a call');
  }

  /** All bytes of an answer are there. What they say may still be wrong: that is the call's affair. */
  assembled(arrived: IncomingFrame, incoming: IncomingTensors): void {
    const tensors = tensorsOf(incoming, arrived);
    if (Array.isArray(tensors)) this.answers.answered(arrived, this.peer, tensors);
    else this.calls.failed(arrived.id, this.unread(arrived.id, tensors.error));
  }

  private unread(id: number, error: unknown): RpcError {
    const { self } = this.environment;
    const name = this.calls.get(id)?.label.name;
    return decodeFailed(error, this.peer, { executed: 'yes', self, what: 'result', name });
  }
}
