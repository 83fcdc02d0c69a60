/** @file How much of storages may be on its way to a peer, and in what pieces: bounded by time at the rate that the way is measured to have. */

export interface PaceOptions {
  /** Bytes on their way at first: what a way that nothing is known of may take. */
  readonly firstBytes: number;
  /** As few, on the slowest way, */
  readonly leastBytes: number;
  /** and as many, on the fastest. */
  readonly mostBytes: number;
  /** The smallest piece. */
  readonly leastPieceBytes: number;
  /** How long bytes may queue on the way, in milliseconds: what small messages wait behind. */
  readonly queueMs: number;
}

export const PACE: PaceOptions = Object.freeze({
  firstBytes: 32 * 1024,
  leastBytes: 8 * 1024,
  mostBytes: 64 * 1024 * 1024,
  leastPieceBytes: 2 * 1024,
  queueMs: 50,
});

/** A piece that the peer has not acknowledged. */
interface Sent {
  readonly seq: number;
  readonly storage: number;
  readonly end: number;
  readonly bytes: number;
  readonly at: number;
  /** All that was on its way then, this piece included. */
  readonly flight: number;
  readonly asked: boolean;
}

/** An acknowledgement is asked for this part of what may be on its way. */
const SHARES = 4;
/** The first pieces: the time that the first of them takes is thought to be that of the way itself. */
const FIRST_PIECES = 8;
/** What may be on its way falls to this part at most in one round: a peer that was busy for a moment is not a slow way. */
const MOST_CUT = 4;

/**
 * The pace of storages on one link, by the delay of acknowledgements as TCP Vegas and BBR do it. All that is on its way at once divided by
 * the time until it was acknowledged is the rate of the way; what may be on its way is what that rate carries in the shortest time that
 * was seen, and in `queueMs` more. It doubles with every round until then, and falls to it within few.
 *
 * Pieces arrive in the order in which they were sent: an acknowledgement of one is one of all before it, also of those that nobody wanted.
 */
export class BodyPace {
  private readonly options: PaceOptions;
  private sent: Sent[] = [];
  private flight = 0;
  private window: number;
  /** The shortest time until an acknowledgement, and the rate measured last, in bytes a millisecond. */
  private baseMs = Infinity;
  private rate = 0;
  private shrunkAt = -Infinity;
  /** Bytes since an acknowledgement was asked for, and how many of those are due. */
  private unasked = 0;
  private due = 0;

  constructor(options: PaceOptions = PACE) {
    this.options = options;
    this.window = options.firstBytes;
  }

  /** How large the next piece may be; 0 while as much is on its way as may be, and an acknowledgement of that is due. */
  pieceBytes(most: number): number {
    if (this.flight >= this.window && this.due > 0) return 0;
    const { queueMs, leastPieceBytes } = this.options;
    const fair =
      this.rate === 0 ? this.window / FIRST_PIECES : Math.min(this.window - this.flight, (this.rate * queueMs) / 2);
    return Math.min(most, Math.max(Math.floor(fair), leastPieceBytes));
  }

  /** A piece goes out: bytes up to `end` of a storage. Whether its acknowledgement is to be asked for. */
  piece(seq: number, storage: number, end: number, bytes: number, now: number): boolean {
    this.flight += bytes;
    this.unasked += bytes;
    const asked = this.due === 0 || this.unasked >= this.window / SHARES;
    this.sent.push({ seq, storage, end, bytes, at: now, flight: this.flight, asked });
    if (!asked) return false;
    this.unasked = 0;
    this.due++;
    return true;
  }

  /** The peer has a storage up to `end`, and all that was sent before. */
  acknowledged(seq: number, storage: number, end: number, now: number): void {
    const index = this.sent.findIndex((piece) => piece.seq === seq && piece.storage === storage && piece.end === end);
    const piece = this.sent[index];
    if (piece === undefined) return;
    let bytes = 0;
    for (const { bytes: own, asked } of this.sent.splice(0, index + 1)) {
      bytes += own;
      if (asked) this.due--;
    }
    this.flight -= bytes;
    this.learn(piece, bytes, now);
  }

  /** The link is gone: another way may be another. */
  reset(): void {
    this.sent = [];
    this.flight = 0;
    this.unasked = 0;
    this.due = 0;
    this.window = this.options.firstBytes;
    this.baseMs = Infinity;
    this.rate = 0;
    this.shrunkAt = -Infinity;
  }

  private learn({ flight, at }: Sent, bytes: number, now: number): void {
    const { leastBytes, mostBytes, queueMs } = this.options;
    const tookMs = Math.max(now - at, 0.01);
    // With next to nothing on its way, what takes long is the way itself: it has become another.
    if (flight <= leastBytes || tookMs < this.baseMs) this.baseMs = tookMs;
    this.rate = flight / tookMs;
    const fitting = this.rate * (this.baseMs + queueMs);
    if (tookMs > this.baseMs + queueMs) {
      // Once a round: the rest of what was on its way says the same again.
      if (at < this.shrunkAt) return;
      this.shrunkAt = now;
      this.window = Math.min(this.window, Math.max(fitting, this.window / MOST_CUT));
    } else if (flight >= this.window / 2) this.window = Math.min(Math.max(this.window, fitting), this.window + bytes);
    this.window = Math.min(Math.max(this.window, leastBytes), mostBytes);
  }
}
