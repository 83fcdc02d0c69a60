/** @file Storages on their way out: pieces handed to the connection one by one, and who lets go of the bytes when. */
import { FrameFlag, type FrameWriter, type OutgoingBody } from '@backwire/wire/internal';
import { BODY_CHUNK_BYTES, BODY_WINDOW_BYTES } from '../base/limits.ts';
import type { OutBody } from '../protocol/body-lane.ts';
import { BodyPace } from '../protocol/body-pace.ts';
import type { Session } from '../protocol/session.ts';
import type { Connection } from '../transports/transport.ts';

/**
 * Every piece is a write of its own, so that the connection asks for the next one when the first of a window is through: a window that is
 * written and awaited as a whole leaves it idle in between, a third of the time where the peer reads from memory.
 */
export class BodySender<S> {
  private readonly session: Session<S, OutgoingBody>;
  /** Pieces are due. */
  private readonly more: () => void;
  private readonly now: () => number;
  /** Handed to the connection and not taken by it. */
  private bytesInFlight = 0;
  private readonly pace = new BodyPace();

  constructor(session: Session<S, OutgoingBody>, now: () => number, more: () => void) {
    this.session = session;
    this.now = now;
    this.more = more;
  }

  /** Queues the storages of a numbered frame. */
  send(seq: number, bodies: readonly OutgoingBody[]): void {
    this.session.bodies.send(
      seq,
      bodies.map((body) => ({ storage: body.storage, bytes: body.bytes.length, body })),
    );
  }

  /**
   * Writes `opening`, what `loose` holds, `chunks`, and as many pieces as the connection may hold at once; the first of them in the same write.
   * Returns whether anything of `loose` went.
   */
  write(connection: Connection, opening: readonly Uint8Array[], chunks: Uint8Array[], loose: FrameWriter): boolean {
    // Acknowledgements of storages go before the calls: the peer has its memory back when it needs some for the next one.
    const before = loose.flush();
    let first = chunks;
    if (before !== undefined) first = [...opening, ...before.chunks, ...chunks];
    else if (opening.length > 0) first = [...opening, ...chunks];
    let some = before !== undefined;
    let early = before;
    const pieceBytes = connection.pieceBytes ?? BODY_CHUNK_BYTES;
    const window = Math.max(BODY_WINDOW_BYTES, 2 * pieceBytes);
    do {
      const piece = this.bytesInFlight < window ? this.take(connection, loose, pieceBytes) : undefined;
      const pending = loose.flush();
      const released = early;
      early = undefined;
      if (pending === undefined) {
        if (released !== undefined) connection.write(first, () => released.release());
        else if (first.length > 0) connection.write(first);
        return some;
      }
      some = true;
      for (const chunk of pending.chunks) first.push(chunk);
      connection.write(first, () => {
        released?.release();
        pending.release();
        if (piece !== undefined) this.written(piece.out, piece.bytes);
      });
      first = [];
      if (piece === undefined) return some;
    } while (this.session.bodies.hasMore() && this.bytesInFlight < window);
    return some;
  }

  /** The peer says that it has a storage up to `end`: more of it, or of others, may go. */
  arrived(seq: number, storage: number, end: number): void {
    this.pace.acknowledged(seq, storage, end, this.now());
    this.session.bodies.arrived();
    if (this.session.bodies.hasMore()) this.more();
  }

  /** The link is gone. */
  lost(): void {
    this.pace.reset();
  }

  /** The peer has all of a storage. */
  confirmed(seq: number, storage: number): void {
    const body = this.session.bodies.confirmed(seq, storage);
    if (body !== undefined) this.letGo(body);
  }

  /** Confirms those that a resume showed to be complete. */
  resumed(): void {
    for (const { seq, storage } of this.session.bodies.resumed.splice(0)) this.confirmed(seq, storage);
  }

  /**
   * Nobody wants the storages of frame `seq` any more. True when some of them cannot arrive now: a piece is unsent and stays so. One that
   * was sent and not confirmed may have arrived.
   */
  drop(seq: number): boolean {
    const dropped = this.session.bodies.drop(seq);
    for (const body of dropped) this.letGo(body);
    return dropped.some(({ sent, bytes }) => sent < bytes);
  }

  /** Lets go of a storage once no piece of it is being written. */
  letGo(body: OutBody<OutgoingBody>): void {
    if (body.inFlight === 0) body.body.release();
  }

  private take(
    connection: Connection,
    loose: FrameWriter,
    pieceBytes: number,
  ): { out: OutBody<OutgoingBody>; bytes: number } | undefined {
    const most = connection.paced ? this.pace.pieceBytes(pieceBytes) : pieceBytes;
    const chunk = most === 0 ? undefined : this.session.bodies.next(most);
    if (chunk === undefined) return undefined;
    const { out, offset, bytes } = chunk;
    const asks = connection.paced && this.pace.piece(out.seq, out.storage, offset + bytes, bytes, this.now());
    loose.body(
      out.seq,
      out.storage,
      offset,
      out.body.bytes.subarray(offset, offset + bytes),
      this.session.lastReceived,
      asks ? FrameFlag.ASK : 0,
    );
    out.inFlight++;
    this.bytesInFlight += bytes;
    return { out, bytes };
  }

  private written(out: OutBody<OutgoingBody>, bytes: number): void {
    out.inFlight--;
    this.bytesInFlight -= bytes;
    if (out.done && out.inFlight === 0) out.body.release();
    if (this.session.bodies.hasMore()) this.more();
  }
}
