/** @file The pace of storages over ways of every rate: how long small messages wait, and how much of the way is used. */
import { describe, expect, it } from 'vitest';
import { BodyPace, PACE } from './body-pace.ts';

const MOST_PIECE = 1024 * 1024;

interface Way {
  /** Bytes a millisecond, at a time. */
  readonly rate: (now: number) => number;
  /** There and back, milliseconds. */
  readonly latencyMs: number;
  /** A peer that does not look in this time, from when to when. */
  readonly away?: readonly [number, number];
}

interface Course {
  /** The longest time that bytes waited on the way, from `settled` on, milliseconds. */
  readonly queuedMs: number;
  /** The longest piece from then on, by the time it takes. */
  readonly pieceMs: number;
  readonly delivered: number;
  readonly pieces: number;
  readonly acknowledgements: number;
}

/** Sends as much as the pace allows over a way that takes one byte after the other. */
function drive({ rate, latencyMs, away }: Way, forMs: number, settledMs = forMs / 2): Course {
  const pace = new BodyPace();
  const acks: { at: number; end: number }[] = [];
  let [now, free, end, queuedMs, pieceMs, pieces, acknowledgements, delivered] = [0, 0, 0, 0, 0, 0, 0, 0];
  while (now < forMs) {
    for (let bytes = pace.pieceBytes(MOST_PIECE); bytes > 0; bytes = pace.pieceBytes(MOST_PIECE)) {
      end += bytes;
      pieces++;
      const takes = bytes / rate(now);
      if (now >= settledMs) {
        queuedMs = Math.max(queuedMs, free - now);
        pieceMs = Math.max(pieceMs, takes);
      }
      free = Math.max(free, now) + takes;
      const [from, to] = away ?? [Infinity, Infinity];
      const seen = free > from && free < to ? to : free;
      if (seen <= forMs) delivered += bytes;
      if (!pace.piece(1, 0, end, bytes, now)) continue;
      acks.push({ at: seen + latencyMs, end });
      acknowledgements++;
    }
    const next = acks.shift();
    if (next === undefined) throw new Error('nothing is on its way and nothing may go');
    now = Math.max(now, next.at);
    pace.acknowledged(1, 0, next.end, now);
  }
  return { queuedMs, pieceMs, delivered, pieces, acknowledgements };
}

/** Bytes a millisecond. */
const mbit = (rate: number): number => (rate * 1_000_000) / 8 / 1_000;

describe('a way', () => {
  it.each([
    [1, 1],
    [2, 20],
    [4, 100],
    [20, 5],
    [100, 40],
    [1_000, 1],
    [1_000, 80],
  ])('of %d Mbit/s and %d ms is used, and nothing waits on it for longer than is fair', (rate, latencyMs) => {
    const course = drive({ rate: () => mbit(rate), latencyMs }, 20_000);
    expect(course.queuedMs).toBeLessThan(2 * PACE.queueMs);
    expect(course.pieceMs).toBeLessThanOrEqual(PACE.queueMs);
    expect(course.delivered / 20_000 / mbit(rate)).toBeGreaterThan(0.85);
  });

  it('that is as fast as memory is paced by nothing: the largest pieces, few of them acknowledged', () => {
    const course = drive({ rate: () => 4_000_000, latencyMs: 0.1 }, 1_000);
    expect(course.delivered / 1_000).toBeGreaterThan(0.9 * 4_000_000);
    expect(course.delivered / course.pieces).toBeGreaterThan(0.9 * MOST_PIECE);
    expect(course.pieces / course.acknowledgements).toBeGreaterThan(8);
  });

  it('that becomes slow is noticed within the time of what is on its way, and one that becomes fast at once', () => {
    const slower = drive({ rate: (now) => mbit(now < 5_000 ? 100 : 4), latencyMs: 10 }, 20_000, 12_000);
    expect(slower.queuedMs).toBeLessThan(2 * PACE.queueMs);
    const faster = drive({ rate: (now) => mbit(now < 5_000 ? 4 : 100), latencyMs: 10 }, 10_000);
    expect(faster.delivered).toBeGreaterThan(mbit(100) * 4_000);
  });

  it('to a peer that was busy for a second is used again at once', () => {
    const busy = drive({ rate: () => mbit(1_000), latencyMs: 1, away: [1_000, 2_000] }, 10_000);
    expect(busy.delivered).toBeGreaterThan(mbit(1_000) * 8_000);
  });
});

describe('a pace', () => {
  it('begins small: what is not known may be slow', () => {
    const pace = new BodyPace();
    let bytes = 0;
    for (let piece = pace.pieceBytes(MOST_PIECE); piece > 0; piece = pace.pieceBytes(MOST_PIECE))
      pace.piece(1, 0, (bytes += piece), piece, 0);
    expect(bytes).toBe(PACE.firstBytes);
  });

  it('takes an acknowledgement for all pieces before it, of whatever storage, and none twice', () => {
    const pace = new BodyPace();
    expect(pace.piece(1, 0, 8_192, 8_192, 0)).toBe(true);
    pace.piece(2, 3, 8_192, 8_192, 0);
    pace.piece(2, 3, 24_576, 16_384, 0);
    expect(pace.pieceBytes(MOST_PIECE)).toBe(0);
    for (const [seq, storage, end] of [[7, 0, 1] as const, [3, 3, 24_576] as const, [2, 1, 24_576] as const])
      pace.acknowledged(seq, storage, end, 1);
    expect(pace.pieceBytes(MOST_PIECE)).toBe(0);
    pace.acknowledged(2, 3, 24_576, 1);
    pace.acknowledged(2, 3, 24_576, 1);
    pace.acknowledged(1, 0, 8_192, 1);
    // All is free: as much may go again as is allowed now, and no more.
    let bytes = 0;
    for (let piece = pace.pieceBytes(MOST_PIECE); piece > 0; piece = pace.pieceBytes(MOST_PIECE)) {
      pace.piece(3, 0, (bytes += piece), piece, 2);
      expect(bytes).toBeLessThanOrEqual(2 * PACE.firstBytes + piece);
    }
    expect(bytes).toBeGreaterThanOrEqual(2 * PACE.firstBytes);
  });

  it('that became far slower asks again: it never waits for an acknowledgement that is not due', () => {
    const pace = new BodyPace();
    let [now, end] = [0, 0];
    for (let round = 0; round < 10; round++, now++) {
      for (let piece = pace.pieceBytes(MOST_PIECE); piece > 0; piece = pace.pieceBytes(MOST_PIECE))
        pace.piece(1, 0, (end += piece), piece, now);
      pace.acknowledged(1, 0, end, now + 1);
    }
    const asked: number[] = [];
    for (let piece = pace.pieceBytes(MOST_PIECE); piece > 0; piece = pace.pieceBytes(MOST_PIECE))
      if (pace.piece(1, 0, (end += piece), piece, now)) asked.push(end);
    // All acknowledgements that were asked for come, a minute late: what is left on its way is more than may be now.
    for (const at of asked) pace.acknowledged(1, 0, at, now + 60_000);
    const piece = pace.pieceBytes(MOST_PIECE);
    expect(piece).toBeGreaterThan(0);
    expect(pace.piece(1, 0, end + piece, piece, now + 60_000)).toBe(true);
  });

  it('has no more on its way than it may, and no less, however fast or slow that becomes', () => {
    const options = { ...PACE, leastBytes: 4 * 1024, mostBytes: 64 * 1024, leastPieceBytes: 1_024 };
    const pace = new BodyPace(options);
    const filled: number[] = [];
    for (let round = 0, now = 0, end = 0; round < 60; round++) {
      const before = end;
      for (let piece = pace.pieceBytes(1_024); piece > 0; piece = pace.pieceBytes(1_024))
        pace.piece(1, 0, (end += piece), piece, now);
      filled.push(end - before);
      pace.acknowledged(1, 0, end, (now += round % 20 < 10 ? 1 : 60_000));
    }
    expect([Math.min(...filled), Math.max(...filled)]).toEqual([options.leastBytes, options.mostBytes]);
  });

  it('knows nothing of another link', () => {
    const pace = new BodyPace();
    pace.piece(1, 0, 32_768, 32_768, 0);
    pace.reset();
    pace.acknowledged(1, 0, 32_768, 1);
    expect(pace.pieceBytes(MOST_PIECE)).toBe(PACE.firstBytes / 8);
  });

  it('begins anew on another link, however much was on its way before', () => {
    const pace = new BodyPace();
    let [now, end] = [0, 0];
    const fill = (): number => {
      const before = end;
      for (let piece = pace.pieceBytes(MOST_PIECE); piece > 0; piece = pace.pieceBytes(MOST_PIECE))
        pace.piece(1, 0, (end += piece), piece, now);
      return end - before;
    };
    for (let round = 0; round < 6; round++, now++) {
      fill();
      pace.acknowledged(1, 0, end, now + 1);
    }
    expect(fill()).toBeGreaterThan(8 * PACE.firstBytes);
    pace.reset();
    // The first piece asks for its acknowledgement: none is due on this link.
    const piece = pace.pieceBytes(MOST_PIECE);
    expect([piece, pace.piece(1, 0, (end += piece), piece, now)]).toEqual([PACE.firstBytes / 8, true]);
    expect(piece + fill()).toBe(PACE.firstBytes);
  });

  it('is cut once by a round that took long, not by each acknowledgement of it', () => {
    const pace = new BodyPace();
    let [now, end] = [0, 0];
    const fill = (most: number): number[] => {
      const ends: number[] = [];
      for (let piece = pace.pieceBytes(most); piece > 0; piece = pace.pieceBytes(most)) {
        pace.piece(1, 0, (end += piece), piece, now);
        ends.push(end);
      }
      return ends;
    };
    for (let round = 0; round < 6; round++, now++) {
      fill(MOST_PIECE);
      pace.acknowledged(1, 0, end, now + 1);
    }
    const before = end;
    const pieces = fill(PACE.leastPieceBytes);
    const window = end - before;
    expect(pieces.length).toBeGreaterThan(8);
    now += 60_000;
    for (const at of pieces) pace.acknowledged(1, 0, at, now);
    const from = end;
    fill(PACE.leastPieceBytes);
    expect((end - from) / window).toBeGreaterThan(0.2);
  });
});
