/** @file Python's numbers and ranges that JavaScript has no equal of. */
import { show } from '@backwire/rpc/internal';

/** A float, also where its value is a whole number, which would else travel as an int. */
export class PyFloat {
  readonly value: number;

  /** @throws TypeError for what is no number. */
  constructor(value: number) {
    if (typeof value !== 'number') throw new TypeError(`a PyFloat is made of a number, got ${show(value)}`);
    this.value = value;
  }

  valueOf(): number {
    return this.value;
  }
}

/** A complex number. */
export class PyComplex {
  readonly real: number;
  readonly imag: number;

  /** @throws TypeError for parts that are no numbers. */
  constructor(real: number, imag: number) {
    if (typeof real !== 'number' || typeof imag !== 'number')
      throw new TypeError(`a PyComplex is made of two numbers, got ${show(real)} and ${show(imag)}`);
    this.real = real;
    this.imag = imag;
  }
}

/** range(start, stop, step): iterable. */
export class PyRange implements Iterable<number> {
  readonly start: number;
  readonly stop: number;
  readonly step: number;

  /** @throws RangeError for a step of 0, or bounds that are no safe integers. */
  constructor(start: number, stop: number, step = 1) {
    if (![start, stop, step].every(Number.isSafeInteger)) throw new RangeError('a range has whole bounds below 2^53');
    if (step === 0) throw new RangeError('the step of a range is not 0');
    this.start = start;
    this.stop = stop;
    this.step = step;
  }

  get length(): number {
    return Math.max(0, Math.ceil((this.stop - this.start) / this.step));
  }

  *[Symbol.iterator](): IterableIterator<number> {
    const { length } = this;
    for (let i = 0; i < length; i++) yield this.start + i * this.step;
  }
}

/** slice(start, stop, step), of any values; null is Python's None. */
export class PySlice {
  readonly start: unknown;
  readonly stop: unknown;
  readonly step: unknown;

  constructor(start: unknown, stop: unknown, step: unknown = null) {
    this.start = start;
    this.stop = stop;
    this.step = step;
  }
}
