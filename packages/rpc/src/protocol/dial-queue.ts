/** @file Whose turn it is to dial: a bounded number at once, in turn among those who dial, first attempts before later ones, else by lot. */

/** A dial that waits or is going on. */
export interface DialTurn<W> {
  readonly who: W;
  readonly start: () => void;
  /** When it began; undefined while it waits. */
  startedAt: number | undefined;
}

/**
 * The dials of one process. A group that starts at once would have every pair of its workers shake hands at the same time: each would take
 * longer than the other side waits, and be made again for nothing. A dial that lasts longer than `slowMs` may wait for a peer that is
 * gone: it holds nobody up any more. It may also wait its turn on a machine that has too many: so each time that one was slow half as many
 * may go on at once, and each that was not adds to them, as TCP does with what it has on its way (RFC 5681). Which of its own dials one starts is drawn: programs call their peers in order, and all would be at the door of the
 * first, then of the second.
 */
export class DialQueue<W> {
  private readonly most: number;
  private readonly slowMs: number;
  private readonly random: () => number;
  private readonly waiting: [Map<W, DialTurn<W>[]>, Map<W, DialTurn<W>[]>] = [
    new Map<W, DialTurn<W>[]>(),
    new Map<W, DialTurn<W>[]>(),
  ];
  private readonly going = new Set<DialTurn<W>>();
  /** How many may go on at once now. */
  private places: number;
  private fewerSince = -Infinity;

  /** `random` gives numbers from 0 to 1. */
  constructor(most: number, slowMs: number, random: () => number) {
    this.most = most;
    this.places = most;
    this.slowMs = slowMs;
    this.random = random;
  }

  /** Stands in line. `again`: an attempt of this dial has failed before. */
  enter(who: W, again: boolean, start: () => void): DialTurn<W> {
    const turn: DialTurn<W> = { who, start, startedAt: undefined };
    const line = this.waiting[again ? 1 : 0];
    const own = line.get(who);
    if (own === undefined) line.set(who, [turn]);
    else own.push(turn);
    return turn;
  }

  /** It is over, or not wanted any more. */
  leave(turn: DialTurn<W>, now: number): void {
    if (this.going.delete(turn) && now - (turn.startedAt ?? now) < this.slowMs)
      this.places = Math.min(this.most, this.places + 1 / this.places);
    if (turn.startedAt !== undefined) return;
    for (const line of this.waiting) {
      const own = line.get(turn.who);
      const index = own?.indexOf(turn) ?? -1;
      if (own === undefined || index < 0) continue;
      own.splice(index, 1);
      if (own.length === 0) line.delete(turn.who);
    }
  }

  /** Those that may start now. */
  next(now: number): DialTurn<W>[] {
    for (const turn of this.going) if (now - (turn.startedAt ?? now) >= this.slowMs) this.slow(turn, now);
    const due: DialTurn<W>[] = [];
    while (this.going.size < Math.floor(this.places)) {
      const turn = this.take(this.waiting[0]) ?? this.take(this.waiting[1]);
      if (turn === undefined) break;
      turn.startedAt = now;
      this.going.add(turn);
      due.push(turn);
    }
    return due;
  }

  /** When `next` has to be asked again, at the latest; Infinity when nobody waits. */
  nextAt(): number {
    if (this.waiting[0].size + this.waiting[1].size === 0) return Infinity;
    let at = Infinity;
    for (const { startedAt } of this.going) at = Math.min(at, (startedAt ?? 0) + this.slowMs);
    return at;
  }

  private slow(turn: DialTurn<W>, now: number): void {
    this.going.delete(turn);
    // Those that began together are slow together: they count once.
    if ((turn.startedAt ?? now) < this.fewerSince) return;
    this.places = Math.max(1, this.places / 2);
    this.fewerSince = now;
  }

  /** One of the next in turn, who goes to the end of the line. */
  private take(line: Map<W, DialTurn<W>[]>): DialTurn<W> | undefined {
    for (const [who, own] of line) {
      const [turn] = own.splice(Math.floor(this.random() * own.length), 1);
      line.delete(who);
      if (own.length > 0) line.set(who, own);
      if (turn !== undefined) return turn;
    }
    return undefined;
  }
}
