/** @file Python's datetime, timedelta and timezone. */

const DAY_MS = 86_400_000;

/** A span of time: days, and 0 ≤ seconds < 86,400, and 0 ≤ microseconds < 1,000,000, as Python keeps it. */
export class PyTimeDelta {
  readonly days: number;
  readonly seconds: number;
  readonly microseconds: number;

  constructor(days: number, seconds: number, microseconds: number) {
    this.days = days;
    this.seconds = seconds;
    this.microseconds = microseconds;
  }

  /** In milliseconds, with a fraction for microseconds. */
  get milliseconds(): number {
    return this.days * DAY_MS + this.seconds * 1_000 + this.microseconds / 1_000;
  }
}

/** datetime.timezone: a fixed distance from UTC. */
export class PyTimeZone {
  readonly offset: PyTimeDelta;

  constructor(offset: PyTimeDelta) {
    this.offset = offset;
  }
}

/** The parts of a date and time. */
export interface DateTimeParts {
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

  constructor(parts: DateTimeParts, zone?: PyTimeZone) {
    this.year = parts.year;
    this.month = parts.month;
    this.day = parts.day;
    this.hour = parts.hour;
    this.minute = parts.minute;
    this.second = parts.second;
    this.microsecond = parts.microsecond;
    this.fold = parts.fold;
    this.zone = zone;
  }

  /** The instant of `date`, in UTC. */
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
