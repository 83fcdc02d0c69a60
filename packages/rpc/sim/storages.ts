/** @file The storages of calls between a worker and a simulated peer: their pieces both ways, at the pace of the link. */
import { BodyPace, type PaceOptions } from '../src/protocol/body-pace.ts';
import type { Session } from '../src/protocol/session.ts';
import type { Frame, Numbered, Payload } from './frames.ts';

const CHUNK_BYTES = 16;
/** On slow links, where storages are larger. */
const SLOW_CHUNK_BYTES = 1_000;
const SLOW_PACE: PaceOptions = { firstBytes: 64, leastBytes: 32, mostBytes: 8_000, leastPieceBytes: 8, queueMs: 50 };

type Body = Extract<Frame, { kind: 'body' }>;

/** What a piece came to: the answer to it, and the call that is complete with it. */
interface Landed {
  readonly answer: Frame | undefined;
  readonly complete: Payload | undefined;
}

export class Storages {
  readonly #session: Session<Numbered[], number>;
  readonly #link: { readonly slow: boolean; readonly paced: boolean };
  readonly #pace = new BodyPace(SLOW_PACE);
  readonly #assembling = new Map<number, Payload>();

  constructor(session: Session<Numbered[], number>, link: { readonly slow: boolean; readonly paced: boolean }) {
    this.#session = session;
    this.#link = link;
  }

  /** Calls that wait for storages. */
  get assembling(): number {
    return this.#assembling.size;
  }

  expect(seq: number, call: Payload & { kind: 'call' }): void {
    this.#assembling.set(seq, call);
    this.#session.bodies.expect(
      seq,
      call.bodies.map((bytes, storage) => ({ storage, bytes })),
    );
  }

  /** The rest will not come. Gives the call that waited for it. */
  lost(seq: number): Payload | undefined {
    const lost = this.#assembling.get(seq);
    this.#assembling.delete(seq);
    this.#session.bodies.giveUp(seq);
    return lost;
  }

  arrived(frame: Body): Landed | 'out of place' {
    const { bodies } = this.#session;
    const place = bodies.place(frame.seq, frame.storage, frame.offset, frame.bytes);
    if (place === 'unknown')
      return { answer: frame.asks ? this.#answer(frame, false) : undefined, complete: undefined };
    if (place === 'wrong') return 'out of place';
    const complete = bodies.landed(place, frame.bytes);
    const all = place.got === place.bytes;
    const answer = all || frame.asks ? this.#answer(frame, all) : undefined;
    const payload = this.#assembling.get(frame.seq);
    if (!complete || payload === undefined) return { answer, complete: undefined };
    this.#assembling.delete(frame.seq);
    return { answer, complete: payload };
  }

  #answer({ seq, storage, offset, bytes }: Body, all: boolean): Frame {
    return { kind: 'body-ack', ack: this.#session.lastReceived, seq, storage, end: offset + bytes, all };
  }

  acknowledged(frame: Extract<Frame, { kind: 'body-ack' }>, now: number): void {
    if (frame.all) this.#session.bodies.confirmed(frame.seq, frame.storage);
    this.#pace.acknowledged(frame.seq, frame.storage, frame.end, now);
  }

  /** The next piece to send, if one may go now. */
  next(now: number): Body | undefined {
    const { bodies, lastReceived } = this.#session;
    const { slow, paced } = this.#link;
    const most = slow ? SLOW_CHUNK_BYTES : CHUNK_BYTES;
    const bytes = slow && paced ? this.#pace.pieceBytes(most) : most;
    const chunk = bytes === 0 ? undefined : bodies.next(bytes);
    if (chunk === undefined) return undefined;
    const { seq, storage } = chunk.out;
    const asks = slow && paced && this.#pace.piece(seq, storage, chunk.offset + chunk.bytes, chunk.bytes, now);
    return { kind: 'body', ack: lastReceived, seq, storage, offset: chunk.offset, bytes: chunk.bytes, asks };
  }

  linkLost(): void {
    this.#pace.reset();
  }

  clear(): void {
    this.#assembling.clear();
  }
}
