/** @file The exchanges of one replica: one after the other, each failed on all workers when it is on one, and none after that. */
import { currentExchange, inExchange, type ReplicaSeat, type Room } from './exchange.ts';
import { LooseSeat, MOST_ROOM, seatIn, type SeatingGroup } from './replica-seats.ts';
import type { Tags, Turn } from './replicas.ts';

/** What an exchange calls. */
export interface Calls {
  /** Fires when the exchange has failed. */
  readonly signal: AbortSignal;
  /** The members, by rank; undefined where nobody knows their names. */
  readonly workers: readonly string[] | undefined;
  /** How much may be under way at once. */
  readonly room: () => Room | Promise<Room>;
  /** Runs what calls the group, or anything else of a program that may. @throws the cause as soon as the exchange has failed. */
  readonly call: <T>(tags: Tags, bucket: number | undefined, fn: () => T | Promise<T>) => Promise<T>;
}

let made = 0;

export class Exchanges {
  /** Undefined where there is nobody to exchange anything with. */
  private readonly seat: ReplicaSeat | undefined;
  private readonly place = ++made;
  private begun = 0;
  private running: AbortController | undefined;
  /** Resolves when the last one that was asked for is over. */
  private last: Promise<unknown> = Promise.resolve();
  /** Why this replica may be out of step with its group. */
  private broken: { readonly cause: unknown } | undefined;

  constructor(group: SeatingGroup | undefined) {
    this.seat = group === undefined || group.size === 1 ? undefined : seatIn(group);
  }

  /** What says to other workers that a value is of this replica. */
  get replica(): number {
    return this.seat?.number ?? 0;
  }

  /** Its seat, where the group gave one: its members are known then. */
  get members(): ReplicaSeat | undefined {
    return this.seat instanceof LooseSeat ? undefined : this.seat;
  }

  /** When its passes may run beside those of other replicas. */
  get turn(): Turn {
    return { line: this.seat?.line ?? '', place: this.place };
  }

  /** @throws Error when one has failed. */
  check(): void {
    if (this.broken !== undefined) throw brokenError(this.broken.cause);
  }

  /** There is none from now on, and the one that runs has failed: this worker cannot go on, or others have told that they do not. */
  fail(cause: unknown): void {
    if (this.seat === undefined || this.broken !== undefined) return;
    this.broken = { cause };
    this.seat.fail(cause, this.running === undefined ? this.begun : this.begun - 1);
    this.running?.abort(cause);
  }

  /** Runs what all members have to get through: without an answer nobody knows who is in step. */
  async together<T>(run: () => T | Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }

  /**
   * An exchange, when those before it are over. `signal` fails it.
   * @throws what it failed with, on this worker or on another; Error when one has failed before; TypeError inside of another one, which
   *   would wait for this one and this one for it.
   */
  async run<T>(exchange: (calls: Calls) => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.seat !== undefined && currentExchange()?.seat === this.seat)
      throw new TypeError(
        'a hook of a DistributedDataParallel can make no pass with that one, which waits for the hook',
      );
    const before = this.last;
    let over!: () => void;
    this.last = new Promise<void>((resolve) => (over = resolve));
    try {
      await before;
      return await this.next(exchange, signal);
    } finally {
      over();
    }
  }

  private async next<T>(exchange: (calls: Calls) => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    this.check();
    const running = (this.running = new AbortController());
    const number = ++this.begun;
    const abort = (): void => (this.seat === undefined ? running.abort(signal?.reason) : this.fail(signal?.reason));
    signal?.addEventListener('abort', abort, { once: true });
    // What comes late to one that failed is refused, and not taken for something else.
    const goesOn = (): boolean => this.running === running || running.signal.aborted;
    let unwatch: (() => void) | undefined;
    try {
      unwatch = this.seat?.watch((error, after) => {
        if (after < number) this.fail(error);
      });
      if (signal?.aborted === true) abort();
      running.signal.throwIfAborted();
      return await exchange(callsOf(this.seat, number, running.signal, goesOn));
    } catch (error) {
      // Of what was under way the first thing that happened counts.
      this.fail(error);
      if (!running.signal.aborted) throw error;
      // As it is: a hook may have thrown anything.
      throw (this.broken === undefined ? running.signal.reason : this.broken.cause) as Error;
    } finally {
      unwatch?.();
      signal?.removeEventListener('abort', abort);
      this.running = undefined;
    }
  }
}

function callsOf(seat: ReplicaSeat | undefined, exchange: number, signal: AbortSignal, goesOn: () => boolean): Calls {
  const failed = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
  failed.catch(() => undefined);
  return {
    signal,
    workers: seat?.workers,
    room: () => {
      const room = seat?.room() ?? MOST_ROOM;
      return room instanceof Promise ? Promise.race([room, failed]) : room;
    },
    call: async (tags, bucket, fn) => {
      const about = { ...tags, exchange };
      const answer = seat === undefined ? fn() : inExchange({ seat, tags: about, bucket, signal, goesOn }, fn);
      // Nobody waits for an answer once the exchange has failed.
      return answer instanceof Promise ? Promise.race([answer, failed]) : answer;
    },
  };
}

function brokenError(cause: unknown): Error {
  const why = cause instanceof Error ? cause.message : String(cause);
  const text = `this DistributedDataParallel may be out of step with its group since a pass failed (${why})`;
  return new Error(`${text}: make new replicas on every worker`, { cause });
}
