/** @file The calls that wait for an answer: slots with a free list, found by call id, and one sweep for all deadlines. */

/** Bits of a call id that are the slot; the rest counts how often the slot was used, so that a late answer never settles another call. */
const SLOT_BITS = 20;
const SLOTS = 2 ** SLOT_BITS;
const MAX_GENERATION = 2 ** (53 - SLOT_BITS) - 1;
const FIRST_SLOTS = 1024;

/**
 * Open calls by id. `T` is the shell's record of a call. Each id is taken once: whoever takes it settles the call.
 * States of a slot: *free*, *open* (from `open` to `take`); a taken slot is free at once, under its next generation.
 */
export class CallTable<T> {
  private records: (T | undefined)[] = [];
  private deadlines: Float64Array = new Float64Array(FIRST_SLOTS);
  private generations: Float64Array = new Float64Array(FIRST_SLOTS);
  private readonly free: number[] = [];
  private used = 0;
  private open_ = 0;
  /** No open call has an earlier deadline; the real earliest may be later. */
  private earliest = Infinity;
  private readonly capacity: number;

  /** @param capacity the most calls open at once. */
  constructor(capacity: number = SLOTS) {
    this.capacity = Math.min(capacity, SLOTS);
  }

  /** Calls that are open. */
  get size(): number {
    return this.open_;
  }

  /**
   * Opens a call. Its id is positive and never used again.
   * @param deadline the time at which `expired` returns it; Infinity = never.
   * @returns the id, or 0 when the table is full.
   */
  open(record: T, deadline: number): number {
    const slot = this.free.pop() ?? this.grow();
    if (slot < 0) return 0;
    this.records[slot] = record;
    this.deadlines[slot] = deadline;
    if (deadline < this.earliest) this.earliest = deadline;
    this.open_++;
    return (this.generations[slot] as number) * SLOTS + slot;
  }

  /** The record of an open call; undefined when it is settled, or never was. */
  get(id: number): T | undefined {
    const slot = id % SLOTS;
    return slot < this.used && (this.generations[slot] as number) * SLOTS + slot === id
      ? this.records[slot]
      : undefined;
  }

  /** Closes a call and gives its record to who settles it; undefined when another has. */
  take(id: number): T | undefined {
    const slot = id % SLOTS;
    if (slot >= this.used || (this.generations[slot] as number) * SLOTS + slot !== id) return undefined;
    const record = this.records[slot];
    if (record === undefined) return undefined;
    this.records[slot] = undefined;
    this.deadlines[slot] = Infinity;
    this.open_--;
    const next = (this.generations[slot] as number) + 1;
    // A slot whose generations are used up is retired: after 8.5 billion calls each.
    if (next <= MAX_GENERATION) {
      this.generations[slot] = next;
      this.free.push(slot);
    }
    return record;
  }

  /** A time before which no deadline passes; Infinity when there is none. */
  nextDeadline(): number {
    return this.open_ === 0 ? Infinity : this.earliest;
  }

  /** The ids of the calls whose deadline is not after `now`; each is told once, and stays open until taken. */
  expired(now: number): number[] {
    if (now < this.earliest) return [];
    const due: number[] = [];
    let earliest = Infinity;
    for (let slot = 0; slot < this.used; slot++) {
      const deadline = this.deadlines[slot] as number;
      if (deadline <= now) due.push((this.generations[slot] as number) * SLOTS + slot);
      else if (deadline < earliest) earliest = deadline;
    }
    this.earliest = earliest;
    return due;
  }

  /** The ids of the open calls that `filter` picks. */
  ids(filter: (record: T) => boolean): number[] {
    const found: number[] = [];
    for (let slot = 0; slot < this.used; slot++) {
      const record = this.records[slot];
      if (record !== undefined && filter(record)) found.push((this.generations[slot] as number) * SLOTS + slot);
    }
    return found;
  }

  private grow(): number {
    if (this.used >= this.capacity) return -1;
    const slot = this.used++;
    if (slot >= this.deadlines.length) {
      this.deadlines = doubled(this.deadlines);
      this.generations = doubled(this.generations);
    }
    this.generations[slot] = 1;
    this.records[slot] = undefined;
    return slot;
  }
}

function doubled(values: Float64Array): Float64Array {
  const larger = new Float64Array(values.length * 2);
  larger.set(values);
  return larger;
}
