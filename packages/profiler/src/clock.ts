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

  /** Takes a sample in, and gives what goes on being learnt of that clock. Bounded by the number of workers. */
  add(worker: K, sample: ClockSample): ClockEstimate {
    let found = this.known.get(worker);
    if (found === undefined) this.known.set(worker, (found = new ClockEstimate(sample)));
    else found.add(sample);
    return found;
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
