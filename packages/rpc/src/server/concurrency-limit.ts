/** @file How many handlers may run at once, and what waits for one of the others to finish. */

/** Started entries are cut off in pieces of this many, so that taking one costs nothing. */
const CUT = 4_096;

/** A call that may hold a slot. */
interface Holder {
  holdsSlot: boolean;
}

/** Slots of handlers, first come, first served. The bound of the queue is the credit of the callers. */
export class ConcurrencyLimit {
  /** Slots that are taken. */
  used = 0;
  private readonly most: number;
  private readonly queue: (() => void)[] = [];
  private head = 0;
  private starting = false;

  constructor(most: number) {
    this.most = most;
  }

  get full(): boolean {
    return this.used >= this.most;
  }

  /** What waits. */
  get queued(): number {
    return this.queue.length - this.head;
  }

  /** Calls `start` when a slot is free; it takes one, or leaves it to the next. */
  wait(start: () => void): void {
    this.queue.push(start);
  }

  /** Takes a slot, at once or when one is free. */
  take(): Promise<void> | undefined {
    if (!this.full) {
      this.used++;
      return undefined;
    }
    // Taken before the waiter goes on, or others would take the same one meanwhile.
    return new Promise((resolve) =>
      this.wait(() => {
        this.used++;
        resolve();
      }),
    );
  }

  give(): void {
    this.used--;
  }

  /** Takes a slot for a call; undefined when it has it at once. */
  hold(call: Holder): Promise<void> | undefined {
    const holds = (): void => void (call.holdsSlot = true);
    const free = this.take();
    if (free !== undefined) return free.then(holds);
    holds();
    return undefined;
  }

  /** Gives back the slot that a call holds, if it holds one, and starts what waits. */
  release(call: Holder): void {
    if (!call.holdsSlot) return;
    call.holdsSlot = false;
    this.give();
    this.next();
  }

  /** Starts what waits, as far as there are slots. */
  next(): void {
    // A handler that returns at once ends in here again: the outer loop goes on, or the stack would grow with the queue.
    if (this.starting) return;
    this.starting = true;
    try {
      while (!this.full && this.head < this.queue.length) {
        const start = this.queue[this.head++] as () => void;
        if (this.head === this.queue.length) {
          this.queue.length = 0;
          this.head = 0;
        } else if (this.head === CUT) {
          this.queue.splice(0, CUT);
          this.head = 0;
        }
        start();
      }
    } finally {
      this.starting = false;
    }
  }
}
