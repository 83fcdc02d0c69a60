/** @file Frames without a number: acknowledgements, credits, pings and their answers, how far storages are. Lost with the link. */
import { FrameKind, FrameWriter, protocolError, type SlabPool, type WireLimits } from '@backwire/wire/internal';
import { MAX_UNREAD_ANSWERS, MAX_UNREAD_BYTES } from '../base/limits.ts';

export class LooseFrames {
  readonly writer: FrameWriter;
  private readonly session: { readonly lastReceived: number };
  /** The highest acknowledgement in the frames since they were taken last. */
  private ack = 0;
  /** Answers to how far a storage is, since the peer has read. */
  private unreadAnswers = 0;

  /** @param session says up to which frame the peer's have come; each frame here tells it. */
  constructor(slabs: SlabPool, limits: WireLimits, session: { readonly lastReceived: number }) {
    this.writer = new FrameWriter(slabs, limits);
    this.session = session;
  }

  /** A frame with the id header. */
  id(kind: FrameKind, id: number, a: number, b: number, c: number): void {
    this.ack = this.session.lastReceived;
    this.writer.idFrame(kind, { id, a, b, c }, 0, this.ack);
  }

  acknowledge(): void {
    this.ack = this.session.lastReceived;
    this.writer.frame(FrameKind.ACK, 0, undefined, 0, this.ack);
  }

  /** Counts an answer to a peer that has left `unread` bytes. @throws WireError for one that asks on and reads none of the answers. */
  countAnswer(unread: number): void {
    if (unread <= MAX_UNREAD_BYTES) this.unreadAnswers = 0;
    else if (++this.unreadAnswers > MAX_UNREAD_ANSWERS)
      throw protocolError('questions of a peer that reads no answers');
  }

  /** What the frames acknowledge that go out now. */
  takeAck(): number {
    const { ack } = this;
    this.ack = 0;
    return ack;
  }

  /** The link is gone, and they with it. */
  lost(): void {
    this.takeAck();
    this.unreadAnswers = 0;
    this.writer.flush()?.release();
  }
}
