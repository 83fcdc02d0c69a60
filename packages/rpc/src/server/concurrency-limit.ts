/** @file How many handlers may run at once, what waits for one of the others to finish, and that no caller takes all of it. */

/** Started entries are cut off in pieces of this many, so that taking one costs nothing. */
const CUT = 4_096;
/** From this many slots on some are kept free of whoever has most: with fewer a caller may have all of them. */
const SHARED_FROM = 64;
/** A caller may hold this many times as many slots as are free: one alone seven eighths of all, two seven fifteenths each. */
const TIMES_FREE = 7;

/** What one caller has of the slots, and its calls that wait for one, first come, first served. */
export class Share {
  /** Slots that its calls hold. */
  held = 0;
  private readonly queue: (() => void)[] = [];
  private head = 0;

  get queued(): number {
    return this.queue.length - this.head;
  }

  push(start: () => void): void {
    this.queue.push(start);
  }

  shift(): () => void {
    const start = this.queue[this.head++] as () => void;
    if (this.head === this.queue.length) {
      this.queue.length = 0;
      this.head = 0;
    } else if (this.head === CUT) {
      this.queue.splice(0, CUT);
      this.head = 0;
    }
    return start;
  }
}

/** A call that may hold a slot. */
interface Holder {
  holdsSlot: boolean;
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

  /** Calls `start` when it is the turn of this caller; it takes a slot, or leaves it to the next. */
  wait(share: Share, start: () => void): void {
    if (share.queued === 0) this.turns.push(share);
    share.push(start);
  }

  /** Takes a slot, whether or not there is one. */
  take(call: Holder): void {
    call.holdsSlot = true;
    call.origin.share.held++;
    this.used++;
  }

  /** Takes a slot for a call; undefined when it has it at once. */
  hold(call: Holder): Promise<void> | undefined {
    const { share } = call.origin;
    if (this.hasRoom(share)) {
      this.take(call);
      return undefined;
    }
    // Taken before the waiter goes on, or others would take the same one meanwhile.
    return new Promise((resolve) =>
      this.wait(share, () => {
        this.take(call);
        resolve();
      }),
    );
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
