/** @file How far the clocks of other workers are from ours, and how sure that is. */

/**
 * One question and its answer, in microseconds since the epoch: sent and received on our clock, in between what the other clock said
 * when the question came and when the answer left.
 */
export interface ClockSample {
  readonly sentUs: number;
  readonly otherUs: number;
  /** @default otherUs: answered at once */
  readonly otherEndUs?: number;
  readonly receivedUs: number;
}

/** What to add to a time of ours to get the other's. */
export interface ClockOffset {
  readonly offsetUs: number;
  /** The offset is right to within this much. */
  readonly errorUs: number;
}

/** How much two clocks may part, in microseconds a microsecond: twice what cheap quartz does. */
const MAX_DRIFT = 1e-4;
/** What times since the epoch are rounded to, four of them in a sample, in microseconds. */
const ROUNDING_US = 1;

/** The offset of one sample: the ways there and back took what the other did not, and either may have taken all of it. */
function offsetOf(sample: ClockSample): ClockOffset {
  const otherEndUs = sample.otherEndUs ?? sample.otherUs;
  const onTheWay = sample.receivedUs - sample.sentUs - (otherEndUs - sample.otherUs);
  return {
    offsetUs: (sample.otherUs - sample.sentUs + (otherEndUs - sample.receivedUs)) / 2,
    errorUs: Math.max(onTheWay, 0) / 2,
  };
}

/**
 * Whether a sample can be: the other had the question for some time, and for no longer than it was away. What breaks this says nothing of
 * the clock, and would pass for an answer that took no time at all.
 */
function isPossible(sample: ClockSample): boolean {
  const awayUs = sample.receivedUs - sample.sentUs;
  const handledUs = (sample.otherEndUs ?? sample.otherUs) - sample.otherUs;
  return handledUs >= 0 && handledUs <= awayUs + awayUs * MAX_DRIFT + ROUNDING_US;
}

/**
 * The offset from the quickest of the answers, as NTP chooses: the shorter the ways, the less there is to be wrong about.
 * @throws RangeError without a sample.
 */
export function clockOffset(samples: readonly ClockSample[]): ClockOffset {
  let best: ClockOffset | undefined;
  for (const sample of samples) {
    const offset = offsetOf(sample);
    if (best === undefined || offset.errorUs < best.errorUs) best = offset;
  }
  if (best === undefined) throw new RangeError('a clock offset needs a sample');
  return best;
}

/** The best that is known of one other clock. It gets less sure with age, for clocks drift; and surer with every good answer. */
export class ClockEstimate {
  private best: ClockOffset;
  private atUs: number;

  constructor(sample: ClockSample) {
    this.best = drifting(sample);
    this.atUs = sample.receivedUs;
  }

  /** Takes a sample in if it tells more than what is known. */
  add(sample: ClockSample): void {
    const offset = drifting(sample);
    if (offset.errorUs > this.at(sample.receivedUs).errorUs) return;
    this.best = offset;
    this.atUs = sample.receivedUs;
  }

  /** Whether a sample cannot be of the clock that is known: then that was set since, or is another one. */
  isContradictedBy(sample: ClockSample): boolean {
    const { offsetUs, errorUs } = drifting(sample);
    const known = this.at(sample.receivedUs);
    return Math.abs(offsetUs - known.offsetUs) > errorUs + known.errorUs + ROUNDING_US;
  }

  /** What is known now of that clock as it was, or will be, at `us` of ours. */
  at(us: number): ClockOffset {
    const { offsetUs, errorUs } = this.best;
    return { offsetUs, errorUs: errorUs + Math.abs(us - this.atUs) * MAX_DRIFT };
  }
}

/** The offset of one sample, when the clocks also part between the question and the answer. */
function drifting(sample: ClockSample): ClockOffset {
  const { offsetUs, errorUs } = offsetOf(sample);
  return { offsetUs, errorUs: errorUs + (sample.receivedUs - sample.sentUs) * MAX_DRIFT };
}

/** What is known of each other clock. */
export class ClockBook<K> {
  private readonly known = new Map<K, ClockEstimate>();

  /**
   * Takes a sample in, and gives what goes on being learnt of that clock; undefined while nothing is known, for a sample that cannot be.
   * One that contradicts what is known begins anew: who holds the earlier estimate goes on with that. Bounded by the number of workers.
   */
  add(worker: K, sample: ClockSample): ClockEstimate | undefined {
    const found = this.known.get(worker);
    if (!isPossible(sample)) return found;
    if (found !== undefined && !found.isContradictedBy(sample)) {
      found.add(sample);
      return found;
    }
    const anew = new ClockEstimate(sample);
    this.known.set(worker, anew);
    return anew;
  }

  /** What is known of a worker's clock at `nowUs` of ours. */
  at(worker: K, nowUs: number): ClockOffset | undefined {
    return this.known.get(worker)?.at(nowUs);
  }

  forget(worker: K): void {
    this.known.delete(worker);
  }
}

/** A clock that was compared with another: `from`'s time plus the offset is `to`'s. */
export interface ClockLink extends ClockOffset {
  readonly from: number;
  readonly to: number;
}

/**
 * How far every clock is from that of `reference`, over as many comparisons as it takes, the surest way; errors add up on the way.
 * Workers that no comparison leads to are missing.
 */
export function alignClocks(reference: number, links: readonly ClockLink[]): Map<number, ClockOffset> {
  const found = new Map<number, ClockOffset>();
  const open = new Map<number, ClockOffset>([[reference, { offsetUs: 0, errorUs: 0 }]]);
  while (open.size > 0) {
    const [worker, offset] = [...open].reduce((best, next) => (next[1].errorUs < best[1].errorUs ? next : best));
    open.delete(worker);
    found.set(worker, offset);
    for (const { from, to, offsetUs, errorUs } of links) {
      if (from !== worker && to !== worker) continue;
      const other = from === worker ? to : from;
      const next = {
        offsetUs: offset.offsetUs + (from === worker ? offsetUs : -offsetUs),
        errorUs: offset.errorUs + errorUs,
      };
      const known = open.get(other);
      if (!found.has(other) && (known === undefined || next.errorUs < known.errorUs)) open.set(other, next);
    }
  }
  return found;
}
