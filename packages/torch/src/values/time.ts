/** @file Python's datetime, timedelta and timezone, within Python's bounds. */
import { show } from '@backwire/rpc/internal';

const DAY_MS = 86_400_000;
const MAX_DAYS = 999_999_999;

/** @throws RangeError unless it is a whole number of these bounds. */
function checkWhole(value: unknown, low: number, high: number, what: string): void {
  if (Number.isInteger(value) && (value as number) >= low && (value as number) <= high) return;
  throw new RangeError(`${what} is a whole number from ${low} to ${high}, got ${show(value)}`);
}

/** A span of time: days, and 0 ≤ seconds < 86,400, and 0 ≤ microseconds < 1,000,000, as Python keeps it. */
export class PyTimeDelta {
  readonly days: number;
  readonly seconds: number;
  readonly microseconds: number;

  /** @throws RangeError for parts out of their bounds, -999,999,999 ≤ days ≤ 999,999,999 among them. */
  constructor(days: number, seconds: number, microseconds: number) {
    checkWhole(days, -MAX_DAYS, MAX_DAYS, 'days');
    checkWhole(seconds, 0, 86_399, 'seconds');
    checkWhole(microseconds, 0, 999_999, 'microseconds');
    this.days = days;
    this.seconds = seconds;
    this.microseconds = microseconds;
  }

  /** In milliseconds, with a fraction for microseconds. */
  get milliseconds(): number {
    return this.days * DAY_MS + this.seconds * 1_000 + this.microseconds / 1_000;
  }
}

/** datetime.timezone: a fixed distance from UTC, of less than a day. */
export class PyTimeZone {
  readonly offset: PyTimeDelta;

  /** @throws TypeError for what is no PyTimeDelta, RangeError for one of a day or more, in either direction. */
  constructor(offset: PyTimeDelta) {
    if (!(offset instanceof PyTimeDelta))
      throw new TypeError(`the offset of a timezone is a PyTimeDelta, got ${show(offset)}`);
    if (Math.abs(offset.milliseconds) >= DAY_MS) throw new RangeError('the offset of a timezone is less than a day');
    this.offset = offset;
  }
}

/** The parts of a date and time. */
export interface DateTimeParts {
  /** 1 to 9999. */
  readonly year: number;
  /** 1 to 12. */
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly second: number;
  readonly microsecond: number;
  /** 1: the later of two equal times at the end of summer time. */
  readonly fold: number;
}

/** The bounds of each part; a month may be shorter than its 31 days. */
const BOUNDS: readonly (readonly [part: keyof DateTimeParts, low: number, high: number])[] = [
  ['year', 1, 9_999],
  ['month', 1, 12],
  ['day', 1, 31],
  ['hour', 0, 23],
  ['minute', 0, 59],
  ['second', 0, 59],
  ['microsecond', 0, 999_999],
  ['fold', 0, 1],
];

/** datetime.datetime. Without a zone it is a time on some wall, and names no instant. */
export class PyDateTime implements DateTimeParts {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly second: number;
  readonly microsecond: number;
  readonly fold: number;
  readonly zone: PyTimeZone | undefined;

  /** @throws RangeError for parts out of their bounds, and for a day that its month does not have; TypeError for a zone of another class. */
  constructor(parts: DateTimeParts, zone?: PyTimeZone) {
    for (const [part, low, high] of BOUNDS) checkWhole(parts[part], low, high, `the ${part} of a datetime`);
    if (zone !== undefined && !(zone instanceof PyTimeZone))
      throw new TypeError(`the zone of a datetime is a PyTimeZone, got ${show(zone)}`);
    this.year = parts.year;
    this.month = parts.month;
    this.day = parts.day;
    this.hour = parts.hour;
    this.minute = parts.minute;
    this.second = parts.second;
    this.microsecond = parts.microsecond;
    this.fold = parts.fold;
    this.zone = zone;
    checkWhole(this.day, 1, daysOf(this.year, this.month), `the day of ${this.year}-${this.month}`);
  }

  /** The instant of `date`, in UTC. @throws RangeError for a year that Python does not have, and for no valid date. */
  static from(date: Date): PyDateTime {
    const parts = {
      year: date.getUTCFullYear(),
      month: date.getUTCMonth() + 1,
      day: date.getUTCDate(),
      hour: date.getUTCHours(),
      minute: date.getUTCMinutes(),
      second: date.getUTCSeconds(),
      microsecond: date.getUTCMilliseconds() * 1_000,
      fold: 0,
    };
    return new PyDateTime(parts, new PyTimeZone(new PyTimeDelta(0, 0, 0)));
  }

  /** The instant, rounded down to milliseconds; a time without a zone counts as UTC. */
  toDate(): Date {
    const date = new Date(0); // eslint-disable-line no-restricted-globals -- a value, not the clock
    date.setUTCFullYear(this.year, this.month - 1, this.day);
    date.setUTCHours(this.hour, this.minute, this.second, Math.floor(this.microsecond / 1_000));
    date.setTime(date.getTime() - (this.zone?.offset.milliseconds ?? 0));
    return date;
  }
}

function daysOf(year: number, month: number): number {
  const last = new Date(0); // eslint-disable-line no-restricted-globals -- a value, not the clock
  last.setUTCFullYear(year, month, 0);
  return last.getUTCDate();
}
