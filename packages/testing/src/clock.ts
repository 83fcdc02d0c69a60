/** @file Virtual time: a heap of events ordered by (time, order of scheduling). */

/** One scheduled event; `cancel` is idempotent and harmless after it ran. */
export interface Scheduled {
  /** When it is due, in virtual milliseconds. */
  readonly time: number;
  /** What it is, for traces and the event hash. */
  readonly label: string;
  cancel(): void;
}

/** A clock that only moves when an event runs. */
export class VirtualClock {
  #now: number;
  #order = 0;
  #live = 0;
  readonly #heap: Entry[] = [];

  /** @param start the first virtual time in milliseconds. */
  constructor(start = 0) {
    this.#now = start;
  }

  /** Virtual milliseconds. */
  get now(): number {
    return this.#now;
  }

  /** Events that are scheduled and not cancelled. */
  get pending(): number {
    return this.#live;
  }

  /** Runs `action` at `time` (never before now); events of the same time run in the order they were scheduled. */
  at(time: number, label: string, action: () => void): Scheduled {
    if (Number.isNaN(time)) throw new RangeError(`event ${label} has no time`);
    const entry = new Entry(Math.max(time, this.#now), this.#order++, label, action, () => this.#live--);
    this.#live++;
    push(this.#heap, entry);
    return entry;
  }

  /** Runs `action` in `delay` virtual milliseconds. */
  after(delay: number, label: string, action: () => void): Scheduled {
    return this.at(this.#now + Math.max(0, delay), label, action);
  }

  /** The time of the next event, or undefined when nothing is scheduled. */
  peek(): number | undefined {
    for (let top = this.#heap[0]; top !== undefined; top = this.#heap[0]) {
      if (top.action !== undefined) return top.time;
      pop(this.#heap);
    }
    return undefined;
  }

  /** Takes the next event at or before `limit`, moves the time to it and runs it; undefined when there is none. */
  step(limit = Infinity): Scheduled | undefined {
    const time = this.peek();
    if (time === undefined || time > limit) return undefined;
    const entry = pop(this.#heap) as Entry;
    const action = entry.action as () => void;
    this.#now = Math.max(this.#now, time);
    entry.action = undefined;
    this.#live--;
    action();
    return entry;
  }

  /** Moves the time forward without running anything; events that are overdue then run at the new time. */
  advanceTo(time: number): void {
    this.#now = Math.max(this.#now, time);
  }
}

class Entry implements Scheduled {
  readonly time: number;
  readonly order: number;
  readonly label: string;
  action: (() => void) | undefined;
  readonly #cancelled: () => void;

  constructor(time: number, order: number, label: string, action: () => void, cancelled: () => void) {
    this.time = time;
    this.order = order;
    this.label = label;
    this.action = action;
    this.#cancelled = cancelled;
  }

  cancel(): void {
    if (this.action === undefined) return;
    this.action = undefined;
    this.#cancelled();
  }
}

function before(a: Entry, b: Entry): boolean {
  return a.time < b.time || (a.time === b.time && a.order < b.order);
}

function push(heap: Entry[], entry: Entry): void {
  let index = heap.length;
  heap.push(entry);
  while (index > 0) {
    const parent = (index - 1) >> 1;
    const above = heap[parent] as Entry;
    if (!before(entry, above)) break;
    heap[index] = above;
    index = parent;
  }
  heap[index] = entry;
}

function pop(heap: Entry[]): Entry | undefined {
  const top = heap[0];
  const last = heap.pop();
  if (top === undefined || last === undefined || heap.length === 0) return top;
  let index = 0;
  for (;;) {
    let child = 2 * index + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && before(heap[child + 1] as Entry, heap[child] as Entry)) child++;
    const below = heap[child] as Entry;
    if (!before(below, last)) break;
    heap[index] = below;
    index = child;
  }
  heap[index] = last;
  return top;
}
