/** @file How far the clock of another worker is from ours. */

/** One question and its answer, in microseconds: sent and received on our clock, in between what the other clock said. */
export interface ClockSample {
  readonly sentUs: number;
  readonly otherUs: number;
  readonly receivedUs: number;
}

/** What to add to a time of ours to get the other's. */
export interface ClockOffset {
  readonly offsetUs: number;
  /** The offset is right to within this much. */
  readonly errorUs: number;
}

/**
 * The offset from the quickest of the answers, as NTP chooses: the other clock was read at some moment of the round trip, so the
 * shorter that was, the less there is to be wrong about.
 * @throws RangeError without a sample.
 */
export function clockOffset(samples: readonly ClockSample[]): ClockOffset {
  let best: ClockSample | undefined;
  for (const sample of samples) {
    if (best === undefined || sample.receivedUs - sample.sentUs < best.receivedUs - best.sentUs) best = sample;
  }
  if (best === undefined) throw new RangeError('a clock offset needs a sample');
  const errorUs = (best.receivedUs - best.sentUs) / 2;
  return { offsetUs: best.otherUs - (best.sentUs + errorUs), errorUs };
}
