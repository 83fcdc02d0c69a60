/** @file Python's numbers and ranges that JavaScript has no equal of. */

/** A float, also where its value is a whole number, which would else travel as an int. */
export class PyFloat {
  readonly value: number;

  constructor(value: number) {
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

  constructor(real: number, imag: number) {
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
