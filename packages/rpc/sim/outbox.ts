/** @file What a simulated peer has still to send: calls that wait for credit, frames that need none, and those of this tick. */
import { type Session } from '../src/protocol/session.ts';
import type { Numbered, Payload } from './frames.ts';

const MAX_QUEUED_CALLS = 20;

/** A call that waits for room or credit. */
export interface Queued {
  readonly payload: Payload;
  readonly bytes: number;
  readonly sentAs: (seq: number) => void;
  withdrawn: boolean;
}

/** What a session asks of what holds its segments. */
export interface SegmentPort {
  resend(segment: Numbered[]): void;
  release(segment: Numbered[]): void;
}

export class Outbox {
  readonly session: Session<Numbered[], number>;
  readonly #numbered: (seq: number, payload: Payload) => void;
  readonly #calls: Queued[] = [];
  readonly #control: { payload: Payload; bytes: number }[] = [];
  #batch: Numbered[] = [];
  #replay: Numbered[] | undefined;
  #released = 0;
  #retained = 0;

  /** `numbered` is told of each frame that gets a number. */
  constructor(
    makeSession: (port: SegmentPort) => Session<Numbered[], number>,
    numbered: (seq: number, payload: Payload) => void,
  ) {
    this.#numbered = numbered;
    this.session = makeSession({
      resend: (segment) => (this.#replay ??= []).push(...segment),
      release: () => void this.#released++,
    });
  }

  /** Nothing waits for its number or for the end of the tick. */
  get isEmpty(): boolean {
    return this.#calls.length + this.#control.length + this.#batch.length === 0;
  }

  /** Every segment that the session has kept was given back once. */
  get isReleased(): boolean {
    return this.#released === this.#retained;
  }

  /** Whether a link is wanted for what is left to send, or to be acknowledged. */
  get wantsLink(): boolean {
    const { sent, acked } = this.session.snapshot();
    return this.#calls.length + this.#control.length > 0 || sent !== acked || this.session.bodies.pendingBytes > 0;
  }

  /** Queues a call; nothing when too many wait. */
  call(payload: Payload, bytes: number, sentAs: (seq: number) => void): Queued | undefined {
    if (this.#calls.length >= MAX_QUEUED_CALLS) return undefined;
    const queued: Queued = { payload, bytes, sentAs, withdrawn: false };
    this.#calls.push(queued);
    return queued;
  }

  control(payload: Payload, bytes: number): void {
    this.#control.push({ payload, bytes });
  }

  /** Nobody can be reached: the calls that wait fail. */
  withdrawCalls(): void {
    for (const queued of this.#calls.splice(0)) queued.withdrawn = true;
  }

  clear(): void {
    this.#calls.length = 0;
    this.#control.length = 0;
    this.#batch = [];
  }

  /** Numbers what may go. */
  drain(): void {
    const { session } = this;
    while (this.#control.length > 0 && session.hasRoom()) {
      const { payload, bytes } = this.#control.shift() as { payload: Payload; bytes: number };
      this.#number(payload, bytes);
    }
    while (this.#calls.length > 0 && session.hasRoom()) {
      const first = this.#calls[0] as Queued;
      if (!first.withdrawn && !session.credits.canCall(first.bytes)) break;
      this.#calls.shift();
      if (first.withdrawn) continue;
      session.credits.use(first.bytes);
      const seq = this.#number(first.payload, first.bytes);
      const bodies = first.payload.kind === 'call' ? first.payload.bodies : [];
      if (bodies.length > 0)
        session.bodies.send(
          seq,
          bodies.map((bytes, storage) => ({ storage, bytes, body: seq })),
        );
      first.sentAs(seq);
    }
  }

  #number(payload: Payload, bytes: number): number {
    const seq = this.session.draw();
    this.#numbered(seq, payload);
    this.#batch.push({ kind: 'numbered', seq, ack: this.session.lastReceived, bytes, payload });
    return seq;
  }

  /** Has the session keep the frames of this tick, as one segment. */
  retain(): Numbered[] | undefined {
    if (this.#batch.length === 0) return undefined;
    const segment = this.#batch;
    this.#batch = [];
    this.#retained++;
    this.session.retain(
      segment,
      segment.reduce((sum, { bytes }) => sum + bytes, 0),
    );
    this.#replay?.push(...segment);
    return segment;
  }

  /** What has to be sent again after a new link, with what was numbered since. */
  takeReplay(): Numbered[] | undefined {
    const replay = this.#replay;
    this.#replay = undefined;
    return replay;
  }
}
