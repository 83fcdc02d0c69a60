/** @file How many handlers may run at once, what waits for one of the others to finish, and that no caller takes all of it. */

/** Entries that have started or left are cut off in pieces of this many, so that taking one costs nothing. */
const CUT = 4_096;
/** From this many slots on some are kept free of whoever has most: with fewer a caller may have all of them. */
const SHARED_FROM = 64;
/** A caller may hold this many times as many slots as are free: one alone seven eighths of all, two seven fifteenths each. */
const TIMES_FREE = 7;

/** One that waits; without `start` it has started or left. */
interface Entry {
  start: (() => void) | undefined;
}

/** What one caller has of the slots, and its calls that wait for one, first come, first served. */
export class Share {
  /** Slots that its calls hold. */
  held = 0;
  /** Those that wait. */
  queued = 0;
  private queue: Entry[] = [];
  private head = 0;

  push(start: () => void): Entry {
    const entry = { start };
    this.queue.push(entry);
    this.queued++;
    return entry;
  }

  shift(): () => void {
    let start: (() => void) | undefined;
    while (start === undefined) {
      const entry = this.queue[this.head++] as Entry;
      start = entry.start;
      entry.start = undefined;
    }
    this.over();
    return start;
  }

  /** One does not wait any more: nothing of it is kept. False when it has started. */
  drop(entry: Entry): boolean {
    if (entry.start === undefined) return false;
    entry.start = undefined;
    this.over();
    return true;
  }

  private over(): void {
    this.queued--;
    if (this.queued === 0) this.queue.length = 0;
    else if (this.queue.length - this.queued >= Math.max(CUT, this.queued))
      this.queue = this.queue.filter(({ start }) => start !== undefined);
    else return;
    this.head = 0;
  }
}

/** A call that may hold a slot. */
interface Holder {
  holdsSlot: boolean;
  /** Takes it out of the line. */
  leaveLine: (() => void) | undefined;
  readonly origin: { readonly share: Share };
}

/**
 * Slots of handlers. Callers whose calls wait take turns, and one that already holds many waits while others find slots: a caller whose
 * handlers never end leaves an eighth of the slots to all others. The bound of the queues is the credit of the callers.
 */
export class ConcurrencyLimit {
  /** Slots that are taken. */
  used = 0;
  private readonly most: number;
  /** Callers with calls that wait, in turn. */
  private readonly turns: Share[] = [];
  private starting = false;

  constructor(most: number) {
    this.most = most;
  }

  /** Whether a call of this caller may start now. */
  hasRoom(share: Share): boolean {
    const free = this.most - this.used;
    return free > 0 && (this.most < SHARED_FROM || share.held < TIMES_FREE * free);
  }

  /** What waits. */
  get queued(): number {
    return this.turns.reduce((sum, { queued }) => sum + queued, 0);
  }

  /**
   * Calls `start` when it is the turn of this caller; it takes a slot, or leaves it to the next. What is returned takes it out of the line:
   * the credit of one that was cancelled goes back to its caller at once, and the line must not keep what is no longer bounded by it.
   */
  wait(share: Share, start: () => void): () => void {
    if (share.queued === 0) this.turns.push(share);
    const entry = share.push(start);
    return () => {
      if (share.drop(entry) && share.queued === 0) this.turns.splice(this.turns.indexOf(share), 1);
    };
  }

  /** Takes a slot, whether or not there is one. */
  take(call: Holder): void {
    call.holdsSlot = true;
    call.origin.share.held++;
    this.used++;
  }

  /** Takes a slot for a call; undefined when it has it at once. One that leaves the line goes on without. */
  hold(call: Holder): Promise<void> | undefined {
    const { share } = call.origin;
    if (this.hasRoom(share)) {
      this.take(call);
      return undefined;
    }
    // Taken before the waiter goes on, or others would take the same one meanwhile.
    return new Promise((resolve) => {
      const leave = this.wait(share, () => {
        call.leaveLine = undefined;
        this.take(call);
        resolve();
      });
      call.leaveLine = () => {
        leave();
        resolve();
      };
    });
  }

  /** Gives back the slot that a call holds, if it holds one. */
  give(call: Holder): void {
    if (!call.holdsSlot) return;
    call.holdsSlot = false;
    call.origin.share.held--;
    this.used--;
  }

  /** The same, and starts what waits. */
  release(call: Holder): void {
    if (!call.holdsSlot) return;
    this.give(call);
    this.next();
  }

  /** Starts what waits, as far as there are slots. */
  next(): void {
    // A handler that returns at once ends in here again: the outer loop goes on, or the stack would grow with the queue.
    if (this.starting || this.turns.length === 0) return;
    this.starting = true;
    try {
      for (let share = this.takeTurn(); share !== undefined; share = this.takeTurn()) {
        const start = share.shift();
        if (share.queued > 0) this.turns.push(share);
        start();
      }
    } finally {
      this.starting = false;
    }
  }

  /** The first of those that wait who may have a slot. */
  private takeTurn(): Share | undefined {
    const at = this.turns.findIndex((share) => this.hasRoom(share));
    return at < 0 ? undefined : this.turns.splice(at, 1)[0];
  }
}
